//! Rate limits: failing requests by client address, all requests by key. A request with a good key
//! is never slowed by others that fail.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use notify_core::KeyId;
use tokio::sync::Notify;

use crate::api::error::ApiError;
use crate::store::AppNo;

/// Most clients remembered before old ones are looked for.
const REMEMBERED_MAX: usize = 100_000;

/// Slows clients whose keys keep failing.
pub(super) struct Throttle(Limiter<IpAddr>);

impl Throttle {
    /// That many failures a minute; 0 is no limit.
    pub(super) fn new(per_minute: u32) -> Self {
        Self(Limiter::new(NonZeroU32::new(per_minute).map(Quota::per_minute)))
    }

    /// Notes a failure.
    pub(super) fn failed(&self, client: IpAddr) -> Result<(), ApiError> {
        self.0.take(&client)
    }

    pub(super) fn tidy(&self) {
        self.0.tidy();
    }
}

/// Limits each key's requests.
pub(super) struct KeyRate(Limiter<KeyId>);

impl KeyRate {
    /// That many requests a second and key; 0 is no limit.
    pub(super) fn new(per_second: u32) -> Self {
        Self(Limiter::new(NonZeroU32::new(per_second).map(Quota::per_second)))
    }

    /// Notes a request.
    pub(super) fn take(&self, key: KeyId) -> Result<(), ApiError> {
        self.0.take(&key)
    }

    pub(super) fn tidy(&self) {
        self.0.tidy();
    }
}

/// Limits each client's votes on the pages of polls.
pub(super) struct VoteRate(Limiter<IpAddr>);

impl VoteRate {
    /// That many votes a minute and client; 0 is no limit.
    pub(super) fn new(per_minute: u32) -> Self {
        Self(Limiter::new(NonZeroU32::new(per_minute).map(Quota::per_minute)))
    }

    /// Notes a vote.
    pub(super) fn take(&self, client: IpAddr) -> Result<(), ApiError> {
        self.0.take(&client)
    }

    pub(super) fn tidy(&self) {
        self.0.tidy();
    }
}

/// Limits what pages ask: each address all its requests, each application the devices that are made.
pub(super) struct PageRate {
    requests: Limiter<(AppNo, IpAddr)>,
    subscriptions: Limiter<AppNo>,
}

impl PageRate {
    /// That many requests a minute, application and client, and that many subscriptions a minute
    /// and application; 0 is no limit.
    pub(super) fn new(requests_per_minute: u32, subscriptions_per_minute: u32) -> Self {
        let per_minute = |count| NonZeroU32::new(count).map(Quota::per_minute);
        Self {
            requests: Limiter::new(per_minute(requests_per_minute)),
            subscriptions: Limiter::new(per_minute(subscriptions_per_minute)),
        }
    }

    /// Notes a request. A client over its own limit takes nothing from the application's.
    pub(super) fn take(
        &self,
        app: AppNo,
        client: IpAddr,
        makes_device: bool,
    ) -> Result<(), ApiError> {
        self.requests.take(&(app, client))?;
        if makes_device { self.subscriptions.take(&app) } else { Ok(()) }
    }

    pub(super) fn tidy(&self) {
        self.requests.tidy();
        self.subscriptions.tidy();
    }
}

struct Limiter<K: Hash + Eq + Clone>(Option<DefaultKeyedRateLimiter<K>>);

impl<K: Hash + Eq + Clone> Limiter<K> {
    fn new(quota: Option<Quota>) -> Self {
        Self(quota.map(RateLimiter::keyed))
    }

    fn take(&self, key: &K) -> Result<(), ApiError> {
        let Some(limiter) = &self.0 else { return Ok(()) };
        if limiter.len() > REMEMBERED_MAX {
            limiter.retain_recent();
        }
        limiter.check_key(key).map_err(|early| {
            let wait = early.wait_time_from(DefaultClock::default().now());
            // Rounded up: a client that waits as told must not come too early.
            ApiError::RateLimited { retry_after_seconds: wait.as_secs() + 1 }
        })
    }

    fn tidy(&self) {
        if let Some(limiter) = &self.0 {
            limiter.retain_recent();
        }
    }
}

// The memory that requests hold: their bodies, and answers that clients have not read. Each kind is
// bounded in all and for each owner, so that one caller cannot take what others need.

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
mod limits_tests {
    use super::*;

    #[test]
    fn failures_of_one_client_slow_no_other() {
        let throttle = Throttle::new(2);
        let (bad, good) = (IpAddr::from([1, 1, 1, 1]), IpAddr::from([2, 2, 2, 2]));
        assert!(throttle.failed(bad).is_ok() && throttle.failed(bad).is_ok());
        let refused = throttle.failed(bad).unwrap_err();
        assert!(matches!(refused, ApiError::RateLimited { retry_after_seconds: 1..=31 }));
        assert!(throttle.failed(good).is_ok());
    }

    #[test]
    fn a_page_over_its_limit_takes_nothing_from_the_others() {
        let rate = PageRate::new(3, 4);
        let (greedy, other) = (IpAddr::from([1, 1, 1, 1]), IpAddr::from([2, 2, 2, 2]));
        let taken = |client, app| rate.take(AppNo(app), client, true).is_ok();
        assert_eq!([0; 6].map(|_| taken(greedy, 1)), [true, true, true, false, false, false]);
        assert_eq!([0; 2].map(|_| taken(other, 1)), [true, false], "one was left of the four");
        assert!(taken(greedy, 2), "another application");
        assert!(rate.take(AppNo(1), other, false).is_ok(), "no device is made");
    }

    #[test]
    fn zero_is_no_limit() {
        let throttle = Throttle::new(0);
        assert!((0..10_000).all(|_| throttle.failed(IpAddr::from([1, 1, 1, 1])).is_ok()));
    }
}
