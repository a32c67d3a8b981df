//! Validated forms of devices, which the server stores, and the rules of `POST /v1/devices`,
//! `POST /v1/subscriptions` and `GET /v1/devices`. The server has two more rules for browsers: the public
//! key must lie on the curve, and the endpoint must not have a private address.

use std::marker::PhantomData;

use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde::{Deserialize, Serialize};
#[cfg(feature = "openapi")]
use serde_json::{Value as Json, json};

use super::time_zone::{DeviceTimeZone, WrittenMinutes};
use super::{
    DevicePlatform, DeviceState, ListDevices, PUSH_TOKEN_CHARS_MAX, PushKeys, PushKeysFields,
    PushSubscription, RegisterDevice, SdkType, Subscribe, SubscriptionPlatform, chat_id, person_id,
};
use crate::field::{Kind, Model, ModelFields, Named, TextKind};
use crate::json::{BodyPresence, Value};
use crate::request::{Parameters, request};
#[cfg(feature = "openapi")]
use crate::schema::{Schemas, Together, unset};
#[cfg(feature = "openapi")]
use crate::violations::URL_CHARS_MAX;
use crate::violations::{Path, TEXT_CHARS_MAX, Validator};
use crate::{
    CALLER_ID_CHARS_MAX, CURSOR, DeviceId, IosEnv, LIMIT, PageQuery, Parameter, ParameterForm,
    Platform, Query, SEGMENT_NAME_CHARS_MAX, TAG_NAME_CHARS_MAX, Timestamp, UserId, Violations,
};

/// Fields of a device that are stored and returned. Conditions of audiences test some of them; otherwise,
/// they are not used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeviceDetails {
    /// Android id.
    pub android_id: Option<String>,
    /// Advertising identifier.
    pub ad_id: Option<String>,
    /// IMEI.
    pub imei: Option<String>,
    /// Version of the SDK.
    pub sdk_version: Option<String>,
    /// Version of the app.
    pub app_version: Option<String>,
    /// Version of the OS.
    pub os_version: Option<String>,
    /// Package name or bundle id.
    pub store_identifier: Option<String>,
    /// Time zone, such as `Europe/Vienna`, or offset from UTC: `GMT` or `GMT±HH:MM`.
    pub timezone: Option<String>,
    /// Country code.
    pub country: Option<String>,
    /// Offset from UTC in minutes, as it was sent.
    pub utc_offset: Option<String>,
    /// Language code.
    pub language: Option<String>,
    /// Brand and model.
    pub device_description: Option<String>,
}

/// The platform of a device, and its address there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// An Android device; it has no address without a token.
    Android {
        /// FCM registration token.
        push_token: Option<String>,
    },
    /// An iOS device; it has no address without a token.
    Ios {
        /// APNs device token.
        push_token: Option<String>,
        /// APNs environment of the token; `None` when not given.
        env: Option<IosEnv>,
    },
    /// A browser's push subscription.
    Web(WebSubscription),
    /// A person on Messenger.
    FbMessenger {
        /// Page-scoped id.
        recipient_id: String,
    },
    /// A chat of the chat app.
    ChatApp {
        /// Chat id.
        recipient_id: String,
    },
}

impl Endpoint {
    /// The platform of this endpoint.
    #[must_use]
    pub fn platform(&self) -> Platform {
        match self {
            Self::Android { .. } => Platform::Android,
            Self::Ios { .. } => Platform::Ios,
            Self::Web(_) => Platform::Web,
            Self::FbMessenger { .. } => Platform::FbMessenger,
            Self::ChatApp { .. } => Platform::ChatApp,
        }
    }
}

/// The validated form of [`crate::PushSubscription`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebSubscription {
    /// Url of the subscription at the push service.
    pub endpoint: String,
    /// Public key: an uncompressed P-256 point, base64url without padding.
    pub p256dh: String,
    /// Authentication secret: 16 bytes, base64url without padding.
    pub auth: String,
}

/// The validated form of [`crate::RegisterDevice`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// Id of the device.
    pub device_id: DeviceId,
    /// Platform and address.
    pub endpoint: Endpoint,
    /// Whether the user disabled push notifications.
    pub push_disabled: bool,
    /// Offset from UTC now, in minutes: of `timezone`, else of `utc_offset`, else 0.
    pub utc_offset_minutes: i32,
    /// The same offset, but `None` when neither `timezone` nor `utc_offset` is given.
    pub timezone_minutes: Option<i32>,
    /// The user to log in; the log-in stays as it is when absent.
    pub user_id: Option<UserId>,
    /// The other fields.
    pub details: DeviceDetails,
}

