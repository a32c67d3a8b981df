//! The worker when the browser ends or changes a subscription.

use anyhow::{Context, Result};
use notify_core::{DeviceId, Engagement, ProviderKind};
use notify_sandbox::ScriptedResponse;
use serde_json::{Value, json};

use crate::stage::Stage;
use crate::worker::{counted, offline, order};

/// Makes the browser behave as after the change: it has no subscription, and a new one gets another endpoint.
const PUSH_MANAGER: &str = "(() => {
    const made = SUBSCRIPTION;
    let asked = 0;
    globalThis.asked = () => asked;
    PushManager.prototype.getSubscription = async () => null;
    PushManager.prototype.subscribe = async ({ userVisibleOnly, applicationServerKey }) => {
        if (!userVisibleOnly) throw new Error('not userVisibleOnly');
        asked += 1;
        return {
            options: { applicationServerKey: applicationServerKey.buffer },
            toJSON: () => ({ endpoint: made.endpoint, expirationTime: null, keys: made.keys }),
        };
    };
})()";
/// Dispatches the event as the browser would, because `DevTools` cannot. Returns whether all promises of
/// `waitUntil` succeeded.
const CHANGE: &str = "(async () => {
    const event = new ExtendableEvent('pushsubscriptionchange');
    const until = [];
    event.waitUntil = (promise) => until.push(promise);
    dispatchEvent(event);
    const all = await Promise.allSettled(until);
    return all.map(({ status }) => status);
})()";
/// Subscribes the example's page and gives its worker another subscription. Returns the device and the end of
/// the new endpoint.
async fn subscribed(stage: &mut Stage) -> Result<(String, String)> {
    let id = stage.subscribe().await?;
    let (client, app) = (stage.server.client(), stage.server.app_id);
    let config = client.admin().get_provider(app, ProviderKind::WebPush).await?.config;
    let made = stage
        .server
        .sandbox()
        .subscribe(config["vapid_public_key"].as_str(), &ScriptedResponse::ok())?;
    let token = made.endpoint.rsplit('/').next().context("an endpoint")?.to_owned();
    let made = json!({"endpoint": made.endpoint, "keys": {"p256dh": made.p256dh,
        "auth": made.auth}});
    let worker = stage.chromium.worker(&stage.site.origin).await?;
    let stub = PUSH_MANAGER.replace("SUBSCRIPTION", &made.to_string());
    stage.chromium.run(&worker, &stub).await?;
    Ok((id, token))
}

/// Returns the device that the SDK has stored, and whether its subscription is up to date.
async fn state(stage: &mut Stage) -> Result<Value> {
    let state = stage.stored("state", "get('browser')").await?;
    let is_refreshed = state["refreshedAt"].as_f64().is_some_and(|at| at > 0.0);
    Ok(json!({"deviceId": state["deviceId"], "refreshed": is_refreshed}))
}

#[tokio::test]
async fn the_worker_reports_a_changed_subscription_and_the_device_is_kept() -> Result<()> {
    let mut stage = Stage::set("").await?;
    let (id, token) = subscribed(&mut stage).await?;
    let client = stage.server.client();
    let device_id = DeviceId::new(&*id).expect("an id");
    let before = client.devices().get(&device_id).await?;
    let worker = stage.chromium.worker(&stage.site.origin).await?;
    assert_eq!(stage.chromium.run(&worker, CHANGE).await?, json!(["fulfilled"]));
    assert_eq!(stage.chromium.run(&worker, "asked()").await?, 1);

    let devices = client.devices().list(&Default::default()).await?.devices;
    assert_eq!(devices.len(), 1, "the device is the one that it was");
    let after = client.devices().get(&device_id).await?;
    assert!(after.enabled, "{after:?}");
    assert_eq!(after.details.language, before.details.language, "its details stay");
    let record = client.notifications().create(&order()).await?;
    stage.server.completed(&record.id).await?;
    let sent = stage.server.sandbox().received().pop().context("the push service got it")?;
    assert_eq!(sent.token, Some(token), "at its new address");
    // The device's secret is still valid.
    let report = format!("Notify.report('opened', '{}')", record.id.as_str());
    stage.run(&report).await?;
    counted(&stage, &record.id, Engagement { opened: 1, ..Engagement::default() }).await?;
    assert_eq!(state(&mut stage).await?, json!({"deviceId": id, "refreshed": true}));
    stage.stop().await
}

#[tokio::test]
async fn an_unreported_change_is_reported_on_the_next_visit() -> Result<()> {
    let mut stage = Stage::set("").await?;
    let (id, _) = subscribed(&mut stage).await?;
    let worker = stage.chromium.worker(&stage.site.origin).await?;
    offline(&mut stage, &worker, true).await?;
    assert_eq!(stage.chromium.run(&worker, CHANGE).await?, json!(["rejected"]));
    let kept: Value = state(&mut stage).await?;
    assert_eq!(kept, json!({"deviceId": id, "refreshed": false}));
    offline(&mut stage, &worker, false).await?;
    // Not a day later: the browser has no subscription that the server knows.
    stage.reload().await?;
    assert_eq!(stage.shows("Subscribed as ").await?, format!("Subscribed as {id}."));
    assert_eq!(state(&mut stage).await?, json!({"deviceId": id, "refreshed": true}));
    assert_eq!(stage.server.client().devices().list(&Default::default()).await?.devices.len(), 1);
    stage.stop().await
}
