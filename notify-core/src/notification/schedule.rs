//! When a notification is due, how long and how urgently it is sent.

use jiff::civil;

use super::{
    COLLAPSE_KEY_CHARS_MAX, LocalTime, Priority, SCHEDULE_AHEAD_DAYS_MAX, Schedule, TTL_SECONDS_MAX,
};
use crate::Timestamp;
use crate::violations::{Findings, path};

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
const AHEAD_MS_MAX: i64 = SCHEDULE_AHEAD_DAYS_MAX * DAY_MS;
const TOO_FAR: &str = "must be at most 366 days ahead";

pub(super) fn check(
    send_at: Option<i64>,
    send_at_local: Option<&str>,
    now: Timestamp,
    findings: &mut Findings,
) -> Option<Schedule> {
    let latest = now.plus_ms(AHEAD_MS_MAX);
    let local_text = send_at_local.filter(|text| !text.is_empty());
    let at = findings.instant(&path("send_at"), send_at);
    if at.is_some_and(|at| at > latest) {
        findings.broken(&path("send_at"), TOO_FAR);
    }
    let local_path = path("send_at_local");
    let local = local_text.and_then(|text| {
        let local = read_local(text);
        match local {
            None => findings.broken(&local_path, "must be a date and time as YYYY-MM-DDTHH:MM"),
            Some(local) if local.0 > latest.as_ms() => findings.broken(&local_path, TOO_FAR),
            Some(_) => {}
        }
        local
    });
    if send_at.is_some() && local_text.is_some() {
        findings.broken(&local_path, "must not be combined with send_at");
    }
    match (send_at, local_text) {
        (None, None) => Some(Schedule::Now),
        (_, Some(_)) => local.map(Schedule::Local),
        (Some(_), None) => at.map(|at| if at > now { Schedule::At(at) } else { Schedule::Now }),
    }
}

/// Reads `YYYY-MM-DDTHH:MM` and nothing else; the calendar decides which days exist.
fn read_local(text: &str) -> Option<LocalTime> {
    const FORM: &[u8] = b"0000-00-00T00:00";
    let has_form = text.len() == FORM.len()
        && text.bytes().zip(FORM).all(|(byte, form)| match form {
            b'0' => byte.is_ascii_digit(),
            other => byte == *other,
        });
    if !has_form {
        return None;
    }
    let number = |range: std::ops::Range<usize>| text[range].parse::<i16>().ok();
    let small = |range| number(range).and_then(|number| i8::try_from(number).ok());
    let date = civil::Date::new(number(0..4)?, small(5..7)?, small(8..10)?).ok()?;
    let time = civil::Time::new(small(11..13)?, small(14..16)?, 0, 0).ok()?;
    let since_1970 = date.to_datetime(time).duration_since(civil::date(1970, 1, 1).at(0, 0, 0, 0));
    i64::try_from(since_1970.as_millis()).ok().map(LocalTime)
}

pub(super) fn check_ttl(ttl_seconds: Option<u32>, findings: &mut Findings) -> u32 {
    let ttl_seconds = ttl_seconds.unwrap_or(TTL_SECONDS_MAX);
    if ttl_seconds > TTL_SECONDS_MAX {
        findings.broken(&path("ttl_seconds"), format_args!("must be at most {TTL_SECONDS_MAX}"));
    }
    ttl_seconds
}

pub(super) fn check_priority(word: Option<&str>, findings: &mut Findings) -> Option<Priority> {
    let Some(word) = word.filter(|word| !word.is_empty()) else {
        return Some(Priority::default());
    };
    findings.word(&path("priority"), word, &Priority::ALL, Priority::as_str)
}

pub(super) fn check_collapse_key(key: Option<String>, findings: &mut Findings) -> Option<String> {
    let key = key.filter(|key| !key.is_empty())?;
    let is_visible = key.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_visible || key.len() > COLLAPSE_KEY_CHARS_MAX {
        let what = format_args!("must be 1 to {COLLAPSE_KEY_CHARS_MAX} visible ASCII characters");
        findings.broken(&path("collapse_key"), what);
    }
    Some(key)
}
