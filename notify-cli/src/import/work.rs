//! What a file is to be read as, and where its progress and its refused rows go.

use std::path::{Path, PathBuf};

use super::{FileOptions, Format, Purpose, report::Place};
use crate::failure::Failure;

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
