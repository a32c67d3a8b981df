//! Devices that apps register with a publishable key (`/device/v1`).

use serde::{Deserialize, Serialize};

use super::time_zone::{TimeZone, UtcOffset};
#[cfg(feature = "openapi")]
use super::valid::platform_fields;
use super::valid::{EndpointPlatform, check_platform_fields, registration_of};
use super::{DeviceDetails, DevicePlatform, Endpoint, PUSH_TOKEN_CHARS_MAX, Registration, SdkType};
use crate::field::{Flag, Id, Model, ModelFields, NameOf, Text};
use crate::json::BodyPresence;
use crate::request::{model, request};
#[cfg(feature = "openapi")]
use crate::schema::Together;
use crate::violations::{Path, Validator};
use crate::web::check_credentials;
#[cfg(feature = "openapi")]
use crate::web::id_with_secret;
use crate::{DeviceCredentials, DeviceId, IosEnv, WEB_SECRET_CHARS_MAX};

model! {
    /// Body of `POST /device/v1/devices`.
    // No `Debug`, because of the secret.
    #[derive(Clone, Default, PartialEq, Eq)]
    pub struct RegisterAppDevice with RegisterAppDeviceFields {
        /// Id of the device that this app is registered as; required with `device_secret`.
        pub device_id: Option<String> as Id<DeviceId>,
        /// Secret of the device; required with `device_id`.
        pub device_secret: Option<String> as Text<WEB_SECRET_CHARS_MAX>,
        /// `android` or `ios`.
        pub platform: String as EndpointPlatform<DevicePlatform>,
        /// `android_push` on `android`, `ios_push` on `ios`.
        pub sdk_type: String as NameOf<SdkType>,
        /// Android id.
        pub android_id: Option<String> as Text<APP_DEVICE_TEXT_CHARS_MAX>,
        /// Token from FCM or APNs.
        pub push_token: Option<String> as Text<PUSH_TOKEN_CHARS_MAX>,
        /// Whether the user disabled push notifications; false when absent.
        pub push_disabled: Option<bool> as Flag,
        /// Advertising identifier.
        pub ad_id: Option<String> as Text<APP_DEVICE_TEXT_CHARS_MAX>,
        /// IMEI.
        pub imei: Option<String> as Text<APP_DEVICE_TEXT_CHARS_MAX>,
        /// Version of the SDK.
        pub sdk_version: Option<String> as Text<APP_DEVICE_TEXT_CHARS_MAX>,
        /// Version of the app.
        pub app_version: Option<String> as Text<APP_DEVICE_TEXT_CHARS_MAX>,
        /// Version of the OS: the API level on `android`, the version string on `ios`.
        pub os_version: Option<String> as Text<APP_DEVICE_TEXT_CHARS_MAX>,
        /// Package name on `android`, bundle id on `ios`.
        pub store_identifier: Option<String> as Text<APP_DEVICE_TEXT_CHARS_MAX>,
        /// Time zone of the IANA database, such as `Europe/Vienna`, or offset from UTC, `GMT` or
        /// `GMT±HH:MM`. Takes precedence over `utc_offset`.
        pub timezone: Option<String> as TimeZone,
        /// Country code.
        pub country: Option<String> as Text<APP_DEVICE_TEXT_CHARS_MAX>,
        /// Offset from UTC in minutes, as a string.
        pub utc_offset: Option<String> as UtcOffset,
        /// Default language of the device, as a language code.
        pub language: Option<String> as Text<APP_DEVICE_TEXT_CHARS_MAX>,
        /// Brand and model.
        pub device_description: Option<String> as Text<APP_DEVICE_TEXT_CHARS_MAX>,
        /// For `ios`: empty, `production` or `sandbox`.
        pub ios_env: Option<String> as NameOf<IosEnv>,
    }
}

/// The validated form of [`RegisterAppDevice`].
#[derive(Clone, PartialEq, Eq)]
pub struct AppDeviceRegistration {
    /// The device that the app claims to be; the server checks the secret. `None` for a new device.
    pub device: Option<DeviceCredentials>,
    /// Platform and address.
    pub endpoint: Endpoint,
    /// Whether the user disabled push notifications.
    pub push_disabled: bool,
    /// Offset from UTC in minutes: of `timezone`, else of `utc_offset`, else 0.
    pub utc_offset_minutes: i32,
    /// The same offset, but `None` when neither `timezone` nor `utc_offset` is given.
    pub timezone_minutes: Option<i32>,
    /// The other fields.
    pub details: DeviceDetails,
}

impl AppDeviceRegistration {
    /// The registration of the device with this id. It leaves the log-in as it is.
    #[must_use]
    pub fn into_registration(self, device_id: DeviceId) -> Registration {
        Registration {
            device_id,
            endpoint: self.endpoint,
            push_disabled: self.push_disabled,
            utc_offset_minutes: self.utc_offset_minutes,
            timezone_minutes: self.timezone_minutes,
            user_id: None,
            details: self.details,
        }
    }
}

request!(RegisterAppDevice => AppDeviceRegistration, BodyPresence::Required);

/// The most characters of a text of a device that registers with a publishable key, apart from the push
/// token. Everyone can read the key, so strangers can store such texts.
pub const APP_DEVICE_TEXT_CHARS_MAX: usize = 255;

impl Model for RegisterAppDevice {
    type Valid = AppDeviceRegistration;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<AppDeviceRegistration> {
        let fields = self.check_fields(at, validator);
        check_platform_fields(&self.platform, &self.sdk_type, &self.ios_env, at, validator);
        check_credentials(&self.device_id, &self.device_secret, at, validator);
        let fields = fields?;
        let device = DeviceCredentials::of(fields.device_id, fields.device_secret);
        // The server chooses the id of a new device.
        let new_id = DeviceId::new("new").expect("it is an id");
        let registration = registration_of!(fields, new_id, None);
        Some(AppDeviceRegistration {
            device,
            endpoint: registration.endpoint,
            push_disabled: registration.push_disabled,
            utc_offset_minutes: registration.utc_offset_minutes,
            timezone_minutes: registration.timezone_minutes,
            details: registration.details,
        })
    }

    #[cfg(feature = "openapi")]
    fn together() -> Together {
        Together {
            about: "`sdk_type` is `android_push` on `android` and `ios_push` on `ios`. Only an iOS device can have \
                `ios_env`. `device_id` and `device_secret` require each other.",
            keywords: serde_json::json!({ "allOf": [platform_fields(), id_with_secret()] }),
        }
    }
}

/// Answer of `POST /device/v1/devices` and `POST /v1/devices/:device_id/secret`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AppDevice {
    /// Id of the device.
    pub device_id: DeviceId,
    /// Secret that the app sends in `X-Device-Secret` from now on; null if its current secret stays valid.
    pub device_secret: Option<String>,
}

impl std::fmt::Debug for AppDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AppDevice").field("device_id", &self.device_id).finish_non_exhaustive()
    }
}
