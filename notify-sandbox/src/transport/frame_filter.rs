//! A layer between `h2` and the connection that injects two kinds of frames. The `h2` crate cannot
//! send them: `SETTINGS` with a new stream limit on an open connection, and `GOAWAY` with a chosen
//! last stream and debug data (RFC 9113 sections 6.5, 6.8). The layer injects a frame between two
//! frames of `h2`. It removes the client's acknowledgement of injected settings, which `h2` would
//! treat as an error.
//!
//! The layer also corrects the header field `:scheme: https:`, which firebase-admin for Node sends.
//! Google accepts the field, but `h2` resets such a stream as malformed.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BufMut as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::state::lock;

const HEADER_BYTES: usize = 9;
const HEADERS: u8 = 0x1;
const SETTINGS: u8 = 0x4;
const GOAWAY: u8 = 0x7;
const CONTINUATION: u8 = 0x9;
const FLAG_ACK: u8 = 0x1;
const FLAG_END_HEADERS: u8 = 0x4;

const PREFACE_BYTES: usize = 24;
const MAX_CONCURRENT_STREAMS: u16 = 0x3;

/// `:scheme: https:` as nghttp2 encodes it (RFC 7541): a literal whose name has index 6 and whose value
/// is Huffman-coded. Seven random bytes equal these with a probability of 2^-56.
const SCHEME_WITH_COLON: [u8; 7] = [0x46, 0x85, 0x9d, 0x29, 0xad, 0x17, 0x3f];
/// `:scheme: https` without Huffman coding. It has the same length, so the frame's length stays valid.
const SCHEME: [u8; 7] = *b"\x46\x05https";

/// Bytes read from the connection at a time.
const READ_BYTES: usize = 16_384;

/// Injects frames into a connection. The connection sends them when it is next polled.
#[derive(Debug, Clone, Default)]
pub(crate) struct FrameInjector(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<InjectedFrame>,
    /// One entry for each `SETTINGS` frame that the client has not acknowledged, oldest first: the
    /// stream limit of an injected frame, `None` for a frame of `h2`.
    unacknowledged: VecDeque<Option<u32>>,
    acknowledged_streams: Option<u32>,
}

#[derive(Debug)]
enum InjectedFrame {
    Streams(u32),
    Goaway { last: u32, debug: Vec<u8> },
}

impl FrameInjector {
    /// Announces `MAX_CONCURRENT_STREAMS`.
    pub(crate) fn announce_streams(&self, limit: u32) {
        self.state().waiting.push_back(InjectedFrame::Streams(limit));
    }

    /// Sends `GOAWAY` with `NO_ERROR`.
    pub(crate) fn goaway(&self, last: u32, debug: Vec<u8>) {
        self.state().waiting.push_back(InjectedFrame::Goaway { last, debug });
    }

    /// The last stream limit that the client has acknowledged. A client need not keep a limit before
    /// it has acknowledged the limit.
    pub(crate) fn acknowledged_streams(&self) -> Option<u32> {
        self.state().acknowledged_streams
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }
}

/// A connection with a [`FrameInjector`].
pub(crate) struct FilteredStream<S> {
    inner: S,
    injector: FrameInjector,
    outgoing: FrameScanner,
    pending: BytesMut,
    preface_left: usize,
    incoming: FrameScanner,
    /// The payload of a `HEADERS` frame that is not complete yet.
    block: Option<BytesMut>,
    read: Box<[u8]>,
    ready: BytesMut,
}

pub(crate) fn filter<S>(inner: S) -> (FilteredStream<S>, FrameInjector) {
    let injector = FrameInjector::default();
    let filtered = FilteredStream {
        inner,
        injector: injector.clone(),
        outgoing: FrameScanner::default(),
        pending: BytesMut::new(),
        preface_left: PREFACE_BYTES,
        incoming: FrameScanner::default(),
        block: None,
        read: vec![0; READ_BYTES].into_boxed_slice(),
        ready: BytesMut::new(),
    };
    (filtered, injector)
}

impl State {
    /// Encodes the waiting frames.
    fn encode_waiting(&mut self, out: &mut BytesMut) {
        while let Some(frame) = self.waiting.pop_front() {
            match frame {
                InjectedFrame::Streams(limit) => {
                    put_header(out, 6, SETTINGS);
                    out.put_u16(MAX_CONCURRENT_STREAMS);
                    out.put_u32(limit);
                    self.unacknowledged.push_back(Some(limit));
                }
                InjectedFrame::Goaway { last, debug } => {
                    put_header(out, 8 + debug.len(), GOAWAY);
                    out.put_u32(last);
                    out.put_u32(h2::Reason::NO_ERROR.into());
                    out.put_slice(&debug);
                }
            }
        }
    }

