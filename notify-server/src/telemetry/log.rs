//! The log on standard error: one line for each event, whatever its fields contain.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io::{IsTerminal, Stderr, Write};
use std::sync::LazyLock;
use std::time::Duration;

use notify_core::{is_unprintable, push_escape};
use tokio::time::Instant;
use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use crate::config::LogFormat;

/// Why logging could not be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogError {
    /// The filter is invalid.
    #[error("log: not a filter, such as `info` or `notify_server=debug`")]
    Filter(#[source] ParseError),
    /// Another subscriber is installed already.
    #[error("log: already started")]
    AlreadyStarted(#[source] TryInitError),
}

/// Starts logging to standard error. A process can call this once.
///
/// # Errors
/// When the filter is malformed, or logging has been started already.
pub(crate) fn start_log(filter: &str, format: LogFormat) -> Result<(), LogError> {
    let filter: Targets = filter.parse().map_err(LogError::Filter)?;
    let colours = std::io::stderr().is_terminal() && format == LogFormat::Text;
    let log = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_writer(move || OneLine::<Stderr> { to: std::io::stderr(), colours })
        .with_ansi(colours);
    match format {
        LogFormat::Text => log.finish().with(filter).try_init(),
        LogFormat::Json => log.json().finish().with(filter).try_init(),
    }
    .map_err(LogError::AlreadyStarted)
}

/// Writes each event as one line. Unprintable characters of values are escaped, so that a value can
/// neither forge a line nor control a reader's terminal. The subscriber calls `write` once for each
/// event, with its newline.
struct OneLine<W> {
    to: W,
    /// Whether the subscriber writes colours. Escape characters then come from the subscriber and
    /// must stay; the subscriber itself escapes the escape characters of values.
    colours: bool,
}

impl<W: Write> Write for OneLine<W> {
    fn write(&mut self, event: &[u8]) -> std::io::Result<usize> {
        let (text, end) = match event.split_last() {
            Some((b'\n', text)) => (text, &b"\n"[..]),
            Some(_) | None => (event, &b""[..]),
        };
        let text = String::from_utf8_lossy(text);
        if !text.chars().any(|character| self.is_escaped(character)) {
            self.to.write_all(event)?;
            return Ok(event.len());
        }
        let mut line = String::with_capacity(event.len() + 16);
        for character in text.chars() {
            match character {
                character if !self.is_escaped(character) => line.push(character),
                '\n' => line.push_str("\\n"),
                '\r' => line.push_str("\\r"),
                '\t' => line.push_str("\\t"),
                // The same escapes as in the JSON format.
                character => push_escape(&mut line, character),
            }
        }
        let mut line = line.into_bytes();
        line.extend_from_slice(end);
        self.to.write_all(&line)?;
        Ok(event.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.flush()
    }
}

impl<W> OneLine<W> {
    fn is_escaped(&self, character: char) -> bool {
        const ESCAPE: char = '\u{1b}';
        is_unprintable(character) && !(character == ESCAPE && self.colours)
    }
}

// Masks push tokens and endpoints in the log.

/// Number of characters of an address that the log shows.
const SHOWN_CHARS: usize = 6;
/// Length of the shortest address whose first characters the log shows, in characters. Of a shorter
/// address, such as a chat id, the log would show almost everything.
const PARTLY_SHOWN_CHARS_MIN: usize = 32;

/// The key of the hash. It is generated at each start, so that a list of addresses cannot be
/// hashed and matched against a log.
static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// An address as the log shows it: its first six characters and a hash. The hash of an address is
/// the same until the server stops. Of a short address, only the hash is shown.
pub(crate) fn masked(address: &str) -> impl fmt::Display + use<> {
    let is_long = address.chars().nth(PARTLY_SHOWN_CHARS_MIN - 1).is_some();
    let shown = address.chars().take(if is_long { SHOWN_CHARS } else { 0 }).collect();
    Masked { shown, hash: KEY.hash_one(address) }
}

struct Masked {
    shown: String,
    hash: u64,
}

impl fmt::Display for Masked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}…#{:016x}", self.shown.escape_debug(), self.hash)
    }
}

/// Minimum time between two warnings of the same kind.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// Limits how often a warning is logged.
#[derive(Debug, Default)]
pub(crate) struct LogThrottle(Option<Instant>);

impl LogThrottle {
    /// Returns whether the warning may be logged now. If it may, the next warning has to wait for
    /// [`WARN_EVERY`].
    pub(crate) fn try_acquire(&mut self) -> bool {
        let now = Instant::now();
        if self.0.is_some_and(|last| now.duration_since(last) < WARN_EVERY) {
            return false;
        }
        self.0 = Some(now);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// The log line of an event with this value in a field and in the message.
    fn logged(format: LogFormat, value: &str) -> String {
        #[derive(Clone, Default)]
        struct Kept(Arc<Mutex<Vec<u8>>>);
        impl Write for Kept {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0.lock().unwrap().extend_from_slice(bytes);
                Ok(bytes.len())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let kept = Kept::default();
        let to = kept.clone();
        let log = tracing_subscriber::fmt()
            .with_writer(move || OneLine { to: to.clone(), colours: false })
            .with_ansi(false);
        let emit = || tracing::warn!(reason = %value, "it says {value}");
        match format {
            LogFormat::Text => tracing::subscriber::with_default(log.finish(), emit),
            LogFormat::Json => {
                let log = log.json().finish();
                tracing::subscriber::with_default(log, emit);
            }
        }
        String::from_utf8(kept.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn text_event_is_one_line() {
        for value in [
            "a\nERROR forged",
            "a\r\nb",
            "\u{1b}[2Jgone",
            "a\0b\u{7f}\u{8}",
            "ü\tplain",
            "\u{9b}2Jgone",
            "\u{202e}desrever\u{2066}",
            "in\u{200b}visible\u{e0041}",
        ] {
            for format in [LogFormat::Text, LogFormat::Json] {
                let line = logged(format, value);
                let text = line.strip_suffix('\n').unwrap();
                assert!(!text.chars().any(is_unprintable), "{text:?}");
            }
            let event: serde_json::Value =
                serde_json::from_str(&logged(LogFormat::Json, value)).unwrap();
            assert_eq!(event["fields"]["reason"], value);
        }
        assert!(logged(LogFormat::Text, "a\nb").contains("it says a\\nb"));
    }

    #[test]
    fn a_json_event_is_an_object_with_its_fields() {
        let line = logged(LogFormat::Json, "a\n\"b\"");
        let event: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(event["level"], "WARN");
        let fields = serde_json::json!({"reason": "a\n\"b\"", "message": "it says a\n\"b\""});
        assert_eq!(event["fields"], fields);
        assert!(event["timestamp"].is_string() && event["target"].is_string());
    }
}

#[cfg(test)]
mod masked_tests {
    use super::*;

    #[test]
    fn address_is_logged_as_prefix_and_hash() {
        let token = "fa11ed0e5ec7e7fa11ed0e5ec7e7fa11ed0e5ec7e7";
        let text = masked(token).to_string();
        assert!(text.starts_with("fa11ed…#") && text.len() == "fa11ed…#".len() + 16, "{text}");
        assert_eq!(text, masked(token).to_string());
        assert_ne!(text, masked(&token.replace("5e", "5f")).to_string());
        assert!(masked("123456789").to_string().starts_with("…#"), "most of a chat id would show");
    }
}
