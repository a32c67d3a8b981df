//! The memory that requests hold: their bodies, and answers that clients have not read. Each kind is
//! bounded in all and for each owner, so that one caller cannot take what others need.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use notify_core::KeyId;
use tokio::sync::Notify;

use crate::api::error::ApiError;
use crate::store::AppNo;

/// Bounds in bytes: of all owners together, and of one owner.
struct Bounds {
    all: usize,
    of_owner: usize,
}

/// Bodies of strangers: votes and pages. One body of `--max-body-bytes` has room in any case.
const STRANGERS_BODIES: Bounds = Bounds { all: 16 * MIB, of_owner: 4 * MIB };
/// Bodies of Messenger's webhooks, which prove who sent them by the whole body.
const WEBHOOK_BODIES: Bounds = Bounds { all: 16 * MIB, of_owner: 4 * MIB };
/// Bodies of callers with a key.
const KEYS_BODIES: Bounds = Bounds { all: 128 * MIB, of_owner: 32 * MIB };
/// Unread answers to strangers, without what all answers share.
const STRANGERS_ANSWERS: Bounds = Bounds { all: 32 * MIB, of_owner: 2 * MIB };
/// Unread answers to callers with a key.
const KEYS_ANSWERS: Bounds = Bounds { all: 256 * MIB, of_owner: 32 * MIB };
const MIB: usize = 1_048_576;
/// What a request reserves for its answer until the size is known, in bytes: one that reads, and one
/// that changes something.
const READ_BYTES: usize = 524_288;
const CHANGE_BYTES: usize = 16_384;
/// How long a request waits until earlier answers of its key are read; then it is 503.
const ROOM_WAIT: Duration = Duration::from_secs(5);

/// Who a body or an answer belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Owner {
    /// An application's key.
    Key(KeyId),
    /// An administrator.
    Admin,
    /// A webhook of the chat app, whose secret is in the head.
    ChatApp(AppNo),
    /// Messenger's webhook, from this address.
    Messenger(IpAddr),
    /// Anybody else, by the address.
    Client(IpAddr),
}

/// The bodies of requests under way.
pub(super) struct Bodies {
    strangers: Arc<Pool>,
    webhooks: Arc<Pool>,
    keys: Arc<Pool>,
}

/// Answers that are made or not yet read.
pub(super) struct Answers {
    strangers: Arc<Pool>,
    keys: Arc<Pool>,
}

struct Pool {
    bounds: Bounds,
    held: Mutex<Held>,
    freed: Notify,
}

#[derive(Default)]
struct Held {
    all: usize,
    by_owner: HashMap<Owner, usize>,
}

/// What one body or answer takes of its bound; given back when it is dropped.
pub(crate) struct Room {
    pool: Arc<Pool>,
    owner: Owner,
    bytes: usize,
}

impl Bodies {
    /// Bounds that have room for one body of that many bytes.
    pub(super) fn new(body_bytes_max: usize) -> Self {
        let pool = |bounds: Bounds| {
            let all = bounds.all.max(body_bytes_max);
            Pool::new(Bounds { all, of_owner: bounds.of_owner.max(body_bytes_max) })
        };
        Self {
            strangers: pool(STRANGERS_BODIES),
            webhooks: pool(WEBHOOK_BODIES),
            keys: pool(KEYS_BODIES),
        }
    }

    /// Room for a body of that declared length. It takes what is read of it, so that a length alone
    /// takes nothing from others.
    pub(super) fn enter(&self, owner: Owner, declared_bytes: u64) -> Result<Room, ApiError> {
        let pool = match owner {
            Owner::Client(_) => &self.strangers,
            Owner::Messenger(_) => &self.webhooks,
            Owner::Key(_) | Owner::Admin | Owner::ChatApp(_) => &self.keys,
        };
        let declared = usize::try_from(declared_bytes).unwrap_or(usize::MAX);
        if !pool.held().has_room(pool, owner, declared) {
            return Err(ApiError::Busy);
        }
        Ok(Room { pool: pool.clone(), owner, bytes: 0 })
    }
}

