//! What is left of a page's quota, as Meta's usage headers tell it (Meta, "Rate Limits"), and how
//! long to wait where an answer asks for it without saying how long.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use http::HeaderMap;
use notify_core::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::providers::Allowance;

/// Messages a second of a page, unless an administrator wants others: above 40 its inbox stops
/// working.
pub(super) const PER_SECOND: u32 = 30;
/// Share of the quota from which on a page slows down, in percent.
const SLOW_PERCENT: u32 = 80;
/// Share at which it stops.
const FULL_PERCENT: u32 = 100;
/// How long a share is believed: the quota's window, an hour.
const USAGE_MS: i64 = 60 * 60 * 1_000;
/// First wait where none is named; it doubles.
const WAIT_FIRST: Duration = Duration::from_secs(60);
/// Longest wait where none is named.
const WAIT_MAX: Duration = Duration::from_secs(60 * 60);
/// Longest wait that Meta is granted (B39).
const REGAIN_MINUTES_MAX: u64 = 24 * 60;

/// What the headers of one answer say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Usage {
    /// The fullest of the quotas, in percent; more than 100 is 100.
    pub(super) percent: u32,
    /// When access is regained, where Meta says so.
    pub(super) regain: Option<Duration>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Shares {
    call_count: f64,
    total_time: f64,
    total_cputime: f64,
    /// In minutes.
    estimated_time_to_regain_access: u64,
}

impl Shares {
    fn percent(&self) -> u32 {
        let fullest = self.call_count.max(self.total_time).max(self.total_cputime);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and 100"
        )]
        let percent = fullest.clamp(0.0, f64::from(FULL_PERCENT)) as u32;
        percent
    }
}

/// Reads `X-App-Usage` and `X-Business-Use-Case-Usage`; `None` where neither says anything.
pub(super) fn usage(headers: &HeaderMap) -> Option<Usage> {
    let app: Option<Shares> = read(headers, "x-app-usage");
    let cases: Option<HashMap<String, Vec<Shares>>> = read(headers, "x-business-use-case-usage");
    let all = || app.iter().chain(cases.iter().flat_map(HashMap::values).flatten());
    let percent = all().map(Shares::percent).max()?;
    let regain = all().map(|shares| shares.estimated_time_to_regain_access).max();
    let regain = regain.filter(|minutes| *minutes > 0);
    let regain = regain.map(|minutes| Duration::from_secs(60 * minutes.min(REGAIN_MINUTES_MAX)));
    Some(Usage { percent, regain })
}

fn read<T: DeserializeOwned>(headers: &HeaderMap, name: &str) -> Option<T> {
    serde_json::from_slice(headers.get(name)?.as_bytes()).ok()
}

/// The quota of one page.
#[derive(Debug, Default)]
pub(in crate::providers) struct Quota(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The last share that was told, and when.
    share: Option<(u32, Timestamp)>,
    closed_until: Option<Timestamp>,
    /// Waits in a row for which Meta named no time.
    waits: u32,
}

impl Quota {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nothing panics under this lock")
    }

    /// Takes note of an answer's headers.
    pub(super) fn seen(&self, usage: Option<Usage>, now: Timestamp) {
        let Some(usage) = usage else { return };
        let mut state = self.state();
        state.share = Some((usage.percent, now));
        if usage.percent >= FULL_PERCENT {
            let until = now.plus_ms(ms(usage.regain.unwrap_or(WAIT_FIRST)));
            state.closed_until = state.closed_until.max(Some(until));
        }
    }

    /// Meta took a message: the waits begin anew.
    pub(super) fn delivered(&self) {
        self.state().waits = 0;
    }

    /// Meta asks to slow down, for that long if it says so: how long to wait. Answers to what was
    /// under way when the first one came do not lengthen the wait.
    pub(super) fn throttled(&self, named: Option<Duration>, now: Timestamp) -> Duration {
        let mut state = self.state();
        if named.is_none()
            && let Some(until) = state.closed_until.filter(|until| *until > now)
        {
            return Duration::from_millis(until.ms_since(now).unsigned_abs());
        }
        let wait = named.unwrap_or_else(|| {
            let doubled = WAIT_FIRST.saturating_mul(1 << state.waits.min(16));
            state.waits = state.waits.saturating_add(1);
            doubled.min(WAIT_MAX)
        });
        state.closed_until = state.closed_until.max(Some(now.plus_ms(ms(wait))));
        wait
    }

    /// What may be sent now: less than `per_second` from four fifths of the quota on, a message a
    /// second at its end.
    pub(super) fn allowance(&self, per_second: u32, now: Timestamp) -> Allowance {
        let mut state = self.state();
        if let Some(until) = state.closed_until.filter(|until| *until > now) {
            return Allowance::Closed { until };
        }
        state.closed_until = None;
        let share = state.share.filter(|(_, at)| now.ms_since(*at) < USAGE_MS);
        let percent = share.map_or(0, |(percent, _)| percent);
        if percent < SLOW_PERCENT {
            return Allowance::PerSecond(per_second);
        }
        let left = FULL_PERCENT.saturating_sub(percent);
        let slowed = per_second.saturating_mul(left) / (FULL_PERCENT - SLOW_PERCENT + 1);
        Allowance::PerSecond(slowed.max(1))
    }
}

fn ms(wait: Duration) -> i64 {
    i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)
}
