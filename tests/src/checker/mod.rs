//! Checks a run: joins the requests (our log), the arrivals (the sandbox's log) and the server's reports.
//! It is pure, so its tests can plant a defect of every kind.
//!
//! ```text
//! requests ─┐
//! arrivals ─┼─▶ lost · repeated · unexpected · wrong state · unbalanced · unrecognisable
//! reports ──┘
//! ```

mod deliveries;
#[cfg(test)]
mod tests;
mod verdict;

use std::collections::BTreeMap;

use notify_core::{Counts, DeliveryOutcome, NotificationStatus};

use self::deliveries::Deliveries;
pub use self::verdict::Verdict;
use crate::received::Arrival;
use crate::request_log::{LogEntry, LoggedResponse};

/// What is expected for a member of an audience.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// It receives the message once.
    Delivered,
    /// Its address is dead: it receives nothing, and later notifications do not target it.
    Unregistered,
    /// The provider rejects the message and keeps the address.
    Rejected,
    /// It was changed during the send: it receives the message or not, and its outcome says which.
    Any,
}

/// A member of an audience.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its device id.
    pub device: String,
    /// Every address that it had.
    pub addresses: Vec<String>,
    /// What is expected for it.
    pub expected: Expected,
}

/// The server's report of a notification.
#[derive(Debug, Clone)]
pub struct NotificationReport {
    /// Its id.
    pub id: String,
    /// Its text, which is the key of its request.
    pub key: String,
    /// Its status.
    pub status: NotificationStatus,
    /// Its counts over all platforms.
    pub counts: Counts,
    /// The outcome of each device.
    pub deliveries: Vec<(String, DeliveryOutcome)>,
}

/// A process that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedProcess {
    /// The number of its last connection to the sandbox.
    pub last_connection: u64,
    /// How many messages its end may have repeated: the credit of one that was killed, none of one
    /// that stopped in order.
    pub repeats_max: usize,
}

/// Everything that is known of a run.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// The requests.
    pub requests: Vec<LogEntry>,
    /// The audiences by name.
    pub audiences: BTreeMap<String, Vec<Member>>,
    /// What arrived at the sandbox, in order.
    pub arrivals: Vec<Arrival>,
    /// What the server reports when all work is done.
    pub reports: Vec<NotificationReport>,
    /// The processes that ended, in order. The one after the last of them still runs.
    pub ended: Vec<EndedProcess>,
}

impl History {
    /// Checks it.
    #[must_use]
    pub fn check(&self) -> Verdict {
        let mut verdict = Verdict::default();
        let mut arrived: BTreeMap<&str, Vec<&Arrival>> = BTreeMap::new();
        for arrival in &self.arrivals {
            arrived.entry(&arrival.text).or_default().push(arrival);
        }
        let mut reports: BTreeMap<&str, Vec<&NotificationReport>> = BTreeMap::new();
        for one in &self.reports {
            reports.entry(&one.key).or_default().push(one);
        }
        for entry in &self.requests {
            let key = entry.request.key.as_str();
            let (arrived, reports) = (arrived.remove(key), reports.remove(key));
            self.notification(
                &mut verdict,
                entry,
                &arrived.unwrap_or_default(),
                reports.as_deref(),
            );
        }
        for (key, reports) in reports {
            verdict.unexpected.push(format!("{key}: {} reported, none requested", reports.len()));
        }
        for (text, arrived) in arrived {
            verdict.unexpected.push(format!("{text:?}: {} arrived, none requested", arrived.len()));
        }
        verdict.judge_repeats(&self.ended);
        verdict
    }

    fn notification(
        &self,
        verdict: &mut Verdict,
        entry: &LogEntry,
        arrived: &[&Arrival],
        reports: Option<&[&NotificationReport]>,
    ) {
        let key = entry.request.key.as_str();
        let mut accepted: Vec<&str> = entry.responses.iter().filter_map(id).collect();
        accepted.dedup();
        let is_refused = accepted.is_empty()
            && entry
                .responses
                .iter()
                .any(|response| matches!(response, LoggedResponse::Rejected(_)))
            && !entry
                .responses
                .iter()
                .any(|response| matches!(response, LoggedResponse::Unknown(_)));
        let report = match reports.unwrap_or_default() {
            [] if accepted.is_empty() => {
                if !arrived.is_empty() {
                    verdict.unexpected.push(format!("{key}: arrived, but is not known"));
                }
                return;
            }
            [] => {
                verdict.lost.push(format!("{key}: accepted as {accepted:?}, and not known"));
                return;
            }
            [report] => report,
            [_, _, ..] => {
                verdict.wrong_state.push(format!("{key}: one key made several"));
                return;
            }
        };
        if is_refused {
            verdict.unexpected.push(format!("{key}: refused, and yet there as {}", report.id));
        }
        if accepted.iter().any(|id| *id != report.id) {
            verdict.wrong_state.push(format!("{key}: {} was accepted as {accepted:?}", report.id));
        }
        let members = self.audiences.get(&entry.request.audience).map_or(&[][..], Vec::as_slice);
        Deliveries { report, members, arrived, ended: &self.ended }.judge(verdict);
    }
}

fn id(response: &LoggedResponse) -> Option<&str> {
    match response {
        LoggedResponse::Accepted(id) => Some(id),
        LoggedResponse::Rejected(_) | LoggedResponse::Unknown(_) => None,
    }
}
