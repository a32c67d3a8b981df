//! The format of a file, and the paths of its state and its refused rows.

use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::import::report::ReportPath;
use crate::import::{FileOptions, Format, Purpose};

/// A file and what its rows are for.
pub(super) struct Job<'a> {
    pub(super) file: &'a Path,
    pub(super) options: FileOptions,
    pub(super) purpose: Purpose,
}

impl Job<'_> {
    pub(super) fn format(&self) -> Result<Format, Failure> {
        let extension = self.file.extension().map(|it| it.to_string_lossy().to_lowercase());
        match (self.options.format, extension.as_deref()) {
            (Some(format), _) => Ok(format),
            (None, Some("csv" | "tsv")) => Ok(Format::Csv),
            (None, Some("ndjson" | "jsonl" | "json")) => Ok(Format::Ndjson),
            (None, _) => Err(Failure::Usage(format!(
                "{}: unknown format; give --format csv or --format ndjson",
                self.file.display()
            ))),
        }
    }

    pub(super) fn report_path(&self, format: Format) -> ReportPath {
        match &self.options.refused {
            Some(path) => ReportPath::Given(path.clone()),
            None if self.file == Path::new("-") => ReportPath::None,
            None => ReportPath::next_to(self.file, format),
        }
    }

    /// Rejects options that would overwrite the file itself.
    pub(super) fn check_paths(&self) -> Result<(), Failure> {
        let file = self.file.canonicalize().ok();
        for (option, path) in
            [("--state", &self.options.state), ("--refused", &self.options.refused)]
        {
            if file.is_some() && path.as_ref().and_then(|path| path.canonicalize().ok()) == file {
                let path = self.file.display();
                return Err(Failure::Usage(format!("{option}: {path} is the file to import")));
            }
        }
        Ok(())
    }

    /// The given path, or one next to the file; `None` for standard input.
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
