//! What a campaign shows (B31): its template, and the newest items of the feeds that it names.

use notify_core::{
    CampaignFeatureData, CampaignRecord, CampaignRef, CampaignTemplate, FeedId, FeedRef,
};

use super::{CAMPAIGN, record};
use crate::store::sql::feed::fetch::items_of;
use crate::store::sql::{Connection, OptionalExtension, params};
use crate::store::{AppNo, ShownCampaign, ShownFeed, StoreError};

/// Reads an active campaign.
pub(super) fn active(
    connection: &Connection,
    app: AppNo,
    campaign: CampaignRef,
) -> Result<CampaignRecord, StoreError> {
    let select = format!("select {CAMPAIGN}, template from campaigns where app_no = ?1");
    match campaign {
        CampaignRef::Default => {
            let sql = format!("{select} and is_default = 1 and status = 'active'");
            record(connection, &sql, params![app.0])
        }
        CampaignRef::Id(id) => {
            let sql = format!("{select} and id = ?2 and status = 'active'");
            record(connection, &sql, params![app.0, id.0.as_bytes()])
        }
    }
}

/// Reads an active campaign and its feeds.
pub(super) fn shown(
    connection: &Connection,
    app: AppNo,
    campaign: CampaignRef,
) -> Result<ShownCampaign, StoreError> {
    let record = active(connection, app, campaign)?;
    let limit = record.template.layout_id.articles();
    let mut feeds: Vec<ShownFeed> = Vec::new();
    for id in named(&record.template) {
        if feeds.iter().any(|known| known.id == id) {
            continue;
        }
        let found = connection
            .prepare_cached("select no, name from feeds where app_no = ?1 and id = ?2")?
            .query_row(params![app.0, id.0.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        if let Some((no, name)) = found {
            feeds.push(ShownFeed { id, name, items: items_of(connection, no, limit)? });
        }
    }
    Ok(ShownCampaign { record, feeds })
}

/// The feeds that a template names; a stored one names them by id.
fn named(template: &CampaignTemplate) -> impl Iterator<Item = FeedId> {
    let contents = template.features.iter().filter_map(|feature| match &feature.data {
        CampaignFeatureData::ContentFeed(content) => Some(&content.feeds),
        CampaignFeatureData::ExternalContent(_)
        | CampaignFeatureData::ActionButton(_)
        | CampaignFeatureData::CustomFeed(_) => None,
    });
    contents.flatten().filter_map(|feed| match feed {
        FeedRef::Id { id } => Some(*id),
        FeedRef::Url { .. } => None,
    })
}
