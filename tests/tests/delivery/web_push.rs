//! Web Push from a subscription to what the browser decrypts (B25, B34, B36, B39, B40).

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Method;
use notify_core::{
    CreateNotification, DisabledReason, FailureCount, NotificationStatus, Platform, Priority,
    ProviderKind, WebPushAction,
};
use notify_sandbox::{Browser, Provider, Rule, ScriptedResponse};
use notify_tests::{Caller, TestServer, browser};
use serde_json::json;

use crate::send;

fn to_browsers(text: &str) -> CreateNotification {
    CreateNotification::to_platforms([Platform::Web], text)
}

#[tokio::test]
async fn a_browser_decrypts_what_was_sent_and_201_counts_as_sent() -> Result<()> {
    let server = TestServer::start().await?;
    let id = browser(&server.client(), &server.sandbox, "tab", &ScriptedResponse::ok()).await?;
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
    server.stop().await
}

#[tokio::test]
async fn urgency_ttl_and_topic_follow_the_notification() -> Result<()> {
    let server = TestServer::start().await?;
    browser(&server.client(), &server.sandbox, "tab", &ScriptedResponse::ok()).await?;
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
    server.stop().await
}

#[tokio::test]
async fn dead_subscriptions_disable_their_browsers_and_refused_messages_do_not() -> Result<()> {
    let server = TestServer::start().await?;
    let (client, sandbox) = (server.client(), &server.sandbox);
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
    let told = (counts.targeted, counts.sent, counts.unregistered, counts.failed);
    assert_eq!(told, (6, 1, 3, 2), "{record:?}");
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
    // The browser subscribes anew: another endpoint brings the device back (B22).
    browser(&client, sandbox, "gone", &ScriptedResponse::ok()).await?;
    assert!(client.devices().get(&dead[0]).await?.enabled);
    server.stop().await
}

#[tokio::test]
async fn transient_refusals_of_a_push_service_are_tried_again_and_arrive() -> Result<()> {
    let server = TestServer::start().await?;
    let (client, sandbox) = (server.client(), &server.sandbox);
    for (device, answer) in [
        ("sick", ScriptedResponse::status(503).first(1)),
        ("asks", ScriptedResponse::status(500).retry_after(1).first(1)),
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
    assert_eq!((counts.accepted, counts.accepted_tokens), (5, 5), "nobody got it twice");
    let topics: std::collections::HashSet<_> =
        sandbox.received().iter().map(|message| message.headers["topic"].clone()).collect();
    assert_eq!(topics.len(), 1, "a repeat replaces what came before it (B36)");
    server.stop().await
}

#[tokio::test]
async fn a_blocked_target_fails_at_once_and_is_never_tried_again() -> Result<()> {
    let mut server = TestServer::start().await?;
    let client = server.client();
    let id = browser(&client, &server.sandbox, "tab", &ScriptedResponse::ok()).await?;
    server.restart_with(|config| config.allow_private_networks = false).await?;
    let client = server.client();
    let (record, received) = send(&server, &to_browsers("x")).await?;
    assert_eq!((record.counts.targeted, record.counts.failed), (1, 1), "{record:?}");
    let reason = record.failures.first().map(|failure| failure.reason.as_str());
    assert_eq!(reason, Some("address_not_allowed"), "and no word of what is there");
    assert!(received.is_empty());
    assert_eq!(server.sandbox.counts().connections, 0);
    assert!(client.devices().get(&id).await?.enabled, "it may be allowed again");
    server.stop().await
}

#[tokio::test]
async fn a_page_subscribes_with_the_key_that_the_server_made() -> Result<()> {
    let server = TestServer::start().await?;
    let (client, app) = (server.client(), server.app_id);
    client.admin().delete_provider(app, ProviderKind::WebPush).await?;
    let mut config = server.sandbox.webpush_config();
    config.as_object_mut().context("an object")?.remove("vapid_private_key");
    client.admin().put_provider(app, ProviderKind::WebPush, &config).await?;
    let shown = client.admin().get_provider(app, ProviderKind::WebPush).await?.config;
    let key = shown["vapid_public_key"].as_str().context("a key")?;
    let made = server.sandbox.subscribe(Some(key), &ScriptedResponse::ok())?;
    let subscription = json!({"platform": "web", "subscription": {
        "endpoint": made.endpoint, "keys": {"p256dh": made.p256dh, "auth": made.auth}}});
    server.caller()?.post("/v1/subscriptions", &subscription).await?;
    // Without the key in the body the same one is kept.
    client.admin().put_provider(app, ProviderKind::WebPush, &config).await?;
    let (record, _) = send(&server, &to_browsers("x")).await?;
    assert_eq!(record.counts.sent, 1, "{record:?}");
    server.stop().await
}

#[tokio::test]
async fn what_a_push_service_asks_for_is_never_undercut() -> Result<()> {
    let server = TestServer::start().await?;
    let (client, sandbox) = (server.client(), &server.sandbox);
    browser(&client, sandbox, "tab", &ScriptedResponse::ok()).await?;
    sandbox.add_rule(Rule::on(
        Provider::WebPush,
        ScriptedResponse::status(503).retry_after(2).first(1),
    ))?;
    let id = client.notifications().create(&to_browsers("x")).await?.id;
    server.completed(&id).await?;
    let at: Vec<i64> = sandbox.received().iter().map(|message| message.at_ms).collect();
    assert!(at.len() == 2 && at[1] - at[0] >= 2_000, "{at:?}");
    server.stop().await
}

/// The sandbox tells a browser of somebody else's what it was sent, which it cannot read itself.
#[tokio::test]
async fn a_browser_with_keys_of_its_own_is_sent_what_it_can_read() -> Result<()> {
    let server = TestServer::start().await?;
    let mine = Browser::new()?;
    let keys = mine.subscription("");
    let sandbox = Caller::app(&format!("http://{}", server.sandbox.addr()), "none is asked for")?;
    for (keys, status) in [
        (json!({"p256dh": keys.p256dh, "auth": keys.auth}), 200),
        (json!({"p256dh": keys.p256dh, "auth": "c2hvcnQ"}), 400),
        (json!({"p256dh": keys.auth, "auth": keys.auth}), 400),
    ] {
        let ask = json!({ "keys": keys }).to_string();
        let reply = sandbox.send(&Method::POST, "/sandbox/subscriptions", ask).await?;
        assert_eq!(reply.status, status, "{keys}");
        if status == 200 {
            let body = json!({"platform": "web", "subscription": reply.json()?});
            server.caller()?.post("/v1/subscriptions", &body).await?;
        }
    }
    let (record, received) = send(&server, &to_browsers("Läuft")).await?;
    assert_eq!(record.counts.sent, 1, "{record:?}");
    let encrypted = received[0].payload["encrypted"].as_str().context("it is shown as it came")?;
    let text = mine.decrypt(&URL_SAFE_NO_PAD.decode(encrypted)?).context("it can be read")?;
    let message: serde_json::Value = serde_json::from_slice(&text)?;
    assert_eq!(message["body"], "Läuft");
    server.stop().await
}
