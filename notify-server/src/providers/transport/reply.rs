//! An answer, read within bounds: whoever answers may not be who was meant.

use bytes::{Bytes, BytesMut};
use h2::RecvStream;
use http::{HeaderMap, StatusCode};
use tokio::time::{Instant, timeout_at};

use crate::providers::ANSWER_BYTES_MAX;

/// What the server answered.
#[derive(Debug)]
pub(crate) struct Reply {
    /// Status.
    pub(crate) status: StatusCode,
    /// Header fields.
    pub(crate) headers: HeaderMap,
    /// Body, at most [`ANSWER_BYTES_MAX`] of it; less when it broke off or took too long.
    pub(crate) body: Bytes,
    /// Which connection it came by; see `Pool::retire`.
    pub(crate) connection: u64,
}

/// Reads a body until it ends, breaks off, is too long or too slow: the status has told what
/// matters, and a message that was taken must not be repeated for the rest of an answer. Dropping the
/// stream afterwards cancels what is left of it.
pub(super) async fn read_body(mut stream: RecvStream, deadline: Instant) -> Bytes {
    if stream.is_end_stream() {
        return Bytes::new();
    }
    let mut body = Body::default();
    while let Ok(Some(Ok(chunk))) = timeout_at(deadline, stream.data()).await {
        // Fails only on a stream that is gone, which the next read tells as well.
        let _ = stream.flow_control().release_capacity(chunk.len());
        if body.is_full_after(chunk) {
            break;
        }
    }
    body.finish()
}

/// A body as it comes in; one chunk is taken as it is.
#[derive(Default)]
pub(super) struct Body {
    first: Bytes,
    rest: BytesMut,
}

impl Body {
    /// Takes a chunk, up to the limit; tells whether the limit is reached.
    pub(super) fn is_full_after(&mut self, mut chunk: Bytes) -> bool {
        let room = ANSWER_BYTES_MAX - self.first.len().max(self.rest.len());
        chunk.truncate(room);
        let is_full = chunk.len() == room;
        if self.first.is_empty() && self.rest.is_empty() {
            self.first = chunk;
        } else {
            if self.rest.is_empty() {
                self.rest.extend_from_slice(&std::mem::take(&mut self.first));
            }
            self.rest.extend_from_slice(&chunk);
        }
        is_full
    }

    pub(super) fn finish(self) -> Bytes {
        if self.rest.is_empty() { self.first } else { self.rest.freeze() }
    }
}
