//! Time zones of devices: names of the IANA database, and offsets from UTC. The database is part of the
//! program, so that all servers of one version agree, also in a container without time zones.

use std::sync::Mutex;

use jiff::tz::{self, TimeZoneDatabase};

use super::{UTC_OFFSET_CHARS_MAX, UTC_OFFSET_MINUTES_MAX};
use crate::Timestamp;
use crate::field::TextKind;
#[cfg(feature = "openapi")]
use crate::schema::Schemas;
use crate::violations::{Path, Validator};

/// What `timezone` can be.
const TIME_ZONE_RULE: &str = "must be a time zone of the IANA database, such as Europe/Vienna, or GMT or GMT±HH:MM within ±14:00";

/// Names of the database that name no zone.
const NO_ZONES: [&str; 2] = ["Etc/Unknown", "Factory"];

/// A `timezone` that is valid.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DeviceTimeZone {
    /// Its one spelling: the name as the database has it, or `GMT` or `GMT±HH:MM`.
    pub(crate) spelling: String,
    /// The offset from UTC at the instant for which it was read, in minutes.
    pub(crate) minutes: i32,
}

impl DeviceTimeZone {
    /// Reads a name of the IANA database in any case, or an offset: `GMT`, `GMT+02:00`, and the forms in which
    /// systems write it, such as `UTC+2`, `GMT+0530` and `+05:30`.
    pub(super) fn read(text: &str, at: Timestamp) -> Option<Self> {
        let text = text.trim();
        if text == "GMT" {
            return Some(Self { spelling: text.to_owned(), minutes: 0 });
        }
        if let Some(offset) = WrittenOffset::read(text) {
            let is_as_specified =
                text.is_ascii() && text.len() == "GMT+00:00".len() && text.starts_with("GMT");
            let spelling = if is_as_specified {
                text.to_owned()
            } else {
                let sign = if offset.is_negative { '-' } else { '+' };
                format!("GMT{sign}{:02}:{:02}", offset.hours, offset.minutes)
            };
            return offset.total().map(|minutes| Self { spelling, minutes });
        }
        let zone = named(text)?;
        let spelling = zone.iana_name()?.to_owned();
        Some(Self { spelling, minutes: minutes_at(&zone, at)? })
    }
}

/// A time zone, in any spelling.
pub(crate) struct TimeZone;

impl TextKind for TimeZone {
    type Valid = DeviceTimeZone;

    fn check_text(raw: &str, at: &Path<'_>, validator: &mut Validator) -> Option<DeviceTimeZone> {
        let zone = DeviceTimeZone::read(raw, validator.now());
        if zone.is_none() {
            validator.violation(at, TIME_ZONE_RULE);
        }
        zone
    }

    /// Validation also checks that the zone exists, and accepts other spellings.
    #[cfg(feature = "openapi")]
    fn text_schema(_: &mut Schemas) -> serde_json::Value {
        let pattern = "^(?:(?:GMT|UTC)(?:[+-](?:(?:0?[0-9]|1[0-3])(?::[0-5][0-9])?|14(?::00)?))?|[A-Z][A-Za-z_-]+(?:/[A-Z][A-Za-z0-9_+-]+)+)$";
        serde_json::json!({ "type": "string", "pattern": pattern })
    }
}

/// An offset from UTC in minutes, as a text.
pub(crate) struct UtcOffset;

/// The text and the number of an [`UtcOffset`].
pub(crate) struct WrittenMinutes {
    pub(crate) text: String,
    pub(crate) minutes: i32,
}

impl TextKind for UtcOffset {
    type Valid = WrittenMinutes;

    fn check_text(raw: &str, at: &Path<'_>, validator: &mut Validator) -> Option<WrittenMinutes> {
        let minutes = raw.parse().ok().filter(|minutes| {
            raw.len() <= UTC_OFFSET_CHARS_MAX
                && (-UTC_OFFSET_MINUTES_MAX..=UTC_OFFSET_MINUTES_MAX).contains(minutes)
        });
        if minutes.is_none() {
            validator.violation(at, "must be a whole number of minutes within ±840");
        }
        Some(WrittenMinutes { text: raw.to_owned(), minutes: minutes? })
    }

    /// An integer within ±840 in Rust's syntax.
    #[cfg(feature = "openapi")]
    fn text_schema(_: &mut Schemas) -> serde_json::Value {
        let pattern = "^[+-]?0*(?:[0-9]{1,2}|[1-7][0-9]{2}|8[0-3][0-9]|840)$";
        serde_json::json!({ "type": "string", "maxLength": UTC_OFFSET_CHARS_MAX, "pattern": pattern })
    }
}

/// The offset from UTC, in minutes, of a named time zone at an instant. Returns `None` for any other text,
/// such as `GMT+02:00`.
#[must_use]
pub fn offset_of_zone(name: &str, at: Timestamp) -> Option<i32> {
    minutes_at(&named(name)?, at)
}

