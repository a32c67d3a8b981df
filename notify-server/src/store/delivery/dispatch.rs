//! Dispatches, and reading the devices of their audiences.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use notify_core::{
    AnswerId, AppId, AttributeValue, Condition, IosEnv, Languages, NotificationId, OnCrash,
    Platform, Timestamp,
};

use crate::store::app::on_crash_at;
use crate::store::delivery::matching::{Keys, Matcher, Matching, attribute_rows, range_of};
use crate::store::delivery::start::{keys_of, users_of};
use crate::store::device::attributes;
use crate::store::sql::row::{env_of, unexpected_value, uuid_at};
use crate::store::sql::{
    self, Connection, NUMBERS, OptionalExtension, Row, Type, list_of, params, seq_of,
};
use crate::store::{AppNo, DeviceKey, DispatchNo, NotificationNo, StoreError, UserNo, platform_of};

/// A dispatch: one notification on one platform. With `send_at_local` or a canary, it has only a portion of
/// the devices.
#[derive(Debug, Clone, PartialEq)]
pub struct Dispatch {
    /// The number of the dispatch.
    pub no: DispatchNo,
    /// The notification.
    pub notification: NotificationNo,
    /// The id of the notification.
    pub notification_id: NotificationId,
    /// The application.
    pub app: AppNo,
    /// The id of the application.
    pub app_id: AppId,
    /// The name of the application. It is the title of a notification that has none.
    pub app_name: String,
    /// What happens to messages that a crash interrupts, if their platform cannot recognise a repeat.
    pub on_crash: OnCrash,
    /// The platform.
    pub platform: Platform,
    /// The body of the request, from which the payload is rendered.
    pub request: String,
    /// The public id of the poll, if the notification has one.
    pub poll_public_id: Option<uuid::Uuid>,
    /// The ids of the answers of the poll, in their order.
    pub poll_answers: Vec<AnswerId>,
    /// How the devices are selected.
    pub source: AudienceSource,
    /// The condition that every device must meet, in addition to `source`.
    pub condition: Option<Arc<Condition>>,
    /// The last key that a page has claimed.
    pub cursor: DeviceKey,
    /// The last key of the audience. Devices that register later have larger keys, so the end of
    /// the audience depends on no clock.
    pub until: DeviceKey,
    /// Whether the scan has ended: pages have claimed every key up to `until`.
    pub scan_done: bool,
    /// Whether a request canceled the dispatch. The remaining devices are counted as canceled and
    /// not sent to.
    pub canceled: bool,
    /// When the dispatch was due.
    pub due_at: Timestamp,
    /// `ttl_seconds` of the request, counted from `due_at`.
    pub ttl_seconds: u32,
    /// The portion of the audience that the dispatch has.
    pub portion: Portion,
    /// When the first dispatch of the notification was created.
    pub started_at: Timestamp,
    /// Until when the dispatch is paused: until it expires, unless a request resumes the notification
    /// before. `None` if it is not paused.
    pub paused_until: Option<Timestamp>,
}

/// The scan position of a dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scan {
    /// The last key that a page has claimed.
    pub cursor: DeviceKey,
    /// Whether a request canceled the dispatch.
    pub canceled: bool,
    /// Until when the dispatch is paused; `None` if it is not paused.
    pub paused_until: Option<Timestamp>,
}

/// Requests that changed a dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intervention {
    /// The dispatch.
    pub dispatch: DispatchNo,
    /// Whether a request canceled the dispatch.
    pub canceled: bool,
    /// Until when the dispatch is paused; `None` if it is not paused.
    pub paused_until: Option<Timestamp>,
}

/// The portion of an audience that a dispatch has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Portion {
    /// All devices.
    All,
    /// With `send_at_local`: the devices with this offset from UTC, in minutes.
    Zone(i64),
    /// The devices whose offset changed after the first zone was due, and that got the notification
    /// in no zone.
    CatchUp,
    /// The canary: this share of the devices, in percent.
    Canary(u32),
    /// The devices that are not in a canary of this share.
    Rest(u32),
}

