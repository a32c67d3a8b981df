//! A reverse proxy that serves a server below a prefix, such as `/tools/notify`, and removes the prefix from
//! the paths that it forwards. It changes nothing in the responses.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// The longest head of a request.
const HEAD_BYTES_MAX: usize = 65_536;
const NOT_FOUND: &str = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// A running proxy. Dropping it closes all connections.
pub struct PrefixProxy {
    /// The origin of the proxy.
    pub origin: String,
    accepting: JoinHandle<()>,
}

impl PrefixProxy {
    /// Listens on a free loopback port. Paths below `prefix` are those of the server at `upstream`; all other
    /// paths are 404.
    ///
    /// # Errors
    /// When there is no free port.
    pub async fn start(upstream: SocketAddr, prefix: &'static str) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let origin = format!("http://{}", listener.local_addr()?);
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(forward(client, upstream, prefix));
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { origin, accepting })
    }
}

impl Drop for PrefixProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Forwards one request and its response.
async fn forward(mut client: TcpStream, upstream: SocketAddr, prefix: &str) -> Result<()> {
    let (head, rest) = read_head(&mut client).await?;
    let (method, target) = head.split_once(' ').context("a request line")?;
    let below = target.strip_prefix(prefix).filter(|below| below.starts_with('/'));
    let Some(below) = below else { return Ok(client.write_all(NOT_FOUND.as_bytes()).await?) };
    let mut server = TcpStream::connect(upstream).await?;
    let head = format!("{method} {below}");
    // The server closes the connection after the response, so that the proxy need not know its length.
    server.write_all(head.trim_end().as_bytes()).await?;
    server.write_all(b"\r\nconnection: close\r\n\r\n").await?;
    server.write_all(&rest).await?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

/// Reads the head of a request. Returns it without `Connection`, and the bytes after it.
async fn read_head(client: &mut TcpStream) -> Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = bytes.split_off(end + 4);
            let text = String::from_utf8(bytes)?;
            let lines = text.trim_end().split("\r\n");
            let kept = lines.filter(|line| !line.to_ascii_lowercase().starts_with("connection:"));
            return Ok((kept.collect::<Vec<_>>().join("\r\n"), rest));
        }
        ensure!(bytes.len() < HEAD_BYTES_MAX, "the head is too long");
        ensure!(client.read_buf(&mut bytes).await? > 0, "the client closed the connection");
    }
}
