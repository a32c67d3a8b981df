//! Notifications: accepting and canceling them. `notification/` reads them back.

mod count;
mod deliveries;
mod facts;
mod read;
mod users;

use notify_core::{
    CampaignId, Condition, Content, Delivery, DeviceId, NewPoll, Notification, NotificationCreated,
    NotificationId, NotificationRecord, NotificationStatus, NotificationUser, Origin, Platform,
    Recipients, Report, Schedule, Success, Target, Timestamp, UserId, UserState, WebhookEventType,
};

use serde::Serialize;

use self::count::Counting;
pub use self::deliveries::DeliveryFilter;
#[cfg(test)]
pub(super) use self::deliveries::PAGES_READ_MAX;
pub use self::facts::{
    CanaryFacts, DeliveryFacts, DeliveryProgress, DeviceFacts, NotificationFacts,
};
#[cfg(test)]
pub(super) use self::read::NOTIFICATIONS_SCANNED_MAX;
pub(super) use self::read::counts_of;
pub(super) use self::users::{counts as user_counts, keep_reached};
use crate::store::delivery::{
    cancel_retries_of_dispatch, canceled_so_far, end_canceled_or_not, hold,
    record_completion_event, release,
};
use crate::store::device::{key_by_id, keys_by_ids};
use crate::store::event::{self, EventRefs};
use crate::store::sql::columns::{Column, column, names, placeholders, values};
use crate::store::sql::row::{layout_code, platform_bits, require_app, unexpected_value};
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{Connection, OptionalExtension, Type, Value, WriteScope, params};
use crate::store::{
    AppNo, DeliveryChange, DispatchNo, Idempotent, IdempotentRequest, NotificationNo, Operation,
    Page, PageRequest, Store, StoreError, idempotency, user,
};

/// A notification to accept.
#[derive(Debug, Clone)]
pub struct NewNotification {
    /// The id.
    pub id: NotificationId,
    /// The body of the request as it was sent. The payload is rendered from it later.
    pub request: String,
    /// The checked request.
    pub checked: Notification,
    /// The condition that devices must meet, in JSON, with the conditions of segments in place of their names.
    pub audience: Option<String>,
    /// The poll of the content.
    pub poll: Option<PollDraft>,
    /// When the request came in.
    pub at: Timestamp,
}

/// A poll to be stored with its notification.
#[derive(Debug, Clone)]
pub struct PollDraft {
    /// The poll.
    pub poll: NewPoll,
    /// The id of each answer, in the order of the answers.
    pub answers: Vec<notify_core::AnswerId>,
    /// The secret part of the public address of the poll.
    pub public_id: uuid::Uuid,
}

/// A report to record.
#[derive(Debug, Clone)]
pub struct NewReport {
    /// The report.
    pub report: Report,
    /// The body of the request as it was sent.
    pub request: String,
    /// The poll of the content.
    pub poll: Option<PollDraft>,
    /// When the request came in.
    pub at: Timestamp,
}

/// How many devices an audience has now on one platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    /// The platform.
    pub platform: Platform,
    /// The number of enabled devices with an address and, if the audience has a tag, with the tag
    /// set to true.
    pub devices: u64,
    /// Whether the count is exact. If the count stopped at its limit of scanned devices, `devices`
    /// is a lower bound for a tag and an upper bound for a whole platform.
    pub is_exact: bool,
    /// The number of named ids that name no device of the platform.
    pub unknown: u64,
    /// The number of named devices that are disabled, have no address, or do not have the tag.
    pub excluded: u64,
}

/// How many devices an audience has now on all platforms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// The counts by platform.
    pub platforms: Vec<Reach>,
    /// The number of ids in the list for any platform that name no device.
    pub unknown: u64,
}

impl Store {
    /// Reads the response to an earlier request with the same idempotency key, if there was one.
    /// Fails with [`StoreError::KeyReused`] if the earlier request had another body.
    pub async fn replay(
        &self,
        app: AppNo,
        once: &IdempotentRequest,
    ) -> Result<Option<String>, StoreError> {
        let once = once.clone();
        self.read(move |connection| idempotency::find_response(connection, app, &once)).await
    }

    /// Accepts a notification. One transaction writes the notification and its idempotency record.
    /// The same transaction refuses an inactive campaign and an id in use, since both could change
    /// between two transactions. If the notification is due now, its audience ends at the highest
    /// device sequence of the application, so it depends on no clock. If the notification is due
    /// now and all ids that it names are unknown, the result has their number.
    pub async fn accept_notification(
        &self,
        app: AppNo,
        notification: NewNotification,
        once: Option<IdempotentRequest>,
    ) -> Result<Idempotent<NotificationCreated>, StoreError> {
        self.write_in_set(AcceptNotification { app, notification, once }).await
    }