/// The code of a canary is the sum of this number and its share.
pub(super) const CANARY_CODE: i64 = 30_000;
/// The code of the rest is the sum of this number and the share of the canary.
pub(super) const REST_CODE: i64 = 31_000;

impl Portion {
    /// The code in tables: for a zone, the offset in minutes. Codes never change.
    #[must_use]
    pub fn code(self) -> i64 {
        match self {
            Self::All => 32_767,
            Self::Zone(minutes) => minutes,
            Self::CatchUp => 32_766,
            Self::Canary(percent) => CANARY_CODE + i64::from(percent),
            Self::Rest(percent) => REST_CODE + i64::from(percent),
        }
    }

    /// The portion of a code.
    #[must_use]
    pub fn from_code(code: i64) -> Self {
        match code {
            32_767 => Self::All,
            32_766 => Self::CatchUp,
            REST_CODE..32_766 => Self::Rest(percent_of(code - REST_CODE)),
            CANARY_CODE..REST_CODE => Self::Canary(percent_of(code - CANARY_CODE)),
            minutes => Self::Zone(minutes),
        }
    }

    /// Whether the devices of the portion depend on their offset from UTC.
    #[must_use]
    pub fn depends_on_zone(self) -> bool {
        match self {
            Self::Zone(_) | Self::CatchUp => true,
            Self::All | Self::Canary(_) | Self::Rest(_) => false,
        }
    }

    /// Whether the portion can have a device, whatever the time zone of the device is.
    #[must_use]
    pub fn may_have(self, notification: NotificationNo, key: DeviceKey) -> bool {
        match self {
            Self::All | Self::Zone(_) | Self::CatchUp => true,
            Self::Canary(percent) => is_in_canary(notification, key, percent),
            Self::Rest(percent) => !is_in_canary(notification, key, percent),
        }
    }
}

fn percent_of(code: i64) -> u32 {
    u32::try_from(code).unwrap_or_default()
}

/// Whether a canary of this share has a device. Each notification draws other devices, and always the same
/// ones.
pub(super) fn is_in_canary(notification: NotificationNo, key: DeviceKey, percent: u32) -> bool {
    // The output function of SplitMix64 spreads numbers that differ in a few bits.
    let mut hash = notification.0.cast_unsigned().rotate_left(32) ^ key.0.cast_unsigned();
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (hash ^ (hash >> 31)) % 100 < u64::from(percent)
}

/// How the devices of a dispatch are selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AudienceSource {
    /// All devices of the platform.
    Platform,
    /// The devices of the platform that have this tag set to true.
    Tag(String),
    /// The devices whose ids the request names, or the devices of named users.
    Named {
        /// The keys of the devices, sorted.
        keys: Vec<DeviceKey>,
        /// For each of these devices, the user who must be logged in; `None` if the request names devices.
        users: Option<Vec<UserNo>>,
        /// Only devices that have this tag set to true.
        tag: Option<String>,
    },
}

/// A device of an audience.
#[derive(Clone, PartialEq, Eq)]
pub struct AudienceDevice {
    /// The key of the device.
    pub key: DeviceKey,
    /// The push token or other address, if the device has one.
    pub address: Option<Box<str>>,
    /// The APNs host.
    pub ios_env: IosEnv,
    /// Whether the device is enabled, has the tag of the dispatch if the dispatch has one, and
    /// belongs to its audience.
    pub eligible: bool,
    /// Why a named device no longer belongs to the audience.
    pub mismatch: Option<Mismatch>,
    /// The device that had this address before, and when the address moved. A dispatch that has
    /// already sent to the previous device does not send to the address again.
    pub previous_owner: Option<(DeviceKey, Timestamp)>,
    /// The encryption keys of a browser; `None` on other platforms.
    pub web_keys: Option<Box<WebKeys>>,
    /// Whether the offset from UTC changed after the first zone of the notification was due. Such a
    /// device may already have got the notification in another zone.
    pub zone_changed: bool,
    /// When the person last wrote to the application, on platforms that allow messages only for
    /// some time after that.
    pub last_inbound_at: Option<Timestamp>,
    /// How much the responses to the address say about the credentials of the application.
    pub trust: AddressTrust,
}

