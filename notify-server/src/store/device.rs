//! Devices, tags and their counts.

pub(super) mod app;
pub(in crate::store) mod attributes;
mod counts;
pub(in crate::store) mod erase;
mod fields;
pub(in crate::store) mod inbound;
mod named_ids;
pub(super) mod register;
mod row;
pub(in crate::store) mod tags;

use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;

use notify_core::{
    AttributeChanges, Attributes, Condition, Device, DeviceId, DeviceRegistered, DeviceState,
    DisabledReason, Platform, PlatformCount, Registration, Subscription, SubscriptionCreated,
    Success, Tag, TagSummary, TagType, Timestamp, TokenProblem, UserId, WebSubscription,
};

pub(super) use self::counts::{
    count_all, count_dead, count_enabled, count_revived, hour_of, move_zones,
};
pub(in crate::store) use self::fields::ConditionFields;
pub(super) use self::named_ids::{IdLists, NamedIds, without_ids};
pub(super) use self::register::{is_time_due, is_unchanged, register, replace_moved};
pub(super) use self::row::by_keys;
pub(super) use self::row::{DEVICE_COLUMNS, DEVICES, DeviceRow, DeviceUpsert, REGISTERED};
use self::row::{by_id, keys_by_address};
pub(super) use self::row::{key_by_id, keys_by_ids};
use crate::store::delivery::matching::{Keys, Matcher, Matching};
use crate::store::page::{CursorCodec, PageBuilder};
use crate::store::postgres::RegisterDevice;
use crate::store::sql::error::internal;
use crate::store::sql::row::require_app;
use crate::store::sql::{Connection, NUMBERS, OptionalExtension, Params, WriteScope, list_of};
use crate::store::{
    AppNo, DeviceKey, Idempotent, IdempotentRequest, Operation, Page, PageRequest, SEQUENCE_MAX,
    Store, StoreError, idempotency, user,
};

/// How often the registration time of an unchanged device is written at most, in milliseconds: once
/// an hour.
pub const REGISTRATION_WRITTEN_EVERY_MS: i64 = 3_600_000;

/// The devices that a list contains.
#[derive(Debug, Clone, Default)]
pub struct DeviceFilter {
    /// Only this platform.
    pub platform: Option<Platform>,
    /// Only devices that have this tag set to true.
    pub tag: Option<String>,
    /// Only devices in this state.
    pub state: Option<DeviceState>,
    /// Only devices with this address.
    pub address: Option<String>,
    /// Only devices on which this user is logged in.
    pub user: Option<UserId>,
    /// Only devices that meet this condition.
    pub condition: Option<DeviceCondition>,
}

/// A condition that devices of a list meet.
#[derive(Debug, Clone)]
pub struct DeviceCondition {
    /// The condition.
    pub condition: Arc<Condition>,
    /// The instant for which it is evaluated.
    pub at: Timestamp,
}

impl Store {
    /// Registers a device, or replaces all fields of an existing device. If another device had the
    /// token, the token is removed from that device. A new token or another `ios_env` enables a
    /// device again that was disabled as unregistered. A device that changes its platform gets a
    /// new key; its `created_at` and tags stay. If nothing changes, only the time of the
    /// registration is written, at most once an hour.
    pub async fn register_device(
        &self,
        app: AppNo,
        registration: Registration,
        at: Timestamp,
        once: Option<IdempotentRequest>,
    ) -> Result<Idempotent<DeviceRegistered>, StoreError> {
        let wanted = Arc::new(DeviceUpsert::of_registration(app, registration)?);
        if self.sets.is_none() && once.is_none() {
            // Most registrations change nothing. A read that finds this is far cheaper than a commit. A set
            // reads first by itself.
            let requested = Arc::clone(&wanted);
            let needs_no_write = self
                .read_statement(move |tx| register::needs_no_write(tx, app, &requested, at))
                .await?;
            if needs_no_write {
                return Ok(Idempotent::Executed(wanted.registered()));
            }
        }
        self.write_in_set(RegisterDevice { app, wanted, at, once }).await
    }

