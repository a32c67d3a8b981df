//! Files and standard input as arguments; `-` is standard input.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use notify_client::{
    Error,
    notify_core::{Platform, ProviderKind, Request, Timestamp, json::JsonObject},
};

use crate::failure::Failure;

/// Largest file that is read whole, in bytes; far above what a server takes (B4).
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Reads a file, or standard input for `-`.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let source: Box<dyn Read> = if path == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(path).map_err(Failure::file(path))?)
    };
    source.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(Failure::file(path))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(Failure::Usage(format!("{}: is larger than 16 MiB", path.display())));
    }
    Ok(bytes)
}

/// Reads a request body, as strictly as the server does (B1).
pub(crate) fn request<R: Request>(path: &Path) -> Result<R, Failure> {
    Ok(R::from_json(&read(path)?).map_err(Error::Invalid)?)
}

/// A JSON object given as an argument.
pub(crate) fn json_object(text: &str) -> Result<JsonObject, String> {
    JsonObject::new(text).map_err(|error| format!("not a JSON object: {error}"))
}

/// An instant given as an argument: unix milliseconds, `now`, or RFC 3339.
pub(crate) fn instant(text: &str) -> Result<Timestamp, String> {
    if text == "now" {
        return Ok(Timestamp::from_ms(jiff::Timestamp::now().as_millisecond()));
    }
    if let Ok(ms) = text.parse() {
        return Ok(Timestamp::from_ms(ms));
    }
    let at: jiff::Timestamp = text.parse().map_err(|_| {
        "must be unix milliseconds, `now`, or a time like 2026-05-01T09:00:00Z".to_owned()
    })?;
    Ok(Timestamp::from_ms(at.as_millisecond()))
}

/// The word of a platform.
pub(crate) fn platform() -> impl TypedValueParser<Value = Platform> {
    PossibleValuesParser::new(Platform::ALL.map(Platform::as_str))
        .map(|word| Platform::from_word(&word).expect("the words are those of the platforms"))
}

/// The word of a provider.
pub(crate) fn provider() -> impl TypedValueParser<Value = ProviderKind> {
    PossibleValuesParser::new(ProviderKind::ALL.map(ProviderKind::as_str))
        .map(|word| ProviderKind::from_word(&word).expect("the words are those of the providers"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_milliseconds_or_rfc_3339() {
        assert_eq!(instant("1767323045000"), Ok(Timestamp(1_767_323_045_000)));
        assert_eq!(instant("2026-01-02T03:04:05Z"), Ok(Timestamp(1_767_323_045_000)));
        assert_eq!(instant("2026-01-02T04:04:05+01:00"), Ok(Timestamp(1_767_323_045_000)));
        assert!(instant("now").unwrap() > Timestamp(1_767_323_045_000));
        for wrong in ["", "tomorrow", "2026-01-02", "1.5"] {
            assert!(instant(wrong).is_err(), "{wrong}");
        }
    }
}