    /// Records a report. An id in use is refused with the path `id`.
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

    /// Lists notifications, newest first. Each row contains a whole request, so a page with large
    /// requests ends before its limit of rows, once its requests have 4 MiB. It then has a cursor
    /// for the next page. With a status, one call reads a bounded number of notifications. A page can
    /// then have fewer rows than its limit, even none, and still have a next page.
    pub async fn list_notifications(
        &self,
        app: AppNo,
        status: Option<NotificationStatus>,
        page: PageRequest,
    ) -> Result<Page<NotificationRecord>, StoreError> {
        self.read_long(move |connection| read::list(connection, app, status, &page)).await
    }

    /// Lists the deliveries of a notification in the order of platform and device key. The list
    /// includes retries, and the pending deliveries of open pages. One call reads a bounded amount
    /// of data. A page can therefore have fewer rows than its limit, even none, and still have a
    /// next page.
    pub async fn list_deliveries(
        &self,
        app: AppNo,
        id: NotificationId,
        filter: DeliveryFilter,
        page: PageRequest,
    ) -> Result<Page<Delivery>, StoreError> {
        self.read_long(move |connection| deliveries::list(connection, app, &id, filter, &page))
            .await
    }

    /// Lists the users that a notification names, and whether they were reached. With a state, a page
    /// has only users in this state.
    pub async fn list_notification_users(
        &self,
        app: AppNo,
        id: NotificationId,
        state: Option<UserState>,
        page: PageRequest,
    ) -> Result<Page<NotificationUser>, StoreError> {
        self.read_long(move |connection| users::list(connection, app, &id, state, &page)).await
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

    /// Counts the devices that an audience has now, by platform. Reads counters where they exist,
    /// and otherwise scans a bounded number of devices, in slices. Devices that change between two
    /// slices count as they were or as they are. Few named devices without a condition are counted with
    /// one short read, because every request that names devices is checked with such a count.
    pub async fn reach(
        &self,
        app: AppNo,
        recipients: Recipients,
        condition: Option<Condition>,
        at: Timestamp,
    ) -> Result<Reached, StoreError> {
        let counting = Counting::new(app, recipients, condition, at);
        if counting.is_short() {
            return self.read(move |connection| counting.finish(connection)).await;
        }
        self.read_in_slices(counting, |connection, counting| counting.next(connection)).await
    }

    /// Stores the response of a preview for replay, if the request has an idempotency key. A
    /// preview changes nothing else.
    pub async fn keep_preview<P: Serialize + Send + 'static>(
        &self,
        app: AppNo,
        preview: P,
        once: Option<IdempotentRequest>,
    ) -> Result<Idempotent<P>, StoreError> {
        if once.is_none() {
            return Ok(Idempotent::Executed(preview));
        }
        let device = once.as_ref().and_then(|once| once.device.clone());
        self.write_once(Operation::KeepPreview, app, once, move |tx| {
            // The preview shows attributes of the device, which may have been erased since.
            if let Some(id) = device
                && key_by_id(tx, app, id.as_str())?.is_none()
            {
                return Err(StoreError::NotFound);
            }
            Ok(preview)
        })
        .await
    }

    /// Cancels the deliveries of a notification that have not been sent. Refused with the path `id`
    /// if the notification has ended. A notification without dispatches ends at once. Otherwise the
    /// open retries end in this transaction, and the engine continues the scans without sending, so
    /// that `targeted` is still counted exactly.
    pub async fn cancel_notification(
        &self,
        app: AppNo,
        id: NotificationId,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.write_to(WriteScope::app(app), Operation::CancelNotification, move |tx| {
            cancel(tx, app, &id, at)
        })
        .await
    }
}

impl Store {
    /// Pauses a notification that has not ended: no page and no retry of it can be claimed until it is
    /// resumed or expires. A notification that is paused already stays as it is. Refused with the path
    /// `id` if the notification has ended.
    pub async fn pause_notification(
        &self,
        app: AppNo,
        id: NotificationId,
        at: Timestamp,
        once: Option<IdempotentRequest>,
    ) -> Result<Idempotent<Success>, StoreError> {
        self.write_once(Operation::PauseNotification, app, once, move |tx| {
            let paused = read_open(tx, app, &id)?;
            if !paused.is_paused {
                pause(tx, app, paused.no, PAUSE_REQUESTED, at)?;
            }
            tx.changed(DeliveryChange::NotificationPaused(paused.no));
            Ok(Success { success: true })
        })
        .await
    }

