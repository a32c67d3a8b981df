//! Parses `Retry-After` of providers, endpoints and feeds: seconds or a date (RFC 9110 section
//! 10.2.3). A wait of more than a day is shortened to a day.

use std::time::Duration;

use http::HeaderMap;
use http::header::RETRY_AFTER;
use jiff::fmt::rfc2822::DateTimeParser;
use notify_core::Timestamp;

/// Longest wait that is honoured.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(86_400);

/// A date with a wrong day of the week is accepted: ignoring the header would send the next request
/// too early.
static DATE: DateTimeParser = DateTimeParser::new().relaxed_weekday(true);

/// The requested wait; `None` if the header is missing or cannot be parsed. The wait until a date
/// is measured from `wall`: the wall clock, or the time in the response's own `Date`.
pub(crate) fn retry_after(headers: &HeaderMap, wall: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number that does not fit into a u64 is more than a day, too.
        text.parse().map_or(RETRY_AFTER_MAX, Duration::from_secs)
    } else {
        let date = DATE.parse_timestamp(text).ok()?;
        let wait_ms = date.as_millisecond().saturating_sub(wall.as_ms());
        Duration::from_millis(u64::try_from(wait_ms).unwrap_or(0))
    };
    Some(wait.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date_and_at_most_a_day() {
        let now = Timestamp(784_111_777_000); // Sun, 06 Nov 1994 08:49:37 GMT

        let rows = [
            ("0", Some(0)),
            ("1", Some(1)),
            (" 120 ", Some(120)),
            ("86401", Some(86_400)),
            ("1000000000000000000", Some(86_400)),
            ("99999999999999999999999", Some(86_400)),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(60)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("Sun, 06 Nov 2994 08:49:37 GMT", Some(86_400)),
            ("-5", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
        ];
        for (text, seconds) in rows {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, text.parse().unwrap());
            assert_eq!(retry_after(&headers, now), seconds.map(Duration::from_secs), "{text}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }
}
