//! Variables: each device gets its own attributes or those of its user.

use anyhow::{Context, Result};
use notify_core::{
    CreateNotification, DeviceId, PatchAttributes, PatchUser, Platform, ProviderKind,
    RegisterDevice, Subscribe, Translation, UserId,
};
use notify_sandbox::{ReceivedRequest, ScriptedResponse, telegram_chat};
use notify_tests::{TestServer, android, ios, register};
use serde_json::{Value, json};

use crate::send;

const HELLO: &str = "Hello {{first_name|there}}, {{points|no}} points";

async fn set(server: &TestServer, device: &str, attributes: PatchAttributes) -> Result<()> {
    server
        .client()
        .devices()
        .update_attributes(&DeviceId::new(device).map_err(anyhow::Error::msg)?, &attributes)
        .await?;
    Ok(())
}

/// The title and the text that a phone got.
fn shown(received: &[ReceivedRequest], token: Option<&str>) -> Result<(Value, Value)> {
    let message = received.iter().find(|message| message.token.as_deref() == token);
    let payload = &message.context("a message")?.payload;
    let alert = match payload.get("aps") {
        Some(aps) => &aps["alert"],
        None => &payload["message"]["notification"],
    };
    Ok((alert["title"].clone(), alert["body"].clone()))
}

#[tokio::test]
async fn every_device_gets_its_attributes() -> Result<()> {
    let server = TestServer::start().await;
    let (client, ok) = (server.client(), ScriptedResponse::ok());
    let of_ada = |device: RegisterDevice| RegisterDevice { user_id: Some("ada".into()), ..device };
    let german = RegisterDevice { language: Some("de".into()), ..android(4, &ok) };
    let devices = [of_ada(android(1, &ok)), of_ada(ios(2, &ok)), ios(3, &ok), german];
    let tokens: Vec<_> = devices.iter().map(|device| device.push_token.clone()).collect();
    register(&client, devices).await?;
    let ada = PatchUser {
        attributes: Some(PatchAttributes::default().set("first_name", "Ada").set("points", 7)),
    };
    client.users().update(&UserId::new("ada").unwrap(), &ada).await?;
    // The own value of the device hides that of its user.
    set(&server, "i2", PatchAttributes::default().set("first_name", "Countess")).await?;
    let evil = "\"}},{{points|x}}\\\n";
    set(&server, "a4", PatchAttributes::default().set("first_name", evil)).await?;
    let hello = CreateNotification::to_platforms([Platform::Android, Platform::Ios], HELLO)
        .title("For {{first_name|you}}")
        .translation("de", Translation::text("Hallo {{first_name|du}}"))
        .personalize();
    let (record, received) = send(&server, &hello).await?;
    assert_eq!(record.counts.sent, 4);
    let evil = "\"}},{{points|x}}\\ ";
    let expected = [
        ("For Ada".to_owned(), "Hello Ada, 7 points".to_owned()),
        ("For Countess".to_owned(), "Hello Countess, 7 points".to_owned()),
        ("For you".to_owned(), "Hello there, no points".to_owned()),
        (format!("For {evil}"), format!("Hallo {evil}")),
    ];
    for (token, (title, body)) in tokens.iter().zip(expected) {
        assert_eq!(shown(&received, token.as_deref())?, (title.into(), body.into()));
    }
    // The same text without `personalize` is sent as it is written.
    let plain = CreateNotification::to_any_devices(["i3"], HELLO)?;
    let (_, received) = send(&server, &plain).await?;
    assert_eq!(shown(&received, tokens[2].as_deref())?.1, HELLO);
    Ok(())
}

