//! A stop does not wait for unauthenticated clients.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use notify_tests::{ServerProcess, WAIT_MAX};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::http2::{NO_WINDOW, connect};

/// The longest time of a stop. The grace period is 30 s.
const STOP_MAX: Duration = Duration::from_secs(25);

#[tokio::test]
async fn a_missing_body_does_not_delay_the_stop() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let server = ServerProcess::start(folder.path()).await?;
    let admin = server.admin();
    let apps = admin.get("/admin/v1/apps").await.ok();
    let app = apps["apps"][0]["id"].as_str().context("an id")?;
    let path = format!("/admin/v1/apps/{app}/providers/messenger");
    let config = json!({"page_access_token": "EAAG", "app_secret": "s"});
    admin.send(&http::Method::PUT, &path, config.to_string()).await?.ok();

    let address = server.origin.trim_start_matches("http://");
    let key = server.api_key.as_deref().context("a key")?;
    let mut slow = Vec::new();
    for head in [
        format!(
            "POST /hooks/messenger/{app} HTTP/1.1\r\nx-hub-signature-256: sha256={}",
            "0".repeat(64)
        ),
        format!("POST /v1/devices HTTP/1.1\r\nx-api-key: {key}"),
    ] {
        let mut stream = TcpStream::connect(address).await?;
        let rest = "\r\nhost: a\r\ncontent-length: 1000\r\nexpect: 100-continue\r\n\r\n";
        stream.write_all(format!("{head}{rest}").as_bytes()).await?;
        let mut asked = [0; 25];
        stream.read_exact(&mut asked).await?;
        ensure!(asked.starts_with(b"HTTP/1.1 100 "), "{head}");
        slow.push(stream);
    }
    let began = Instant::now();
    let status = server.terminate().await?;
    let took = began.elapsed();
    ensure!(status.success() && took < STOP_MAX, "{status} after {took:?}");
    for mut stream in slow {
        let mut answer = String::new();
        let read = tokio::time::timeout(WAIT_MAX, stream.read_to_string(&mut answer)).await?;
        read?;
        ensure!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    }
    Ok(())
}

#[tokio::test]
async fn an_unread_event_stream_does_not_delay_the_stop() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let server = ServerProcess::start(folder.path()).await?;
    let key = server.api_key.clone().context("a key")?;
    let (requests, _driver) = connect(&server.origin, NO_WINDOW).await?;
    let request = http::Request::get(format!("{}/v1/events/stream", server.origin))
        .header("x-api-key", key)
        .body(())?;
    let (response, _) = requests.ready().await?.send_request(request, true)?;
    let response = response.await?;
    ensure!(response.status() == 200, "{}", response.status());
    let began = Instant::now();
    let status = server.terminate().await?;
    let took = began.elapsed();
    ensure!(status.success() && took < STOP_MAX, "{status} after {took:?}");
    Ok(())
}
