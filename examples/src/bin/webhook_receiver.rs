//! A webhook receiver: it verifies signatures, responds at once, and processes each message once.

use std::collections::HashSet;

use anyhow::{Context, Result, bail};
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderName};
use notify_client::notify_core::{CreateWebhook, WebhookData};
use notify_client::webhook::Verifier;
use notify_tests::TestServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[tokio::main]
async fn main() -> Result<()> {
    // This server may send to this machine. By default a server sends webhooks only to https URLs.
    let server = TestServer::start().await;
    let notify = server.client();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/hooks/notify", listener.local_addr()?);
    let made = notify.webhooks().create(&CreateWebhook { url, ..Default::default() }).await?;
    let verifier = Verifier::new(&made.secret)?;
    println!("webhook {} created", made.id);

    let mut seen = HashSet::new();
    let testing = notify.webhooks();
    let (tested, received) =
        tokio::join!(testing.test(made.id), receive(&listener, &verifier, &mut seen));
    println!("the server says: {}", tested?.outcome.as_str());
    match received? {
        Some(WebhookData::WebhookTest(test)) => println!("received a test of {}", test.webhook_id),
        other => bail!("not a test: {other:?}"),
    }
    server.stop().await;
    Ok(())
}

/// Processes one message. Returns `None` for a duplicate.
async fn receive(
    listener: &TcpListener,
    verifier: &Verifier,
    seen: &mut HashSet<String>,
) -> Result<Option<WebhookData>> {
    let (mut stream, _) = listener.accept().await?;
    let (headers, body) = read_request(&mut stream).await?;
    let verified = verifier.verify(&headers, &body);
    // Do slow work after the response. The server waits only 20 seconds for it.
    let status = if verified.is_ok() { "204 No Content" } else { "401 Unauthorized" };
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    let id = headers.get("webhook-id").context("a webhook-id")?.to_str()?;
    Ok(if seen.insert(id.to_owned()) { Some(verified?.data) } else { None })
}

/// Reads a request with a `Content-Length`, as any web framework does for you.
async fn read_request(stream: &mut TcpStream) -> Result<(HeaderMap, Vec<u8>)> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(at) = bytes.windows(4).position(|part| part == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            bail!("the request broke off");
        }
    };
    let text = String::from_utf8_lossy(&bytes[..head]).into_owned();
    let mut headers = HeaderMap::new();
    for (name, value) in text.lines().filter_map(|line| line.split_once(": ")) {
        headers.insert(HeaderName::from_bytes(name.as_bytes())?, value.parse()?);
    }
    let length: usize = headers.get(CONTENT_LENGTH).context("a length")?.to_str()?.parse()?;
    while bytes.len() < head + length {
        stream.read_buf(&mut bytes).await?;
    }
    Ok((headers, bytes.split_off(head)))
}
