//! Translations: each device gets the texts of its language, also in a retry and alone.

use anyhow::{Context, Result};
use notify_core::{CreateNotification, DeviceId, Platform, RegisterDevice, StepKind, Translation};
use notify_sandbox::ScriptedResponse;
use notify_tests::{TestServer, android, ios, register};

use crate::send;

fn speaking(device: RegisterDevice, language: &str) -> RegisterDevice {
    RegisterDevice { language: Some(language.to_owned()), ..device }
}

fn greeting(notification: CreateNotification) -> CreateNotification {
    notification
        .title("Shop")
        .translation("de", Translation::text("Hallo").titled("Laden"))
        .translation("pt_BR", Translation::text("Oi"))
        .translation("he", Translation::text("שלום"))
        .translation("zh-Hant", Translation::text("你好"))
}

#[tokio::test]
async fn every_device_gets_the_texts_of_its_language() -> Result<()> {
    let server = TestServer::start().await;
    let ok = ScriptedResponse::ok();
    let devices = [
        speaking(android(1, &ok), "de-AT"),
        speaking(android(2, &ok), "PT-br"),
        speaking(android(3, &ok), "pt"),
        android(4, &ok),
        speaking(ios(5, &ok), "DE"),
        speaking(ios(6, &ok), "fr"),
        speaking(android(7, &ok), "iw_IL"),
        speaking(ios(8, &ok), "zh_TW"),
    ];
    let tokens: Vec<_> = devices.iter().map(|device| device.push_token.clone()).collect();
    register(&server.client(), devices).await?;
    let everybody =
        greeting(CreateNotification::to_platforms([Platform::Android, Platform::Ios], "Hello"));
    let (record, received) = send(&server, &everybody).await?;
    assert_eq!(record.counts.sent, 8);
    let expected = [
        ("Laden", "Hallo"),
        ("Shop", "Oi"),
        ("Shop", "Hello"),
        ("Shop", "Hello"),
        ("Laden", "Hallo"),
        ("Shop", "Hello"),
        ("Shop", "שלום"),
        ("Shop", "你好"),
    ];
    for (token, (title, body)) in tokens.iter().zip(expected) {
        let message =
            received.iter().find(|message| message.token == *token).context("a message")?;
        let alert = match message.payload.get("aps") {
            Some(aps) => &aps["alert"],
            None => &message.payload["message"]["notification"],
        };
        assert_eq!((&alert["title"], &alert["body"]), (&title.into(), &body.into()), "{token:?}");
    }
    let explained =
        server.client().notifications().explain(&record.id, &DeviceId::new("a1").unwrap()).await?;
    let step = explained.steps.iter().find(|step| step.what == StepKind::Language);
    assert_eq!(
        step.context("a step")?.detail,
        "gets the texts of `de`: its language is `de-AT` now"
    );
    Ok(())
}

#[tokio::test]
async fn a_single_send_and_a_retry_are_translated_too() -> Result<()> {
    let server = TestServer::start().await;
    let unavailable = ScriptedResponse::status(503).first(1);
    let devices = [
        speaking(android(1, &ScriptedResponse::ok()), "de"),
        speaking(android(2, &unavailable), "de"),
    ];
    register(&server.client(), devices).await?;
    for id in ["a1", "a2"] {
        let (record, received) =
            send(&server, &greeting(CreateNotification::to_any_devices([id], "Hello")?)).await?;
        assert_eq!(record.counts.sent, 1, "{id}");
        assert!(!received.is_empty());
        for message in received {
            assert_eq!(message.payload["message"]["notification"]["body"], "Hallo", "{id}");
        }
    }
    Ok(())
}

/// The size limits hold for each language, and the preview shows each.
#[tokio::test]
async fn each_language_has_its_own_size() -> Result<()> {
    let server = TestServer::start().await;
    let long = |text: usize| {
        CreateNotification::to_platforms([Platform::Ios, Platform::Android], "Hi")
            .translation("de", Translation::text("x".repeat(text)))
            .translation("fr", Translation::text("Salut"))
    };
    let client = server.client();
    let error = client.notifications().create(&long(5_000)).await.err().context("refused")?;
    let error = error.to_string();
    for platform in ["android", "ios"] {
        assert!(
            error.contains(&format!("translations.de: the payload for {platform} ")),
            "{error}"
        );
    }
    assert!(!error.contains("translations.fr"), "{error}");
    let preview = client.notifications().preview(&long(5_000)).await?;
    for platform in preview.platforms {
        assert!(platform.payload.is_some(), "the own texts fit");
        let [de, fr] = &platform.languages[..] else { anyhow::bail!("{:?}", platform.languages) };
        assert_eq!((de.language.as_str(), fr.language.as_str()), ("de", "fr"));
        assert!(de.payload.is_none() && de.bytes > platform.limit && !de.problems.is_empty());
        let payload = fr.payload.as_ref().context("fits")?.as_str();
        assert!(payload.contains("Salut") && fr.bytes < platform.limit);
    }
    assert!(client.notifications().create(&long(100)).await.is_ok());
    Ok(())
}
