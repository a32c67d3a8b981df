//! An endpoint on this machine that behaves as any kind of webhook receiver.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// The behaviour of the endpoint.
#[derive(Debug, Clone)]
pub(crate) enum Mode {
    /// Responds with a status, header lines and a body of this many bytes.
    Answer { status: u16, headers: &'static str, body_bytes: usize },
    /// Never responds.
    Hang,
}

impl Mode {
    /// A response with only a status.
    pub(crate) fn status(status: u16) -> Self {
        Self::Answer { status, headers: "", body_bytes: 0 }
    }
}

/// A received request.
#[derive(Debug, Clone)]
pub(crate) struct Got {
    /// The header fields, with names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    /// The bytes of the body.
    pub(crate) body: Vec<u8>,
}

impl Got {
    /// The value of a header field; empty when the field is absent.
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }
}

/// The running endpoint.
pub(crate) struct Sink {
    /// The origin of the endpoint.
    pub(crate) url: String,
    mode: Arc<Mutex<Mode>>,
    got: Arc<Mutex<Vec<Got>>>,
    task: JoinHandle<()>,
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Sink {
    pub(crate) async fn start(mode: Mode) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/hook", listener.local_addr()?);
        let (mode, got) = (Arc::new(Mutex::new(mode)), Arc::<Mutex<Vec<Got>>>::default());
        let (its_mode, its_got) = (mode.clone(), got.clone());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (mode, got) = (its_mode.clone(), its_got.clone());
                tokio::spawn(async move {
                    // An error means that the client has closed the connection.
                    let _ = serve(stream, &mode, &got).await;
                });
            }
        });
        Ok(Self { url, mode, got, task })
    }

    /// Changes the behaviour from now on.
    pub(crate) fn answers(&self, mode: Mode) {
        *self.mode.lock().unwrap_or_else(PoisonError::into_inner) = mode;
    }

    /// All received requests.
    pub(crate) fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn serve(mut stream: TcpStream, mode: &Mutex<Mode>, got: &Mutex<Vec<Got>>) -> Result<()> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|part| part == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
    };
    let head = String::from_utf8_lossy(&bytes[..head_end]).into_owned();
    let headers: Vec<(String, String)> = head
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: usize = length.context("a length")?.1.parse()?;
    while bytes.len() < head_end + length {
        stream.read_buf(&mut bytes).await?;
    }
    let body = bytes[head_end..].to_vec();
    got.lock().unwrap_or_else(PoisonError::into_inner).push(Got { headers, body });
    let mode = mode.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match mode {
        Mode::Hang => std::future::pending().await,
        Mode::Answer { status, headers, body_bytes } => {
            let head = format!(
                "HTTP/1.1 {status} X\r\n{headers}content-length: {body_bytes}\r\n\
                 connection: close\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(&vec![b'x'; body_bytes]).await?;
            stream.shutdown().await?;
            Ok(())
        }
    }
}
