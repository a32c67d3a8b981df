//! The points of a server among others: it says that it lives, what it learns of a provider, and that
//! it leaves.

use anyhow::{Context, Result, ensure};
use http::Method;
use notify_sandbox::{Provider, Rule, ScriptedResponse};
use notify_tests::{Caller, Installation, Survivor};

use super::{STAGES, dying, ensure_aborted};
use crate::load::Load;
use crate::{CREDIT, FEW, launch};

/// What is ended here.
pub(super) fn operations() -> Vec<&'static str> {
    vec!["heartbeat", "leave", "publish_breaker"]
}

#[tokio::test]
async fn a_server_that_ends_while_it_says_that_it_lives_or_leaves_is_in_nobodys_way() -> Result<()>
{
    let folder = tempfile::tempdir()?;
    let installation = Installation::make();
    let settings = installation.settings();
    let normal = launch(folder.path()).installation(&settings);
    normal.start().await?.terminate().await?;
    for stage in STAGES {
        let dying = dying(folder.path(), "heartbeat", stage, 1).installation(&settings);
        // It may listen for a moment before that.
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
async fn a_server_that_ends_while_it_publishes_a_breaker_does_not_block_the_others() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let installation = Installation::make();
    let settings = installation.settings();
    let data_dir = folder.path().join("data");
    let mut server = Survivor::start(launch(&data_dir).installation(&settings)).await?;
    let load = Load::prepare_with(&server, 1, &folder.path().join("ledger"), FEW).await?;
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
    let admin = Caller::admin(&server.origin.borrow(), &server.admin_key)?;
    let apps = admin.get("/admin/v1/apps").await?;
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
