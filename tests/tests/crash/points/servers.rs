//! Crash points of a server among other servers: its heartbeat, the provider status that it publishes, and
//! its leave.

use anyhow::{Context, Result, ensure};
use http::Method;
use notify_sandbox::{Provider, Rule, ScriptedResponse};
use notify_tests::{Installation, RestartableServer};

use super::{STAGES, dying, ensure_aborted};
use crate::load::Load;
use crate::{CREDIT, FEW, launch};

/// The operations that this file tests.
pub(super) fn operations() -> Vec<&'static str> {
    vec!["heartbeat", "leave", "publish_breaker"]
}

#[tokio::test]
async fn a_crash_during_a_heartbeat_or_a_leave_blocks_no_other_server() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let installation = Installation::make();
    let settings = installation.settings();
    let normal = launch(folder.path()).installation(&settings);
    normal.start().await?.terminate().await?;
    for stage in STAGES {
        let dying = dying(folder.path(), "heartbeat", stage, 1).installation(&settings);
        // The server may listen for a moment before it ends.
        let status = match dying.begin().await? {
            Ok(running) => running.ended().await?,
            Err(status) => status,
        };
        ensure_aborted(status).with_context(|| format!("heartbeat {stage}"))?;
    }
    for stage in STAGES {
        let server =
            dying(folder.path(), "leave", stage, 1).installation(&settings).start().await?;
        server.ask_to_stop().await?;
        ensure_aborted(server.ended().await?).with_context(|| format!("leave {stage}"))?;
    }
    let server = normal.start().await?;
    let status = server.terminate().await?;
    ensure!(status.success(), "{status}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_while_publishing_a_channel_status_blocks_no_delivery_for_good() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let installation = Installation::make();
    let settings = installation.settings();
    let data_dir = folder.path().join("data");
    let mut server = RestartableServer::start(launch(&data_dir).installation(&settings)).await?;
    let load = Load::prepare_with(&server, 1, &folder.path().join("request_log"), FEW).await?;
    server.kill(CREDIT).await?;
    server
        .sandbox
        .add_rule(Rule::on(Provider::Fcm, ScriptedResponse::reason("PERMISSION_DENIED")))?;
    for stage in STAGES {
        let dying = dying(&data_dir, "publish_breaker", stage, 1).installation(&settings);
        let status = match server.begin_again_as(&dying, CREDIT).await? {
            Some(status) => status,
            None => {
                load.ask_once(&server, stage).await?;
                server.ended(CREDIT).await.with_context(|| format!("publish_breaker {stage}"))?
            }
        };
        ensure_aborted(status).with_context(|| format!("publish_breaker {stage}"))?;
    }
    server.sandbox.clear();
    server.start_again().await?;
    let admin = server.admin();
    let apps = admin.get("/admin/v1/apps").await.ok();
    for app in apps["apps"].as_array().context("apps")? {
        let id = app["id"].as_str().context("an app")?;
        let path = format!("/admin/v1/apps/{id}/providers/fcm/resume");
        // The first application has no provider.
        admin.send(&Method::POST, &path, "{}".to_owned()).await?;
    }
    load.drain(&server).await?;
    server.stop().await?;
    server.sandbox.stop().await;
    Ok(())
}