    /// Ends the pause of a notification. A notification that is not paused stays as it is. Refused with
    /// the path `id` if the notification has ended.
    pub async fn resume_notification(
        &self,
        app: AppNo,
        id: NotificationId,
        at: Timestamp,
        once: Option<IdempotentRequest>,
    ) -> Result<Idempotent<Success>, StoreError> {
        self.write_once(Operation::ResumeNotification, app, once, move |tx| {
            let resumed = read_open(tx, app, &id)?;
            if resumed.is_paused {
                end_pause(tx, resumed.no, at)?;
            }
            tx.changed(DeliveryChange::NotificationResumed(resumed.no));
            Ok(Success { success: true })
        })
        .await
    }
}

// Accepting notifications and recording reports. Both write one row, independent of the size of the
// audience.

const NO_CAMPAIGN: &str = "no active campaign has this id";
const ID_IN_USE: &str = "is in use already";

/// An accept of a notification.
pub(super) struct AcceptNotification {
    pub(super) app: AppNo,
    pub(super) notification: NewNotification,
    pub(super) once: Option<IdempotentRequest>,
}

impl AcceptNotification {
    /// Accepts the notification at most once.
    pub(super) fn write(
        &self,
        tx: &mut WriteTx<'_>,
    ) -> Result<Idempotent<NotificationCreated>, StoreError> {
        let Self { app, notification, once } = self;
        idempotency::run(tx, *app, once.as_ref(), |tx| {
            let unknown = accept(tx, *app, notification)?;
            Ok(NotificationCreated { id: notification.id.clone(), unknown })
        })
    }
}

impl NewNotification {
    /// When it is due; `None` at a local time, since each zone has its own due time.
    fn due_at(&self) -> Option<Timestamp> {
        match self.checked.schedule {
            Schedule::Now => Some(self.at),
            Schedule::At(at) => Some(at),
            Schedule::Local(_) => None,
        }
    }

    /// The local time at which each device gets the notification, stored as if it were a time in UTC.
    fn local_time(&self) -> Option<i64> {
        match self.checked.schedule {
            Schedule::Local(time) => Some(time.0),
            Schedule::Now | Schedule::At(_) => None,
        }
    }

    /// Whether it is due at once.
    pub(super) fn is_due(&self) -> bool {
        self.due_at().is_some_and(|due_at| due_at <= self.at)
    }

    /// The change that accepting it makes.
    pub(super) fn change(&self) -> DeliveryChange {
        // Some zones of a notification at a local time may be due now.
        if self.is_due() || self.local_time().is_some() {
            DeliveryChange::NotificationDue
        } else {
            DeliveryChange::NotificationScheduled
        }
    }

    /// The columns of its row, without `audience_until` and `canary`.
    pub(super) fn columns(&self) -> Vec<Column<'_>> {
        let Notification { recipients, content, .. } = &self.checked;
        let status =
            if self.is_due() { NotificationStatus::Queued } else { NotificationStatus::Scheduled };
        let names_devices =
            matches!(recipients.target, Target::Devices { .. } | Target::Users { .. });
        let local_time = self.local_time();
        vec![
            ("id", Value::Text(self.id.as_str())),
            ("origin", Value::Text(Origin::Created.as_str())),
            ("status", Value::Text(status.as_str())),
            ("created_at", self.at.as_ms().into()),
            ("due_at", self.due_at().map(Timestamp::as_ms).into()),
            ("local_time", local_time.into()),
            // Zones are first checked at once, since some may be due.
            ("next_zone_at", local_time.map(|_| self.at.as_ms()).into()),
            column("request", &self.request),
            ("platforms", platform_bits(&recipients.target.platforms()).into()),
            ("names_devices", i64::from(names_devices).into()),
            column("tag", &recipients.tag),
            column("audience", &self.audience),
            column("ttl_seconds", &self.checked.ttl_seconds),
            column("collapse_key", &self.checked.collapse_key),
            campaign_column(content),
        ]
    }
}

fn campaign_column(content: &Content) -> Column<'_> {
    let id = content.campaign_id().map(|id| &id.0.as_bytes()[..]);
    ("campaign_id", id.map_or(Value::Null(Type::Blob), Value::Blob))
}

