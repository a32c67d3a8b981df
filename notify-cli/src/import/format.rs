//! The format of an imported file.

use std::path::Path;

use clap::ValueEnum;

/// Format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Comma-separated values with a header (RFC 4180).
    Csv,
    /// One JSON object a line, or a JSON array of them.
    Ndjson,
}

/// Whether the name of the file is that of a file compressed with gzip.
pub(super) fn is_compressed(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"))
}

/// The format of a file with this name. A compressed file has `.gz` after the extension of its format.
pub(super) fn format_of_name(file: &Path) -> Option<Format> {
    let uncompressed = if is_compressed(file) { file.file_stem()?.as_ref() } else { file };
    match &*uncompressed.extension()?.to_string_lossy().to_lowercase() {
        "csv" | "tsv" => Some(Format::Csv),
        "ndjson" | "jsonl" | "json" => Some(Format::Ndjson),
        _ => None,
    }
}
