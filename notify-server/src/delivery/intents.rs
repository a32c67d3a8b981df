//! The intents of a page: records that a message is about to be sent. With `on_crash: skip`, the server
//! records each message without an identity before it sends it. After a crash, a recorded message without a
//! result ends as failed, and is not sent again.
//!
//! ```text
//! permits, admission ──▶ waiting ──checkpoint──▶ stored ──▶ in flight ──checkpoint with the result──▶ removed
//! ```
//!
//! A waiting intent holds the permits of its attempt. The attempt starts after the commit that stores the intent.
//! The permits are released after the commit that removes it, so a crash leaves at most
//! `max_unacked_without_dedup` messages in doubt.

use std::collections::{BTreeMap, BTreeSet};

use crate::delivery::sender::AttemptPermits;
use crate::store::DeviceKey;

/// Most intents of a page that wait for a commit.
pub(crate) const INTENTS_WAITING_MAX: usize = 16;

/// The intents of a page.
#[derive(Default)]
pub(crate) struct Intents {
    /// The devices whose attempt has not started, with the permits of the attempts.
    waiting: BTreeMap<DeviceKey, AttemptPermits>,
    /// The devices whose attempt has started and has no result.
    in_flight: BTreeSet<DeviceKey>,
    /// The devices that the row of the page certainly has.
    stored: BTreeSet<DeviceKey>,
}

impl Intents {
    /// Adds an attempt, which may start once the intent is stored.
    pub(crate) fn add(&mut self, key: DeviceKey, permits: AttemptPermits) {
        self.waiting.insert(key, permits);
    }

    /// Whether a device has an intent that waits.
    pub(crate) fn is_waiting(&self, key: DeviceKey) -> bool {
        self.waiting.contains_key(&key)
    }

    /// Whether the attempt of a device may start, because its intent is stored.
    pub(crate) fn may_start(&self, key: DeviceKey) -> bool {
        self.is_waiting(key) && self.stored.contains(&key)
    }

    /// Starts the attempt of a device, and returns its permits; `None` if the device has no intent.
    pub(crate) fn start(&mut self, key: DeviceKey) -> Option<AttemptPermits> {
        let permits = self.waiting.remove(&key)?;
        self.in_flight.insert(key);
        Some(permits)
    }

    /// Records that an attempt has ended.
    pub(crate) fn end(&mut self, key: DeviceKey) {
        self.in_flight.remove(&key);
    }

    /// Removes the waiting intents for which `is_kept` is false. Returns their permits.
    pub(crate) fn retain(
        &mut self,
        is_kept: impl Fn(DeviceKey) -> bool,
    ) -> impl Iterator<Item = AttemptPermits> {
        self.waiting.extract_if(.., move |key, _| !is_kept(*key)).map(|(_, permits)| permits)
    }

    /// The devices to store with the checkpoint that begins now. Until it is committed, the row has either the
    /// devices of this checkpoint or those of the one before.
    pub(crate) fn begin_store(&mut self) -> Vec<DeviceKey> {
        let keys: BTreeSet<DeviceKey> =
            self.waiting.keys().chain(&self.in_flight).copied().collect();
        self.stored.retain(|key| keys.contains(key));
        keys.into_iter().collect()
    }

    /// Records that a checkpoint was committed with these devices.
    pub(crate) fn set_stored(&mut self, keys: Vec<DeviceKey>) {
        self.stored = keys.into_iter().collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: DeviceKey = DeviceKey(7);

    fn waiting() -> Intents {
        let mut intents = Intents::default();
        intents.add(KEY, AttemptPermits::for_test());
        intents
    }

    #[test]
    fn an_attempt_starts_after_the_commit_of_its_intent() {
        let mut intents = waiting();
        assert!(intents.is_waiting(KEY) && !intents.may_start(KEY));
        let keys = intents.begin_store();
        assert_eq!(keys, [KEY]);
        assert!(!intents.may_start(KEY), "the commit has not ended");
        intents.set_stored(keys);
        assert!(intents.may_start(KEY));
        assert!(intents.start(KEY).is_some() && intents.start(KEY).is_none());
        assert_eq!(intents.begin_store(), [KEY], "in flight");
        intents.end(KEY);
        assert_eq!(intents.begin_store(), []);
    }

    #[test]
    fn an_intent_that_a_commit_removes_must_be_stored_again() {
        let mut intents = waiting();
        let keys = intents.begin_store();
        intents.set_stored(keys);
        assert_eq!(intents.retain(|_| false).count(), 1);
        let removing = intents.begin_store();
        intents.add(KEY, AttemptPermits::for_test());
        assert!(!intents.may_start(KEY), "the commit in flight removes the intent");
        intents.set_stored(removing);
        assert!(!intents.may_start(KEY));
        let keys = intents.begin_store();
        intents.set_stored(keys);
        assert!(intents.may_start(KEY));
    }

    #[test]
    fn only_the_kept_intents_stay() {
        let mut intents = waiting();
        intents.add(DeviceKey(8), AttemptPermits::for_test());
        assert_eq!(intents.retain(|key| key == KEY).count(), 1);
        assert_eq!(intents.begin_store(), [KEY]);
    }
}