/// The offset from UTC, in minutes, that a named time zone has at a local time, which is given as if it were a
/// time in UTC: the offset before a change if the clocks skip that time, and the first one if it occurs twice.
/// Returns `None` for any other text, such as `GMT+02:00`.
#[must_use]
pub fn offset_of_zone_at_local_time(name: &str, local: Timestamp) -> Option<i32> {
    let zone = named(name)?;
    let local = jiff::Timestamp::from_millisecond(local.as_ms()).ok()?;
    let at = zone.to_timestamp(tz::Offset::UTC.to_datetime(local)).ok()?;
    minutes_at(&zone, Timestamp::from_ms(at.as_millisecond()))
}

fn named(name: &str) -> Option<tz::TimeZone> {
    let zone = TimeZoneDatabase::bundled().get(name).ok()?;
    let is_zone = |name: &str| !NO_ZONES.contains(&name);
    zone.iana_name().is_some_and(is_zone).then_some(zone)
}

fn minutes_at(zone: &tz::TimeZone, at: Timestamp) -> Option<i32> {
    let at = jiff::Timestamp::from_millisecond(at.as_ms()).ok()?;
    // Since 1972, every offset is a number of whole minutes.
    Some(zone.to_offset(at).seconds().div_euclid(60))
}

/// An offset as a text has it.
#[derive(Clone, Copy)]
struct WrittenOffset {
    is_negative: bool,
    hours: i32,
    minutes: i32,
}

impl WrittenOffset {
    /// Reads a sign, hours of one or two digits, and minutes of two digits, behind `GMT`, `UTC` or nothing.
    fn read(text: &str) -> Option<Self> {
        let has_prefix = text.get(..3).is_some_and(|start| {
            ["GMT", "UTC"].iter().any(|name| name.eq_ignore_ascii_case(start))
        });
        let rest = if has_prefix { &text[3..] } else { text };
        let mut digits = rest.chars();
        let is_negative = match digits.next()? {
            '+' => false,
            // Some languages write a minus sign.
            '-' | '\u{2212}' => true,
            _ => return None,
        };
        let digits = digits.as_str();
        let (hours, minutes) = match digits.split_once(':') {
            Some((hours, minutes)) if minutes.len() == 2 => (hours, minutes),
            Some(_) => return None,
            None if digits.len() == 4 => digits.split_at_checked(2)?,
            None => (digits, "00"),
        };
        let number = |digits: &str| {
            let is_number =
                matches!(digits.len(), 1 | 2) && digits.bytes().all(|b| b.is_ascii_digit());
            is_number.then(|| digits.parse().ok()).flatten()
        };
        Some(Self { is_negative, hours: number(hours)?, minutes: number(minutes)? })
    }

    /// The minutes from UTC, if they are within the limit.
    fn total(self) -> Option<i32> {
        let total = self.hours * 60 + self.minutes;
        let is_valid = self.minutes < 60 && total <= UTC_OFFSET_MINUTES_MAX;
        is_valid.then_some(if self.is_negative { -total } else { total })
    }
}

/// The offsets of all named time zones during a period in which none of them changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZoneOffsets {
    /// A hash of the names and their offsets. It is the same in all builds with the same database.
    pub fingerprint: i64,
    /// When the last change before the period was; `None` if there was none.
    pub since: Option<Timestamp>,
    /// When the next change is; `None` if there is none.
    until: Option<Timestamp>,
}

// FNV-1a, whose results stay the same, unlike those of the standard library's hash.
const FNV_OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// The offsets that were computed last, which takes milliseconds.
static LAST_COMPUTED: Mutex<Option<ZoneOffsets>> = Mutex::new(None);

impl ZoneOffsets {
    /// The offsets at an instant.
    ///
    /// # Panics
    /// Never: nothing panics under the lock.
    #[must_use]
    pub fn at(at: Timestamp) -> Self {
        let mut last = LAST_COMPUTED.lock().expect("nothing panics under this lock");
        if let Some(known) = last.filter(|known| known.has(at)) {
            return known;
        }
        let computed = Self::compute(at);
        *last = Some(computed);
        computed
    }

    fn has(&self, at: Timestamp) -> bool {
        self.since.is_none_or(|since| since <= at) && self.until.is_none_or(|until| at < until)
    }

