//! HTTP/2 frames in a stream of bytes (RFC 9113 section 4.1).

use bytes::{Buf as _, BufMut as _, BytesMut};

pub(super) const HEADER_BYTES: usize = 9;
pub(super) const HEADERS: u8 = 0x1;
pub(super) const SETTINGS: u8 = 0x4;
pub(super) const GOAWAY: u8 = 0x7;
const CONTINUATION: u8 = 0x9;
pub(super) const FLAG_ACK: u8 = 0x1;
const FLAG_END_HEADERS: u8 = 0x4;

/// Where in a sequence of frames a stream of bytes stands.
#[derive(Debug, Default)]
pub(super) struct Frames {
    header: [u8; HEADER_BYTES],
    header_read: usize,
    payload_left: usize,
    /// Nothing may come between a header block and its continuation (RFC 9113 section 6.10).
    continues: bool,
}

/// A piece of a sequence of frames.
pub(super) enum Piece {
    /// A header is complete.
    Header([u8; HEADER_BYTES]),
    /// So many bytes of a payload.
    Payload(usize),
    /// The header goes on past these bytes.
    Partial,
}

impl Frames {
    /// Whether a frame may be slipped in here.
    pub(super) fn is_between(&self) -> bool {
        self.is_between_frames() && !self.continues
    }

    /// Whether the last frame is whole, and the next has not begun.
    pub(super) fn is_between_frames(&self) -> bool {
        self.header_read == 0 && self.payload_left == 0
    }

    /// The most bytes that stay within the frame.
    pub(super) fn bytes_left(&self) -> usize {
        if self.payload_left > 0 { self.payload_left } else { HEADER_BYTES - self.header_read }
    }

    /// Takes the next piece off `bytes`, which are not empty.
    pub(super) fn advance(&mut self, bytes: &mut &[u8]) -> Piece {
        let length = self.bytes_left().min(bytes.len());
        if self.payload_left > 0 {
            bytes.advance(length);
            self.payload_left -= length;
            return Piece::Payload(length);
        }
        let end = self.header_read + length;
        bytes.copy_to_slice(&mut self.header[self.header_read..end]);
        self.header_read = end;
        if end < HEADER_BYTES {
            return Piece::Partial;
        }
        self.header_read = 0;
        let [a, b, c, kind, flags, ..] = self.header;
        self.continues = matches!(kind, HEADERS | CONTINUATION) && flags & FLAG_END_HEADERS == 0;
        self.payload_left = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        Piece::Header(self.header)
    }
}

/// Writes the header of a frame on the connection itself.
pub(super) fn put_header(out: &mut BytesMut, payload_bytes: usize, kind: u8) {
    let length = u64::try_from(payload_bytes).expect("frames of our own are short");
    out.put_uint(length, 3);
    out.put_u8(kind);
    out.put_u8(0);
    out.put_u32(0);
}
