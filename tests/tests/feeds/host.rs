//! A web server on this machine that sends exactly the bytes of the test and records its requests.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// What the host sends after the head and the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// Nothing: the host closes the connection.
    Ends,
    /// Spaces without end, as fast as the client reads.
    Endless,
    /// A space every second.
    Drips,
}

/// A response: the head lines, the body and what follows.
pub(crate) type Reply = (String, Vec<u8>, Then);

/// A host.
pub(crate) struct Host {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
    serving: JoinHandle<()>,
}

impl Host {
    /// Starts a host with a response for each path.
    pub(crate) async fn start(
        answer: impl Fn(&str) -> Reply + Send + Sync + 'static,
    ) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, answer) = (Arc::clone(&requests), Arc::new(answer));
        let serving = tokio::spawn(async move {
            while let Ok((io, _)) = listener.accept().await {
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                tokio::spawn(async move {
                    // An error means that the server has closed the connection.
                    let _ = serve(io, &seen, &*answer).await;
                });
            }
        });
        Ok(Self { address, requests, serving })
    }

    /// The URL of a path on the host.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The received requests in lower case.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(
    mut io: TcpStream,
    seen: &Mutex<Vec<String>>,
    answer: &(impl Fn(&str) -> Reply + Sync),
) -> Result<()> {
    let mut request = vec![0; 4_096];
    let length = io.read(&mut request).await?;
    let request = String::from_utf8_lossy(&request[..length]).to_lowercase();
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    seen.lock().unwrap_or_else(PoisonError::into_inner).push(request);
    let (head, body, then) = answer(&path);
    io.write_all(format!("HTTP/1.1 {head}\r\nconnection: close\r\n\r\n").as_bytes()).await?;
    io.write_all(&body).await?;
    let mut drips = tokio::time::interval(Duration::from_secs(1));
    loop {
        match then {
            Then::Ends => return Ok(()),
            Then::Endless => io.write_all(&[b' '; 65_536]).await?,
            Then::Drips => {
                drips.tick().await;
                io.write_all(b" ").await?;
            }
        }
    }
}

/// An RSS feed of items with these numbers, the newest first.
pub(crate) fn rss(numbers: &[u32]) -> String {
    let items = numbers.iter().map(|number| {
        format!(
            "<item><title>Item {number}</title><link>/{number}</link>\
             <pubDate>Tue, 02 Jun 2026 08:{number:02}:00 GMT</pubDate>\
             <enclosure type=\"image/png\" url=\"/{number}.png\"/></item>"
        )
    });
    format!("<rss version=\"2.0\"><channel>{}</channel></rss>", items.collect::<String>())
}