    fn compute(at: Timestamp) -> Self {
        let instant = jiff::Timestamp::from_millisecond(at.as_ms()).unwrap_or_default();
        // A change at this very instant has happened.
        let just_after = jiff::Timestamp::from_millisecond(at.as_ms() + 1).unwrap_or(instant);
        let (mut since, mut until) = (None, None);
        let mut hash = FNV_OFFSET_BASIS;
        for name in TimeZoneDatabase::bundled().available() {
            let Some(zone) = named(name.as_str()) else { continue };
            let of = |change: tz::TimeZoneTransition<'_>| {
                Timestamp::from_ms(change.timestamp().as_millisecond())
            };
            since = since.max(zone.preceding(just_after).next().map(of));
            let next = zone.following(instant).next().map(of);
            until = [until, next].into_iter().flatten().min();
            let minutes = minutes_at(&zone, at).unwrap_or_default();
            for byte in name.as_str().bytes().chain(minutes.to_le_bytes()) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
            }
        }
        Self { fingerprint: hash.cast_signed(), since, until }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp(text.parse::<jiff::Timestamp>().unwrap().as_millisecond())
    }

    #[test]
    fn names_and_offsets_have_one_spelling() {
        let summer = at("2026-07-01T12:00:00Z");
        for (text, expected) in [
            ("GMT", Some(("GMT", 0))),
            ("GMT+02:00", Some(("GMT+02:00", 120))),
            ("GMT-00:00", Some(("GMT-00:00", 0))),
            ("GMT+14:00", Some(("GMT+14:00", 840))),
            ("GMT-14:00", Some(("GMT-14:00", -840))),
            ("GMT+5:30", Some(("GMT+05:30", 330))),
            ("GMT-3", Some(("GMT-03:00", -180))),
            ("GMT+0530", Some(("GMT+05:30", 330))),
            ("UTC+02:00", Some(("GMT+02:00", 120))),
            ("utc-9:30", Some(("GMT-09:30", -570))),
            ("gmt+01:00", Some(("GMT+01:00", 60))),
            ("+05:45", Some(("GMT+05:45", 345))),
            ("GMT\u{2212}01:00", Some(("GMT-01:00", -60))),
            (" GMT+01:00\n", Some(("GMT+01:00", 60))),
            ("Europe/Vienna", Some(("Europe/Vienna", 120))),
            ("europe/vienna", Some(("Europe/Vienna", 120))),
            ("America/Argentina/Buenos_Aires", Some(("America/Argentina/Buenos_Aires", -180))),
            ("Asia/Calcutta", Some(("Asia/Calcutta", 330))),
            ("US/Pacific", Some(("US/Pacific", -420))),
            ("Etc/GMT+5", Some(("Etc/GMT+5", -300))),
            ("utc", Some(("UTC", 0))),
            ("GMT0", Some(("GMT0", 0))),
            ("Australia/Lord_Howe", Some(("Australia/Lord_Howe", 630))),
            ("Pacific/Kiritimati", Some(("Pacific/Kiritimati", 840))),
            ("GMT+14:01", None),
            ("GMT+01:60", None),
            ("GMT+1:0", None),
            ("GMT+530", None),
            ("GMT+05:30:00", None),
            ("GMT+", None),
            ("GMT 01:00", None),
            ("GMT01:00", None),
            ("GMT++1", None),
            ("GMT+é", None),
            ("5", None),
            ("Etc/Unknown", None),
            ("Factory", None),
            ("Mars/Phobos", None),
            ("W. Europe Standard Time", None),
            ("Europe/", None),
            ("../etc/passwd", None),
            ("ééé", None),
        ] {
            let read = DeviceTimeZone::read(text, summer);
            let read = read.as_ref().map(|zone| (zone.spelling.as_str(), zone.minutes));
            assert_eq!(read, expected, "{text}");
        }
    }

    #[test]
    fn every_name_of_the_database_is_a_zone_within_the_limit() {
        for time in ["2026-01-01T00:00:00Z", "2026-07-01T00:00:00Z"].map(at) {
            for name in TimeZoneDatabase::bundled().available() {
                let name = name.as_str();
                let read = DeviceTimeZone::read(name, time);
                if NO_ZONES.contains(&name) {
                    assert_eq!(read, None, "{name}");
                } else {
                    let minutes = read.unwrap_or_else(|| panic!("{name} is a zone")).minutes;
                    assert!(minutes.abs() <= UTC_OFFSET_MINUTES_MAX, "{name}: {minutes}");
                }
            }
        }
    }

    #[test]
    fn an_offset_is_that_of_the_instant() {
        for (time, vienna) in [
            ("2026-03-29T00:59:59Z", 60),
            ("2026-03-29T01:00:00Z", 120),
            ("2026-10-25T00:59:59Z", 120),
            ("2026-10-25T01:00:00Z", 60),
        ] {
            assert_eq!(offset_of_zone("Europe/Vienna", at(time)), Some(vienna), "{time}");
        }
        assert_eq!(offset_of_zone("GMT+02:00", at("2026-07-01T00:00:00Z")), None);
        for (local, vienna) in [
            ("2026-10-25T01:30:00Z", 120),
            ("2026-10-25T02:30:00Z", 120),
            ("2026-10-25T03:00:00Z", 60),
            ("2026-03-29T01:59:00Z", 60),
            ("2026-03-29T03:00:00Z", 120),
        ] {
            let offset = offset_of_zone_at_local_time("Europe/Vienna", at(local));
            assert_eq!(offset, Some(vienna), "{local}");
        }
    }

    #[test]
    fn the_fingerprint_changes_with_an_offset_and_only_then() {
        let of = |text: &str| ZoneOffsets::at(at(text));
        let before = of("2026-10-25T00:59:59.999Z");
        let after = of("2026-10-25T01:00:00Z");
        assert_ne!(before.fingerprint, after.fingerprint);
        assert_eq!((before.until, after.since), (after.since, Some(at("2026-10-25T01:00:00Z"))));
        assert_eq!(of("2026-10-25T01:00:01Z"), after, "nothing changes within a second");
        assert_eq!(
            of("2026-10-25T00:59:59.999Z"),
            before,
            "it does not depend on what was asked before"
        );
    }
}
