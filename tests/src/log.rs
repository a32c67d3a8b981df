//! Captures the log of the servers in this process.

use std::io::Write;
use std::sync::{LazyLock, Mutex, Once, PoisonError};

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// The captured log lines: all lines that could contain a secret.
const FILTER: &str = "notify_server=trace,hyper=debug,warp=debug";

static LOG: LazyLock<Mutex<Vec<u8>>> = LazyLock::new(Mutex::default);

struct Capture;

impl Write for Capture {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOG.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Captures all log lines of this process from now on.
pub fn capture_log() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing_subscriber::fmt()
            .with_max_level(LevelFilter::TRACE)
            .with_ansi(false)
            .with_writer(|| Capture)
            .finish()
            .with(FILTER.parse::<Targets>().expect("the filter is valid"))
            .init();
    });
}

/// The log lines of all tests of this process since [`capture_log`].
#[must_use]
pub fn logged() -> String {
    String::from_utf8_lossy(&LOG.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
}
