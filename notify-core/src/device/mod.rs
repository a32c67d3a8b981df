//! Devices: registration, subscriptions, reading back.

mod register;
mod request;
mod subscribe;
mod valid;

use serde::{Deserialize, Serialize};

pub use self::request::*;
pub(crate) use self::subscribe::{check_subscription, read_subscription};
pub use self::valid::*;
use crate::rules::REQUIRED;
use crate::violations::{Findings, path};
use crate::{DeviceId, IosEnv, Platform, Tag, Timestamp};

// Offsets from UTC as devices write them: `GMT+05:30`, or minutes in a string.

/// Longest offset in minutes, in characters.
pub const UTC_OFFSET_CHARS_MAX: usize = 8;

/// Checks `timezone` and `utc_offset`; gives the minutes by the first that is set, else 0.
fn minutes(timezone: Option<&str>, utc_offset: Option<&str>, findings: &mut Findings) -> i32 {
    let zone = timezone.map(|text| {
        by_timezone(text).unwrap_or_else(|| {
            findings.broken(&path("timezone"), "must be GMT or GMT±HH:MM within ±14:00");
            0
        })
    });
    let offset = utc_offset.map(|text| {
        by_utc_offset(text).unwrap_or_else(|| {
            findings.broken(&path("utc_offset"), "must be a whole number of minutes within ±840");
            0
        })
    });
    zone.or(offset).unwrap_or(0)
}

fn by_timezone(text: &str) -> Option<i32> {
    let rest = text.strip_prefix("GMT")?;
    if rest.is_empty() {
        return Some(0);
    }
    let (sign, digits) = match rest.as_bytes() {
        [b'+', digits @ ..] => (1, digits),
        [b'-', digits @ ..] => (-1, digits),
        _ => return None,
    };
    let &[h1, h2, b':', m1, m2] = digits else { return None };
    let (hours, minutes) = (two_digits(h1, h2)?, two_digits(m1, m2)?);
    let total = hours * 60 + minutes;
    (minutes < 60 && total <= UTC_OFFSET_MINUTES_MAX).then_some(sign * total)
}

fn two_digits(tens: u8, ones: u8) -> Option<i32> {
    let both = tens.is_ascii_digit() && ones.is_ascii_digit();
    both.then(|| i32::from(tens - b'0') * 10 + i32::from(ones - b'0'))
}

fn by_utc_offset(text: &str) -> Option<i32> {
    if text.len() > UTC_OFFSET_CHARS_MAX {
        // Any number of zeros may stand before a number.
        return None;
    }
    let minutes: i32 = text.parse().ok()?;
    (-UTC_OFFSET_MINUTES_MAX..=UTC_OFFSET_MINUTES_MAX).contains(&minutes).then_some(minutes)
}

// Which platforms come in by which route.

/// The other route, and the platforms that it takes.
#[derive(Clone, Copy)]
struct Elsewhere {
    route: &'static str,
    platforms: &'static [Platform],
}

/// A platform that this route takes. Whoever names another learns of the other route.
fn check_platform(
    word: &str,
    taken: &[Platform],
    elsewhere: Elsewhere,
    findings: &mut Findings,
) -> Option<Platform> {
    if word.is_empty() {
        findings.broken(&path("platform"), REQUIRED);
        return None;
    }
    let found = taken.iter().copied().find(|platform| platform.as_str() == word);
    if found.is_none() {
        let Elsewhere { route, platforms } = elsewhere;
        let (taken, others) = (listed(taken), listed(platforms));
        let what = format_args!("must be one of {taken} ({route} takes {others})");
        findings.broken(&path("platform"), what);
    }
    found
}

fn listed(platforms: &[Platform]) -> String {
    platforms.iter().map(|platform| platform.as_str()).collect::<Vec<_>>().join(", ")
}

// How devices read back.

/// Why a device gets nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum DisabledReason {
    /// The user disabled push reception.
    PushDisabled,
    /// The provider reported the address as dead.
    Unregistered,
}

/// A device as read back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Device {
    /// The caller's id.
    pub device_id: DeviceId,
    /// Platform.
    pub platform: Platform,
    /// `android_push` or `ios_push`; null on other platforms.
    pub sdk_type: Option<String>,
    /// Identifier from the platform push provider.
    pub push_token: Option<String>,
    /// True if the user disabled push reception.
    pub push_disabled: bool,
    /// `production` or `sandbox`; null where unset.
    pub ios_env: Option<IosEnv>,
    /// Subscription of a browser.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscription: Option<WebSubscription>,
    /// Address on Messenger or the chat app.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipient_id: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub details: DeviceDetails,
    /// Tags of the device.
    pub tags: Vec<Tag>,
    /// Whether it can be sent to, but for a missing address.
    pub enabled: bool,
    /// Why not.
    pub disabled_reason: Option<DisabledReason>,
    /// First registration.
    pub created_at: Timestamp,
    /// Last registration.
    pub updated_at: Timestamp,
}

/// Answer of `GET /v1/devices`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeviceList {
    /// One page, by device sequence.
    pub devices: Vec<Device>,
    /// Where the next page begins; null at the end.
    pub next_cursor: Option<String>,
}

/// Answer of `POST /v1/subscriptions`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SubscriptionCreated {
    /// The device id.
    pub id: DeviceId,
}
