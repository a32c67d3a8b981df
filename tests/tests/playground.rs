//! The playground: an application whose providers are fakes inside the server.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use notify_client::{Client, Error};
use notify_core::{
    AppId, CreateNotification, DeviceId, ListAudit, ListDeliveries, NotificationId, PageQuery,
    Platform, Playground, PlaygroundAnswer, PlaygroundMessage, RegisterDevice,
};
use notify_tests::{Backend, Notify, TestServer, completed, until};
use serde_json::json;

/// The outcome of each device of the playground that gets the first notification.
const OUTCOMES: [(&str, &str); 6] = [
    ("android-fails-twice", "sent"),
    ("android-unregistered", "unregistered"),
    ("android-works", "sent"),
    ("iphone-slow", "sent"),
    ("iphone-works", "sent"),
    ("telegram-chat", "sent"),
];

/// A server as users start it, which may not connect to private networks.
async fn server() -> TestServer {
    TestServer::start_with(|config| config.allow_private_networks = false).await
}

/// A client of the playground's application.
fn client_of(server: &TestServer, playground: &Playground) -> Result<Client> {
    let key = playground.api_key.clone().context("the start returns a key")?;
    Ok(Client::builder(server.origin()).api_key(key).build()?)
}

async fn send(client: &Client, text: &str) -> Result<NotificationId> {
    let platforms = [Platform::Android, Platform::Ios, Platform::ChatApp];
    let id = client
        .notifications()
        .create(&CreateNotification::to_platforms(platforms, text).ttl_seconds(600))
        .await?
        .id;
    completed(client, &id).await?;
    Ok(id)
}

async fn outcomes(client: &Client, id: &NotificationId) -> Result<Vec<(String, String)>> {
    let deliveries =
        client.notifications().deliveries(id, &ListDeliveries::default()).await?.deliveries;
    let outcome = |delivery: notify_core::Delivery| {
        Some((delivery.device_id?.to_string(), delivery.outcome.to_string()))
    };
    let mut outcomes: Vec<_> = deliveries.into_iter().filter_map(outcome).collect();
    outcomes.sort_unstable();
    Ok(outcomes)
}

async fn messages(server: &TestServer) -> Result<Vec<PlaygroundMessage>> {
    Ok(server.client().admin().list_playground_messages().await?.messages)
}

/// The statuses that each device got, in the order of the attempts.
fn statuses(messages: &[PlaygroundMessage]) -> BTreeMap<String, Vec<u16>> {
    let mut statuses = BTreeMap::<String, Vec<u16>>::new();
    for message in messages.iter().rev() {
        let device = message.device_id.as_ref().map_or_else(String::new, ToString::to_string);
        statuses.entry(device).or_default().push(message.answer.status);
    }
    statuses
}

async fn app_ids(client: &Client) -> Result<Vec<AppId>> {
    let apps = client.admin().list_apps(&PageQuery::default()).await?.apps;
    Ok(apps.into_iter().map(|app| app.id).collect())
}

fn is_not_found<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::NotFound { .. }))
}

