//! The bodies of responses, and how fast clients read them.
//!
//! Over HTTP/2 the client's flow-control windows decide what is sent, so the socket alone does not
//! show which stream makes no progress. Each [`ResponseBody`] is therefore handed to hyper in
//! [`Piece`]s, and a piece reports to its [`Transfer`] when it is written. [`MinRate`] decides
//! whether a transfer is too slow.

use std::any::Any;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures_util::FutureExt;
use futures_util::future::AbortHandle;
use futures_util::task::AtomicWaker;
use http_body_util::BodyExt;
use http_body_util::combinators::BoxBody;
use hyper::body::{Body, Frame, SizeHint};

use crate::api::pipeline::memory::MemoryPermit;
use crate::api::server::min_rate::MinRate;
use crate::api::server::streams::current_stream;
use crate::api::server::timeouts::ConnTimeouts;

/// Largest piece of a body: a frame of HTTP/2 by default (RFC 9113 section 6.5.2), in bytes.
const PIECE_BYTES_MAX: usize = 16_384;
/// From this number of tracked transfers on, ended transfers are removed before the list grows.
const TRACKED_MIN: usize = 128;

/// The transfers of one connection.
pub(super) struct Transfers {
    timeouts: Arc<ConnTimeouts>,
    timeout: Duration,
    is_shared: bool,
    /// The transfers of this connection. Ended ones are removed from time to time.
    open: Mutex<Vec<Weak<Transfer>>>,
}

/// The transfer of one response.
pub(crate) struct Transfer {
    timeouts: Arc<ConnTimeouts>,
    timeout: Duration,
    /// Aborts the HTTP/2 stream of the response.
    stream: Option<AbortHandle>,
    /// Whether the connection carries the requests of many clients.
    is_shared: bool,
    progress: Mutex<Progress>,
    /// Wakes the body when no bytes are outstanding any more.
    drained: AtomicWaker,
}

struct Progress {
    /// Bytes that hyper has taken and the socket has not accepted yet.
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
    /// `is_shared` means that the connection belongs to a proxy and carries the requests of many
    /// clients.
    pub(super) fn new(timeouts: Arc<ConnTimeouts>, timeout: Duration, is_shared: bool) -> Self {
        Self { timeouts, timeout, is_shared, open: Mutex::default() }
    }

    /// Starts to track a response. It must be called within the task of the response's stream.
    pub(super) fn start(&self) -> Arc<Transfer> {
        let rate = MinRate::start(self.timeouts.unblocked_time(), self.timeout);
        let transfer = Arc::new(Transfer {
            timeouts: self.timeouts.clone(),
            timeout: self.timeout,
            stream: current_stream(),
            is_shared: self.is_shared,
            progress: Mutex::new(Progress { outstanding: 0, rate, is_aborted: false }),
            drained: AtomicWaker::new(),
        });
        self.add(&transfer);
        transfer
    }

