//! Time zones as other systems store them. Notify has the offset from UTC in minutes.

use jiff::{Timestamp, tz};

/// The seconds of a minute.
const MINUTE: i64 = 60;

/// The unit of an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Unit {
    Seconds,
    Minutes,
    Hours,
}

impl Unit {
    fn seconds(self) -> i64 {
        match self {
            Self::Seconds => 1,
            Self::Minutes => MINUTE,
            Self::Hours => 60 * MINUTE,
        }
    }
}

/// The `utc_offset` of a number of seconds, minutes or hours. Fractions occur in hours.
pub(super) fn offset(text: &str, unit: Unit) -> Result<String, &'static str> {
    const RULE: &str = "must be an offset from UTC, such as 3600";
    let number: f64 = text.parse().map_err(|_| RULE)?;
    let seconds = number * unit.seconds() as f64;
    // No offset is further than 14 hours; the bound keeps the conversion exact. Notify's own rule is stricter.
    if !seconds.is_finite() || seconds.abs() > 1e6 {
        return Err(RULE);
    }
    #[expect(clippy::cast_possible_truncation, reason = "the number is within the bound above")]
    let minutes = (seconds / MINUTE as f64).round() as i64;
    Ok(minutes.to_string())
}

/// The `utc_offset` of a time zone: of `GMT+02:00`, or of a name such as `Europe/Berlin` at this time.
pub(super) fn offset_of_zone(name: &str, at: Timestamp) -> Result<String, String> {
    if let Some(minutes) = gmt_minutes(name) {
        return Ok(minutes.to_string());
    }
    let zone = tz::TimeZone::get(name).map_err(|_| {
        if tz::db().is_definitively_empty() {
            "cannot be converted: this computer has no time zone database (package `tzdata`)"
                .to_owned()
        } else {
            format!("`{name}` is not a known time zone")
        }
    })?;
    let seconds = i64::from(zone.to_offset(at).seconds());
    Ok((seconds / MINUTE).to_string())
}

/// The minutes of `GMT+02:00`, `GMT-3` or `UTC+0530`.
fn gmt_minutes(name: &str) -> Option<i64> {
    let offset = name.strip_prefix("GMT").or_else(|| name.strip_prefix("UTC"))?;
    let (sign, digits) = match offset.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let digits = digits.replace(':', "");
    let (hours, minutes) = match digits.len() {
        1 | 2 => (&*digits, "0"),
        4 => digits.split_at(2),
        _ => return None,
    };
    let number = |text: &str| text.parse::<u8>().ok().map(i64::from);
    Some(sign * (60 * number(hours)? + number(minutes)?))
}

/// The language of a locale, and its country: `de-DE` is `de-DE` in `DE`. Apple's suffixes such as
/// `@calendar=…` are ignored.
pub(super) fn language_and_country(locale: &str) -> (String, Option<String>) {
    let locale = locale.split('@').next().unwrap_or_default().replace('_', "-");
    let is_country =
        |part: &&str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_alphabetic());
    let country = locale.split('-').skip(1).last().filter(is_country).map(str::to_uppercase);
    (locale, country)
}
