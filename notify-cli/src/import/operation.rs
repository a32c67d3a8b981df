//! The operation of a row, and the order of rows with the same device or address. A row is a
//! registration, a subscription, or a device as the API returns it; each may have tags.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use notify_client::notify_core::{
    DeviceId, PushSubscription, RegisterDevice, Request, SetTags, Subscribe, SubscriptionPlatform,
    Tag, Timestamp,
};
use serde_json::{Value, value::RawValue};
use tokio::sync::watch;

use super::{
    Purpose,
    source_row::{is_added, is_report, members, object},
};

/// Read-only fields of a device, which are ignored.
pub(super) const READ_ONLY: [&str; 2] = ["created_at", "updated_at"];
/// Fields that registrations and subscriptions have in common.
const COMMON_FIELDS: [&str; 5] = ["device_id", "platform", "language", "timezone", "utc_offset"];

/// A parsed row, before validation.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Draft {
    /// A registration, or the fields that a subscription shares with one.
    pub(super) registration: RegisterDevice,
    pub(super) subscription: Option<PushSubscription>,
    pub(super) recipient_id: Option<String>,
    pub(super) tags: Vec<Tag>,
    pub(super) enabled: Option<bool>,
    pub(super) disabled_reason: Option<String>,
}

/// The validated operation of a row.
#[derive(Debug, PartialEq)]
pub(super) enum Operation {
    /// Register a device, then set its tags.
    Register(RegisterDevice, TagUpdate),
    /// Subscribe a device, then set its tags.
    Subscribe(Subscribe, TagUpdate),
    /// Set tags.
    Tag(TagUpdate),
    /// Leave the row out: the provider reported its address as dead, which no request can express.
    LeaveOut,
}

/// Tags to set, possibly none.
#[derive(Debug, PartialEq)]
pub(super) struct TagUpdate {
    pub(super) device_id: DeviceId,
    pub(super) tags: SetTags,
}

/// Hashes of the device and of its address, by which rows are compared.
pub(super) type Keys = [Option<u64>; 2];

impl Draft {
    /// Parses a line of NDJSON, possibly from a report. A plain registration is parsed only once.
    pub(super) fn from_json(line: &[u8]) -> Result<Self, Vec<String>> {
        match (RegisterDevice::from_json(line.trim_ascii()), members(line)) {
            (Err(_), Some(members)) => Self::from_members(members),
            (plain, _) => {
                let registration = plain.map_err(|violations| violations.into_vec())?;
                Ok(Self { registration, ..Self::default() })
            }
        }
    }

    fn from_members(mut members: Vec<(String, String)>) -> Result<Self, Vec<String>> {
        if is_report(members.iter().map(|(name, _)| name.as_bytes())) {
            members.retain(|(name, _)| !is_added(name.as_bytes()));
        }
        members.retain(|(name, _)| !READ_ONLY.contains(&&**name));
        let mut take = |name: &str| {
            let place = members.iter().position(|(member, _)| member == name)?;
            let (_, text) = members.remove(place);
            (text != "null").then_some(text)
        };
        let tags = take("tags").map(|text| tags_of_json(&text));
        let subscription = take("subscription").map(|text| subscription(&text));
        let recipient_id =
            take("recipient_id").map(|text| parse(&text, "recipient_id", "a string"));
        let enabled = take("enabled").map(|text| parse(&text, "enabled", "a boolean"));
        let reason =
            take("disabled_reason").map(|text| parse(&text, "disabled_reason", "a string"));
        let registration = RegisterDevice::from_json(object(members.iter()).as_bytes())
            .map_err(|violations| violations.into_vec());
        let mut errors = Vec::new();
        let draft = Self {
            tags: value_or_errors(tags, &mut errors).unwrap_or_default(),
            subscription: value_or_errors(subscription, &mut errors),
            recipient_id: value_or_errors(recipient_id, &mut errors),
            enabled: value_or_errors(enabled, &mut errors),
            disabled_reason: value_or_errors(reason, &mut errors),
            registration: value_or_errors(Some(registration), &mut errors).unwrap_or_default(),
        };
        if errors.is_empty() { Ok(draft) } else { Err(errors) }
    }

    /// Validates the row.
    pub(super) fn finish(
        mut self,
        purpose: Purpose,
        now: Timestamp,
    ) -> Result<Operation, Vec<String>> {
        let mut errors = Vec::new();
        let tags = SetTags { tags: std::mem::take(&mut self.tags) };
        if let Err(violations) = tags.clone().validate(now) {
            errors.extend(violations.into_vec());
        }
        let device_id = DeviceId::new(self.registration.device_id.clone());
        if purpose == Purpose::Tag {
            let device_id = match device_id {
                Ok(device_id) if errors.is_empty() => device_id,
                Ok(_) => return Err(errors),
                Err(rule) => {
                    errors.insert(0, format!("device_id: {rule}"));
                    return Err(errors);
                }
            };
            return Ok(Operation::Tag(TagUpdate { device_id, tags }));
        }
        self.fill_sdk_type();
        let is_dead = self.check_state(&mut errors);
        let subscribes = is_subscribed(&self.registration.platform);
        let device = if subscribes { self.subscribe(&mut errors) } else { None };
        let broken = match &device {
            Some(subscribe) => subscribe.clone().validate(now).err(),
            None if subscribes => None,
            None => {
                self.check_no_subscription(&mut errors);
                self.registration.clone().validate(now).err()
            }
        };
        errors.splice(0..0, broken.into_iter().flat_map(|broken| broken.into_vec()));
        match (device_id, device) {
            (Ok(_), _) if errors.is_empty() && is_dead => Ok(Operation::LeaveOut),
            (Ok(device_id), Some(device)) if errors.is_empty() => {
                Ok(Operation::Subscribe(device, TagUpdate { device_id, tags }))
            }
            (Ok(device_id), None) if errors.is_empty() => {
                Ok(Operation::Register(self.registration, TagUpdate { device_id, tags }))
            }
            _ => Err(errors),
        }
    }

