//! The operation of a row, and the order of rows with the same device, user or address. A row is a
//! registration, a subscription, or a device as the API returns it; each may have tags and attributes. The row
//! of a user has the fields `user_id` and `attributes` of these.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use notify_client::notify_core::{
    DeviceId, PatchAttributes, PatchUser, Platform, PushSubscription, RegisterDevice, Request,
    SetTags, Subscribe, SubscriptionPlatform, Tag, Timestamp, UserId, Violations, json::JsonObject,
};
use serde_json::{Value, value::RawValue};
use tokio::sync::watch;

use super::Purpose;

/// The fields that both registrations and subscriptions have.
const COMMON_FIELDS: [&str; 6] =
    ["device_id", "platform", "language", "timezone", "utc_offset", "user_id"];
/// The reason to leave a row out whose address the provider reported as dead: no request can register a device
/// in this state.
pub(super) const UNREGISTERED: &str = "unregistered";

/// A parsed row, before validation.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Draft {
    /// The fields of a registration. A subscription uses only the [`COMMON_FIELDS`] of them.
    pub(super) registration: RegisterDevice,
    pub(super) subscription: Option<PushSubscription>,
    pub(super) recipient_id: Option<String>,
    pub(super) tags: Vec<Tag>,
    pub(super) attributes: PatchAttributes,
    pub(super) enabled: Option<bool>,
    pub(super) disabled_reason: Option<String>,
}

/// The validated operation of a row.
#[derive(Debug, PartialEq)]
pub(super) enum Operation {
    /// Register a device, then set its tags and attributes.
    Register(RegisterDevice, Update),
    /// Subscribe a device, then set its tags and attributes.
    Subscribe(Subscribe, Update),
    /// Set tags.
    Tag(Update),
    /// Create a user if necessary, and change the user's attributes.
    UpdateUser(UserId, PatchUser),
    /// Leave the row out, for this reason.
    LeaveOut(&'static str),
}

/// Tags and attributes to set, possibly none.
#[derive(Debug, PartialEq)]
pub(super) struct Update {
    pub(super) device_id: DeviceId,
    pub(super) tags: SetTags,
    pub(super) attributes: PatchAttributes,
}

/// The hashes of the id and of the address of a row. Rows with an equal hash belong together.
pub(super) type Keys = [Option<u64>; 2];

impl Draft {
    /// Drops the fields that a subscription does not have.
    pub(super) fn keep_common_fields(&mut self) {
        let registration = std::mem::take(&mut self.registration);
        let RegisterDevice { device_id, platform, language, timezone, utc_offset, user_id, .. } =
            registration;
        self.registration = RegisterDevice {
            device_id,
            platform,
            language,
            timezone,
            utc_offset,
            user_id,
            ..RegisterDevice::default()
        };
    }

    /// The id of the device or the user; empty if there is none.
    pub(super) fn id(&self, purpose: Purpose) -> &str {
        match purpose {
            Purpose::Register | Purpose::Tag => &self.registration.device_id,
            Purpose::UpdateUser => self.registration.user_id.as_deref().unwrap_or_default(),
        }
    }

    /// Validates the row. The error lists all violated rules.
    pub(super) fn validate(
        self,
        purpose: Purpose,
        now: Timestamp,
    ) -> Result<Operation, Vec<String>> {
        match purpose {
            Purpose::Register => self.validate_device(now),
            Purpose::Tag => self.validate_tags(now),
            Purpose::UpdateUser => self.validate_user(now),
        }
    }

    fn validate_tags(self, now: Timestamp) -> Result<Operation, Vec<String>> {
        let tags = SetTags { tags: self.tags };
        let errors = violated_rules(tags.clone(), now);
        let device_id = DeviceId::new(self.registration.device_id);
        let device_id = id_or_errors("device_id", device_id, errors)?;
        let attributes = PatchAttributes::default();
        Ok(Operation::Tag(Update { device_id, tags, attributes }))
    }

    fn validate_user(self, now: Timestamp) -> Result<Operation, Vec<String>> {
        let attributes = Some(self.attributes).filter(|attributes| !attributes.0.is_empty());
        let change = PatchUser { attributes };
        let errors = violated_rules(change.clone(), now);
        let user_id = UserId::new(self.registration.user_id.unwrap_or_default());
        let user_id = id_or_errors("user_id", user_id, errors)?;
        Ok(Operation::UpdateUser(user_id, change))
    }

