//! The body of an answer: whole, or in pieces as they come.

use std::any::Any;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

/// The body of an answer.
pub(crate) struct AnswerBody {
    content: Content,
    /// What is in flight as long as pieces come.
    held: Option<Box<dyn Any + Send>>,
}

enum Content {
    Whole(Full<Bytes>),
    Pieces(mpsc::Receiver<Bytes>),
}

impl AnswerBody {
    pub(super) fn whole(bytes: Bytes) -> Self {
        Self { content: Content::Whole(Full::new(bytes)), held: None }
    }

    pub(super) fn pieces(pieces: mpsc::Receiver<Bytes>) -> Self {
        Self { content: Content::Pieces(pieces), held: None }
    }

    /// Keeps what counts the request as in flight for as long as it is: until its answer is there,
    /// or, when it comes in pieces, until the last one.
    pub(crate) fn hold(&mut self, guard: impl Any + Send) {
        match self.content {
            Content::Whole(_) => drop(guard),
            Content::Pieces(_) => self.held = Some(Box::new(guard)),
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.content {
            Content::Whole(whole) => Pin::new(whole).poll_frame(cx),
            Content::Pieces(pieces) => {
                pieces.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Whole(whole) => whole.is_end_stream(),
            Content::Pieces(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(whole) => whole.size_hint(),
            Content::Pieces(_) => SizeHint::default(),
        }
    }
}
