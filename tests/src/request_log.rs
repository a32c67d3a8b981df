//! A log of requests: each is written before it is sent, and its response after, so that the checker does
//! not depend on what the server says of a run.

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
    /// Its `Idempotency-Key` and its text, unique in a run.
    pub key: String,
    /// The name of its audience.
    pub audience: String,
}

/// The response to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum LoggedResponse {
    /// 200 with this id: it is on disk.
    Accepted(String),
    /// A 4xx: it has no effect.
    Rejected(u16),
    /// No response, or a 5xx: it may have had its effect. After a 5xx, too: the next process may still
    /// find what a failed commit left in the database's log.
    Unknown(String),
}

impl LoggedResponse {
    /// The result of a call.
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

/// A request and its responses; several when it was sent again.
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

/// The file. Each line in it is whole: the process that writes it is never killed.
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

    /// Logs the response to the request with that key.
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

    /// Reads everything back.
    ///
    /// # Errors
    /// When the file cannot be read, or has a response to a request that is not in it.
    pub fn entries(&self) -> Result<Vec<LogEntry>> {
        let mut entries = Vec::new();
        let mut places = BTreeMap::new();
        for line in std::fs::read_to_string(&self.path)?.lines() {
            match serde_json::from_str(line).with_context(|| line.to_owned())? {
                Line::Request(request) => {
                    places.insert(request.key.clone(), entries.len());
                    entries.push(LogEntry { request, responses: Vec::new() });
                }
                Line::Response { key, response } => {
                    let place =
                        places.get(&key).with_context(|| format!("{key} was never requested"))?;
                    entries[*place].responses.push(response);
                }
            }
        }
        Ok(entries)
    }
}
