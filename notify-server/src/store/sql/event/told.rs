//! From the row of an event to what is told: what it names is looked up as it is now.

use std::str::FromStr;

use notify_core::{
    AnswerId, Counts, DeviceId, DeviceUnregistered, Engaged, NotificationEnded, NotificationId,
    NotificationStatus, PollAnswered, Timestamp, WebhookData, WebhookEventType, WebhookId,
    WebhookTested,
};

use super::super::error::broken;
use super::super::row::{count_at, unknown_value};
use crate::store::sql::{self, Connection, OptionalExtension, Row, Type};
use crate::store::{DeviceKey, NotificationNo, StoreError, event_type_code};

/// Columns as [`Subject::read`] reads them, of events and of messages.
pub(crate) const COLUMNS: &str = "type, at, notification_no, device_key, detail";

/// What a row says.
#[derive(Debug, Clone)]
pub(crate) struct Subject {
    pub(crate) kind: i64,
    pub(crate) at: Timestamp,
    pub(crate) notification: Option<NotificationNo>,
    pub(crate) device: Option<DeviceKey>,
    pub(crate) detail: Option<String>,
}

impl Subject {
    /// Reads [`COLUMNS`], the first of them at `from`.
    pub(crate) fn read(row: &Row<'_>, from: usize) -> sql::Result<Self> {
        Ok(Self {
            kind: row.get(from)?,
            at: Timestamp(row.get(from + 1)?),
            notification: row.get::<Option<i64>>(from + 2)?.map(NotificationNo),
            device: row.get::<Option<i64>>(from + 3)?.map(DeviceKey),
            detail: row.get(from + 4)?,
        })
    }

    /// Its type.
    pub(crate) fn event_type(&self) -> Option<WebhookEventType> {
        let test = [WebhookEventType::WebhookTest];
        let mut all = WebhookEventType::ALL.into_iter().chain(test);
        all.find(|kind| event_type_code(*kind) == self.kind)
    }

    fn detail<T: FromStr>(&self) -> Result<T, StoreError> {
        let detail = self.detail.as_deref().and_then(|text| text.parse().ok());
        detail.ok_or_else(|| broken("the detail of an event is not what its type says"))
    }
}

/// What is told of it; `None` when what it is about was erased.
pub(crate) fn tell(
    connection: &Connection,
    subject: &Subject,
) -> Result<Option<WebhookData>, StoreError> {
    let kind =
        subject.event_type().ok_or_else(|| broken("an event of a type that there is not"))?;
    Ok(match kind {
        WebhookEventType::NotificationCompleted => {
            ended(connection, subject)?.map(WebhookData::NotificationCompleted)
        }
        WebhookEventType::NotificationFailed => {
            ended(connection, subject)?.map(WebhookData::NotificationFailed)
        }
        WebhookEventType::DeviceUnregistered => unregistered(connection, subject)?,
        WebhookEventType::PollAnswered => answered(connection, subject)?,
        WebhookEventType::EngagementOpened => {
            engaged(connection, subject)?.map(WebhookData::EngagementOpened)
        }
        WebhookEventType::EngagementClicked => {
            engaged(connection, subject)?.map(WebhookData::EngagementClicked)
        }
        WebhookEventType::WebhookTest => {
            let webhook_id = WebhookId(subject.detail()?);
            Some(WebhookData::WebhookTest(WebhookTested { webhook_id }))
        }
    })
}

fn ended(
    connection: &Connection,
    subject: &Subject,
) -> Result<Option<NotificationEnded>, StoreError> {
    let Some(no) = subject.notification else { return Ok(None) };
    let found = connection
        .prepare_cached(
            "select n.id, n.status, coalesce(sum(d.targeted), 0), coalesce(sum(d.sent), 0),
             coalesce(sum(d.failed), 0), coalesce(sum(d.unregistered), 0),
             coalesce(sum(d.expired), 0), coalesce(sum(d.canceled), 0),
             coalesce(sum(d.excluded), 0), coalesce(sum(d.unknown), 0) + n.unknown
             from notifications n left join dispatches d on d.notification_no = n.no
             where n.no = ?1 group by n.no",
        )?
        .query_row([no.0], |row| {
            let (id, status): (String, String) = (row.get(0)?, row.get(1)?);
            let status = NotificationStatus::from_word(&status);
            let status = status.ok_or_else(|| unknown_value(1, Type::Text))?;
            let counts = Counts {
                targeted: count_at(row, 2)?,
                sent: count_at(row, 3)?,
                failed: count_at(row, 4)?,
                unregistered: count_at(row, 5)?,
                expired: count_at(row, 6)?,
                canceled: count_at(row, 7)?,
                pending: 0,
                excluded: count_at(row, 8)?,
                unknown: count_at(row, 9)?,
            };
            Ok((id, status, counts))
        })
        .optional()?;
    let Some((id, status, counts)) = found else { return Ok(None) };
    let notification_id = NotificationId::new(id).map_err(broken)?;
    let reason = subject.detail.clone();
    Ok(Some(NotificationEnded { notification_id, status, counts, reason }))
}

fn unregistered(
    connection: &Connection,
    subject: &Subject,
) -> Result<Option<WebhookData>, StoreError> {
    let (Some(key), Some(device_id)) = (subject.device, device(connection, subject)?) else {
        return Ok(None);
    };
    let (platform, reason) = (key.platform(), subject.detail()?);
    Ok(Some(WebhookData::DeviceUnregistered(DeviceUnregistered { device_id, platform, reason })))
}

fn answered(connection: &Connection, subject: &Subject) -> Result<Option<WebhookData>, StoreError> {
    let device_id = device(connection, subject)?;
    let is_erased = subject.device.is_some() && device_id.is_none();
    let Some(poll_id) = notification(connection, subject)?.filter(|_| !is_erased) else {
        return Ok(None);
    };
    let answer_id = AnswerId(subject.detail()?);
    Ok(Some(WebhookData::PollAnswered(PollAnswered { poll_id, answer_id, device_id })))
}

fn engaged(connection: &Connection, subject: &Subject) -> Result<Option<Engaged>, StoreError> {
    let notification_id = notification(connection, subject)?;
    let both = notification_id.zip(device(connection, subject)?);
    let Some((notification_id, device_id)) = both else { return Ok(None) };
    Ok(Some(Engaged { notification_id, device_id, at: Timestamp(subject.detail()?) }))
}

fn notification(
    connection: &Connection,
    subject: &Subject,
) -> Result<Option<NotificationId>, StoreError> {
    let Some(no) = subject.notification else { return Ok(None) };
    let id = connection
        .prepare_cached("select id from notifications where no = ?1")?
        .query_row([no.0], |row| row.get::<String>(0))
        .optional()?;
    id.map(|id| NotificationId::new(id).map_err(broken)).transpose()
}

fn device(connection: &Connection, subject: &Subject) -> Result<Option<DeviceId>, StoreError> {
    let Some(key) = subject.device else { return Ok(None) };
    let id = connection
        .prepare_cached("select device_id from devices where key = ?1")?
        .query_row([key.0], |row| row.get::<String>(0))
        .optional()?;
    id.map(|id| DeviceId::new(id).map_err(broken)).transpose()
}
