//! The SDK together with a site's own worker. The SDK leaves messages that are not from Notify to the site.

use anyhow::{Context, Result};
use notify_core::{CreateNotification, Engagement, Platform, WebPushAction};
use notify_tests::template;
use serde_json::json;

use crate::stage::Stage;
use crate::worker::{SHOWN, counted, deliver, sent, shown};

/// The site's own listener, which is registered after the SDK's. It shows the messages that it knows.
const SITE: &str = "
    self.addEventListener('push', (event) => {
        let text = event.data.text();
        try { text = event.data.json().news ?? ''; } catch {}
        const show = () => self.registration.showNotification('Site', { body: text, tag: 'site' });
        if (text) event.waitUntil(show());
    });";
const CLEAR: &str = "navigator.serviceWorker.ready
    .then((registration) => registration.getNotifications())
    .then((all) => all.forEach((one) => one.close()))";

#[tokio::test]
async fn push_messages_of_others_are_left_to_the_site() -> Result<()> {
    let mut stage = Stage::set(SITE).await?;
    stage.subscribe().await?;
    for (message, body) in [
        (json!({"news": "Rain tomorrow"}).to_string(), "Rain tomorrow"),
        // This message resembles a message of Notify, but lacks the marker.
        (json!({"news": "More", "title": "t", "body": "b", "data": {}}).to_string(), "More"),
        ("no JSON".to_owned(), "no JSON"),
    ] {
        deliver(&mut stage, &message).await?;
        let all = shown(&mut stage).await?;
        let seen: Vec<_> = all.iter().map(|one| (&one["title"], &one["body"])).collect();
        assert_eq!(seen, [(&json!("Site"), &json!(body))], "{message}");
        stage.run(CLEAR).await?;
    }
    // The SDK shows a message of Notify, and only this message is counted.
    let notification =
        CreateNotification::to_platforms([Platform::Web], "Your order is on its way");
    let (id, payload) = sent(&mut stage, &notification).await?;
    let all = shown(&mut stage).await?;
    let titles: Vec<_> = all.iter().map(|one| &one["title"]).collect();
    assert_eq!(titles, [&payload["title"]]);
    counted(&stage, &id, Engagement { received: 1, ..Engagement::default() }).await?;
    // The server counts a report before the page has the response.
    stage.reports_sent().await?;
    stage.stop().await
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
