//! Web Push from end to end in Firefox. The browser subscribes at a push service, the server encrypts a
//! message and posts it, the push service forwards the message without decrypting it, and the worker shows
//! it.

mod push_service;
mod websocket;

use anyhow::{Context, Result};
use notify_core::{CreateNotification, DeviceId, Engagement, Platform, ProviderKind, SetWebAccess};
use notify_tests::{Firefox, TestServer, until};
use serde_json::{Value, json};

use self::push_service::PushService;
use crate::stage::{page_of, site_for};

const SHOWN: &str = "navigator.serviceWorker.ready
    .then((registration) => registration.getNotifications())
    .then((all) => all.map(({ title, body, tag }) => [title, body, tag]))";

/// Waits until the example's page shows a text with this beginning.
async fn says(firefox: &mut Firefox, beginning: &str) -> Result<String> {
    let mut last = String::new();
    let saying = until(beginning, async || {
        let state = firefox.run("document.getElementById('state').textContent").await?;
        state.as_str().unwrap_or_default().clone_into(&mut last);
        Ok(last.starts_with(beginning).then(|| last.clone()))
    });
    let text = saying.await;
    text.with_context(|| format!("it says: {last}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_shown_in_firefox() -> Result<()> {
    let (server, service) = (TestServer::start().await, PushService::start().await?);
    let (client, app) = (server.client(), server.app_id);
    let mut config = server.sandbox().webpush_config();
    config["ca_certificate"] = json!(service.certificate);
    client.admin().put_provider(app, ProviderKind::WebPush, &config).await?;
    let site = site_for(&server, "").await?;
    let access = SetWebAccess {
        allowed_origins: vec![site.origin.clone()],
        allowed_tags: None,
        push_services: Some(vec!["127.0.0.1".into()]),
    };
    client.admin().set_web_access(app, &access).await?;

    let preferences = [
        ("dom.push.serverURL", json!(service.url)),
        ("dom.push.testing.allowInsecureServerURL", json!(true)),
        // Marionette disables this setting by default.
        ("dom.push.connection.enabled", json!(true)),
        ("permissions.default.desktop-notification", json!(1)),
        ("alerts.useSystemBackend", json!(false)),
    ];
    let mut firefox = Firefox::start(&preferences).await?;
    firefox.open(&page_of(&server, &site)).await?;
    says(&mut firefox, "Not subscribed.").await?;
    firefox.click("#subscribe").await?;
    let state = says(&mut firefox, "Subscribed as ").await?;
    let id = state.trim_start_matches("Subscribed as ").trim_end_matches('.');
    let shown = client.admin().get_provider(app, ProviderKind::WebPush).await?.config;
    assert_eq!(service.key().as_deref(), shown["vapid_public_key"].as_str());

    let notification =
        CreateNotification::to_platforms([Platform::Web], "Your order is on its way")
            .url("https://shop.example/order/7");
    let made = client.notifications().create(&notification).await?.id;
    assert_eq!(server.completed(&made).await?.counts.sent, 1);
    // Firefox has decrypted the message, the worker has shown it, and its report has reached the server.
    until("it is counted", async || {
        let record = client.notifications().get(&made).await?;
        let received = Engagement { received: 1, ..Engagement::default() };
        Ok((record.engagement == received).then_some(()))
    })
    .await?;
    let all = firefox.run(SHOWN).await?;
    let [one] = &all.as_array().context("a list")?[..] else { anyhow::bail!("{all}") };
    assert_eq!((&one[1], &one[2]), (&json!("Your order is on its way"), &json!(made)));
    let posted = service.posted();
    let [headers] = &posted[..] else { anyhow::bail!("{posted:?}") };
    assert_eq!(headers["content-encoding"], "aes128gcm");
    assert!(headers["authorization"].to_str()?.starts_with("vapid t="), "{headers:?}");
    let messages = until("it is acknowledged", async || {
        let acknowledged: Vec<Value> = service.acknowledged();
        Ok((!acknowledged.is_empty()).then_some(acknowledged))
    })
    .await?;
    // The code 100 means that the message was delivered to the worker, which accepted it.
    assert_eq!((&messages[0]["version"], &messages[0]["code"]), (&json!("message-1"), &json!(100)));

    // When the push service has ended a subscription, the server ends it too.
    service.forget();
    let late = client.notifications().create(&notification).await?.id;
    assert_eq!(server.completed(&late).await?.counts.unregistered, 1);
    let device = client.devices().get(&DeviceId::new(id).expect("an id")).await?;
    assert!(!device.enabled, "{device:?}");
    firefox.stop().await?;
    server.stop().await;
    Ok(())
}
