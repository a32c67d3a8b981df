//! The kinds of fields that only notifications have.

use jiff::civil;
use serde_json::value::RawValue;
#[cfg(feature = "openapi")]
use serde_json::{Value as Json, json};

use super::valid::{CampaignRef, LocalTime};
use super::{COLLAPSE_KEY_CHARS_MAX, SCHEDULE_AHEAD_DAYS_MAX};
#[cfg(feature = "openapi")]
use crate::Platform;
use crate::field::{Instant, Kind, ParsedText, TextKind};
use crate::json::{JsonObject, Value};
use crate::platform::Platforms;
#[cfg(feature = "openapi")]
use crate::schema::{CAMPAIGN_REF, Schemas};
use crate::time::DAY_MS;
use crate::violations::{Path, REQUIRED, TEXT_CHARS_MAX, Validator};
use crate::{NotificationId, RESERVED_NOTIFICATION_IDS, Timestamp};

/// The id of a report. It is not one of [`RESERVED_NOTIFICATION_IDS`].
pub(crate) struct ReportId(pub(super) NotificationId);

impl ParsedText for ReportId {
    fn parse(text: &str) -> Result<Self, &'static str> {
        if RESERVED_NOTIFICATION_IDS.contains(&text) {
            return Err("must not be `notify` or `preview`");
        }
        NotificationId::new(text).map(Self)
    }

    #[cfg(feature = "openapi")]
    fn schema() -> Json {
        let mut schema = <NotificationId as ParsedText>::schema();
        schema["pattern"] =
            json!(r"^(?!(?:\.{1,2}|notify|preview)$)[^\u0000-\u001f\u007f-\u009f]+$");
        schema
    }
}

/// Platforms that are ignored, whatever they are, if there are device ids. The request checks them.
pub(crate) struct PlatformsUnlessIds;

impl Kind for PlatformsUnlessIds {
    type Raw = Vec<String>;
    type Valid = ();

    fn read(value: Value<'_, '_>) -> Option<Vec<String>> {
        Platforms::read(value)
    }

    fn check(_: &Vec<String>, _: &Path<'_>, _: &mut Validator) -> Option<()> {
        Some(())
    }

    #[cfg(feature = "openapi")]
    fn schema(schemas: &mut Schemas) -> Json {
        json!({ "type": "array", "items": schemas.add_type::<Platform>() })
    }
}

/// The earliest `send_at`, in unix milliseconds: September 2001. A smaller number is probably in seconds.
pub const SEND_AT_MS_MIN: i64 = 1_000_000_000_000;

const AHEAD_MS_MAX: i64 = SCHEDULE_AHEAD_DAYS_MAX * DAY_MS;
const TOO_FAR: &str = "must be at most 366 days ahead";

/// Checks that an instant is not too far ahead.
fn check_ahead(ms: i64, at: &Path<'_>, validator: &mut Validator) {
    if ms > validator.now().plus_ms(AHEAD_MS_MAX).as_ms() {
        validator.violation(at, TOO_FAR);
    }
}

/// When a notification is sent.
pub(crate) struct SendAt;

impl Kind for SendAt {
    type Raw = Timestamp;
    type Valid = Timestamp;

    fn read(value: Value<'_, '_>) -> Option<Timestamp> {
        Instant::read(value)
    }

    fn check(raw: &Timestamp, at: &Path<'_>, validator: &mut Validator) -> Option<Timestamp> {
        let instant = Instant::check(raw, at, validator)?;
        check_ahead(instant.as_ms(), at, validator);
        if instant.as_ms() < SEND_AT_MS_MIN && !validator.is_for_accepted() {
            let ms = instant.as_ms();
            let what = format_args!("must be unix milliseconds: is {ms} in seconds?");
            validator.violation(at, what);
        }
        Some(instant)
    }

    #[cfg(feature = "openapi")]
    fn schema(schemas: &mut Schemas) -> Json {
        let mut schema = Instant::schema(schemas);
        schema["minimum"] = json!(SEND_AT_MS_MIN);
        schema
    }
}

/// The local time at which a notification is sent.
pub(crate) struct SendAtLocal;

impl TextKind for SendAtLocal {
    type Valid = LocalTime;

    fn check_text(raw: &str, at: &Path<'_>, validator: &mut Validator) -> Option<LocalTime> {
        let local = parse_local_time(raw);
        match local {
            None => validator.violation(at, "must be a date and time as YYYY-MM-DDTHH:MM"),
            Some(local) => check_ahead(local.0, at, validator),
        }
        local
    }

    /// Validation also checks that the day exists.
    #[cfg(feature = "openapi")]
    fn text_schema(_: &mut Schemas) -> Json {
        let pattern = "^[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])T(?:[01][0-9]|2[0-3]):[0-5][0-9]$";
        json!({ "type": "string", "pattern": pattern })
    }
}

/// Parses `YYYY-MM-DDTHH:MM` and no other form; the day must exist in the calendar.
pub(crate) fn parse_local_time(text: &str) -> Option<LocalTime> {
    const FORM: &[u8] = b"0000-00-00T00:00";
    let has_form = text.len() == FORM.len()
        && text.bytes().zip(FORM).all(|(byte, form_byte)| match form_byte {
            b'0' => byte.is_ascii_digit(),
            separator => byte == *separator,
        });
    if !has_form {
        return None;
    }
    let year: i16 = text[0..4].parse().ok()?;
    let two_digits = |start: usize| text[start..start + 2].parse::<i8>().ok();
    let date = civil::Date::new(year, two_digits(5)?, two_digits(8)?).ok()?;
    let time = civil::Time::new(two_digits(11)?, two_digits(14)?, 0, 0).ok()?;
    let since_1970 = date.to_datetime(time).duration_since(civil::date(1970, 1, 1).at(0, 0, 0, 0));
    i64::try_from(since_1970.as_millis()).ok().map(LocalTime)
}

