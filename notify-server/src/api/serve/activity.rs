//! What a connection is doing, so that one that does nothing useful is closed: hyper alone bounds
//! neither the time before a first byte nor a client that does not read.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::Limits;

/// The doings of one connection, in milliseconds since it began. 0 is "not now".
#[derive(Debug)]
pub(super) struct Activity {
    began: Instant,
    in_flight: AtomicUsize,
    is_http2: AtomicBool,
    has_served: AtomicBool,
    idle_since: AtomicU64,
    head_since: AtomicU64,
    blocked_since: AtomicU64,
}

/// What to do about a connection now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing.
    Fine,
    /// Close it politely: it has been idle for long.
    Retire,
    /// Cut it off.
    Cut,
}

impl Activity {
    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            in_flight: AtomicUsize::new(0),
            is_http2: AtomicBool::new(false),
            has_served: AtomicBool::new(false),
            idle_since: AtomicU64::new(1),
            // TLS and the first head have one time together.
            head_since: AtomicU64::new(1),
            blocked_since: AtomicU64::new(0),
        }
    }

    /// A request's head is there.
    pub(super) fn request_begins(&self, is_http2: bool) {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        self.is_http2.store(is_http2, Ordering::Relaxed);
        self.has_served.store(true, Ordering::Relaxed);
        self.head_since.store(0, Ordering::Relaxed);
    }

    /// A request has its answer.
    pub(super) fn request_ends(&self) {
        self.idle_since.store(self.now_ms(), Ordering::Relaxed);
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
    }

    /// Bytes came in.
    pub(super) fn read(&self) {
        if self.in_flight.load(Ordering::SeqCst) == 0 {
            // The first byte of the next head starts its time; later ones do not prolong it.
            let now = self.now_ms();
            let _ = self.head_since.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Bytes could be written, or not.
    pub(super) fn wrote(&self, is_blocked: bool) {
        if is_blocked {
            let now = self.now_ms();
            let blocked = &self.blocked_since;
            let _ = blocked.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        } else {
            self.blocked_since.store(0, Ordering::Relaxed);
        }
    }

    /// How many requests are being answered.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::SeqCst)
    }

    pub(super) fn verdict(&self, limits: &Limits) -> Verdict {
        if self.is_over(&self.blocked_since, limits.write_timeout) {
            return Verdict::Cut;
        }
        if self.in_flight() > 0 {
            return Verdict::Fine;
        }
        // On HTTP/2 any frame reads bytes, so that the time of a head cannot be told; hyper's
        // limits on headers and the idle time bound those.
        let heads_count = !self.is_http2.load(Ordering::Relaxed);
        if heads_count && self.is_over(&self.head_since, limits.header_timeout) {
            return Verdict::Cut;
        }
        if self.is_over(&self.idle_since, limits.idle_timeout) {
            Verdict::Retire
        } else {
            Verdict::Fine
        }
    }

    fn is_over(&self, since: &AtomicU64, limit: Duration) -> bool {
        let since = since.load(Ordering::Relaxed);
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        since != 0 && self.now_ms().saturating_sub(since) > limit_ms
    }

    /// At least 1, so that 0 can mean "not now".
    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX).max(1)
    }
}
