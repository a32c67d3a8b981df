//! Crash points of the webhook engine and of the event stream. One server ends at all points, one after
//! another, and the next start sends the remaining messages under the same ids.

use anyhow::{Context, Result, ensure};
use http::Method;
use notify_tests::{Backend, DatabaseInspector, RestartableServer, until};
use serde_json::{Value, json};

use super::{STAGES, dying, ensure_aborted};
use crate::{CREDIT, launch};

/// The operations that this file tests.
pub(super) fn operations() -> Vec<&'static str> {
    vec!["claim_messages", "settle_message", "release_messages", "trim_events", "keep_events"]
}

#[tokio::test]
async fn a_webhook_message_survives_a_crash_at_any_point() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut server = RestartableServer::start(launch(folder.path())).await?;
    // The port is closed, so that an attempt fails at once.
    let hook = json!({"url": "https://127.0.0.1:9/"});
    let hook = server.caller().post("/v1/webhooks", &hook).await.ok();
    let path = format!("/v1/webhooks/{}", hook["id"].as_str().context("an id")?);
    for (earlier, (operation, stage)) in
        ["claim_messages", "settle_message"].iter().flat_map(|o| STAGES.map(|s| (o, s))).enumerate()
    {
        server.kill(CREDIT).await?;
        let dying = dying(folder.path(), operation, stage, 1);
        server.start_again_as(&dying).await?;
        let test = format!("{path}/test");
        let answered = server.caller().send(&Method::POST, &test, "{}").await;
        ensure!(answered.is_err(), "{operation} {stage}: {answered:?}");
        ensure_aborted(server.ended(CREDIT).await?)
            .with_context(|| format!("{operation} {stage}"))?;
        server.start_again().await?;
        let caller = server.caller();
        let attempts = until("every message has ended", async || {
            let listed = caller.get(&format!("{path}/attempts")).await.ok();
            let attempts = listed["attempts"].as_array().context("a list")?.clone();
            let is_final = |attempt: &Value| attempt["outcome"] != "pending";
            Ok(attempts.iter().all(is_final).then_some(attempts))
        })
        .await?;
        assert_eq!(attempts.len(), earlier + 1, "{operation} {stage}");
        assert!(attempts.iter().all(|attempt| attempt["attempts"] == 1), "{attempts:?}");
    }
    // With several servers, no server releases the claims of another one. These claims expire.
    let at_starts: &[&str] = match Backend::chosen() {
        Backend::Sqlite => &["release_messages", "trim_events"],
        Backend::Postgres => &["trim_events"],
    };
    for (operation, stage) in at_starts.iter().flat_map(|o| STAGES.map(|s| (o, s))) {
        server.kill(CREDIT).await?;
        let dying = dying(folder.path(), operation, stage, 1);
        ensure_aborted(server.ended_at_start(&dying, CREDIT).await?)
            .with_context(|| format!("{operation} {stage}"))?;
        server.start_again().await?;
    }
    for stage in STAGES {
        server.kill(CREDIT).await?;
        let dying = dying(folder.path(), "keep_events", stage, 1);
        server.start_again_as(&dying).await?;
        let answered = server.caller().send(&Method::GET, "/v1/events/stream", "").await;
        ensure!(answered.is_err(), "want_events {stage}: {answered:?}");
        ensure_aborted(server.ended(CREDIT).await?)
            .with_context(|| format!("want_events {stage}"))?;
        server.start_again().await?;
    }
    server.stop().await?;
    server.sandbox.stop().await;
    DatabaseInspector::of(folder.path())?;
    Ok(())
}