    /// Sets the kind of SDK, which follows from the platform.
    fn fill_sdk_type(&mut self) {
        let RegisterDevice { platform, sdk_type, .. } = &mut self.registration;
        if sdk_type.is_empty() && !is_subscribed(platform) {
            *sdk_type = match &**platform {
                "ios" => "ios_push",
                // For an unknown platform, only the platform is reported as an error.
                _ => "android_push",
            }
            .to_owned();
        }
    }

    /// Whether the address is dead. Push that the user disabled becomes a field of the registration.
    fn check_state(&mut self, errors: &mut Vec<String>) -> bool {
        let reason = self.disabled_reason.take().filter(|reason| !reason.is_empty());
        match reason.as_deref() {
            Some("unregistered") => return true,
            Some("push_disabled") => self.registration.push_disabled = Some(true),
            Some(_) => {
                errors.push("disabled_reason: must be push_disabled or unregistered".to_owned());
            }
            None if self.enabled == Some(false)
                && self.registration.push_disabled != Some(true) =>
            {
                errors.push("enabled: cannot be set; push_disabled can".to_owned());
            }
            None => {}
        }
        false
    }

    /// The subscription of a browser, a Messenger user or a chat. Other fields are errors.
    fn subscribe(&mut self, errors: &mut Vec<String>) -> Option<Subscribe> {
        let platform = &self.registration.platform;
        let fields = serde_json::to_value(&self.registration).ok()?;
        for (name, value) in fields.as_object()? {
            let is_set = !matches!(value, Value::Null | Value::Bool(false)) && value != "";
            if is_set && !COMMON_FIELDS.contains(&&**name) {
                errors.push(format!("{name}: must be absent for platform {platform}"));
            }
        }
        let RegisterDevice { device_id, platform, language, timezone, utc_offset, .. } =
            self.registration.clone();
        Some(Subscribe {
            platform,
            subscription: self.subscription.take(),
            recipient_id: self.recipient_id.take(),
            device_id: Some(device_id),
            language,
            timezone,
            utc_offset,
        })
    }

    fn check_no_subscription(&self, errors: &mut Vec<String>) {
        let platform = &self.registration.platform;
        for (name, is_set) in [
            ("subscription", self.subscription.is_some()),
            ("recipient_id", self.recipient_id.as_ref().is_some_and(|id| !id.is_empty())),
        ] {
            if is_set {
                errors.push(format!("{name}: must be absent for platform {platform}"));
            }
        }
    }
}

impl Operation {
    /// Whether it registers a device without an address.
    pub(super) fn lacks_address(&self) -> bool {
        match self {
            Self::Register(registration, _) => {
                registration.push_token.as_ref().is_none_or(String::is_empty)
            }
            Self::Subscribe(..) | Self::Tag(_) | Self::LeaveOut => false,
        }
    }

    /// The keys of the device and its address.
    pub(super) fn keys(&self, hasher: &RandomState) -> Keys {
        let device = |id: &str| Some(hasher.hash_one(("device", id)));
        match self {
            Self::Register(registration, _) => {
                let token = registration.push_token.as_deref().filter(|token| !token.is_empty());
                let token = token.map(|token| hasher.hash_one(("token", token)));
                [device(&registration.device_id), token]
            }
            Self::Subscribe(subscribe, update) => {
                let endpoint = subscribe.subscription.as_ref().map(|it| &*it.endpoint);
                let address = endpoint.or(subscribe.recipient_id.as_deref());
                let address =
                    address.map(|address| hasher.hash_one((&subscribe.platform, address)));
                [device(update.device_id.as_str()), address]
            }
            Self::Tag(update) => [device(update.device_id.as_str()), None],
            Self::LeaveOut => [None, None],
        }
    }
}

/// Whether devices of that platform subscribe instead of registering.
pub(super) fn is_subscribed(platform: &str) -> bool {
    platform.parse::<SubscriptionPlatform>().is_ok()
}

