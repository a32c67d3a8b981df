//! The time of a provider, from the `Date` of its last response (RFC 9110 section 6.6.1). Providers refuse tokens
//! of a server whose clock is wrong, and do not always say so.

use std::sync::{Arc, Mutex};

use http::HeaderMap;
use http::header::DATE;
use jiff::fmt::rfc2822::DateTimeParser;
use notify_core::Timestamp;
use tokio::time::Instant;

/// A `Date` of HTTP has the form of RFC 2822 with the zone `GMT`.
static PARSER: DateTimeParser = DateTimeParser::new();

/// The last `Date` of a provider. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct RemoteTime {
    last: SharedDate,
    /// The last one of several providers.
    of_all: Option<SharedDate>,
}

/// A `Date`, and when it arrived.
type SharedDate = Arc<Mutex<Option<(Timestamp, Instant)>>>;

impl RemoteTime {
    /// The time of one of several providers, which is recorded as the time of all too.
    pub(super) fn within(all: &Self) -> Self {
        Self { last: SharedDate::default(), of_all: Some(Arc::clone(&all.last)) }
    }

    /// Records the `Date` of a response.
    pub(super) fn record(&self, headers: &HeaderMap) {
        let text = headers.get(DATE).and_then(|date| date.to_str().ok());
        if let Some(date) = text.and_then(|text| PARSER.parse_timestamp(text).ok()) {
            let dated = (Timestamp(date.as_millisecond()), Instant::now());
            for last in std::iter::once(&self.last).chain(&self.of_all) {
                *last.lock().expect("nothing panics under this lock") = Some(dated);
            }
        }
    }

    /// How far a clock that shows `wall` is ahead of the provider's, in milliseconds; negative if it is behind.
    /// `None` before the first response. A `Date` has whole seconds, so a difference of some seconds says nothing.
    pub(crate) fn ms_behind(&self, wall: Timestamp) -> Option<i64> {
        let (date, at) = (*self.last.lock().expect("nothing panics under this lock"))?;
        let elapsed = i64::try_from(at.elapsed().as_millis()).unwrap_or(i64::MAX);
        Some(wall.ms_since(date).saturating_sub(elapsed))
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_clock_is_compared_with_the_date_of_the_last_response() {
        let of_all = RemoteTime::default();
        let (time, other) = (RemoteTime::within(&of_all), RemoteTime::within(&of_all));
        let date = Timestamp(784_111_777_000);
        let record = |text: &'static str| {
            time.record(&HeaderMap::from_iter([(DATE, HeaderValue::from_static(text))]));
        };
        assert_eq!(time.ms_behind(date), None);
        record("nonsense");
        assert_eq!(time.ms_behind(date), None);
        record("Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(time.ms_behind(date), Some(0));
        assert_eq!(time.ms_behind(date.plus_ms(7_200_000)), Some(7_200_000));
        assert_eq!((of_all.ms_behind(date), other.ms_behind(date)), (Some(0), None));
        tokio::time::advance(std::time::Duration::from_secs(60)).await;
        assert_eq!(time.ms_behind(date.plus_ms(60_000)), Some(0));
        assert_eq!(time.ms_behind(date), Some(-60_000));
    }
}
