//! What was asked: every request is written down before it goes out, and its answer after, so that
//! what is known of a run does not rest on what the server says of it.

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
pub struct Asked {
    /// Its `Idempotency-Key` and its text: one of a kind in a run.
    pub key: String,
    /// The name of the audience that it goes to.
    pub audience: String,
}

/// What the server said to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Said {
    /// 200 with this id: it is on disk, whatever comes.
    Accepted(String),
    /// A 4xx: nothing happened, and nothing will.
    Refused(u16),
    /// No answer, or a 5xx: it happened or not. A 5xx is a promise of nothing: what a failed commit
    /// left in the log may still be found there by the next process.
    Unknown(String),
}

impl Said {
    /// What a call came to.
    #[must_use]
    pub fn of(answer: &Result<NotificationCreated, Error>) -> Self {
        match answer {
            Ok(created) => Self::Accepted(created.id.to_string()),
            Err(error) => match error.status() {
                Some(status) if (400..500).contains(&status) => Self::Refused(status),
                Some(_) | None => Self::Unknown(error.to_string()),
            },
        }
    }
}

/// A request and every answer that it got; more than one when it was sent again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What was asked.
    pub asked: Asked,
    /// What was said.
    pub said: Vec<Said>,
}

#[derive(Serialize, Deserialize)]
enum Line {
    Asked(Asked),
    Said { key: String, said: Said },
}

/// The file. A line that was begun is there whole: whoever writes it is never killed.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    file: Mutex<File>,
}

impl Ledger {
    /// Begins a ledger, or goes on with it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self { path: path.to_owned(), file: Mutex::new(file) })
    }

    /// Writes down what is about to be asked; before it is.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn asked(&self, asked: &Asked) -> Result<()> {
        self.append(&Line::Asked(asked.clone()))
    }

    /// Writes down what was said to the request with that key.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn said(&self, key: &str, said: Said) -> Result<()> {
        self.append(&Line::Said { key: key.to_owned(), said })
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
    /// When the file cannot be read, or somebody is answered who never asked.
    pub fn entries(&self) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        let mut places = BTreeMap::new();
        for line in std::fs::read_to_string(&self.path)?.lines() {
            match serde_json::from_str(line).with_context(|| line.to_owned())? {
                Line::Asked(asked) => {
                    places.insert(asked.key.clone(), entries.len());
                    entries.push(Entry { asked, said: Vec::new() });
                }
                Line::Said { key, said } => {
                    let place = places.get(&key).with_context(|| format!("{key} never asked"))?;
                    entries[*place].said.push(said);
                }
            }
        }
        Ok(entries)
    }
}