    /// Subscribes a browser, a Messenger person or a chat. If the request has no device id, the
    /// device that has the address keeps its id, and a new device gets the id `generated_id`. If
    /// the request has a device id, the address moves to the device with this id. An id of a device
    /// of another platform is refused with the path `device_id`.
    pub async fn subscribe_device(
        &self,
        app: AppNo,
        subscription: Subscription,
        generated_id: DeviceId,
        at: Timestamp,
        once: Option<IdempotentRequest>,
    ) -> Result<Idempotent<SubscriptionCreated>, StoreError> {
        let has_id = subscription.device_id.is_some();
        let mut wanted = DeviceUpsert::of_subscription(app, subscription, generated_id)?;
        self.write_to(WriteScope::app(app), Operation::SubscribeDevice, move |tx| {
            if !has_id && let Some(id) = register::owner_of_address(tx, app, &wanted)? {
                wanted.device_id = id;
            }
            let once = once.map(|once| once.about(&wanted.device_id));
            idempotency::run(tx, app, once.as_ref(), |tx| {
                register::subscribe(tx, app, &wanted, at)?;
                if wanted.platform == Platform::Web
                    && let Some(key) = key_by_id(tx, app, wanted.device_id.as_str())?
                {
                    inbound::clear_anonymous(tx, key)?;
                }
                Ok(SubscriptionCreated::new(wanted.device_id.clone(), wanted.user.as_ref()))
            })
        })
        .await
    }

    /// Reads a device.
    pub async fn device(&self, app: AppNo, id: DeviceId) -> Result<Device, StoreError> {
        self.read(move |connection| device(connection, app, &id)).await
    }

    /// Reads the key of a device.
    pub async fn device_key(&self, app: AppNo, id: DeviceId) -> Result<DeviceKey, StoreError> {
        self.read(move |connection| {
            require_app(connection, app)?;
            let keys = keys_by_ids(connection, app, &[id.as_str()])?;
            keys.get(id.as_str()).copied().ok_or(StoreError::NotFound)
        })
        .await
    }

    /// Lists devices in the order of their keys. With a state, one call reads a bounded number of
    /// devices. A page can then have fewer rows than its limit, even none, and still have a next
    /// page.
    pub async fn list_devices(
        &self,
        app: AppNo,
        filter: DeviceFilter,
        page: PageRequest,
    ) -> Result<Page<Device>, StoreError> {
        self.read_in_slices(None, move |connection, listing: Option<Listing>| {
            let listing = match listing {
                Some(listing) => listing,
                None => {
                    let listing = Listing::begin(connection, app, &filter, &page)?;
                    if filter.condition.is_some() {
                        // The search for the devices that meet it was the first slice.
                        return Ok(ControlFlow::Continue(Some(listing)));
                    }
                    listing
                }
            };
            let next = listing.next(connection)?;
            Ok(next.map_continue(Some))
        })
        .await
    }

    /// Erases a device and everything that is stored about it. In the same transaction, its pending
    /// deliveries are counted as canceled. From then on, no stored request shows its id.
    pub async fn delete_device(
        &self,
        app: AppNo,
        id: DeviceId,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.write_to(WriteScope::app(app), Operation::DeleteDevice, move |tx| {
            erase::erase_device(tx, app, &id, at)
        })
        .await
    }

    /// Sets tags of a device and keeps its other tags.
    pub async fn set_tags(
        &self,
        app: AppNo,
        id: DeviceId,
        tags: Vec<Tag>,
        once: Option<IdempotentRequest>,
    ) -> Result<Idempotent<Success>, StoreError> {
        let once = once.map(|once| once.about(&id));
        self.write_once(Operation::SetTags, app, once, move |tx| {
            tags::set(tx, app, &id, &tags)?;
            Ok(Success { success: true })
        })
        .await
    }

    /// Changes a device's own attributes. Attributes that `changes` does not contain stay.
    pub async fn change_attributes(
        &self,
        app: AppNo,
        id: DeviceId,
        changes: AttributeChanges,
    ) -> Result<Success, StoreError> {
        self.write_to(WriteScope::app(app), Operation::ChangeAttributes, move |tx| {
            require_app(tx, app)?;
            let key = key_by_id(tx, app, id.as_str())?.ok_or(StoreError::NotFound)?;
            let user = user::user_of(tx, key)?;
            attributes::change_of_device(tx, key, user, &changes)?;
            Ok(Success { success: true })
        })
        .await
    }

