//! The SDK together with a site's own worker: messages that are not ours are left to the site.

use anyhow::{Context, Result, bail};
use notify_core::{CreateNotification, Engagement, Platform, WebPushAction};
use notify_tests::template;
use serde_json::{Value, json};

use crate::stage::Stage;
use crate::worker::{DELIVERED_AT_MOST, SHOWN, counted, is_shown, sent, shown};

/// A site's own listener, registered after ours: it shows what it knows.
const SITE: &str = "
    self.addEventListener('push', (event) => {
        let text = event.data.text;
        try { text = event.data.json().news ?? ''; } catch {}
        const show = () => self.registration.showNotification('Site', { body: text, tag: 'site' });
        if (text) event.waitUntil(show());
    });";
/// What the browser keeps to report.
const REPORTS: &str = "(async () => {
    const opening = indexedDB.open('notify-sdk');
    await new Promise((resolve) => { opening.onsuccess = resolve; });
    const all = opening.result.transaction('reports').objectStore('reports').count();
    await new Promise((resolve) => { all.onsuccess = resolve; });
    opening.result.close();
    return all.result;
})()";
/// How often they are read until none is left.
const REPORTS_READ_MAX: usize = 200;
const CLEAR: &str = "navigator.serviceWorker.ready
    .then((registration) => registration.getNotifications())
    .then((all) => all.forEach((one) => one.close()))";

/// Delivers a message of another sender until it is shown, as [`sent`] does with ours.
async fn delivered(stage: &mut Stage, message: &str) -> Result<Vec<Value>> {
    let (page, origin) = (stage.page.clone(), stage.site.origin.clone());
    let registration = stage.chromium.registration(&page, &origin).await?;
    for _ in 0..DELIVERED_AT_MOST {
        let what = json!({"origin": format!("{origin}/"), "registrationId": registration,
            "data": message});
        let call = "ServiceWorker.deliverPushMessage";
        stage.chromium.call(Some(&page), call, what).await?;
        if is_shown(stage).await? {
            return shown(stage).await;
        }
    }
    bail!("{message} was delivered {DELIVERED_AT_MOST} times and is not shown")
}

#[tokio::test]
async fn push_messages_of_others_are_left_to_the_site() -> Result<()> {
    let mut stage = Stage::set(SITE).await?;
    stage.subscribe().await?;
    for (message, body) in [
        (json!({"news": "Rain tomorrow"}).to_string(), "Rain tomorrow"),
        // Much like ours, without what makes it ours.
        (json!({"news": "More", "title": "t", "body": "b", "data": {}}).to_string(), "More"),
        ("no JSON".to_owned(), "no JSON"),
    ] {
        let all = delivered(&mut stage, &message).await?;
        let seen: Vec<_> = all.iter().map(|one| (&one["title"], &one["body"])).collect();
        assert_eq!(seen, [(&json!("Site"), &json!(body))], "{message}");
        stage.run(CLEAR).await?;
    }
    // A message of ours is shown by us, and counted as the only one.
    let notification =
        CreateNotification::to_platforms([Platform::Web], "Your order is on its way");
    let (id, payload) = sent(&mut stage, &notification).await?;
    let all = shown(&mut stage).await?;
    let titles: Vec<_> = all.iter().map(|one| &one["title"]).collect();
    assert_eq!(titles, [&payload["title"]]);
    counted(&stage, &id, Engagement { received: 1, ..Engagement::default() }).await?;
    // The server counts a report before the page has the response.
    for _ in 0..REPORTS_READ_MAX {
        if stage.run(REPORTS).await? == 0 {
            return stage.stop().await;
        }
    }
    anyhow::bail!("something waits that the server would not know")
}

#[tokio::test]
async fn images_and_icons_are_shown() -> Result<()> {
    let icon = "NotifyWorker.onEnrichment(() => ({ icon: 'http://127.0.0.1:9/icon.png' }));";
    let mut stage = Stage::set(icon).await?;
    stage.subscribe().await?;
    let made = stage.server.caller().post("/v1/campaigns", &template("spring")).await.ok();
    let action = WebPushAction {
        title: "Track".into(),
        icon: Some("http://127.0.0.1:9/track.png".into()),
        ..WebPushAction::default()
    };
    let notification =
        CreateNotification::to_platforms([Platform::Web], "Your order is on its way")
            .image_url("http://127.0.0.1:9/order.png")
            .web_push_action(action)
            .campaign(made["id"].as_str().context("an id")?);
    let (_, payload) = sent(&mut stage, &notification).await?;
    assert_eq!(payload["actions"][0]["icon"], "http://127.0.0.1:9/track.png");
    let pictures =
        SHOWN.replace("title, body, image, tag", "icon, title, body, image, tag").replace(
            "({ action, title }) =>\n            ({ action, title })",
            "({ action, title, icon }) =>\n            ({ action, title, icon })",
        );
    let all = stage.run(&pictures).await?;
    assert_eq!(all[0]["image"], "http://127.0.0.1:9/order.png", "{all}");
    assert_eq!(all[0]["icon"], "http://127.0.0.1:9/icon.png", "{all}");
    assert_eq!(all[0]["actions"][0]["icon"], "http://127.0.0.1:9/track.png", "{all}");
    stage.stop().await
}
