//! A low limit of open files. Connections leave a reserve, and one address cannot use all connections.

use std::fs;
use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use notify_tests::{Launch, WAIT_MAX, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// The hard limit of open files. The soft limit is lower, and the server raises it.
const LIMIT: &str = "ulimit -Sn 100 && ulimit -Hn 256 && exec \"$0\" \"$@\"";
/// The connections with a limit of 256 open files, and the half of them that one address may use.
const CONNECTIONS_MAX: usize = 192;
const ADDRESS_MAX: usize = CONNECTIONS_MAX / 2;
const REQUEST: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n";

/// Opens a connection from an address of this machine. Returns it after a response, or `None` if it was
/// closed.
async fn served(from: &str, server: SocketAddr) -> Result<Option<TcpStream>> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(from.parse()?, 0))?;
    let mut stream = socket.connect(server).await?;
    let answering = async {
        stream.write_all(REQUEST).await?;
        let mut answer = [0; 1_024];
        let read = stream.read(&mut answer).await?;
        std::io::Result::Ok(answer[..read].starts_with(b"HTTP/1.1 200 "))
    };
    let answered =
        tokio::time::timeout(WAIT_MAX, answering).await.context("an answer or an end")?;
    Ok(answered.unwrap_or(false).then_some(stream))
}

#[tokio::test]
async fn one_client_cannot_take_every_connection_or_descriptor() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("log");
    let launch = Launch::on(&folder.path().join("data")).log("warn", &log);
    let server = launch.within(["sh", "-c", LIMIT]).start().await?;
    let limits = fs::read_to_string(format!("/proc/{}/limits", server.id()?))?;
    let files = limits.lines().find(|line| line.starts_with("Max open files")).context("a line")?;
    let raised: Vec<&str> = files.split_whitespace().skip(3).take(2).collect();
    assert_eq!(raised, ["256", "256"], "the soft limit is raised");
    let address: SocketAddr = server.origin.trim_start_matches("http://").parse()?;

    let mut held = Vec::new();
    for _ in 0..2 * CONNECTIONS_MAX {
        held.extend(served("127.0.0.1", address).await?);
    }
    assert_eq!(held.len(), ADDRESS_MAX);
    ensure!(served("127.0.0.2", address).await?.is_some(), "another client is served");

    // Two clients together use all connections. A third client gets a connection when one is idle.
    for _ in 0..ADDRESS_MAX {
        held.extend(served("127.0.0.3", address).await?);
    }
    let third = until("a third client is served", async || served("127.0.0.4", address).await);
    drop(third.await?);
    drop(held);

    let logged = fs::read_to_string(&log)?;
    let lines = |what: &str| logged.lines().filter(|line| line.contains(what)).count();
    assert_eq!(lines("too low for --max-connections 16384"), 1, "{logged}");
    assert!(logged.contains("limit=256 needed=17408"), "{logged}");
    assert_eq!(lines("the limit of connections is reached"), 1, "{logged}");
    assert_eq!(lines("accepting connections failed"), 0, "{logged}");
    server.kill().await
}
