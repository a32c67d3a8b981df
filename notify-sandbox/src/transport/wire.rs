//! What the `h2` crate's server cannot say: `SETTINGS` with a new stream limit on an open
//! connection, and `GOAWAY` with a chosen last stream and debug bytes (RFC 9113 sections 6.5, 6.8).
//! A layer below `h2` slips these frames in between two of its own, and keeps the acknowledgements
//! of its own `SETTINGS` from it. Of other frames it touches one field: `:scheme: https:`, which `h2`
//! resets as malformed and Google takes from firebase-admin for Node.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BufMut as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

mod frames;
#[cfg(test)]
mod tests;

use self::frames::{FLAG_ACK, Frames, GOAWAY, HEADER_BYTES, HEADERS, Piece, SETTINGS, put_header};

const PREFACE_BYTES: usize = 24;
const MAX_CONCURRENT_STREAMS: u16 = 0x3;

/// `:scheme: https:` as nghttp2 encodes it (RFC 7541): a literal with the name of index 6, to be indexed,
/// its value in Huffman's code. No other text holds these bytes, but by a chance of 1 in 2^56.
const SCHEME_WITH_COLON: [u8; 7] = [0x46, 0x85, 0x9d, 0x29, 0xad, 0x17, 0x3f];
/// `:scheme: https`, its value as it is: as long, so that nothing else of the frame changes.
const SCHEME: [u8; 7] = *b"\x46\x05https";

/// Bytes read from the connection at a time.
const READ_BYTES: usize = 16_384;

/// Slips frames into a connection; they go out when it is next polled.
#[derive(Debug, Clone, Default)]
pub(super) struct Wire(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Slip>,
    /// For each `SETTINGS` not yet acknowledged: the stream limit if it is ours.
    unacknowledged: VecDeque<Option<u32>>,
    acknowledged_streams: Option<u32>,
}

#[derive(Debug)]
enum Slip {
    Streams(u32),
    Goaway { last: u32, debug: Vec<u8> },
}

impl Wire {
    /// Announces `MAX_CONCURRENT_STREAMS`.
    pub(super) fn announce_streams(&self, limit: u32) {
        self.state().waiting.push_back(Slip::Streams(limit));
    }

    /// Sends `GOAWAY` with `NO_ERROR`.
    pub(super) fn goaway(&self, last: u32, debug: Vec<u8>) {
        self.state().waiting.push_back(Slip::Goaway { last, debug });
    }

    /// The stream limit that the client has acknowledged: only that one binds it.
    pub(super) fn acknowledged_streams(&self) -> Option<u32> {
        self.state().acknowledged_streams
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no holder of the wire's state panics")
    }
}

/// A connection with a [`Wire`].
pub(super) struct Tapped<S> {
    inner: S,
    wire: Wire,
    outgoing: Frames,
    slipping: BytesMut,
    preface_left: usize,
    incoming: Frames,
    /// The payload of a `HEADERS` frame that is not whole yet.
    block: Option<BytesMut>,
    read: Box<[u8]>,
    ready: BytesMut,
}

pub(super) fn tap<S>(inner: S) -> (Tapped<S>, Wire) {
    let wire = Wire::default();
    let tapped = Tapped {
        inner,
        wire: wire.clone(),
        outgoing: Frames::default(),
        slipping: BytesMut::new(),
        preface_left: PREFACE_BYTES,
        incoming: Frames::default(),
        block: None,
        read: vec![0; READ_BYTES].into_boxed_slice(),
        ready: BytesMut::new(),
    };
    (tapped, wire)
}

