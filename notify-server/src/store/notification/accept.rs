//! Accepting a notification or recording a report: one row for any audience. The conditions are checked
//! in the same transaction.

use notify_core::{
    CampaignRef, DeviceId, NotificationId, NotificationStatus, Origin, Platform, Schedule, Target,
    Timestamp,
};

use crate::store::device::keys_by_ids;
use crate::store::sql::row::{layout_code, platform_bits, require_app};
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{Connection, OptionalExtension, params};
use crate::store::{
    AppNo, DeliveryChange, NewNotification, NewReport, NotificationNo, PollDraft, StoreError,
};

const NO_CAMPAIGN: &str = "names no active campaign";
const ID_IN_USE: &str = "is in use already";

/// A new row of `notifications`.
struct Row<'a> {
    id: &'a NotificationId,
    origin: Origin,
    status: NotificationStatus,
    at: Timestamp,
    /// Due time; `None` for a report.
    due_at: Option<Timestamp>,
    /// Wall-clock time of each device.
    local_time: Option<i64>,
    request: &'a str,
    platforms: i64,
    names_devices: bool,
    tag: Option<&'a str>,
    ttl_seconds: u32,
    collapse_key: Option<&'a str>,
    campaign: Option<CampaignRef>,
    audience_until: Option<i64>,
}

/// Accepts a notification. Returns how many ids it names if it is due now and none of them is a device.
pub(super) fn notification(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    new: &NewNotification,
) -> Result<Option<u64>, StoreError> {
    let sequence = require_app(tx, app)?;
    let (due_at, local_time) = match new.schedule {
        Schedule::Now => (Some(new.at), None),
        Schedule::At(at) => (Some(at), None),
        // Each zone has its own due time.
        Schedule::Local(time) => (None, Some(time.0)),
    };
    let due = due_at.is_some_and(|due_at| due_at <= new.at);
    let no = insert(
        tx,
        app,
        &Row {
            id: &new.id,
            origin: Origin::Created,
            status: if due { NotificationStatus::Queued } else { NotificationStatus::Scheduled },
            at: new.at,
            due_at,
            local_time,
            request: &new.request,
            platforms: platform_bits(&new.target.platforms()),
            names_devices: matches!(new.target, Target::Devices { .. }),
            tag: new.tag.as_deref(),
            ttl_seconds: new.ttl_seconds,
            collapse_key: new.collapse_key.as_deref(),
            campaign: new.campaign,
            // The audience of later ones is fixed when they become due.
            audience_until: due.then_some(sequence),
        },
    )?;
    if let Some(poll) = &new.poll {
        insert_poll(tx, app, no, poll, new.at)?;
    }
    tx.changed(if due || local_time.is_some() {
        DeliveryChange::NotificationDue
    } else {
        DeliveryChange::NotificationScheduled
    });
    // The ids of later ones may exist by then.
    if due { unknown_alone(tx, app, &new.target) } else { Ok(None) }
}

/// How many ids a target names if it names devices and none of them exists.
fn unknown_alone(
    connection: &Connection,
    app: AppNo,
    target: &Target,
) -> Result<Option<u64>, StoreError> {
    let Target::Devices { android, ios, any } = target else { return Ok(None) };
    let named = || android.iter().chain(ios).chain(any);
    let ids: Vec<&str> = named().map(DeviceId::as_str).collect();
    let keys = keys_by_ids(connection, app, &ids)?;
    let is = |id: &DeviceId, platform: Platform| {
        keys.get(id.as_str()).is_some_and(|key| key.platform() == platform)
    };
    let is_known = any.iter().any(|id| keys.contains_key(id.as_str()))
        || android.iter().any(|id| is(id, Platform::Android))
        || ios.iter().any(|id| is(id, Platform::Ios));
    Ok((!is_known).then(|| named().count() as u64))
}

