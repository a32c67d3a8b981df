//! The result of a run.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};

use super::EndedProcess;

/// The most findings of each kind that the error shows.
const SHOWN_MAX: usize = 8;

/// The result of a run. Everything except the repeats of killed processes must be empty.
#[derive(Debug, Default)]
pub struct Verdict {
    /// The number of pairs of a notification and a device that the server reported.
    pub pairs: usize,
    /// The repeats of each process, by its position in the order.
    pub repeats: BTreeMap<usize, Vec<String>>,
    /// Messages that were accepted, but not delivered.
    pub lost: Vec<String>,
    /// Messages that were repeated more often than the end of a process excuses.
    pub duplicated: Vec<String>,
    /// Messages that arrived or were reported without a request.
    pub unexpected: Vec<String>,
    /// Deliveries that were reported in a wrong state.
    pub wrong_state: Vec<String>,
    /// Counts that do not add up.
    pub unbalanced: Vec<String>,
    /// Messages without the identity by which a device recognises a repeat.
    pub unrecognisable: Vec<String>,
    /// The topic of Web Push of each notification.
    topics: BTreeMap<String, String>,
    /// The notification of each topic.
    owners: BTreeMap<String, String>,
}

impl Verdict {
    /// Checks that there are no findings.
    ///
    /// # Errors
    /// When there are findings. The error lists them.
    pub fn ensure_sound(&self) -> Result<()> {
        let kinds = [
            ("lost", &self.lost),
            ("duplicated", &self.duplicated),
            ("unexpected", &self.unexpected),
            ("wrong state", &self.wrong_state),
            ("unbalanced", &self.unbalanced),
            ("unrecognisable", &self.unrecognisable),
        ];
        let mut list = String::new();
        for (kind, findings) in kinds.iter().filter(|(_, findings)| !findings.is_empty()) {
            let shown = findings.iter().take(SHOWN_MAX).map(|finding| format!("\n  {finding}"));
            list += &format!("\n{kind} {}:{}", findings.len(), shown.collect::<String>());
        }
        ensure!(list.is_empty(), "of {} pairs{list}", self.pairs);
        Ok(())
    }

    /// The number of repeated messages, over all processes.
    #[must_use]
    pub fn repeated(&self) -> usize {
        self.repeats.values().map(Vec::len).sum()
    }

    /// The largest number of messages that one process repeated.
    #[must_use]
    pub fn largest_repeat(&self) -> usize {
        self.repeats.values().map(Vec::len).max().unwrap_or(0)
    }

    pub(super) fn repeat(&mut self, process: usize, what: String) {
        self.repeats.entry(process).or_default().push(what);
    }

    /// Records the topic of a message. Each notification must have exactly one topic, and no other
    /// notification may have the same topic.
    pub(super) fn note_topic(&mut self, topic: &str, id: &str) {
        let own = self.topics.entry(id.to_owned()).or_insert_with(|| topic.to_owned());
        if own != topic {
            self.unrecognisable.push(format!("{id} has the topics {own} and {topic}"));
        }
        let owner = self.owners.entry(topic.to_owned()).or_insert_with(|| id.to_owned());
        if owner != id {
            self.unrecognisable.push(format!("the topic {topic} is {owner}'s and {id}'s"));
        }
    }

    pub(super) fn judge_repeats(&mut self, ended: &[EndedProcess]) {
        for (process, repeats) in &self.repeats {
            let allowed = ended.get(*process).map_or(0, |ended| ended.repeats_max);
            if repeats.len() > allowed {
                let shown: Vec<_> = repeats.iter().take(SHOWN_MAX).collect();
                self.duplicated.push(format!(
                    "process {process} repeated {} of {allowed} allowed: {shown:?}",
                    repeats.len()
                ));
            }
        }
    }
}
