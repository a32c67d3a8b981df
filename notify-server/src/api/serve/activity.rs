//! What a connection is doing, so that one that does nothing useful is closed: hyper alone bounds
//! neither the time before a first byte nor a client that does not read.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::Limits;
use crate::api::pace::Pace;

/// The doings of one connection, in milliseconds since it began. 0 is "not now".
#[derive(Debug)]
pub(crate) struct Activity {
    began: Instant,
    in_flight: AtomicUsize,
    is_http2: AtomicBool,
    idle_since: AtomicU64,
    head_since: AtomicU64,
    write_timeout: Duration,
    socket: Mutex<Socket>,
}

/// Whether the socket takes what is written.
#[derive(Debug, Default)]
struct Socket {
    stall: Option<Stall>,
    /// How long it was full before, all in all.
    stalled: Duration,
}

/// The socket is full: from a write that it did not take until everything was written.
#[derive(Debug)]
struct Stall {
    since: Duration,
    pace: Pace,
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
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            began: Instant::now(),
            in_flight: AtomicUsize::new(0),
            is_http2: AtomicBool::new(false),
            idle_since: AtomicU64::new(1),
            // TLS and the first head have one time together.
            head_since: AtomicU64::new(1),
            write_timeout: limits.write_timeout,
            socket: Mutex::default(),
        }
    }

    /// A request's head is there.
    pub(super) fn request_begins(&self, is_http2: bool) {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        self.is_http2.store(is_http2, Ordering::Relaxed);
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

    /// The socket took bytes.
    pub(super) fn wrote(&self, bytes: usize) {
        let now = self.began.elapsed();
        if let Some(stall) = &mut self.socket().stall {
            stall.pace.moved(now, bytes);
        }
    }

    /// The socket is full.
    pub(super) fn stalled(&self) {
        let now = self.began.elapsed();
        let begin = || Stall { since: now, pace: Pace::begin(now, self.write_timeout) };
        self.socket().stall.get_or_insert_with(begin);
    }

    /// The socket took everything.
    pub(super) fn flushed(&self) {
        let mut socket = self.socket();
        if let Some(stall) = socket.stall.take() {
            socket.stalled += self.began.elapsed().saturating_sub(stall.since);
        }
    }

    /// How long the connection has been open without the time in which its socket was full: what a
    /// stream does not get then is not its client's choice.
    pub(super) fn flowing(&self) -> Duration {
        let socket = self.socket();
        let now = socket.stall.as_ref().map_or_else(|| self.began.elapsed(), |stall| stall.since);
        now.saturating_sub(socket.stalled)
    }

    /// How many requests are being answered.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::SeqCst)
    }

    /// What to do now, where a connection may be idle for that long.
    pub(super) fn verdict(&self, limits: &Limits, idle_timeout: Duration) -> Verdict {
        let now = self.began.elapsed();
        if self.socket().stall.as_ref().is_some_and(|stall| stall.pace.is_over(now)) {
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
        if self.is_over(&self.idle_since, idle_timeout) { Verdict::Retire } else { Verdict::Fine }
    }

    fn is_over(&self, since: &AtomicU64, limit: Duration) -> bool {
        let since = since.load(Ordering::Relaxed);
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        since != 0 && self.now_ms().saturating_sub(since) > limit_ms
    }

    fn socket(&self) -> MutexGuard<'_, Socket> {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// At least 1, so that 0 can mean "not now".
    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX).max(1)
    }
}
