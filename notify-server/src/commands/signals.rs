//! Signals. The first SIGTERM or SIGINT starts a graceful stop, the second one ends the process at
//! once. SIGHUP reloads the TLS certificate.

use anyhow::Context;

/// Exit status of the process after a second signal.
const FORCED: i32 = 130;

/// Listens for SIGTERM and SIGINT from now on. The returned future resolves with the first signal.
/// After that, the next signal ends the process at once.
pub(super) fn first_signal() -> anyhow::Result<impl Future<Output = ()>> {
    let mut signals = Signals::listen().context("cannot listen for signals")?;
    Ok(async move {
        signals.next().await;
        tracing::info!("stopping; another signal stops at once");
        tokio::spawn(async move {
            signals.next().await;
            std::process::exit(FORCED);
        });
    })
}

/// Receives SIGHUP. While it exists, SIGHUP does not end the process.
pub(super) struct Hangups(#[cfg(unix)] tokio::signal::unix::Signal);

impl Hangups {
    #[cfg(unix)]
    pub(super) fn listen() -> anyhow::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        signal(SignalKind::hangup()).map(Self).context("cannot listen for signals")
    }

    /// Waits for the next SIGHUP.
    #[cfg(unix)]
    pub(super) async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending().await
        }
    }

    #[cfg(not(unix))]
    pub(super) fn listen() -> anyhow::Result<Self> {
        Ok(Self())
    }

    /// Never returns: this system has no SIGHUP.
    #[cfg(not(unix))]
    pub(super) async fn next(&mut self) {
        std::future::pending().await
    }
}

#[cfg(unix)]
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) {
        let _ = tokio::signal::ctrl_c().await;
    }
}
