//! The timeouts of a connection.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::api::server::limits::Limits;
use crate::api::server::min_rate::MinRate;

/// Waits for `pause` after the token was cancelled.
pub(crate) async fn after(token: &CancellationToken, pause: Duration) {
    token.cancelled().await;
    tokio::time::sleep(pause).await;
}

/// The timeouts of one connection. hyper has no limit for the time before the first byte, nor for a
/// client that does not read. `idle_since` and `head_since` are milliseconds since the start of the
/// connection. `head_since` is 0 while no head is being read.
#[derive(Debug)]
pub(crate) struct ConnTimeouts {
    started: Instant,
    in_flight: AtomicUsize,
    is_http2: AtomicBool,
    idle_since: AtomicU64,
    head_since: AtomicU64,
    write_timeout: Duration,
    socket: Mutex<Socket>,
}

/// Whether the socket accepts what is written.
#[derive(Debug, Default)]
struct Socket {
    stall: Option<Stall>,
    /// How long the socket was full before the current stall, in total.
    stalled: Duration,
}

/// A period in which the socket is full. It starts with a write that the socket does not accept,
/// and ends when everything is written.
#[derive(Debug)]
struct Stall {
    since: Duration,
    rate: MinRate,
}

/// What to do with a connection when its timeouts are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// Keep the connection open.
    Keep,
    /// Close the connection gracefully: it has been idle for too long.
    Drain,
    /// Close the connection at once: its client is too slow.
    Close,
}

impl ConnTimeouts {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            started: Instant::now(),
            in_flight: AtomicUsize::new(0),
            is_http2: AtomicBool::new(false),
            idle_since: AtomicU64::new(1),
            // The TLS handshake and the first head share one timeout.
            head_since: AtomicU64::new(1),
            write_timeout: limits.write_timeout,
            socket: Mutex::default(),
        }
    }

    /// Records that the head of a request was read.
    pub(super) fn record_request_start(&self, is_http2: bool) {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        self.is_http2.store(is_http2, Ordering::Relaxed);
        self.head_since.store(0, Ordering::Relaxed);
    }

    /// Records that a response is complete.
    pub(super) fn record_request_end(&self) {
        self.idle_since.store(self.now_ms(), Ordering::Relaxed);
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
    }

    /// Records that bytes were read.
    pub(super) fn record_read(&self) {
        if self.in_flight.load(Ordering::SeqCst) == 0 {
            // The first byte of the next head starts its timeout; later ones do not extend it.
            let now = self.now_ms();
            let _ = self.head_since.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Records that the socket accepted bytes.
    pub(super) fn record_written(&self, bytes: usize) {
        let now = self.started.elapsed();
        if let Some(stall) = &mut self.socket().stall {
            stall.rate.record(now, bytes);
        }
    }

    /// Records that the socket is full.
    pub(super) fn record_stall(&self) {
        let now = self.started.elapsed();
        let start = || Stall { since: now, rate: MinRate::start(now, self.write_timeout) };
        self.socket().stall.get_or_insert_with(start);
    }

    /// Records that the socket accepted everything.
    pub(super) fn record_flush(&self) {
        let mut socket = self.socket();
        if let Some(stall) = socket.stall.take() {
            socket.stalled += self.started.elapsed().saturating_sub(stall.since);
        }
    }

    /// How long the connection has been open, without the time in which its socket was full: during
    /// that time, no stream can make progress.
    pub(super) fn unblocked_time(&self) -> Duration {
        let socket = self.socket();
        let now = socket.stall.as_ref().map_or_else(|| self.started.elapsed(), |stall| stall.since);
        now.saturating_sub(socket.stalled)
    }

    /// The number of requests in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::SeqCst)
    }

    /// What to do with the connection, if it may be idle for `idle_timeout`.
    pub(super) fn action(&self, limits: &Limits, idle_timeout: Duration) -> Action {
        let now = self.started.elapsed();
        if self.socket().stall.as_ref().is_some_and(|stall| stall.rate.is_too_slow(now)) {
            return Action::Close;
        }
        if self.in_flight() > 0 {
            return Action::Keep;
        }
        // Over HTTP/2 the bytes that are read belong to any frame, so the start of a head is not
        // known. hyper's limits of headers and the idle timeout apply instead.
        let has_head_timeout = !self.is_http2.load(Ordering::Relaxed);
        if has_head_timeout && self.is_exceeded(&self.head_since, limits.header_timeout) {
            return Action::Close;
        }
        if self.is_exceeded(&self.idle_since, idle_timeout) { Action::Drain } else { Action::Keep }
    }

    fn is_exceeded(&self, since: &AtomicU64, limit: Duration) -> bool {
        let since_ms = since.load(Ordering::Relaxed);
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        since_ms != 0 && self.now_ms().saturating_sub(since_ms) > limit_ms
    }

    fn socket(&self) -> MutexGuard<'_, Socket> {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Milliseconds since the start of the connection. At least 1, because a `head_since` of 0 means
    /// that no head is being read.
    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX).max(1)
    }
}
