//! Notifications: accepting and canceling them. `notification/` reads them back.

mod deliveries;
mod facts;
mod read;

use notify_core::{
    Audience, CampaignRef, Delivery, DeliveryOutcome, DeviceId, NewPoll, Notification,
    NotificationCreated, NotificationId, NotificationPreview, NotificationRecord,
    NotificationStatus, Origin, Platform, Report, Schedule, Target, Timestamp,
};

#[cfg(test)]
pub(super) use self::deliveries::PAGES_READ_MAX;
pub use self::facts::{DeliveryFacts, DeliveryProgress, DeviceFacts, NotificationFacts};
pub(super) use self::read::counts_of;
use crate::store::delivery::{
    cancel_retries_of_dispatch, canceled_so_far, end_canceled_or_not, record_completion_event,
};
use crate::store::device::keys_by_ids;
use crate::store::sql::row::{layout_code, platform_bits, require_app, unexpected_value};
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{Connection, OptionalExtension, Type, params};
use crate::store::{
    AppNo, DeliveryChange, DispatchNo, Idempotent, IdempotentRequest, NotificationNo, Operation,
    Page, PageRequest, Store, StoreError, idempotency,
};

/// A notification to accept: one row, whatever its audience.
#[derive(Debug, Clone)]
pub struct NewNotification {
    /// Id.
    pub id: NotificationId,
    /// The body as it was sent; what is rendered later is read from it again.
    pub request: String,
    /// Who gets it.
    pub target: Target,
    /// Only devices with this tag.
    pub tag: Option<String>,
    /// When.
    pub schedule: Schedule,
    /// `ttl_seconds` of the request.
    pub ttl_seconds: u32,
    /// The caller's collapse key: newer notifications with the same key replace this one.
    pub collapse_key: Option<String>,
    /// A campaign that must exist and be active; checked inside the transaction.
    pub campaign: Option<CampaignRef>,
    /// Its poll, with the ids of its answers in order.
    pub poll: Option<PollDraft>,
    /// When it came in.
    pub at: Timestamp,
}

impl NewNotification {
    /// A notification of a checked request. `request` is its text.
    #[must_use]
    pub fn of(
        id: NotificationId,
        request: String,
        checked: Notification,
        poll: Option<PollDraft>,
        at: Timestamp,
    ) -> Self {
        Self {
            id,
            request,
            campaign: checked.content.campaign(),
            target: checked.audience.target,
            tag: checked.audience.tag,
            schedule: checked.schedule,
            ttl_seconds: checked.ttl_seconds,
            collapse_key: checked.collapse_key,
            poll,
            at,
        }
    }
}

/// A poll to be stored with its notification.
#[derive(Debug, Clone)]
pub struct PollDraft {
    /// The poll.
    pub poll: NewPoll,
    /// An id for each answer, in order.
    pub answers: Vec<notify_core::AnswerId>,
    /// Secret part of its public address.
    pub public_id: uuid::Uuid,
}

/// A report to record.
#[derive(Debug, Clone)]
pub struct NewReport {
    /// The report.
    pub report: Report,
    /// The body as it was sent.
    pub request: String,
    /// Its poll.
    pub poll: Option<PollDraft>,
    /// When it came in.
    pub at: Timestamp,
}

/// How many devices an audience has now on one platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// Platform.
    pub platform: Platform,
    /// Enabled devices with an address; with a tag, if one is named, set to true.
    pub devices: u64,
    /// Whether the count is complete. If counting stopped at its bound, `devices` is a lower bound for
    /// a tag and an upper bound for a platform.
    pub is_exact: bool,
    /// Named ids that name no device of the platform.
    pub unknown: u64,
    /// Named devices that are disabled, without an address, or without the tag.
    pub excluded: u64,
}

/// How many devices an audience has now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// By platform.
    pub platforms: Vec<Reach>,
    /// Ids of devices of any platform that name no device.
    pub unknown: u64,
}

impl Store {
    /// The response to an earlier request with this key, if there was one; [`StoreError::KeyReused`] if
    /// its body was different.
    pub async fn replay(
        &self,
        app: AppNo,
        once: &IdempotentRequest,
    ) -> Result<Option<String>, StoreError> {
        let once = once.clone();
        self.read(move |connection| idempotency::before(connection, app, &once)).await
    }

    /// Accepts a notification: one row and its idempotency record in one transaction, which also
    /// refuses an inactive campaign and an id in use, since both could change between two transactions.
    /// If it is due now, its audience ends at the application's highest device sequence, independent of
    /// any clock. The result says how many ids it names if none of them is a device.
    pub async fn accept_notification(
        &self,
        app: AppNo,
        notification: NewNotification,
        once: Option<IdempotentRequest>,
    ) -> Result<Idempotent<NotificationCreated>, StoreError> {
        self.write_once(Operation::AcceptNotification, app, once, move |tx| {
            let unknown = accept(tx, app, &notification)?;
            Ok(NotificationCreated { id: notification.id, unknown })
        })
        .await
    }

    /// Records a report; an id in use is refused with the path `id`.
    pub async fn record_report(
        &self,
        app: AppNo,
        report: NewReport,
        once: Option<IdempotentRequest>,
    ) -> Result<Idempotent<NotificationCreated>, StoreError> {
        self.write_once(Operation::RecordReport, app, once, move |tx| {
            record_report(tx, app, &report)?;
            Ok(NotificationCreated { id: report.report.id, unknown: None })
        })
        .await
    }

    /// Reads a notification with its counts.
    pub async fn notification(
        &self,
        app: AppNo,
        id: NotificationId,
    ) -> Result<NotificationRecord, StoreError> {
        self.read(move |connection| read::notification(connection, app, &id)).await
    }

