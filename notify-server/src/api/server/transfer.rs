//! Answers on their way to a client that may not take them. Over HTTP/2 the client's windows decide
//! what is sent, so that the socket alone does not show who reads nothing. Each body is handed out in
//! pieces, which tell when they are written.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures_util::future::AbortHandle;
use futures_util::task::AtomicWaker;

use crate::api::pipeline::Room;
use crate::api::server;
use crate::api::server::connection::Activity;
use crate::api::server::min_rate::Pace;

/// Largest piece of a body: a frame of HTTP/2 by default (RFC 9113 section 6.5.2), in bytes.
pub(crate) const PIECE_BYTES_MAX: usize = 16_384;
/// Transfers that are remembered before those that ended are looked for.
const REMEMBERED_MIN: usize = 128;

/// The transfers of one connection.
pub(super) struct Transfers {
    activity: Arc<Activity>,
    timeout: Duration,
    is_shared: bool,
    open: Mutex<Vec<Weak<Transfer>>>,
}

/// One answer on its way.
pub(crate) struct Transfer {
    activity: Arc<Activity>,
    timeout: Duration,
    stream: Option<AbortHandle>,
    /// Whether the connection carries the requests of many clients.
    is_shared: bool,
    progress: Mutex<Progress>,
    taken: AtomicWaker,
}

struct Progress {
    /// Bytes that hyper has and the socket has not.
    outstanding: usize,
    pace: Pace,
    is_aborted: bool,
}

/// A part of a body that knows when it is written.
pub(crate) struct Piece {
    bytes: Bytes,
    transfer: Option<Arc<Transfer>>,
    _room: Option<Arc<Room>>,
}

impl Transfers {
    /// `is_shared`: the connection is a proxy's, with the requests of many clients.
    pub(super) fn new(activity: Arc<Activity>, timeout: Duration, is_shared: bool) -> Self {
        Self { activity, timeout, is_shared, open: Mutex::default() }
    }

    /// A new answer. Called within the stream's own task.
    pub(super) fn begin(&self) -> Arc<Transfer> {
        let pace = Pace::begin(self.activity.flowing(), self.timeout);
        let transfer = Arc::new(Transfer {
            activity: self.activity.clone(),
            timeout: self.timeout,
            stream: server::current_stream(),
            is_shared: self.is_shared,
            progress: Mutex::new(Progress { outstanding: 0, pace, is_aborted: false }),
            taken: AtomicWaker::new(),
        });
        self.remember(&transfer);
        transfer
    }

    /// Ends the streams whose clients take too little; true when one cannot be ended alone and the
    /// connection has to be.
    pub(super) fn end_stuck(&self) -> bool {
        let now = self.activity.flowing();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|transfer| transfer.strong_count() > 0);
        let mut stuck = open.iter().filter_map(Weak::upgrade).filter(|open| open.is_stuck(now));
        stuck.any(|transfer| !transfer.abort())
    }

    /// Ends the streams whose clients have not taken everything.
    pub(super) fn end_all(&self) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        for transfer in open.iter().filter_map(Weak::upgrade) {
            if transfer.progress().outstanding > 0 {
                transfer.abort();
            }
        }
    }

    fn remember(&self, transfer: &Arc<Transfer>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= REMEMBERED_MIN && open.len() == open.capacity() {
            open.retain(|transfer| transfer.strong_count() > 0);
        }
        open.push(Arc::downgrade(transfer));
    }
}

impl Transfer {
    fn is_stuck(&self, now: Duration) -> bool {
        let progress = self.progress();
        progress.outstanding > 0 && progress.pace.is_over(now)
    }

    /// Resets its stream; false when that is not possible, or did not help before.
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
        let now = self.activity.flowing();
        let mut progress = self.progress();
        if progress.outstanding == 0 {
            progress.pace = Pace::begin(now, self.timeout);
        }
        progress.outstanding += bytes;
    }

    fn written(&self, bytes: usize) {
        let now = self.activity.flowing();
        let mut progress = self.progress();
        progress.outstanding -= bytes;
        progress.pace.moved(now, bytes);
    }

    fn dropped(&self, bytes: usize) {
        let is_taken = {
            let mut progress = self.progress();
            progress.outstanding -= bytes;
            progress.outstanding == 0
        };
        if self.is_shared && is_taken {
            self.taken.wake();
        }
    }

    /// Whether the stream has to stay open until the client has taken everything: a stream that is
    /// closed on our side can no longer be reset alone, and a connection of many clients is not cut
    /// for one of them.
    pub(crate) fn holds_stream(&self) -> bool {
        self.is_shared && self.progress().outstanding > 0
    }

    /// Ready when [`Self::holds_stream`] is false.
    pub(crate) fn poll_taken(&self, cx: &Context<'_>) -> Poll<()> {
        self.taken.register(cx.waker());
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
        room: Option<Arc<Room>>,
    ) -> Self {
        if let Some(transfer) = &transfer {
            transfer.handed_out(bytes.len());
        }
        Self { bytes, transfer, _room: room }
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
        Transfers::new(Arc::new(Activity::new(&limits)), limits.write_timeout, is_shared)
    }

    fn piece(transfer: &Arc<Transfer>) -> Piece {
        Piece::new(Bytes::from_static(b"0123456789"), Some(transfer.clone()), None)
    }

    #[test]
    fn what_is_written_or_dropped_is_outstanding_no_more() {
        let transfer = connection(false).begin();
        let mut piece = piece(&transfer);
        assert!(transfer.is_stuck(Duration::from_secs(16)));
        assert!(!transfer.is_stuck(Duration::from_secs(14)));
        piece.advance(4);
        assert_eq!(transfer.progress().outstanding, 6);
        drop(piece);
        assert!(!transfer.is_stuck(Duration::from_secs(1_000)), "idle is not stuck");
        assert!(!transfer.abort(), "there is no stream of its own");
    }

    #[test]
    fn a_stream_of_a_shared_connection_stays_open_until_its_answer_is_taken() {
        let cx = Context::from_waker(std::task::Waker::noop());
        for is_shared in [false, true] {
            let transfer = connection(is_shared).begin();
            assert!(!transfer.holds_stream());
            let piece = piece(&transfer);
            assert_eq!(transfer.poll_taken(&cx).is_pending(), is_shared);
            drop(piece);
            assert!(transfer.poll_taken(&cx).is_ready());
        }
    }
}
