//! A server that speaks HTTP/2 frame by frame, so that a test controls each frame.

use std::collections::VecDeque;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Duration, interval};

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

/// HPACK for `:status`, from the static table.
pub(super) const OK: u8 = 0x88;
pub(super) const BAD_REQUEST: u8 = 0x8c;

pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

/// The server's end of one connection.
pub(super) struct Peer {
    io: TcpStream,
    /// Requests that arrived while the server waited for another frame.
    requests: VecDeque<u32>,
}

impl Peer {
    /// Accepts a connection and sends SETTINGS, with a stream limit if one is given.
    pub(super) async fn accept(listener: &TcpListener, max_streams: Option<u32>) -> Self {
        let (mut io, _) = listener.accept().await.unwrap();
        // A frame that the kernel delays by real milliseconds would arrive seconds late by the paused
        // clock of these tests.
        io.set_nodelay(true).unwrap();
        let mut preface = [0; 24];
        io.read_exact(&mut preface).await.unwrap();
        assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        let mut peer = Self { io, requests: VecDeque::new() };
        peer.settings(max_streams).await;
        peer
    }

    pub(super) async fn settings(&mut self, max_streams: Option<u32>) {
        let mut payload = Vec::new();
        if let Some(max) = max_streams {
            payload.extend([0, 3]);
            payload.extend(max.to_be_bytes());
        }
        self.send(SETTINGS, 0, 0, &payload).await;
    }

    pub(super) async fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut frame = vec![length[1], length[2], length[3], kind, flags];
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        self.io.write_all(&frame).await.unwrap();
    }

    /// The next frame; `None` if the client has closed the connection.
    pub(super) async fn frame(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.io.read_exact(&mut head).await.ok()?;
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let mut payload = vec![0; length];
        self.io.read_exact(&mut payload).await.ok()?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        let frame = Frame { kind: head[3], flags: head[4], stream, payload };
        if frame.kind == SETTINGS && frame.flags & ACK == 0 {
            self.send(SETTINGS, ACK, 0, &[]).await;
        }
        if matches!(frame.kind, DATA | HEADERS) && frame.flags & END_STREAM != 0 {
            self.requests.push_back(frame.stream);
        }
        Some(frame)
    }

    /// The stream of the next whole request.
    pub(super) async fn request(&mut self) -> u32 {
        while self.requests.is_empty() {
            self.frame().await.expect("the client sends a request");
        }
        self.requests.pop_front().unwrap()
    }

    pub(super) async fn requests(&mut self, count: usize) -> Vec<u32> {
        let mut streams = Vec::new();
        for _ in 0..count {
            streams.push(self.request().await);
        }
        streams
    }

    /// Answers with a status and no body.
    pub(super) async fn answer(&mut self, stream: u32, status: u8) {
        self.send(HEADERS, END_STREAM | END_HEADERS, stream, &[status]).await;
    }

    /// Answers with a status and a body, which may be left open.
    pub(super) async fn answer_with(&mut self, stream: u32, status: u8, body: &[u8], ends: bool) {
        self.send(HEADERS, END_HEADERS, stream, &[status]).await;
        let mut chunks = body.chunks(16_384).peekable();
        while let Some(chunk) = chunks.next() {
            let is_last = chunks.peek().is_none();
            self.send(DATA, u8::from(ends && is_last), stream, chunk).await;
        }
    }

    pub(super) async fn reset(&mut self, stream: u32, code: u32) {
        self.send(RST_STREAM, 0, stream, &code.to_be_bytes()).await;
    }

    pub(super) async fn goaway(&mut self, last_stream: u32, code: u32) {
        let mut payload = last_stream.to_be_bytes().to_vec();
        payload.extend(code.to_be_bytes());
        payload.extend(br#"{"reason":"IdleTimeout"}"#);
        self.send(GOAWAY, 0, 0, &payload).await;
    }

    /// Reads all frames and answers none, until the client closes the connection.
    pub(super) async fn fall_silent(&mut self) {
        let mut sink = [0; 4_096];
        while self.io.read(&mut sink).await.is_ok_and(|read| read > 0) {}
    }

    /// Answers only pings, until the client closes the connection.
    pub(super) async fn only_pong(&mut self) {
        while let Some(frame) = self.frame().await {
            self.pong(&frame).await;
        }
    }

    async fn pong(&mut self, frame: &Frame) {
        if frame.kind == PING && frame.flags & ACK == 0 {
            self.send(PING, ACK, 0, &frame.payload).await;
        }
    }

    /// Stops all bodies from now on (`SETTINGS_INITIAL_WINDOW_SIZE` of 0, RFC 9113 section
    /// 6.5.2); returns once the client knows.
    pub(super) async fn close_windows(&mut self) {
        self.send(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]).await;
        while let Some(frame) = self.frame().await {
            self.pong(&frame).await;
            if frame.kind == SETTINGS && frame.flags & ACK != 0 {
                return;
            }
        }
    }

    /// Sends one byte of a body at each interval, and answers pings, until the client resets the
    /// stream.
    pub(super) async fn dawdle(&mut self, stream: u32, every: Duration) {
        let mut ticks = interval(every);
        let mut first = [0; 1];
        loop {
            tokio::select! {
                _ = ticks.tick() => self.send(DATA, 0, stream, b" ").await,
                _ = self.io.peek(&mut first) => {
                    let Some(frame) = self.frame().await else { return };
                    self.pong(&frame).await;
                    if frame.kind == RST_STREAM {
                        return;
                    }
                }
            }
        }
    }
}

pub(super) fn body() -> Bytes {
    Bytes::from_static(b"{\"aps\":{}}")
}
