//! Webhooks with real endpoints: content, signature and retries; and T22: an endpoint that hangs,
//! redirects, never ends its response or is gone does not delay others.

mod command;
mod disabled;
mod fixture;
mod listen;
mod reader;
mod sink;
mod slow_readers;
mod stream;
mod tail;

use std::time::Duration;

use anyhow::{Context, Result};
use http::Method;
use notify_client::webhook::Verifier;
use notify_core::{Timestamp, WebhookData};
use notify_sandbox::{Provider, Rule, ScriptedResponse};
use notify_tests::{TestServer, until};
use serde_json::{Value, json};

use self::fixture::Fixture;
use self::sink::{Got, Mode, Sink};

/// Verifies a message as a receiver does.
fn verified(secret: &str, got: &Got) -> Result<notify_core::WebhookEvent> {
    let headers = |name: &str| Some(got.header(name).to_owned());
    let now = Timestamp(got.header("webhook-timestamp").parse::<i64>()? * 1_000);
    Ok(Verifier::new(secret)?.verify_at(headers, &got.body, now)?)
}

async fn came(sink: &Sink, count: usize) -> Result<Vec<Got>> {
    until("messages come", async || {
        let got = sink.got();
        Ok((got.len() >= count).then_some(got))
    })
    .await
}

#[tokio::test]
async fn events_are_delivered_once_and_signed() -> Result<()> {
    let fixture = Fixture::start().await?;
    let sink = Sink::start(Mode::status(204)).await?;
    let (path, secret) = fixture.webhook(&sink.url, &[]).await?;
    let record = fixture.send().await?;
    let event = |kind: &str| json!({"events": [{"type": kind, "notification_id": record.id, "device_id": "phone"}]});
    for kind in ["opened", "clicked", "opened"] {
        fixture.caller.post("/v1/events", &event(kind)).await.ok();
    }
    fixture
        .server
        .sandbox()
        .add_rule(Rule::on(Provider::Fcm, ScriptedResponse::reason("UNREGISTERED")))?;
    fixture.send().await?;
    let got = came(&sink, 5).await?;
    let mut kinds = Vec::new();
    for got in &got {
        let event = verified(&secret, got)?;
        kinds.push(event.data.kind().to_owned());
        assert_eq!(got.header("content-type"), "application/json");
        assert!(got.body.len() < 20_000);
        if let WebhookData::NotificationCompleted(ended) = event.data {
            assert_eq!((ended.notification_id, ended.counts.sent), (record.id.clone(), 1));
        }
    }
    kinds.sort();
    let expected = [
        "device.unregistered",
        "engagement.clicked",
        "engagement.opened",
        "notification.completed",
        "notification.failed",
    ];
    assert_eq!(kinds, expected);
    let attempts = fixture
        .attempts(&path, |all| all.iter().all(|attempt| attempt["outcome"] == "delivered"))
        .await?;
    assert_eq!(attempts.len(), 5);
    assert_eq!((&attempts[0]["status"], &attempts[0]["attempts"]), (&json!(204), &json!(1)));
    fixture.server.stop().await;
    Ok(())
}

#[tokio::test]
async fn failures_are_retried_on_schedule_under_the_same_id() -> Result<()> {
    let fixture = Fixture::start().await?;
    let sink = Sink::start(Mode::status(500)).await?;
    let (path, secret) = fixture.webhook(&sink.url, &["notification.completed"]).await?;
    fixture.send().await?;
    // The attempts come 5 s, 5 min, 35 min … after the first one. Each may differ by a fifth of the wait
    // before it.
    let minutes: [u64; 9] = [0, 5, 35, 155, 455, 1_055, 1_895, 3_095, 4_535];
    let mut at = Duration::ZERO;
    for (tries, minutes) in (1..).zip(minutes) {
        let attempts = fixture
            .attempts(&path, |all| all.len() == 1 && all[0]["attempts"] == json!(tries))
            .await?;
        assert_eq!(attempts[0]["outcome"], "pending");
        assert_eq!(
            (&attempts[0]["status"], &attempts[0]["reason"]),
            (&json!(500), &json!("status"))
        );
        let next =
            if minutes == 0 { Duration::from_secs(5) } else { Duration::from_secs(minutes * 60) };
        let wait = next - at;
        // The attempt must not come before its time.
        fixture.advance(wait * 3 / 4);
        fixture.caller.get(&path).await.ok();
        assert_eq!(sink.got().len(), tries, "not earlier than 80 % of the wait");
        fixture.advance(wait / 4 + wait / 4);
        at = next + wait / 4;
        came(&sink, tries + 1).await?;
        // Later waits count from the first attempt, so a late attempt does not shift the schedule.
        at = at.max(next);
    }
    let attempts = fixture.attempts(&path, |all| all[0]["outcome"] == "failed").await?;
    assert_eq!(attempts[0]["attempts"], 10, "ten attempts and no more");
    let got = sink.got();
    assert_eq!(got.len(), 10);
    for one in &got {
        assert_eq!(one.header("webhook-id"), attempts[0]["id"].as_str().context("an id")?);
        assert_eq!(one.body, got[0].body);
        verified(&secret, one)?;
    }
    assert_ne!(got[0].header("webhook-timestamp"), got[9].header("webhook-timestamp"));
    // A manual redelivery starts the schedule again.
    sink.answers(Mode::status(200));
    let id = attempts[0]["id"].as_str().context("an id")?;
    fixture.caller.post(&format!("{path}/attempts/{id}/redeliver"), &json!({})).await.ok();
    let attempts = fixture.attempts(&path, |all| all[0]["outcome"] == "delivered").await?;
    assert_eq!(attempts[0]["attempts"], 1);
    fixture.server.stop().await;
    Ok(())
}

