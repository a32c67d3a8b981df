//! The pages of a notification: its counts, its deliveries, explanations, and cancelling it.

use anyhow::Result;
use notify_core::{CreateNotification, NotificationId, Platform, Tag};
use notify_sandbox::{ScriptedResponse, telegram_chat};
use notify_tests::{TestServer, android, configure_all, ios, register, tomorrow, until};
use serde_json::json;

use super::{first_app, operator};

/// Waits until this many deliveries have an outcome.
async fn settled(server: &TestServer, id: &NotificationId, count: u64) -> Result<()> {
    until("the deliveries have outcomes", async || {
        let counts = server.client().notifications().get(id).await?.counts;
        Ok((counts.targeted > 0 && counts.targeted - counts.pending == count).then_some(()))
    })
    .await
}

#[tokio::test]
async fn cancel_shows_what_was_canceled() -> Result<()> {
    let server = TestServer::start().await;
    let (operator, app) = (operator(&server).await?, first_app(&server).await);
    let client = server.client();
    let busy = ScriptedResponse::reason("UNAVAILABLE").retry_after(600);
    register(&client, [android(1, &ScriptedResponse::ok()), android(2, &busy)]).await?;
    let id = client
        .notifications()
        .create(&CreateNotification::to_platforms([Platform::Android], "Hello"))
        .await?
        .id;
    settled(&server, &id, 1).await?;
    let page = format!("apps/{app}/notifications/{id}");
    assert!(operator.get(&page).await.text.contains("Cancel the notification"));
    let canceled = operator.submit(&format!("{page}/cancel"), &[]).await?;
    assert_eq!(canceled.header("location"), format!("../{id}?done=canceled"));
    server.completed(&id).await?;
    let shown = operator.get(&format!("{page}?done=canceled")).await.text;
    assert!(shown.contains("Messages that were sent already stay sent."), "{shown}");
    for count in ["sent", "canceled"] {
        let link = format!("deliveries?outcome={count}\">1</a>");
        assert!(shown.contains(&link), "{count}: {shown}");
    }
    assert!(!shown.contains("Cancel the notification"), "{shown}");
    assert!(!shown.contains("data-live"), "a final page does not refresh itself: {shown}");

    let later = CreateNotification::to_platforms([Platform::Android], "Later").send_at(tomorrow());
    let later = client.notifications().create(&later).await?.id;
    operator.submit(&format!("apps/{app}/notifications/{later}/cancel"), &[]).await?.is(303);
    let shown = operator.get(&format!("apps/{app}/notifications/{later}")).await.text;
    assert!(shown.contains("<span class=\"badge bad\">canceled</span>"), "{shown}");
    Ok(())
}