    /// Aborts the streams whose clients read too slowly. Returns false if one of the streams cannot
    /// be aborted alone: then the caller has to close the connection.
    pub(super) fn abort_stuck(&self) -> bool {
        let now = self.timeouts.unblocked_time();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|transfer| transfer.strong_count() > 0);
        for transfer in open.iter().filter_map(Weak::upgrade) {
            if transfer.is_stuck(now) && !transfer.abort() {
                return false;
            }
        }
        true
    }

    /// Aborts all streams whose clients have not read everything.
    pub(super) fn abort_all(&self) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        for transfer in open.iter().filter_map(Weak::upgrade) {
            if transfer.progress().outstanding > 0 {
                transfer.abort();
            }
        }
    }

    /// Adds a transfer. Ended transfers are removed first when the list would have to grow.
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

    /// Resets the stream. Returns false if there is no stream to reset, or if it was reset before.
    fn abort(&self) -> bool {
        let mut progress = self.progress();
        let Some(stream) = self.stream.as_ref().filter(|_| !progress.is_aborted) else {
            return false;
        };
        stream.abort();
        progress.is_aborted = true;
        true
    }

    /// Records that hyper took bytes.
    fn record_handed_out(&self, bytes: usize) {
        let now = self.timeouts.unblocked_time();
        let mut progress = self.progress();
        if progress.outstanding == 0 {
            progress.rate = MinRate::start(now, self.timeout);
        }
        progress.outstanding += bytes;
    }

    /// Records that the socket accepted bytes.
    fn record_written(&self, bytes: usize) {
        let now = self.timeouts.unblocked_time();
        let mut progress = self.progress();
        progress.outstanding -= bytes;
        progress.rate.record(now, bytes);
    }

    /// Records that hyper dropped bytes which it had not written; 0 if it had written them all.
    fn record_dropped(&self, bytes: usize) {
        let is_drained = {
            let mut progress = self.progress();
            progress.outstanding -= bytes;
            progress.outstanding == 0
        };
        if self.is_shared && is_drained {
            self.drained.wake();
        }
    }

    /// Whether the stream has to stay open because the client has not read everything. A stream
    /// that the server has closed can no longer be reset alone: only closing the whole connection
    /// would stop it, and a connection that carries many clients must not be closed because of one
    /// of them.
    fn holds_stream(&self) -> bool {
        self.is_shared && self.progress().outstanding > 0
    }

    /// Ready when [`Self::holds_stream`] is false.
    fn poll_drained(&self, cx: &Context<'_>) -> Poll<()> {
        self.drained.register(cx.waker());
        if self.holds_stream() { Poll::Pending } else { Poll::Ready(()) }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Piece {
    fn new(
        bytes: Bytes,
        transfer: Option<Arc<Transfer>>,
        memory: Option<Arc<MemoryPermit>>,
    ) -> Self {
        if let Some(transfer) = &transfer {
            transfer.record_handed_out(bytes.len());
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
            transfer.record_written(count);
        }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if let Some(transfer) = &self.transfer {
            transfer.record_dropped(self.bytes.len());
        }
    }
}

/// The body of a response.
pub(crate) struct ResponseBody {
    content: Content,
    /// Tracks how fast the client reads the response.
    transfer: Option<Arc<Transfer>>,
    /// The memory of the content, which stays reserved until the last piece is written.
    memory: Option<Arc<MemoryPermit>>,
    /// Counts the request as in flight; dropped at the end of a stream.
    guard: Option<Box<dyn Any + Send>>,
}

enum Content {
    Full(Bytes),
    Stream(BoxBody<Bytes, warp::Error>),
}

impl ResponseBody {
    /// Wraps the body of a handler's reply. A body of known length is in memory already, any other
    /// body is a stream.
    pub(crate) fn new<B>(body: B) -> Self
    where
        B: Body<Data = Bytes, Error = warp::Error> + Send + Sync + 'static,
    {
        if body.size_hint().exact().is_none() {
            return Self::of(Content::Stream(body.boxed()));
        }
        let whole = body.collect().now_or_never().expect("a body in memory is ready");
        Self::of(Content::Full(whole.expect("a body in memory cannot fail").to_bytes()))
    }

    fn of(content: Content) -> Self {
        Self { content, transfer: None, memory: None, guard: None }
    }

    /// The length of a body in memory, in bytes; 0 for a stream.
    pub(crate) fn len(&self) -> usize {
        match &self.content {
            Content::Full(bytes) => bytes.len(),
            Content::Stream(_) => 0,
        }
    }

    /// The memory that the content takes, in bytes. Content that all responses share, such as a
    /// page of the documentation, takes none.
    pub(crate) fn owned_bytes(&self) -> usize {
        match &self.content {
            Content::Full(bytes) if bytes.is_unique() => bytes.len(),
            Content::Full(_) | Content::Stream(_) => 0,
        }
    }

    /// Removes the content. Its memory stays reserved until the response is written.
    pub(crate) fn clear(&mut self) {
        self.content = Content::Full(Bytes::new());
    }

    /// Tracks how fast the client reads the response.
    pub(crate) fn track(&mut self, transfer: Arc<Transfer>) {
        self.transfer = Some(transfer);
    }

    /// Keeps the memory reserved until the last piece is written.
    pub(crate) fn hold_memory(&mut self, permit: MemoryPermit) {
        self.memory = Some(Arc::new(permit));
    }

    /// Keeps a guard, which counts the request as in flight, until the response is complete. A body
    /// in memory is complete at once, a stream at its end.
    pub(crate) fn attach_guard(&mut self, guard: impl Any + Send) {
        match self.content {
            Content::Full(_) => drop(guard),
            Content::Stream(_) => self.guard = Some(Box::new(guard)),
        }
    }

    fn holds_stream(&self) -> bool {
        self.transfer.as_ref().is_some_and(|transfer| transfer.holds_stream())
    }
}

impl Body for ResponseBody {
    type Data = Piece;
    type Error = warp::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Piece>, warp::Error>>> {
        let frame = match &mut self.content {
            Content::Full(rest) if rest.is_empty() => {
                let drained = match &self.transfer {
                    Some(transfer) => transfer.poll_drained(cx),
                    None => Poll::Ready(()),
                };
                return drained.map(|()| None);
            }
            Content::Full(rest) => {
                let piece = rest.split_to(rest.len().min(PIECE_BYTES_MAX));
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            Content::Stream(stream) => Pin::new(stream).poll_frame(cx),
        };
        let piece = |bytes| Piece::new(bytes, self.transfer.clone(), self.memory.clone());
        frame.map_ok(|frame| frame.map_data(piece))
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Full(rest) => rest.is_empty() && !self.holds_stream(),
            Content::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Full(rest) => SizeHint::with_exact(rest.len() as u64),
            Content::Stream(_) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::server::limits::Limits;

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
