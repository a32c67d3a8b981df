//! Webhooks that are disabled because nobody takes what is sent there.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use notify_tests::until;
use serde_json::{Value, json};

use crate::came;
use crate::rig::Rig;
use crate::sink::{Mode, Sink};

const HOUR: Duration = Duration::from_secs(3_600);

/// Sends a notification and waits until its event was tried once at the webhook.
async fn told_once(rig: &Rig, webhook: &str) -> Result<Value> {
    let known = rig.attempts(webhook, |_| true).await?.len();
    rig.send().await?;
    let tried = |all: &[Value]| all.len() > known && all[0]["attempts"] != json!(0);
    let all = rig.attempts(webhook, tried).await?;
    all.into_iter().next().context("the newest")
}

#[tokio::test]
async fn who_fails_for_120_hours_is_disabled_and_who_succeeds_meanwhile_is_not() -> Result<()> {
    let rig = Rig::start().await?;
    let (broken, flaky) =
        (Sink::start(Mode::status(500)).await?, Sink::start(Mode::status(500)).await?);
    let only = &["notification.completed"];
    let (broken_path, _) = rig.webhook(&broken.url, only).await?;
    let (flaky_path, _) = rig.webhook(&flaky.url, only).await?;
    let read = async |path: &str| rig.caller.get(path).await;
    told_once(&rig, &broken_path).await?;
    let since = until("both fail", async || {
        let (broken, flaky) = (read(&broken_path).await?, read(&flaky_path).await?);
        Ok(broken["failing_since"].as_i64().zip(flaky["failing_since"].as_i64()))
    })
    .await?;
    // Halfway the one takes what comes, and then nothing any more.
    rig.turn(HOUR * 60);
    flaky.answers(Mode::status(200));
    let taken = told_once(&rig, &flaky_path).await?;
    assert_eq!(taken["outcome"], "delivered");
    flaky.answers(Mode::status(500));
    told_once(&rig, &flaky_path).await?;
    rig.turn(HOUR * 59);
    told_once(&rig, &broken_path).await?;
    let hook = read(&broken_path).await?;
    assert_eq!((&hook["enabled"], &hook["failing_since"]), (&json!(true), &json!(since.0)));

    rig.turn(HOUR * 2);
    rig.send().await?;
    let disabled = until("it is disabled", async || {
        let hook = read(&broken_path).await?;
        Ok((hook["enabled"] == false).then_some(hook))
    })
    .await?;
    assert_eq!(
        (&disabled["disabled_reason"], &disabled["pending"]),
        (&json!("failing"), &json!(0)),
        "what waits is ended"
    );
    let other = read(&flaky_path).await?;
    assert_eq!(other["enabled"], true, "failing for 61 hours alone: {other}");
    ensure!(other["failing_since"].as_i64() > Some(since.1), "{other}");

    // Enabled again it is told of what happens from then on, and its failures are forgiven.
    let missed = rig.send().await?;
    broken.answers(Mode::status(200));
    rig.change(&broken_path, &json!({"enabled": true})).await?;
    let hook = read(&broken_path).await?;
    assert_eq!((&hook["disabled_reason"], &hook["failing_since"]), (&json!(null), &json!(null)));
    let before = broken.got().len();
    let next = rig.send().await?;
    let got = came(&broken, before + 1).await?;
    let told: Value = serde_json::from_slice(&got[before].body)?;
    assert_eq!(told["data"]["notification_id"], json!(next.id));
    assert_ne!(told["data"]["notification_id"], json!(missed.id));
    rig.stop().await
}

#[tokio::test]
async fn who_says_gone_is_disabled_at_once_and_begins_anew_when_enabled() -> Result<()> {
    let rig = Rig::start().await?;
    let gone = Sink::start(Mode::status(500)).await?;
    let (path, _) = rig.webhook(&gone.url, &["notification.completed"]).await?;
    // One waits for its next attempt while the endpoint goes.
    told_once(&rig, &path).await?;
    gone.answers(Mode::status(410));
    rig.send().await?;
    let disabled = until("it is disabled", async || {
        let hook = rig.caller.get(&path).await?;
        Ok((hook["enabled"] == false).then_some(hook))
    })
    .await?;
    assert_eq!((&disabled["disabled_reason"], &disabled["pending"]), (&json!("gone"), &json!(0)));
    let all = rig.attempts(&path, |all| all.len() == 2).await?;
    let reasons: Vec<_> = all.iter().map(|one| one["reason"].as_str().unwrap_or("")).collect();
    assert_eq!(reasons, ["gone", "webhook_disabled"]);
    rig.turn(HOUR * 24);
    rig.send().await?;
    gone.answers(Mode::status(200));
    rig.change(&path, &json!({"enabled": true})).await?;
    let next = rig.send().await?;
    let got = came(&gone, 3).await?;
    let told: Value = serde_json::from_slice(&got[2].body)?;
    assert_eq!(told["data"]["notification_id"], json!(next.id), "nothing of before is told");
    rig.stop().await
}