/// The validated form of [`crate::Subscribe`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    /// Id chosen by the caller; the server generates one when absent.
    pub device_id: Option<DeviceId>,
    /// Platform and address: `Web`, `FbMessenger` or `ChatApp`.
    pub endpoint: Endpoint,
    /// Offset from UTC now, in minutes: of `timezone`, else of `utc_offset`, else 0.
    pub utc_offset_minutes: i32,
    /// The same offset, but `None` when neither `timezone` nor `utc_offset` is given.
    pub timezone_minutes: Option<i32>,
    /// The user to log in; the log-in stays as it is when absent.
    pub user_id: Option<UserId>,
    /// `language`, `timezone` and `utc_offset`; the others are `None`.
    pub details: DeviceDetails,
}

impl DeviceDetails {
    /// Details with a language and a time zone, and the offset from UTC in minutes: that of `timezone` if it
    /// is set, else that of `utc_offset`.
    pub(crate) fn in_zone(
        language: Option<String>,
        timezone: Option<DeviceTimeZone>,
        utc_offset: Option<WrittenMinutes>,
    ) -> (Self, Option<i32>) {
        let minutes = timezone.as_ref().map(|zone| zone.minutes);
        let minutes = minutes.or(utc_offset.as_ref().map(|offset| offset.minutes));
        let details = Self {
            language,
            timezone: timezone.map(|zone| zone.spelling),
            utc_offset: utc_offset.map(|offset| offset.text),
            ..Self::default()
        };
        (details, minutes)
    }
}

/// Makes a [`Registration`] from the checked fields of `RegisterDevice` or `RegisterAppDevice`, whose limits
/// differ.
macro_rules! registration_of {
    ($fields:ident, $device_id:expr, $user_id:expr) => {{
        let push_token = $fields
            .push_token
            .and_then(|text| crate::device::canonical_push_token($fields.platform, &text));
        let endpoint = match $fields.platform {
            crate::DevicePlatform::Android => crate::Endpoint::Android { push_token },
            crate::DevicePlatform::Ios => crate::Endpoint::Ios { push_token, env: $fields.ios_env },
        };
        let (in_zone, timezone_minutes) =
            crate::DeviceDetails::in_zone($fields.language, $fields.timezone, $fields.utc_offset);
        crate::Registration {
            device_id: $device_id,
            endpoint,
            push_disabled: $fields.push_disabled.unwrap_or(false),
            utc_offset_minutes: timezone_minutes.unwrap_or(0),
            timezone_minutes,
            user_id: $user_id,
            details: crate::DeviceDetails {
                android_id: $fields.android_id,
                ad_id: $fields.ad_id,
                imei: $fields.imei,
                sdk_version: $fields.sdk_version,
                app_version: $fields.app_version,
                os_version: $fields.os_version,
                store_identifier: $fields.store_identifier,
                country: $fields.country,
                device_description: $fields.device_description,
                ..in_zone
            },
        }
    }};
}
pub(super) use registration_of;

request!(RegisterDevice => Registration, BodyPresence::Required);
request!(Subscribe => Subscription, BodyPresence::Required);

impl Model for RegisterDevice {
    type Valid = Registration;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<Registration> {
        let fields = self.check_fields(at, validator);
        check_platform_fields(&self.platform, &self.sdk_type, &self.ios_env, at, validator);
        let fields = fields?;
        Some(registration_of!(fields, fields.device_id, fields.user_id))
    }

    #[cfg(feature = "openapi")]
    fn together() -> Together {
        Together {
            about: "`sdk_type` is `android_push` on `android` and `ios_push` on `ios`. Only an iOS device can have \
                `ios_env`.",
            keywords: platform_fields(),
        }
    }
}

/// Checks that the SDK is that of the platform, and that only iOS has environments.
pub(super) fn check_platform_fields(
    platform: &str,
    sdk_type: &str,
    ios_env: &Option<String>,
    at: &Path<'_>,
    validator: &mut Validator,
) {
    let Ok(platform) = platform.parse::<DevicePlatform>() else { return };
    if sdk_type.parse::<SdkType>().is_ok_and(|sdk_type| platform.sdk_type() != sdk_type) {
        let what = format_args!("must be {} for platform {platform}", platform.sdk_type());
        validator.violation(&at.field("sdk_type"), what);
    }
    let has_env = ios_env.as_ref().is_some_and(|env| !env.is_empty());
    if platform == DevicePlatform::Android && has_env {
        let what = "must be absent or empty for platform android";
        validator.violation(&at.field("ios_env"), what);
    }
}

