//! The body of an answer: whole, or in pieces as they come.

use std::any::Any;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

use super::Room;
use crate::api::serve::{PIECE_BYTES_MAX, Piece, Transfer};

/// The body of an answer.
pub(crate) struct AnswerBody {
    content: Content,
    /// Watches whether the client takes it.
    transfer: Option<Arc<Transfer>>,
    /// What it takes of the memory for answers, until the last piece is written.
    room: Option<Arc<Room>>,
    /// What is in flight as long as pieces come.
    held: Option<Box<dyn Any + Send>>,
}

enum Content {
    Whole(Bytes),
    Pieces(mpsc::Receiver<Bytes>),
}

impl AnswerBody {
    pub(super) fn whole(bytes: Bytes) -> Self {
        Self { content: Content::Whole(bytes), transfer: None, room: None, held: None }
    }

    pub(super) fn pieces(pieces: mpsc::Receiver<Bytes>) -> Self {
        Self { content: Content::Pieces(pieces), transfer: None, room: None, held: None }
    }

    /// Has it watched on its way.
    pub(crate) fn watch(&mut self, transfer: Arc<Transfer>) {
        self.transfer = Some(transfer);
    }

    /// Keeps its room for as long as a piece of it is there.
    pub(super) fn occupy(&mut self, room: Room) {
        self.room = Some(Arc::new(room));
    }

    fn holds_stream(&self) -> bool {
        self.transfer.as_ref().is_some_and(|transfer| transfer.holds_stream())
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
            Content::Whole(rest) if rest.is_empty() => {
                let transfer = self.transfer.as_ref();
                return transfer.map_or(Poll::Ready(()), |it| it.poll_taken(cx)).map(|()| None);
            }
            Content::Whole(rest) => {
                Poll::Ready(Some(rest.split_to(rest.len().min(PIECE_BYTES_MAX))))
            }
            Content::Pieces(pieces) => pieces.poll_recv(cx),
        };
        let piece = |bytes| Piece::new(bytes, self.transfer.clone(), self.room.clone());
        bytes.map(|bytes| bytes.map(|bytes| Ok(Frame::data(piece(bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Whole(rest) => rest.is_empty() && !self.holds_stream(),
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
