//! Devices: registration, subscriptions and responses.

mod app;
mod push_token;
mod recipient;
mod request;
mod time_zone;
mod valid;

use serde::{Deserialize, Serialize};

pub use self::app::*;
pub use self::push_token::*;
pub use self::recipient::*;
pub use self::request::*;
pub(crate) use self::time_zone::{TimeZone, UtcOffset};
pub use self::time_zone::{ZoneOffsets, offset_of_zone, offset_of_zone_at_local_time};
pub use self::valid::*;
use crate::wire_enum::wire_enum;
use crate::{Attributes, DeviceId, IosEnv, Platform, Tag, Timestamp, UserId};

wire_enum! {
    /// Why a device gets no notifications.
    pub enum DisabledReason {
        /// The user disabled push notifications.
        PushDisabled = "push_disabled",
        /// The provider reported the address as unregistered.
        Unregistered = "unregistered",
    }
}

/// A device in a response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Device {
    /// Id of the device.
    pub device_id: DeviceId,
    /// Platform.
    pub platform: Platform,
    /// `android_push` or `ios_push`; null on other platforms.
    pub sdk_type: Option<String>,
    /// Token from FCM or APNs.
    pub push_token: Option<String>,
    /// Whether the user disabled push notifications.
    pub push_disabled: bool,
    /// `production` or `sandbox`; null when not set.
    pub ios_env: Option<IosEnv>,
    /// Subscription of a browser.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscription: Option<WebSubscription>,
    /// Address on Messenger or the chat app.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipient_id: Option<String>,
    /// Why nothing is sent to the address: it cannot be a token of the platform's provider. Absent if there
    /// is no such problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address_problem: Option<String>,
    /// Whether the address is left out because the API key lacks the scope `devices`. Absent if it is not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub address_hidden: bool,
    /// The other fields of the registration.
    #[serde(flatten)]
    pub details: DeviceDetails,
    /// Tags of the device.
    pub tags: Vec<Tag>,
    /// Id of the user who is logged in; null if there is none.
    #[serde(default)]
    pub user_id: Option<UserId>,
    /// The device's own attributes, without those of its user.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = BTreeMap<String, crate::AttributeValue>))]
    pub attributes: Attributes,
    /// Whether notifications are sent to the device, provided that it has an address.
    pub enabled: bool,
    /// Why the device is not enabled.
    pub disabled_reason: Option<DisabledReason>,
    /// Time of the first registration, unix ms.
    pub created_at: Timestamp,
    /// Time of the last registration, unix ms.
    pub updated_at: Timestamp,
}

impl Device {
    /// Whether the device has an address, or one that is hidden. Without one it receives nothing, even if it
    /// is enabled.
    #[must_use]
    pub fn has_address(&self) -> bool {
        self.address_hidden
            || self.push_token.is_some()
            || self.subscription.is_some()
            || self.recipient_id.is_some()
    }

    /// The device without its address, for a reader who may not have it.
    #[must_use]
    pub fn without_address(self) -> Self {
        let address_hidden = self.has_address();
        Self { push_token: None, subscription: None, recipient_id: None, address_hidden, ..self }
    }
}

/// Answer of `GET /v1/devices`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeviceList {
    /// One page, in the order of first registration. With `state` or `segment`, it can have fewer than
    /// `limit` elements, even none, although there are more pages.
    pub devices: Vec<Device>,
    /// `cursor` of the next page; null on the last one.
    pub next_cursor: Option<String>,
}

/// Answer of `POST /v1/devices`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeviceRegistered {
    /// Always `true`.
    pub success: bool,
    /// What may become a problem later, one line each. Absent if there is nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl DeviceRegistered {
    /// The answer to a registration with these ids.
    #[must_use]
    pub fn new(device: &DeviceId, user: Option<&UserId>) -> Self {
        Self { success: true, warnings: slash_warnings(device, user) }
    }
}

/// Warnings about ids that some proxies change in a path: they decode `%2F`, and then the path is another one.
/// The texts do not contain the ids, because answers are stored for repeated requests.
fn slash_warnings(device: &DeviceId, user: Option<&UserId>) -> Vec<String> {
    let ids = [("device_id", Some(device.as_str())), ("user_id", user.map(UserId::as_str))];
    let with_slash = ids.into_iter().filter(|(_, id)| id.is_some_and(|id| id.contains('/')));
    let warning = |(field, _): (&str, _)| {
        format!(
            "{field}: has a slash; behind a proxy that decodes paths, calls with the id in the path get 404"
        )
    };
    with_slash.map(warning).collect()
}

/// Answer of `POST /v1/subscriptions`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SubscriptionCreated {
    /// Id of the device.
    pub id: DeviceId,
    /// As in the answer of `POST /v1/devices`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl SubscriptionCreated {
    /// The answer to a subscription with these ids.
    #[must_use]
    pub fn new(id: DeviceId, user: Option<&UserId>) -> Self {
        let warnings = slash_warnings(&id, user);
        Self { id, warnings }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_with_a_slash_is_a_warning() {
        let id = |text: &str| DeviceId::new(text).unwrap();
        let user = |text: &str| UserId::new(text).unwrap();
        let json = |answer: &DeviceRegistered| serde_json::to_string(answer).unwrap();
        let plain = DeviceRegistered::new(&id("a-1"), Some(&user("ada")));
        assert_eq!(json(&plain), r#"{"success":true}"#);
        let both = DeviceRegistered::new(&id("a/1"), Some(&user("shop/ada")));
        let rest =
            "has a slash; behind a proxy that decodes paths, calls with the id in the path get 404";
        assert_eq!(both.warnings, ["device_id", "user_id"].map(|field| format!("{field}: {rest}")));
        assert!(SubscriptionCreated::new(id("a"), None).warnings.is_empty());
        assert_eq!(SubscriptionCreated::new(id("/"), Some(&user("/"))).warnings.len(), 2);
    }
}
