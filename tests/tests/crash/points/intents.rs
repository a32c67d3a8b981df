//! Crash points of a retry whose message must not be repeated. The process ends between the statement and the
//! commit that records the intent, and after the commit, before it has sent the message.

use anyhow::{Context, Result, ensure};
use notify_core::{CreateNotification, OnCrash, Platform, UpdateApp};
use notify_sandbox::{Provider, Rule, ScriptedResponse};
use notify_tests::{RestartableServer, android, completed, configure_providers};
use serde_json::json;

use super::{STAGES, dying, ensure_aborted};
use crate::load::settle;
use crate::{CREDIT, launch};

/// The operations that this file tests.
pub(super) fn operations() -> Vec<&'static str> {
    vec!["record_intent"]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_committed_intent_keeps_a_message_from_being_sent() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let data_dir = folder.path().join("data");
    let mut server = RestartableServer::start(launch(&data_dir)).await?;
    let client = server.client()?;
    let app = configure_providers(&client, &server.sandbox).await?;
    let skip = UpdateApp { on_crash: Some(OnCrash::Skip.to_string()), ..UpdateApp::default() };
    client.admin().update_app(app, &skip).await?;
    client.devices().register(&android(1, &ScriptedResponse::ok())).await?;
    let payload = serde_json::from_value(json!({ "event": "sale" }))?;
    let raw = CreateNotification::to_platforms([Platform::Android], "x").android_json(payload);
    server.kill(CREDIT).await?;
    let mut ends = Vec::new();
    for stage in STAGES {
        let unavailable = ScriptedResponse::status(503).first(1);
        server.sandbox.add_rule(Rule::on(Provider::Fcm, unavailable))?;
        let dying = dying(&data_dir, "record_intent", stage, 1);
        ensure!(server.begin_again_as(&dying, CREDIT).await?.is_none(), "nothing waits to be sent");
        let id = server.client()?.notifications().create(&raw).await?.id;
        ensure_aborted(server.ended(CREDIT).await?)
            .with_context(|| format!("{stage} is reached"))?;
        server.start_again().await?;
        let record = completed(&server.client()?, &id).await?;
        let failure = record.failures.first().map(|row| row.reason.clone()).unwrap_or_default();
        ends.push((record.counts.sent, failure));
        server.kill(CREDIT).await?;
    }
    let expected = [(1, String::new()), (0, "outcome_unknown".to_owned())];
    ensure!(ends == expected, "before and after the commit: {ends:?}");
    server.start_again().await?;
    settle(server, &data_dir).await
}
