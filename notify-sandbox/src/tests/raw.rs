//! HTTP/2 frame by frame, for what no well-behaved client does or shows.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::WITHIN;
use super::client::tls;
use crate::sandbox::Sandbox;

pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const GOAWAY: u8 = 7;

/// The flag of an acknowledgement.
pub(super) const ACK: u8 = 0x1;

/// The flags of a request without a body.
pub(super) const END: u8 = 0x5;

/// An error code.
pub(super) const REFUSED_STREAM: u8 = 7;

/// `GET https /token`, authority `x`, in HPACK without the dynamic table.
pub(super) const GET_TOKEN: &[u8] = b"\x82\x87\x04\x06/token\x01\x01x";

pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

/// A connection over TLS that has sent its preface and empty settings.
pub(super) struct Raw(TlsStream<TcpStream>);

impl Raw {
    pub(super) async fn connect(sandbox: &Sandbox) -> Self {
        let mut raw = Self(tls(sandbox, b"h2").await);
        raw.0.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        raw.write(SETTINGS, 0, 0, b"").await;
        raw
    }

    pub(super) async fn write(&mut self, kind: u8, flags: u8, stream: u8, payload: &[u8]) {
        let length = u8::try_from(payload.len()).unwrap();
        self.0.write_all(&[0, 0, length, kind, flags, 0, 0, 0, stream]).await.unwrap();
        self.0.write_all(payload).await.unwrap();
    }

    /// The next frame that is wanted; others are passed over.
    pub(super) async fn read_until(&mut self, is_wanted: impl Fn(&Frame) -> bool) -> Frame {
        let reading = async {
            loop {
                let frame = self.read().await;
                if is_wanted(&frame) {
                    return frame;
                }
            }
        };
        tokio::time::timeout(WITHIN, reading).await.expect("the frame comes in time")
    }

    async fn read(&mut self) -> Frame {
        let mut header = [0; 9];
        self.0.read_exact(&mut header).await.unwrap();
        let [a, b, c, kind, _, stream @ ..] = header;
        let mut payload = vec![0; usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c)];
        self.0.read_exact(&mut payload).await.unwrap();
        Frame { kind, stream: u32::from_be_bytes(stream), payload }
    }
}
