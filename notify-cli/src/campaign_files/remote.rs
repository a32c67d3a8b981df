//! The campaigns of a server, feeds by url.

use std::collections::HashMap;

use notify_client::{
    Client,
    notify_core::{Campaign as Listed, CampaignId, CampaignStatus, ListCampaigns, PageQuery},
};
use serde_json::{Value, json};

use super::{Campaign, feeds_mut, object};
use crate::{commands::PAGE_OF_ALL, failure::Failure};

/// Most campaigns that are kept as files.
const CAMPAIGNS_MAX: u64 = 10_000;

/// A campaign of the server.
pub(crate) struct Remote {
    pub(crate) id: CampaignId,
    pub(crate) campaign: Campaign,
}

impl Remote {
    /// The campaigns of the application, one a name, by name: of several the active one, of several
    /// disabled ones the newest. Two active ones of one name cannot be told apart.
    pub(crate) async fn all(notify: &Client) -> Result<Vec<Self>, Failure> {
        let mut listed = Vec::new();
        loop {
            let offset = Some(listed.len() as u64);
            let status = Some("all".to_owned());
            let query = ListCampaigns { offset, limit: Some(PAGE_OF_ALL), name: None, status };
            let page = notify.campaigns().list(&query).await?.campaigns;
            let is_last = page.len() < PAGE_OF_ALL as usize;
            listed.extend(page);
            if is_last {
                break;
            }
            if listed.len() as u64 >= CAMPAIGNS_MAX {
                return Err(Failure::Usage(format!("there are over {CAMPAIGNS_MAX} campaigns")));
            }
        }
        // The newest first among equals, as they are listed.
        listed.sort_by(|a, b| {
            let key = |status| status != CampaignStatus::Active;
            (&a.name, key(a.status)).cmp(&(&b.name, key(b.status)))
        });
        let mut wrong = Vec::new();
        let mut chosen: Vec<Listed> = Vec::new();
        for campaign in listed {
            match chosen.last() {
                Some(last) if last.name == campaign.name => {
                    if campaign.status == CampaignStatus::Active {
                        let (name, one, other) = (&campaign.name, last.id, campaign.id);
                        wrong.push(format!(
                            "two active campaigns are named `{name}` ({one}, {other}): disable or \
                             rename one"
                        ));
                    }
                }
                Some(_) | None => chosen.push(campaign),
            }
        }
        if !wrong.is_empty() {
            return Err(Failure::Files(wrong));
        }
        let urls = feed_urls(notify).await?;
        let mut all = Vec::with_capacity(chosen.len());
        for campaign in chosen {
            all.push(Self::read(notify, campaign.id, &urls).await?);
        }
        Ok(all)
    }

    async fn read(
        notify: &Client,
        id: CampaignId,
        urls: &HashMap<String, Value>,
    ) -> Result<Self, Failure> {
        let record = notify.campaigns().get(id).await?;
        let mut template = object(&record.template);
        for feed in feeds_mut(&mut template) {
            let known = feed["id"].as_str().and_then(|id| urls.get(id));
            if let Some(known) = known {
                feed.clone_from(known);
            }
        }
        let campaign = Campaign {
            name: record.template.name,
            status: record.campaign.status,
            is_default: record.campaign.is_default,
            template,
        };
        Ok(Self { id, campaign })
    }
}

/// Feeds as files name them, by id.
async fn feed_urls(notify: &Client) -> Result<HashMap<String, Value>, Failure> {
    let query = PageQuery { limit: Some(PAGE_OF_ALL), cursor: None };
    let feeds = notify.feeds();
    let mut pages = feeds.all(&query);
    let mut urls = HashMap::new();
    while let Some(feed) = pages.next().await {
        let feed = feed?;
        urls.insert(feed.id.to_string(), json!({ "url": feed.url, "name": feed.name }));
    }
    Ok(urls)
}
