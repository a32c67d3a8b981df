//! A load generator that costs little CPU. It uses HTTP/1.1 with persistent connections, sends prepared
//! bytes and parses only the status and the length of a response. Any status except 200 ends the run,
//! because failed requests would falsify the figures.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::proc::{Cost, cpu_us};

/// The initial size of the buffer for a response, in bytes.
const BUFFER_BYTES: usize = 16_384;

/// Writes the request with this number, counted from 0 in each phase.
pub(crate) type MakeRequest = Arc<dyn Fn(u64, &mut Vec<u8>) + Send + Sync>;

/// A persistent connection.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::with_capacity(BUFFER_BYTES) })
    }

    /// Sends a request, reads the response, and returns its status and body.
    pub(crate) async fn exchange(&mut self, request: &[u8]) -> anyhow::Result<(u16, &[u8])> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        let head = loop {
            if let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            self.read().await?;
        };
        let text = std::str::from_utf8(&self.buffer[..head])?;
        let status = text.split(' ').nth(1).context("a status")?.parse()?;
        let length = text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>())
        });
        let end = head + length.context("a response with a length")??;
        while self.buffer.len() < end {
            self.read().await?;
        }
        Ok((status, &self.buffer[head..end]))
    }

    /// A header of the last response.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let end = self.buffer.windows(4).position(|four| four == b"\r\n\r\n")?;
        let mut lines = std::str::from_utf8(&self.buffer[..end]).ok()?.lines();
        lines.find_map(|line| {
            let (given, value) = line.split_once(':')?;
            given.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    async fn read(&mut self) -> anyhow::Result<()> {
        if self.stream.read_buf(&mut self.buffer).await? == 0 {
            bail!("the server closed a connection");
        }
        Ok(())
    }
}

/// Appends a request to `into`. A body gets the headers of JSON.
pub(crate) fn write_request(
    into: &mut Vec<u8>,
    (method, path): (&str, &str),
    headers: &[(&str, &str)],
    body: &[u8],
) {
    into.extend_from_slice(format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\n").as_bytes());
    for (name, value) in headers {
        into.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    if !body.is_empty() {
        let length = body.len();
        let heads = format!("content-type: application/json\r\ncontent-length: {length}\r\n");
        into.extend_from_slice(heads.as_bytes());
    }
    into.extend_from_slice(b"\r\n");
    into.extend_from_slice(body);
}

/// Sends one request with a JSON body and parses the JSON response.
pub(crate) async fn call(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<&Value>,
) -> anyhow::Result<Value> {
    let body = body.map(Value::to_string).unwrap_or_default();
    let mut request = Vec::new();
    write_request(&mut request, (method, path), headers, body.as_bytes());
    let mut connection = Connection::open(address).await?;
    let (status, answer) = connection.exchange(&request).await?;
    if status != 200 {
        bail!("{method} {path}: {status} {}", String::from_utf8_lossy(answer));
    }
    Ok(serde_json::from_slice(answer)?)
}

/// The body of the response to a GET without a key.
pub(crate) async fn text(address: SocketAddr, path: &str) -> anyhow::Result<String> {
    let mut request = Vec::new();
    write_request(&mut request, ("GET", path), &[], b"");
    let mut connection = Connection::open(address).await?;
    let (status, answer) = connection.exchange(&request).await?;
    ensure!(status == 200, "GET {path}: {status}");
    Ok(String::from_utf8(answer.to_vec())?)
}

/// Sends requests over `connections` connections, each without a pause, for the time `lasting`. The CPU
/// time in the result is that of the process in `target`.
pub(crate) async fn load(
    target: (SocketAddr, u32),
    connections: usize,
    lasting: Duration,
    make: &MakeRequest,
) -> anyhow::Result<Cost> {
    Ok(load_timed(target, connections, lasting, make).await?.0)
}

/// Like [`load`], and returns also the duration of each request, in no particular order.
pub(crate) async fn load_timed(
    (address, pid): (SocketAddr, u32),
    connections: usize,
    lasting: Duration,
    make: &MakeRequest,
) -> anyhow::Result<(Cost, Vec<Duration>)> {
    let mut opened = Vec::new();
    for _ in 0..connections {
        opened.push(Connection::open(address).await?);
    }
    let numbers = Arc::new(AtomicU64::new(0));
    let cpu_before = cpu_us(pid)?;
    let started = Instant::now();
    let until = started + lasting;
    let mut tasks = tokio::task::JoinSet::new();
    for connection in opened {
        tasks.spawn(keep_busy(connection, until, Arc::clone(&numbers), Arc::clone(make)));
    }
    let mut durations = Vec::new();
    while let Some(done) = tasks.join_next().await {
        durations.extend(done??);
    }
    let wall = started.elapsed();
    let cost = Cost { count: durations.len() as u64, wall, cpu_us: cpu_us(pid)? - cpu_before };
    Ok((cost, durations))
}

async fn keep_busy(
    mut connection: Connection,
    until: Instant,
    numbers: Arc<AtomicU64>,
    make: MakeRequest,
) -> anyhow::Result<Vec<Duration>> {
    let mut request = Vec::with_capacity(BUFFER_BYTES);
    let (mut durations, mut began) = (Vec::new(), Instant::now());
    while began < until {
        request.clear();
        make(numbers.fetch_add(1, Ordering::Relaxed), &mut request);
        let (status, body) = connection.exchange(&request).await?;
        if status != 200 {
            bail!("{status} {}", String::from_utf8_lossy(body));
        }
        let ended = Instant::now();
        durations.push(ended - began);
        began = ended;
    }
    Ok(durations)
}
