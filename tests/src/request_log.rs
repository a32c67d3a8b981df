//! A log of the requests that a test sends. Each request is logged before it is sent, and its response when
//! it arrives. With this log, the checker need not trust the server's own account of a run.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use notify_client::Error;
use notify_core::NotificationCreated;
use serde::{Deserialize, Serialize};

/// A request to send a notification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoggedRequest {
    /// The `Idempotency-Key`, which is also the text of the notification. It is unique in a run.
    pub key: String,
    /// The name of the audience.
    pub audience: String,
}

/// The response to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LoggedResponse {
    /// 200 with this id. The notification must be on disk.
    Accepted(String),
    /// A 4xx status. The request must have no effect.
    Rejected(u16),
    /// No response, or a 5xx status. The request may or may not have an effect. A 5xx does not exclude an
    /// effect: a failed commit may be in the database's log, where the next process finds it.
    Unknown(String),
}

impl LoggedResponse {
    /// Classifies the result of a call of the SDK.
    #[must_use]
    pub fn of(answer: &Result<NotificationCreated, Error>) -> Self {
        match answer {
            Ok(created) => Self::Accepted(created.id.to_string()),
            Err(error) => match error.status() {
                Some(status) if (400..500).contains(&status) => Self::Rejected(status),
                Some(_) | None => Self::Unknown(error.to_string()),
            },
        }
    }
}

/// A request and its responses. A request that was sent again can have several responses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// The request.
    pub request: LoggedRequest,
    /// Its responses.
    pub responses: Vec<LoggedResponse>,
}

#[derive(Serialize, Deserialize)]
enum Line {
    Request(LoggedRequest),
    Response { key: String, response: LoggedResponse },
}

/// The log file. It never ends in half a line, because the process that writes it is never killed.
#[derive(Debug)]
pub struct RequestLog {
    path: PathBuf,
    file: Mutex<File>,
}

impl RequestLog {
    /// Creates a log, or opens an existing one.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self { path: path.to_owned(), file: Mutex::new(file) })
    }

    /// Logs a request that is about to be sent.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn log_request(&self, request: &LoggedRequest) -> Result<()> {
        self.append(&Line::Request(request.clone()))
    }

    /// Logs a response to the request with this key.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn log_response(&self, key: &str, response: LoggedResponse) -> Result<()> {
        self.append(&Line::Response { key: key.to_owned(), response })
    }

    fn append(&self, line: &Line) -> Result<()> {
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(file.write_all(text.as_bytes())?)
    }

    /// Reads all requests with their responses.
    ///
    /// # Errors
    /// When the file cannot be read, or has a response to a request that is not in it.
    pub fn entries(&self) -> Result<Vec<LogEntry>> {
        let mut entries = Vec::new();
        let mut positions = BTreeMap::new();
        for line in std::fs::read_to_string(&self.path)?.lines() {
            match serde_json::from_str(line).with_context(|| line.to_owned())? {
                Line::Request(request) => {
                    positions.insert(request.key.clone(), entries.len());
                    entries.push(LogEntry { request, responses: Vec::new() });
                }
                Line::Response { key, response } => {
                    let position = positions
                        .get(&key)
                        .with_context(|| format!("{key} was never requested"))?;
                    entries[*position].responses.push(response);
                }
            }
        }
        Ok(entries)
    }
}
