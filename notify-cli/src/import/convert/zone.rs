//! Offsets from UTC and locales as other systems store them.

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

/// The language of a locale, and its country: `de-DE` is `de-DE` in `DE`. Apple's suffixes such as
/// `@calendar=…` are ignored.
pub(super) fn language_and_country(locale: &str) -> (String, Option<String>) {
    let locale = locale.split('@').next().unwrap_or_default().replace('_', "-");
    let is_country =
        |part: &&str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_alphabetic());
    let country = locale.split('-').skip(1).last().filter(is_country).map(str::to_uppercase);
    (locale, country)
}
