//! Campaigns, and the feeds that their templates name.

use notify_core::{
    Campaign, CampaignCreated, CampaignFeatureData, CampaignFilter, CampaignId, CampaignPage,
    CampaignRecord, CampaignRef, CampaignStatus, CampaignTemplate, FeedId, FeedRef, NewFeed,
    Timestamp,
};

use crate::store::feed::{self, items_of};
use crate::store::sql::error::{inserted, internal};
use crate::store::sql::row::{case_fold, require_app, unexpected_value, uuid_at};
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{self, Connection, OptionalExtension, Row, Type, WriteScope, params};
use crate::store::{
    AppNo, EnrichmentChange, FeedItemRow, Idempotent, IdempotentRequest, Operation, Store,
    StoreError,
};

/// A campaign to create or to replace. The feeds that its template names by URL are created, if
/// they do not exist.
#[derive(Debug, Clone)]
pub struct CampaignDraft {
    /// The id of the campaign.
    pub id: CampaignId,
    /// The template.
    pub template: CampaignTemplate,
    /// Ids for new feeds: one for each URL in the template, in order.
    pub feed_ids: Vec<FeedId>,
    /// Now.
    pub at: Timestamp,
}

/// A campaign and the items of its feeds.
#[derive(Debug, Clone)]
pub struct ShownCampaign {
    /// The campaign.
    pub record: CampaignRecord,
    /// The feeds of the campaign.
    pub feeds: Vec<ShownFeed>,
}

/// A feed with its newest items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownFeed {
    /// The id.
    pub id: FeedId,
    /// The name.
    pub name: String,
    /// The items, newest first.
    pub items: Vec<FeedItemRow>,
}

/// The columns that [`campaign_of`] reads.
const CAMPAIGN_COLUMNS: &str = "id, name, status, is_default, created_at";

impl Store {
    /// Creates a campaign and the feeds that it names by URL, in one transaction. An unknown feed
    /// id is refused with its path. If the campaign is the default, the previous default campaign
    /// is no longer the default.
    pub async fn create_campaign(
        &self,
        app: AppNo,
        draft: CampaignDraft,
        once: Option<IdempotentRequest>,
    ) -> Result<Idempotent<CampaignCreated>, StoreError> {
        self.write_once(Operation::CreateCampaign, app, once, move |tx| {
            require_app(tx, app)?;
            insert(tx, app, &draft)?;
            record_changes(tx, app, &draft);
            Ok(CampaignCreated { id: draft.id })
        })
        .await
    }

    /// Replaces the template of a campaign.
    pub async fn replace_campaign(
        &self,
        app: AppNo,
        draft: CampaignDraft,
    ) -> Result<(), StoreError> {
        self.write_to(WriteScope::app(app), Operation::ReplaceCampaign, move |tx| {
            replace(tx, app, &draft)?;
            record_changes(tx, app, &draft);
            Ok(())
        })
        .await
    }

    /// Activates or disables a campaign.
    pub async fn set_campaign_status(
        &self,
        app: AppNo,
        id: CampaignId,
        status: CampaignStatus,
    ) -> Result<(), StoreError> {
        self.write_to(WriteScope::app(app), Operation::SetCampaignStatus, move |tx| {
            let state = read_state(tx, app, id)?;
            if state.is_default && status == CampaignStatus::Disabled {
                let what = "the default campaign cannot be disabled";
                return Err(StoreError::refused("status", what));
            }
            tx.prepare_cached("update campaigns set status = ?2 where no = ?1")?
                .execute(params![state.no, status.as_str()])?;
            tx.changed(EnrichmentChange::Campaign(app));
            Ok(())
        })
        .await
    }

    /// Deletes a campaign that no notification names.
    pub async fn delete_campaign(&self, app: AppNo, id: CampaignId) -> Result<(), StoreError> {
        self.write_to(WriteScope::app(app), Operation::DeleteCampaign, move |tx| {
            let state = read_state(tx, app, id)?;
            if state.is_default {
                return Err(StoreError::refused("id", "the default campaign cannot be deleted"));
            }
            let is_named = tx
                .prepare_cached(
                    "select 1 from notifications indexed by notifications_by_campaign
                     where app_no = ?1 and campaign_id = ?2",
                )?
                .exists(params![app.0, id.0.as_bytes()])?;
            if is_named {
                let what = "notifications use the campaign; disable it instead";
                return Err(StoreError::refused("id", what));
            }
            tx.prepare_cached("delete from campaigns where no = ?1")?.execute([state.no])?;
            tx.changed(EnrichmentChange::Campaign(app));
            Ok(())
        })
        .await
    }

    /// Reads a campaign. Its template names all feeds by id.
    pub async fn campaign(&self, app: AppNo, id: CampaignId) -> Result<CampaignRecord, StoreError> {
        self.read(move |connection| {
            require_app(connection, app)?;
            let sql = format!(
                "select {CAMPAIGN_COLUMNS}, template from campaigns where app_no = ?1 and id = ?2"
            );
            read_record(connection, &sql, params![app.0, id.0.as_bytes()])
        })
        .await
    }