    /// Removes a tag of a device.
    pub async fn remove_tag(
        &self,
        app: AppNo,
        id: DeviceId,
        name: String,
    ) -> Result<(), StoreError> {
        self.write_to(WriteScope::app(app), Operation::RemoveTag, move |tx| {
            tags::remove(tx, app, &id, &name)
        })
        .await
    }

    /// Lists the tags of an application by name. Each has the number of devices that have it set to
    /// true.
    pub async fn list_tags(
        &self,
        app: AppNo,
        page: PageRequest,
    ) -> Result<Page<TagSummary>, StoreError> {
        self.read_long(move |connection| tags::list(connection, app, &page)).await
    }

    /// Counts the devices that were created within `[from, to]`, by platform and current state.
    /// Whole hours are read from counters, so only the first and the last hour are scanned.
    /// Platforms without devices are left out.
    pub async fn count_devices(
        &self,
        app: AppNo,
        from: Option<Timestamp>,
        to: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<PlatformCount>, StoreError> {
        self.read_in_slices(None, move |connection, counting: Option<counts::Counting>| {
            let counting = match counting {
                Some(counting) => counting,
                None => counts::Counting::begin(connection, app, from, to, now)?,
            };
            Ok(counting.next(connection)?.map_continue(Some))
        })
        .await
    }
}

/// The time of the last registration of a device. One that changed nothing may be up to an hour later.
pub(super) fn registered_at(
    tx: &Connection,
    key: DeviceKey,
) -> Result<Option<Timestamp>, StoreError> {
    let at = tx
        .prepare_cached("select registered_at from device_fields where key = ?1")?
        .query_row([key.0], |row| row.get(0).map(Timestamp))
        .optional()?;
    Ok(at)
}

// Reading devices back.

/// The most devices that the first slice of a page reads. A device can have 100 KB, so the first
/// devices show whether later slices may read more at once.
const DEVICES_AT_FIRST: i64 = 64;
/// The most devices that one slice of a list reads.
const DEVICES_PER_SLICE_MAX: i64 = 250;
/// The most devices that one request for a state reads.
pub(super) const DEVICES_SCANNED_MAX: i64 = 10_000;
/// The most bytes of rows that one statement reads.
const READ_BYTES_MAX: usize = 4 * 1_048_576;
/// The most bytes of a row in addition to its texts, both on the wire and in memory.
const ROW_BYTES_MAX: usize = 256;

/// Reads one device.
fn device(connection: &Connection, app: AppNo, id: &DeviceId) -> Result<Device, StoreError> {
    require_app(connection, app)?;
    let row = by_id(connection, app, id)?.ok_or(StoreError::NotFound)?;
    let mut others = OtherTables::read(connection, &[row.key.0])?;
    others.view(row)
}

/// The keys of the devices that have the address and the user of the filter, sorted; `None` if the filter
/// has neither.
fn few_keys(
    connection: &Connection,
    app: AppNo,
    filter: &DeviceFilter,
) -> Result<Option<Vec<i64>>, StoreError> {
    let mut keys: Option<Vec<i64>> = None;
    if let Some(address) = &filter.address {
        keys = Some(keys_by_address(connection, app, address)?.iter().map(|key| key.0).collect());
    }
    if let Some(user) = &filter.user {
        let devices = match user::number_of(connection, app, user)? {
            Some(user) => user::devices_of(connection, user)?,
            None => Vec::new(),
        };
        let mut of_user: Vec<i64> = devices.iter().map(|key| key.0).collect();
        if let Some(keys) = keys {
            of_user.retain(|key| keys.contains(key));
        }
        keys = Some(of_user);
    }
    if let Some(keys) = &mut keys {
        keys.sort_unstable();
    }
    Ok(keys)
}

/// A page of devices that is being read, in slices.
struct Listing {
    cursors: CursorCodec,
    state: Option<DeviceState>,
    /// The tag that the devices must have set to true. Its number is a constant of the statements,
    /// so that PostgreSQL can read the devices of the tag in the order of the index, without a sort.
    tag_no: Option<i64>,
    page: PageBuilder<Device>,
    /// What is still to read.
    rest: Rest,
    /// Where the next page begins, unless the page is full before `rest` is read.
    next: Option<i64>,
    /// The most devices that the next slice reads.
    rows_max: i64,
}

/// The devices that a listing still has to read.
enum Rest {
    /// Those of a range of keys that match the filter.
    Range(Keys),
    /// Those with these keys that are in the wanted state. The keys are sorted.
    Keys(VecDeque<i64>),
}

impl Listing {
    /// Finds out which devices are to be read.
    fn begin(
        connection: &Connection,
        app: AppNo,
        filter: &DeviceFilter,
        page: &PageRequest,
    ) -> Result<Self, StoreError> {
        require_app(connection, app)?;
        let cursors = CursorCodec { list: "devices", owner: app.0 };
        let (first_platform, last_platform) = match filter.platform {
            Some(platform) => (platform, platform),
            None => (Platform::Android, Platform::ChatApp),
        };
        let begin = DeviceKey::before_first(app, first_platform).0;
        let after = cursors.decode_number(page)?.map_or(begin, |key| key.max(begin));
        let last = DeviceKey::new(app, last_platform, SEQUENCE_MAX).0;
        let mut listing = Self {
            cursors,
            state: filter.state,
            tag_no: None,
            page: PageBuilder::new(page),
            rest: Rest::Keys(VecDeque::new()),
            next: None,
            rows_max: DEVICES_AT_FIRST,
        };
        if let Some(name) = &filter.tag {
            listing.tag_no = tags::tag_no(connection, app, name)?;
            if listing.tag_no.is_none() {
                return Ok(listing);
            }
        }
        let matching = filter.condition.as_ref().map(|condition| Matching {
            condition: Arc::clone(&condition.condition),
            tag: filter.tag.clone(),
            at: condition.at,
        });
        if let Some(mut keys) = few_keys(connection, app, filter)? {
            keys.retain(|key| *key > after && *key <= last);
            if let Some(matching) = &matching {
                keys = Matcher::new(connection, app, matching)?.which_match(&keys)?;
            } else if let Some(tag_no) = listing.tag_no {
                keys = tags::devices_with(connection, tag_no, &keys)?;
            }
            listing.rest = Rest::Keys(keys.into());
        } else if let Some(matching) = &matching {
            let wanted = usize::try_from(listing.page.rows_wanted()).unwrap_or(0);
            let matcher = Matcher::new(connection, app, matching)?;
            let matched = matcher.next_matches(Keys { after, to: last }, wanted)?;
            listing.next = Some(matched.to).filter(|to| *to < last);
            listing.rest = Rest::Keys(matched.keys.into());
        } else {
            listing.next = listing.scan_limit(connection, after, last)?;
            listing.rest = Rest::Range(Keys { after, to: listing.next.unwrap_or(last) });
        }
        Ok(listing)
    }

