//! `notify-server sandbox`: fake providers to try the product with.

use anyhow::Context;

use super::{print, signals};

/// Where the sandbox listens unless told otherwise: beside the server's own default.
const LISTEN_DEFAULT: &str = "127.0.0.1:8081";

/// Runs fake providers until a signal.
pub(super) async fn run(listen: Option<String>) -> anyhow::Result<()> {
    let stop = signals::first_signal()?;
    let listen = listen.as_deref().unwrap_or(LISTEN_DEFAULT);
    let address = tokio::net::lookup_host(listen)
        .await
        .with_context(|| format!("--listen: `{listen}` is no address"))?
        .next()
        .with_context(|| format!("--listen: `{listen}` names no address"))?;
    let running = crate::sandbox::run(address, stop, |instructions| {
        if let Err(error) = print(instructions) {
            tracing::warn!("{error:#}");
        }
    });
    Ok(running.await?)
}