/// The keywords of [`check_platform_fields`].
#[cfg(feature = "openapi")]
pub(super) fn platform_fields() -> Json {
    let variant = |platform: &str, sdk_type: &str, ios_env: Json| {
        json!({ "properties": {
            "platform": { "const": platform },
            "sdk_type": { "const": sdk_type },
            "ios_env": ios_env,
        } })
    };
    json!({ "anyOf": [
        variant("android", "android_push", unset()),
        variant("ios", "ios_push", json!(true)),
    ] })
}

/// A platform whose devices are registered at one endpoint. Devices of all other platforms are registered at
/// another one.
pub(crate) trait OfEndpoint: Named {
    /// The other endpoint.
    const OTHER_ROUTE: &'static str;
    /// The platforms of the other endpoint.
    const OTHER_PLATFORMS: &'static [&'static str];
}

impl OfEndpoint for DevicePlatform {
    const OTHER_ROUTE: &'static str = "POST /v1/subscriptions";
    const OTHER_PLATFORMS: &'static [&'static str] = &SubscriptionPlatform::NAMES;
}

impl OfEndpoint for SubscriptionPlatform {
    const OTHER_ROUTE: &'static str = "POST /v1/devices";
    const OTHER_PLATFORMS: &'static [&'static str] = &DevicePlatform::NAMES;
}

/// A platform that the called endpoint accepts. The violation for any other name mentions the other endpoint
/// and its platforms.
pub(crate) struct EndpointPlatform<P>(PhantomData<P>);

impl<P: OfEndpoint> TextKind for EndpointPlatform<P> {
    type Valid = P;

    fn check_text(raw: &str, at: &Path<'_>, validator: &mut Validator) -> Option<P> {
        let report = |unknown: crate::UnknownName| {
            let (route, platforms) = (P::OTHER_ROUTE, P::OTHER_PLATFORMS.join(", "));
            validator.violation(at, format_args!("{unknown} ({route} takes {platforms})"));
        };
        raw.parse().map_err(report).ok()
    }

    #[cfg(feature = "openapi")]
    fn text_schema(schemas: &mut Schemas) -> Json {
        P::add_to(schemas)
    }
}

impl DevicePlatform {
    /// The SDK of devices of this platform.
    pub(super) fn sdk_type(self) -> SdkType {
        match self {
            Self::Android => SdkType::AndroidPush,
            Self::Ios => SdkType::IosPush,
        }
    }
}

impl Model for Subscribe {
    type Valid = Subscription;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<Subscription> {
        let fields = self.check_fields(at, validator);
        if let Ok(platform) = self.platform.parse() {
            self.check_given(platform, at, validator);
        }
        let recipient = self.recipient(at, validator);
        let fields = fields?;
        let endpoint = match fields.platform {
            SubscriptionPlatform::Web => Endpoint::Web(fields.subscription?),
            SubscriptionPlatform::FbMessenger => Endpoint::FbMessenger { recipient_id: recipient? },
            SubscriptionPlatform::ChatApp => Endpoint::ChatApp { recipient_id: recipient? },
        };
        let (details, timezone_minutes) =
            DeviceDetails::in_zone(fields.language, fields.timezone, fields.utc_offset);
        Some(Subscription {
            device_id: fields.device_id,
            endpoint,
            utc_offset_minutes: timezone_minutes.unwrap_or(0),
            timezone_minutes,
            user_id: fields.user_id,
            details,
        })
    }

    #[cfg(feature = "openapi")]
    fn together() -> Together {
        let person = |platform: &str, recipient_id: &str| {
            json!({
                "required": ["recipient_id"],
                "properties": {
                    "platform": { "const": platform },
                    "recipient_id": { "type": "string", "pattern": recipient_id },
                    "subscription": { "type": "null" },
                },
            })
        };
        Together {
            about: "On `web`, `subscription` is required and `recipient_id` must be absent; on the other \
                platforms, it is the other way round.",
            keywords: json!({ "anyOf": [
                {
                    "required": ["subscription"],
                    "properties": {
                        "platform": { "const": "web" },
                        "subscription": { "type": "object" },
                        "recipient_id": unset(),
                    },
                },
                person("fb-messenger", &super::recipient::person_pattern()),
                person("chatapp", &super::recipient::chat_pattern()),
            ] }),
        }
    }
}

