//! The log on standard error: one line an event, whatever is in its fields.

use std::io::{IsTerminal, Stderr, Write};

use tracing_subscriber::EnvFilter;

use crate::config::LogFormat;

/// Why logging could not begin.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LogError {
    /// The filter is not one.
    #[error("log: not a filter, such as `info` or `notify_server=debug`")]
    Filter(#[source] tracing_subscriber::filter::ParseError),
    /// Something else logs already.
    #[error("log: already begun")]
    Begun(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Begins to log on standard error; once in a process.
///
/// # Errors
/// When the filter is malformed, or logging has begun already.
pub(crate) fn start_log(filter: &str, format: LogFormat) -> Result<(), LogError> {
    let filter = EnvFilter::try_new(filter).map_err(LogError::Filter)?;
    let colours = std::io::stderr().is_terminal() && format == LogFormat::Text;
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || OneLine::<Stderr> { to: std::io::stderr(), colours })
        .with_ansi(colours);
    match format {
        LogFormat::Text => log.try_init(),
        LogFormat::Json => log.json().try_init(),
    }
    .map_err(LogError::Begun)
}

/// Writes each event as one line: the control characters of its values are escaped, so that
/// nobody can write lines of their own, or speak to the terminal of who reads them. The subscriber
/// hands over an event at a time, with the end of its line.
struct OneLine<W> {
    to: W,
    /// Whether escape sequences are the subscriber's own; it escapes those of values itself.
    colours: bool,
}

impl<W: Write> Write for OneLine<W> {
    fn write(&mut self, event: &[u8]) -> std::io::Result<usize> {
        let (text, end) = match event.split_last() {
            Some((b'\n', text)) => (text, &b"\n"[..]),
            Some(_) | None => (event, &b""[..]),
        };
        if !text.iter().any(|byte| self.is_escaped(*byte)) {
            self.to.write_all(event)?;
            return Ok(event.len());
        }
        let mut line = Vec::with_capacity(event.len() + 16);
        for byte in text {
            match byte {
                byte if !self.is_escaped(*byte) => line.push(*byte),
                b'\n' => line.extend_from_slice(b"\\n"),
                b'\r' => line.extend_from_slice(b"\\r"),
                b'\t' => line.extend_from_slice(b"\\t"),
                byte => line.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
            }
        }
        line.extend_from_slice(end);
        self.to.write_all(&line)?;
        Ok(event.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.to.flush()
    }
}

impl<W> OneLine<W> {
    fn is_escaped(&self, byte: u8) -> bool {
        const ESCAPE: u8 = 0x1b;
        byte.is_ascii_control() && !(byte == ESCAPE && self.colours)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// What an event with that value and that message looks like.
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
        let tell = || tracing::warn!(reason = %value, "it says {value}");
        match format {
            LogFormat::Text => tracing::subscriber::with_default(log.finish(), tell),
            LogFormat::Json => {
                let log = log.json().finish();
                tracing::subscriber::with_default(log, tell);
            }
        }
        String::from_utf8(kept.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn an_event_is_one_line_whatever_is_in_it() {
        for value in ["a\nERROR forged", "a\r\nb", "\u{1b}[2Jgone", "a\0b\u{7f}\u{8}", "ü\tplain"]
        {
            for format in [LogFormat::Text, LogFormat::Json] {
                let line = logged(format, value);
                let text = line.strip_suffix('\n').unwrap();
                assert!(!text.chars().any(|c| c.is_ascii_control()), "{text:?}");
            }
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
