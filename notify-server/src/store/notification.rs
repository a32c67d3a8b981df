//! Notifications: accepting, reading back, canceling.

mod accept;
mod deliveries;
mod facts;
mod sums;

use std::cmp::Reverse;

use notify_core::json::JsonObject;
use notify_core::{
    Audience, CampaignRef, Counts, Delivery, DeliveryOutcome, DeviceId, NewPoll, Notification,
    NotificationCreated, NotificationId, NotificationPreview, NotificationRecord,
    NotificationStatus, Origin, Platform, PlatformCounts, Report, Schedule, Target, Timestamp,
};

pub(super) use self::accept::number_of;
#[cfg(test)]
pub(super) use self::deliveries::PAGES_READ_MAX;
pub use self::facts::{DeliveryFacts, DeliveryProgress, DeviceFacts, NotificationFacts};
pub(super) use self::sums::counts_of;
use self::sums::{Sums, sums};
use crate::store::delivery::{
    cancel_retries_of_dispatch, canceled_so_far, end_canceled_or_not, record_completion_event,
};
use crate::store::page::{CursorCodec, rows_wanted};
use crate::store::sql::error::internal;
use crate::store::sql::row::{count_at, platforms_of, require_app, unexpected_value};
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{self, Connection, NUMBERS, OptionalExtension, Row, Type, list_of, params};
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
            let unknown = accept::notification(tx, app, &notification)?;
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
            accept::report(tx, app, &report)?;
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
        self.read(move |connection| notification(connection, app, &id)).await
    }

    /// Lists notifications, newest first. A page ends early, with a cursor, once its requests reach
    /// some megabytes, since `limit` bounds rows and each contains a whole request.
    pub async fn list_notifications(
        &self,
        app: AppNo,
        page: PageRequest,
    ) -> Result<Page<NotificationRecord>, StoreError> {
        self.read(move |connection| list(connection, app, &page)).await
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

// Reading notifications back with their counts.

/// A page with this many bytes of requests is full: a thousand of the largest would be a gigabyte.
const PAGE_REQUEST_BYTES_MAX: u64 = 4 * 1_048_576;

/// Columns as [`read_row`] reads them.
const NOTIFICATION: &str = "n.no, n.id, n.status, n.origin, n.created_at, n.due_at, \
    n.local_time, n.started_at, n.completed_at, n.request, n.platforms, n.unknown";

struct Found {
    no: i64,
    id: String,
    status: NotificationStatus,
    origin: Origin,
    created_at: Timestamp,
    send_at: Option<Timestamp>,
    started_at: Option<Timestamp>,
    completed_at: Option<Timestamp>,
    request: String,
    platforms: i64,
    /// Ids of any platform that name no device.
    unknown: u64,
}

/// Reads one notification.
fn notification(
    connection: &Connection,
    app: AppNo,
    id: &NotificationId,
) -> Result<NotificationRecord, StoreError> {
    require_app(connection, app)?;
    let found = connection
        .prepare_cached(&format!(
            "select {NOTIFICATION} from notifications n where n.app_no = ?1 and n.id = ?2"
        ))?
        .query_row(params![app.0, id.as_str()], read_row)
        .optional()?
        .ok_or(StoreError::NotFound)?;
    let its = sums(connection, &[found.no])?.remove(&found.no).unwrap_or_default();
    record(found, its)
}

/// Lists notifications, newest first.
fn list(
    connection: &Connection,
    app: AppNo,
    page: &PageRequest,
) -> Result<Page<NotificationRecord>, StoreError> {
    require_app(connection, app)?;
    let listing = CursorCodec { name: "notifications", of: app.0 };
    let before = listing.number(page)?.unwrap_or(i64::MAX);
    let (numbers, limit) = numbers_of(connection, app, before, page)?;
    let mut sums = sums(connection, &numbers)?;
    let mut found = connection
        .prepare_cached(&format!(
            "select {NOTIFICATION} from notifications n where n.no in {NUMBERS}"
        ))?
        .query_map([list_of(&numbers)], read_row)?
        .collect::<sql::Result<Vec<_>>>()?;
    found.sort_unstable_by_key(|found| Reverse(found.no));
    let mut rows = Vec::with_capacity(numbers.len());
    for found in found {
        let its = sums.remove(&found.no).unwrap_or_default();
        rows.push((found.no, record(found, its)?));
    }
    Ok(listing.page(rows, &PageRequest { limit, cursor: None }))
}

/// The numbers of the notifications of a page, one more if another page follows, and its limit. Their
/// contents are read only after it is known that they fit.
fn numbers_of(
    connection: &Connection,
    app: AppNo,
    before: i64,
    page: &PageRequest,
) -> Result<(Vec<i64>, u32), StoreError> {
    let mut statement = connection.prepare_cached(
        "select no, octet_length(request) from notifications where app_no = ?1 and no < ?2
         order by no desc limit ?3",
    )?;
    let (mut numbers, mut request_bytes, mut limit) = (Vec::new(), 0, page.limit);
    for row in statement.query_map([app.0, before, rows_wanted(page)], |row| {
        Ok((row.get::<i64>(0)?, count_at(row, 1)?))
    })? {
        let (no, bytes) = row?;
        numbers.push(no);
        if request_bytes >= PAGE_REQUEST_BYTES_MAX {
            // This row begins the next page.
            limit = u32::try_from(numbers.len() - 1).unwrap_or(limit);
            break;
        }
        request_bytes += bytes;
    }
    Ok((numbers, limit))
}

fn read_row(row: &Row<'_>) -> sql::Result<Found> {
    let status: String = row.get(2)?;
    let origin: String = row.get(3)?;
    let time = |column| row.get::<Option<i64>>(column).map(|at| at.map(Timestamp));
    let is_local = row.get::<Option<i64>>(6)?.is_some();
    Ok(Found {
        no: row.get(0)?,
        id: row.get(1)?,
        status: status.parse().map_err(|_| unexpected_value(2, Type::Text))?,
        origin: origin.parse().map_err(|_| unexpected_value(3, Type::Text))?,
        created_at: Timestamp(row.get(4)?),
        send_at: if is_local { None } else { time(5)? },
        started_at: time(7)?,
        completed_at: time(8)?,
        request: row.get(9)?,
        platforms: row.get(10)?,
        unknown: count_at(row, 11)?,
    })
}

fn record(found: Found, sums: Sums) -> Result<NotificationRecord, StoreError> {
    let mut by_platform: Vec<PlatformCounts> = platforms_of(found.platforms)
        .into_iter()
        .map(|platform| PlatformCounts { platform, counts: Counts::default() })
        .collect();
    for (platform, counts) in sums.dispatches {
        match by_platform.iter_mut().find(|row| row.platform == platform) {
            Some(row) => row.counts.add(&counts),
            None => by_platform.push(PlatformCounts { platform, counts }),
        }
    }
    // If it names devices of any platform, only its dispatches say which platforms it has.
    by_platform.sort_by_key(|row| row.platform);
    let mut counts = Counts { unknown: found.unknown, ..Counts::default() };
    by_platform.iter().for_each(|row| counts.add(&row.counts));
    Ok(NotificationRecord {
        id: NotificationId::new(found.id).map_err(internal)?,
        status: found.status,
        origin: found.origin,
        created_at: found.created_at,
        send_at: found.send_at,
        started_at: found.started_at,
        completed_at: found.completed_at,
        request: JsonObject::new(&found.request)?,
        counts,
        by_platform,
        failures: sums.failures,
        engagement: sums.engagement,
    })
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