    fn validate_device(mut self, now: Timestamp) -> Result<Operation, Vec<String>> {
        let tags = SetTags { tags: std::mem::take(&mut self.tags) };
        let mut errors = violated_rules(tags.clone(), now);
        let device_id = DeviceId::new(self.registration.device_id.clone());
        let attributes = std::mem::take(&mut self.attributes);
        // The request has the attributes as a field, so the errors begin with the name of the field.
        let change = PatchUser { attributes: Some(attributes.clone()) };
        errors.extend(violated_rules(change, now));
        self.registration.platform = platform_name(&self.registration.platform);
        self.fill_sdk_type();
        let is_dead = self.take_state(&mut errors);
        let is_subscription = is_subscription_platform(&self.registration.platform);
        let subscribe = if is_subscription { self.take_subscription(&mut errors) } else { None };
        let violations = match &subscribe {
            Some(subscribe) => subscribe.clone().validate(now).err(),
            None if is_subscription => None,
            None => {
                self.check_no_subscription(&mut errors);
                self.registration.clone().validate(now).err()
            }
        };
        let request_errors = violations.map(|violations| violations.into_vec()).unwrap_or_default();
        // The errors of the request come before the errors of the other fields.
        let errors = [request_errors, errors].concat();
        // The errors of the request include that of an invalid device id.
        let Ok(device_id) = device_id else { return Err(errors) };
        if !errors.is_empty() {
            return Err(errors);
        }
        if is_dead {
            return Ok(Operation::LeaveOut(UNREGISTERED));
        }
        let update = Update { device_id, tags, attributes };
        Ok(match subscribe {
            Some(subscribe) => Operation::Subscribe(subscribe, update),
            None => Operation::Register(self.registration, update),
        })
    }

    /// Sets `sdk_type` if it is absent. Each platform has only one.
    fn fill_sdk_type(&mut self) {
        let RegisterDevice { platform, sdk_type, .. } = &mut self.registration;
        if sdk_type.is_empty() && !is_subscription_platform(platform) {
            *sdk_type = match &**platform {
                "ios" => "ios_push",
                // For an unknown platform, only the platform is reported as an error.
                _ => "android_push",
            }
            .to_owned();
        }
    }

