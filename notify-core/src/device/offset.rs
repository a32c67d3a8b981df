//! Offsets from UTC as devices write them: `GMT+05:30`, or minutes in a string.

use crate::{UTC_OFFSET_MINUTES_MAX, path::path, violations::Findings};

/// Longest offset in minutes, in characters.
pub const UTC_OFFSET_CHARS_MAX: usize = 8;

/// Checks `timezone` and `utc_offset`; gives the minutes by the first that is set, else 0.
pub(super) fn minutes(
    timezone: Option<&str>,
    utc_offset: Option<&str>,
    findings: &mut Findings,
) -> i32 {
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
