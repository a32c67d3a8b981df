//! Campaigns (B27, B28). A stored template names every feed by id.

mod feeds;
mod shown;

use async_trait::async_trait;
use notify_core::{
    Campaign, CampaignCreated, CampaignFilter, CampaignId, CampaignPage, CampaignRecord,
    CampaignRef, CampaignStatus, CampaignTemplate, Timestamp,
};

use self::feeds::{link_feeds, resolve_feeds};
use self::shown::{active, shown};
use super::SqlStore;
use super::error::inserted;
use super::row::{folded, live_app, unknown_value, uuid_at};
use super::writer::WriteTx;
use crate::store::sql::{self, Connection, OptionalExtension, Row, Type, params};
use crate::store::{
    AppNo, CampaignDraft, CampaignStore, Change, Done, Once, ShownCampaign, StoreError,
};

/// Columns as [`campaign_of`] reads them.
const CAMPAIGN: &str = "id, name, status, is_default, created_at";

#[async_trait]
impl CampaignStore for SqlStore {
    async fn create_campaign(
        &self,
        app: AppNo,
        draft: CampaignDraft,
        once: Option<Once>,
    ) -> Result<Done<CampaignCreated>, StoreError> {
        self.write_once(app, once, move |tx| {
            live_app(tx, app)?;
            insert(tx, app, &draft)?;
            tell(tx, app, &draft);
            Ok(CampaignCreated { id: draft.id })
        })
        .await
    }

    async fn replace_campaign(&self, app: AppNo, draft: CampaignDraft) -> Result<(), StoreError> {
        self.write(move |tx| {
            replace(tx, app, &draft)?;
            tell(tx, app, &draft);
            Ok(())
        })
        .await
    }

    async fn set_campaign_status(
        &self,
        app: AppNo,
        id: CampaignId,
        status: CampaignStatus,
    ) -> Result<(), StoreError> {
        self.write(move |tx| {
            let found = find(tx, app, id)?;
            if found.is_default && status == CampaignStatus::Disabled {
                let what = "the default campaign cannot be disabled";
                return Err(StoreError::refused("status", what));
            }
            tx.prepare_cached("update campaigns set status = ?2 where no = ?1")?
                .execute(params![found.no, status.as_str()])?;
            tx.changed(Change::CampaignChanged(app));
            Ok(())
        })
        .await
    }

    async fn delete_campaign(&self, app: AppNo, id: CampaignId) -> Result<(), StoreError> {
        self.write(move |tx| {
            let found = find(tx, app, id)?;
            if found.is_default {
                return Err(StoreError::refused("id", "the default campaign cannot be deleted"));
            }
            let named = tx
                .prepare_cached(
                    "select 1 from notifications indexed by notifications_by_campaign
                     where app_no = ?1 and campaign_id = ?2",
                )?
                .exists(params![app.0, id.0.as_bytes()])?;
            if named {
                let what = "is named by notifications; disable it instead";
                return Err(StoreError::refused("id", what));
            }
            tx.prepare_cached("delete from campaigns where no = ?1")?.execute([found.no])?;
            tx.changed(Change::CampaignChanged(app));
            Ok(())
        })
        .await
    }

    async fn campaign(&self, app: AppNo, id: CampaignId) -> Result<CampaignRecord, StoreError> {
        self.read(move |connection| {
            live_app(connection, app)?;
            let sql =
                format!("select {CAMPAIGN}, template from campaigns where app_no = ?1 and id = ?2");
            record(connection, &sql, params![app.0, id.0.as_bytes()])
        })
        .await
    }

    async fn active_campaign(
        &self,
        app: AppNo,
        campaign: CampaignRef,
    ) -> Result<CampaignRecord, StoreError> {
        self.read(move |connection| {
            live_app(connection, app)?;
            active(connection, app, campaign)
        })
        .await
    }

    async fn shown_campaign(
        &self,
        app: AppNo,
        campaign: CampaignRef,
    ) -> Result<ShownCampaign, StoreError> {
        self.read(move |connection| {
            live_app(connection, app)?;
            shown(connection, app, campaign)
        })
        .await
    }

    async fn list_campaigns(
        &self,
        app: AppNo,
        page: CampaignPage,
    ) -> Result<Vec<Campaign>, StoreError> {
        self.read(move |connection| {
            live_app(connection, app)?;
            let status = match page.status {
                CampaignFilter::Active => Some(CampaignStatus::Active.as_str()),
                CampaignFilter::Disabled => Some(CampaignStatus::Disabled.as_str()),
                CampaignFilter::All => None,
            };
            let campaigns = connection
                .prepare_cached(&format!(
                    "select {CAMPAIGN} from campaigns
                     where app_no = ?1 and (?2 is null or status = ?2)
                     and (?3 is null or instr(name_folded, ?3) > 0)
                     order by created_at desc, id desc limit ?4 offset ?5"
                ))?
                .query_map(
                    params![
                        app.0,
                        status,
                        page.name.as_deref().map(folded),
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

/// Tells that a campaign was written, and of the feeds that it may have made.
fn tell(tx: &mut WriteTx<'_>, app: AppNo, draft: &CampaignDraft) {
    tx.changed(Change::CampaignChanged(app));
    if !draft.feed_ids.is_empty() {
        tx.changed(Change::FeedDue);
    }
}

/// What decides what may be done with a campaign.
struct Found {
    no: i64,
    is_default: bool,
    status: CampaignStatus,
}

fn find(tx: &Connection, app: AppNo, id: CampaignId) -> Result<Found, StoreError> {
    live_app(tx, app)?;
    tx.prepare_cached("select no, is_default, status from campaigns where app_no = ?1 and id = ?2")?
        .query_row(params![app.0, id.0.as_bytes()], |row| {
            Ok(Found { no: row.get(0)?, is_default: row.get(1)?, status: status_at(row, 2)? })
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
        .row(
            app,
            params![
                app.0,
                draft.id.0.as_bytes(),
                template.name,
                folded(&template.name),
                template.is_default,
                draft.at.as_ms(),
                serde_json::to_string(&template)?,
            ],
        )?;
    link_feeds(tx, inserted(no)?, &feeds)
}

fn replace(tx: &Connection, app: AppNo, draft: &CampaignDraft) -> Result<(), StoreError> {
    let found = find(tx, app, draft.id)?;
    let mut broken_rules = Vec::new();
    if draft.template.is_default && found.status == CampaignStatus::Disabled {
        broken_rules.push("is_default: a disabled campaign cannot be the default".to_owned());
    }
    let (template, feeds) = resolve_feeds(tx, app, draft, broken_rules)?;
    if template.is_default && !found.is_default {
        clear_default(tx, app)?;
    }
    tx.prepare_cached(
        "update campaigns set name = ?2, name_folded = ?3, is_default = ?4, template = ?5
         where no = ?1",
    )?
    .execute(params![
        found.no,
        template.name,
        folded(&template.name),
        template.is_default,
        serde_json::to_string(&template)?,
    ])?;
    tx.prepare_cached("delete from campaign_feeds where campaign_no = ?1")?.execute([found.no])?;
    link_feeds(tx, found.no, &feeds)
}

/// Takes the default from whichever campaign has it (B27).
fn clear_default(tx: &Connection, app: AppNo) -> Result<(), StoreError> {
    tx.prepare_cached("update campaigns set is_default = 0 where app_no = ?1 and is_default = 1")?
        .execute([app.0])?;
    Ok(())
}

fn record(
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
    // Another campaign may have taken the default since the template was written.
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
    CampaignStatus::from_word(&word).ok_or_else(|| unknown_value(column, Type::Text))
}
