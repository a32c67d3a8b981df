//! The worker of the SDK: it shows messages as the server sent them and reports interactions.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use notify_core::{
    CreateNotification, Engagement, NotificationId, Platform, WebOptions, WebPushAction,
};
use notify_tests::{Attached, template, until};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::stage::Stage;

/// Dispatches an event as the browser does when a user acts, because `DevTools` cannot, and waits for all
/// promises of `waitUntil`. A worker may open windows only after a real click.
const ACT: &str = "(async () => {
    globalThis.opened ??= [];
    clients.openWindow = async (url) => { opened.push(url); };
    const [notification] = await registration.getNotifications();
    const event = new NotificationEvent(TYPE, { notification, action: ACTION });
    const until = [];
    event.waitUntil = (promise) => until.push(promise);
    dispatchEvent(event);
    await Promise.all(until);
    return opened;
})()";
pub(crate) const SHOWN: &str = "navigator.serviceWorker.ready
    .then((registration) => registration.getNotifications())
    .then((all) => all.map(({ title, body, image, tag, data, actions }) =>
        ({ title, body, image, tag, data, actions: actions.map(({ action, title }) =>
            ({ action, title })) })))";

/// The number of times that a message is delivered to a browser that does not show it.
const DELIVERED_AT_MOST: u32 = 3;
/// The longest wait for a message to be shown before it is delivered again.
const SHOWN_WITHIN: Duration = Duration::from_secs(15);

/// Sends a notification, delivers to the browser the message that the server sent to the push service, and
/// waits until the browser shows it.
pub(crate) async fn sent(
    stage: &mut Stage,
    notification: &CreateNotification,
) -> Result<(NotificationId, Value)> {
    let client = stage.server.client();
    let id = client.notifications().create(notification).await?.id;
    stage.server.completed(&id).await?;
    let message = stage.server.sandbox().received().pop().context("the push service got it")?;
    deliver(stage, &message.payload.to_string()).await?;
    Ok((id, message.payload))
}

/// Delivers a message until it is shown.
pub(crate) async fn deliver(stage: &mut Stage, message: &str) -> Result<()> {
    let (page, origin) = (stage.page.clone(), stage.site.origin.clone());
    let registration = stage.chromium.registration(&page, &origin).await?;
    // A busy browser may drop a message from `DevTools` while it starts the worker. A repeat is shown and
    // counted once.
    for _ in 0..DELIVERED_AT_MOST {
        stage.chromium.push(&page, &origin, &registration, message).await?;
        if is_shown(stage).await? {
            return Ok(());
        }
    }
    bail!("{message} was delivered {DELIVERED_AT_MOST} times and is not shown")
}

/// Returns whether a notification is shown in time.
async fn is_shown(stage: &mut Stage) -> Result<bool> {
    let (chromium, page, began) = (&mut stage.chromium, &stage.page, Instant::now());
    until("the browser answers", async || {
        let all = chromium.run(page, SHOWN).await?;
        let is_shown = all.as_array().is_some_and(|all| !all.is_empty());
        Ok((is_shown || began.elapsed() > SHOWN_WITHIN).then_some(is_shown))
    })
    .await
}

/// Waits until a notification is shown and returns it.
pub(crate) async fn shown(stage: &mut Stage) -> Result<Vec<Value>> {
    let (chromium, page) = (&mut stage.chromium, &stage.page);
    until("a notification is shown", async || {
        let all = chromium.run(page, SHOWN).await?;
        Ok(all.as_array().filter(|all| !all.is_empty()).cloned())
    })
    .await
}

/// Acts on the shown notification as a user would.
pub(crate) async fn act(
    stage: &mut Stage,
    worker: &Attached,
    kind: &str,
    action: &str,
) -> Result<Value> {
    let act = ACT.replace("TYPE", &json!(kind).to_string());
    stage.chromium.run(worker, &act.replace("ACTION", &json!(action).to_string())).await
}

/// Waits until the server has these counts.
pub(crate) async fn counted(
    stage: &Stage,
    id: &NotificationId,
    expected: Engagement,
) -> Result<()> {
    let client = stage.server.client();
    until(&format!("{expected:?}"), async || {
        let record = client.notifications().get(id).await?;
        Ok((record.engagement == expected).then_some(()))
    })
    .await
}

/// Disconnects a page or a worker from the network, or connects it again.
pub(crate) async fn offline(stage: &mut Stage, at: &Attached, is_offline: bool) -> Result<()> {
    let network = json!({"offline": is_offline, "latency": 0, "downloadThroughput": -1,
        "uploadThroughput": -1});
    stage.chromium.call(Some(at), "Network.enable", json!({})).await?;
    stage.chromium.call(Some(at), "Network.emulateNetworkConditions", network).await?;
    Ok(())
}