#[tokio::test]
async fn a_notification_is_paused_and_resumed() -> Result<()> {
    let server = TestServer::start().await;
    let (operator, app) = (operator(&server).await?, first_app(&server).await);
    let client = server.client();
    let later = CreateNotification::to_platforms([Platform::Android], "Later").send_at(tomorrow());
    let id = client.notifications().create(&later).await?.id;
    let page = format!("apps/{app}/notifications/{id}");
    assert!(operator.get(&page).await.text.contains("Pause the notification"));
    let paused = operator.submit(&format!("{page}/pause"), &[]).await?;
    assert_eq!(paused.header("location"), format!("../{id}?done=paused"));
    let shown = operator.get(&format!("{page}?done=paused")).await.text;
    for part in ["Messages that are on their way", ">paused</span>", "Resume the notification"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(client.notifications().get(&id).await?.paused.is_some());
    let resumed = operator.submit(&format!("{page}/resume"), &[]).await?;
    assert_eq!(resumed.header("location"), format!("../{id}?done=continued"));
    assert_eq!(client.notifications().get(&id).await?.paused, None);
    assert!(!operator.get(&page).await.text.contains(">paused</span>"));
    Ok(())
}

#[tokio::test]
async fn why_is_answered_for_a_dead_an_untagged_a_never_targeted_and_a_waiting_device() -> Result<()>
{
    let server = TestServer::start().await;
    let (operator, app) = (operator(&server).await?, first_app(&server).await);
    let client = server.client();
    let devices = [
        android(1, &ScriptedResponse::reason("UNREGISTERED")),
        android(2, &ScriptedResponse::ok()),
        android(3, &ScriptedResponse::reason("UNAVAILABLE").retry_after(600)),
        ios(4, &ScriptedResponse::ok()),
    ];
    register(&client, devices).await?;
    let caller = server.caller();
    for device in ["a1", "a3", "i4"] {
        let tags = json!({"tags": [Tag::new("vip", true)]});
        caller.post(&format!("/v1/devices/{device}/tags"), &tags).await.ok();
    }
    let mut request = CreateNotification::to_platforms([Platform::Android], "Hello");
    request.content.tags = Some(vec!["vip".into()]);
    let id = client.notifications().create(&request).await?.id;
    settled(&server, &id, 1).await?;
    let page = format!("apps/{app}/notifications/{id}");
    for (device, outcome, step, remedy) in [
        ("a1", "unregistered", "address_dead", "devices/a1\">See the device</a>"),
        ("a2", "not sent", "lacks_tag", "devices/a2#tags\">Add the tag</a>"),
        ("i4", "not sent", "not_targeted", "send?device=i4\">Send to this device</a>"),
        ("a3", "pending", "next_attempt", ""),
    ] {
        let why = operator.get(&format!("{page}/explain?device={device}")).await.text;
        assert!(why.contains(&format!("<strong>{outcome}</strong>")), "{device}: {why}");
        assert!(why.contains(&format!("<code>{step}</code>")), "{device}: {why}");
        let first = why.split("<h1>Why?</h1>").nth(1).unwrap().split("</p>").next().unwrap();
        assert!(first.contains(outcome) && first.contains(remedy), "{device}: {first}");
    }
    let untagged = operator.get(&format!("{page}/explain?device=a2")).await.text;
    assert!(untagged.contains("known only now"), "{untagged}");
    let list = operator.get(&format!("{page}/deliveries")).await.text;
    assert!(list.contains("explain?device=a1\">Why?</a>"), "{list}");
    assert!(untagged.contains("</strong>: "), "the headline has the cause: {untagged}");
    assert!(untagged.contains("<code>accepted</code></li>"), "nothing is repeated: {untagged}");
    for (input, problem) in
        [("ghost", "no device has the id `ghost`"), ("", "the device id must not be empty")]
    {
        let form = operator.get(&format!("{page}/explain?device={input}")).await;
        assert_eq!(form.status, 200, "{}", form.text);
        assert!(form.text.contains(problem), "{}", form.text);
        assert!(form.text.contains(&format!("name=\"device\" value=\"{input}\"")), "{}", form.text);
    }
    operator.get(&format!("apps/{app}/notifications/ghost/explain?device=a1")).await.is(404);
    Ok(())
}

#[tokio::test]
async fn the_page_of_a_device_has_the_last_notifications_that_reached_or_missed_it() -> Result<()> {
    let server = TestServer::start().await;
    let (operator, app) = (operator(&server).await?, first_app(&server).await);
    let client = server.client();
    register(&client, [android(1, &ScriptedResponse::ok()), ios(2, &ScriptedResponse::ok())])
        .await?;
    let page = async || operator.get(&format!("apps/{app}/devices/a1")).await.text;
    let none = "None of the last 30 notifications of the application was for this device.";
    assert!(page().await.contains(none));
    let mut tagged = CreateNotification::to_platforms([Platform::Android], "For friends");
    tagged.content.tags = Some(vec!["vip".into()]);
    let to_others = CreateNotification::to_platforms([Platform::Ios], "For iPhones");
    let to_all = CreateNotification::to_platforms([Platform::Android], "For everyone");
    let mut ids = Vec::new();
    for request in [tagged, to_others, to_all] {
        let id = client.notifications().create(&request).await?.id;
        server.completed(&id).await?;
        ids.push(id);
    }
    let shown = page().await;
    let rows: Vec<&str> = shown.split("<tr>").collect();
    let row = |text: &str| rows.iter().find(|row| row.contains(text)).copied();
    let (reached, missed) = (row("For everyone").unwrap(), row("For friends").unwrap());
    assert!(reached.contains("badge good\">sent<"), "{reached}");
    assert!(missed.contains(">not sent<") && missed.contains("does not have the tag"), "{missed}");
    let why = format!("notifications/{}/explain?device=a1\">Why?</a>", ids[0]);
    assert!(missed.contains(&why), "{missed}");
    assert_eq!(row("For iPhones"), None, "it is for other devices: {shown}");
    Ok(())
}

#[tokio::test]
async fn platforms_have_the_same_names_on_all_pages() -> Result<()> {
    let server = TestServer::start().await;
    let (operator, app) = (operator(&server).await?, first_app(&server).await);
    configure_all(&server.client(), server.app_id, server.sandbox()).await?;
    let chat = telegram_chat(1, &ScriptedResponse::reason("blocked"));
    let person = json!({"platform": "chatapp", "recipient_id": chat});
    server.caller().post("/v1/subscriptions", &person).await.ok();
    let devices = server.caller().get("/v1/devices").await.ok();
    let device = devices["devices"][0]["device_id"].as_str().unwrap().to_owned();
    let request = CreateNotification::to_platforms([Platform::ChatApp], "Hello");
    let id = server.client().notifications().create(&request).await?.id;
    server.completed(&id).await?;
    for path in [
        String::new(),
        "/devices".to_owned(),
        format!("/devices/{device}"),
        "/send?platforms=chatapp&text=Hello".to_owned(),
        format!("/notifications/{id}"),
        format!("/notifications/{id}/deliveries"),
        "/providers".to_owned(),
    ] {
        let page = operator.get(&format!("apps/{app}{path}")).await;
        assert_eq!(page.status, 200, "{path}: {}", page.text);
        let text = text_of(&page.text);
        assert!(text.contains("Telegram"), "{path}: {text}");
        for name in ["fb-messenger", "webpush"] {
            assert!(!text.contains(name), "{path}: {text}");
        }
    }
    Ok(())
}

/// The text of a page, without tags, code and examples.
fn text_of(page: &str) -> String {
    let main = page.split("<main").nth(1).unwrap_or_default();
    let parts = main.split("<code").map(|part| part.split_once("</code>").unwrap_or(("", part)).1);
    let without_code: String = parts.collect();
    without_code.split('<').filter_map(|tag| tag.split_once('>')).map(|(_, text)| text).collect()
}

#[tokio::test]
async fn failures_of_one_reason_lead_to_their_devices() -> Result<()> {
    let server = TestServer::start().await;
    let (operator, app) = (operator(&server).await?, first_app(&server).await);
    let client = server.client();
    let devices = [
        android(1, &ScriptedResponse::reason("SENDER_ID_MISMATCH")),
        android(2, &ScriptedResponse::reason("INVALID_ARGUMENT")),
        android(3, &ScriptedResponse::reason("SENDER_ID_MISMATCH")),
        android(4, &ScriptedResponse::ok()),
    ];
    register(&client, devices).await?;
    let id = client
        .notifications()
        .create(&CreateNotification::to_platforms([Platform::Android], "Hello"))
        .await?
        .id;
    server.completed(&id).await?;
    let page = operator.get(&format!("apps/{app}/notifications/{id}")).await.text;
    let link = format!("notifications/{id}/deliveries?reason=SENDER_ID_MISMATCH\"");
    assert!(page.contains(&link), "{page}");
    let path = format!("apps/{app}/notifications/{id}/deliveries?reason=SENDER_ID_MISMATCH");
    let list = operator.get(&path).await.text;
    for (device, is_listed) in [("a1", true), ("a2", false), ("a3", true), ("a4", false)] {
        let link = format!("explain?device={device}\"");
        assert_eq!(list.contains(&link), is_listed, "{device}: {list}");
    }
    Ok(())
}
