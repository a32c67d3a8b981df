//! The only source of time; tests advance a [`ManualClock`] instead of waiting.

mod slewed;
mod system;
mod trusted;

pub use system::SystemClock;
pub use trusted::ClockMark;
pub(crate) use trusted::{LEAP_MS, TrustedClock};

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use notify_core::Timestamp;
use tokio::sync::watch;

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

    /// The machine's wall clock, for times that others compare with their clocks, such as the age of
    /// a signed token. It may jump, and go back.
    fn wall(&self) -> Timestamp {
        self.now()
    }

    /// Milliseconds of a monotonic clock with an arbitrary start, to measure the time between
    /// two readings.
    fn elapsed_ms(&self) -> i64 {
        self.now().as_ms()
    }

    /// Both at once.
    fn read(&self) -> Reading {
        Reading { now: self.now(), wall: self.wall() }
    }

    /// Returns once `now()` is at or past `until`.
    async fn sleep_until(&self, until: Timestamp);
}

/// A shared clock.
pub type SharedClock = Arc<dyn Clock>;

/// A clock that stands still until it is advanced.
#[derive(Debug)]
pub struct ManualClock {
    wall_ahead_ms: AtomicI64,
    /// Sum of leaps, during which no time elapsed.
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

    /// Sets the wall clock this many milliseconds ahead of this clock; negative values are behind it.
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
