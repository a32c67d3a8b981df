//! The feeds that a campaign's template names (B29).

use notify_core::{CampaignFeatureData, CampaignTemplate, FeedId, FeedRef, NewFeed};

use crate::store::sql::Connection;
use crate::store::sql::error::broken;
use crate::store::sql::feed;
use crate::store::{AppNo, CampaignDraft, StoreError};

/// Notes which feeds a campaign has.
pub(super) fn link_feeds(tx: &Connection, campaign: i64, feeds: &[i64]) -> Result<(), StoreError> {
    let mut link = tx.prepare_cached(
        "insert into campaign_feeds (campaign_no, feed_no) values (?1, ?2) on conflict do nothing",
    )?;
    for feed in feeds {
        link.execute([campaign, *feed])?;
    }
    Ok(())
}

/// The template with every feed named by id, and the numbers of these feeds. Feeds named by url are
/// made, or reused as they are (B29). Feeds that are not there are refused with the rules broken
/// before (B2).
pub(super) fn resolve_feeds(
    tx: &Connection,
    app: AppNo,
    draft: &CampaignDraft,
    mut broken_rules: Vec<String>,
) -> Result<(CampaignTemplate, Vec<i64>), StoreError> {
    let mut template = draft.template.clone();
    let mut ids = draft.feed_ids.iter();
    let mut numbers = Vec::new();
    for (place, feature) in template.features.iter_mut().enumerate() {
        let CampaignFeatureData::ContentFeed(content) = &mut feature.data else { continue };
        for (index, named) in content.feeds.iter_mut().enumerate() {
            let (no, id) = match named {
                FeedRef::Id { id } => match feed::number_of(tx, app, *id)? {
                    Some(no) => (no, *id),
                    None => {
                        let path = format!("features[{place}].data.feeds[{index}].id");
                        broken_rules.push(format!("{path}: names no feed"));
                        continue;
                    }
                },
                FeedRef::Url { url, name } => {
                    let id: FeedId = *ids.next().ok_or_else(|| broken("a feed without an id"))?;
                    let new = NewFeed { url: url.clone(), name: name.clone() };
                    let path = format!("features[{place}].data.feeds[{index}].url");
                    feed::make(tx, app, (id, &new), &path, draft.at)?
                }
            };
            *named = FeedRef::Id { id };
            numbers.push(no);
        }
    }
    StoreError::refused_if(broken_rules)?;
    Ok((template, numbers))
}