impl Subscribe {
    /// The recipient in its one spelling, on a platform that has recipients.
    fn recipient(&self, at: &Path<'_>, validator: &mut Validator) -> Option<String> {
        let parse = match self.platform.parse().ok()? {
            SubscriptionPlatform::Web => return None,
            SubscriptionPlatform::FbMessenger => person_id,
            SubscriptionPlatform::ChatApp => chat_id,
        };
        let text = self.recipient_id.as_deref().filter(|text| !text.is_empty())?;
        let at = at.field("recipient_id");
        parse(text).map_err(|unknown| validator.violation(&at, unknown)).ok()
    }

    /// Checks that the address of the platform is given, and no other one.
    fn check_given(
        &self,
        platform: SubscriptionPlatform,
        at: &Path<'_>,
        validator: &mut Validator,
    ) {
        let has_recipient = self.recipient_id.as_ref().is_some_and(|id| !id.is_empty());
        let is_web = platform == SubscriptionPlatform::Web;
        for (field, is_given, is_wanted) in [
            ("subscription", self.subscription.is_some(), is_web),
            ("recipient_id", has_recipient, !is_web),
        ] {
            let what = match (is_given, is_wanted) {
                (true, false) => "must be absent",
                (false, true) => "is required",
                (true, true) | (false, false) => continue,
            };
            validator.violation(&at.field(field), format_args!("{what} for platform {platform}"));
        }
    }
}

/// The absolute `https` url of a subscription.
pub(crate) struct HttpsUrl;

impl TextKind for HttpsUrl {
    type Valid = String;

    fn check_text(raw: &str, at: &Path<'_>, validator: &mut Validator) -> Option<String> {
        let url = validator.http_url(at, raw)?;
        if !url.to_ascii_lowercase().starts_with("https://") {
            validator.violation(at, "must be an https url");
        }
        Some(url)
    }

    #[cfg(feature = "openapi")]
    fn text_schema(_: &mut Schemas) -> Json {
        let pattern = r"^[Hh][Tt][Tt][Pp][Ss]://[^\u0000-\u0020\u007f-\u009f/\\][^\u0000-\u001f\u007f-\u009f]*$";
        json!({ "type": "string", "minLength": 1, "maxLength": URL_CHARS_MAX, "pattern": pattern })
    }
}

/// A text that is not used. It may be empty.
pub(crate) struct IgnoredText;

impl TextKind for IgnoredText {
    type Valid = String;

    fn equals_absent(_: &str) -> bool {
        false
    }

    fn check_text(text: &str, at: &Path<'_>, validator: &mut Validator) -> Option<String> {
        validator.text(at, text, TEXT_CHARS_MAX)
    }

    #[cfg(feature = "openapi")]
    fn text_schema(_: &mut Schemas) -> Json {
        json!({ "type": "string", "maxLength": TEXT_CHARS_MAX })
    }
}

/// A `DOMHighResTimeStamp`: milliseconds, perhaps with a fraction, which is not used.
pub(crate) struct HighResTimeStamp;

impl Kind for HighResTimeStamp {
    type Raw = i64;
    type Valid = i64;

    fn read(value: Value<'_, '_>) -> Option<i64> {
        #[expect(clippy::cast_possible_truncation, reason = "the fraction is not used")]
        value.float().map(|ms| ms as i64)
    }

    fn check(raw: &i64, _: &Path<'_>, _: &mut Validator) -> Option<i64> {
        Some(*raw)
    }

    #[cfg(feature = "openapi")]
    fn schema(_: &mut Schemas) -> Json {
        json!({ "type": "number", "format": "double" })
    }
}

/// Length of an uncompressed P-256 point, in bytes.
const P256DH_BYTES: usize = 65;
/// First byte of an uncompressed point (SEC 1, section 2.3.3).
const UNCOMPRESSED: u8 = 4;
/// Length of the authentication secret, in bytes (RFC 8291, section 3.2).
const AUTH_BYTES: usize = 16;

/// base64url (RFC 4648, section 5). Padding is optional when decoding, and not written.
const BASE64URL: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Decodes base64url or base64 (RFC 4648, sections 5 and 4), with or without padding. `None` for other texts.
#[must_use]
pub fn decode_base64(text: &str) -> Option<Vec<u8>> {
    BASE64URL.decode(text.replace('+', "-").replace('/', "_")).ok()
}

