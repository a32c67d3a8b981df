//! Webhooks that are disabled because their endpoint fails.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use notify_tests::until;
use serde_json::{Value, json};

use crate::came;
use crate::fixture::Fixture;
use crate::sink::{Mode, Sink};

const HOUR: Duration = Duration::from_secs(3_600);

/// Sends a notification and waits until its event was tried once at the webhook.
async fn tried_once(fixture: &Fixture, webhook: &str) -> Result<Value> {
    let before = fixture.attempts(webhook, |_| true).await?.len();
    fixture.send().await?;
    let tried = |all: &[Value]| all.len() > before && all[0]["attempts"] != json!(0);
    let all = fixture.attempts(webhook, tried).await?;
    all.into_iter().next().context("the newest")
}

#[tokio::test]
async fn a_webhook_that_fails_for_120_hours_is_disabled_unless_it_succeeds_in_between() -> Result<()>
{
    let fixture = Fixture::start().await?;
    let (broken, flaky) =
        (Sink::start(Mode::status(500)).await?, Sink::start(Mode::status(500)).await?);
    let only = &["notification.completed"];
    let (broken_path, _) = fixture.webhook(&broken.url, only).await?;
    let (flaky_path, _) = fixture.webhook(&flaky.url, only).await?;
    let read = async |path: &str| fixture.caller.get(path).await.ok();
    tried_once(&fixture, &broken_path).await?;
    let since = until("both fail", async || {
        let (broken, flaky) = (read(&broken_path).await, read(&flaky_path).await);
        Ok(broken["failing_since"].as_i64().zip(flaky["failing_since"].as_i64()))
    })
    .await?;
    // Halfway, one endpoint accepts its messages again, and then fails for good.
    fixture.advance(HOUR * 60);
    flaky.answers(Mode::status(200));
    let attempt = tried_once(&fixture, &flaky_path).await?;
    assert_eq!(attempt["outcome"], "delivered");
    flaky.answers(Mode::status(500));
    tried_once(&fixture, &flaky_path).await?;
    fixture.advance(HOUR * 59);
    tried_once(&fixture, &broken_path).await?;
    let hook = read(&broken_path).await;
    assert_eq!((&hook["enabled"], &hook["failing_since"]), (&json!(true), &json!(since.0)));

    fixture.advance(HOUR * 2);
    fixture.send().await?;
    let disabled = until("it is disabled", async || {
        let hook = read(&broken_path).await;
        Ok((hook["enabled"] == false).then_some(hook))
    })
    .await?;
    assert_eq!(
        (&disabled["disabled_reason"], &disabled["pending"]),
        (&json!("failing"), &json!(0)),
        "what waits is ended"
    );
    let other = read(&flaky_path).await;
    assert_eq!(other["enabled"], true, "failing for 61 hours alone: {other}");
    ensure!(other["failing_since"].as_i64() > Some(since.1), "{other}");

    // After it is enabled again, the webhook gets new events, and its failures are reset.
    let missed = fixture.send().await?;
    broken.answers(Mode::status(200));
    fixture.change(&broken_path, &json!({"enabled": true})).await?;
    let hook = read(&broken_path).await;
    assert_eq!((&hook["disabled_reason"], &hook["failing_since"]), (&json!(null), &json!(null)));
    let before = broken.got().len();
    let next = fixture.send().await?;
    let got = came(&broken, before + 1).await?;
    let event: Value = serde_json::from_slice(&got[before].body)?;
    assert_eq!(event["data"]["notification_id"], json!(next.id));
    assert_ne!(event["data"]["notification_id"], json!(missed.id));
    fixture.server.stop().await;
    Ok(())
}

#[tokio::test]
async fn an_endpoint_that_returns_410_is_disabled_and_starts_over_when_enabled() -> Result<()> {
    let fixture = Fixture::start().await?;
    let gone = Sink::start(Mode::status(500)).await?;
    let (path, _) = fixture.webhook(&gone.url, &["notification.completed"]).await?;
    // One message waits for its next attempt while the endpoint disappears.
    tried_once(&fixture, &path).await?;
    gone.answers(Mode::status(410));
    fixture.send().await?;
    let disabled = until("it is disabled", async || {
        let hook = fixture.caller.get(&path).await.ok();
        Ok((hook["enabled"] == false).then_some(hook))
    })
    .await?;
    assert_eq!((&disabled["disabled_reason"], &disabled["pending"]), (&json!("gone"), &json!(0)));
    let all = fixture.attempts(&path, |all| all.len() == 2).await?;
    let reasons: Vec<_> =
        all.iter().map(|attempt| attempt["reason"].as_str().unwrap_or("")).collect();
    assert_eq!(reasons, ["gone", "webhook_disabled"]);
    fixture.advance(HOUR * 24);
    fixture.send().await?;
    gone.answers(Mode::status(200));
    fixture.change(&path, &json!({"enabled": true})).await?;
    let next = fixture.send().await?;
    let got = came(&gone, 3).await?;
    let event: Value = serde_json::from_slice(&got[2].body)?;
    assert_eq!(event["data"]["notification_id"], json!(next.id), "no earlier event is sent");
    fixture.server.stop().await;
    Ok(())
}