/// A browser's subscription, as browsers serialise it or as the API returns it.
pub(super) fn subscription(text: &str) -> Result<PushSubscription, Vec<String>> {
    let mut value: Value = serde_json::from_str(text)
        .map_err(|_| vec!["subscription: must be a JSON object".to_owned()])?;
    if let Some(fields) = value.as_object_mut()
        && !fields.contains_key("keys")
    {
        let keys = ["p256dh", "auth"].map(|name| (name.to_owned(), fields.remove(name)));
        let keys = keys.into_iter().map(|(name, key)| (name, key.unwrap_or_default()));
        let keys = Value::Object(keys.collect());
        fields.insert("keys".to_owned(), keys);
    }
    let body = serde_json::json!({ "platform": "web", "subscription": value }).to_string();
    let read = Subscribe::from_json(body.as_bytes()).map_err(|broken| broken.into_vec())?;
    read.subscription.ok_or_else(|| vec!["subscription: must be a JSON object".to_owned()])
}

/// Tags as a JSON array of tags, or of names of true tags; or as a JSON string of comma-separated names.
pub(super) fn tags_of_json(text: &str) -> Result<Vec<Tag>, Vec<String>> {
    if let Ok(names) = serde_json::from_str::<String>(text) {
        return Ok(tags_of_names(&names));
    }
    let elements: Vec<&RawValue> = serde_json::from_str(text)
        .map_err(|_| vec!["tags: must be an array of tags or of names".to_owned()])?;
    let elements = elements.into_iter().map(|element| match element.get() {
        name if name.starts_with('"') => {
            format!(r#"{{"name":{name},"type":"bool","value":true}}"#)
        }
        tag => tag.to_owned(),
    });
    let body = format!(r#"{{"tags":[{}]}}"#, elements.collect::<Vec<_>>().join(","));
    let read = SetTags::from_json(body.as_bytes()).map_err(|broken| broken.into_vec())?;
    Ok(read.tags)
}

/// Tags of a cell: JSON, or comma-separated names of true tags.
pub(super) fn tags_of_cell(cell: &str) -> Result<Vec<Tag>, Vec<String>> {
    if cell.trim_start().starts_with(['[', '{']) {
        return tags_of_json(cell);
    }
    Ok(tags_of_names(cell))
}

fn tags_of_names(names: &str) -> Vec<Tag> {
    let names = names.split([',', ';']).map(str::trim).filter(|name| !name.is_empty());
    names.map(|name| Tag::new(name, true)).collect()
}

/// The parsed value, if any; its errors are added to `errors`.
fn value_or_errors<T>(read: Option<Result<T, Vec<String>>>, errors: &mut Vec<String>) -> Option<T> {
    match read? {
        Ok(value) => Some(value),
        Err(broken) => {
            errors.extend(broken);
            None
        }
    }
}

fn parse<T: serde::de::DeserializeOwned>(
    text: &str,
    name: &str,
    what: &str,
) -> Result<T, Vec<String>> {
    serde_json::from_str(text).map_err(|_| vec![format!("{name}: expected {what}")])
}

// Rows that share a key, which is the hash of a device id or of an address: they are executed in the
// order of the file, so that the last one wins, and counted as duplicates. A key takes 8 bytes, so that
// a file of millions of rows takes tens of megabytes.

/// Least number of keys before those of finished rows are removed.
const SWEEP_KEYS_MIN: usize = 1_024;

/// Makes each row wait for the previous row with one of its keys.
#[derive(Default)]
pub(super) struct RowOrder {
    last: HashMap<u64, watch::Receiver<()>>,
    /// The number of keys after the last sweep.
    swept: usize,
}

/// The place of a row in the order; later rows wait until it is dropped.
pub(super) struct Ticket {
    predecessors: Vec<watch::Receiver<()>>,
    _done: watch::Sender<()>,
}

impl RowOrder {
    /// Issues the ticket of the next row of the file.
    pub(super) fn ticket(&mut self, keys: Keys) -> Ticket {
        let (done, wait) = watch::channel(());
        let keys = keys.into_iter().flatten();
        let predecessors = keys.filter_map(|key| self.last.insert(key, wait.clone())).collect();
        if self.last.len() > 2 * self.swept.max(SWEEP_KEYS_MIN) {
            self.last.retain(|_, wait| wait.has_changed().is_ok());
            self.swept = self.last.len();
        }
        Ticket { predecessors, _done: done }
    }
}

impl Ticket {
    /// Waits until the previous rows are finished.
    pub(super) async fn wait(&mut self) {
        for predecessor in &mut self.predecessors {
            // Nothing is ever sent: the wait ends when the sender is dropped.
            while predecessor.changed().await.is_ok() {}
        }
    }
}

/// Which keys of a row an earlier row has.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Duplicate {
    pub(super) device: bool,
    pub(super) address: bool,
}

#[derive(Default)]
pub(super) struct DuplicateDetector {
    hasher: RandomState,
    seen: HashSet<u64>,
}

impl DuplicateDetector {
    /// Records the keys of a row.
    pub(super) fn add(&mut self, operation: &Operation) -> (Keys, Duplicate) {
        let keys = operation.keys(&self.hasher);
        let [device, address] = keys.map(|key| key.is_some_and(|key| !self.seen.insert(key)));
        (keys, Duplicate { device, address })
    }
}

#[cfg(test)]
mod tests;
