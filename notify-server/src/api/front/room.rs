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
const STRANGERS_BODIES: Bounds = Bounds { all: 64 * MIB, of_owner: MIB };
/// Bodies of Messenger's webhooks, which prove who sent them by the whole body.
const WEBHOOK_BODIES: Bounds = Bounds { all: 64 * MIB, of_owner: 2 * MIB };
/// Bodies of callers with a key.
const KEYS_BODIES: Bounds = Bounds { all: 128 * MIB, of_owner: 32 * MIB };
/// Unread answers to strangers, without what all answers share.
const STRANGERS_ANSWERS: Bounds = Bounds { all: 64 * MIB, of_owner: MIB };
/// Unread answers to callers with a key, and to administrators, who have a bound of their own.
const KEYS_ANSWERS: Bounds = Bounds { all: 256 * MIB, of_owner: 32 * MIB };
const ADMINS_ANSWERS: Bounds = Bounds { all: 32 * MIB, of_owner: 32 * MIB };
const MIB: usize = 1_048_576;
/// What a request reserves for its answer until the size is known, in bytes: one that reads, and one
/// that changes something.
const READ_BYTES: usize = 524_288;
const CHANGE_BYTES: usize = 16_384;
/// How long a read waits until earlier answers of its key are read; then it is 503.
const ROOM_WAIT: Duration = Duration::from_secs(5);
/// How often a read that waits looks whether the answers of other keys leave room.
const LOOK_EVERY: Duration = Duration::from_millis(250);

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
    admins: Arc<Pool>,
}

struct Pool {
    bounds: Bounds,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    all: usize,
    by_owner: HashMap<Owner, Share>,
}

/// What one owner holds.
#[derive(Default)]
struct Share {
    bytes: usize,
    /// Told when it gets less.
    freed: Arc<Notify>,
}

/// What one body or answer takes of its bound; given back when it is dropped.
pub(crate) struct Room {
    pool: Arc<Pool>,
    owner: Owner,
    bytes: usize,
    refusing: Refusing,
}

/// Whether what does not fit is refused.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Refusing {
    Yes,
    No,
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
        Ok(Room { pool: pool.clone(), owner, bytes: 0, refusing: Refusing::Yes })
    }
}

impl Answers {
    pub(super) fn new() -> Self {
        let [strangers, keys, admins] =
            [STRANGERS_ANSWERS, KEYS_ANSWERS, ADMINS_ANSWERS].map(Pool::new);
        Self { strangers, keys, admins }
    }

    /// Room for the answer to a read with a key, before it is made: it waits until earlier answers are
    /// read. A stranger's answers are small, and counted when they are made.
    pub(super) async fn enter_read(&self, owner: Owner) -> Result<Room, ApiError> {
        let mut room = self.room(owner, Refusing::Yes);
        if is_stranger(owner) || room.take(READ_BYTES).is_ok() {
            return Ok(room);
        }
        let freed = room.pool.held().by_owner.entry(owner).or_default().freed.clone();
        let waiting = async {
            loop {
                let _ = tokio::time::timeout(LOOK_EVERY, freed.notified()).await;
                if room.take(READ_BYTES).is_ok() {
                    return;
                }
            }
        };
        tokio::time::timeout(ROOM_WAIT, waiting).await.map_err(|_| ApiError::Busy)?;
        Ok(room)
    }

    /// Room for the answer to a request that changes something. What is done is answered, so that one
    /// of a key whose answers take all of their room is refused before, and before its body is read.
    pub(super) fn enter_change(&self, owner: Owner) -> Result<Room, ApiError> {
        let mut room = self.room(owner, Refusing::No);
        if !is_stranger(owner) {
            room.take(CHANGE_BYTES)?;
        }
        Ok(room)
    }

    fn room(&self, owner: Owner, refusing: Refusing) -> Room {
        let pool = match owner {
            Owner::Client(_) | Owner::Messenger(_) | Owner::ChatApp(_) => &self.strangers,
            Owner::Key(_) => &self.keys,
            Owner::Admin => &self.admins,
        };
        Room { pool: pool.clone(), owner, bytes: 0, refusing }
    }
}

fn is_stranger(owner: Owner) -> bool {
    match owner {
        Owner::Client(_) | Owner::Messenger(_) | Owner::ChatApp(_) => true,
        Owner::Key(_) | Owner::Admin => false,
    }
}

