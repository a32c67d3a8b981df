//! Time, as the one seam through which it comes in; tests turn a [`ManualClock`] instead of waiting.

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

/// Both times of a clock at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// The server's time.
    pub now: Timestamp,
    /// What the wall clock says.
    pub wall: Timestamp,
}

/// Tells the time and wakes at a time. Shared by every part of the server.
#[async_trait::async_trait]
pub trait Clock: Send + Sync + 'static {
    /// The instant now. Never goes back, and follows the wall clock slowly (trap 16).
    fn now(&self) -> Timestamp;

    /// What the machine's wall clock says: for what others compare with theirs, such as the age of
    /// a signed token. It may jump, and go back.
    fn wall(&self) -> Timestamp {
        self.now()
    }

    /// Milliseconds by a clock that nobody sets, from a moment of its own: how much time passed between
    /// two looks.
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

/// The clock, as everything holds it.
pub type SharedClock = Arc<dyn Clock>;

/// A clock that stands still until it is turned.
#[derive(Debug)]
pub struct ManualClock {
    wall_ahead_ms: AtomicI64,
    /// How far it leapt, in which no time passed.
    leapt_ms: AtomicI64,
    now_ms: watch::Sender<i64>,
}

impl ManualClock {
    /// A clock that stands at `now`.
    #[must_use]
    pub fn at(now: Timestamp) -> Arc<Self> {
        Arc::new(Self {
            wall_ahead_ms: AtomicI64::new(0),
            leapt_ms: AtomicI64::new(0),
            now_ms: watch::Sender::new(now.0),
        })
    }

    /// Sets the wall clock so many milliseconds ahead of this one from now on; below 0 behind it.
    pub fn set_wall_ahead(&self, ms: i64) {
        self.wall_ahead_ms.store(ms, Ordering::SeqCst);
    }

    /// Turns the clock forward in no time, as a wall clock that is set and followed.
    pub fn leap(&self, by: Duration) {
        let by_ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.leapt_ms.fetch_add(by_ms, Ordering::SeqCst);
        self.advance(by);
    }

    /// Turns the clock forward and wakes whoever waited for that.
    pub fn advance(&self, by: Duration) {
        let by_ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.now_ms.send_modify(|now_ms| *now_ms += by_ms);
    }

    /// Shows the unix milliseconds of this clock to others, such as a sandbox.
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
