//! Checks a run. The checker joins the requests (the test's log), the arrivals (the sandbox's log) and the
//! server's reports. It reads only these values, so its own tests can plant a defect of every kind.
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

/// The expected result for a member of an audience.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// The member receives the message once.
    Delivered,
    /// The provider no longer knows the member's address. The member receives nothing, and later notifications
    /// do not target it.
    Unregistered,
    /// The provider rejects the message, but the address stays valid.
    Rejected,
    /// The member changed during the send. It may receive the message or not, and its outcome must match.
    Any,
    /// The member left the audience during the send. It may receive the message or not. It has no outcome if
    /// a crash lost it, because the page that is read again no longer has the member.
    Removed,
}

/// A member of an audience.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// The device id.
    pub device: String,
    /// All addresses that the device had during the run.
    pub addresses: Vec<String>,
    /// The expected result.
    pub expected: Expected,
}

/// The server's report of a notification.
#[derive(Debug, Clone)]
pub struct NotificationReport {
    /// The id of the notification.
    pub id: String,
    /// The text of the notification, which is the key of its request.
    pub key: String,
    /// The status of the notification.
    pub status: NotificationStatus,
    /// The counts over all platforms.
    pub counts: Counts,
    /// The outcome of each device.
    pub deliveries: Vec<(String, DeliveryOutcome)>,
}

/// A process that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedProcess {
    /// The number of the process's last connection to the sandbox.
    pub last_connection: u64,
    /// The number of messages that the end of the process may have repeated. It is 0 for a process that
    /// stopped cleanly.
    pub repeats_max: usize,
}

/// The complete record of a run.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// The requests.
    pub requests: Vec<LogEntry>,
    /// The audiences by name.
    pub audiences: BTreeMap<String, Vec<Member>>,
    /// The messages that arrived at the sandbox, in order.
    pub arrivals: Vec<Arrival>,
    /// The server's reports when all work is done.
    pub reports: Vec<NotificationReport>,
    /// The processes that ended, in order. One more process, started after them, still runs.
    pub ended: Vec<EndedProcess>,
}

impl History {
    /// Checks the run and returns the findings.
    #[must_use]
    pub fn check(&self) -> Verdict {
        let mut verdict = Verdict::default();
        let mut arrived: BTreeMap<&str, Vec<&Arrival>> = BTreeMap::new();
        for arrival in &self.arrivals {
            arrived.entry(&arrival.text).or_default().push(arrival);
        }
        let mut reports: BTreeMap<&str, Vec<&NotificationReport>> = BTreeMap::new();
        for report in &self.reports {
            reports.entry(&report.key).or_default().push(report);
        }
        for entry in &self.requests {
            let key = entry.request.key.as_str();
            let (arrived, reports) = (arrived.remove(key), reports.remove(key));
            self.check_notification(
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

    /// Checks the notification of one request.
    fn check_notification(
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
                    verdict.unexpected.push(format!("{key}: arrived, but is not reported"));
                }
                return;
            }
            [] => {
                verdict.lost.push(format!("{key}: accepted as {accepted:?}, but is not reported"));
                return;
            }
            [report] => report,
            [_, _, ..] => {
                verdict.wrong_state.push(format!("{key}: one key created several notifications"));
                return;
            }
        };
        if is_refused {
            verdict.unexpected.push(format!("{key}: refused, but reported as {}", report.id));
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
