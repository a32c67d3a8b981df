//! Calls every endpoint once through the SDK, against a real server. The server's metrics show that no
//! endpoint was left out.

mod administration;
mod campaigns;
mod users;

use std::collections::BTreeSet;

use anyhow::Result;
use notify_client::{Client, Error, StreamItem};
use notify_core::{
    AnswerPoll, CreateAnswer, CreateNotification, CreatePoll, CreateWebhook, DeviceId, DeviceState,
    DeviceStatisticsQuery, Engagement, ExplainedOutcome, ListDeliveries, ListDevices,
    ListNotifications, NotificationContent, NotificationId, NotificationStatisticsQuery,
    NotificationStatus, Origin, PageQuery, Platform, PushKeys, PushSubscription, RegisterDevice,
    ReportEvent, ReportEvents, ReportNotification, SetTags, StreamQuery, Subscribe, Tag, Timestamp,
    UpdateWebhook, WebhookOutcome,
};
use notify_sandbox::ScriptedResponse;
use notify_tests::{TestServer, android, ios, register, routes};
use serde_json::{Value, json};

/// The generator of P-256, which is a valid public key for a browser.
const POINT: &str =
    "BGsX0fLhLEJH-Lzm5WOkQPJ3A32BLeszoPShOUXYmMKWT-NC4v4af5uO5-tKfA-eFivOM1drMV7Oy7ZAaDe_UfU";

#[tokio::test]
async fn the_sdk_covers_every_route() -> Result<()> {
    let server = TestServer::start().await;
    let client = server.client();
    devices_and_tags(&client).await?;
    subscriptions(&client).await?;
    campaigns::campaigns_feeds_and_enrichment(&client).await?;
    notifications_and_events(&server).await?;
    polls(&server).await?;
    users::users_and_segments(&server).await?;
    administration::administration(&server).await?;
    administration::operators(&server).await?;
    administration::playground(&server).await?;
    events_out(&client).await?;
    none_was_left_out(&server).await?;
    server.stop().await;
    Ok(())
}

fn id(text: &str) -> Result<DeviceId> {
    DeviceId::new(text).map_err(anyhow::Error::msg)
}

fn page(limit: u32) -> PageQuery {
    PageQuery { limit: Some(limit), cursor: None }
}

async fn devices_and_tags(client: &Client) -> Result<()> {
    let full: RegisterDevice = RegisterDevice {
        push_disabled: Some(true),
        language: Some("de".into()),
        timezone: Some("GMT-03:30".into()),
        utc_offset: Some("-210".into()),
        imei: Some("1".into()),
        ..ios(1, &ScriptedResponse::ok())
    };
    register(
        client,
        [full, android(2, &ScriptedResponse::ok()), android(3, &ScriptedResponse::ok())],
    )
    .await?;
    let read = serde_json::to_value(client.devices().get(&id("i1")?).await?)?;
    let token = ios(1, &ScriptedResponse::ok()).push_token;
    let fields = ["device_id", "platform", "sdk_type", "push_token", "push_disabled", "enabled"];
    let fields: Vec<&Value> = fields.iter().map(|name| &read[name]).collect();
    assert_eq!(json!(fields), json!(["i1", "ios", "ios_push", token, true, false]));
    assert_eq!(read["disabled_reason"], "push_disabled");
    assert_eq!((&read["timezone"], &read["country"]), (&json!("GMT-03:30"), &Value::Null));

    let tags = SetTags { tags: vec![Tag::new("vip", true), Tag::new("old", false)] };
    client.devices().set_tags(&id("a2")?, &tags).await?;
    client.devices().set_tags(&id("a3")?, &SetTags { tags: vec![Tag::new("vip", true)] }).await?;
    client.devices().remove_tag(&id("a3")?, "vip").await?;
    let deleted = client.devices().remove_tag(&id("a3")?, "vip").await;
    assert!(matches!(deleted, Err(Error::NotFound { .. })), "{deleted:?}");
    let listed = client.tags().list(&page(1)).await?;
    assert!(listed.next_cursor.is_some(), "two tags, one a page");
    let mut tags = Vec::new();
    let mut pages = client.tags().all(&page(1));
    while let Some(tag) = pages.next().await {
        let tag = tag?;
        tags.push((tag.name, tag.devices));
    }
    assert_eq!(tags, [("old".to_owned(), 0), ("vip".to_owned(), 1)]);

    let tagged = ListDevices { tag: Some("vip".into()), ..ListDevices::default() };
    let tagged = client.devices().list(&tagged).await?.devices;
    assert_eq!(tagged.iter().map(|device| device.device_id.as_str()).collect::<Vec<_>>(), ["a2"]);
    let androids = ListDevices { platform: Some(Platform::Android), ..ListDevices::default() };
    assert_eq!(client.devices().list(&androids).await?.devices.len(), 2);
    let disabled = ListDevices { state: Some(DeviceState::Disabled), ..ListDevices::default() };
    let by_token = ListDevices { push_token: token, ..ListDevices::default() };
    for query in [disabled, by_token] {
        let found = client.devices().list(&query).await?.devices;
        assert_eq!(
            found.iter().map(|device| device.device_id.as_str()).collect::<Vec<_>>(),
            ["i1"]
        );
    }
    client.devices().delete(&id("a3")?).await?;
    let deleted = client.devices().get(&id("a3")?).await;
    assert!(matches!(deleted, Err(Error::NotFound { .. })), "{deleted:?}");

    let statistics = client.statistics().devices(&DeviceStatisticsQuery::default()).await?;
    let counts = (statistics.total, statistics.total_enabled, statistics.total_disabled);
    assert_eq!(counts, (2, 1, 1));
    let since = DeviceStatisticsQuery { date_from: None, date_to: Some(Timestamp::from_ms(1)) };
    assert_eq!(client.statistics().devices(&since).await?.total, 0);
    Ok(())
}

