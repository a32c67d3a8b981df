//! Reads the body of a request, within its limits of size, time and memory. The limits also hold
//! for chunked bodies, which declare no length.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::api::error::ApiError;
use crate::api::pipeline::memory::MemoryPermit;
use crate::api::server::min_rate::MinRate;
use crate::api::server::timeouts::after;

/// The limits of one body.
pub(super) struct BodyLimits<'a> {
    /// The largest size, in bytes.
    pub(super) bytes_max: usize,
    /// How long the body may arrive more slowly than the minimum rate.
    pub(super) timeout: Duration,
    /// The memory that the body takes.
    pub(super) memory: &'a mut MemoryPermit,
    /// Cancelled when the server stops.
    pub(super) stopping: &'a CancellationToken,
    /// How long the body may still arrive after `stopping` was cancelled.
    pub(super) stop_grace: Duration,
}

/// Reads the whole body.
///
/// # Errors
/// 413, 400 for a body that is too slow or ends early, 503 when memory is short or the server
/// stops.
pub(super) async fn read_body<B>(body: B, limits: BodyLimits<'_>) -> Result<Bytes, ApiError>
where
    B: Body<Data = Bytes> + Unpin,
{
    if body.size_hint().lower() > limits.bytes_max as u64 {
        return Err(ApiError::TooLarge { limit_bytes: limits.bytes_max });
    }
    let cut_off = after(limits.stopping, limits.stop_grace);
    tokio::select! {
        // The body comes first: a body that has arrived completely is read even if the server stops
        // at the same moment.
        biased;
        bytes = read_frames(body, limits) => bytes,
        () = cut_off => Err(ApiError::Stopping),
    }
}

async fn read_frames<B>(mut body: B, limits: BodyLimits<'_>) -> Result<Bytes, ApiError>
where
    B: Body<Data = Bytes> + Unpin,
{
    let BodyLimits { bytes_max, timeout, memory, .. } = limits;
    let started = Instant::now();
    let mut rate = MinRate::start(Duration::ZERO, timeout);
    let mut whole = BytesMut::new();
    loop {
        let next_frame = tokio::time::timeout_at(started + rate.deadline(), body.frame());
        let Some(frame) = next_frame.await.map_err(|_| ApiError::TooSlow)? else { break };
        let frame = frame.map_err(|_| ApiError::invalid("body", "ended before its end"))?;
        let Ok(data) = frame.into_data() else { continue };
        if whole.len() + data.len() > bytes_max {
            return Err(ApiError::TooLarge { limit_bytes: bytes_max });
        }
        memory.grow(data.len())?;
        rate.record(started.elapsed(), data.len());
        // Most bodies are one frame, which needs no copy. Frames of larger bodies are copied,
        // because a frame keeps alive the whole buffer that it was read into.
        if whole.is_empty() && body.is_end_stream() {
            return Ok(data);
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
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
    use crate::api::pipeline::memory::{BodyMemory, Owner};

    const TIMEOUT: Duration = Duration::from_secs(15);
    const WAIT: Duration = Duration::from_secs(1);

    struct Fixture {
        memory: MemoryPermit,
        stopping: CancellationToken,
    }

    impl Fixture {
        fn new() -> Self {
            let bodies = BodyMemory::new(1_048_576);
            let owner = Owner::Client(IpAddr::from([1, 1, 1, 1]));
            let memory = bodies.admit(owner, 0).unwrap();
            Self { memory, stopping: CancellationToken::new() }
        }

        fn limits(&mut self, bytes_max: usize) -> BodyLimits<'_> {
            BodyLimits {
                bytes_max,
                timeout: TIMEOUT,
                memory: &mut self.memory,
                stopping: &self.stopping,
                stop_grace: WAIT,
            }
        }
    }

    /// A body whose frames are sent through a channel.
    fn body() -> (mpsc::Sender<Bytes>, impl Body<Data = Bytes, Error = Infallible> + Unpin) {
        let (sender, mut parts) = mpsc::channel::<Bytes>(4);
        let frames = futures_util::stream::poll_fn(move |cx| {
            parts.poll_recv(cx).map(|part| part.map(|part| Ok(Frame::data(part))))
        });
        (sender, StreamBody::new(frames))
    }

    #[tokio::test]
    async fn reads_a_body_of_one_or_many_frames() {
        let mut fixture = Fixture::new();
        let whole = read_body(Full::new(Bytes::from("abc")), fixture.limits(3)).await.unwrap();
        assert_eq!(whole, "abc");
        let (sender, body) = body();
        sender.send("ab".into()).await.unwrap();
        sender.send("c".into()).await.unwrap();
        drop(sender);
        assert_eq!(read_body(body, fixture.limits(3)).await.unwrap(), "abc");
        let refused =
            read_body(Full::new(Bytes::from("abcd")), fixture.limits(3)).await.unwrap_err();
        assert!(matches!(refused, ApiError::TooLarge { limit_bytes: 3 }));
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_gains_no_time_for_the_rest() {
        let mut fixture = Fixture::new();
        let (sender, body) = body();
        sender.send(vec![b' '; 200_000].into()).await.unwrap();
        let began = Instant::now();
        let refused = read_body(body, fixture.limits(262_144)).await.unwrap_err();
        assert!(matches!(refused, ApiError::TooSlow));
        let took = began.elapsed();
        assert!(took >= TIMEOUT && took < TIMEOUT + WAIT, "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_at_the_minimum_rate_is_read() {
        let mut fixture = Fixture::new();
        let (sender, body) = body();
        let sending = async {
            for _ in 0..60 {
                tokio::time::sleep(Duration::from_secs(1)).await;
                sender.send(vec![b' '; 1_024].into()).await.unwrap();
            }
            drop(sender);
        };
        let (read, ()) = tokio::join!(read_body(body, fixture.limits(1_048_576)), sending);
        assert_eq!(read.unwrap().len(), 61_440);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stopping_server_cuts_off_slow_bodies() {
        let mut fixture = Fixture::new();
        let (_sender, body) = body();
        fixture.stopping.cancel();
        let began = Instant::now();
        let cut = read_body(body, fixture.limits(100)).await.unwrap_err();
        assert!(matches!(cut, ApiError::Stopping));
        assert!(began.elapsed() < WAIT * 2, "{:?}", began.elapsed());
        let arrived = read_body(Full::new(Bytes::from("a")), fixture.limits(100)).now_or_never();
        assert_eq!(arrived.unwrap().unwrap(), "a", "what has arrived is read");
    }
}
