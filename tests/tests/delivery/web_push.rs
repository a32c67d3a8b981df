//! Web Push, from the subscription to the message that the browser decrypts.

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Method;
use notify_core::{
    CreateNotification, DisabledReason, FailureCount, NotificationStatus, Platform, Priority,
    ProviderKind, WebPushAction,
};
use notify_sandbox::{Browser, Provider, ScriptedResponse};
use notify_tests::{Caller, TestServer, browser, browser_endpoint};
use serde_json::json;

use crate::send;

fn to_browsers(text: &str) -> CreateNotification {
    CreateNotification::to_platforms([Platform::Web], text)
}

#[tokio::test]
async fn a_browser_decrypts_the_message_and_201_counts_as_sent() -> Result<()> {
    let server = TestServer::start().await;
    let id = browser(&server.client(), server.sandbox(), "tab", &ScriptedResponse::ok()).await?;
    let reply = WebPushAction { title: "Reply".into(), ..WebPushAction::default() };
    let notification = to_browsers("Läuft")
        .url("https://shop.com/order/7")
        .image_url("https://shop.com/7.png")
        .web_push_action(reply.clone())
        .web_push_action(WebPushAction { url: Some("https://shop.com/o".into()), ..reply });
    let (record, received) = send(&server, &notification).await?;
    assert_eq!((record.counts.targeted, record.counts.sent), (1, 1), "{record:?}");
    assert_eq!(record.status, NotificationStatus::Completed);
    let [message] = &received[..] else { anyhow::bail!("{received:?}") };
    let notification = record.id.as_str();
    assert_eq!((message.provider, message.status), (Provider::WebPush, 201));
    assert_eq!(
        message.payload,
        json!({
            "title": "default",
            "body": "Läuft",
            "image": "https://shop.com/7.png",
            "url": "https://shop.com/order/7",
            "actions": [
                {"action": "action-1", "title": "Reply"},
                {"action": "action-2", "title": "Reply", "url": "https://shop.com/o"},
            ],
            "tag": notification,
            "data": {
                "notification_id": notification,
                "url": "https://shop.com/order/7",
                "image_url": "https://shop.com/7.png",
            },
        })
    );
    let headers = &message.headers;
    assert_eq!((&*headers["ttl"], &*headers["urgency"]), ("2419200", "high"));
    assert_eq!(headers["topic"].len(), 32, "the id of the notification, hashed to fit");
    let device = server.client().devices().get(&id).await?;
    assert!(device.enabled);
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn urgency_ttl_and_topic_follow_the_notification() -> Result<()> {
    let server = TestServer::start().await;
    browser(&server.client(), server.sandbox(), "tab", &ScriptedResponse::ok()).await?;
    let price = |text: &str| {
        to_browsers(text).priority(Priority::Normal).ttl_seconds(300).collapse_key("price")
    };
    let (_, first) = send(&server, &price("1 €")).await?;
    let (_, second) = send(&server, &price("2 €")).await?;
    for message in [&first[0], &second[0]] {
        let headers = &message.headers;
        assert_eq!((&*headers["ttl"], &*headers["urgency"]), ("300", "normal"));
        assert_eq!(message.payload["tag"], "price", "the second takes the place of the first");
    }
    assert_eq!(first[0].headers["topic"], second[0].headers["topic"]);
    let (_, other) = send(&server, &to_browsers("no key")).await?;
    assert_ne!(other[0].headers["topic"], first[0].headers["topic"]);
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn dead_subscriptions_disable_their_browsers_and_rejected_messages_do_not() -> Result<()> {
    let server = TestServer::start().await;
    let (client, sandbox) = (server.client(), &server.sandbox());
    let dead = [
        browser(&client, sandbox, "gone", &ScriptedResponse::status(410)).await?,
        browser(&client, sandbox, "google", &ScriptedResponse::reason("unsubscribed")).await?,
        browser(&client, sandbox, "never", &ScriptedResponse::status(404)).await?,
    ];
    let refused = [
        browser(&client, sandbox, "bad", &ScriptedResponse::status(400)).await?,
        browser(&client, sandbox, "large", &ScriptedResponse::status(413)).await?,
    ];
    browser(&client, sandbox, "good", &ScriptedResponse::ok()).await?;
    let (record, received) = send(&server, &to_browsers("x")).await?;
    assert_eq!(received.len(), 6, "each is tried once");
    let counts = &record.counts;
    let summary = (counts.targeted, counts.sent, counts.unregistered, counts.failed);
    assert_eq!(summary, (6, 1, 3, 2), "{record:?}");
    for id in &dead {
        let device = client.devices().get(id).await?;
        let state = (device.enabled, device.disabled_reason);
        assert_eq!(state, (false, Some(DisabledReason::Unregistered)), "{device:?}");
    }
    for id in &refused {
        assert!(client.devices().get(id).await?.enabled, "{id}");
    }
    let mut failures = record.failures;
    failures.sort_by(|left, right| left.reason.cmp(&right.reason));
    let failure = |reason: &str| FailureCount {
        platform: Platform::Web,
        reason: reason.to_owned(),
        count: 1,
    };
    let expected = [
        failure("http_400 errno_110"),
        failure("http_404 errno_102"),
        failure("http_410"),
        failure("http_410 errno_106"),
        failure("http_413 errno_104"),
    ];
    assert_eq!(failures, expected);
    let (record, _) = send(&server, &to_browsers("x")).await?;
    assert_eq!(record.counts.targeted, 3, "the dead are left alone");
    // The browser subscribes again. The new endpoint enables the device.
    browser(&client, sandbox, "gone", &ScriptedResponse::ok()).await?;
    assert!(client.devices().get(&dead[0]).await?.enabled);
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn transient_failures_of_a_push_service_are_retried_after_its_delay() -> Result<()> {
    let server = TestServer::start().await;
    let (client, sandbox) = (server.client(), &server.sandbox());
    let asks = ScriptedResponse::status(503).retry_after(2).first(1);
    let asks = browser_endpoint(&client, sandbox, "asks", &asks).await?;
    for (device, answer) in [
        ("sick", ScriptedResponse::status(503).first(1)),
        ("slow", ScriptedResponse::status(429).retry_after(1).first(1)),
        ("windows", ScriptedResponse::status(406).retry_after(1).first(1)),
        ("fine", ScriptedResponse::ok()),
    ] {
        browser(&client, sandbox, device, &answer).await?;
    }
    let id = client.notifications().create(&to_browsers("x")).await?.id;
    let record = server.completed(&id).await?;
    assert_eq!((record.counts.targeted, record.counts.sent), (5, 5), "{record:?}");
    let counts = sandbox.counts();
    assert_eq!((counts.accepted, counts.accepted_tokens), (5, 5), "none got it twice");
    let topics: std::collections::HashSet<_> =
        sandbox.received().iter().map(|message| message.headers["topic"].clone()).collect();
    assert_eq!(topics.len(), 1, "a repeat replaces the first");
    let of_asks = sandbox
        .received()
        .into_iter()
        .filter(|message| message.token.as_deref().is_some_and(|token| asks.ends_with(token)));
    let at: Vec<i64> = of_asks.map(|message| message.at_ms).collect();
    assert!(at.len() == 2 && at[1] - at[0] >= 2_000, "not before Retry-After: {at:?}");
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_browser_subscribes_with_the_generated_vapid_key() -> Result<()> {
    let server = TestServer::start().await;
    let (client, app) = (server.client(), server.app_id);
    client.admin().delete_provider(app, ProviderKind::WebPush).await?;
    let mut config = server.sandbox().webpush_config();
    config.as_object_mut().context("an object")?.remove("vapid_private_key");
    client.admin().put_provider(app, ProviderKind::WebPush, &config).await?;
    let shown = client.admin().get_provider(app, ProviderKind::WebPush).await?.config;
    let key = shown["vapid_public_key"].as_str().context("a key")?;
    let made = server.sandbox().subscribe(Some(key), &ScriptedResponse::ok())?;
    let subscription = json!({"platform": "web", "subscription": {
        "endpoint": made.endpoint, "keys": {"p256dh": made.p256dh, "auth": made.auth}}});
    server.caller().post("/v1/subscriptions", &subscription).await.ok();
    // A body without a key keeps the existing key.
    client.admin().put_provider(app, ProviderKind::WebPush, &config).await?;
    let (record, _) = send(&server, &to_browsers("x")).await?;
    assert_eq!(record.counts.sent, 1, "{record:?}");
    server.stop().await;
    Ok(())
}

/// The sandbox cannot decrypt a message to a browser with its own keys, so it shows the encrypted message.
#[tokio::test]
async fn a_browser_with_its_own_keys_can_decrypt_the_message() -> Result<()> {
    let server = TestServer::start().await;
    let mine = Browser::new()?;
    let keys = mine.subscription("");
    let sandbox = Caller::app(&format!("http://{}", server.sandbox().addr()), "none is asked for");
    for (keys, status) in [
        (json!({"p256dh": keys.p256dh, "auth": keys.auth}), 200),
        (json!({"p256dh": keys.p256dh, "auth": "c2hvcnQ"}), 400),
        (json!({"p256dh": keys.auth, "auth": keys.auth}), 400),
    ] {
        let ask = json!({ "keys": keys }).to_string();
        let reply = sandbox.send(&Method::POST, "/sandbox/subscriptions", ask).await?;
        assert_eq!(reply.status, status, "{keys}");
        if status == 200 {
            let body = json!({"platform": "web", "subscription": reply.json()});
            server.caller().post("/v1/subscriptions", &body).await.ok();
        }
    }
    let (record, received) = send(&server, &to_browsers("Läuft")).await?;
    assert_eq!(record.counts.sent, 1, "{record:?}");
    let encrypted = received[0].payload["encrypted"].as_str().context("it is shown as it came")?;
    let text = mine.decrypt(&URL_SAFE_NO_PAD.decode(encrypted)?).context("it can be read")?;
    let message: serde_json::Value = serde_json::from_slice(&text)?;
    assert_eq!(message["body"], "Läuft");
    server.stop().await;
    Ok(())
}
