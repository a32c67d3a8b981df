//! `notify-server sandbox`: runs fake providers until a signal; with `--with-server` also a server for tests.

use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::Context;
use notify_sandbox::{Sandbox, SandboxConfig};
use serde_json::json;
use tokio::net::TcpListener;

use super::{print, signals};
use crate::test_server::{Control, TestServer};

/// Default address of the sandbox. Its port is the port after the default port of the server.
const LISTEN_DEFAULT: &str = "127.0.0.1:8081";

/// Runs the fake providers on `listen`.
pub(super) async fn run(listen: Option<String>, with_server: bool) -> anyhow::Result<()> {
    let stop = signals::first_signal()?;
    let listener = bind(listen.as_deref().unwrap_or(LISTEN_DEFAULT)).await?;
    if with_server {
        return run_with_server(listener, stop).await;
    }
    let sandbox = Sandbox::start(listener, SandboxConfig::default()).await?;
    if let Err(error) = print(&sandbox.instructions()) {
        tracing::warn!("{error:#}");
    }
    stop.await;
    sandbox.stop().await;
    Ok(())
}

/// Runs a server and its control API beside the fake providers, on free ports of the loopback interface.
async fn run_with_server(
    listener: TcpListener,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let loopback = (Ipv4Addr::LOCALHOST, 0);
    let control = TcpListener::bind(loopback).await.context("cannot listen on a free port")?;
    let server = TcpListener::bind(loopback).await.context("cannot listen on a free port")?;
    let server = Arc::new(TestServer::start_on(listener, server).await?);
    let control = Control::start(control, &server)?;
    // One line, so that a test can read it.
    print(
        &json!({
            "url": server.origin(),
            "app_id": server.app_id(),
            "api_key": server.api_key(),
            "admin_key": server.admin_key(),
            "control_url": format!("http://{}", control.address()),
            "sandbox_url": server.sandbox().origin(),
        })
        .to_string(),
    )?;
    stop.await;
    drop(control);
    // A request of the control API in progress also holds the server. The server then ends with that request.
    if let Some(server) = Arc::into_inner(server) {
        server.stop().await;
    }
    Ok(())
}

async fn bind(listen: &str) -> anyhow::Result<TcpListener> {
    let address = tokio::net::lookup_host(listen)
        .await
        .with_context(|| format!("--listen: `{listen}` is not an address"))?
        .next()
        .with_context(|| format!("--listen: `{listen}` does not resolve to an address"))?;
    TcpListener::bind(address).await.with_context(|| {
        format!("cannot listen on {address}; choose another address with --listen")
    })
}
