//! Validated forms of devices, which the server stores, and the rules of `POST /v1/devices`,
//! `POST /v1/subscriptions` and `GET /v1/devices`. The server has two more rules for browsers: the public
//! key must lie on the curve, and the endpoint must not have a private address.

use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde::{Deserialize, Serialize};

use super::time_zone::{DeviceTimeZone, TIME_ZONE_RULE};
use super::{
    DEVICE_TEXT_CHARS_MAX, DevicePlatform, DeviceState, ENCODINGS_MAX, ListDevices,
    PUSH_TOKEN_CHARS_MAX, PushSubscription, RECIPIENT_ID_CHARS_MAX, RegisterDevice, SdkType,
    Subscribe, SubscriptionPlatform, UTC_OFFSET_CHARS_MAX, UTC_OFFSET_MINUTES_MAX,
    UnknownRecipient, canonical_push_token, chat_id, person_id,
};
use crate::json::BodyPresence;
use crate::request::{Parameters, request};
use crate::violations::{Path, REQUIRED, Validator, path};
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

request!(RegisterDevice => Registration, BodyPresence::Required);
request!(Subscribe => Subscription, BodyPresence::Required);

impl RegisterDevice {
    fn check(self, now: Timestamp, validator: &mut Validator) -> Option<Registration> {
        self.check_with_texts_up_to(DEVICE_TEXT_CHARS_MAX, now, validator)
    }

    /// Checks the registration. Its texts, apart from the push token, have at most `chars_max` characters.
    pub(super) fn check_with_texts_up_to(
        self,
        chars_max: usize,
        now: Timestamp,
        validator: &mut Validator,
    ) -> Option<Registration> {
        let device_id = validator.id(&path("device_id"), &self.device_id, DeviceId::new);
        let platform = check_platform(&self.platform, &SUBSCRIPTIONS, validator);
        check_sdk_type(&self.sdk_type, platform, validator);
        let push_token =
            validator.text_up_to(&path("push_token"), self.push_token, PUSH_TOKEN_CHARS_MAX);
        let push_token = push_token
            .zip(platform)
            .and_then(|(text, platform)| canonical_push_token(platform, &text));
        let env = check_ios_env(self.ios_env.as_deref(), platform, validator);
        let mut detail = |name: &'static str, text: Option<String>| {
            validator.text_up_to(&path(name), text, chars_max)
        };
        let mut details = DeviceDetails {
            android_id: detail("android_id", self.android_id),
            ad_id: detail("ad_id", self.ad_id),
            imei: detail("imei", self.imei),
            sdk_version: detail("sdk_version", self.sdk_version),
            app_version: detail("app_version", self.app_version),
            os_version: detail("os_version", self.os_version),
            store_identifier: detail("store_identifier", self.store_identifier),
            timezone: self.timezone.filter(|text| !text.is_empty()),
            country: detail("country", self.country),
            utc_offset: self.utc_offset.filter(|text| !text.is_empty()),
            language: detail("language", self.language),
            device_description: detail("device_description", self.device_description),
        };
        let timezone_minutes = check_utc_offset(&mut details, now, validator);
        let user_id = check_user_id(self.user_id.as_deref(), validator);
        let endpoint = match platform? {
            DevicePlatform::Android => Endpoint::Android { push_token },
            DevicePlatform::Ios => Endpoint::Ios { push_token, env },
        };
        Some(Registration {
            device_id: device_id?,
            endpoint,
            push_disabled: self.push_disabled.unwrap_or(false),
            utc_offset_minutes: timezone_minutes.unwrap_or(0),
            timezone_minutes,
            user_id,
            details,
        })
    }
}

/// An endpoint as a violation of `platform` mentions it. Devices of some platforms are registered at
/// one endpoint, and devices of all other platforms at another one.
struct OtherEndpoint {
    route: &'static str,
    platforms: &'static [&'static str],
}

const SUBSCRIPTIONS: OtherEndpoint =
    OtherEndpoint { route: "POST /v1/subscriptions", platforms: &SubscriptionPlatform::NAMES };
const DEVICES: OtherEndpoint =
    OtherEndpoint { route: "POST /v1/devices", platforms: &DevicePlatform::NAMES };

