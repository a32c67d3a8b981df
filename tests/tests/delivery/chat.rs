//! Messenger and the chat app: subscriptions, messages, and the effect of rejections.

use anyhow::{Context, Result};
use notify_core::{
    CreateNotification, CreatePoll, Device, DeviceId, DisabledReason, ExplainedOutcome,
    FailureCount, NotificationStatus, Platform, ProviderKind, Subscribe,
};
use notify_sandbox::{
    Fault, Provider, ReceivedRequest, ScriptedResponse, messenger_recipient, telegram_chat,
};
use notify_tests::{TestServer, android, browser_endpoint, ios, register};
use serde_json::{Value, json};

use crate::send;

/// Both platforms.
const CHATS: [Platform; 2] = [Platform::FbMessenger, Platform::ChatApp];

async fn start() -> Result<TestServer> {
    let server = TestServer::start().await;
    let admin = server.client();
    let (messenger, telegram) =
        (server.sandbox().messenger_config(), server.sandbox().telegram_config());
    admin.admin().put_provider(server.app_id, ProviderKind::Messenger, &messenger).await?;
    admin.admin().put_provider(server.app_id, ProviderKind::Telegram, &telegram).await?;
    Ok(server)
}

/// Subscribes a person and a chat whose messages get this response. Returns their devices.
async fn subscribe(
    server: &TestServer,
    seed: u64,
    person: &ScriptedResponse,
    chat: &ScriptedResponse,
) -> Result<[DeviceId; 2]> {
    let client = server.client();
    let person = Subscribe::messenger(messenger_recipient(seed, person));
    let chat = Subscribe::chat(telegram_chat(seed, chat));
    let person = client.subscriptions().create(&person).await?.id;
    Ok([person, client.subscriptions().create(&chat).await?.id])
}

async fn read(server: &TestServer, device: &DeviceId) -> Result<Device> {
    Ok(server.client().devices().get(device).await?)
}

/// The messages to the two, Messenger first.
fn both(received: &[ReceivedRequest]) -> Result<[&Value; 2]> {
    let of = |provider| received.iter().find(move |message| message.provider == provider);
    let person = of(Provider::Messenger).context("something for Messenger")?;
    let chat = of(Provider::Telegram).context("something for Telegram")?;
    assert_eq!((received.len(), person.status, chat.status), (2, 200, 200), "{received:?}");
    Ok([&person.payload, &chat.payload])
}