    /// Takes the state of a device as the API returns it. Returns whether its address is dead. If the user
    /// disabled push notifications, it sets `push_disabled` of the registration.
    fn take_state(&mut self, errors: &mut Vec<String>) -> bool {
        let reason = self.disabled_reason.take().filter(|reason| !reason.is_empty());
        match reason.as_deref() {
            Some(UNREGISTERED) => return true,
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

    /// Takes the subscription of a browser, a Messenger user or a chat. Fields that only registrations have
    /// are errors.
    fn take_subscription(&mut self, errors: &mut Vec<String>) -> Option<Subscribe> {
        let platform = &self.registration.platform;
        let fields = serde_json::to_value(&self.registration).ok()?;
        for (name, value) in fields.as_object()? {
            let is_set = !matches!(value, Value::Null | Value::Bool(false)) && value != "";
            if is_set && !COMMON_FIELDS.contains(&&**name) {
                errors.push(format!("{name}: must be absent for platform {platform}"));
            }
        }
        let RegisterDevice { device_id, platform, language, timezone, utc_offset, user_id, .. } =
            self.registration.clone();
        Some(Subscribe {
            platform,
            subscription: self.subscription.take(),
            recipient_id: self.recipient_id.take(),
            device_id: Some(device_id),
            language,
            timezone,
            utc_offset,
            user_id,
        })
    }

    /// Adds an error for each field that only subscriptions have.
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
    /// Whether the operation registers a device without an address.
    pub(super) fn lacks_address(&self) -> bool {
        match self {
            Self::Register(registration, _) => {
                registration.push_token.as_ref().is_none_or(String::is_empty)
            }
            Self::Subscribe(..) | Self::Tag(_) | Self::UpdateUser(..) | Self::LeaveOut(_) => false,
        }
    }

    /// The hashes of the id and of the address. A row that is left out has none.
    pub(super) fn keys(&self, hasher: &RandomState) -> Keys {
        let device = |id: &str| Some(hasher.hash_one(("device", id)));
        match self {
            Self::Register(registration, _) => {
                let token = registration.push_token.as_deref().filter(|token| !token.is_empty());
                let token = token.map(|token| hasher.hash_one(("token", token)));
                [device(&registration.device_id), token]
            }
            Self::Subscribe(subscribe, update) => {
                let subscription = subscribe.subscription.as_ref();
                let endpoint = subscription.map(|subscription| &*subscription.endpoint);
                let address = endpoint.or(subscribe.recipient_id.as_deref());
                let address =
                    address.map(|address| hasher.hash_one((&subscribe.platform, address)));
                [device(update.device_id.as_str()), address]
            }
            Self::Tag(update) => [device(update.device_id.as_str()), None],
            Self::UpdateUser(user_id, _) => [Some(hasher.hash_one(user_id)), None],
            Self::LeaveOut(_) => [None, None],
        }
    }
}

/// The name of a platform that is written in another case: `iOS`. Any other text stays as it is.
pub(super) fn platform_name(text: &str) -> String {
    let known = Platform::NAMES.iter().find(|name| name.eq_ignore_ascii_case(text.trim()));
    known.map_or_else(|| text.to_owned(), |name| (*name).to_owned())
}

/// Whether devices of this platform are created by a subscription, and not by a registration.
pub(super) fn is_subscription_platform(platform: &str) -> bool {
    platform.parse::<SubscriptionPlatform>().is_ok()
}

/// Parses a browser's subscription. Its keys are in `keys`, as browsers serialize it, or next to the
/// endpoint, as the API returns it.
pub(super) fn parse_subscription(text: &str) -> Result<PushSubscription, Vec<String>> {
    let mut value: Value = serde_json::from_str(text)
        .map_err(|_| vec!["subscription: must be a JSON object".to_owned()])?;
    if let Some(fields) = value.as_object_mut()
        && !fields.contains_key("keys")
    {
        let keys = ["p256dh", "auth"]
            .map(|name| (name.to_owned(), fields.remove(name).unwrap_or_default()));
        fields.insert("keys".to_owned(), Value::Object(keys.into_iter().collect()));
    }
    let body = serde_json::json!({ "platform": "web", "subscription": value }).to_string();
    let subscribe =
        Subscribe::from_json(body.as_bytes()).map_err(|violations| violations.into_vec())?;
    subscribe.subscription.ok_or_else(|| vec!["subscription: must be a JSON object".to_owned()])
}

/// Parses tags from JSON: an array of tags or of names, or a string of comma-separated names. A name
/// stands for a tag with the value true.
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
    let request =
        SetTags::from_json(body.as_bytes()).map_err(|violations| violations.into_vec())?;
    Ok(request.tags)
}

/// Parses the tags of a cell of CSV: JSON, or comma-separated names.
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

/// Parses attributes from a JSON object. In it, null removes an attribute.
pub(super) fn attributes_of_json(text: &str) -> Result<PatchAttributes, Vec<String>> {
    let attributes =
        JsonObject::new(text).map_err(|_| vec!["attributes: must be a JSON object".to_owned()])?;
    let body = format!(r#"{{"attributes":{}}}"#, attributes.as_str());
    let request = PatchUser::from_json(body.as_bytes()).map_err(Violations::into_vec)?;
    Ok(request.attributes.unwrap_or_default())
}

/// The rules that a request violates.
fn violated_rules(request: impl Request, now: Timestamp) -> Vec<String> {
    request.validate(now).err().map(Violations::into_vec).unwrap_or_default()
}

/// Returns the id, unless it or another field of the row is invalid.
fn id_or_errors<T>(
    name: &str,
    id: Result<T, &'static str>,
    mut errors: Vec<String>,
) -> Result<T, Vec<String>> {
    match id {
        Ok(id) if errors.is_empty() => return Ok(id),
        Ok(_) => {}
        Err(rule) => errors.insert(0, format!("{name}: {rule}")),
    }
    Err(errors)
}

// Rows with the same key, which is the hash of an id or of an address. They are executed in the order
// of the file, so that the last row wins, and they are counted as duplicates. A key takes 8 bytes, so a file
// of millions of rows takes tens of megabytes of memory.

/// The keys of finished rows are removed only if there are more keys than twice this number.
const SWEEP_KEYS_MIN: usize = 1_024;

/// Makes each row wait for the previous rows that have one of its keys.
#[derive(Default)]
pub(super) struct RowOrder {
    /// For each key, a receiver that is closed when the last row with the key has finished.
    last_rows: HashMap<u64, watch::Receiver<()>>,
    /// The number of keys after the keys of finished rows were last removed.
    keys_after_sweep: usize,
}

/// The place of a row in the order. Later rows with one of its keys wait until the ticket is dropped.
pub(super) struct Ticket {
    /// A receiver for each earlier row that the row waits for. It is closed when that row has finished.
    predecessors: Vec<watch::Receiver<()>>,
    /// Closes the receivers of later rows when it is dropped.
    _done: watch::Sender<()>,
}

impl RowOrder {
    /// Issues the ticket of the next row of the file.
    pub(super) fn ticket(&mut self, keys: Keys) -> Ticket {
        let (done, wait) = watch::channel(());
        let keys = keys.into_iter().flatten();
        let predecessors =
            keys.filter_map(|key| self.last_rows.insert(key, wait.clone())).collect();
        if self.last_rows.len() > 2 * self.keys_after_sweep.max(SWEEP_KEYS_MIN) {
            self.last_rows.retain(|_, wait| wait.has_changed().is_ok());
            self.keys_after_sweep = self.last_rows.len();
        }
        Ticket { predecessors, _done: done }
    }
}

impl Ticket {
    /// Waits until the previous rows with one of the row's keys have finished.
    pub(super) async fn wait(&mut self) {
        for predecessor in &mut self.predecessors {
            // The sender never sends a value. The wait ends when the sender is dropped.
            while predecessor.changed().await.is_ok() {}
        }
    }
}

/// Whether an earlier row of the file has the same device or user, and whether one has the same address.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Duplicate {
    pub(super) id: bool,
    pub(super) address: bool,
}

/// Finds rows with the id or the address of an earlier row.
#[derive(Default)]
pub(super) struct DuplicateDetector {
    hasher: RandomState,
    seen: HashSet<u64>,
}

impl DuplicateDetector {
    /// Records the keys of a row. Returns the keys, and which of them an earlier row has.
    pub(super) fn add(&mut self, operation: &Operation) -> (Keys, Duplicate) {
        let keys = operation.keys(&self.hasher);
        let [id, address] = keys.map(|key| key.is_some_and(|key| !self.seen.insert(key)));
        (keys, Duplicate { id, address })
    }
}

#[cfg(test)]
mod tests;
