//! The body of an answer: whole, or in pieces as they come.

use std::any::Any;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

use crate::api::serve::{PIECE_BYTES_MAX, Piece, Transfer};

/// The body of an answer.
pub(crate) struct AnswerBody {
    content: Content,
    /// Watches whether the client takes it.
    transfer: Option<Arc<Transfer>>,
    /// What is in flight as long as pieces come.
    held: Option<Box<dyn Any + Send>>,
}

enum Content {
    Whole(Bytes),
    Pieces(mpsc::Receiver<Bytes>),
}

impl AnswerBody {
    pub(super) fn whole(bytes: Bytes) -> Self {
        Self { content: Content::Whole(bytes), transfer: None, held: None }
    }

    pub(super) fn pieces(pieces: mpsc::Receiver<Bytes>) -> Self {
        Self { content: Content::Pieces(pieces), transfer: None, held: None }
    }

    /// Its bytes, as far as they are there.
    pub(crate) fn len(&self) -> usize {
        match &self.content {
            Content::Whole(rest) => rest.len(),
            Content::Pieces(_) => 0,
        }
    }

    /// Has it watched on its way.
    pub(crate) fn watch(&mut self, transfer: Option<Arc<Transfer>>) {
        self.transfer = transfer;
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
    type Data = Piece;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Piece>, Infallible>>> {
        let bytes = match &mut self.content {
            Content::Whole(rest) if rest.is_empty() => Poll::Ready(None),
            Content::Whole(rest) => {
                Poll::Ready(Some(rest.split_to(rest.len().min(PIECE_BYTES_MAX))))
            }
            Content::Pieces(pieces) => pieces.poll_recv(cx),
        };
        let transfer = &self.transfer;
        bytes.map(|bytes| bytes.map(|bytes| Ok(Frame::data(Piece::new(bytes, transfer.clone())))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Whole(rest) => rest.is_empty(),
            Content::Pieces(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(rest) => SizeHint::with_exact(rest.len() as u64),
            Content::Pieces(_) => SizeHint::default(),
        }
    }
}