/// Accepts a notification. If the notification is due now and all ids that it names are unknown,
/// returns the number of ids.
fn accept(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    new: &NewNotification,
) -> Result<Option<u64>, StoreError> {
    let sequence = require_app(tx, app)?;
    let is_due = new.is_due();
    let canary = new.checked.canary.map(|plan| serde_json::to_string(&plan)).transpose()?;
    let mut columns = new.columns();
    // The audience of a later notification is fixed when it becomes due.
    columns.push(("audience_until", is_due.then_some(sequence).into()));
    columns.push(column("canary", &canary));
    let no = insert(tx, app, &new.id, new.checked.content.campaign_id(), &columns)?;
    if let Some(poll) = &new.poll {
        insert_poll(tx, app, no, poll, new.at)?;
    }
    tx.changed(new.change());
    // The ids of a later notification may exist when it becomes due.
    if is_due { count_if_all_unknown(tx, app, &new.checked.recipients.target) } else { Ok(None) }
}

/// The number of ids that a target names, if it names devices and none of them exists.
fn count_if_all_unknown(
    connection: &Connection,
    app: AppNo,
    target: &Target,
) -> Result<Option<u64>, StoreError> {
    let (android, ios, any) = match target {
        Target::Devices { android, ios, any } => (android, ios, any),
        Target::Users { ids, .. } => {
            let names: Vec<&str> = ids.iter().map(UserId::as_str).collect();
            let is_any_known = !user::numbers_by_id(connection, app, &names)?.is_empty();
            return Ok((!is_any_known).then_some(ids.len() as u64));
        }
        Target::Platforms(_) => return Ok(None),
    };
    let all_ids = || android.iter().chain(ios).chain(any);
    let ids: Vec<&str> = all_ids().map(DeviceId::as_str).collect();
    let keys = keys_by_ids(connection, app, &ids)?;
    let is_device_of = |id: &DeviceId, platform: Platform| {
        keys.get(id.as_str()).is_some_and(|key| key.platform() == platform)
    };
    let is_any_known = any.iter().any(|id| keys.contains_key(id.as_str()))
        || android.iter().any(|id| is_device_of(id, Platform::Android))
        || ios.iter().any(|id| is_device_of(id, Platform::Ios));
    Ok((!is_any_known).then(|| all_ids().count() as u64))
}

/// Records a report.
fn record_report(tx: &mut WriteTx<'_>, app: AppNo, new: &NewReport) -> Result<(), StoreError> {
    require_app(tx, app)?;
    let report = &new.report;
    let columns = [
        ("id", Value::Text(report.id.as_str())),
        ("origin", Value::Text(Origin::Reported.as_str())),
        ("status", Value::Text(NotificationStatus::Reported.as_str())),
        ("created_at", new.at.as_ms().into()),
        column("request", &new.request),
        ("platforms", platform_bits(&report.platforms).into()),
        ("names_devices", 0.into()),
        column("tag", &report.tag),
        ("ttl_seconds", 0.into()),
        campaign_column(&report.content),
    ];
    let no = insert(tx, app, &report.id, report.content.campaign_id(), &columns)?;
    if let Some(poll) = &new.poll {
        insert_poll(tx, app, no, poll, new.at)?;
    }
    Ok(())
}

