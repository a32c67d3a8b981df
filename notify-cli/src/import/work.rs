//! What a file is to be read as, and where its progress and its refused rows go.

use std::collections::{HashMap, HashSet};
use std::hash::RandomState;
use std::path::{Path, PathBuf};

use tokio::sync::watch;

use crate::failure::Failure;
use crate::import::record::{Keys, Record};
use crate::import::report::Place;
use crate::import::{FileOptions, Format, Purpose};

/// A file and what to do with it.
pub(super) struct Work<'a> {
    pub(super) file: &'a Path,
    pub(super) options: FileOptions,
    pub(super) purpose: Purpose,
}

impl Work<'_> {
    pub(super) fn format(&self) -> Result<Format, Failure> {
        let extension = self.file.extension().map(|it| it.to_string_lossy().to_lowercase());
        match (self.options.format, extension.as_deref()) {
            (Some(format), _) => Ok(format),
            (None, Some("csv" | "tsv")) => Ok(Format::Csv),
            (None, Some("ndjson" | "jsonl" | "json")) => Ok(Format::Ndjson),
            (None, _) => Err(Failure::Usage(format!(
                "{}: say --format csv or --format ndjson",
                self.file.display()
            ))),
        }
    }

    pub(super) fn report(&self, format: Format) -> Place {
        match &self.options.refused {
            Some(path) => Place::Given(path.clone()),
            None if self.file == Path::new("-") => Place::Nowhere,
            None => Place::beside(self.file, format),
        }
    }

    /// Refuses to write over what it is to read.
    pub(super) fn spare_the_file(&self) -> Result<(), Failure> {
        let file = self.file.canonicalize().ok();
        for (option, path) in
            [("--state", &self.options.state), ("--refused", &self.options.refused)]
        {
            if file.is_some() && path.as_ref().and_then(|path| path.canonicalize().ok()) == file {
                let path = self.file.display();
                return Err(Failure::Usage(format!("{option}: {path} is the file that is read")));
            }
        }
        Ok(())
    }

    /// The path given, or one beside the file; standard input has no place beside it.
    pub(super) fn state_path(&self) -> Option<PathBuf> {
        if self.options.state.is_some() || self.file == Path::new("-") {
            return self.options.state.clone();
        }
        let mut path = self.file.to_owned().into_os_string();
        path.push(match self.purpose {
            Purpose::Register => ".notify-import",
            Purpose::Tag => ".notify-tags",
        });
        Some(path.into())
    }
}

// The order of rows that name the same device or address: each waits for the one before it, so that
// the last one wins however many rows are under way.

/// Keys that are kept at least before those of settled rows are looked for.
const SWEPT_FROM: usize = 1_024;

/// Which row has a key now.
#[derive(Default)]
pub(super) struct Turns {
    last: HashMap<u64, watch::Receiver<()>>,
    swept: usize,
}

/// The turn of a row; it is over when this is dropped.
pub(super) struct Turn {
    before: Vec<watch::Receiver<()>>,
    _mine: watch::Sender<()>,
}

impl Turns {
    /// Takes a turn after every row that has one of these keys. Rows take theirs in the order of the
    /// file.
    pub(super) fn take(&mut self, keys: Keys) -> Turn {
        let (mine, wait) = watch::channel(());
        let keys = keys.into_iter().flatten();
        let before = keys.filter_map(|key| self.last.insert(key, wait.clone())).collect();
        if self.last.len() > 2 * self.swept.max(SWEPT_FROM) {
            self.last.retain(|_, wait| wait.has_changed().is_ok());
            self.swept = self.last.len();
        }
        Turn { before, _mine: mine }
    }
}

impl Turn {
    /// Waits for the rows before.
    pub(super) async fn come(&mut self) {
        for before in &mut self.before {
            // Nothing is ever sent: the wait ends with the turn.
            while before.changed().await.is_ok() {}
        }
    }
}

// Which rows name a device or an address that an earlier row of the file names. It keeps 8 bytes of
// each, so that a file of millions of rows takes tens of megabytes.

/// What of a row an earlier row has.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Repeated {
    pub(super) device: bool,
    pub(super) address: bool,
}

#[derive(Default)]
pub(super) struct Repeats {
    hasher: RandomState,
    seen: HashSet<u64>,
}

impl Repeats {
    /// Notes a row: what it shares with others, and what of it an earlier row has.
    pub(super) fn note(&mut self, record: &Record) -> (Keys, Repeated) {
        let keys = record.keys(&self.hasher);
        let [device, address] = keys.map(|key| key.is_some_and(|key| !self.seen.insert(key)));
        (keys, Repeated { device, address })
    }
}