impl Pool {
    fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self { bounds, held: Mutex::default() })
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn has_room(&self, pool: &Pool, owner: Owner, bytes: usize) -> bool {
        let its = self.by_owner.get(&owner).map_or(0, |share| share.bytes);
        self.all.saturating_add(bytes) <= pool.bounds.all
            && its.saturating_add(bytes) <= pool.bounds.of_owner
    }

    fn add(&mut self, owner: Owner, bytes: usize) {
        self.all += bytes;
        self.by_owner.entry(owner).or_default().bytes += bytes;
    }

    fn subtract(&mut self, owner: Owner, bytes: usize) {
        self.all -= bytes;
        if let Some(share) = self.by_owner.get_mut(&owner) {
            share.bytes -= bytes;
            share.freed.notify_one();
            if share.bytes == 0 {
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

    /// Makes it as large as the answer, now that its size is known. The answer to a read for which
    /// there is no room is refused; that to a change is counted even beyond the bound.
    pub(super) fn fit(&mut self, bytes: usize) -> Result<(), ApiError> {
        if let Some(spare) = self.bytes.checked_sub(bytes) {
            self.give_back(spare);
            return Ok(());
        }
        let more = bytes - self.bytes;
        match (self.take(more), self.refusing) {
            (Err(error), Refusing::Yes) => Err(error),
            (Err(_), Refusing::No) => {
                self.pool.held().add(self.owner, more);
                self.bytes += more;
                Ok(())
            }
            (Ok(()), _) => Ok(()),
        }
    }

    fn give_back(&mut self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        self.pool.held().subtract(self.owner, bytes);
        self.bytes -= bytes;
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
        let others: Vec<_> = (2..=65).map(|last| filled(&bodies, client(last), 65_536)).collect();
        let all: usize = first.len() + others.iter().map(Vec::len).sum::<usize>();
        assert_eq!(all * 65_536, STRANGERS_BODIES.all);
        assert_eq!(filled(&bodies, Owner::Admin, 65_536).len() * 65_536, KEYS_BODIES.of_owner);
        drop(first);
        assert!(bodies.enter(client(66), 65_536).is_ok(), "room is given back");
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
            (1..=65).map(|last| filled(&bodies, client(last), 65_536)).collect();
        assert!(bodies.enter(client(66), 65_536).is_err());
        let messenger = Owner::Messenger(IpAddr::from([1, 1, 1, 1]));
        let of_one = filled(&bodies, messenger, 65_536);
        assert_eq!(of_one.len() * 65_536, WEBHOOK_BODIES.of_owner);
        assert!(bodies.enter(Owner::ChatApp(AppNo(1)), 65_536).is_ok());
    }

    async fn read(answers: &Answers, owner: Owner, bytes: usize) -> Result<Room, ApiError> {
        let mut room = answers.enter_read(owner).await?;
        room.fit(bytes)?;
        Ok(room)
    }

    fn key(number: u128) -> Owner {
        Owner::Key(KeyId(uuid::Uuid::from_u128(number)))
    }

    #[tokio::test(start_paused = true)]
    async fn reads_wait_for_the_unread_answers_of_their_key_alone() {
        let answers = Answers::new();
        let mut held = Vec::new();
        while let Ok(room) = read(&answers, key(1), MIB).await {
            held.push(room);
        }
        assert_eq!(held.len() * MIB, KEYS_ANSWERS.of_owner);
        let before = tokio::time::Instant::now();
        assert!(read(&answers, key(2), MIB).await.is_ok());
        assert!(read(&answers, Owner::Admin, MIB).await.is_ok());
        assert!(matches!(answers.enter_change(key(1)), Err(ApiError::Busy)), "at once");
        assert_eq!(before.elapsed(), Duration::ZERO, "nobody else waits");
        assert!(matches!(answers.enter_read(key(1)).await, Err(ApiError::Busy)));
        assert_eq!(before.elapsed(), ROOM_WAIT);
        let freeing = async {
            tokio::task::yield_now().await;
            held.pop();
        };
        let (room, ()) = tokio::join!(read(&answers, key(1), MIB), freeing);
        assert!(room.is_ok(), "it waited for an answer that was read");
        assert!(before.elapsed() < ROOM_WAIT + LOOK_EVERY);
    }

    #[tokio::test]
    async fn a_read_that_is_larger_than_the_room_that_is_left_is_refused() {
        let answers = Answers::new();
        let mut rooms = Vec::new();
        for _ in 0..KEYS_ANSWERS.of_owner / READ_BYTES {
            rooms.push(answers.enter_read(key(1)).await.unwrap());
        }
        assert!(matches!(rooms[0].fit(4 * MIB), Err(ApiError::Busy)));
        assert_eq!(answers.keys.held().all, KEYS_ANSWERS.of_owner, "the bound holds");
        rooms.truncate(2);
        assert!(rooms[0].fit(4 * MIB).is_ok());
    }

    #[tokio::test]
    async fn an_answer_takes_its_size_and_a_finished_change_is_never_refused() {
        let answers = Answers::new();
        let mut rooms = Vec::new();
        for _ in 0..200 {
            rooms.push(read(&answers, key(1), 2_000).await.unwrap());
        }
        assert_eq!(answers.keys.held().all, 400_000);
        let mut change = answers.enter_change(key(1)).unwrap();
        change.fit(KEYS_ANSWERS.all).unwrap();
        drop((rooms, change));
        assert_eq!(answers.keys.held().all, 0);
    }

    #[tokio::test]
    async fn a_strangers_read_is_refused_where_the_room_of_its_address_ends_and_no_change_is() {
        let answers = Answers::new();
        let mut held = Vec::new();
        while let Ok(room) = read(&answers, client(1), 131_072).await {
            held.push(room);
        }
        assert_eq!(held.len() * 131_072, STRANGERS_ANSWERS.of_owner);
        assert!(read(&answers, client(1), 0).await.is_ok(), "what all answers share is no memory");
        assert!(read(&answers, client(2), 131_072).await.is_ok());
        let mut subscription = answers.enter_change(client(1)).unwrap();
        assert!(subscription.fit(500).is_ok(), "it is made, and its secret is in the answer");
    }
}
