//! API keys: at any time, a key works exactly if it was created, and neither revoked nor expired. The server
//! keeps keys in a cache, which must not outlive them.

use notify_core::{AppId, KeyId, KeyTerms, Timestamp};
use uuid::Uuid;

use super::requests::Process;
use super::world::{World, lock};
use crate::clock::Clock;
use crate::store::NewKey;

/// Most keys of a seed.
pub(super) const KEYS_MAX: usize = 24;

/// A key as its owner knows it.
#[derive(Debug, Clone)]
pub(super) struct ExpectedKey {
    app: AppId,
    id: KeyId,
    hash: [u8; 32],
    /// How long a successor lives; `None` if it does not expire.
    lifetime_ms: Option<i64>,
    now: KeyState,
    /// The state after the request in flight.
    next: Option<KeyState>,
    /// The number of requests that changed it.
    changes: u32,
}

/// Until when a key works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyState {
    /// It does not exist.
    Absent,
    /// It works before that time; always if it is `None`.
    Until(Option<Timestamp>),
}

impl KeyState {
    fn works(self, at: Timestamp) -> bool {
        match self {
            Self::Absent => false,
            Self::Until(end) => end.is_none_or(|end| at < end),
        }
    }
}

impl ExpectedKey {
    fn states(&self) -> impl Iterator<Item = KeyState> {
        std::iter::once(self.now).chain(self.next)
    }
}

/// A change of keys.
#[derive(Debug, Clone, Copy)]
pub(super) enum KeyChange {
    /// A new key, which lives that long.
    Add { app: AppId, lifetime_ms: Option<i64> },
    /// A successor of the key at this index; the key itself works that long from now on.
    Rotate { index: usize, overlap_ms: i64 },
    /// The key at this index is revoked.
    Revoke { index: usize },
}

/// Uses all keys, makes a change, and uses all keys again.
pub(super) async fn change_and_use_keys(process: Process, change: Option<KeyChange>) {
    use_keys(&process).await;
    if let Some(change) = change {
        change_keys(process.clone(), change).await;
        use_keys(&process).await;
    }
}

async fn use_keys(process: &Process) {
    let keys = lock(&process.world).keys.len();
    for index in 0..keys {
        use_key(process, index).await;
    }
}

/// Changes keys.
pub(super) async fn change_keys(process: Process, change: KeyChange) {
    let _asking = process.begin_request();
    let at = process.clock.now();
    let changed = begin(&mut lock(&process.world), change, at);
    let Some((app, indexes)) = changed else { return };
    let [old, new] = [indexes.first(), indexes.last()].map(|index| {
        let index = *index.expect("a change concerns a key");
        lock(&process.world).keys[index].clone()
    });
    let key =
        NewKey {
            id: new.id, hash: new.hash, hint: "nk_…".to_owned(), name: None, created_at: at
        };
    let done = match change {
        KeyChange::Add { lifetime_ms, .. } => {
            let expires_at = lifetime_ms.map(|lifetime_ms| at.plus_ms(lifetime_ms));
            let terms = KeyTerms { expires_at, ..KeyTerms::default() };
            process.store.add_key(app, key, terms).await
        }
        KeyChange::Rotate { overlap_ms, .. } => {
            process.store.rotate_key(app, old.id, key, overlap_ms).await
        }
        KeyChange::Revoke { .. } => process.store.revoke_key(app, old.id).await,
    };
    let done = process.record_response(&format!("{change:?}"), done);
    let mut world = lock(&process.world);
    for index in indexes {
        let key = &mut world.keys[index];
        let next = key.next.take();
        if let Some(next) = next.filter(|_| done) {
            key.now = next;
        }
        key.changes += 1;
    }
}

/// Records what a change does to its keys. Returns the application and the indexes of the keys; `None` if the
/// change is not possible now.
fn begin(world: &mut World, change: KeyChange, at: Timestamp) -> Option<(AppId, Vec<usize>)> {
    let new = world.keys.len();
    let (app, indexes) = match change {
        KeyChange::Add { app, lifetime_ms } => {
            let end = lifetime_ms.map(|lifetime_ms| at.plus_ms(lifetime_ms));
            push(world, app, lifetime_ms, KeyState::Until(end));
            (app, vec![new])
        }
        KeyChange::Rotate { index, overlap_ms } => {
            let key = world.keys.get_mut(index)?;
            let KeyState::Until(end) = key.now else { return None };
            if key.next.is_some() || !key.now.works(at) {
                return None;
            }
            let overlap_ends = at.plus_ms(overlap_ms);
            let end = end.map_or(overlap_ends, |end| end.min(overlap_ends));
            key.next = Some(KeyState::Until(Some(end)));
            let (app, lifetime_ms) = (key.app, key.lifetime_ms);
            let end = lifetime_ms.map(|lifetime_ms| at.plus_ms(lifetime_ms));
            push(world, app, lifetime_ms, KeyState::Until(end));
            (app, vec![index, new])
        }
        KeyChange::Revoke { index } => {
            let key = world.keys.get_mut(index)?;
            if key.next.is_some() || key.now == KeyState::Absent {
                return None;
            }
            key.next = Some(KeyState::Absent);
            (key.app, vec![index])
        }
    };
    world.record_event(&format!("{change:?}"));
    Some((app, indexes))
}

fn push(world: &mut World, app: AppId, lifetime_ms: Option<i64>, next: KeyState) {
    let mut hash = [0; 32];
    world.rng.fill(&mut hash);
    world.keys.push(ExpectedKey {
        app,
        id: KeyId(Uuid::from_u128(world.rng.u128(..))),
        hash,
        lifetime_ms,
        now: KeyState::Absent,
        next: Some(next),
        changes: 0,
    });
}

/// Uses the key at this index, and checks whether it works.
async fn use_key(process: &Process, index: usize) {
    let at = process.clock.now();
    let Some(before) = lock(&process.world).keys.get(index).cloned() else { return };
    let access = process.keys.app(before.hash, at).await;
    let mut world = lock(&process.world);
    let after = world.keys[index].clone();
    let Ok(is_valid) = access.map(|access| access.is_valid()) else { return };
    // While a request changes the key, either state is possible.
    let is_possible = before.changes != after.changes
        || before.states().chain(after.states()).any(|state| state.works(at) == is_valid);
    if !is_possible {
        let does = if is_valid { "works" } else { "does not work" };
        world.record_violation(&format!("key {index} {does} at {at:?}: {after:?}"));
    }
}

/// Compares the stored keys with the acknowledged changes. After a crash, the store decides about changes that
/// were in flight.
pub(super) fn check_keys(process: &Process, world: &mut World) {
    for (_, app) in world.apps.clone() {
        let Ok(stored) = process.store.peek(process.store.list_keys(app)) else {
            world.record_violation("the keys of an application cannot be read");
            continue;
        };
        for index in 0..world.keys.len() {
            let key = world.keys[index].clone();
            if key.app != app {
                continue;
            }
            let stored = stored.iter().find(|stored| stored.id == key.id);
            let stored =
                stored.map_or(KeyState::Absent, |stored| KeyState::Until(stored.expires_at));
            if !key.states().any(|state| state == stored) {
                world.record_violation(&format!("key {index} is {stored:?}: {key:?}"));
            }
            if world.is_dead {
                let known = &mut world.keys[index];
                (known.now, known.next) = (stored, None);
            }
        }
    }
}