/// Records a report.
pub(super) fn report(tx: &mut WriteTx<'_>, app: AppNo, new: &NewReport) -> Result<(), StoreError> {
    require_app(tx, app)?;
    let no = insert(
        tx,
        app,
        &Row {
            id: &new.report.id,
            origin: Origin::Reported,
            status: NotificationStatus::Reported,
            at: new.at,
            due_at: None,
            local_time: None,
            request: &new.request,
            platforms: platform_bits(&new.report.platforms),
            names_devices: false,
            tag: new.report.tag.as_deref(),
            ttl_seconds: 0,
            collapse_key: None,
            campaign: new.report.content.campaign(),
            audience_until: None,
        },
    )?;
    if let Some(poll) = &new.poll {
        insert_poll(tx, app, no, poll, new.at)?;
    }
    Ok(())
}

fn insert(tx: &WriteTx<'_>, app: AppNo, row: &Row<'_>) -> Result<NotificationNo, StoreError> {
    let campaign = match row.campaign {
        // `default` is resolved when a device asks for enrichment.
        None | Some(CampaignRef::Default) => None,
        Some(CampaignRef::Id(id)) => Some(id),
    };
    if let Some(id) = campaign {
        let active = tx
            .prepare_cached(
                "select 1 from campaigns where app_no = ?1 and id = ?2 and status = 'active'",
            )?
            .exists(params![app.0, id.0.as_bytes()])?;
        if !active {
            let mut broken = vec![format!("campaign_id: {NO_CAMPAIGN}")];
            if number_of(tx, app, row.id)?.is_some() {
                broken.push(format!("id: {ID_IN_USE}"));
            }
            StoreError::refused_if(broken)?;
        }
    }
    let no = tx
        .prepare_insert(
            "insert into notifications (no, app_no, id, origin, status, created_at, due_at,
             local_time, request, platforms, names_devices, tag, ttl_seconds, campaign_id,
             audience_until, collapse_key, next_zone_at)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
             on conflict (app_no, id) do nothing",
        )?
        .insert(
            app,
            params![
                app.0,
                row.id.as_str(),
                row.origin.as_str(),
                row.status.as_str(),
                row.at.as_ms(),
                row.due_at.map(Timestamp::as_ms),
                row.local_time,
                row.request,
                row.platforms,
                row.names_devices,
                row.tag,
                row.ttl_seconds,
                campaign.as_ref().map(|id| id.0.as_bytes()),
                row.audience_until,
                row.collapse_key,
                // Checked as soon as it is accepted, since some zones may be due.
                row.local_time.map(|_| row.at.as_ms()),
            ],
        )?;
    no.map(NotificationNo).ok_or_else(|| StoreError::refused("id", ID_IN_USE))
}

fn insert_poll(
    tx: &Connection,
    app: AppNo,
    no: NotificationNo,
    draft: &PollDraft,
    at: Timestamp,
) -> Result<(), StoreError> {
    tx.prepare_cached(
        "insert into polls (notification_no, public_id, text, layout, image_url, lang, created_at)
         select ?1, ?2, ?3, ?4, ?5, language, ?6 from apps where no = ?7",
    )?
    .execute(params![
        no.0,
        draft.public_id.as_bytes(),
        draft.poll.text,
        layout_code(draft.poll.layout_id),
        draft.poll.image_url,
        at.as_ms(),
        app.0,
    ])?;
    let mut insert = tx.prepare_cached(
        "insert into poll_answers (notification_no, place, id, text, image_url)
         values (?1, ?2, ?3, ?4, ?5)",
    )?;
    for (place, (answer, id)) in (0_i64..).zip(draft.poll.answers.iter().zip(&draft.answers)) {
        insert.execute(params![no.0, place, id.0.as_bytes(), answer.text, answer.image_url])?;
    }
    Ok(())
}

/// The number of a notification of the application.
pub(crate) fn number_of(
    connection: &Connection,
    app: AppNo,
    id: &NotificationId,
) -> Result<Option<NotificationNo>, StoreError> {
    let no = connection
        .prepare_cached("select no from notifications where app_no = ?1 and id = ?2")?
        .query_row(params![app.0, id.as_str()], |row| row.get(0).map(NotificationNo))
        .optional()?;
    Ok(no)
}
