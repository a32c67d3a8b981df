//! Devices that apps register with a publishable key (`/device/v1`).

use serde::{Deserialize, Serialize};

use super::{DeviceDetails, Endpoint, RegisterDevice, Registration};
use crate::json::BodyPresence;
use crate::request::{model, request};
use crate::violations::{Validator, path};
use crate::{DeviceCredentials, DeviceId, Timestamp, WEB_SECRET_CHARS_MAX};

model! {
    /// Body of `POST /device/v1/devices`.
    // No `Debug`, because of the secret.
    #[derive(Clone, Default, PartialEq, Eq)]
    pub struct RegisterAppDevice {
        /// Id of the device that this app is registered as; required with `device_secret`.
        pub device_id: Option<String>,
        /// Secret of the device; required with `device_id`.
        pub device_secret: Option<String>,
        /// `android` or `ios`.
        #[cfg_attr(feature = "openapi", schema(value_type = crate::DevicePlatform))]
        pub platform: String,
        /// `android_push` on `android`, `ios_push` on `ios`.
        #[cfg_attr(feature = "openapi", schema(value_type = crate::SdkType))]
        pub sdk_type: String,
        /// Android id.
        pub android_id: Option<String>,
        /// Token from FCM or APNs.
        pub push_token: Option<String>,
        /// Whether the user disabled push notifications; false when absent.
        pub push_disabled: Option<bool>,
        /// Advertising identifier.
        pub ad_id: Option<String>,
        /// IMEI.
        pub imei: Option<String>,
        /// Version of the SDK.
        pub sdk_version: Option<String>,
        /// Version of the app.
        pub app_version: Option<String>,
        /// Version of the OS: the API level on `android`, the version string on `ios`.
        pub os_version: Option<String>,
        /// Package name on `android`, bundle id on `ios`.
        pub store_identifier: Option<String>,
        /// Time zone of the IANA database, such as `Europe/Vienna`, or offset from UTC, `GMT` or
        /// `GMT±HH:MM`. Takes precedence over `utc_offset`.
        pub timezone: Option<String>,
        /// Country code.
        pub country: Option<String>,
        /// Offset from UTC in minutes, as a string.
        pub utc_offset: Option<String>,
        /// Default language of the device, as a language code.
        pub language: Option<String>,
        /// Brand and model.
        pub device_description: Option<String>,
        /// For `ios`: empty, `production` or `sandbox`.
        #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::IosEnv>))]
        pub ios_env: Option<String>,
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

/// The id with which the rules of a registration are checked for a device that has no id yet.
const NEW_DEVICE: &str = "new";

impl RegisterAppDevice {
    fn check(self, now: Timestamp, validator: &mut Validator) -> Option<AppDeviceRegistration> {
        let id_path = path("device_id");
        let device_id = validator.optional_id(&id_path, self.device_id.as_deref(), DeviceId::new);
        let secret_path = path("device_secret");
        let secret = validator.text_up_to(&secret_path, self.device_secret, WEB_SECRET_CHARS_MAX);
        if self.device_id.is_none() && secret.is_some() {
            validator.violation(&id_path, "is required with device_secret");
        }
        if device_id.is_some() && secret.is_none() {
            validator.violation(&secret_path, "is required with device_id");
        }
        let registration = RegisterDevice {
            device_id: NEW_DEVICE.to_owned(),
            platform: self.platform,
            sdk_type: self.sdk_type,
            android_id: self.android_id,
            push_token: self.push_token,
            push_disabled: self.push_disabled,
            ad_id: self.ad_id,
            imei: self.imei,
            sdk_version: self.sdk_version,
            app_version: self.app_version,
            os_version: self.os_version,
            store_identifier: self.store_identifier,
            timezone: self.timezone,
            country: self.country,
            utc_offset: self.utc_offset,
            language: self.language,
            device_description: self.device_description,
            ios_env: self.ios_env,
            user_id: None,
        };
        let registration =
            registration.check_with_texts_up_to(APP_DEVICE_TEXT_CHARS_MAX, now, validator)?;
        let device = device_id
            .zip(secret)
            .map(|(device_id, secret)| DeviceCredentials { device_id, secret });
        Some(AppDeviceRegistration {
            device,
            endpoint: registration.endpoint,
            push_disabled: registration.push_disabled,
            utc_offset_minutes: registration.utc_offset_minutes,
            timezone_minutes: registration.timezone_minutes,
            details: registration.details,
        })
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
