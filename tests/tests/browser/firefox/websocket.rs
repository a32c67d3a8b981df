//! The part of a WebSocket server (RFC 6455) that a browser needs to receive messages: the
//! handshake, texts in one frame each, pings and the close.

use anyhow::{Context, Result, bail, ensure};
use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// The text that is hashed with every key (RFC 6455 section 1.3).
const GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// The longest frame and the longest head that this server accepts from a browser, in bytes.
const FRAME_BYTES_MAX: u64 = 65_536;
const HEAD_BYTES_MAX: usize = 16_384;
const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// The reading half.
pub(super) struct Incoming(BufReader<OwnedReadHalf>);

/// The writing half.
pub(super) struct Outgoing(OwnedWriteHalf);

/// A frame from the browser.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    Text(String),
    Ping(Vec<u8>),
    Close,
}

/// Does the handshake.
pub(super) async fn accept(stream: TcpStream) -> Result<(Incoming, Outgoing)> {
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(read.read_u8().await?);
        ensure!(head.len() <= HEAD_BYTES_MAX, "a head without end");
    }
    let head = String::from_utf8(head)?;
    let fields = head.lines().filter_map(|line| line.split_once(": "));
    let mut keys = fields.filter(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-key"));
    let (_, key) = keys.next().context("a key")?;
    // The protocol requires SHA-1 for the handshake. No security depends on the hash.
    let text = format!("{key}{GUID}");
    let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
         sec-websocket-protocol: push-notification\r\nsec-websocket-accept: {}\r\n\r\n",
        STANDARD.encode(hash)
    );
    write.write_all(answer.as_bytes()).await?;
    Ok((Incoming(read), Outgoing(write)))
}

impl Incoming {
    /// The next frame that is not a pong.
    pub(super) async fn next(&mut self) -> Result<Frame> {
        loop {
            let (kind, bytes) = self.frame().await?;
            return Ok(match kind {
                TEXT => Frame::Text(String::from_utf8(bytes)?),
                PING => Frame::Ping(bytes),
                CLOSE => Frame::Close,
                PONG => continue,
                other => bail!("a frame of type {other}"),
            });
        }
    }

    async fn frame(&mut self) -> Result<(u8, Vec<u8>)> {
        let first = self.0.read_u8().await?;
        ensure!(first & 0x80 != 0, "a text in several frames");
        let second = self.0.read_u8().await?;
        ensure!(second & 0x80 != 0, "a browser masks what it sends");
        let length = match second & 0x7f {
            126 => u64::from(self.0.read_u16().await?),
            127 => self.0.read_u64().await?,
            short => u64::from(short),
        };
        ensure!(length <= FRAME_BYTES_MAX, "a frame of {length} bytes");
        let mut mask = [0; 4];
        self.0.read_exact(&mut mask).await?;
        let mut bytes = vec![0; usize::try_from(length)?];
        self.0.read_exact(&mut bytes).await?;
        for (byte, mask) in bytes.iter_mut().zip(mask.iter().cycle()) {
            *byte ^= mask;
        }
        Ok((first & 0x0f, bytes))
    }
}

impl Outgoing {
    /// Sends a text.
    pub(super) async fn text(&mut self, text: &str) -> Result<()> {
        self.frame(TEXT, text.as_bytes()).await
    }

    /// Responds to a ping.
    pub(super) async fn pong(&mut self, bytes: &[u8]) -> Result<()> {
        self.frame(PONG, bytes).await
    }

    async fn frame(&mut self, kind: u8, bytes: &[u8]) -> Result<()> {
        let mut frame = vec![0x80 | kind];
        match u8::try_from(bytes.len()) {
            Ok(short) if short < 126 => frame.push(short),
            _ => {
                frame.push(126);
                frame.extend_from_slice(&u16::try_from(bytes.len())?.to_be_bytes());
            }
        }
        frame.extend_from_slice(bytes);
        Ok(self.0.write_all(&frame).await?)
    }
}