    /// Lists notifications, newest first. A page ends early, with a cursor, once its requests reach
    /// some megabytes, since `limit` bounds rows and each contains a whole request.
    pub async fn list_notifications(
        &self,
        app: AppNo,
        page: PageRequest,
    ) -> Result<Page<NotificationRecord>, StoreError> {
        self.read(move |connection| read::list(connection, app, &page)).await
    }

    /// Lists the deliveries of a notification by platform and device key, including retries and pending
    /// ones of open pages. The amount of data read is bounded for every audience, so a page can have
    /// fewer rows than its limit, even none, and still have a next page.
    pub async fn list_deliveries(
        &self,
        app: AppNo,
        id: NotificationId,
        outcome: Option<DeliveryOutcome>,
        page: PageRequest,
    ) -> Result<Page<Delivery>, StoreError> {
        self.read(move |connection| deliveries::list(connection, app, &id, outcome, &page)).await
    }

    /// Reads the facts about one notification and one device.
    pub async fn delivery_facts(
        &self,
        app: AppNo,
        id: NotificationId,
        device: DeviceId,
    ) -> Result<DeliveryFacts, StoreError> {
        self.read(move |connection| facts::read(connection, app, &id, &device)).await
    }

    /// How many devices an audience has now by platform: from a counter if there is one, otherwise by a
    /// bounded scan.
    pub async fn reach(&self, app: AppNo, audience: Audience) -> Result<Reached, StoreError> {
        self.read(move |connection| facts::count(connection, app, &audience)).await
    }

    /// Stores the response of a preview, which changes nothing else.
    pub async fn keep_preview(
        &self,
        app: AppNo,
        preview: NotificationPreview,
        once: Option<IdempotentRequest>,
    ) -> Result<Idempotent<NotificationPreview>, StoreError> {
        match once {
            None => Ok(Idempotent::Executed(preview)),
            once => self.write_once(Operation::KeepPreview, app, once, move |_| Ok(preview)).await,
        }
    }

    /// Cancels what has not been sent yet; refused with the path `id` if nothing is left. A
    /// notification without dispatches ends at once. For others the engine continues its scan without
    /// sending, so that `targeted` stays exact. Retries end in this transaction.
    pub async fn cancel_notification(
        &self,
        app: AppNo,
        id: NotificationId,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.write(Operation::CancelNotification, move |tx| cancel(tx, app, &id, at)).await
    }
}

// Accepting notifications and recording reports: one row for any audience. The conditions are checked in
// the same transaction.

const NO_CAMPAIGN: &str = "names no active campaign";
const ID_IN_USE: &str = "is in use already";

/// A new row of `notifications`.
struct NotificationRow<'a> {
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
fn accept(
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
        &NotificationRow {
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
fn record_report(tx: &mut WriteTx<'_>, app: AppNo, new: &NewReport) -> Result<(), StoreError> {
    require_app(tx, app)?;
    let no = insert(
        tx,
        app,
        &NotificationRow {
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

fn insert(
    tx: &WriteTx<'_>,
    app: AppNo,
    row: &NotificationRow<'_>,
) -> Result<NotificationNo, StoreError> {
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

// Canceling what has not been sent yet.

/// Cancels a notification.
fn cancel(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    id: &NotificationId,
    at: Timestamp,
) -> Result<(), StoreError> {
    require_app(tx, app)?;
    let (no, status, requested) = tx
        .prepare_cached(
            "select no, status, cancel_requested_at is not null from notifications
             where app_no = ?1 and id = ?2",
        )?
        .query_row(params![app.0, id.as_str()], |row| {
            let status: String = row.get(1)?;
            let status: NotificationStatus =
                status.parse().map_err(|_| unexpected_value(1, Type::Text))?;
            Ok((NotificationNo(row.get(0)?), status, row.get::<bool>(2)?))
        })
        .optional()?
        .ok_or(StoreError::NotFound)?;
    match status {
        NotificationStatus::Scheduled | NotificationStatus::Queued => {
            tx.prepare_cached(
                "update notifications set status = 'canceled', cancel_requested_at = ?2,
                 completed_at = ?2, next_zone_at = null where no = ?1",
            )?
            .execute([no.0, at.as_ms()])?;
            record_completion_event(tx, no, true, at)?;
        }
        NotificationStatus::Sending if !requested => cancel_dispatches(tx, no, at)?,
        NotificationStatus::Sending
        | NotificationStatus::Completed
        | NotificationStatus::Canceled
        | NotificationStatus::Reported => {
            return Err(StoreError::refused("id", "has ended: no delivery is left to cancel"));
        }
    }
    tx.changed(DeliveryChange::NotificationCanceled(no));
    Ok(())
}

/// Marks every unfinished dispatch and ends its retries; the engine counts the rest.
fn cancel_dispatches(
    tx: &mut WriteTx<'_>,
    no: NotificationNo,
    at: Timestamp,
) -> Result<(), StoreError> {
    let before = canceled_so_far(tx, no)?;
    tx.prepare_cached(
        "update notifications set cancel_requested_at = ?2, canceled_before = ?3,
         zones_canceled = case when next_zone_at is not null then 1 else 0 end, next_zone_at = null where no = ?1",
    )?
    .execute([no.0, at.as_ms(), before])?;
    let dispatches = tx
        .prepare_cached(
            "update dispatches set is_canceled = 1
             where notification_no = ?1 and completed_at is null returning no",
        )?
        .query_map([no.0], |row| row.get(0).map(DispatchNo))?
        .collect::<Result<Vec<_>, _>>()?;
    if dispatches.is_empty() {
        // It is between two zones, so nothing else would end it.
        return end_canceled_or_not(tx, no, at);
    }
    dispatches.into_iter().try_for_each(|dispatch| cancel_retries_of_dispatch(tx, dispatch, at))
}