    /// Reads an active campaign.
    pub async fn active_campaign(
        &self,
        app: AppNo,
        campaign: CampaignRef,
    ) -> Result<CampaignRecord, StoreError> {
        self.read(move |connection| {
            require_app(connection, app)?;
            read_active(connection, app, campaign)
        })
        .await
    }

    /// Reads an active campaign with the newest items of its feeds. Each feed has at most as many
    /// items as the layout of the campaign shows.
    pub async fn shown_campaign(
        &self,
        app: AppNo,
        campaign: CampaignRef,
    ) -> Result<ShownCampaign, StoreError> {
        self.read(move |connection| {
            require_app(connection, app)?;
            read_with_items(connection, app, campaign)
        })
        .await
    }

    /// Lists campaigns, newest first. Campaigns of the same time are in descending order of their
    /// ids.
    pub async fn list_campaigns(
        &self,
        app: AppNo,
        page: CampaignPage,
    ) -> Result<Vec<Campaign>, StoreError> {
        self.read_long(move |connection| {
            require_app(connection, app)?;
            let status = match page.status {
                CampaignFilter::Active => Some(CampaignStatus::Active.as_str()),
                CampaignFilter::Disabled => Some(CampaignStatus::Disabled.as_str()),
                CampaignFilter::All => None,
            };
            let campaigns = connection
                .prepare_cached(&format!(
                    "select {CAMPAIGN_COLUMNS} from campaigns
                     where app_no = ?1 and (?2 is null or status = ?2)
                     and (?3 is null or instr(name_folded, ?3) > 0)
                     order by created_at desc, id desc limit ?4 offset ?5"
                ))?
                .query_map(
                    params![
                        app.0,
                        status,
                        page.name.as_deref().map(case_fold),
                        page.limit,
                        i64::try_from(page.offset).unwrap_or(i64::MAX)
                    ],
                    campaign_of,
                )?
                .collect::<Result<Vec<_>, _>>()?;
            Ok(campaigns)
        })
        .await
    }
}

/// Records the changes of a campaign, and of the feeds that may have been created with it.
fn record_changes(tx: &mut WriteTx<'_>, app: AppNo, draft: &CampaignDraft) {
    tx.changed(EnrichmentChange::Campaign(app));
    if !draft.feed_ids.is_empty() {
        tx.changed(EnrichmentChange::FeedDue);
    }
}

/// The fields of a campaign that decide which changes are allowed.
struct CampaignState {
    no: i64,
    is_default: bool,
    status: CampaignStatus,
}

fn read_state(tx: &Connection, app: AppNo, id: CampaignId) -> Result<CampaignState, StoreError> {
    require_app(tx, app)?;
    tx.prepare_cached("select no, is_default, status from campaigns where app_no = ?1 and id = ?2")?
        .query_row(params![app.0, id.0.as_bytes()], |row| {
            Ok(CampaignState {
                no: row.get(0)?,
                is_default: row.get(1)?,
                status: status_at(row, 2)?,
            })
        })
        .optional()?
        .ok_or(StoreError::NotFound)
}

fn insert(tx: &Connection, app: AppNo, draft: &CampaignDraft) -> Result<(), StoreError> {
    let (template, feeds) = resolve_feeds(tx, app, draft, Vec::new())?;
    if template.is_default {
        clear_default(tx, app)?;
    }
    let no = tx
        .prepare_insert(
            "insert into campaigns (no, app_no, id, name, name_folded, status, is_default,
             created_at, template) values (?1, ?2, ?3, ?4, ?5, 'active', ?6, ?7, ?8)",
        )?
        .insert(
            app,
            params![
                app.0,
                draft.id.0.as_bytes(),
                template.name,
                case_fold(&template.name),
                template.is_default,
                draft.at.as_ms(),
                serde_json::to_string(&template)?,
            ],
        )?;
    link_feeds(tx, inserted(no)?, &feeds)
}

fn replace(tx: &Connection, app: AppNo, draft: &CampaignDraft) -> Result<(), StoreError> {
    let state = read_state(tx, app, draft.id)?;
    let mut broken_rules = Vec::new();
    if draft.template.is_default && state.status == CampaignStatus::Disabled {
        broken_rules.push("is_default: a disabled campaign cannot be the default".to_owned());
    }
    let (template, feeds) = resolve_feeds(tx, app, draft, broken_rules)?;
    if template.is_default && !state.is_default {
        clear_default(tx, app)?;
    }
    tx.prepare_cached(
        "update campaigns set name = ?2, name_folded = ?3, is_default = ?4, template = ?5
         where no = ?1",
    )?
    .execute(params![
        state.no,
        template.name,
        case_fold(&template.name),
        template.is_default,
        serde_json::to_string(&template)?,
    ])?;
    tx.prepare_cached("delete from campaign_feeds where campaign_no = ?1")?.execute([state.no])?;
    link_feeds(tx, state.no, &feeds)
}

