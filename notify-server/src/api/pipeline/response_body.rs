//! The body of a response: in memory as a whole, or a stream.

use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt;
use http_body_util::BodyExt;
use http_body_util::combinators::BoxBody;
use hyper::body::{Body, Frame, SizeHint};

use crate::api::pipeline::MemoryPermit;
use crate::api::server::{PIECE_BYTES_MAX, Piece, Transfer};

/// The body of a response.
pub(crate) struct ResponseBody {
    content: Content,
    /// Tracks how fast the client reads it.
    transfer: Option<Arc<Transfer>>,
    /// Its memory, until the last piece is written.
    memory: Option<Arc<MemoryPermit>>,
    /// Dropped at the end of a stream.
    guard: Option<Box<dyn Any + Send>>,
}

enum Content {
    Full(Bytes),
    Stream(BoxBody<Bytes, warp::Error>),
}

impl ResponseBody {
    /// The body of a handler's reply. A body of known length is in memory.
    pub(super) fn new<B>(body: B) -> Self
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
    pub(super) fn len(&self) -> usize {
        match &self.content {
            Content::Full(bytes) => bytes.len(),
            Content::Stream(_) => 0,
        }
    }

    /// The memory that it takes, in bytes. A body that all responses share, such as a page of the
    /// documentation, takes none.
    pub(super) fn owned_bytes(&self) -> usize {
        match &self.content {
            Content::Full(bytes) if bytes.is_unique() => bytes.len(),
            Content::Full(_) | Content::Stream(_) => 0,
        }
    }

    /// Removes the content; memory stays reserved until the response is written.
    pub(super) fn clear(&mut self) {
        self.content = Content::Full(Bytes::new());
    }

    /// Tracks how fast the client reads it.
    pub(crate) fn track(&mut self, transfer: Arc<Transfer>) {
        self.transfer = Some(transfer);
    }

    /// Keeps the memory reserved until the last piece is written.
    pub(super) fn hold_memory(&mut self, permit: MemoryPermit) {
        self.memory = Some(Arc::new(permit));
    }

    /// Keeps a guard, which counts the request as in flight, until the response is complete: at
    /// once for a body in memory, at its end for a stream.
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
                let transfer = self.transfer.as_ref();
                return transfer.map_or(Poll::Ready(()), |it| it.poll_drained(cx)).map(|()| None);
            }
            Content::Full(rest) => {
                let piece = rest.split_to(rest.len().min(PIECE_BYTES_MAX));
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            Content::Stream(stream) => Pin::new(stream).poll_frame(cx),
        };
        let piece = |bytes| Piece::new(bytes, self.transfer.clone(), self.memory.clone());
        frame.map(|frame| frame.map(|frame| frame.map(|frame| frame.map_data(piece))))
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