#[tokio::test]
async fn a_single_send_a_retry_and_a_chat_are_personal_too() -> Result<()> {
    let server = TestServer::start().await;
    let (client, ok) = (server.client(), ScriptedResponse::ok());
    let telegram = server.sandbox().telegram_config();
    client.admin().put_provider(server.app_id, ProviderKind::Telegram, &telegram).await?;
    let unavailable = ScriptedResponse::status(503).first(1);
    register(&client, [android(1, &ok), android(2, &unavailable)]).await?;
    let chat =
        Subscribe { device_id: Some("chat".into()), ..Subscribe::chat(telegram_chat(3, &ok)) };
    client.subscriptions().create(&chat).await?;
    for device in ["a1", "a2", "chat"] {
        set(&server, device, PatchAttributes::default().set("first_name", device)).await?;
        let hello = CreateNotification::to_any_devices([device], HELLO)?.personalize();
        let (record, received) = send(&server, &hello).await?;
        assert_eq!(record.counts.sent, 1, "{device}");
        for message in received {
            let text = format!("Hello {device}, no points");
            assert!(message.payload.to_string().contains(&text), "{}", message.payload);
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_device_whose_message_is_too_large_fails_alone() -> Result<()> {
    let server = TestServer::start().await;
    let (client, ok) = (server.client(), ScriptedResponse::ok());
    register(&client, [ios(1, &ok), ios(2, &ok), ios(3, &ok)]).await?;
    set(&server, "i1", PatchAttributes::default().set("first_name", "😀".repeat(64))).await?;
    set(&server, "i2", PatchAttributes::default().set("first_name", "Al")).await?;
    let nearly = |rest: usize| {
        let text = format!("{}{{{{first_name|there}}}}", "x".repeat(rest));
        CreateNotification::to_platforms([Platform::Ios], text).personalize()
    };
    let own = client.notifications().preview(&nearly(3_000)).await?;
    let size = usize::try_from(own.platforms[0].bytes)?;
    let rest = 3_000 + 4_096 - size;
    let error = client.notifications().create(&nearly(rest + 1)).await.err().context("refused")?;
    assert!(error.to_string().contains("would be 4097 bytes, 4096 are allowed"), "{error}");
    let preview = client.notifications().preview(&nearly(rest)).await?;
    let platform = &preview.platforms[0];
    assert_eq!((platform.bytes, platform.bytes_max), (4_096, Some(4_096 - 5 + 256)));
    let problem = platform.problems.last().context("a problem")?;
    assert!(
        problem
            .starts_with("with the longest values of its attributes, the payload for ios would be")
            && problem.ends_with("such devices fail with payload_too_large"),
        "{problem}"
    );
    let id = client.notifications().create(&nearly(rest)).await?.id;
    let record = server.completed(&id).await?;
    assert_eq!((record.counts.sent, record.counts.failed), (2, 1));
    let failures: Vec<_> =
        record.failures.iter().map(|failure| (failure.reason.as_str(), failure.count)).collect();
    assert_eq!(failures, [("payload_too_large", 1)]);
    let explained = client.notifications().explain(&id, &DeviceId::new("i1").unwrap()).await?;
    assert!(explained.steps.iter().any(|step| step.detail.contains("payload_too_large")));
    Ok(())
}

#[tokio::test]
async fn a_preview_shows_the_message_of_a_device() -> Result<()> {
    let server = TestServer::start().await;
    let (client, ok) = (server.client(), ScriptedResponse::ok());
    let german = RegisterDevice { language: Some("de-AT".into()), ..ios(1, &ok) };
    register(&client, [german, android(2, &ok)]).await?;
    set(&server, "i1", PatchAttributes::default().set("first_name", "Ada")).await?;
    let hello = CreateNotification::to_platforms([Platform::Android, Platform::Ios], HELLO)
        .translation("de", Translation::text("Hallo {{first_name|du}}"))
        .personalize();
    let preview = client.notifications().preview_for(&hello, &DeviceId::new("i1").unwrap()).await?;
    let payload = |platform| -> Result<Value> {
        let mut platforms = preview.platforms.iter().filter(|one| one.platform == platform);
        let payload = platforms.next().and_then(|one| one.payload.as_ref()).context("a payload")?;
        Ok(serde_json::from_str(payload.as_str())?)
    };
    assert_eq!(payload(Platform::Ios)?["aps"]["alert"]["body"], "Hallo Ada");
    let android = payload(Platform::Android)?;
    assert_eq!(android["message"]["notification"]["body"], "Hello there, no points");
    let unknown =
        client.notifications().preview_for(&hello, &DeviceId::new("nobody").unwrap()).await;
    assert!(matches!(unknown, Err(notify_client::Error::NotFound { .. })), "{unknown:?}");
    let ios_only = CreateNotification::to_platforms([Platform::Ios], HELLO).personalize();
    let other = client.notifications().preview_for(&ios_only, &DeviceId::new("a2").unwrap()).await;
    let error = other.err().context("refused")?.to_string();
    assert!(error.contains("device_id: is on android, which the notification does not target"));
    let stored = client.notifications().create(&hello).await?.id;
    let record = client.notifications().get(&stored).await?;
    let request: Value = serde_json::from_str(record.request.as_str())?;
    assert_eq!(request["text"], json!(HELLO), "the stored request names no person");
    Ok(())
}