/// Removes the default from the campaign that has it.
fn clear_default(tx: &Connection, app: AppNo) -> Result<(), StoreError> {
    tx.prepare_cached("update campaigns set is_default = 0 where app_no = ?1 and is_default = 1")?
        .execute([app.0])?;
    Ok(())
}

/// Reads the campaign that a query selects: [`CAMPAIGN_COLUMNS`] and the template.
fn read_record(
    connection: &Connection,
    sql: &str,
    params: impl sql::Params,
) -> Result<CampaignRecord, StoreError> {
    let (campaign, template) = connection
        .prepare_cached(sql)?
        .query_row(params, |row| Ok((campaign_of(row)?, row.get::<String>(5)?)))
        .optional()?
        .ok_or(StoreError::NotFound)?;
    let mut template: CampaignTemplate = serde_json::from_str(&template)?;
    // Another campaign may have become the default since the template was written.
    template.is_default = campaign.is_default;
    Ok(CampaignRecord { campaign, template })
}

fn campaign_of(row: &Row<'_>) -> sql::Result<Campaign> {
    Ok(Campaign {
        id: CampaignId(uuid_at(row, 0)?),
        name: row.get(1)?,
        status: status_at(row, 2)?,
        is_default: row.get(3)?,
        created_at: Timestamp(row.get(4)?),
    })
}

fn status_at(row: &Row<'_>, column: usize) -> sql::Result<CampaignStatus> {
    let word: String = row.get(column)?;
    word.parse().map_err(|_| unexpected_value(column, Type::Text))
}

// Campaigns with the newest items of their feeds.

/// Reads an active campaign.
fn read_active(
    connection: &Connection,
    app: AppNo,
    campaign: CampaignRef,
) -> Result<CampaignRecord, StoreError> {
    let select = format!("select {CAMPAIGN_COLUMNS}, template from campaigns where app_no = ?1");
    match campaign {
        CampaignRef::Default => {
            let sql = format!("{select} and is_default = 1 and status = 'active'");
            read_record(connection, &sql, params![app.0])
        }
        CampaignRef::Id(id) => {
            let sql = format!("{select} and id = ?2 and status = 'active'");
            read_record(connection, &sql, params![app.0, id.0.as_bytes()])
        }
    }
}

/// Reads an active campaign, and its feeds with their newest items.
fn read_with_items(
    connection: &Connection,
    app: AppNo,
    campaign: CampaignRef,
) -> Result<ShownCampaign, StoreError> {
    let record = read_active(connection, app, campaign)?;
    let limit = record.template.layout_id.articles();
    let mut feeds: Vec<ShownFeed> = Vec::new();
    for id in feed_ids_of(&record.template) {
        if feeds.iter().any(|feed| feed.id == id) {
            continue;
        }
        let feed = connection
            .prepare_cached("select no, name from feeds where app_no = ?1 and id = ?2")?
            .query_row(params![app.0, id.0.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        if let Some((no, name)) = feed {
            feeds.push(ShownFeed { id, name, items: items_of(connection, no, limit)? });
        }
    }
    Ok(ShownCampaign { record, feeds })
}

/// The ids of the feeds that a stored template names.
fn feed_ids_of(template: &CampaignTemplate) -> impl Iterator<Item = FeedId> {
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

// The feeds that a campaign's template names.

/// Records the feeds that a campaign uses.
fn link_feeds(tx: &Connection, campaign: i64, feeds: &[i64]) -> Result<(), StoreError> {
    let mut link = tx.prepare_cached(
        "insert into campaign_feeds (campaign_no, feed_no) values (?1, ?2) on conflict do nothing",
    )?;
    for feed in feeds {
        link.execute([campaign, *feed])?;
    }
    Ok(())
}

/// Resolves the feeds of a draft. Returns the template with all feeds named by id, and the numbers
/// of the feeds. Feeds that are named by URL are created, if they do not exist. Unknown feed ids
/// are refused, in one error with the `broken_rules` that the caller found.
fn resolve_feeds(
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
        for (index, feed_ref) in content.feeds.iter_mut().enumerate() {
            let (no, id) = match feed_ref {
                FeedRef::Id { id } => match feed::number_of(tx, app, *id)? {
                    Some(no) => (no, *id),
                    None => {
                        let path = format!("features[{place}].data.feeds[{index}].id");
                        broken_rules.push(format!("{path}: no feed has this id"));
                        continue;
                    }
                },
                FeedRef::Url { url, name } => {
                    let id: FeedId = *ids.next().ok_or_else(|| internal("a feed without an id"))?;
                    let new = NewFeed { url: url.clone(), name: name.clone() };
                    let path = format!("features[{place}].data.feeds[{index}].url");
                    feed::find_or_create(tx, app, id, &new, &path, draft.at)?
                }
            };
            *feed_ref = FeedRef::Id { id };
            numbers.push(no);
        }
    }
    StoreError::refused_if(broken_rules)?;
    Ok((template, numbers))
}