/// Parses a platform that the called endpoint accepts. The violation for any other name mentions the
/// other endpoint and its platforms.
fn check_platform<P: std::str::FromStr<Err = crate::UnknownName>>(
    name: &str,
    other: &OtherEndpoint,
    validator: &mut Validator,
) -> Option<P> {
    if name.is_empty() {
        validator.violation(&path("platform"), REQUIRED);
        return None;
    }
    match name.parse() {
        Ok(platform) => Some(platform),
        Err(unknown) => {
            let OtherEndpoint { route, platforms } = other;
            let platforms = platforms.join(", ");
            let what = format_args!("{unknown} ({route} takes {platforms})");
            validator.violation(&path("platform"), what);
            None
        }
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

fn check_sdk_type(name: &str, platform: Option<DevicePlatform>, validator: &mut Validator) {
    let sdk_type: Option<SdkType> = validator.one_of(&path("sdk_type"), name);
    if let (Some(platform), Some(sdk_type)) = (platform, sdk_type)
        && platform.sdk_type() != sdk_type
    {
        let what = format_args!("must be {} for platform {platform}", platform.sdk_type());
        validator.violation(&path("sdk_type"), what);
    }
}

fn check_ios_env(
    name: Option<&str>,
    platform: Option<DevicePlatform>,
    validator: &mut Validator,
) -> Option<IosEnv> {
    let name = name.filter(|name| !name.is_empty())?;
    if platform == Some(DevicePlatform::Android) {
        validator.violation(&path("ios_env"), "must be absent or empty for platform android");
        return None;
    }
    validator.one_of(&path("ios_env"), name)
}

fn check_user_id(id: Option<&str>, validator: &mut Validator) -> Option<UserId> {
    validator.optional_id(&path("user_id"), id, UserId::new)
}

/// Checks `timezone` and `utc_offset`, and gives `timezone` its one spelling. Returns the offset from UTC in
/// minutes: that of `timezone` now if it is set, else that of `utc_offset`.
fn check_utc_offset(
    details: &mut DeviceDetails,
    now: Timestamp,
    validator: &mut Validator,
) -> Option<i32> {
    let timezone = details.timezone.as_mut().map(|text| match DeviceTimeZone::read(text, now) {
        Some(DeviceTimeZone { spelling, minutes }) => {
            *text = spelling;
            minutes
        }
        None => {
            validator.violation(&path("timezone"), TIME_ZONE_RULE);
            0
        }
    });
    let offset = details.utc_offset.as_deref().map(|text| {
        parse_utc_offset(text).unwrap_or_else(|| {
            let what = "must be a whole number of minutes within ±840";
            validator.violation(&path("utc_offset"), what);
            0
        })
    });
    timezone.or(offset)
}

/// Parses a number of minutes. Returns `None` if the text is not one, or the offset is too large.
fn parse_utc_offset(text: &str) -> Option<i32> {
    if text.len() > UTC_OFFSET_CHARS_MAX {
        return None;
    }
    let minutes: i32 = text.parse().ok()?;
    (-UTC_OFFSET_MINUTES_MAX..=UTC_OFFSET_MINUTES_MAX).contains(&minutes).then_some(minutes)
}

impl Subscribe {
    /// Checks the rules of a subscription. The same rules apply to browsers that subscribe without an
    /// API key.
    pub(crate) fn check(self, now: Timestamp, validator: &mut Validator) -> Option<Subscription> {
        let platform = check_platform(&self.platform, &DEVICES, validator);
        let endpoint = platform.and_then(|platform| {
            check_endpoint(platform, self.subscription, self.recipient_id.as_deref(), validator)
        });
        let device_id =
            validator.optional_id(&path("device_id"), self.device_id.as_deref(), DeviceId::new);
        let language =
            validator.text_up_to(&path("language"), self.language, DEVICE_TEXT_CHARS_MAX);
        let mut details = DeviceDetails {
            language,
            timezone: self.timezone.filter(|text| !text.is_empty()),
            utc_offset: self.utc_offset.filter(|text| !text.is_empty()),
            ..DeviceDetails::default()
        };
        let timezone_minutes = check_utc_offset(&mut details, now, validator);
        let user_id = check_user_id(self.user_id.as_deref(), validator);
        Some(Subscription {
            device_id,
            endpoint: endpoint?,
            utc_offset_minutes: timezone_minutes.unwrap_or(0),
            timezone_minutes,
            user_id,
            details,
        })
    }
}

fn check_recipient_id(
    at: &Path<'_>,
    text: &str,
    parse: fn(&str) -> Result<String, UnknownRecipient>,
    validator: &mut Validator,
) -> Option<String> {
    if text.is_empty() {
        validator.violation(at, "must not be empty");
        return None;
    }
    if text.chars().nth(RECIPIENT_ID_CHARS_MAX).is_some() {
        let rule = format_args!("must be at most {RECIPIENT_ID_CHARS_MAX} characters");
        validator.violation(at, rule);
        return None;
    }
    parse(text).map_err(|error| validator.violation(at, error)).ok()
}

fn check_endpoint(
    platform: SubscriptionPlatform,
    subscription: Option<PushSubscription>,
    recipient_id: Option<&str>,
    validator: &mut Validator,
) -> Option<Endpoint> {
    if platform == SubscriptionPlatform::Web {
        if recipient_id.is_some_and(|id| !id.is_empty()) {
            validator.violation(&path("recipient_id"), "must be absent for platform web");
        }
        let Some(subscription) = subscription else {
            validator.violation(&path("subscription"), "is required for platform web");
            return None;
        };
        return Some(Endpoint::Web(check_web(&subscription, validator)));
    }
    if subscription.is_some() {
        let what = format_args!("must be absent for platform {platform}");
        validator.violation(&path("subscription"), what);
    }
    let Some(recipient_id) = recipient_id else {
        let what = format_args!("is required for platform {platform}");
        validator.violation(&path("recipient_id"), what);
        return None;
    };
    let at = path("recipient_id");
    let mut check = |parse| check_recipient_id(&at, recipient_id, parse, validator);
    match platform {
        SubscriptionPlatform::FbMessenger => {
            Some(Endpoint::FbMessenger { recipient_id: check(person_id)? })
        }
        SubscriptionPlatform::ChatApp => Some(Endpoint::ChatApp { recipient_id: check(chat_id)? }),
        SubscriptionPlatform::Web => None,
    }
}

/// Length of an uncompressed P-256 point, in bytes.
const P256DH_BYTES: usize = 65;
/// First byte of an uncompressed point (SEC 1, section 2.3.3).
const UNCOMPRESSED: u8 = 4;
/// Length of the authentication secret, in bytes (RFC 8291, section 3.2).
const AUTH_BYTES: usize = 16;

/// base64url (RFC 4648, section 5). Padding is optional when decoding, and not written. Before decoding,
/// the two letters in which base64 (section 4) differs are replaced.
const BASE64URL: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

fn check_web(subscription: &PushSubscription, validator: &mut Validator) -> WebSubscription {
    let at = path("subscription");
    let endpoint =
        validator.required_http_url(&at.field("endpoint"), subscription.endpoint.clone());
    if !endpoint.is_empty() && !endpoint.to_ascii_lowercase().starts_with("https://") {
        validator.violation(&at.field("endpoint"), "must be an https url");
    }
    let encodings = subscription.supported_content_encodings.as_deref().unwrap_or_default();
    let encodings_path = at.field("supportedContentEncodings");
    validator.max_len(&encodings_path, encodings.len(), ENCODINGS_MAX, "encodings");
    let keys = at.field("keys");
    let p256dh = check_key(&keys.field("p256dh"), &subscription.keys.p256dh, validator, |bytes| {
        let is_point = bytes.len() == P256DH_BYTES && bytes[0] == UNCOMPRESSED;
        if is_point {
            Ok(())
        } else {
            Err("must be an uncompressed P-256 point, 65 bytes in base64url or base64")
        }
    });
    let auth = check_key(&keys.field("auth"), &subscription.keys.auth, validator, |bytes| {
        if bytes.len() == AUTH_BYTES {
            Ok(())
        } else {
            Err("must be 16 bytes in base64url or base64")
        }
    });
    WebSubscription { endpoint, p256dh, auth }
}

/// Checks a key of a subscription. Returns it in base64url without padding, so that equal keys have equal texts.
fn check_key(
    at: &Path<'_>,
    text: &str,
    validator: &mut Validator,
    check: impl FnOnce(&[u8]) -> Result<(), &'static str>,
) -> String {
    if text.is_empty() {
        validator.violation(at, REQUIRED);
        return String::new();
    }
    let Ok(bytes) = BASE64URL.decode(text.replace('+', "-").replace('/', "_")) else {
        validator.violation(at, "must be base64url or base64");
        return String::new();
    };
    if let Err(rule) = check(&bytes) {
        validator.violation(at, rule);
    }
    BASE64URL.encode(&bytes)
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
        let platform = parameters.non_empty("platform");
        let platform = parameters.validator.optional_one_of(&path("platform"), platform);
        let mut text = |name: &'static str, chars_max: usize| {
            let text = parameters.non_empty(name).map(str::to_owned);
            parameters.validator.text_up_to(&path(name), text, chars_max)
        };
        let tag = text("tag", TAG_NAME_CHARS_MAX);
        let push_token = text("push_token", PUSH_TOKEN_CHARS_MAX);
        let segment = text("segment", SEGMENT_NAME_CHARS_MAX);
        let user_id = text("user_id", CALLER_ID_CHARS_MAX);
        let state = parameters.non_empty("state");
        let state = parameters.validator.optional_one_of(&path("state"), state);
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
