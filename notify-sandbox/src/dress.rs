//! What a rule changes of an answer, whoever gives it: header fields, the body, and what comes after
//! it. For answers that no provider should give, and that somebody will.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{HeaderName, HeaderValue};

use super::exchange::{Deed, Verdict};

/// What a rule puts on an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Dress {
    /// Header fields, in place of those of that name.
    pub(super) headers: BTreeMap<String, String>,
    /// The body, in place of the answer's own.
    pub(super) body: Option<String>,
    /// What comes after the body.
    pub(super) tail: Tail,
}

/// Bytes without meaning after a body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tail {
    /// How many.
    pub(super) bytes: u64,
    /// They come one by one, so slowly; as fast as they are taken when 0.
    pub(super) every_ms: u64,
}

/// The most bytes sent at a time: a frame's.
const PIECE_BYTES_MAX: usize = 16_384;
static FILLING: [u8; PIECE_BYTES_MAX] = [b'x'; PIECE_BYTES_MAX];

impl Tail {
    /// How many bytes go out next.
    pub(super) fn next_bytes(self) -> usize {
        let most = if self.every_ms > 0 { 1 } else { PIECE_BYTES_MAX };
        usize::try_from(self.bytes).map_or(most, |left| left.min(most))
    }

    /// Takes the next bytes off, no more than there is room for.
    pub(super) fn take(&mut self, room: usize) -> Bytes {
        let bytes = self.next_bytes().min(room);
        self.bytes -= bytes as u64;
        Bytes::from_static(&FILLING[..bytes])
    }
}

/// A header field, when it is one.
pub(super) fn header(name: &str, value: &str) -> Option<(HeaderName, HeaderValue)> {
    Some((name.parse().ok()?, value.parse().ok()?))
}

impl Verdict {
    /// The same with what a rule puts on its answer; a fault has none.
    pub(super) fn dressed(mut self, dress: &Dress) -> Self {
        if let Deed::Answer(response) = &mut self.deed {
            for (name, value) in &dress.headers {
                let (name, value) = header(name, value).expect("rules are checked when added");
                response.headers_mut().insert(name, value);
            }
            if let Some(body) = &dress.body {
                *response.body_mut() = Bytes::from(body.clone());
            }
            self.tail = dress.tail;
        }
        self
    }
}
