//! The only source of time. Tests advance a [`ManualClock`] instead of waiting.

#[cfg(feature = "sandbox")]
mod shifted;
mod slewed;
mod trusted;

#[cfg(feature = "sandbox")]
pub use shifted::ShiftedClock;
pub use trusted::ClockMark;
pub(crate) use trusted::{LEAP_MS, TrustedClock};

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use notify_core::Timestamp;
use tokio::sync::watch;

use self::slewed::{ClockEvent, SlewedClock};

/// Both times of a clock, read together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// The server's time.
    pub now: Timestamp,
    /// The time of the wall clock.
    pub wall: Timestamp,
}

/// A source of time that can also sleep. Shared by every part of the server.
#[async_trait::async_trait]
pub trait Clock: Send + Sync + 'static {
    /// The current time. Never goes back, and follows the wall clock slowly.
    fn now(&self) -> Timestamp;

    /// The machine's wall clock, for times that other machines compare with their clocks, such as
    /// the time of a signed token. It may jump, also back.
    fn wall(&self) -> Timestamp {
        self.now()
    }

    /// Milliseconds of a monotonic clock with an arbitrary start, to measure the time between
    /// two readings.
    fn elapsed_ms(&self) -> i64 {
        self.now().as_ms()
    }

    /// How far the wall clock is ahead by a leap that `now()` does not follow, in milliseconds; usually 0.
    fn held_ms(&self) -> i64 {
        0
    }

    /// Has `now()` follow the current leap of the wall clock, or the next one.
    fn allow_leap(&self) {}

    /// Both times, read together.
    fn read(&self) -> Reading {
        Reading { now: self.now(), wall: self.wall() }
    }

    /// Returns once `now()` is at or past `until`.
    async fn sleep_until(&self, until: Timestamp);
}

/// A shared clock.
pub type SharedClock = Arc<dyn Clock>;

/// Longest sleep without reading the clock, in milliseconds. The machine may be suspended during a
/// sleep, or its wall clock may be set.
const SLEEP_MAX_MS: i64 = 10_000;

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
    anchor: Mutex<SlewedClock>,
    /// How far the database's clock, which all its servers share, is ahead of this machine's clock,
    /// in milliseconds. 0 with SQLite.
    ahead_ms: AtomicI64,
}

impl SystemClock {
    /// Starts the server's time at the current wall clock.
    #[must_use]
    pub fn start() -> Self {
        Self::start_ahead(0)
    }

    /// Starts the server's time at the clock of the database that several servers share. `ahead_ms`
    /// is how far that clock is ahead of this machine's clock, in milliseconds.
    #[must_use]
    pub fn start_ahead(ahead_ms: i64) -> Self {
        let anchor = Mutex::new(SlewedClock::at(wall_ms() + ahead_ms));
        Self { started: Instant::now(), anchor, ahead_ms: AtomicI64::new(ahead_ms) }
    }

    /// Sets how far the database's clock is ahead, in milliseconds. The server's time follows it
    /// slowly and never goes back.
    pub fn set_ahead(&self, ahead_ms: i64) {
        self.ahead_ms.store(ahead_ms, Ordering::Relaxed);
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
fn wall_ms() -> i64 {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX / 2)
}

#[async_trait::async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let mut anchor = self.anchor.lock().expect("nothing panics under this lock");
        // Read under the lock, so that the readings of several threads are in order.
        let elapsed_ms = self.elapsed_ms();
        let (now_ms, event) =
            anchor.read(elapsed_ms, wall_ms() + self.ahead_ms.load(Ordering::Relaxed));
        drop(anchor);
        match event {
            Some(ClockEvent::Jumped(ms)) if ms < 0 => tracing::warn!(
                jump_ms = ms,
                "the wall clock is behind the server's time, which does not go back: it passes more \
                 slowly until they agree. Restart the server to have it follow at once"
            ),
            Some(ClockEvent::Jumped(ms)) if ms > LEAP_MS => tracing::warn!(
                jump_ms = ms,
                "the wall clock is ahead by more than a day; it is not followed until it is confirmed"
            ),
            Some(ClockEvent::Jumped(ms)) => tracing::warn!(
                jump_ms = ms,
                "the wall clock jumped; it is followed once it has been steady for a minute"
            ),
            Some(ClockEvent::Followed(ms)) => {
                tracing::warn!(jump_ms = ms, "the wall clock is followed")
            }
            None => {}
        }
        Timestamp(now_ms)
    }

    fn wall(&self) -> Timestamp {
        Timestamp(wall_ms())
    }

    fn held_ms(&self) -> i64 {
        self.now();
        self.anchor.lock().expect("nothing panics under this lock").held_ms()
    }

    fn allow_leap(&self) {
        self.anchor.lock().expect("nothing panics under this lock").allow_leap();
    }

    fn elapsed_ms(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX / 4)
    }

    async fn sleep_until(&self, until: Timestamp) {
        loop {
            let wait_ms = until.ms_since(self.now()).min(SLEEP_MAX_MS);
            match u64::try_from(wait_ms) {
                Ok(wait_ms) if wait_ms > 0 => {
                    tokio::time::sleep(Duration::from_millis(wait_ms)).await;
                }
                Ok(_) | Err(_) => return,
            }
        }
    }
}

/// A clock that stands still until it is advanced.
#[derive(Debug)]
pub struct ManualClock {
    wall_ahead_ms: AtomicI64,
    /// The sum of all leaps: the server's time that passed without elapsed time.
    leapt_ms: AtomicI64,
    now_ms: watch::Sender<i64>,
}

impl ManualClock {
    /// A clock that is stopped at `now`.
    #[must_use]
    pub fn at(now: Timestamp) -> Arc<Self> {
        Arc::new(Self {
            wall_ahead_ms: AtomicI64::new(0),
            leapt_ms: AtomicI64::new(0),
            now_ms: watch::Sender::new(now.0),
        })
    }

    /// Sets the wall clock this many milliseconds ahead of this clock; negative values are behind
    /// it.
    pub fn set_wall_ahead(&self, ms: i64) {
        self.wall_ahead_ms.store(ms, Ordering::SeqCst);
    }

    /// Advances the clock without elapsed time, like a wall clock that was set and is followed.
    pub fn leap(&self, by: Duration) {
        let by_ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.leapt_ms.fetch_add(by_ms, Ordering::SeqCst);
        self.advance(by);
    }

    /// Advances the clock and wakes tasks that waited for that time.
    pub fn advance(&self, by: Duration) {
        let by_ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.now_ms.send_modify(|now_ms| *now_ms += by_ms);
    }

    /// Publishes the Unix milliseconds of this clock, for example to a sandbox.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<i64> {
        self.now_ms.subscribe()
    }
}

#[async_trait::async_trait]
impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(*self.now_ms.borrow())
    }

    fn elapsed_ms(&self) -> i64 {
        self.now().as_ms() - self.leapt_ms.load(Ordering::SeqCst)
    }

    fn wall(&self) -> Timestamp {
        self.now().plus_ms(self.wall_ahead_ms.load(Ordering::SeqCst))
    }

    async fn sleep_until(&self, until: Timestamp) {
        let mut now_ms = self.now_ms.subscribe();
        // The clock owns the sender, so waiting cannot fail while `self` lives.
        let _ = now_ms.wait_for(|now_ms| *now_ms >= until.0).await;
    }
}