/// The key of notifications that replace each other.
pub(crate) struct CollapseKey;

impl TextKind for CollapseKey {
    type Valid = String;

    fn check_text(raw: &str, at: &Path<'_>, validator: &mut Validator) -> Option<String> {
        let is_visible = raw.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_visible || raw.len() > COLLAPSE_KEY_CHARS_MAX {
            let what =
                format_args!("must be 1 to {COLLAPSE_KEY_CHARS_MAX} visible ASCII characters");
            validator.violation(at, what);
        }
        Some(raw.to_owned())
    }

    #[cfg(feature = "openapi")]
    fn text_schema(_: &mut Schemas) -> Json {
        json!({ "type": "string", "maxLength": COLLAPSE_KEY_CHARS_MAX, "pattern": "^[!-~]+$" })
    }
}

impl ParsedText for CampaignRef {
    fn parse(text: &str) -> Result<Self, &'static str> {
        match text {
            "default" => Ok(Self::Default),
            id => {
                id.parse().map(Self::Id).map_err(|_| "must be the id of a campaign, or `default`")
            }
        }
    }

    #[cfg(feature = "openapi")]
    fn schema() -> Json {
        json!({ "type": "string", "pattern": CAMPAIGN_REF })
    }
}

/// The key of extra data.
pub(crate) struct ExtraKey;

impl TextKind for ExtraKey {
    type Valid = String;

    fn check_text(raw: &str, at: &Path<'_>, validator: &mut Validator) -> Option<String> {
        if KEYS_USED.contains(&raw) {
            validator.violation(at, "is a key that the payload already uses");
        }
        if is_reserved_by_fcm(raw) {
            validator.violation(at, RESERVED_BY_FCM);
        }
        validator.text(at, raw, TEXT_CHARS_MAX)
    }

    /// A key that FCM does not reserve and the server's payloads do not use, or an empty text.
    #[cfg(feature = "openapi")]
    fn text_schema(_: &mut Schemas) -> Json {
        let pattern = r"^(?!google|gcm\.|(?:from|gcm|message_type|aps|notification_id|campaign_id|url|image_url|poll_id)$)";
        json!({ "type": "string", "maxLength": TEXT_CHARS_MAX, "pattern": pattern })
    }
}

/// Data keys that FCM reserves, in addition to all that start with `google` or `gcm.`.
pub const FCM_KEYS_RESERVED: [&str; 3] = ["from", "gcm", "message_type"];
const FCM_PREFIXES_RESERVED: [&str; 2] = ["google", "gcm."];
const RESERVED_BY_FCM: &str = "is a key that FCM reserves";
/// Keys that the server's payloads use.
const KEYS_USED: [&str; 6] =
    ["aps", "notification_id", "campaign_id", "url", "image_url", "poll_id"];
/// Required members of `aps` in a raw payload.
const APS_REQUIRED: [&str; 3] = ["alert", "badge", "sound"];

/// The raw payload of Android.
pub(crate) struct AndroidJson;

impl Kind for AndroidJson {
    type Raw = JsonObject;
    type Valid = JsonObject;

    fn read(value: Value<'_, '_>) -> Option<JsonObject> {
        value.raw_object()
    }

    fn check(raw: &JsonObject, at: &Path<'_>, validator: &mut Validator) -> Option<JsonObject> {
        for (key, _) in raw.members() {
            if is_reserved_by_fcm(&key) {
                validator.violation(&at.field(&key), RESERVED_BY_FCM);
            }
        }
        Some(raw.clone())
    }

    /// Its keys are not those that FCM reserves.
    #[cfg(feature = "openapi")]
    fn schema(schemas: &mut Schemas) -> Json {
        let schema = json!({
            "type": "object",
            "description": "A raw payload of Android.",
            "propertyNames": { "pattern": r"^(?!google|gcm\.|(?:from|gcm|message_type)$)" },
            "additionalProperties": true,
        });
        schemas.add_schema("AndroidJson", schema)
    }
}

/// The raw payload of iOS.
pub(crate) struct IosJson;

impl Kind for IosJson {
    type Raw = JsonObject;
    type Valid = JsonObject;

    fn read(value: Value<'_, '_>) -> Option<JsonObject> {
        value.raw_object()
    }

    fn check(raw: &JsonObject, at: &Path<'_>, validator: &mut Validator) -> Option<JsonObject> {
        let at = at.field("aps");
        let Some(aps) = member(raw, "aps") else {
            validator.violation(&at, REQUIRED);
            return None;
        };
        let Ok(aps) = serde_json::from_str::<JsonObject>(aps.get()) else {
            validator.violation(&at, "must be an object");
            return None;
        };
        for key in APS_REQUIRED {
            if member(&aps, key).is_none() {
                validator.violation(&at.field(key), REQUIRED);
            }
        }
        Some(raw.clone())
    }

    #[cfg(feature = "openapi")]
    fn schema(schemas: &mut Schemas) -> Json {
        let schema = json!({
            "type": "object",
            "description": "A raw payload of iOS.",
            "required": ["aps"],
            "properties": { "aps": { "type": "object", "required": APS_REQUIRED } },
            "additionalProperties": true,
        });
        schemas.add_schema("IosJson", schema)
    }
}

fn member(object: &JsonObject, key: &str) -> Option<Box<RawValue>> {
    object.members().into_iter().find(|(name, _)| name == key).map(|(_, value)| value)
}

fn is_reserved_by_fcm(key: &str) -> bool {
    FCM_KEYS_RESERVED.contains(&key)
        || FCM_PREFIXES_RESERVED.iter().any(|prefix| key.starts_with(prefix))
}
