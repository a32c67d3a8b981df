//! Dispatches, and the audience that they are sent to.

use notify_core::{AnswerId, AppId, IosEnv, NotificationId, Platform, Timestamp};

use crate::store::delivery::start::keys_of;
use crate::store::sql::row::{unexpected_value, uuid_at};
use crate::store::sql::{self, Connection, NUMBERS, OptionalExtension, Row, Type, list_of, seq_of};
use crate::store::{AppNo, DeviceKey, DispatchNo, NotificationNo, StoreError, platform_of};

/// One notification on one platform.
#[derive(Debug, Clone, PartialEq)]
pub struct Dispatch {
    /// Number.
    pub no: DispatchNo,
    /// Its notification.
    pub notification: NotificationNo,
    /// Its notification's id.
    pub notification_id: NotificationId,
    /// Its application.
    pub app: AppNo,
    /// Its application's id.
    pub app_id: AppId,
    /// Its application's name, the title of notifications without one.
    pub app_name: String,
    /// Platform.
    pub platform: Platform,
    /// The body of the request, from which the payload is rendered.
    pub request: String,
    /// Public id of its poll.
    pub poll_public_id: Option<uuid::Uuid>,
    /// Its poll's answers, in their order.
    pub poll_answers: Vec<AnswerId>,
    /// The source of its devices.
    pub source: AudienceSource,
    /// The last key claimed by a page.
    pub cursor: DeviceKey,
    /// The last key of the audience. Devices that register later are not in it, independent of any
    /// clock.
    pub until: DeviceKey,
    /// Whether it is completely scanned: every key up to `until` is claimed.
    pub scan_done: bool,
    /// Whether it was canceled by request; the rest is counted and not sent.
    pub canceled: bool,
    /// When it was due.
    pub due_at: Timestamp,
    /// `ttl_seconds` of the request, counted from `due_at`.
    pub ttl_seconds: u32,
    /// Which devices it includes, by their offset from UTC.
    pub zone: Zone,
    /// When the first dispatch of the notification was created.
    pub started_at: Timestamp,
}

/// The scan position of a dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scan {
    /// The last key claimed by a page.
    pub cursor: DeviceKey,
    /// Whether it was canceled by request.
    pub canceled: bool,
}

/// Which devices a dispatch includes, by their offset from UTC (`send_at_local`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zone {
    /// All devices.
    All,
    /// Those with this offset, in minutes.
    Offset(i64),
    /// Those whose offset changed since the first zone was due and that got nothing.
    CatchUp,
}

impl Zone {
    /// The code in tables. Offsets are their own code; codes never change.
    #[must_use]
    pub fn code(self) -> i64 {
        match self {
            Self::All => 32_767,
            Self::Offset(minutes) => minutes,
            Self::CatchUp => 32_766,
        }
    }

    /// The zone of a code.
    #[must_use]
    pub fn from_code(code: i64) -> Self {
        match code {
            32_767 => Self::All,
            32_766 => Self::CatchUp,
            minutes => Self::Offset(minutes),
        }
    }
}

/// The source of the devices of a dispatch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AudienceSource {
    /// Every device of the platform.
    Platform,
    /// The devices with this tag, over the index of tags.
    Tag(String),
    /// Named devices, resolved from ids and sorted.
    Named {
        /// Their keys, sorted.
        keys: Vec<DeviceKey>,
        /// Only those that have this tag.
        tag: Option<String>,
    },
}

/// A device of an audience.
#[derive(Clone, PartialEq, Eq)]
pub struct AudienceDevice {
    /// Key.
    pub key: DeviceKey,
    /// Push token or other address, if it has one.
    pub address: Option<Box<str>>,
    /// APNs host.
    pub ios_env: IosEnv,
    /// Whether it is enabled and has the tag, if one is named.
    pub eligible: bool,
    /// The device that had this address before, and until when, so that a dispatch does not send to an
    /// address twice.
    pub previous_owner: Option<(DeviceKey, Timestamp)>,
    /// Encryption keys of a browser; `None` on other platforms.
    pub web_keys: Option<Box<WebKeys>>,
    /// Whether its offset from UTC changed since the first zone of the notification was due, so that it
    /// may have got the notification in another zone.
    pub zone_changed: bool,
    /// When the person last wrote to us, on platforms whose messaging window depends on it.
    pub last_inbound_at: Option<Timestamp>,
    /// How much its responses say about the application's credentials.
    pub trust: AddressTrust,
}

/// How much responses to an address say about the application's credentials. Any visitor of a page can
/// register a Web Push address, without an API key or through the application's backend. Addresses of
/// other platforms are always [`AddressTrust::Verified`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AddressTrust {
    /// It has received a message and was registered with an API key.
    #[default]
    Verified,
    /// It has received a message, and a browser registered it without an API key. Its owner can let it
    /// expire at any time, so a report that it is unregistered says nothing.
    Anonymous,
    /// It has not received a message yet: it may be invented, or belong to another VAPID key.
    Unverified,
}

impl AddressTrust {
    /// Whether it has received a message.
    #[must_use]
    pub fn is_verified(self) -> bool {
        self != Self::Unverified
    }
}

