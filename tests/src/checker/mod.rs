//! Judges a run: joins what was asked (the ledger), what arrived (the sandbox's journal) and what
//! the server says of it. Pure, so that planted histories of every kind can show that it sees them.
//!
//! ```text
//! asked ──┐
//! arrived ┼──▶ lost · repeated · unexpected · wrong state · unbalanced · unrecognisable
//! told ───┘
//! ```

mod deliveries;
#[cfg(test)]
mod tests;
mod verdict;

use std::collections::BTreeMap;

use notify_core::{Counts, DeliveryOutcome, NotificationStatus};

use self::deliveries::Deliveries;
pub use self::verdict::Verdict;
use crate::journal::Arrival;
use crate::ledger::{Entry, Said};

/// What is to become of a member of an audience.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Gets it, once.
    Reached,
    /// Its address is dead: it gets nothing, and once that is known it is not targeted any more.
    Dead,
    /// The provider refuses the message for it, and keeps the address.
    Refused,
    /// Changed while it was sent: it gets it or not, but what is told of it is true.
    Maybe,
}

/// A member of an audience.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its device id.
    pub device: String,
    /// Every address that it had.
    pub addresses: Vec<String>,
    /// What is to become of it.
    pub fate: Fate,
}

/// What the server says of a notification.
#[derive(Debug, Clone)]
pub struct Told {
    /// Its id.
    pub id: String,
    /// Its text: what it was asked by.
    pub key: String,
    /// Where it stands.
    pub status: NotificationStatus,
    /// Over all platforms.
    pub counts: Counts,
    /// Device by device.
    pub deliveries: Vec<(String, DeliveryOutcome)>,
}

/// A process that ended, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// The number of the last connection that it opened.
    pub last_connection: u64,
    /// How many messages its end may have repeated: the credit of one that was killed, none of one
    /// that stopped in order.
    pub repeats_max: usize,
}

/// Everything that is known of a run.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// What was asked.
    pub asked: Vec<Entry>,
    /// The audiences by name.
    pub audiences: BTreeMap<String, Vec<Member>>,
    /// What arrived, in order.
    pub arrivals: Vec<Arrival>,
    /// What the server says at the end, when everything is over.
    pub told: Vec<Told>,
    /// The processes that ended, in order. The one after the last of them still runs.
    pub ended: Vec<Ended>,
}

impl History {
    /// Judges it.
    #[must_use]
    pub fn check(&self) -> Verdict {
        let mut verdict = Verdict::default();
        let mut arrived: BTreeMap<&str, Vec<&Arrival>> = BTreeMap::new();
        for arrival in &self.arrivals {
            arrived.entry(&arrival.text).or_default().push(arrival);
        }
        let mut told: BTreeMap<&str, Vec<&Told>> = BTreeMap::new();
        for one in &self.told {
            told.entry(&one.key).or_default().push(one);
        }
        for entry in &self.asked {
            let key = entry.asked.key.as_str();
            let (arrived, told) = (arrived.remove(key), told.remove(key));
            self.notification(&mut verdict, entry, &arrived.unwrap_or_default(), told.as_deref());
        }
        for (key, told) in told {
            verdict.unexpected.push(format!("{key}: {} told, nobody asked", told.len()));
        }
        for (text, arrived) in arrived {
            verdict.unexpected.push(format!("{text:?}: {} arrived, nobody asked", arrived.len()));
        }
        verdict.judge_repeats(&self.ended);
        verdict
    }

    fn notification(
        &self,
        verdict: &mut Verdict,
        entry: &Entry,
        arrived: &[&Arrival],
        told: Option<&[&Told]>,
    ) {
        let key = entry.asked.key.as_str();
        let mut accepted: Vec<&str> = entry.said.iter().filter_map(id).collect();
        accepted.dedup();
        let is_refused = accepted.is_empty()
            && entry.said.iter().any(|said| matches!(said, Said::Refused(_)))
            && !entry.said.iter().any(|said| matches!(said, Said::Unknown(_)));
        let told = match told.unwrap_or_default() {
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
            [told] => told,
            [_, _, ..] => {
                verdict.wrong_state.push(format!("{key}: one key made several"));
                return;
            }
        };
        if is_refused {
            verdict.unexpected.push(format!("{key}: refused, and yet there as {}", told.id));
        }
        if accepted.iter().any(|id| *id != told.id) {
            verdict.wrong_state.push(format!("{key}: {} was accepted as {accepted:?}", told.id));
        }
        let members = self.audiences.get(&entry.asked.audience).map_or(&[][..], Vec::as_slice);
        Deliveries { told, members, arrived, ended: &self.ended }.judge(verdict);
    }
}

fn id(said: &Said) -> Option<&str> {
    match said {
        Said::Accepted(id) => Some(id),
        Said::Refused(_) | Said::Unknown(_) => None,
    }
}
