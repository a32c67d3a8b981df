//! What a row of another system becomes: a device, whose address is checked.

use notify_client::notify_core::{PushKeys, PushSubscription, Tag};
use uuid::Uuid;

use super::address;
use crate::import::operation::{Draft, is_subscription_platform};

/// The namespace of device ids that are derived from addresses: the `UUIDv5` of
/// `https://notify.invalid/import` in the namespace of URLs (RFC 9562, section 5.5). A random id would make a
/// second device of each row when the import runs again, and an address can be too long for an id and is a
/// secret.
pub(super) const IDS: Uuid = Uuid::from_u128(0x626d_6b14_ad13_51a0_98d6_9b5a_9923_65cc);
/// The reason for a device that cannot receive anything.
pub(super) const NO_ADDRESS: &str = "no push token";
const WEB_KEYS_MISSING: &str = "the browser's keys (p256dh and auth) are missing: export them too, a browser cannot be reached without them";

/// What a row of another system becomes.
#[derive(Debug, PartialEq)]
pub(in crate::import) enum Outcome<T> {
    Device(Box<T>),
    /// The row is left out, for this reason.
    LeftOut(&'static str),
}

impl<T> Outcome<T> {
    pub(in crate::import) fn device(device: T) -> Self {
        Self::Device(Box::new(device))
    }
}

/// A device of a row, or the errors of the row.
pub(in crate::import) type Conversion<T = Draft> = Result<Outcome<T>, Vec<String>>;

/// A device as a row describes it, before its address is checked.
#[derive(Debug, Default)]
pub(super) struct DeviceRow {
    pub(super) draft: Draft,
    /// The subscription of a browser.
    pub(super) web: WebAddress,
    /// The column that has the address, for errors.
    pub(super) address_column: &'static str,
}

/// The parts of a browser's subscription.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct WebAddress {
    pub(super) endpoint: Option<String>,
    pub(super) p256dh: Option<String>,
    pub(super) auth: Option<String>,
}

impl DeviceRow {
    /// A device of this platform, whose address is in the column `address_column`.
    pub(super) fn new(platform: &str, address_column: &'static str) -> Self {
        let mut found = Self { address_column, ..Self::default() };
        found.draft.registration.platform = platform.to_owned();
        found
    }

    pub(super) fn add_tags(&mut self, names: impl IntoIterator<Item = String>) {
        self.draft.tags.extend(names.into_iter().map(|name| Tag::new(name, true)));
    }

    /// Checks the address, and derives the id from it if there is none. Fields that the platform does not
    /// have are dropped. Errors name the address by `address_column`, or else as `name_of_push_token` does.
    pub(super) fn into_draft(self, name_of_push_token: impl Fn() -> String) -> Conversion {
        let Self { mut draft, web, address_column } = self;
        let error = |rule: &str| {
            let name = match address_column {
                "" => name_of_push_token(),
                column => column.to_owned(),
            };
            Err(vec![format!("{name}: {rule}")])
        };
        let registration = &mut draft.registration;
        // A subscription cannot be disabled, so the device would get messages.
        if registration.push_disabled == Some(true)
            && is_subscription_platform(&registration.platform)
        {
            return Ok(Outcome::LeftOut("disabled"));
        }
        let token = registration.push_token.take().filter(|token| address::is_present(token));
        let address = match &*registration.platform {
            "ios" | "android" => {
                let Some(token) = token else { return Ok(Outcome::LeftOut(NO_ADDRESS)) };
                let is_ios = registration.platform == "ios";
                let check = if is_ios { address::apns_token } else { address::fcm_token };
                match check(&token) {
                    Ok(token) => registration.push_token.insert(token).clone(),
                    Err(rule) => return error(&rule),
                }
            }
            "web" => {
                let endpoint = web.endpoint.filter(|endpoint| address::is_present(endpoint));
                let Some(endpoint) = endpoint else { return Ok(Outcome::LeftOut(NO_ADDRESS)) };
                let (Some(p256dh), Some(auth)) = (web.p256dh, web.auth) else {
                    return Err(vec![WEB_KEYS_MISSING.to_owned()]);
                };
                draft.subscription = Some(PushSubscription {
                    endpoint: endpoint.clone(),
                    keys: PushKeys { p256dh, auth },
                    ..PushSubscription::default()
                });
                endpoint
            }
            // Another platform is an error of the draft, or has a recipient id.
            _ => draft.recipient_id.clone().unwrap_or_default(),
        };
        let registration = &mut draft.registration;
        if registration.device_id.is_empty() && !address.is_empty() {
            let name = format!("{}:{address}", registration.platform);
            registration.device_id = Uuid::new_v5(&IDS, name.as_bytes()).to_string();
        }
        if registration.platform != "ios" {
            registration.ios_env = None;
        }
        if is_subscription_platform(&registration.platform) {
            draft.keep_common_fields();
        }
        Ok(Outcome::device(draft))
    }
}
