//! The page of the SDK: permission, subscription, key change, unsubscribing, and other sites.

use anyhow::Result;
use notify_core::{DeviceId, Platform, ProviderKind};
use notify_tests::Chromium;
use serde_json::json;

use crate::stage::{Stage, first, page_of, site_for};

/// Another VAPID key. Any 32 bytes below the order of the curve are a private key.
const OTHER_KEY: &str = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc";
/// A script that makes the visit happen a day later.
const TOMORROW: &str = "(Date.now = ((now) => () => now() + 25 * 3600 * 1000)(Date.now.bind(Date)),
    Notify.init({ app: new URLSearchParams(location.search).get('app') }))";

#[tokio::test]
async fn the_example_page_subscribes_and_unsubscribes() -> Result<()> {
    let mut stage = Stage::set("").await?;
    assert_eq!(stage.run("Notify.isSupported()").await?, true);
    assert_eq!(stage.run("Notify.permission()").await?, "granted");
    let id = stage.subscribe().await?;
    let devices = stage.server.client();
    let device = devices.devices().get(&DeviceId::new(&*id).expect("an id")).await?;
    assert_eq!((device.platform, device.enabled), (Platform::Web, true));
    assert!(device.details.language.is_some() && device.details.timezone.is_some(), "{device:?}");

    // The page subscribes again, with a tag. The device stays the same, and the browser gets no other
    // subscription.
    let again = "Notify.subscribe({ language: 'de', tags: ['news'] })";
    assert_eq!(stage.run(again).await?, json!({ "deviceId": id }));
    assert_eq!(stage.run("localStorage.times").await?, "1");
    let device = devices.devices().get(&DeviceId::new(&*id).expect("an id")).await?;
    assert_eq!(device.details.language.as_deref(), Some("de"));
    assert_eq!(device.tags.iter().map(|tag| &*tag.name).collect::<Vec<_>>(), ["news"]);
    stage.reload().await?;
    assert_eq!(stage.shows("Subscribed as ").await?, format!("Subscribed as {id}."));

    // A tag that is not allowed is refused, and the page gets the reason.
    let refused =
        "Notify.subscribe({ tags: ['staff'] }).catch((error) => [error.status, error.errors])";
    let rule = "tags[0].name: is not a tag that browsers may set";
    assert_eq!(stage.run(refused).await?, json!([400, [rule]]));

    // The page cannot read a key of the application anywhere.
    let kept = stage.stored("state", "getAll()").await?;
    let page = stage.run("document.documentElement.outerHTML").await?;
    let kept = format!("{kept}{page}");
    assert!(kept.contains(&id) && !kept.contains("nk_") && !kept.contains("na_"), "{kept}");

    stage.run("document.getElementById('unsubscribe').click()").await?;
    stage.shows("Not subscribed.").await?;
    assert_eq!(stage.run("localStorage.subscribed === undefined").await?, true);
    let deleted = devices.devices().get(&DeviceId::new(&*id).expect("an id")).await;
    assert!(matches!(deleted, Err(notify_client::Error::NotFound { .. })), "{deleted:?}");
    stage.stop().await
}

#[tokio::test]
async fn unsubscribing_while_the_server_is_down_is_not_undone() -> Result<()> {
    let mut stage = Stage::set("").await?;
    let id = stage.subscribe().await?;
    stage.run("globalThis.fetch = async () => { throw new TypeError('away'); }; true").await?;
    let left = "Notify.unsubscribe().then(() => 'unsubscribed', (error) => error.status)";
    assert_eq!(
        stage.run(left).await?,
        0,
        "the page learns that the request did not reach the server"
    );
    // While the server is down, the page requests no new subscription, neither within a day nor after it.
    let tomorrow = format!("{TOMORROW}.then(({{ subscribed }}) => subscribed)");
    assert_eq!(stage.run(&tomorrow).await?, false);
    let client = stage.server.client();
    let device_id = DeviceId::new(&*id).expect("an id");
    client.devices().get(&device_id).await?;
    // The next visit reports the subscription.
    stage.reload().await?;
    stage.shows("Not subscribed.").await?;
    assert_eq!(stage.run("localStorage.times").await?, "1");
    let deleted = client.devices().get(&device_id).await;
    assert!(matches!(deleted, Err(notify_client::Error::NotFound { .. })), "{deleted:?}");
    stage.stop().await
}