impl Model for PushSubscription {
    type Valid = WebSubscription;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<WebSubscription> {
        let fields = self.check_fields(at, validator)?;
        let PushKeysFields { p256dh, auth } = fields.keys;
        Some(WebSubscription { endpoint: fields.endpoint, p256dh, auth })
    }
}

impl Model for PushKeys {
    type Valid = PushKeysFields;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<PushKeysFields> {
        self.check_fields(at, validator)
    }
}

/// An uncompressed P-256 point.
pub(crate) struct PublicKey;

impl TextKind for PublicKey {
    type Valid = String;

    fn check_text(raw: &str, at: &Path<'_>, validator: &mut Validator) -> Option<String> {
        check_key(at, raw, validator, |bytes| {
            let is_point = bytes.len() == P256DH_BYTES && bytes[0] == UNCOMPRESSED;
            if is_point {
                Ok(())
            } else {
                Err("must be an uncompressed P-256 point, 65 bytes in base64url or base64")
            }
        })
    }

    /// 65 bytes that start with 4, in base64 of either alphabet with or without padding.
    #[cfg(feature = "openapi")]
    fn text_schema(_: &mut Schemas) -> Json {
        json!({ "type": "string", "pattern": "^B[A-P][A-Za-z0-9+/_-]{84}[AEIMQUYcgkosw048]=?$" })
    }
}

/// The authentication secret of a subscription.
pub(crate) struct AuthSecret;

impl TextKind for AuthSecret {
    type Valid = String;

    fn check_text(raw: &str, at: &Path<'_>, validator: &mut Validator) -> Option<String> {
        check_key(at, raw, validator, |bytes| {
            if bytes.len() == AUTH_BYTES {
                Ok(())
            } else {
                Err("must be 16 bytes in base64url or base64")
            }
        })
    }

    /// 16 bytes in base64 of either alphabet, with or without padding.
    #[cfg(feature = "openapi")]
    fn text_schema(_: &mut Schemas) -> Json {
        json!({ "type": "string", "pattern": "^[A-Za-z0-9+/_-]{21}[AQgw]={0,2}$" })
    }
}

/// Checks a key of a subscription. Returns it in base64url without padding, so that equal keys have equal
/// texts.
fn check_key(
    at: &Path<'_>,
    text: &str,
    validator: &mut Validator,
    check: impl FnOnce(&[u8]) -> Result<(), &'static str>,
) -> Option<String> {
    let Some(bytes) = decode_base64(text) else {
        validator.violation(at, "must be base64url or base64");
        return None;
    };
    check(&bytes).map_err(|rule| validator.violation(at, rule)).ok()?;
    Some(BASE64URL.encode(&bytes))
}

impl Query for ListDevices {
    type Valid = Self;
    const PARAMETERS: &'static [Parameter] = &[
        LIMIT,
        CURSOR,
        Parameter::new(
            "platform",
            ParameterForm::OneOf(&Platform::NAMES),
            "Only devices of this platform",
        ),
        Parameter::new(
            "tag",
            ParameterForm::NonEmpty,
            "Only devices that have this tag set to true",
        ),
        Parameter::new(
            "state",
            ParameterForm::OneOf(&DeviceState::NAMES),
            "Only devices in this state; `disabled` includes `unregistered`",
        ),
        Parameter::new(
            "push_token",
            ParameterForm::NonEmpty,
            "Only devices with this push token, endpoint or recipient id, in any spelling that a registration accepts",
        ),
        Parameter::new(
            "segment",
            ParameterForm::NonEmpty,
            "Only devices that meet the condition of this segment",
        ),
        Parameter::new(
            "user_id",
            ParameterForm::NonEmpty,
            "Only devices on which this user is logged in",
        ),
    ];

    fn parse(parameters: &[(String, String)], _now: Timestamp) -> Result<Self, Violations> {
        let mut parameters = Parameters::new(parameters, Self::PARAMETERS);
        let PageQuery { limit, cursor } = PageQuery::take(&mut parameters);
        let platform = parameters.parsed("platform");
        let tag = parameters.short_text("tag", TAG_NAME_CHARS_MAX);
        let push_token = parameters.short_text("push_token", PUSH_TOKEN_CHARS_MAX);
        let segment = parameters.short_text("segment", SEGMENT_NAME_CHARS_MAX);
        let user_id = parameters.short_text("user_id", CALLER_ID_CHARS_MAX);
        let state = parameters.parsed("state");
        parameters.finish(Some(Self {
            limit,
            cursor,
            platform,
            tag,
            state,
            push_token,
            segment,
            user_id,
        }))
    }
}