#[tokio::test]
async fn a_notification_reaches_devices_that_behave_differently() -> Result<()> {
    let server = server().await;
    let admin = server.client();
    let playground = admin.admin().start_playground().await?;
    let client = client_of(&server, &playground)?;
    let devices: Vec<&str> =
        playground.devices.iter().map(|device| device.device_id.as_str()).collect();
    assert_eq!(devices.len(), OUTCOMES.len());

    let first = send(&client, "Hello from the playground").await?;
    let expected = OUTCOMES.map(|(device, outcome)| (device.to_owned(), outcome.to_owned()));
    assert_eq!(outcomes(&client, &first).await?, expected);
    let received = messages(&server).await?;
    let answers: BTreeMap<String, Vec<u16>> = [
        ("android-fails-twice", vec![503, 503, 200]),
        ("android-unregistered", vec![404]),
        ("android-works", vec![200]),
        ("iphone-slow", vec![200]),
        ("iphone-works", vec![200]),
        ("telegram-chat", vec![200]),
    ]
    .map(|(device, statuses)| (device.to_owned(), statuses))
    .into();
    assert_eq!(statuses(&received), answers);
    let times: Vec<i64> = received.iter().map(|message| message.at.as_ms()).collect();
    assert!(times.is_sorted_by(|later, earlier| later >= earlier), "newest first: {times:?}");

    for message in &received {
        let (payload, headers) = (message.payload.to_string(), &message.headers);
        assert!(payload.contains("Hello from the playground"), "{payload}");
        assert!(!headers.contains_key("authorization"), "{headers:?}");
        assert!(!message.is_credential_check);
        assert_eq!(message.answer.reason.is_none(), message.answer.status == 200, "{message:?}");
    }
    // What arrived is what the preview shows.
    let preview = CreateNotification::to_platforms([Platform::Ios], "Hello from the playground");
    let preview = client.notifications().preview(&preview.ttl_seconds(600)).await?;
    let preview = preview.platforms.first().context("one platform")?;
    let preview = serde_json::to_value(preview)?;
    let arrived = received
        .iter()
        .find(|message| message.device_id.as_ref().is_some_and(|id| id.as_str() == "iphone-works"))
        .context("the phone got it")?;
    assert_eq!(arrived.headers["apns-topic"], "com.example.notify");
    assert_eq!(arrived.payload["aps"]["alert"]["body"], "Hello from the playground");
    assert_eq!(arrived.payload["aps"], preview["payload"]["aps"]);
    let fields: Vec<&String> = arrived.payload.as_object().context("an object")?.keys().collect();
    let previewed = preview["payload"].as_object().context("an object")?.keys();
    assert_eq!(fields, previewed.collect::<Vec<_>>());

    // The unregistered phone is left out, and the failing one fails twice again.
    let second = send(&client, "Again").await?;
    let expected: Vec<_> =
        expected.into_iter().filter(|(device, _)| device != "android-unregistered").collect();
    assert_eq!(outcomes(&client, &second).await?, expected);
    let again = statuses(&messages(&server).await?);
    assert_eq!(again["android-fails-twice"], [503, 503, 200, 503, 503, 200]);
    assert_eq!(again["android-unregistered"], [404]);
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn the_next_answer_of_a_device_is_scripted() -> Result<()> {
    let server = server().await;
    let admin = server.client();
    let playground = admin.admin().start_playground().await?;
    let client = client_of(&server, &playground)?;
    let device = |id: &str| DeviceId::new(id).expect("a valid id");
    for (id, answer) in [
        ("iphone-works", PlaygroundAnswer::Unavailable),
        ("android-unregistered", PlaygroundAnswer::Ok),
        ("android-fails-twice", PlaygroundAnswer::Unregistered),
        // The later answer replaces the earlier one.
        ("android-works", PlaygroundAnswer::Unregistered),
        ("android-works", PlaygroundAnswer::Slow),
        ("telegram-chat", PlaygroundAnswer::Unregistered),
    ] {
        admin.admin().set_playground_answer(&device(id), answer).await?;
    }
    // Devices of the user's own get messages too.
    client.devices().register(&RegisterDevice::android("my-phone", "my-token")).await?;
    let id = send(&client, "Hello").await?;
    let received = messages(&server).await?;
    let answers = statuses(&received);
    assert_eq!(answers["iphone-works"], [503, 200]);
    assert_eq!(answers["android-unregistered"], [200]);
    assert_eq!(answers["android-fails-twice"], [404]);
    assert_eq!(answers["android-works"], [200]);
    assert_eq!(answers["telegram-chat"], [403]);
    assert_eq!(answers["my-phone"], [200]);
    let outcomes: BTreeMap<_, _> = outcomes(&client, &id).await?.into_iter().collect();
    assert_eq!(outcomes["telegram-chat"], "unregistered");

    let caller = server.admin();
    let path = |id: &str| format!("/admin/v1/playground/devices/{id}/answer");
    caller.put(&path("no-such-device"), &json!({"answer": "ok"})).await.is(404);
    let disabled = caller.put(&path("telegram-chat"), &json!({"answer": "ok"})).await;
    let text = "device_id: the device is disabled and gets no message: register another one";
    disabled.rejected(400, &[text]);
    let unknown = caller.put(&path("my-phone"), &json!({"answer": "later"})).await;
    unknown.rejected(400, &["answer: must be one of ok, unregistered, unavailable, slow"]);

    // Checks of the credentials are marked, and belong to no device.
    for provider in notify_core::ProviderKind::ALL {
        if provider == notify_core::ProviderKind::WebPush {
            continue;
        }
        let checked = admin.admin().test_provider(playground.app_id, provider).await?;
        assert!(checked.ok, "{provider}: {checked:?}");
    }
    let checks = messages(&server).await?;
    let checks: Vec<_> = checks.iter().filter(|message| message.is_credential_check).collect();
    assert_eq!(checks.len(), 2, "APNs and FCM; the chats have a call that sends nothing");
    assert!(checks.iter().all(|message| message.device_id.is_none()));
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_second_start_returns_the_running_playground() -> Result<()> {
    let server = server().await;
    let client = server.client();
    let admin = client.admin();
    let before = app_ids(&client).await?;
    assert!(is_not_found(&admin.get_playground().await));
    assert!(is_not_found(&admin.list_playground_messages().await));
    assert!(is_not_found(&admin.stop_playground().await));

    let starts = [(); 8].map(|()| admin.start_playground());
    let started = futures_util::future::try_join_all(starts).await?;
    assert!(started.iter().all(|other| *other == started[0]), "{started:?}");
    assert_eq!(app_ids(&client).await?.len(), before.len() + 1);
    let running = admin.get_playground().await?;
    assert_eq!(running, Playground { api_key: None, ..started[0].clone() });
    let app = admin.get_app(running.app_id).await?;
    assert_eq!(app.name, "Playground");
    let providers = admin.list_providers(running.app_id).await?.providers;
    let providers: Vec<&str> = providers.iter().map(|view| view.provider.as_str()).collect();
    assert_eq!(providers, ["apns", "fcm", "messenger", "telegram"]);

    admin.stop_playground().await?;
    assert_eq!(app_ids(&client).await?, before);
    assert!(is_not_found(&admin.get_playground().await));
    client_of(&server, &started[0])?.devices().list(&Default::default()).await.unwrap_err();
    let again = admin.start_playground().await?;
    assert_ne!(again.app_id, started[0].app_id);
    assert!(messages(&server).await?.is_empty());

    // An administrator who deletes the application ends the playground.
    admin.delete_app(again.app_id).await?;
    assert!(is_not_found(&admin.get_playground().await));
    assert_ne!(admin.start_playground().await?.app_id, again.app_id);
    server.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn starting_and_stopping_are_in_the_audit_trail() -> Result<()> {
    let server = server().await;
    let client = server.client();
    let app = client.admin().start_playground().await?.app_id;
    // The second start changes nothing.
    client.admin().start_playground().await?;
    client.admin().stop_playground().await?;
    let trail = client.admin().list_audit(&ListAudit::default()).await?.entries;
    let changes = trail.iter().map(|entry| (entry.action.as_str(), entry.app_id));
    // The test has configured the providers of another application before.
    let changes: Vec<_> = changes.filter(|(action, _)| *action != "configure_provider").collect();
    assert_eq!(changes, [("stop_playground", Some(app)), ("start_playground", Some(app))]);
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_restart_erases_the_playground() -> Result<()> {
    let mut server = server().await;
    let before = app_ids(&server.client()).await?;
    let playground = server.client().admin().start_playground().await?;
    send(&client_of(&server, &playground)?, "Hello").await?;
    server.restart().await;
    assert_eq!(app_ids(&server.client()).await?, before);
    assert!(is_not_found(&server.client().admin().get_playground().await));
    assert!(is_not_found(&server.client().admin().get_app(playground.app_id).await));
    server.client().admin().start_playground().await?;
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn two_servers_of_one_database_have_no_playground() -> Result<()> {
    let first = TestServer::start_on(Backend::Postgres, |_| {}).await;
    let started = first.client().admin().start_playground().await?;
    let second = first.start_another().await;
    // The second server has put the first one's playground away.
    assert!(is_not_found(&first.client().admin().get_playground().await));
    assert!(is_not_found(&second.client().admin().get_app(started.app_id).await));
    for server in [&first, &second] {
        until("each server sees the other", async || {
            let answer = server.admin().post("/admin/v1/playground", &json!({})).await;
            if answer.status == 200 {
                server.client().admin().stop_playground().await?;
                return Ok(None);
            }
            answer.rejected(
                400,
                &["playground: needs a server that is alone on its database, because its fake \
                   providers run in one process: 1 more server uses this database. Start a server \
                   of your own to try it out"],
            );
            Ok(Some(()))
        })
        .await?;
    }
    assert_eq!(app_ids(&first.client()).await?, [first.app_id]);
    second.stop().await;
    first.client().admin().start_playground().await?;
    first.stop().await;
    Ok(())
}

#[tokio::test]
async fn the_command_starts_shows_and_stops_the_playground() -> Result<()> {
    let server = server().await;
    let notify = Notify::new(server.origin(), server.api_key(), server.admin_key())?;
    let started = notify.json(&["playground", "start"]).await?;
    let key = started["api_key"].as_str().context("the start prints a key")?;
    let player = notify.clone().with("NOTIFY_API_KEY", key);
    notify.json(&["playground", "answer", "iphone-works", "unavailable"]).await?;
    let hello = ["send", "--platform", "ios", "--text", "Hello"];
    let sent = player.json(&hello).await?;
    let id = sent["id"].as_str().context("an id")?;
    player.run(&["watch", id]).await?;
    let messages = notify.json(&["playground", "messages"]).await?;
    let messages = messages["messages"].as_array().context("a list")?;
    let answers: Vec<_> = messages
        .iter()
        .filter(|message| message["device_id"] == "iphone-works")
        .map(|message| message["answer"]["status"].clone())
        .collect();
    assert_eq!(answers, [200, 503], "newest first");
    let table = notify.run(&["-o", "table", "playground", "show"]).await?;
    assert_eq!(table.status, Some(0), "{table:?}");
    for text in ["android-fails-twice", "iPhone: APNs accepts every message after three seconds"] {
        assert!(table.stdout.contains(text), "{table:?}");
    }
    assert!(!table.stdout.contains("nk_"), "{table:?}");
    notify.json(&["playground", "stop"]).await?;
    let ended = notify.run(&["playground", "stop"]).await?;
    let text = "error: not found: the playground does not run: `notify playground start` starts it";
    assert_eq!((ended.status, ended.stderr.trim()), (Some(5), text));
    server.stop().await;
    Ok(())
}
