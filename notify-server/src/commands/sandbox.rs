//! `notify-server sandbox`: fake providers to try the product with.

use anyhow::Context;
use notify_sandbox::{Sandbox, SandboxConfig};
use tokio::net::TcpListener;

use super::{print, signals};

/// Default address of the sandbox: the port after the server's default.
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
    let listener = TcpListener::bind(address).await.with_context(|| {
        format!("cannot listen on {address}; choose another address with --listen")
    })?;
    let sandbox = Sandbox::start(listener, SandboxConfig::default()).await?;
    if let Err(error) = print(&sandbox.instructions()) {
        tracing::warn!("{error:#}");
    }
    stop.await;
    sandbox.stop().await;
    Ok(())
}