/// Why a named device does not belong to an audience.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mismatch {
    /// Another user is logged in, or none is.
    User,
    /// The device does not meet the condition.
    Condition,
}

/// How much the responses to an address say about the credentials of the application. A visitor of
/// a website can invent a Web Push address. The website registers it without an API key, or the
/// backend of the application registers it, which cannot recognize the invention. Everyone who has an app
/// can register a push token with the publishable key in it. If such an address is rejected, this does not
/// mean that the credentials are wrong. All other addresses are [`AddressTrust::Verified`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AddressTrust {
    /// The address has received a message and was registered with an API key.
    #[default]
    Verified,
    /// The address has received a message, and a browser registered it without an API key. Its
    /// owner can unsubscribe at any time, so a report that the address is unregistered says nothing
    /// about the credentials.
    Anonymous,
    /// The address has not received a message yet. It may be invented, or belong to another VAPID
    /// key.
    Unverified,
}

impl AddressTrust {
    /// Whether the address has received a message.
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

impl AudienceDevice {
    /// Excludes the device from the audience. Keeps the first reason.
    fn exclude(&mut self, mismatch: Mismatch) {
        self.eligible = false;
        self.mismatch.get_or_insert(mismatch);
    }
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
    /// The devices in the order of their keys, including devices that are not eligible.
    pub devices: Vec<AudienceDevice>,
    /// The last key that this batch covers, whether or not a device has it.
    pub to: DeviceKey,
    /// Whether the audience ends with this batch.
    pub end: bool,
}

impl DeviceBatch {
    /// Keeps the devices up to the `count`th match, or the first one if `count` is 0. The others are left for
    /// the next page.
    pub fn keep_first(&mut self, count: u32, matches: impl Fn(&AudienceDevice) -> bool) {
        let mut places = (0..self.devices.len()).filter(|place| matches(&self.devices[*place]));
        let last = places.nth(count.saturating_sub(1) as usize);
        if let (Some(last), Some(_)) = (last, places.next()) {
            self.devices.truncate(last + 1);
            self.to = self.devices[last].key;
            self.end = false;
        }
    }
}

/// Reads a dispatch.
///
/// # Errors
/// `NotFound` when the dispatch does not exist or its application is being erased.
pub(crate) fn read(connection: &Connection, no: DispatchNo) -> Result<Dispatch, StoreError> {
    let mut dispatch = connection
        .prepare_cached(
            "select d.no, d.notification_no, n.id, n.app_no, a.id, a.name, d.platform, n.request,
             p.public_id, d.named, n.tag, d.cursor, d.until, d.scan_done, d.is_canceled, d.due_at,
             n.ttl_seconds, d.portion, n.started_at, d.named_users, n.audience, d.paused_until,
             a.on_crash
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

/// Reads the scan position of a dispatch; `None` if the scan has ended or the dispatch does not
/// exist.
pub(super) fn scan(connection: &Connection, no: DispatchNo) -> Result<Option<Scan>, StoreError> {
    let scan = connection
        .prepare_cached(
            "select cursor, is_canceled, paused_until from dispatches
             where no = ?1 and scan_done = 0",
        )?
        .query_row([no.0], |row| {
            Ok(Scan {
                cursor: DeviceKey(row.get(0)?),
                canceled: row.get(1)?,
                paused_until: row.get::<Option<i64>>(2)?.map(Timestamp),
            })
        })
        .optional()?;
    Ok(scan)
}

/// Reads the dispatches whose scan has not ended, and that are not paused, oldest first.
pub(super) fn unscanned(
    connection: &Connection,
    limit: u32,
    now: Timestamp,
) -> Result<Vec<DispatchNo>, StoreError> {
    let unscanned = connection
        .prepare_cached(concat!(
            "select no from dispatches where scan_done = 0 and coalesce(paused_until, 0) <= ?2
             order by ",
            seq_of!("no"),
            " limit ?1"
        ))?
        .query_map([i64::from(limit), now.as_ms()], |row| row.get(0).map(DispatchNo))?
        .collect::<Result<Vec<_>, _>>()?;
    Ok(unscanned)
}

/// Returns those of the dispatches that are canceled or paused.
pub(super) fn interventions(
    connection: &Connection,
    dispatches: &[DispatchNo],
) -> Result<Vec<Intervention>, StoreError> {
    if dispatches.is_empty() {
        return Ok(Vec::new());
    }
    let numbers: Vec<i64> = dispatches.iter().map(|dispatch| dispatch.0).collect();
    let interventions = connection
        .prepare_cached(&format!(
            "select no, is_canceled, paused_until from dispatches
             where (is_canceled = 1 or paused_until is not null) and no in {NUMBERS}"
        ))?
        .query_map([list_of(&numbers)], |row| {
            Ok(Intervention {
                dispatch: DispatchNo(row.get(0)?),
                canceled: row.get(1)?,
                paused_until: row.get::<Option<i64>>(2)?.map(Timestamp),
            })
        })?
        .collect::<Result<Vec<_>, _>>()?;
    Ok(interventions)
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
    let named_users: Option<Vec<u8>> = row.get(19)?;
    let audience: Option<String> = row.get(20)?;
    let condition = match audience {
        Some(json) => {
            let parsed = Condition::parse_stored(&json);
            Some(Arc::new(parsed.map_err(|_| unexpected_value(20, Type::Text))?))
        }
        None => None,
    };
    let source = match (named, tag) {
        (Some(bytes), tag) => AudienceSource::Named {
            keys: keys_of(&bytes),
            users: named_users.as_deref().map(users_of),
            tag,
        },
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
        condition,
        cursor: DeviceKey(row.get(11)?),
        until: DeviceKey(row.get(12)?),
        scan_done: row.get(13)?,
        canceled: row.get(14)?,
        due_at: Timestamp(row.get(15)?),
        ttl_seconds: row.get(16)?,
        portion: Portion::from_code(row.get(17)?),
        started_at: Timestamp(row.get(18)?),
        paused_until: row.get::<Option<i64>>(21)?.map(Timestamp),
        on_crash: on_crash_at(row, 22)?,
    })
}

// Reading the devices of an audience. Every read bounds the rows that it scans, not the rows that
// match. For a tag, it scans the index of the tag: five devices are found among ten million without
// reading all.

/// The columns that [`device_of`] reads.
const DEVICE_COLUMNS: &str = "d.key, d.address, d.ios_env, d.push_disabled = 0 and d.dead_at is null, \
    d.moved_from, d.moved_at, d.p256dh, d.auth, d.last_inbound_at, d.utc_offset_minutes, \
    d.zone_changed_at, \
    exists (select 1 from unverified_addresses u where u.device_key = d.key), \
    case when d.p256dh is null then false \
    else exists (select 1 from device_secrets s where s.device_key = d.key) end";
/// The number of columns in [`DEVICE_COLUMNS`].
const DEVICE_COLUMN_COUNT: usize = 13;

/// Selects the devices of a dispatch.
pub(crate) struct AudienceQuery {
    app: AppNo,
    until: DeviceKey,
    source: AudienceSource,
    matching: Option<Matching>,
    notification: NotificationNo,
    portion: Portion,
    /// When the first dispatch of the notification was created.
    started_at: Timestamp,
}

impl AudienceQuery {
    pub(crate) fn of(dispatch: &Dispatch) -> Self {
        let tag = match &dispatch.source {
            AudienceSource::Tag(tag) => Some(tag.clone()),
            // The devices of a platform need no tag. A named device without the tag is read too.
            AudienceSource::Platform | AudienceSource::Named { .. } => None,
        };
        let matching = dispatch.condition.as_ref().map(|condition| Matching {
            condition: Arc::clone(condition),
            tag,
            at: dispatch.due_at,
        });
        Self {
            matching,
            app: dispatch.app,
            until: dispatch.until,
            source: dispatch.source.clone(),
            notification: dispatch.notification,
            portion: dispatch.portion,
            started_at: dispatch.started_at,
        }
    }

    /// Whether a device belongs to the portion of the dispatch. Named devices always do, since the
    /// dispatch of each portion names only the devices of that portion.
    fn includes(&self, scanned: &ScannedDevice) -> bool {
        if self.names_devices() {
            return true;
        }
        match self.portion {
            Portion::Zone(minutes) => scanned.offset == minutes,
            Portion::CatchUp => scanned.device.zone_changed,
            Portion::All | Portion::Canary(_) | Portion::Rest(_) => {
                self.portion.may_have(self.notification, scanned.device.key)
            }
        }
    }

    fn names_devices(&self) -> bool {
        matches!(self.source, AudienceSource::Named { .. })
    }

    /// Reads a device, its offset, and whether the offset changed after the first zone was due.
    fn scanned_device_of(&self, row: &Row<'_>) -> sql::Result<ScannedDevice> {
        let mut device = device_of(row)?;
        let changed_at = row.get::<Option<i64>>(10)?.map(Timestamp);
        device.zone_changed = self.portion.depends_on_zone()
            && changed_at.is_some_and(|changed_at| changed_at >= self.started_at);
        Ok(ScannedDevice { device, offset: row.get(9)? })
    }
}

/// A range of device keys: `(after, to]`.
#[derive(Clone, Copy)]
pub(crate) struct KeyRange {
    /// The key before the range.
    pub(crate) after: DeviceKey,
    /// The last key of the range.
    pub(crate) to: DeviceKey,
}

/// A device of any portion, and its offset.
struct ScannedDevice {
    device: AudienceDevice,
    /// The offset from UTC, in minutes.
    offset: i64,
}

/// Reads the next devices of an audience after the key `after`. Scans at most `rows_max` rows, so
/// the batch may have fewer devices, even none, before the audience ends.
pub(super) fn read_batch(
    connection: &Connection,
    query: &AudienceQuery,
    after: DeviceKey,
    rows_max: u32,
) -> Result<DeviceBatch, StoreError> {
    if let AudienceSource::Named { keys, .. } = &query.source {
        // `rows_max` bounds the keys. Some of their devices may no longer exist.
        let rest = keys.get(keys.partition_point(|key| *key <= after)..).unwrap_or_default();
        let rows_max = usize::try_from(rows_max).unwrap_or(usize::MAX);
        let end = rest.len() <= rows_max;
        let last = rest.get(..rows_max).unwrap_or(rest).last().copied().unwrap_or(after);
        let to = if end { query.until } else { last };
        let devices = devices_in_range(connection, query, KeyRange { after, to }, None)?;
        return Ok(DeviceBatch { devices, to, end });
    }
    if let Some(matching) = &query.matching {
        let keys = Keys { after: after.0, to: query.until.0 };
        let wanted = usize::try_from(rows_max).unwrap_or(usize::MAX);
        let matched = Matcher::new(connection, query.app, matching)?.next_matches(keys, wanted)?;
        let devices = filter_portion(query, read_keys(connection, query, &matched.keys)?);
        let to = DeviceKey(matched.to);
        return Ok(DeviceBatch { devices, to, end: to >= query.until });
    }
    let scanned =
        read_rows(connection, query, KeyRange { after, to: query.until }, Some(rows_max))?;
    let is_full = scanned.len() >= usize::try_from(rows_max).unwrap_or(usize::MAX);
    let to = match scanned.last() {
        Some(last) if is_full => last.device.key,
        Some(_) | None => query.until,
    };
    Ok(DeviceBatch { devices: filter_portion(query, scanned), to, end: to >= query.until })
}

/// Reads the devices of an audience in a range of keys, at most `rows_max`.
pub(crate) fn devices_in_range(
    connection: &Connection,
    query: &AudienceQuery,
    keys: KeyRange,
    rows_max: Option<u32>,
) -> Result<Vec<AudienceDevice>, StoreError> {
    if let (Some(matching), false) = (&query.matching, query.names_devices()) {
        let matcher = Matcher::new(connection, query.app, matching)?;
        let wanted =
            rows_max.map_or(usize::MAX, |rows| usize::try_from(rows).unwrap_or(usize::MAX));
        let mut rest = Keys { after: keys.after.0, to: keys.to.0 };
        let mut matches = Vec::new();
        while rest.after < rest.to && matches.len() < wanted {
            let matched = matcher.next_matches(rest, wanted - matches.len())?;
            matches.extend(matched.keys);
            rest.after = matched.to;
        }
        return Ok(filter_portion(query, read_keys(connection, query, &matches)?));
    }
    Ok(filter_portion(query, read_rows(connection, query, keys, rows_max)?))
}

/// Reads devices by key. `keys` are sorted.
fn read_keys(
    connection: &Connection,
    query: &AudienceQuery,
    keys: &[i64],
) -> Result<Vec<ScannedDevice>, StoreError> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let read = |row: &Row<'_>| query.scanned_device_of(row);
    let devices = match range_of(keys) {
        Some([first, last]) => {
            let mut devices = connection
                .prepare_cached(&format!(
                    "select {DEVICE_COLUMNS} from devices d where d.key >= ?1 and d.key <= ?2
                     order by d.key"
                ))?
                .query_map([first, last], read)?
                .collect::<sql::Result<Vec<_>>>()?;
            devices.retain(|scanned| keys.binary_search(&scanned.device.key.0).is_ok());
            devices
        }
        None => connection
            .prepare_cached(&format!(
                "select {DEVICE_COLUMNS} from devices d where d.key in {NUMBERS} order by d.key"
            ))?
            .query_map([list_of(keys)], read)?
            .collect::<sql::Result<Vec<_>>>()?,
    };
    Ok(devices)
}

/// Keeps the devices that belong to the portion of the dispatch.
fn filter_portion(query: &AudienceQuery, scanned: Vec<ScannedDevice>) -> Vec<AudienceDevice> {
    let included = scanned.into_iter().filter(|scanned| query.includes(scanned));
    included.map(|scanned| scanned.device).collect()
}

/// Reads the devices of all portions in a range of keys, at most `rows_max`.
fn read_rows(
    connection: &Connection,
    query: &AudienceQuery,
    KeyRange { after, to }: KeyRange,
    rows_max: Option<u32>,
) -> Result<Vec<ScannedDevice>, StoreError> {
    let rows_max = rows_max.map_or(i64::MAX, i64::from);
    match &query.source {
        AudienceSource::Platform => {
            let sql = format!(
                "select {DEVICE_COLUMNS} from devices d where d.key > ?1 and d.key <= ?2
                 order by d.key limit ?3"
            );
            let devices = connection
                .prepare_cached(&sql)?
                .query_map([after.0, to.0, rows_max], |row| query.scanned_device_of(row))?
                .collect::<Result<Vec<_>, _>>()?;
            Ok(devices)
        }
        AudienceSource::Tag(tag) => {
            let sql = format!(
                "select {DEVICE_COLUMNS}, dt.value from tags t cross join device_tags dt
                 cross join devices d
                 where t.app_no = ?4 and t.name = ?5 and dt.tag_no = t.no
                 and dt.device_key > ?1 and dt.device_key <= ?2 and d.key = dt.device_key
                 order by dt.device_key limit ?3"
            );
            let devices = connection
                .prepare_cached(&sql)?
                .query_map(params![after.0, to.0, rows_max, query.app.0, tag], |row| {
                    let mut scanned = query.scanned_device_of(row)?;
                    scanned.device.eligible &= row.get::<bool>(DEVICE_COLUMN_COUNT)?;
                    Ok(scanned)
                })?
                .collect::<Result<Vec<_>, _>>()?;
            Ok(devices)
        }
        AudienceSource::Named { keys, users, tag } => {
            let first = keys.partition_point(|key| *key <= after);
            let end = keys.partition_point(|key| *key <= to);
            let named = keys.get(first..end).unwrap_or_default();
            let mut devices = read_named(connection, query.app, named, tag.as_deref())?;
            if let Some(users) = users {
                let users = users.get(first..end).unwrap_or_default();
                check_users(connection, &mut devices, named, users)?;
            }
            if let Some(matching) = &query.matching {
                check_condition(connection, query.app, matching, &mut devices)?;
            }
            Ok(devices.into_iter().map(|device| ScannedDevice { device, offset: 0 }).collect())
        }
    }
}

/// Excludes the devices that are no longer logged in as the user to whom they belonged when the notification
/// became due. `users` has the user of each of `keys`.
fn check_users(
    connection: &Connection,
    devices: &mut [AudienceDevice],
    keys: &[DeviceKey],
    users: &[UserNo],
) -> Result<(), StoreError> {
    let numbers: Vec<i64> = devices.iter().map(|device| device.key.0).collect();
    if numbers.is_empty() {
        return Ok(());
    }
    let current = connection
        .prepare_cached(&format!(
            "select key, user_no from device_fields
             where key in {NUMBERS} and user_no is not null"
        ))?
        .query_map([list_of(&numbers)], |row| Ok((DeviceKey(row.get(0)?), UserNo(row.get(1)?))))?
        .collect::<sql::Result<HashMap<_, _>>>()?;
    for device in devices {
        let wanted = keys.binary_search(&device.key).ok().and_then(|index| users.get(index));
        if wanted.is_none() || current.get(&device.key) != wanted {
            device.exclude(Mismatch::User);
        }
    }
    Ok(())
}

/// Excludes the devices that do not meet the condition.
fn check_condition(
    connection: &Connection,
    app: AppNo,
    matching: &Matching,
    devices: &mut [AudienceDevice],
) -> Result<(), StoreError> {
    let numbers: Vec<i64> = devices.iter().map(|device| device.key.0).collect();
    let matches = Matcher::new(connection, app, matching)?.which_match(&numbers)?;
    for device in devices {
        if matches.binary_search(&device.key.0).is_err() {
            device.exclude(Mismatch::Condition);
        }
    }
    Ok(())
}

/// Reads devices by key, in the order of their keys. With a tag, a device that does not have it set
/// to true is not eligible.
pub(crate) fn read_named(
    connection: &Connection,
    app: AppNo,
    keys: &[DeviceKey],
    tag: Option<&str>,
) -> Result<Vec<AudienceDevice>, StoreError> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let keys = list_of(&keys.iter().map(|key| key.0).collect::<Vec<_>>());
    let devices = match tag {
        None => connection
            .prepare_cached(&format!(
                "select {DEVICE_COLUMNS} from devices d where d.key in {NUMBERS} order by d.key"
            ))?
            .query_map([keys], device_of)?
            .collect::<Result<Vec<_>, _>>()?,
        Some(tag) => connection
            .prepare_cached(&format!(
                "select {DEVICE_COLUMNS}, exists (select 1 from tags t cross join device_tags dt
                  where t.app_no = ?2 and t.name = ?3
                  and dt.tag_no = t.no and dt.device_key = d.key and dt.value = 1)
                 from devices d where d.key in {NUMBERS} order by d.key"
            ))?
            .query_map(params![keys, app.0, tag], |row| {
                let mut device = device_of(row)?;
                device.eligible &= row.get::<bool>(DEVICE_COLUMN_COUNT)?;
                Ok(device)
            })?
            .collect::<Result<Vec<_>, _>>()?,
    };
    Ok(devices)
}