/// A notification with all parts that can be clicked.
pub(crate) fn order() -> CreateNotification {
    let action = |title: &str, url: Option<&str>| WebPushAction {
        title: title.into(),
        url: url.map(str::to_owned),
        ..WebPushAction::default()
    };
    CreateNotification::to_platforms([Platform::Web], "Your order is on its way")
        .url("https://shop.example/order/7")
        .image_url("http://127.0.0.1:9/7.png")
        .web_push_action(action("Track", Some("https://shop.example/track/7")))
        .web_push_action(action("Later", None))
}

#[tokio::test]
async fn a_message_is_shown_and_interactions_are_reported() -> Result<()> {
    let mut stage = Stage::set("").await?;
    stage.subscribe().await?;
    let (id, payload) = sent(&mut stage, &order()).await?;
    let all = shown(&mut stage).await?;
    let [seen] = &all[..] else { anyhow::bail!("{all:?}") };
    for field in ["title", "body", "tag"] {
        assert_eq!(seen[field], payload[field], "{field}");
    }
    assert_eq!(
        seen["actions"],
        json!([{"action": "action-1", "title": "Track"},
        {"action": "action-2", "title": "Later"}])
    );
    for (name, value) in payload["data"].as_object().context("data")? {
        assert_eq!(seen["data"][name], *value, "the caller's data is the page's to read");
    }
    let mut counts = Engagement { received: 1, ..Engagement::default() };
    counted(&stage, &id, counts).await?;

    let worker = stage.chromium.worker(&stage.site.origin).await?;
    let opened = act(&mut stage, &worker, "notificationclick", "action-1").await?;
    assert_eq!(opened, json!(["https://shop.example/track/7"]));
    counts.clicked = 1;
    counted(&stage, &id, counts).await?;
    let left = "registration.getNotifications().then((all) => all.length)";
    assert_eq!(stage.chromium.run(&worker, left).await?, 0, "a click closes it");

    // A second notification tests the other clicks: an action without a URL, the body, and the close button.
    let (id, _) = sent(&mut stage, &order()).await?;
    shown(&mut stage).await?;
    act(&mut stage, &worker, "notificationclose", "").await?;
    let opened = act(&mut stage, &worker, "notificationclick", "").await?;
    let order = "https://shop.example/order/7";
    assert_eq!(opened, json!(["https://shop.example/track/7", order]));
    let all = Engagement { received: 1, opened: 1, clicked: 0, dismissed: 1 };
    counted(&stage, &id, all).await?;
    stage.stop().await
}

#[tokio::test]
async fn a_campaign_enriches_the_notification() -> Result<()> {
    let worker = "NotifyWorker.onEnrichment((enrichment, shown) =>
        ({ body: `${enrichment.strings.share_prefix} ${shown.body}`, tag: 'another' }));";
    let mut stage = Stage::set(worker).await?;
    stage.subscribe().await?;
    let made = stage.server.caller().post("/v1/campaigns", &template("spring")).await.ok();
    let campaign = made["id"].as_str().context("an id")?;
    let notification = order().campaign(campaign);
    let (id, payload) = sent(&mut stage, &notification).await?;
    let all = shown(&mut stage).await?;
    assert_eq!(all[0]["body"], "Look: Your order is on its way");
    assert_eq!(all[0]["tag"], payload["tag"], "a repeat must still take its place");
    counted(&stage, &id, Engagement { received: 1, ..Engagement::default() }).await?;
    let asked = format!("Notify.enrichment('{campaign}', {{ notificationId: '{}' }})", id.as_str());
    let enrichment = stage.run(&asked).await?;
    assert_eq!(enrichment["layout_id"], "content_with_two");
    stage.stop().await
}

/// The options of the first shown notification, as the browser has them.
const OPTIONS: &str = "navigator.serviceWorker.ready
    .then((registration) => registration.getNotifications())
    .then(([{ icon, badge, requireInteraction, silent, renotify }]) =>
        ({ icon, badge, requireInteraction, silent, renotify }))";

#[tokio::test]
async fn the_options_of_a_message_reach_the_browser() -> Result<()> {
    let mut stage = Stage::set("").await?;
    stage.subscribe().await?;
    let options = WebOptions {
        icon: Some("http://127.0.0.1:9/icon.png".to_owned()),
        badge: Some("http://127.0.0.1:9/badge.png".to_owned()),
        require_interaction: Some(true),
        silent: Some(true),
        renotify: Some(true),
    };
    let (_, payload) = sent(&mut stage, &order().web_options(options)).await?;
    assert_eq!(payload["requireInteraction"], true);
    shown(&mut stage).await?;
    let seen = stage.chromium.run(&stage.page, OPTIONS).await?;
    assert_eq!(
        seen,
        json!({"icon": "http://127.0.0.1:9/icon.png", "badge": "http://127.0.0.1:9/badge.png",
            "requireInteraction": true, "silent": true, "renotify": true})
    );
    Ok(())
}
