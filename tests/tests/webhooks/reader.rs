//! A reader of the event stream.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::time::timeout;

/// The longest wait for the next event.
const WAIT: Duration = Duration::from_secs(45);

/// An event of the stream.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shown {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) data: Value,
}

/// The address of the stream, and the key to open it.
#[derive(Clone, Copy)]
pub(crate) struct Endpoint<'a> {
    pub(crate) origin: &'a str,
    pub(crate) key: &'a str,
}

/// An open stream.
pub(crate) struct Reading {
    response: reqwest::Response,
    text: String,
}

impl Reading {
    /// Opens a stream with a key, from a cursor.
    pub(crate) async fn open(at: Endpoint<'_>, query: &str, last: Option<&str>) -> Result<Self> {
        let response = get(at, query, last).await?;
        ensure!(response.status() == 200, "{}", response.status());
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Ok(Self { response, text: String::new() })
    }

    /// The cursor that the stream sends before any event.
    pub(crate) async fn place(&mut self) -> Result<String> {
        loop {
            let place = self.text.split_once("\n\n").and_then(|(block, _)| id_alone(block));
            if let Some(place) = place {
                return Ok(place.to_owned());
            }
            let piece = timeout(WAIT, self.response.chunk()).await.context("nothing comes")??;
            self.text.push_str(std::str::from_utf8(&piece.context("the stream ended")?)?);
        }
    }

    /// The next event; `None` when the stream ended.
    pub(crate) async fn next(&mut self) -> Result<Option<Shown>> {
        loop {
            if let Some(shown) = take(&mut self.text)? {
                return Ok(Some(shown));
            }
            match timeout(WAIT, self.response.chunk()).await.context("nothing comes")? {
                Ok(Some(piece)) => self.text.push_str(std::str::from_utf8(&piece)?),
                Ok(None) | Err(_) => return Ok(None),
            }
        }
    }
}

/// The id of a block that has an id but no event.
fn id_alone(block: &str) -> Option<&str> {
    let is_event = block.lines().any(|line| line.starts_with("data") || line.starts_with("event"));
    block.lines().find_map(|line| line.strip_prefix("id: ")).filter(|_| !is_event)
}

/// Removes the first complete event from the bytes that were read.
pub(crate) fn take(text: &mut String) -> Result<Option<Shown>> {
    while let Some(end) = text.find("\n\n") {
        let block: String = text.drain(..end + 2).collect();
        if block.starts_with(':') {
            continue;
        }
        let field = |name: &str| {
            let line = block.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_default().to_owned()
        };
        let data = serde_json::from_str(&field("data: "))?;
        return Ok(Some(Shown { id: field("id: "), kind: field("event: "), data }));
    }
    Ok(None)
}

/// Requests a stream.
pub(crate) async fn get(
    at: Endpoint<'_>,
    query: &str,
    last: Option<&str>,
) -> Result<reqwest::Response> {
    let url = format!("{}/v1/events/stream{query}", at.origin);
    let mut request = notify_tests::http_client().build()?.get(url).header("x-api-key", at.key);
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    Ok(request.send().await?)
}
