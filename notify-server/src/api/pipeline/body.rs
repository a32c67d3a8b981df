//! Reads a body whole, within its limits of size, time and room. Works for chunked bodies, which have
//! no length beforehand.

use std::any::Any;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::api::error::ApiError;
use crate::api::pipeline::Room;
use crate::api::server::min_rate::Pace;
use crate::api::server::{PIECE_BYTES_MAX, Piece, Transfer};

/// How one body is read.
pub(super) struct Reading<'a> {
    /// Most bytes.
    pub(super) bytes_max: usize,
    /// Time for it, unless it comes at the least rate.
    pub(super) timeout: Duration,
    /// What it takes of the bound of all bodies.
    pub(super) room: &'a mut Room,
    /// The server stops.
    pub(super) stopping: &'a CancellationToken,
    /// Time that is left to it then.
    pub(super) stopping_wait: Duration,
}

/// The whole body.
pub(super) async fn collect<B>(body: B, reading: Reading<'_>) -> Result<Bytes, ApiError>
where
    B: Body<Data = Bytes> + Unpin,
{
    let too_large = ApiError::TooLarge { limit_bytes: reading.bytes_max };
    if body.size_hint().lower() > reading.bytes_max as u64 {
        return Err(too_large);
    }
    let (stopping, wait) = (reading.stopping, reading.stopping_wait);
    let cut = async {
        stopping.cancelled().await;
        tokio::time::sleep(wait).await;
    };
    tokio::select! {
        // What is there already is taken.
        biased;
        read = read(body, reading) => read,
        () = cut => Err(ApiError::Stopping),
    }
}

async fn read<B>(mut body: B, reading: Reading<'_>) -> Result<Bytes, ApiError>
where
    B: Body<Data = Bytes> + Unpin,
{
    let Reading { bytes_max, timeout, room, .. } = reading;
    let started = Instant::now();
    let mut pace = Pace::begin(Duration::ZERO, timeout);
    let mut all = BytesMut::new();
    loop {
        let frame = tokio::time::timeout_at(started + pace.deadline(), body.frame());
        let Some(frame) = frame.await.map_err(|_| ApiError::TooSlow)? else { break };
        let frame = frame.map_err(|_| ApiError::invalid("body", "ended before its end"))?;
        let Ok(part) = frame.into_data() else { continue };
        if all.len() + part.len() > bytes_max {
            return Err(ApiError::TooLarge { limit_bytes: bytes_max });
        }
        room.take(part.len())?;
        pace.moved(started.elapsed(), part.len());
        // Most bodies come in one part, which needs no copy. A part of more to come is copied: it
        // keeps the whole buffer that it was read into.
        if all.is_empty() && body.is_end_stream() {
            return Ok(part);
        }
        all.extend_from_slice(&part);
    }
    Ok(all.freeze())
}

// The body of an answer: whole, or in pieces as they come.

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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::net::IpAddr;

    use futures_util::FutureExt;
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;
    use tokio::sync::mpsc;

    use super::*;
    use crate::api::pipeline::memory::{Bodies, Owner};

    const TIMEOUT: Duration = Duration::from_secs(15);
    const WAIT: Duration = Duration::from_secs(1);

    struct Rig {
        room: Room,
        stopping: CancellationToken,
    }

    impl Rig {
        fn new() -> Self {
            let bodies = Bodies::new(1_048_576);
            let room = bodies.enter(Owner::Client(IpAddr::from([1, 1, 1, 1])), 0).unwrap();
            Self { room, stopping: CancellationToken::new() }
        }

        fn reading(&mut self, bytes_max: usize) -> Reading<'_> {
            Reading {
                bytes_max,
                timeout: TIMEOUT,
                room: &mut self.room,
                stopping: &self.stopping,
                stopping_wait: WAIT,
            }
        }
    }

    /// A body whose parts come as they are sent, and its sender.
    fn body() -> (mpsc::Sender<Bytes>, impl Body<Data = Bytes, Error = Infallible> + Unpin) {
        let (sender, mut parts) = mpsc::channel::<Bytes>(4);
        let frames = futures_util::stream::poll_fn(move |cx| {
            parts.poll_recv(cx).map(|part| part.map(|part| Ok(Frame::data(part))))
        });
        (sender, StreamBody::new(frames))
    }

    #[tokio::test]
    async fn a_body_is_read_whole_in_one_part_or_many() {
        let mut rig = Rig::new();
        let whole = collect(Full::new(Bytes::from("abc")), rig.reading(3)).await.unwrap();
        assert_eq!(whole, "abc");
        let (sender, body) = body();
        sender.send("ab".into()).await.unwrap();
        sender.send("c".into()).await.unwrap();
        drop(sender);
        assert_eq!(collect(body, rig.reading(3)).await.unwrap(), "abc");
        let refused = collect(Full::new(Bytes::from("abcd")), rig.reading(3)).await.unwrap_err();
        assert!(matches!(refused, ApiError::TooLarge { limit_bytes: 3 }));
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_earns_no_time_for_the_rest() {
        let mut rig = Rig::new();
        let (sender, body) = body();
        sender.send(vec![b' '; 200_000].into()).await.unwrap();
        let began = Instant::now();
        let refused = collect(body, rig.reading(262_144)).await.unwrap_err();
        assert!(matches!(refused, ApiError::TooSlow));
        let took = began.elapsed();
        assert!(took >= TIMEOUT && took < TIMEOUT + WAIT, "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_at_the_least_rate_takes_its_time() {
        let mut rig = Rig::new();
        let (sender, body) = body();
        let sending = async {
            for _ in 0..60 {
                tokio::time::sleep(Duration::from_secs(1)).await;
                sender.send(vec![b' '; 1_024].into()).await.unwrap();
            }
            drop(sender);
        };
        let (read, ()) = tokio::join!(collect(body, rig.reading(1_048_576)), sending);
        assert_eq!(read.unwrap().len(), 61_440);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_cuts_what_does_not_come_soon() {
        let mut rig = Rig::new();
        let (_sender, body) = body();
        rig.stopping.cancel();
        let began = Instant::now();
        let cut = collect(body, rig.reading(100)).await.unwrap_err();
        assert!(matches!(cut, ApiError::Stopping));
        assert!(began.elapsed() < WAIT * 2, "{:?}", began.elapsed());
        let there = collect(Full::new(Bytes::from("a")), rig.reading(100)).now_or_never();
        assert_eq!(there.unwrap().unwrap(), "a", "what is there is taken");
    }
}