    /// Adds the devices of the next slice.
    fn next(
        mut self,
        connection: &Connection,
    ) -> Result<ControlFlow<Page<Device>, Self>, StoreError> {
        let wanted = self.page.rows_wanted().min(self.rows_max);
        let is_read = wanted <= 0
            || match &mut self.rest {
                Rest::Range(keys) => {
                    let keys = *keys;
                    let Rows { rows, is_cut } =
                        self.rows(connection, [keys.after, keys.to, wanted])?;
                    let is_last = !is_cut && (rows.len() as i64) < wanted;
                    let after = rows.last().map_or(keys.after, |row| row.key.0);
                    self.rest = Rest::Range(Keys { after, ..keys });
                    self.add(connection, rows)?;
                    is_last
                }
                Rest::Keys(left) => {
                    let slice: Vec<i64> = left.iter().copied().take(wanted as usize).collect();
                    let Rows { rows, is_cut } = self.rows_of(connection, &slice)?;
                    // If the rows are so large that the statement stopped early, it read some.
                    let read_to = rows.last().map(|row| row.key.0).filter(|_| is_cut);
                    let read_to = read_to.or(slice.last().copied()).unwrap_or(i64::MAX);
                    self.add(connection, rows)?;
                    let Rest::Keys(left) = &mut self.rest else { unreachable!("it has keys") };
                    left.drain(..left.partition_point(|key| *key <= read_to));
                    left.is_empty()
                }
            };
        if !is_read && self.page.rows_wanted() > 0 {
            let may_grow = self.page.has_room_for_all();
            self.rows_max = if may_grow { DEVICES_PER_SLICE_MAX } else { DEVICES_AT_FIRST };
            return Ok(ControlFlow::Continue(self));
        }
        let mut listed = self.page.page(self.cursors);
        if listed.next.is_none() {
            listed.next = self.next.map(|key| self.cursors.encode_number(key));
        }
        Ok(ControlFlow::Break(listed))
    }