impl State {
    /// Turns what waits into bytes.
    fn write_slips(&mut self, out: &mut BytesMut) {
        while let Some(slip) = self.waiting.pop_front() {
            match slip {
                Slip::Streams(limit) => {
                    put_header(out, 6, SETTINGS);
                    out.put_u16(MAX_CONCURRENT_STREAMS);
                    out.put_u32(limit);
                    self.unacknowledged.push_back(Some(limit));
                }
                Slip::Goaway { last, debug } => {
                    put_header(out, 8 + debug.len(), GOAWAY);
                    out.put_u32(last);
                    out.put_u32(h2::Reason::NO_ERROR.into());
                    out.put_slice(&debug);
                }
            }
        }
    }

    /// Whether this header belongs to the answer to one of our own frames.
    fn is_ours(&mut self, header: [u8; HEADER_BYTES]) -> bool {
        if header[3] != SETTINGS || header[4] & FLAG_ACK == 0 {
            return false;
        }
        match self.unacknowledged.pop_front().flatten() {
            Some(limit) => {
                self.acknowledged_streams = Some(limit);
                true
            }
            None => false,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Tapped<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while this.ready.is_empty() {
            let mut read = ReadBuf::new(&mut this.read);
            ready!(Pin::new(&mut this.inner).poll_read(cx, &mut read))?;
            let length = read.filled().len();
            if length == 0 {
                return Poll::Ready(Ok(()));
            }
            this.sift(length);
        }
        let length = this.ready.len().min(buffer.remaining());
        buffer.put_slice(&this.ready[..length]);
        this.ready.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl<S> Tapped<S> {
    /// Lets what was read through, without the acknowledgements of our own frames.
    fn sift(&mut self, length: usize) {
        let mut bytes = &self.read[..length];
        let preface = self.preface_left.min(bytes.len());
        self.ready.put_slice(&bytes[..preface]);
        bytes.advance(preface);
        self.preface_left -= preface;
        while !bytes.is_empty() {
            let before = bytes;
            match self.incoming.advance(&mut bytes) {
                Piece::Header(header) if self.wire.state().is_ours(header) => {}
                Piece::Header(header) => {
                    self.ready.put_slice(&header);
                    self.block = (header[3] == HEADERS).then(BytesMut::new);
                }
                Piece::Payload(length) => {
                    let piece = &before[..length];
                    let Some(block) = &mut self.block else {
                        self.ready.put_slice(piece);
                        continue;
                    };
                    block.put_slice(piece);
                    if self.incoming.is_between_frames() {
                        mend_scheme(block);
                        self.ready.put_slice(block);
                        self.block = None;
                    }
                }
                Piece::Partial => {}
            }
        }
    }
}

fn mend_scheme(block: &mut [u8]) {
    let found = block.windows(SCHEME.len()).position(|bytes| bytes == SCHEME_WITH_COLON);
    if let Some(at) = found {
        block[at..at + SCHEME.len()].copy_from_slice(&SCHEME);
    }
}

impl<S: AsyncWrite + Unpin> Tapped<S> {
    /// Between two frames: sends what waits. Otherwise, or when all is sent, it is ready.
    fn poll_slip(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.outgoing.is_between() {
            return Poll::Ready(Ok(()));
        }
        self.wire.state().write_slips(&mut self.slipping);
        while !self.slipping.is_empty() {
            let written = ready!(Pin::new(&mut self.inner).poll_write(cx, &self.slipping))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.slipping.advance(written);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Tapped<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_slip(cx))?;
        // While something waits, no more than to the end of the frame, so that its turn comes.
        let waits = !this.wire.state().waiting.is_empty();
        let most = if waits { this.outgoing.bytes_left() } else { bytes.len() };
        let bytes = &bytes[..bytes.len().min(most)];
        let written = ready!(Pin::new(&mut this.inner).poll_write(cx, bytes))?;
        let mut sent = &bytes[..written];
        while !sent.is_empty() {
            if let Piece::Header(header) = this.outgoing.advance(&mut sent)
                && header[3] == SETTINGS
                && header[4] & FLAG_ACK == 0
            {
                this.wire.state().unacknowledged.push_back(None);
            }
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_slip(cx))?;
        Pin::new(&mut this.inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}
