//! The result of a run.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};

use super::EndedProcess;

/// Most findings of a kind that are shown.
const SHOWN_MAX: usize = 8;

/// The result of a run. Everything except the repeats of killed processes must be empty.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Pairs of a notification and a device that the server reported.
    pub pairs: usize,
    /// The repeats of each process, by its position in the order.
    pub repeats: BTreeMap<usize, Vec<String>>,
    /// Accepted, and not delivered.
    pub lost: Vec<String>,
    /// Repeated beyond what the end of a process excuses.
    pub duplicated: Vec<String>,
    /// Arrived or reported without a request.
    pub unexpected: Vec<String>,
    /// Reported in another state than its own.
    pub wrong_state: Vec<String>,
    /// Counts that do not add up.
    pub unbalanced: Vec<String>,
    /// Without the identity by which a repeat is recognised.
    pub unrecognisable: Vec<String>,
    /// Topics of Web Push by notification, and the other way round.
    topics: BTreeMap<String, String>,
    owners: BTreeMap<String, String>,
}

impl Verdict {
    /// Fails with the findings, if there are any.
    ///
    /// # Errors
    /// When something is lost, duplicated, unexpected, wrong or unrecognisable.
    pub fn ensure_sound(&self) -> Result<()> {
        let kinds = [
            ("lost", &self.lost),
            ("duplicated", &self.duplicated),
            ("unexpected", &self.unexpected),
            ("wrong state", &self.wrong_state),
            ("unbalanced", &self.unbalanced),
            ("unrecognisable", &self.unrecognisable),
        ];
        let mut found = String::new();
        for (kind, findings) in kinds.iter().filter(|(_, findings)| !findings.is_empty()) {
            let shown = findings.iter().take(SHOWN_MAX).map(|one| format!("\n  {one}"));
            found += &format!("\n{kind} {}:{}", findings.len(), shown.collect::<String>());
        }
        ensure!(found.is_empty(), "of {} pairs{found}", self.pairs);
        Ok(())
    }

    /// How many messages were repeated, over all processes.
    #[must_use]
    pub fn repeated(&self) -> usize {
        self.repeats.values().map(Vec::len).sum()
    }

    /// The most that one process repeated.
    #[must_use]
    pub fn largest_repeat(&self) -> usize {
        self.repeats.values().map(Vec::len).max().unwrap_or(0)
    }

    pub(super) fn repeat(&mut self, process: usize, what: String) {
        self.repeats.entry(process).or_default().push(what);
    }

    /// Notes the topic of a message: each notification has one of its own.
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