/// Reads one device. With a tag, a device that does not have it set to true is not eligible.
pub(super) fn read_device(
    connection: &Connection,
    key: DeviceKey,
    tag: Option<&str>,
) -> Result<Option<AudienceDevice>, StoreError> {
    let device = connection
        .prepare_cached(&format!("select {DEVICE_COLUMNS} from devices d where d.key = ?1"))?
        .query_row([key.0], device_of)
        .optional()?;
    let (Some(mut device), Some(tag)) = (device.clone(), tag) else { return Ok(device) };
    device.eligible &= connection
        .prepare_cached(
            "select 1 from tags t cross join device_tags dt
             where t.app_no = ?1 and t.name = ?2
             and dt.tag_no = t.no and dt.device_key = ?3 and dt.value = 1",
        )?
        .exists(params![key.app().0, tag, key.0])?;
    Ok(Some(device))
}

/// Finds the translation for each device: the place among `languages` of the one that fits the language of
/// the device. A device that no translation fits is left out. `keys` are sorted.
pub(super) fn translations(
    connection: &Connection,
    keys: &[i64],
    languages: &[String],
) -> Result<BTreeMap<DeviceKey, usize>, StoreError> {
    let texts = Languages::new(languages);
    // A page has many devices and few languages.
    let mut places: HashMap<String, Option<usize>> = HashMap::new();
    let read = |row: &Row<'_>| {
        let language = row.get_ref(1)?.as_str().ok_or(sql::Error::Column(1))?;
        let place = match places.get(language) {
            Some(place) => *place,
            None => {
                let place = texts.find(language);
                places.insert(language.to_owned(), place);
                place
            }
        };
        place.map(|place| Ok((DeviceKey(row.get(0)?), place))).transpose()
    };
    let found = match range_of(keys) {
        Some([first, last]) => connection
            .prepare_cached(
                "select key, language from device_fields
                 where key >= ?1 and key <= ?2 and language is not null",
            )?
            .query_map([first, last], read)?
            .filter_map(Result::transpose)
            .collect::<sql::Result<BTreeMap<_, _>>>()?,
        None => connection
            .prepare_cached(&format!(
                "select key, language from device_fields
                 where key in {NUMBERS} and language is not null"
            ))?
            .query_map([list_of(keys)], read)?
            .filter_map(Result::transpose)
            .collect::<sql::Result<BTreeMap<_, _>>>()?,
    };
    Ok(found)
}