/// A notification to one browser, one person, one chat and one phone by their ids reaches no other device.
#[tokio::test]
async fn devices_of_any_platform_are_reached_by_their_ids() -> Result<()> {
    let server = start().await?;
    let (client, ok) = (server.client(), ScriptedResponse::ok());
    let [person, chat] = subscribe(&server, 1, &ok, &ok).await?;
    subscribe(&server, 2, &ok, &ok).await?;
    for device in ["w1", "w2"] {
        browser_endpoint(&client, server.sandbox(), device, &ok).await?;
    }
    register(&client, (1..=2).flat_map(|seed| [android(seed, &ok), ios(seed, &ok)])).await?;
    let ids = [person.as_str(), chat.as_str(), "w1", "a1", "ghost"];
    let mut shipped = CreateNotification::to_any_devices(ids, "Your order is on its way")?;
    shipped.ios_device_ids = Some(vec!["i2".into(), "a1".into()]);
    let (record, received) = send(&server, &shipped).await?;
    let by_platform: Vec<_> =
        record.by_platform.iter().map(|row| (row.platform, row.counts.sent)).collect();
    let each = [Platform::Android, Platform::Ios, Platform::Web, CHATS[0], CHATS[1]];
    assert_eq!(by_platform, each.map(|platform| (platform, 1)));
    assert_eq!((record.counts.targeted, record.counts.unknown, received.len()), (5, 1, 5));
    let explanation = client.notifications().explain(&record.id, &chat).await?;
    assert_eq!(explanation.outcome, ExplainedOutcome::Sent);
    let explanation =
        client.notifications().explain(&record.id, &DeviceId::new("w2").unwrap()).await?;
    assert_eq!(explanation.outcome, ExplainedOutcome::NotTargeted);
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_text_a_link_with_its_image_and_a_poll_arrive() -> Result<()> {
    let server = start().await?;
    subscribe(&server, 1, &ScriptedResponse::ok(), &ScriptedResponse::ok()).await?;
    let person = messenger_recipient(1, &ScriptedResponse::ok());
    let chat = telegram_chat(1, &ScriptedResponse::ok());
    let to_person = |message: &Value| json!({"recipient": {"id": person}, "messaging_type": "UPDATE", "message": message});
    let card = |element: &Value| {
        let payload = json!({"template_type": "generic", "elements": [element]});
        to_person(&json!({"attachment": {"type": "template", "payload": payload}}))
    };

    let text = CreateNotification::to_platforms(CHATS, "Grüße");
    let (record, received) = send(&server, &text).await?;
    assert_eq!((record.counts.targeted, record.counts.sent), (2, 2), "{record:?}");
    let expected =
        [to_person(&json!({"text": "Grüße"})), json!({"chat_id": chat, "text": "Grüße"})];
    assert_eq!(both(&received)?.map(Value::clone), expected);

    let (url, image) = ("https://n.example/o", "https://i.example/1.png");
    let linked = CreateNotification::to_platforms(CHATS, "Your order")
        .url(url)
        .image_url(image)
        .view_button("Open the order");
    let (_, received) = send(&server, &linked).await?;
    let expected = [
        card(&json!({
            "title": "Your order",
            "image_url": image,
            "default_action": {"type": "web_url", "url": url},
            "buttons": [{"type": "web_url", "url": url, "title": "Open the order"}],
        })),
        json!({
            "chat_id": chat,
            "photo": image,
            "caption": "Your order",
            "reply_markup": {"inline_keyboard": [[{"text": "Open the order", "url": url}]]},
        }),
    ];
    assert_eq!(both(&received)?.map(Value::clone), expected);

    let poll = CreatePoll::text("Tea or coffee?", ["Tea", "Coffee"]);
    let (record, received) = send(&server, &CreateNotification::poll(CHATS, poll)).await?;
    let poll = server.client().polls().get(&record.id).await?;
    let [to_person, to_chat] = both(&received)?;
    let postbacks: Vec<_> = poll
        .answers
        .iter()
        .map(|answer| {
            let payload = format!("poll:{}:{}", poll.id, answer.id);
            json!({"type": "postback", "title": answer.text, "payload": payload})
        })
        .collect();
    let view = json!({"type": "web_url", "url": poll.url, "title": "View"});
    let expected = card(&json!({
        "title": "Tea or coffee?",
        "default_action": {"type": "web_url", "url": poll.url},
        "buttons": [postbacks[0], postbacks[1], view],
    }));
    assert_eq!(*to_person, expected);
    let rows = to_chat["reply_markup"]["inline_keyboard"].as_array().context("buttons")?;
    let labels: Vec<_> = rows.iter().map(|row| row[0]["text"].clone()).collect();
    assert_eq!(
        (&to_chat["text"], labels),
        (&json!("Tea or coffee?"), vec![json!("Tea"), json!("Coffee"), json!("View")])
    );
    assert_eq!(rows[2][0]["url"], json!(poll.url));
    for row in &rows[..2] {
        let data = row[0]["callback_data"].as_str().context("data")?;
        assert!(data.starts_with("poll:") && data.len() <= 64, "{data}");
    }
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn chats_that_are_gone_are_disabled_and_unreachable_ones_kept() -> Result<()> {
    let server = start().await?;
    let outside = ScriptedResponse::reason("window");
    let [late, blocked] =
        subscribe(&server, 1, &outside, &ScriptedResponse::reason("blocked")).await?;
    let [no_user, no_chat] = subscribe(
        &server,
        2,
        &ScriptedResponse::reason("nouser"),
        &ScriptedResponse::reason("notfound"),
    )
    .await?;
    let [silent, deactivated] = subscribe(
        &server,
        3,
        &ScriptedResponse::reason("blocked"),
        &ScriptedResponse::reason("deactivated"),
    )
    .await?;
    let notification = CreateNotification::to_platforms(CHATS, "x");
    let (record, received) = send(&server, &notification).await?;
    assert_eq!((record.status, received.len()), (NotificationStatus::Completed, 6));
    let counts = &record.counts;
    assert_eq!((counts.targeted, counts.failed, counts.unregistered), (6, 2, 4), "{record:?}");
    let failure = |reason: &str| FailureCount {
        platform: Platform::FbMessenger,
        reason: reason.to_owned(),
        count: 1,
    };
    for reason in ["outside_messaging_window (10/2018278)", "person_not_available (200/1545041)"] {
        assert!(record.failures.contains(&failure(reason)), "{reason}: {:?}", record.failures);
    }
    for device in [&blocked, &no_user, &no_chat, &deactivated] {
        let device = read(&server, device).await?;
        let state = (device.enabled, device.disabled_reason);
        assert_eq!(state, (false, Some(DisabledReason::Unregistered)), "{device:?}");
    }
    for device in [&late, &silent] {
        assert!(read(&server, device).await?.enabled, "{device}");
    }
    let (record, received) = send(&server, &notification).await?;
    assert_eq!((record.counts.targeted, received.len()), (2, 2), "the dead are left alone");
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn ambiguous_attempts_are_repeated_once_and_failures_until_delivered() -> Result<()> {
    let server = start().await?;
    let cut = ScriptedResponse::fault(Fault::Cut);
    let down = |status: u16| ScriptedResponse::status(status).first(2);
    let flood = ScriptedResponse::reason("flood").retry_after(1).first(1);
    let once = cut.clone().first(1);
    // One pair after the other: a cut connection may have carried the message of another device, too.
    for (seed, person, chat, sent, arrived) in [
        (1, &cut, &cut, 0, [vec![0, 0], vec![0, 0]]),
        (2, &down(500), &down(502), 2, [vec![500, 500, 200], vec![502, 502, 200]]),
        (3, &once, &flood, 2, [vec![0, 200], vec![429, 200]]),
    ] {
        server.sandbox().clear();
        let devices = subscribe(&server, seed, person, chat).await?;
        let notification =
            CreateNotification::to_any_devices(devices.iter().map(DeviceId::as_str), "x")?;
        let id = server.client().notifications().create(&notification).await?.id;
        let counts = server.completed(&id).await?.counts;
        assert_eq!((counts.sent, counts.failed), (sent, 2 - sent), "{seed}: {counts:?}");
        let received = server.sandbox().received();
        let tokens = [messenger_recipient(seed, person), telegram_chat(seed, chat)];
        for (token, expected) in tokens.iter().zip(arrived) {
            let of = received.iter().filter(|message| message.token.as_deref() == Some(token));
            assert_eq!(of.map(|message| message.status).collect::<Vec<u16>>(), expected, "{token}");
        }
    }
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_text_over_a_platforms_limit_is_rejected_before_sending() -> Result<()> {
    let server = start().await?;
    let refused = |chars: usize| {
        let client = server.client();
        let notification = CreateNotification::to_platforms(CHATS, "ü".repeat(chars));
        async move {
            match client.notifications().create(&notification).await {
                Ok(_) => Vec::new(),
                Err(notify_client::Error::Rejected { errors, .. }) => errors,
                Err(error) => vec![error.to_string()],
            }
        }
    };
    assert_eq!(refused(2_000).await, Vec::<String>::new());
    let messenger = "fb-messenger: the payload for fb-messenger would be";
    let rule = |chars| format!("{messenger} {chars} characters, 2000 are allowed");
    assert_eq!(refused(2_001).await, [rule(2_001)]);
    let both = refused(4_097).await;
    let telegram = "chatapp: the payload for chatapp would be 4097 characters, 4096 are allowed";
    assert_eq!(both, [rule(4_097), telegram.to_owned()]);
    server.stop().await;
    Ok(())
}