async fn subscriptions(client: &Client) -> Result<()> {
    let browser = PushSubscription {
        endpoint: "https://push.example.com/send/1".into(),
        keys: PushKeys { p256dh: POINT.into(), auth: "AAAAAAAAAAAAAAAAAAAAAA".into() },
        ..PushSubscription::default()
    };
    let first = client.subscriptions().create(&Subscribe::web(browser.clone())).await?.id;
    let again = client.subscriptions().create(&Subscribe::web(browser)).await?.id;
    assert_eq!(first, again, "the same address, the same device");
    let read = client.devices().get(&first).await?;
    assert_eq!((read.platform, read.subscription.is_some()), (Platform::Web, true));
    let chat = Subscribe { device_id: Some("chat-1".into()), ..Subscribe::chat("4711") };
    assert_eq!(client.subscriptions().create(&chat).await?.id.as_str(), "chat-1");
    client.subscriptions().create(&Subscribe::messenger("815")).await?;
    let statistics = client.statistics().devices(&DeviceStatisticsQuery::default()).await?;
    let platforms: Vec<_> = statistics.platforms.iter().map(|platform| platform.platform).collect();
    assert_eq!(platforms.len(), 5, "{platforms:?}");
    Ok(())
}

async fn notifications_and_events(server: &TestServer) -> Result<()> {
    let client = server.client();
    let report = ReportNotification {
        id: "order-1".into(),
        text: Some("Your order".into()),
        platforms: Some(vec!["android".into()]),
        content: NotificationContent { url: Some("shop://1".into()), ..Default::default() },
    };
    let reported = client.notifications().report(&report).await?.id;
    assert_eq!(reported.as_str(), "order-1");
    let duplicate = client.notifications().report(&report).await;
    assert!(matches!(duplicate, Err(Error::Rejected { status: 400, .. })), "{duplicate:?}");
    let record = client.notifications().get(&reported).await?;
    assert_eq!((record.status, record.origin), (NotificationStatus::Reported, Origin::Reported));

    let text = CreateNotification::to_platforms([Platform::Android], "Hello");
    let keyed = client.notifications().idempotency_key("once");
    let sent = keyed.create(&text).await?.id;
    assert_eq!(keyed.create(&text).await?.id, sent, "the same key, the same notification");
    let other = CreateNotification::to_platforms([Platform::Android], "Other");
    let conflict = keyed.create(&other).await;
    assert!(matches!(conflict, Err(Error::Rejected { status: 409, .. })), "{conflict:?}");
    let record = server.completed(&sent).await?;
    assert_eq!((record.counts.sent, record.counts.targeted), (1, 1));
    assert_eq!(serde_json::to_value(&record.request)?, serde_json::to_value(&text)?);

    let read = client.notifications().preview(&text).await?.platforms;
    assert_eq!((read.len(), read[0].devices), (1, 1));
    let listed = client.notifications().deliveries(&sent, &ListDeliveries::default()).await?;
    assert_eq!(listed.deliveries.len(), 1);
    let explanation = client.notifications().explain(&sent, &id("a2")?).await?;
    assert_eq!(explanation.outcome, ExplainedOutcome::Sent);

    let tomorrow = Timestamp::from_ms(record.created_at.as_ms() + 86_400_000);
    let scheduled = client.notifications().create(&text.send_at(tomorrow)).await?.id;
    assert_eq!(client.notifications().get(&scheduled).await?.status, NotificationStatus::Scheduled);
    client.notifications().pause(&scheduled).await?;
    assert!(client.notifications().get(&scheduled).await?.paused.is_some());
    client.notifications().resume(&scheduled).await?;
    client.notifications().cancel(&scheduled).await?;
    assert_eq!(client.notifications().get(&scheduled).await?.status, NotificationStatus::Canceled);
    let two = ListNotifications { limit: Some(2), ..ListNotifications::default() };
    let mut pages = client.notifications().all(&two);
    let mut ids = Vec::new();
    while let Some(notification) = pages.next().await {
        ids.push(notification?.id);
    }
    assert_eq!(ids, [scheduled.clone(), sent.clone(), reported.clone()], "the newest first");
    let status = Some(NotificationStatus::Canceled);
    let canceled = ListNotifications { status, ..ListNotifications::default() };
    let listed = client.notifications().list(&canceled).await?.notifications;
    assert_eq!(listed.iter().map(|one| &one.id).collect::<Vec<_>>(), [&scheduled]);

    events(server, &sent, &reported).await
}