/// When an endpoint works again, one message or all messages can be sent at once.
#[tokio::test]
async fn pending_messages_can_be_sent_as_soon_as_the_endpoint_recovers() -> Result<()> {
    let fixture = Fixture::start().await?;
    let sink = Sink::start(Mode::status(500)).await?;
    let (path, _) = fixture.webhook(&sink.url, &["notification.completed"]).await?;
    for _ in 0..3 {
        fixture.send().await?;
    }
    let waiting = fixture
        .attempts(&path, |all| all.len() == 3 && all.iter().all(|attempt| attempt["attempts"] == 1))
        .await?;
    sink.answers(Mode::status(200));
    let first = waiting[0]["id"].as_str().context("an id")?;
    fixture.caller.post(&format!("{path}/attempts/{first}/redeliver"), &json!({})).await.ok();
    let is_done = |attempt: &&Value| attempt["outcome"] == "delivered";
    fixture.attempts(&path, |all| all.iter().filter(is_done).count() == 1).await?;
    let since = json!({"since": waiting[2]["created_at"]});
    let recovered = fixture.caller.post(&format!("{path}/recover"), &since).await.ok();
    assert_eq!(recovered, json!({"recovered": 2, "more": false}));
    fixture.attempts(&path, |all| all.iter().filter(is_done).count() == 3).await?;
    fixture.server.stop().await;
    Ok(())
}