/// Writes a notification. Refuses an inactive campaign and an id in use.
fn insert(
    tx: &WriteTx<'_>,
    app: AppNo,
    id: &NotificationId,
    campaign: Option<&CampaignId>,
    columns: &[Column<'_>],
) -> Result<NotificationNo, StoreError> {
    if let Some(campaign) = campaign {
        let is_active = tx
            .prepare_cached(
                "select 1 from campaigns where app_no = ?1 and id = ?2 and status = 'active'",
            )?
            .exists(params![app.0, campaign.0.as_bytes()])?;
        if !is_active {
            let mut broken_rules = vec![format!("campaign_id: {NO_CAMPAIGN}")];
            if number_of(tx, app, id)?.is_some() {
                broken_rules.push(format!("id: {ID_IN_USE}"));
            }
            StoreError::refused_if(broken_rules)?;
        }
    }
    let columns = [&[("app_no", app.0.into())], columns].concat();
    let no = tx
        .prepare_insert(&format!(
            "insert into notifications (no, {}) values (?1, {})
             on conflict (app_no, id) do nothing",
            names(&columns),
            placeholders(2, &columns)
        ))?
        .insert(app, &values(&columns)[..])?;
    no.map(NotificationNo).ok_or_else(|| StoreError::refused("id", ID_IN_USE))
}

/// Writes the poll of a notification. The poll keeps the current language of the application.
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

/// Reads the number of a notification by its id.
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

// Pausing and resuming.

/// The reason of a pause that a request made.
const PAUSE_REQUESTED: &str = "requested";

/// A notification that has not ended.
struct OpenNotification {
    no: NotificationNo,
    is_paused: bool,
}

/// Reads a notification that is to be changed, and refuses one that has ended.
fn read_open(
    tx: &Connection,
    app: AppNo,
    id: &NotificationId,
) -> Result<OpenNotification, StoreError> {
    require_app(tx, app)?;
    let (no, is_open, is_canceled, is_paused) = tx
        .prepare_cached(
            "select no, status in ('scheduled', 'queued', 'sending') and cancel_requested_at is null,
             cancel_requested_at is not null, paused_at is not null from notifications
             where app_no = ?1 and id = ?2",
        )?
        .query_row(params![app.0, id.as_str()], |row| {
            Ok((NotificationNo(row.get(0)?), row.get::<bool>(1)?, row.get(2)?, row.get(3)?))
        })
        .optional()?
        .ok_or(StoreError::NotFound)?;
    if is_open { Ok(OpenNotification { no, is_paused }) } else { Err(closed(is_canceled)) }
}

/// The error of a request to change a notification that no longer changes.
fn closed(is_canceled: bool) -> StoreError {
    let state = if is_canceled { "was canceled" } else { "has ended" };
    StoreError::refused("id", &format!("the notification {state} already"))
}

/// Pauses a notification that is not paused.
pub(super) fn pause(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    no: NotificationNo,
    reason: &str,
    at: Timestamp,
) -> Result<(), StoreError> {
    tx.prepare_cached("update notifications set paused_at = ?2, paused_reason = ?3 where no = ?1")?
        .execute(params![no.0, at.as_ms(), reason])?;
    hold(tx, no)?;
    let refs = EventRefs { notification: Some(no), detail: Some(reason), ..EventRefs::default() };
    event::record(tx, app, WebhookEventType::NotificationPaused, refs, at)
}

/// Ends the pause of a notification.
fn end_pause(tx: &Connection, no: NotificationNo, at: Timestamp) -> Result<(), StoreError> {
    tx.prepare_cached(
        // A canary waits again: its retries could not run during the pause.
        "update notifications set paused_at = null, paused_reason = null, canary_progress = null
         where no = ?1",
    )?
    .execute([no.0])?;
    release(tx, no, at)
}

// Canceling what has not been sent yet.

/// Cancels a notification that has not ended.
fn cancel(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    id: &NotificationId,
    at: Timestamp,
) -> Result<(), StoreError> {
    require_app(tx, app)?;
    let (no, status, is_requested) = tx
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
        NotificationStatus::Sending if !is_requested => cancel_dispatches(tx, no, at)?,
        NotificationStatus::Sending
        | NotificationStatus::Completed
        | NotificationStatus::Canceled
        | NotificationStatus::Reported => {
            return Err(closed(is_requested));
        }
    }
    tx.changed(DeliveryChange::NotificationCanceled(no));
    Ok(())
}

/// Marks all unfinished dispatches of a notification as canceled and ends their retries. The engine
/// counts the remaining devices.
fn cancel_dispatches(
    tx: &mut WriteTx<'_>,
    no: NotificationNo,
    at: Timestamp,
) -> Result<(), StoreError> {
    let canceled_before = canceled_so_far(tx, no)?;
    tx.prepare_cached(
        "update notifications set cancel_requested_at = ?2, canceled_before = ?3,
         paused_at = null, paused_reason = null, canary_check_at = null, canary_judge_at = null,
         zones_canceled = case when next_zone_at is not null then 1 else 0 end, next_zone_at = null where no = ?1",
    )?
    .execute([no.0, at.as_ms(), canceled_before])?;
    let dispatches = tx
        .prepare_cached(
            "update dispatches set is_canceled = 1, paused_until = null
             where notification_no = ?1 and completed_at is null returning no",
        )?
        .query_map([no.0], |row| row.get(0).map(DispatchNo))?
        .collect::<Result<Vec<_>, _>>()?;
    if dispatches.is_empty() {
        // No zone is being sent, so no dispatch will end the notification.
        return end_canceled_or_not(tx, no, at);
    }
    dispatches.into_iter().try_for_each(|dispatch| cancel_retries_of_dispatch(tx, dispatch, at))
}