#[tokio::test]
async fn a_time_zone_set_by_the_site_is_kept() -> Result<()> {
    let mut stage = Stage::set("").await?;
    let id = stage.subscribe().await?;
    stage.run("Notify.subscribe({ timezone: 'GMT+09:30' })").await?;
    let subscribed = format!("{TOMORROW}.then(({{ subscribed }}) => subscribed)");
    assert_eq!(stage.run(&subscribed).await?, true);
    let device_id = DeviceId::new(&*id).expect("an id");
    let device = stage.server.client().devices().get(&device_id).await?;
    assert_eq!(device.details.timezone.as_deref(), Some("GMT+09:30"));

    // A zone that the server does not know costs only the zone.
    let elsewhere = "(Intl.DateTimeFormat.prototype.resolvedOptions = () =>
        ({ timeZone: 'Mars/Phobos' }), Notify.subscribe())";
    assert_eq!(stage.run(elsewhere).await?, json!({ "deviceId": id }));
    let details = stage.server.client().devices().get(&device_id).await?.details;
    assert_eq!((details.timezone.is_none(), details.utc_offset.is_some()), (true, true));
    stage.stop().await
}

#[tokio::test]
async fn a_changed_key_resubscribes_and_keeps_the_device() -> Result<()> {
    let mut stage = Stage::set("").await?;
    let id = stage.subscribe().await?;
    let before = stage.run("localStorage.subscribed").await?;
    let mut config = stage.server.sandbox().webpush_config();
    config["vapid_private_key"] = json!(OTHER_KEY);
    let (client, app) = (stage.server.client(), stage.server.app_id);
    client.admin().put_provider(app, ProviderKind::WebPush, &config).await?;

    // Within a day, another visit sends no request.
    stage.reload().await?;
    stage.shows("Subscribed as ").await?;
    assert_eq!(stage.run("localStorage.subscribed").await?, before);
    let state = stage.run(TOMORROW).await?;
    assert_eq!(state, json!({ "subscribed": true, "deviceId": id }));
    assert_ne!(stage.run("localStorage.subscribed").await?, before, "with the new key");
    assert_eq!(stage.run("localStorage.times").await?, "2");
    assert_eq!(client.devices().list(&Default::default()).await?.devices.len(), 1);
    stage.stop().await
}

#[tokio::test]
async fn a_site_that_is_not_allowed_is_refused() -> Result<()> {
    let mut stage = Stage::set("").await?;
    let other = site_for(&stage.server, "").await?;
    let granted = json!({"origin": other.origin, "permissions": ["notifications"]});
    stage.chromium.call(None, "Browser.grantPermissions", granted).await?;
    let url = page_of(&stage.server, &other);
    let first = first(&stage.server).await?;
    let page = stage.chromium.open(&url, &first).await?;
    for refused in [
        // Browsers send simple requests without a preflight. The last request needs a preflight.
        format!("fetch('{}/web/v1/{}')", stage.server.origin(), stage.server.app_id),
        format!(
            "fetch('{}/web/v1/{}/devices', {{ method: 'POST', body: '{{}}' }})",
            stage.server.origin(),
            stage.server.app_id
        ),
        "Notify.subscribe()".to_owned(),
    ] {
        let failed = format!("{refused}.then(() => 'came through', (error) => error.status ?? 0)");
        assert_eq!(stage.chromium.run(&page, &failed).await?, 0, "{refused}");
    }
    assert!(stage.server.client().devices().list(&Default::default()).await?.devices.is_empty());
    stage.stop().await
}

#[tokio::test]
async fn a_denied_permission_sends_nothing_to_the_server() -> Result<()> {
    let mut stage = Stage::set("").await?;
    let denied = json!({"origin": stage.site.origin, "permission": {"name": "notifications"},
        "setting": "denied"});
    let chromium: &mut Chromium = &mut stage.chromium;
    chromium.call(None, "Browser.setPermission", denied).await?;
    stage.shows("Not subscribed.").await?;
    assert_eq!(stage.run("Notify.permission()").await?, "denied");
    stage.run("document.getElementById('subscribe').click()").await?;
    stage.shows("the permission is denied").await?;
    assert!(stage.server.client().devices().list(&Default::default()).await?.devices.is_empty());
    stage.stop().await
}