impl Answers {
    pub(super) fn new() -> Self {
        Self { strangers: Pool::new(STRANGERS_ANSWERS), keys: Pool::new(KEYS_ANSWERS) }
    }

    /// Room for the answer to a request, before it is made. A caller with a key waits for it; a
    /// stranger's answers are small, and counted by [`Room::fit`].
    pub(super) async fn enter(&self, owner: Owner, is_read: bool) -> Result<Room, ApiError> {
        let mut room = match owner {
            Owner::Client(_) | Owner::Messenger(_) | Owner::ChatApp(_) => {
                return Ok(Room { pool: self.strangers.clone(), owner, bytes: 0 });
            }
            Owner::Key(_) | Owner::Admin => Room { pool: self.keys.clone(), owner, bytes: 0 },
        };
        let bytes = if is_read { READ_BYTES } else { CHANGE_BYTES };
        if room.take(bytes).is_ok() {
            return Ok(room);
        }
        let waiting = async {
            loop {
                let freed = self.keys.freed.notified();
                if room.take(bytes).is_ok() {
                    return;
                }
                freed.await;
            }
        };
        tokio::time::timeout(ROOM_WAIT, waiting).await.map_err(|_| ApiError::Busy)?;
        Ok(room)
    }
}

impl Pool {
    fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self { bounds, held: Mutex::default(), freed: Notify::new() })
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn has_room(&self, pool: &Pool, owner: Owner, bytes: usize) -> bool {
        let its = self.by_owner.get(&owner).copied().unwrap_or_default();
        self.all.saturating_add(bytes) <= pool.bounds.all
            && its.saturating_add(bytes) <= pool.bounds.of_owner
    }

    fn add(&mut self, owner: Owner, bytes: usize) {
        self.all += bytes;
        *self.by_owner.entry(owner).or_default() += bytes;
    }

    fn subtract(&mut self, owner: Owner, bytes: usize) {
        self.all -= bytes;
        if let Some(its) = self.by_owner.get_mut(&owner) {
            *its -= bytes;
            if *its == 0 {
                self.by_owner.remove(&owner);
            }
        }
    }
}

