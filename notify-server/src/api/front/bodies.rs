//! The bodies of all requests under way, bounded together: those of callers with a key apart from
//! those of strangers, and one caller cannot take the whole of either bound.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use notify_core::KeyId;

use crate::api::error::ApiError;

/// Most bytes of bodies that strangers have under way, and one client address of them.
const STRANGERS_BYTES_MAX: usize = 16 * 1_048_576;
const STRANGER_BYTES_MAX: usize = 4 * 1_048_576;
/// Most bytes of bodies that callers with a key have under way, and one key of them. One body of
/// `--max-body-bytes` has room in any case.
const KEYS_BYTES_MAX: usize = 128 * 1_048_576;
const KEY_BYTES_MAX: usize = 32 * 1_048_576;

/// Whose body it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Owner {
    /// An application's, by its key.
    Key(KeyId),
    /// An administrator's.
    Admin,
    /// A stranger's, by the address.
    Client(IpAddr),
}

/// The bodies under way.
pub(super) struct Bodies {
    strangers: Arc<Pool>,
    keys: Arc<Pool>,
}

struct Pool {
    bytes_max: usize,
    owner_bytes_max: usize,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    all: usize,
    by_owner: HashMap<Owner, usize>,
}

/// What one body takes of its bound; given back when it is dropped.
pub(crate) struct BodyRoom {
    pool: Arc<Pool>,
    owner: Owner,
    bytes: usize,
}

impl Bodies {
    /// Bounds that have room for one body of that many bytes.
    pub(super) fn new(body_bytes_max: usize) -> Self {
        let pool = |all: usize, of_owner: usize| {
            let bytes_max = all.max(body_bytes_max);
            let owner_bytes_max = of_owner.max(body_bytes_max);
            Arc::new(Pool { bytes_max, owner_bytes_max, held: Mutex::default() })
        };
        Self {
            strangers: pool(STRANGERS_BYTES_MAX, STRANGER_BYTES_MAX),
            keys: pool(KEYS_BYTES_MAX, KEY_BYTES_MAX),
        }
    }

    /// Room for a body of that declared length. It takes what is read of it, so that a length alone
    /// takes nothing from others.
    pub(super) fn enter(&self, owner: Owner, declared_bytes: u64) -> Result<BodyRoom, ApiError> {
        let pool = match owner {
            Owner::Client(_) => &self.strangers,
            Owner::Key(_) | Owner::Admin => &self.keys,
        };
        let declared = usize::try_from(declared_bytes).unwrap_or(usize::MAX);
        if !pool.held().has_room(pool, owner, declared) {
            return Err(ApiError::Busy);
        }
        Ok(BodyRoom { pool: pool.clone(), owner, bytes: 0 })
    }
}

impl Pool {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn has_room(&self, pool: &Pool, owner: Owner, bytes: usize) -> bool {
        let its = self.by_owner.get(&owner).copied().unwrap_or_default();
        self.all.saturating_add(bytes) <= pool.bytes_max
            && its.saturating_add(bytes) <= pool.owner_bytes_max
    }
}

impl BodyRoom {
    /// Takes room for bytes that were read.
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), ApiError> {
        let mut held = self.pool.held();
        if !held.has_room(&self.pool, self.owner, bytes) {
            return Err(ApiError::Busy);
        }
        held.all += bytes;
        *held.by_owner.entry(self.owner).or_default() += bytes;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for BodyRoom {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut held = self.pool.held();
        held.all -= self.bytes;
        if let Some(its) = held.by_owner.get_mut(&self.owner) {
            *its -= self.bytes;
            if *its == 0 {
                held.by_owner.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY_BYTES_MAX: usize = 1_048_576;

    fn client(last: u8) -> Owner {
        Owner::Client(IpAddr::from([1, 1, 1, last]))
    }

    /// Bodies of that size that an owner gets in, at most so many.
    fn filled(bodies: &Bodies, owner: Owner, bytes: usize) -> Vec<BodyRoom> {
        let mut rooms = Vec::new();
        while let Ok(mut room) = bodies.enter(owner, bytes as u64) {
            room.take(bytes).unwrap();
            rooms.push(room);
        }
        rooms
    }

    #[test]
    fn one_client_leaves_room_for_others_and_strangers_for_those_with_a_key() {
        let bodies = Bodies::new(BODY_BYTES_MAX);
        let first = filled(&bodies, client(1), 65_536);
        assert_eq!(first.len() * 65_536, STRANGER_BYTES_MAX);
        let others: Vec<_> = (2..=9).map(|last| filled(&bodies, client(last), 65_536)).collect();
        let all: usize = first.len() + others.iter().map(Vec::len).sum::<usize>();
        assert_eq!(all * 65_536, STRANGERS_BYTES_MAX);
        assert_eq!(filled(&bodies, Owner::Admin, 65_536).len() * 65_536, KEY_BYTES_MAX);
        drop(first);
        assert!(bodies.enter(client(9), 65_536).is_ok(), "room is given back");
    }

    #[test]
    fn a_declared_length_is_refused_before_it_is_read_and_takes_nothing() {
        let bodies = Bodies::new(BODY_BYTES_MAX);
        let declared: Vec<_> =
            (0..1_000).map(|_| bodies.enter(client(1), BODY_BYTES_MAX as u64)).collect();
        assert!(declared.iter().all(Result::is_ok), "nothing is read yet");
        let _full = filled(&bodies, client(1), BODY_BYTES_MAX);
        assert!(matches!(bodies.enter(client(1), 1), Err(ApiError::Busy)));
    }

    #[test]
    fn a_body_without_a_length_is_refused_where_the_room_ends() {
        let bodies = Bodies::new(BODY_BYTES_MAX);
        let mut room = bodies.enter(client(1), 0).unwrap();
        room.take(STRANGER_BYTES_MAX).unwrap();
        assert!(matches!(room.take(1), Err(ApiError::Busy)));
    }

    #[test]
    fn one_body_of_the_largest_size_has_room_in_any_case() {
        let bodies = Bodies::new(1 << 30);
        let mut room = bodies.enter(Owner::Admin, 1 << 30).unwrap();
        room.take(1 << 30).unwrap();
    }
}