    /// Adds devices to the page, until it is full.
    fn add(&mut self, connection: &Connection, rows: Vec<DeviceRow>) -> Result<(), StoreError> {
        let keys: Vec<i64> = rows.iter().map(|row| row.key.0).collect();
        let mut others = OtherTables::read(connection, &keys)?;
        for row in rows {
            if self.page.rows_wanted() <= 0 {
                return Ok(());
            }
            self.page.add(row.key.0, others.view(row)?)?;
        }
        Ok(())
    }

    /// Reads the devices with these keys that are in the wanted state.
    fn rows_of(&self, connection: &Connection, keys: &[i64]) -> Result<Rows, StoreError> {
        let sql = format!(
            "select {DEVICE_COLUMNS}, {REGISTERED} from {DEVICES} where d.key in {NUMBERS} {} order by d.key",
            self.state_condition()
        );
        read_rows(connection, &sql, [list_of(keys)])
    }

    /// The condition on the state of the devices.
    fn state_condition(&self) -> &'static str {
        match self.state {
            None => "",
            Some(DeviceState::Enabled) => "and d.push_disabled = 0 and d.dead_at is null",
            Some(DeviceState::Disabled) => "and (d.push_disabled = 1 or d.dead_at is not null)",
            Some(DeviceState::Unregistered) => "and d.push_disabled = 0 and d.dead_at is not null",
        }
    }

    /// Reads the first devices of the key range `(after, last]` that match the filter, at most
    /// `wanted`.
    fn rows(
        &self,
        connection: &Connection,
        [after, last, wanted]: [i64; 3],
    ) -> Result<Rows, StoreError> {
        let of_state = self.state_condition();
        match self.tag_no {
            None => {
                let sql = format!(
                    "select {DEVICE_COLUMNS}, {REGISTERED} from {DEVICES}
                     where d.key > ?1 and d.key <= ?2 {of_state} order by d.key limit ?3"
                );
                read_rows(connection, &sql, [after, last, wanted])
            }
            Some(tag_no) => {
                let sql = format!(
                    "select {DEVICE_COLUMNS}, {REGISTERED} from device_tags dt cross join {DEVICES}
                     where dt.tag_no = ?4 and dt.value = 1
                     and dt.device_key > ?1 and dt.device_key <= ?2
                     and d.key = dt.device_key {of_state} order by dt.device_key limit ?3"
                );
                read_rows(connection, &sql, [after, last, wanted, tag_no])
            }
        }
    }

    /// The last device that the request reads in the key range `(after, last]`; `None` if it reads
    /// the whole range. Only a search for a state has a limit: it may read many devices for each
    /// one that it finds.
    fn scan_limit(
        &self,
        connection: &Connection,
        after: i64,
        last: i64,
    ) -> Result<Option<i64>, StoreError> {
        if self.state.is_none() {
            return Ok(None);
        }
        let scanned_before = DEVICES_SCANNED_MAX - 1;
        let limit = match self.tag_no {
            None => connection
                .prepare_cached(
                    "select key from devices where key > ?1 and key <= ?2
                     order by key limit 1 offset ?3",
                )?
                .query_row([after, last, scanned_before], |row| row.get(0)),
            Some(tag_no) => connection
                .prepare_cached(
                    "select device_key from device_tags
                     where tag_no = ?4 and device_key > ?1 and device_key <= ?2
                     order by device_key limit 1 offset ?3",
                )?
                .query_row([after, last, scanned_before, tag_no], |row| row.get(0)),
        };
        Ok(limit.optional()?)
    }
}

/// The devices that one statement read.
struct Rows {
    rows: Vec<DeviceRow>,
    /// Whether the statement stopped early because of the bytes of its rows.
    is_cut: bool,
}