#[tokio::test]
async fn hanging_redirecting_and_endless_endpoints_delay_no_others() -> Result<()> {
    let fixture = Fixture::start().await?;
    let elsewhere = Sink::start(Mode::status(200)).await?;
    let hanging = Sink::start(Mode::Hang).await?;
    let redirecting = Sink::start(Mode::Answer {
        status: 307,
        headers: "location: /elsewhere\r\n",
        body_bytes: 0,
    })
    .await?;
    let endless =
        Sink::start(Mode::Answer { status: 200, headers: "", body_bytes: 5_000_000 }).await?;
    let gone = Sink::start(Mode::status(410)).await?;
    let only = &["notification.completed"];
    let (hanging_path, _) = fixture.webhook(&hanging.url, only).await?;
    let (redirecting_path, _) = fixture.webhook(&redirecting.url, only).await?;
    let (endless_path, _) = fixture.webhook(&endless.url, only).await?;
    let (gone_path, _) = fixture.webhook(&gone.url, only).await?;
    let (good_path, _) = fixture.webhook(&elsewhere.url, only).await?;
    // The number of messages exceeds the endpoint's slots.
    for _ in 0..12 {
        let record = fixture.send().await?;
        assert_eq!(record.counts.sent, 1, "the push path does not wait for any of them");
    }
    let all = |outcome: &'static str| {
        move |all: &[Value]| {
            all.len() == 12 && all.iter().all(|attempt| attempt["outcome"] == outcome)
        }
    };
    fixture.attempts(&good_path, all("delivered")).await?;
    fixture.attempts(&endless_path, all("delivered")).await?;
    let redirected = fixture
        .attempts(&redirecting_path, |all| {
            all.len() == 12 && all.iter().all(|attempt| attempt["attempts"] == 1)
        })
        .await?;
    assert!(
        redirected
            .iter()
            .all(|attempt| attempt["reason"] == "redirected" && attempt["status"] == 307)
    );
    assert_eq!(redirecting.got().len(), 12, "no redirect is followed");
    let disabled = until("the one that is gone is disabled", async || {
        let hook = fixture.caller.get(&gone_path).await.ok();
        Ok((hook["enabled"] == false).then_some(hook))
    })
    .await?;
    assert_eq!((&disabled["disabled_reason"], &disabled["pending"]), (&json!("gone"), &json!(0)));
    let received = gone.got().len();
    // All slots of the endpoint are used. The other messages wait in the log.
    let hangs = fixture.attempts(&hanging_path, |all| !all.is_empty()).await?;
    assert!(hangs.iter().all(|attempt| attempt["attempts"] == 0), "its attempts are under way");
    assert_eq!(hanging.got().len(), 8, "an endpoint has so many slots");
    fixture.send().await?;
    fixture.attempts(&good_path, |all| all.len() == 13 && all[0]["outcome"] == "delivered").await?;
    assert_eq!(gone.got().len(), received, "nothing is sent to what is gone");
    // A response that is too slow counts as a failure. The next attempt comes after at least a minute.
    let slow = fixture
        .attempts(&hanging_path, |all| all.iter().any(|attempt| attempt["attempts"] == 1))
        .await?;
    let slow = slow.iter().find(|attempt| attempt["attempts"] == 1).context("one")?;
    assert_eq!(slow["reason"], "timeout");
    let wait = slow["next_attempt_at"].as_i64().zip(slow["last_attempt_at"].as_i64());
    assert!(wait.is_some_and(|(next, last)| next - last >= 60_000), "{slow}");
    fixture.change(&hanging_path, &json!({"enabled": false})).await?;
    fixture.server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_webhook_is_tested_rotated_and_disabled_by_hand() -> Result<()> {
    let fixture = Fixture::start().await?;
    let sink = Sink::start(Mode::status(200)).await?;
    let (path, first) = fixture.webhook(&sink.url, &[]).await?;
    let delivered = fixture.caller.post(&format!("{path}/test"), &json!({})).await.ok();
    assert_eq!(
        (&delivered["outcome"], &delivered["event"]),
        (&json!("delivered"), &json!("webhook.test"))
    );
    let second = fixture.caller.post(&format!("{path}/rotate"), &json!({})).await.ok();
    let second = second["secret"].as_str().context("a secret")?.to_owned();
    assert_ne!(first, second);
    fixture.caller.post(&format!("{path}/test"), &json!({})).await.ok();
    let got = sink.got();
    verified(&first, &got[1]).context("the one before signs too")?;
    verified(&second, &got[1])?;
    fixture.advance(Duration::from_secs(24 * 3_600));
    sink.answers(Mode::status(503));
    let failed = fixture.caller.post(&format!("{path}/test"), &json!({})).await.ok();
    assert_eq!((&failed["outcome"], &failed["status"]), (&json!("failed"), &json!(503)));
    let got = sink.got();
    assert!(verified(&first, &got[2]).is_err(), "a day later it does not");
    verified(&second, &got[2])?;
    let list = fixture.caller.get("/v1/webhooks").await.ok().to_string();
    assert!(!list.contains("whsec_"), "{list}");
    fixture.change(&path, &json!({"enabled": false})).await?;
    let refused = fixture.caller.send(&Method::POST, &format!("{path}/test"), "{}").await?;
    assert_eq!(refused.status, 400);
    fixture.server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_replayed_creation_shows_the_secret_which_is_stored_sealed() -> Result<()> {
    let fixture = Fixture::start().await?;
    let body = json!({"url": "https://127.0.0.1:9/"}).to_string();
    let key = [("idempotency-key", "once")];
    let first = fixture.caller.send_with(&Method::POST, "/v1/webhooks", body.clone(), &key).await?;
    let again = fixture.caller.send_with(&Method::POST, "/v1/webhooks", body, &key).await?;
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(first.ok(), again.ok());
    fixture.server.stop().await;
    Ok(())
}

#[tokio::test]
async fn private_addresses_are_rejected_on_creation_and_on_delivery() -> Result<()> {
    let sink = Sink::start(Mode::status(200)).await?;
    let mut server = TestServer::start().await;
    let caller = server.caller();
    let made = caller.post("/v1/webhooks", &json!({"url": sink.url})).await.ok();
    let path = format!("/v1/webhooks/{}", made["id"].as_str().context("an id")?);
    server.restart_with(|config| config.allow_private_networks = false).await;
    let caller = server.caller();
    let refused = caller.post(&format!("{path}/test"), &json!({})).await.ok();
    assert_eq!(
        (&refused["reason"], &refused["attempts"]),
        (&json!("address_not_allowed"), &json!(1))
    );
    assert_eq!((&refused["outcome"], &refused["status"]), (&json!("failed"), &json!(null)));
    for url in [
        sink.url.as_str(),
        "https://127.0.0.1/",
        "https://0x7f.1/",
        "https://[::ffff:127.0.0.1]/",
        "https://169.254.169.254/",
        "https://localhost./",
        "https://a:b@example.com/",
        "https://example.com:22/",
        "http://example.com/",
    ] {
        let body = json!({"url": url}).to_string();
        let refused = caller.send(&Method::POST, "/v1/webhooks", body.clone()).await?;
        assert_eq!(refused.status, 400, "{url}: {}", refused.text);
        let refused = caller.send(&Method::PATCH, &path, body).await?;
        assert_eq!(refused.status, 400, "{url}");
    }
    assert!(sink.got().is_empty(), "nothing came");
    server.stop().await;
    Ok(())
}