/// The keys of a browser's push subscription (RFC 8291), as they were registered.
#[derive(Clone, PartialEq, Eq)]
pub struct WebKeys {
    /// Uncompressed P-256 point, base64url.
    pub p256dh: Box<str>,
    /// 16 bytes, base64url.
    pub auth: Box<str>,
}

impl std::fmt::Debug for AudienceDevice {
    /// Never shows the address.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AudienceDevice")
            .field("key", &self.key)
            .field("has_address", &self.address.is_some())
            .field("eligible", &self.eligible)
            .finish_non_exhaustive()
    }
}

/// The next devices of an audience.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceBatch {
    /// The devices in key order, eligible or not.
    pub devices: Vec<AudienceDevice>,
    /// The last key that this batch covers, whether or not a device has it.
    pub to: DeviceKey,
    /// Whether the audience ends here.
    pub end: bool,
}

/// Reads a dispatch.
pub(crate) fn read(connection: &Connection, no: DispatchNo) -> Result<Dispatch, StoreError> {
    let mut dispatch = connection
        .prepare_cached(
            "select d.no, d.notification_no, n.id, n.app_no, a.id, a.name, d.platform, n.request,
             p.public_id, d.named, n.tag, d.cursor, d.until, d.scan_done, d.is_canceled, d.due_at,
             n.ttl_seconds, d.zone, n.started_at
             from dispatches d join notifications n on n.no = d.notification_no
             join apps a on a.no = n.app_no
             left join polls p on p.notification_no = n.no
             where d.no = ?1 and a.status <> 'erasing'",
        )?
        .query_row([no.0], dispatch_of)
        .optional()?
        .ok_or(StoreError::NotFound)?;
    if dispatch.poll_public_id.is_some() {
        dispatch.poll_answers = poll_answers(connection, dispatch.notification)?;
    }
    Ok(dispatch)
}

/// The scan position of a dispatch.
pub(super) fn scan(connection: &Connection, no: DispatchNo) -> Result<Option<Scan>, StoreError> {
    let scan = connection
        .prepare_cached(
            "select cursor, is_canceled from dispatches where no = ?1 and scan_done = 0",
        )?
        .query_row([no.0], |row| Ok(Scan { cursor: DeviceKey(row.get(0)?), canceled: row.get(1)? }))
        .optional()?;
    Ok(scan)
}

/// Dispatches that are not completely scanned, oldest first.
pub(super) fn unread(connection: &Connection, limit: u32) -> Result<Vec<DispatchNo>, StoreError> {
    let unread = connection
        .prepare_cached(concat!(
            "select no from dispatches where scan_done = 0 order by ",
            seq_of!("no"),
            " limit ?1"
        ))?
        .query_map([limit], |row| row.get(0).map(DispatchNo))?
        .collect::<Result<Vec<_>, _>>()?;
    Ok(unread)
}

pub(super) fn which_canceled(
    connection: &Connection,
    dispatches: &[DispatchNo],
) -> Result<Vec<DispatchNo>, StoreError> {
    if dispatches.is_empty() {
        return Ok(Vec::new());
    }
    let numbers: Vec<i64> = dispatches.iter().map(|dispatch| dispatch.0).collect();
    let canceled = connection
        .prepare_cached(&format!(
            "select no from dispatches where is_canceled = 1 and no in {NUMBERS}"
        ))?
        .query_map([list_of(&numbers)], |row| row.get(0).map(DispatchNo))?
        .collect::<Result<Vec<_>, _>>()?;
    Ok(canceled)
}

fn poll_answers(connection: &Connection, poll: NotificationNo) -> sql::Result<Vec<AnswerId>> {
    connection
        .prepare_cached("select id from poll_answers where notification_no = ?1 order by place")?
        .query_map([poll.0], |row| Ok(AnswerId(uuid_at(row, 0)?)))?
        .collect()
}

fn dispatch_of(row: &Row<'_>) -> sql::Result<Dispatch> {
    let id: String = row.get(2)?;
    let tag: Option<String> = row.get(10)?;
    let named: Option<Vec<u8>> = row.get(9)?;
    let source = match (named, tag) {
        (Some(bytes), tag) => AudienceSource::Named { keys: keys_of(&bytes), tag },
        (None, Some(tag)) => AudienceSource::Tag(tag),
        (None, None) => AudienceSource::Platform,
    };
    Ok(Dispatch {
        no: DispatchNo(row.get(0)?),
        notification: NotificationNo(row.get(1)?),
        notification_id: NotificationId::new(id).map_err(|_| unexpected_value(2, Type::Text))?,
        app: AppNo(row.get(3)?),
        app_id: AppId(uuid_at(row, 4)?),
        app_name: row.get(5)?,
        platform: platform_of(row.get(6)?),
        request: row.get(7)?,
        poll_public_id: row.get::<Option<[u8; 16]>>(8)?.map(uuid::Uuid::from_bytes),
        poll_answers: Vec::new(),
        source,
        cursor: DeviceKey(row.get(11)?),
        until: DeviceKey(row.get(12)?),
        scan_done: row.get(13)?,
        canceled: row.get(14)?,
        due_at: Timestamp(row.get(15)?),
        ttl_seconds: row.get(16)?,
        zone: Zone::from_code(row.get(17)?),
        started_at: Timestamp(row.get(18)?),
    })
}
