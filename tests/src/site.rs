//! A web site whose files are in memory. It is on `localhost`, because browsers allow service workers without
//! TLS only there.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A running site. Dropping it ends it.
pub struct Site {
    /// The origin of the site.
    pub origin: String,
    serving: JoinHandle<()>,
}

impl Site {
    /// Starts a site on a free port. `files` are pairs of a path and its text.
    ///
    /// # Errors
    /// When there is no free port.
    pub async fn start(files: &[(&str, String)]) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let origin = format!("http://localhost:{}", listener.local_addr()?.port());
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), text.clone()));
        let files: Arc<BTreeMap<String, String>> = Arc::new(files.collect());
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let files = files.clone();
                // An error means that the browser has disconnected.
                tokio::spawn(async move { drop(respond(stream, &files).await) });
            }
        });
        Ok(Self { origin, serving })
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Responds to one request and closes the connection.
async fn respond(stream: TcpStream, files: &BTreeMap<String, String>) -> Result<()> {
    let mut stream = BufReader::new(stream);
    let mut first = String::new();
    stream.read_line(&mut first).await?;
    let mut line = String::from("-");
    while !line.trim().is_empty() {
        line.clear();
        stream.read_line(&mut line).await?;
    }
    let path = first.split([' ', '?']).nth(1).unwrap_or_default();
    let (status, text) = match files.get(path) {
        Some(text) => ("200 OK", text.as_str()),
        None => ("404 Not Found", ""),
    };
    let kind = if path.ends_with(".js") { "text/javascript" } else { "text/html" };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}; charset=utf-8\r\ncontent-length: {}\r\n\
         cache-control: no-store\r\nconnection: close\r\n\r\n",
        text.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(text.as_bytes()).await?;
    stream.shutdown().await?;
    Ok(())
}
