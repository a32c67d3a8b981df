//! The dates of feeds: RFC 3339, RFC 822 with the years and zones that people write, and what is
//! short of a zone, which is taken as UTC.

use jiff::civil::{Date, DateTime};
use jiff::fmt::rfc2822::DateTimeParser;
use jiff::tz::TimeZone;
use notify_core::Timestamp;

/// A time, if it is one.
pub(super) fn read(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    let parser = DateTimeParser::new().relaxed_weekday(true);
    let time = text
        .parse::<jiff::Timestamp>()
        .or_else(|_| parser.parse_timestamp(text))
        .or_else(|_| parser.parse_timestamp(named_zone(text)))
        .or_else(|_| text.parse::<DateTime>().and_then(in_utc))
        .or_else(|_| text.parse::<Date>().and_then(|date| in_utc(date.into())));
    // Before 1970 there was nothing to publish: such a date stands for none.
    time.ok().map(|time| Timestamp(time.as_millisecond())).filter(|time| time.0 >= 0)
}

fn in_utc(time: DateTime) -> Result<jiff::Timestamp, jiff::Error> {
    Ok(time.to_zoned(TimeZone::UTC)?.timestamp())
}

/// With `UTC` and `Z` as RFC 822 names them.
fn named_zone(text: &str) -> String {
    let zones = [" UTC", " Z", " utc"];
    let time = zones.iter().find_map(|zone| text.strip_suffix(zone)).unwrap_or(text);
    format!("{time} GMT")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_every_kind_are_read() {
        let cases = [
            ("Tue, 02 Jun 2026 08:30:00 GMT", Some(1_780_389_000_000)),
            ("Tue, 02 Jun 2026 08:30:00 +0200", Some(1_780_381_800_000)),
            ("Tue, 2 Jun 2026 08:30 EST", Some(1_780_407_000_000)),
            ("2 Jun 2026 08:30:00 Z", Some(1_780_389_000_000)),
            ("Mon, 02 Jun 2026 08:30:00 UTC", Some(1_780_389_000_000)), // it was a Tuesday
            ("2026-06-02T08:30:00Z", Some(1_780_389_000_000)),
            ("2026-06-02T08:30:00.250+02:00", Some(1_780_381_800_250)),
            ("2026-06-02T08:30:00", Some(1_780_389_000_000)),
            (" 2026-06-02 ", Some(1_780_358_400_000)),
            ("1969-12-31T23:59:59Z", None),
            ("yesterday", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(read(text).map(|time| time.0), expected, "{text}");
        }
    }
}
