//! Registrations that changed nothing, held back so that they cost no commit (trap 9). Lost in a
//! crash they are at most an hour old; the newest of this and the table is the truth.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use notify_core::Timestamp;
use rusqlite::{Connection, OptionalExtension};

use crate::store::{DeviceKey, StoreError};

/// Most registrations held back; then they are written, as one write.
const HELD_MAX: usize = 4_096;

/// Registrations newer than the written ones.
#[derive(Default)]
pub(crate) struct Seen(Mutex<HashMap<DeviceKey, Timestamp>>);

impl Seen {
    fn lock(&self) -> MutexGuard<'_, HashMap<DeviceKey, Timestamp>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a registration.
    pub(super) fn note(&self, key: DeviceKey, at: Timestamp) {
        let mut held = self.lock();
        let newest = held.entry(key).or_insert(at);
        *newest = at.max(*newest);
    }

    /// The registration held back for a device.
    pub(crate) fn at(&self, key: DeviceKey) -> Option<Timestamp> {
        self.lock().get(&key).copied()
    }

    /// Whether they are to be written now.
    pub(super) fn is_many(&self) -> bool {
        self.lock().len() >= HELD_MAX
    }

    /// What is held back. It stays until it is [`Seen::written`].
    pub(super) fn held(&self) -> Vec<(DeviceKey, Timestamp)> {
        self.lock().iter().map(|(key, at)| (*key, *at)).collect()
    }

    /// Lets go of what is written, unless it became newer meanwhile.
    pub(super) fn written(&self, written: &[(DeviceKey, Timestamp)]) {
        let mut held = self.lock();
        for (key, at) in written {
            if held.get(key).is_some_and(|newest| newest <= at) {
                held.remove(key);
            }
        }
    }

    /// Lets go of an erased device.
    pub(super) fn forget(&self, key: DeviceKey) {
        self.lock().remove(&key);
    }
}

/// The written registration of a device.
pub(crate) fn last_registration(
    tx: &Connection,
    key: DeviceKey,
) -> Result<Option<Timestamp>, StoreError> {
    let at = tx
        .prepare_cached("select registered_at from device_seen where key = ?1")?
        .query_row([key.0], |row| row.get(0).map(Timestamp))
        .optional()?;
    Ok(at)
}