async fn events(
    server: &TestServer,
    sent: &NotificationId,
    reported: &NotificationId,
) -> Result<()> {
    let client = server.client();
    let event = |kind: &str, notification: &str, device: &str| ReportEvent {
        kind: kind.into(),
        notification_id: notification.into(),
        device_id: device.into(),
        at: None,
    };
    let events = vec![
        event("received", sent.as_str(), "a2"),
        event("opened", sent.as_str(), "a2"),
        event("opened", sent.as_str(), "a2"),
        event("clicked", "ghost", "a2"),
        event("clicked", reported.as_str(), "ghost"),
    ];
    let accepted = client.events().report(&ReportEvents { events }).await?;
    let ignored: Vec<u64> = accepted.ignored.iter().map(|event| event.index).collect();
    assert!(ignored.ends_with(&[3, 4]), "{accepted:?}");
    let engagement = client.notifications().get(sent).await?.engagement;
    assert_eq!(engagement, Engagement { received: 1, opened: 1, ..Engagement::default() });
    let days = client.statistics().notifications(&NotificationStatisticsQuery::default()).await?;
    assert_eq!((days.total_sent, days.total_received, days.total_opened), (1, 1, 1));
    assert_eq!((days.total_failed, days.total_unregistered, days.total_expired), (0, 0, 0));
    Ok(())
}

