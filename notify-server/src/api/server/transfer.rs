//! Tracks whether clients read responses. Over HTTP/2 the client's flow-control windows decide what
//! is sent, so the socket alone does not show which stream makes no progress. Each body is handed
//! out in pieces that report when they are written.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures_util::future::AbortHandle;
use futures_util::task::AtomicWaker;

use crate::api::pipeline::MemoryPermit;
use crate::api::server;
use crate::api::server::connection::ConnTimeouts;
use crate::api::server::min_rate::MinRate;

/// Largest piece of a body: a frame of HTTP/2 by default (RFC 9113 section 6.5.2), in bytes.
pub(crate) const PIECE_BYTES_MAX: usize = 16_384;
/// Number of tracked transfers above which those that ended are removed.
const TRACKED_MIN: usize = 128;

/// The transfers of one connection.
pub(super) struct Transfers {
    timeouts: Arc<ConnTimeouts>,
    timeout: Duration,
    is_shared: bool,
    open: Mutex<Vec<Weak<Transfer>>>,
}

/// The transfer of one response.
pub(crate) struct Transfer {
    timeouts: Arc<ConnTimeouts>,
    timeout: Duration,
    stream: Option<AbortHandle>,
    /// Whether the connection carries the requests of many clients.
    is_shared: bool,
    progress: Mutex<Progress>,
    drained: AtomicWaker,
}

struct Progress {
    /// Bytes that hyper has and the socket has not accepted.
    outstanding: usize,
    rate: MinRate,
    is_aborted: bool,
}

/// A part of a body that reports when it is written.
pub(crate) struct Piece {
    bytes: Bytes,
    transfer: Option<Arc<Transfer>>,
    _memory: Option<Arc<MemoryPermit>>,
}

impl Transfers {
    /// `is_shared`: the connection belongs to a proxy, with the requests of many clients.
    pub(super) fn new(timeouts: Arc<ConnTimeouts>, timeout: Duration, is_shared: bool) -> Self {
        Self { timeouts, timeout, is_shared, open: Mutex::default() }
    }

    /// Starts to track a response. Called within the task of its stream.
    pub(super) fn start(&self) -> Arc<Transfer> {
        let rate = MinRate::start(self.timeouts.unblocked_time(), self.timeout);
        let transfer = Arc::new(Transfer {
            timeouts: self.timeouts.clone(),
            timeout: self.timeout,
            stream: server::current_stream(),
            is_shared: self.is_shared,
            progress: Mutex::new(Progress { outstanding: 0, rate, is_aborted: false }),
            drained: AtomicWaker::new(),
        });
        self.add(&transfer);
        transfer
    }

    /// Aborts the streams whose clients read too slowly. True if one of them cannot be aborted
    /// alone, so that the connection has to be closed.
    pub(super) fn abort_stuck(&self) -> bool {
        let now = self.timeouts.unblocked_time();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|transfer| transfer.strong_count() > 0);
        let mut stuck = open.iter().filter_map(Weak::upgrade).filter(|open| open.is_stuck(now));
        stuck.any(|transfer| !transfer.abort())
    }

    /// Aborts the streams whose clients have not read everything.
    pub(super) fn abort_all(&self) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        for transfer in open.iter().filter_map(Weak::upgrade) {
            if transfer.progress().outstanding > 0 {
                transfer.abort();
            }
        }
    }

    fn add(&self, transfer: &Arc<Transfer>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= TRACKED_MIN && open.len() == open.capacity() {
            open.retain(|transfer| transfer.strong_count() > 0);
        }
        open.push(Arc::downgrade(transfer));
    }
}

impl Transfer {
    fn is_stuck(&self, now: Duration) -> bool {
        let progress = self.progress();
        progress.outstanding > 0 && progress.rate.is_too_slow(now)
    }

    /// Resets the stream. False if that is not possible, or has been done before.
    fn abort(&self) -> bool {
        let mut progress = self.progress();
        let Some(stream) = self.stream.as_ref().filter(|_| !progress.is_aborted) else {
            return false;
        };
        stream.abort();
        progress.is_aborted = true;
        true
    }

    fn handed_out(&self, bytes: usize) {
        let now = self.timeouts.unblocked_time();
        let mut progress = self.progress();
        if progress.outstanding == 0 {
            progress.rate = MinRate::start(now, self.timeout);
        }
        progress.outstanding += bytes;
    }

    fn written(&self, bytes: usize) {
        let now = self.timeouts.unblocked_time();
        let mut progress = self.progress();
        progress.outstanding -= bytes;
        progress.rate.record(now, bytes);
    }

    fn dropped(&self, bytes: usize) {
        let is_drained = {
            let mut progress = self.progress();
            progress.outstanding -= bytes;
            progress.outstanding == 0
        };
        if self.is_shared && is_drained {
            self.drained.wake();
        }
    }

    /// Whether the stream has to stay open until the client has read everything. A stream that is
    /// closed on our side can no longer be reset alone, and a connection of many clients is not
    /// closed for one of them.
    pub(crate) fn holds_stream(&self) -> bool {
        self.is_shared && self.progress().outstanding > 0
    }

    /// Ready when [`Self::holds_stream`] is false.
    pub(crate) fn poll_drained(&self, cx: &Context<'_>) -> Poll<()> {
        self.drained.register(cx.waker());
        if self.holds_stream() { Poll::Pending } else { Poll::Ready(()) }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Piece {
    pub(crate) fn new(
        bytes: Bytes,
        transfer: Option<Arc<Transfer>>,
        memory: Option<Arc<MemoryPermit>>,
    ) -> Self {
        if let Some(transfer) = &transfer {
            transfer.handed_out(bytes.len());
        }
        Self { bytes, transfer, _memory: memory }
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        if let Some(transfer) = &self.transfer {
            transfer.written(count);
        }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if let Some(transfer) = &self.transfer {
            transfer.dropped(self.bytes.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::server::Limits;

    fn connection(is_shared: bool) -> Transfers {
        let limits = Limits {
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(15),
            connections_max: 1,
            connections_per_address_max: 0,
            trusted_proxies: "".parse().unwrap(),
        };
        Transfers::new(Arc::new(ConnTimeouts::new(&limits)), limits.write_timeout, is_shared)
    }

    fn piece(transfer: &Arc<Transfer>) -> Piece {
        Piece::new(Bytes::from_static(b"0123456789"), Some(transfer.clone()), None)
    }

    #[test]
    fn written_and_dropped_bytes_are_not_outstanding() {
        let transfer = connection(false).start();
        let mut piece = piece(&transfer);
        assert!(transfer.is_stuck(Duration::from_secs(16)));
        assert!(!transfer.is_stuck(Duration::from_secs(14)));
        piece.advance(4);
        assert_eq!(transfer.progress().outstanding, 6);
        drop(piece);
        assert!(!transfer.is_stuck(Duration::from_secs(1_000)), "idle is not stuck");
        assert!(!transfer.abort(), "there is no stream to abort");
    }

    #[test]
    fn a_stream_of_a_shared_connection_stays_open_until_its_response_is_read() {
        let cx = Context::from_waker(std::task::Waker::noop());
        for is_shared in [false, true] {
            let transfer = connection(is_shared).start();
            assert!(!transfer.holds_stream());
            let piece = piece(&transfer);
            assert_eq!(transfer.poll_drained(&cx).is_pending(), is_shared);
            drop(piece);
            assert!(transfer.poll_drained(&cx).is_ready());
        }
    }
}