    /// Notes an acknowledgement if this frame header is one. Returns whether the acknowledged frame was
    /// injected, so that `h2` must not see the acknowledgement.
    fn note_acknowledgement(&mut self, header: [u8; HEADER_BYTES]) -> bool {
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

impl<S: AsyncRead + Unpin> AsyncRead for FilteredStream<S> {
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
            this.filter_incoming(length);
        }
        let length = this.ready.len().min(buffer.remaining());
        buffer.put_slice(&this.ready[..length]);
        this.ready.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl<S> FilteredStream<S> {
    /// Moves the first `length` bytes of the read buffer to `ready`. Leaves out the acknowledgements of
    /// injected frames and corrects the scheme in complete `HEADERS` frames.
    fn filter_incoming(&mut self, length: usize) {
        let mut bytes = &self.read[..length];
        let preface = self.preface_left.min(bytes.len());
        self.ready.put_slice(&bytes[..preface]);
        bytes.advance(preface);
        self.preface_left -= preface;
        while !bytes.is_empty() {
            let before = bytes;
            match self.incoming.advance(&mut bytes) {
                FramePart::Header(header) if self.injector.state().note_acknowledgement(header) => {
                }
                FramePart::Header(header) => {
                    self.ready.put_slice(&header);
                    self.block = (header[3] == HEADERS).then(BytesMut::new);
                }
                FramePart::Payload(length) => {
                    let piece = &before[..length];
                    let Some(block) = &mut self.block else {
                        self.ready.put_slice(piece);
                        continue;
                    };
                    block.put_slice(piece);
                    if self.incoming.is_between_frames() {
                        fix_scheme(block);
                        self.ready.put_slice(block);
                        self.block = None;
                    }
                }
                FramePart::Partial => {}
            }
        }
    }
}

fn fix_scheme(block: &mut [u8]) {
    let start = block.windows(SCHEME.len()).position(|bytes| bytes == SCHEME_WITH_COLON);
    if let Some(start) = start {
        block[start..start + SCHEME.len()].copy_from_slice(&SCHEME);
    }
}

impl<S: AsyncWrite + Unpin> FilteredStream<S> {
    /// Sends the waiting frames if the connection is between two frames.
    fn poll_inject(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.outgoing.may_inject() {
            return Poll::Ready(Ok(()));
        }
        self.injector.state().encode_waiting(&mut self.pending);
        while !self.pending.is_empty() {
            let written = ready!(Pin::new(&mut self.inner).poll_write(cx, &self.pending))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.pending.advance(written);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for FilteredStream<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_inject(cx))?;
        // While an injected frame waits, the write stops at the end of the current frame of `h2`.
        let is_frame_waiting = !this.injector.state().waiting.is_empty();
        let bytes_max = if is_frame_waiting { this.outgoing.bytes_left() } else { bytes.len() };
        let bytes = &bytes[..bytes.len().min(bytes_max)];
        let written = ready!(Pin::new(&mut this.inner).poll_write(cx, bytes))?;
        let mut sent = &bytes[..written];
        while !sent.is_empty() {
            if let FramePart::Header(header) = this.outgoing.advance(&mut sent)
                && header[3] == SETTINGS
                && header[4] & FLAG_ACK == 0
            {
                this.injector.state().unacknowledged.push_back(None);
            }
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_inject(cx))?;
        Pin::new(&mut this.inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}

/// Tracks the frame boundaries in a stream of bytes (RFC 9113 section 4.1).
#[derive(Debug, Default)]
struct FrameScanner {
    header: [u8; HEADER_BYTES],
    header_read: usize,
    payload_left: usize,
    /// Whether the next frame must be a `CONTINUATION` of the header block. No other frame may come
    /// before it (RFC 9113 section 6.10).
    expects_continuation: bool,
}

/// A part of a frame.
enum FramePart {
    /// A complete header.
    Header([u8; HEADER_BYTES]),
    /// This many bytes of a payload.
    Payload(usize),
    /// A part of a header.
    Partial,
}

impl FrameScanner {
    /// Whether a frame may be injected here.
    fn may_inject(&self) -> bool {
        self.is_between_frames() && !self.expects_continuation
    }

    /// Whether the last frame is complete and the next one has not started.
    fn is_between_frames(&self) -> bool {
        self.header_read == 0 && self.payload_left == 0
    }

    /// The bytes until the end of the current header or payload.
    fn bytes_left(&self) -> usize {
        if self.payload_left > 0 { self.payload_left } else { HEADER_BYTES - self.header_read }
    }

    /// Takes the next part off `bytes`, which must not be empty.
    fn advance(&mut self, bytes: &mut &[u8]) -> FramePart {
        let length = self.bytes_left().min(bytes.len());
        if self.payload_left > 0 {
            bytes.advance(length);
            self.payload_left -= length;
            return FramePart::Payload(length);
        }
        let end = self.header_read + length;
        bytes.copy_to_slice(&mut self.header[self.header_read..end]);
        self.header_read = end;
        if end < HEADER_BYTES {
            return FramePart::Partial;
        }
        self.header_read = 0;
        let [a, b, c, kind, flags, ..] = self.header;
        self.expects_continuation =
            matches!(kind, HEADERS | CONTINUATION) && flags & FLAG_END_HEADERS == 0;
        self.payload_left = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        FramePart::Header(self.header)
    }
}

/// Writes the header of a frame on stream 0, which stands for the whole connection.
fn put_header(out: &mut BytesMut, payload_bytes: usize, kind: u8) {
    let length = u64::try_from(payload_bytes).expect("injected frames are short");
    out.put_uint(length, 3);
    out.put_u8(kind);
    out.put_u8(0);
    out.put_u32(0);
}