/// Reads devices until the statement ends or the rows have [`READ_BYTES_MAX`] bytes.
fn read_rows(connection: &Connection, sql: &str, params: impl Params) -> Result<Rows, StoreError> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut stored = statement.query_within(params, READ_BYTES_MAX)?;
    let (mut rows, mut bytes) = (Vec::new(), 0);
    while bytes < READ_BYTES_MAX
        && let Some(stored_row) = stored.next()?
    {
        let row = DeviceRow::read(&stored_row)?;
        // At least the bytes that `query_within` counts, so a cut is always noticed.
        bytes += row.text_bytes() + ROW_BYTES_MAX;
        rows.push(row);
    }
    Ok(Rows { rows, is_cut: bytes >= READ_BYTES_MAX })
}

/// The data of devices that other tables contain, by device key.
struct OtherTables {
    tags: HashMap<i64, Vec<Tag>>,
    attributes: HashMap<i64, Attributes>,
    users: HashMap<i64, UserId>,
}

impl OtherTables {
    fn read(connection: &Connection, keys: &[i64]) -> Result<Self, StoreError> {
        Ok(Self {
            tags: tags(connection, keys)?,
            attributes: attributes::own_of(connection, keys)?,
            users: user::ids_by_device(connection, keys)?,
        })
    }

    /// Makes the device that the API shows.
    fn view(&mut self, row: DeviceRow) -> Result<Device, StoreError> {
        let key = row.key.0;
        let mut device = view(row)?;
        device.tags = self.tags.remove(&key).unwrap_or_default();
        device.attributes = self.attributes.remove(&key).unwrap_or_default();
        device.user_id = self.users.remove(&key);
        Ok(device)
    }
}

/// Makes the device that the API shows, without the data of other tables.
fn view(row: DeviceRow) -> Result<Device, StoreError> {
    let platform = row.key.platform();
    let disabled_reason = if row.fields.push_disabled {
        Some(DisabledReason::PushDisabled)
    } else if row.dead {
        Some(DisabledReason::Unregistered)
    } else {
        None
    };
    let mut device = Device {
        device_id: DeviceId::new(row.device_id).map_err(internal)?,
        platform,
        sdk_type: None,
        push_token: None,
        push_disabled: row.fields.push_disabled,
        ios_env: row.fields.ios_env,
        subscription: None,
        recipient_id: None,
        address_problem: None,
        address_hidden: false,
        details: serde_json::from_str(&row.fields.details)?,
        user_id: None,
        attributes: Attributes::new(),
        tags: Vec::new(),
        enabled: disabled_reason.is_none(),
        disabled_reason,
        created_at: row.created_at,
        updated_at: row.registered_at,
    };
    let address = row.fields.address;
    let problem = address.as_deref().and_then(|address| TokenProblem::of(platform, address));
    device.address_problem = problem.map(|problem| problem.to_string());
    match platform {
        Platform::Android => {
            device.sdk_type = Some("android_push".to_owned());
            device.push_token = address;
        }
        Platform::Ios => {
            device.sdk_type = Some("ios_push".to_owned());
            device.push_token = address;
        }
        Platform::Web => {
            device.subscription = match (address, row.fields.p256dh, row.fields.auth) {
                (Some(endpoint), Some(p256dh), Some(auth)) => {
                    Some(WebSubscription { endpoint, p256dh, auth })
                }
                _ => None,
            };
        }
        Platform::FbMessenger | Platform::ChatApp => device.recipient_id = address,
    }
    Ok(device)
}

/// Reads the tags of devices, by device key. The tags of a device are sorted by name.
fn tags(connection: &Connection, keys: &[i64]) -> Result<HashMap<i64, Vec<Tag>>, StoreError> {
    let mut tags = HashMap::<i64, Vec<Tag>>::new();
    if keys.is_empty() {
        return Ok(tags);
    }
    let mut statement = connection.prepare_cached(&format!(
        "select dt.device_key, t.name, dt.value from device_tags dt join tags t on t.no = dt.tag_no
         where dt.device_key in {NUMBERS} order by dt.device_key, t.name"
    ))?;
    for row in statement.query_map([list_of(keys)], |row| {
        Ok((row.get(0)?, Tag { name: row.get(1)?, kind: TagType::Bool, value: row.get(2)? }))
    })? {
        let (key, tag) = row?;
        tags.entry(key).or_default().push(tag);
    }
    Ok(tags)
}