/// Reads the attributes with these names of devices: for each device that has one, the values in the order
/// of the names. `keys` are sorted.
pub(super) fn attribute_values(
    connection: &Connection,
    app: AppNo,
    keys: &[i64],
    names: &[String],
) -> Result<HashMap<DeviceKey, Vec<Option<AttributeValue>>>, StoreError> {
    let by_name = attributes::numbers_of(connection, app, names)?;
    let numbers: Vec<i64> = by_name.values().copied().collect();
    let mut values = HashMap::new();
    if keys.is_empty() || numbers.is_empty() {
        return Ok(values);
    }
    let places: HashMap<i64, usize> = names
        .iter()
        .enumerate()
        .filter_map(|(place, name)| Some((*by_name.get(name)?, place)))
        .collect();
    for (key, number, stored) in attribute_rows(connection, keys)? {
        if let Some(place) = places.get(&number) {
            let of_device = values.entry(DeviceKey(key)).or_insert_with(|| vec![None; names.len()]);
            of_device[*place] = Some(attributes::value_of(&stored)?);
        }
    }
    Ok(values)
}

/// Reads a device from a row of [`DEVICE_COLUMNS`]. `zone_changed` is false: it depends on the
/// dispatch.
fn device_of(row: &Row<'_>) -> sql::Result<AudienceDevice> {
    let ios_env = match row.get::<Option<i64>>(2)? {
        Some(code) => env_of(code).ok_or_else(|| unexpected_value(2, Type::Integer))?,
        None => IosEnv::default(),
    };
    let moved_from = row.get::<Option<i64>>(4)?.map(DeviceKey);
    let moved_at = row.get::<Option<i64>>(5)?.map(Timestamp);
    let (is_unverified, is_anonymous): (bool, bool) = (row.get(11)?, row.get(12)?);
    let trust = if is_unverified {
        AddressTrust::Unverified
    } else if is_anonymous {
        AddressTrust::Anonymous
    } else {
        AddressTrust::Verified
    };
    Ok(AudienceDevice {
        key: DeviceKey(row.get(0)?),
        address: row.get::<Option<String>>(1)?.map(String::into_boxed_str),
        ios_env,
        eligible: row.get(3)?,
        mismatch: None,
        previous_owner: moved_from.zip(moved_at),
        web_keys: web_keys(row)?,
        zone_changed: false,
        last_inbound_at: row.get::<Option<i64>>(8)?.map(Timestamp),
        trust,
    })
}

fn web_keys(row: &Row<'_>) -> sql::Result<Option<Box<WebKeys>>> {
    let p256dh: Option<String> = row.get(6)?;
    let auth: Option<String> = row.get(7)?;
    Ok(p256dh.zip(auth).map(|(p256dh, auth)| {
        Box::new(WebKeys { p256dh: p256dh.into_boxed_str(), auth: auth.into_boxed_str() })
    }))
}