async fn polls(server: &TestServer) -> Result<()> {
    let client = server.client();
    let answer = |text: &str| CreateAnswer { text: Some(text.into()), image_url: None };
    let poll = CreatePoll {
        text: "Tea or coffee?".into(),
        layout_id: "poll_text".into(),
        image_url: None,
        answers: vec![answer("Tea"), answer("Coffee"), answer("Water")],
    };
    let id = client
        .notifications()
        .create(&CreateNotification::poll([Platform::Android], poll))
        .await?
        .id;
    let read = client.polls().get(&id).await?;
    assert_eq!((read.text.as_str(), read.lang.as_str()), ("Tea or coffee?", "en"));
    assert!(read.url.starts_with(server.origin()), "{}", read.url);
    let [tea, coffee] = [read.answers[0].id, read.answers[1].id];
    let by = |device: &str| AnswerPoll { device_id: Some(device.into()) };
    client.polls().answer(&id, tea, &by("a2")).await?;
    client.polls().answer(&id, coffee, &by("a2")).await?;
    client.polls().answer(&id, coffee, &by("i1")).await?;
    client.polls().answer(&id, coffee, &AnswerPoll::default()).await?;
    let read = client.polls().get(&id).await?;
    let counts: Vec<_> =
        read.answers.iter().map(|answer| (answer.clicks, answer.percentage)).collect();
    assert_eq!(counts, [(1, 33.33), (2, 66.67), (0, 0.0)], "one a device");
    let unknown = client.polls().answer(&id, tea, &by("ghost")).await;
    assert!(matches!(unknown, Err(Error::Rejected { status: 400, .. })), "{unknown:?}");
    server.completed(&id).await?;
    Ok(())
}

async fn events_out(client: &Client) -> Result<()> {
    let mut stream = client.stream(StreamQuery::default());
    let webhooks = client.webhooks();
    // The port is closed.
    let made = CreateWebhook { url: "https://127.0.0.1:9/".into(), ..CreateWebhook::default() };
    let id = webhooks.create(&made).await?.id;
    let tested = webhooks.test(id).await?;
    assert_eq!((tested.outcome, tested.attempts), (WebhookOutcome::Failed, 1));
    webhooks.redeliver(id, tested.id).await?;
    // Tests are not recovered, and nothing else was sent.
    let recovered = webhooks.recover(id, Timestamp(0)).await?;
    assert_eq!((recovered.recovered, recovered.more), (0, false));
    assert_eq!(webhooks.attempts(id, &PageQuery::default()).await?.attempts.len(), 1);
    webhooks.rotate(id).await?;
    let change = UpdateWebhook { enabled: Some(false), ..UpdateWebhook::default() };
    webhooks.update(id, &change).await?;
    assert!(!webhooks.get(id).await?.enabled);
    assert_eq!(webhooks.list(&PageQuery::default()).await?.webhooks.len(), 1);
    webhooks.delete(id).await?;
    // The stream begins with the first read; a notification canceled before it is reported at once.
    let shown = tokio::spawn(async move { stream.next().await });
    let later = CreateNotification {
        text: Some("later".into()),
        platforms: Some(vec!["web".into()]),
        send_at: Some(notify_tests::tomorrow()),
        ..CreateNotification::default()
    };
    notify_tests::until("an event is shown", async || {
        let later = client.notifications().create(&later).await?;
        client.notifications().cancel(&later.id).await?;
        Ok(shown.is_finished().then_some(()))
    })
    .await?;
    let shown = shown.await?.transpose()?;
    let Some(StreamItem::Event { event, .. }) = shown else { anyhow::bail!("{shown:?}") };
    assert_eq!(event.data.kind(), "notification.completed");
    Ok(())
}

/// Every operation of the OpenAPI document was answered with 200 at least once.
async fn none_was_left_out(server: &TestServer) -> Result<()> {
    let caller = server.caller();
    let metrics = caller.send(&http::Method::GET, "/metrics", "").await?.text;
    let label = |line: &str, name: &str| {
        let (_, rest) = line.split_once(&format!("{name}=\""))?;
        rest.split_once('"').map(|(value, _)| value.to_owned())
    };
    let answered: BTreeSet<(String, String)> = metrics
        .lines()
        .filter(|line| line.starts_with("notify_http_requests_total") && line.contains("\"200\""))
        .filter_map(|line| Some((label(line, "route")?, label(line, "method")?)))
        .collect();
    let listed: BTreeSet<(String, String)> = routes(&caller)
        .await?
        .into_iter()
        .map(|route| (route.template, route.method.to_string()))
        .collect();
    let left_out: Vec<_> = listed.difference(&answered).collect();
    assert_eq!(left_out, Vec::<&(String, String)>::new());
    Ok(())
}
