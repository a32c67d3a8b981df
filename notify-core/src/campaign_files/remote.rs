//! The campaigns of a server, in the form of files.

use std::collections::HashMap;

use serde_json::json;

use super::{CampaignDefinition, feeds_mut, to_object};
use crate::{Campaign, CampaignId, CampaignRecord, CampaignStatus, Feed, FeedId};

/// Most campaigns of an application that files support.
pub const CAMPAIGNS_MAX: u64 = 10_000;

/// A campaign of the server, with feeds by url.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteCampaign {
    /// Id.
    pub id: CampaignId,
    /// The campaign.
    pub campaign: CampaignDefinition,
}

impl RemoteCampaign {
    /// The campaign of a record. `feeds` contains the feeds of the application.
    #[must_use]
    pub fn new(record: CampaignRecord, feeds: &HashMap<FeedId, Feed>) -> Self {
        let mut template = to_object(&record.template);
        for feed in feeds_mut(&mut template) {
            let id = feed["id"].as_str().and_then(|id| id.parse().ok());
            if let Some(existing) = id.and_then(|id: FeedId| feeds.get(&id)) {
                *feed = json!({ "url": existing.url, "name": existing.name });
            }
        }
        let campaign = CampaignDefinition {
            name: record.template.name,
            status: record.campaign.status,
            is_default: record.campaign.is_default,
            template,
        };
        Self { id: record.campaign.id, campaign }
    }
}

/// Chooses the campaigns that files can have, sorted by name. Of several campaigns with the same name, it
/// returns the active one, or the newest if none is active. `listed` contains all campaigns of the
/// application, newest first.
///
/// # Errors
///
/// Each pair of active campaigns with the same name.
pub fn one_per_name(mut listed: Vec<Campaign>) -> Result<Vec<Campaign>, Vec<String>> {
    // The sort is stable: campaigns with equal keys stay in the order of the listing, newest first.
    listed.sort_by(|a, b| {
        let is_inactive = |status| status != CampaignStatus::Active;
        (&a.name, is_inactive(a.status)).cmp(&(&b.name, is_inactive(b.status)))
    });
    let mut errors = Vec::new();
    let mut chosen: Vec<Campaign> = Vec::new();
    for campaign in listed {
        match chosen.last() {
            Some(last) if last.name == campaign.name => {
                if campaign.status == CampaignStatus::Active {
                    let (name, first, second) = (&campaign.name, last.id, campaign.id);
                    errors.push(format!(
                        "two active campaigns are named `{name}` ({first}, {second}): disable or \
                         rename one"
                    ));
                }
            }
            Some(_) | None => chosen.push(campaign),
        }
    }
    if errors.is_empty() { Ok(chosen) } else { Err(errors) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;

    #[test]
    fn the_active_or_newest_campaign_of_a_name_is_chosen() {
        use CampaignStatus::{Active, Disabled};
        let campaign = |number: u64, name: &str, status| Campaign {
            id: format!("0190a3b2-7f00-7000-8000-{number:012}").parse().unwrap(),
            name: name.to_owned(),
            status,
            is_default: false,
            created_at: Timestamp(0),
        };
        let listed = vec![
            campaign(6, "b", Disabled),
            campaign(5, "a", Disabled),
            campaign(4, "b", Active),
            campaign(3, "a", Disabled),
            campaign(2, "b", Disabled),
        ];
        let expected = [listed[1].clone(), listed[2].clone()];
        assert_eq!(one_per_name(listed.clone()).unwrap(), expected);
        let second = campaign(1, "b", Active);
        let (one, two) = (listed[2].id, second.id);
        assert_eq!(
            one_per_name([listed, vec![second]].concat()).unwrap_err(),
            [format!("two active campaigns are named `b` ({one}, {two}): disable or rename one")]
        );
    }
}