impl Room {
    /// Takes room for so many bytes more.
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), ApiError> {
        let mut held = self.pool.held();
        if !held.has_room(&self.pool, self.owner, bytes) {
            return Err(ApiError::Busy);
        }
        held.add(self.owner, bytes);
        self.bytes += bytes;
        Ok(())
    }

    /// Makes it as large as the answer, now that its size is known. A stranger's answer for which
    /// there is no room is refused. What a caller with a key asked for is done, and its answer is
    /// counted even beyond the bound.
    pub(super) fn fit(&mut self, bytes: usize) -> Result<(), ApiError> {
        let more = bytes.saturating_sub(self.bytes);
        let outcome = self.take(more);
        match self.owner {
            Owner::Client(_) | Owner::Messenger(_) | Owner::ChatApp(_) => return outcome,
            Owner::Key(_) | Owner::Admin if outcome.is_err() => {
                self.pool.held().add(self.owner, more);
                self.bytes += more;
            }
            Owner::Key(_) | Owner::Admin => self.give_back(self.bytes - bytes),
        }
        Ok(())
    }

    fn give_back(&mut self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        self.pool.held().subtract(self.owner, bytes);
        self.bytes -= bytes;
        self.pool.freed.notify_waiters();
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.give_back(self.bytes);
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
    fn filled(bodies: &Bodies, owner: Owner, bytes: usize) -> Vec<Room> {
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
        assert_eq!(first.len() * 65_536, STRANGERS_BODIES.of_owner);
        let others: Vec<_> = (2..=9).map(|last| filled(&bodies, client(last), 65_536)).collect();
        let all: usize = first.len() + others.iter().map(Vec::len).sum::<usize>();
        assert_eq!(all * 65_536, STRANGERS_BODIES.all);
        assert_eq!(filled(&bodies, Owner::Admin, 65_536).len() * 65_536, KEYS_BODIES.of_owner);
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
        room.take(STRANGERS_BODIES.of_owner).unwrap();
        assert!(matches!(room.take(1), Err(ApiError::Busy)));
    }

    #[test]
    fn one_body_of_the_largest_size_has_room_in_any_case() {
        let bodies = Bodies::new(1 << 30);
        let mut room = bodies.enter(Owner::Admin, 1 << 30).unwrap();
        room.take(1 << 30).unwrap();
    }

    #[test]
    fn messengers_webhooks_have_room_whatever_votes_and_pages_hold() {
        let bodies = Bodies::new(BODY_BYTES_MAX);
        let _strangers: Vec<_> =
            (1..=9).map(|last| filled(&bodies, client(last), 65_536)).collect();
        assert!(bodies.enter(client(10), 65_536).is_err());
        let messenger = Owner::Messenger(IpAddr::from([1, 1, 1, 1]));
        let of_one = filled(&bodies, messenger, 65_536);
        assert_eq!(of_one.len() * 65_536, WEBHOOK_BODIES.of_owner);
        assert!(bodies.enter(Owner::ChatApp(AppNo(1)), 65_536).is_ok());
    }

    async fn answer(answers: &Answers, owner: Owner, bytes: usize) -> Result<Room, ApiError> {
        let mut room = answers.enter(owner, true).await?;
        room.fit(bytes)?;
        Ok(room)
    }

    #[tokio::test(start_paused = true)]
    async fn reads_wait_for_the_unread_answers_of_their_key_alone() {
        let answers = Answers::new();
        let mut held = Vec::new();
        while let Ok(room) = answer(&answers, Owner::Admin, MIB).await {
            held.push(room);
        }
        assert_eq!(held.len() * MIB, KEYS_ANSWERS.of_owner);
        let key = Owner::Key(KeyId(uuid::Uuid::nil()));
        let before = tokio::time::Instant::now();
        assert!(answer(&answers, key, MIB).await.is_ok());
        assert_eq!(before.elapsed(), Duration::ZERO, "another key does not wait");
        assert!(matches!(answers.enter(Owner::Admin, false).await, Err(ApiError::Busy)));
        assert_eq!(before.elapsed(), ROOM_WAIT);
        let freeing = async {
            tokio::task::yield_now().await;
            held.pop();
        };
        let (room, ()) = tokio::join!(answer(&answers, Owner::Admin, MIB), freeing);
        assert!(room.is_ok(), "it waited for an answer that was read");
    }

    #[tokio::test]
    async fn an_answer_takes_its_size_and_a_finished_change_is_never_refused() {
        let answers = Answers::new();
        let mut rooms = Vec::new();
        for _ in 0..200 {
            rooms.push(answer(&answers, Owner::Admin, 2_000).await.unwrap());
        }
        assert_eq!(answers.keys.held().all, 400_000);
        let mut change = answers.enter(Owner::Admin, false).await.unwrap();
        change.fit(KEYS_ANSWERS.all).unwrap();
        drop((rooms, change));
        assert_eq!(answers.keys.held().all, 0);
    }

    #[tokio::test]
    async fn a_strangers_answer_is_refused_where_the_room_of_its_address_ends() {
        let answers = Answers::new();
        let mut held = Vec::new();
        while let Ok(room) = answer(&answers, client(1), 131_072).await {
            held.push(room);
        }
        assert_eq!(held.len() * 131_072, STRANGERS_ANSWERS.of_owner);
        assert!(
            answer(&answers, client(1), 0).await.is_ok(),
            "what all answers share is no memory"
        );
        assert!(answer(&answers, client(2), 131_072).await.is_ok());
    }
}
