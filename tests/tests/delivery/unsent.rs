//! Messages that are not sent: held because of credentials, without a provider, too large, or canceled.

use std::time::Duration;

use anyhow::{Context, Result};
use notify_client::Error;
use notify_core::{
    CreateNotification, FailureCount, ListNotifications, NotificationStatus, Platform, ProviderKind,
};
use notify_sandbox::{Provider, Rule, ScriptedResponse};
use notify_tests::{TestServer, WAIT_MAX, crowd, ios, register, until};

use crate::{BOTH, send};

#[tokio::test]
async fn a_retry_held_by_wrong_credentials_continues_once_they_are_fixed() -> Result<()> {
    let server = TestServer::start().await;
    let (client, app) = (server.client(), server.app_id);
    let device = ios(1, &ScriptedResponse::ok());
    let token = device.push_token.clone().context("it has a token")?;
    let script = |answer: ScriptedResponse| Rule::on(Provider::Apns, answer.first(1)).token(&token);
    server.sandbox().add_rule(script(ScriptedResponse::reason("ServiceUnavailable")))?;
    server.sandbox().add_rule(script(ScriptedResponse::reason("InvalidProviderToken")))?;
    register(&client, [device]).await?;
    let notification = CreateNotification::to_platforms([Platform::Ios], "x");
    let id = client.notifications().create(&notification).await?.id;
    let journal = server.sandbox().wait_for(2, WAIT_MAX).await;
    let statuses: Vec<u16> = journal.iter().map(|message| message.status).collect();
    assert_eq!(statuses, [503, 403]);
    client.admin().put_provider(app, ProviderKind::Apns, &server.sandbox().apns_config()).await?;
    let mended = std::time::Instant::now();
    let record = server.completed(&id).await?;
    assert_eq!(record.counts.sent, 1, "{record:?}");
    // The probe of a held channel is due after a minute. New credentials must take effect before.
    assert!(mended.elapsed() < Duration::from_secs(50), "{:?}", mended.elapsed());
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_platform_without_provider_fails_its_devices_at_once() -> Result<()> {
    let server = TestServer::start().await;
    let client = server.client();
    client.admin().delete_provider(server.app_id, ProviderKind::Apns).await?;
    register(&client, crowd(20)).await?;
    let (record, received) = send(&server, &CreateNotification::to_platforms(BOTH, "x")).await?;
    let counts = &record.counts;
    assert_eq!((counts.targeted, counts.sent, counts.failed), (20, 10, 10), "{record:?}");
    let failure = FailureCount {
        platform: Platform::Ios,
        reason: "provider_not_configured".to_owned(),
        count: 10,
    };
    assert_eq!(record.failures, [failure]);
    assert!(received.iter().all(|message| message.provider == Provider::Fcm));
    let platforms: Vec<_> = record
        .by_platform
        .iter()
        .map(|platform| {
            (
                platform.platform,
                platform.counts.targeted,
                platform.counts.sent,
                platform.counts.failed,
            )
        })
        .collect();
    assert_eq!(platforms, [(Platform::Android, 10, 10, 0), (Platform::Ios, 10, 0, 10)]);
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_payload_over_the_limit_is_rejected_before_sending() -> Result<()> {
    let server = TestServer::start().await;
    let client = server.client();
    register(&client, crowd(2)).await?;
    let notification = CreateNotification::to_platforms(BOTH, "ä".repeat(2_500));
    let refused = client.notifications().create(&notification).await;
    let Err(Error::Rejected { status: 400, errors, .. }) = refused else {
        anyhow::bail!("{refused:?}");
    };
    assert_eq!(errors.len(), 2, "both platforms: {errors:?}");
    for (error, platform) in errors.iter().zip(["android", "ios"]) {
        let start = format!("{platform}: the payload for {platform} would be ");
        assert!(error.starts_with(&start), "{error}");
        assert!(error.ends_with(" bytes, 4096 are allowed"), "{error}");
    }
    let listed = client.notifications().list(&ListNotifications::default()).await?;
    assert_eq!(listed.notifications, []);
    // Only the limits of targeted platforms count, and ids decide which platforms are targeted.
    let named = CreateNotification::to_devices(["a0"], [], "x".repeat(3_900));
    let (record, received) = send(&server, &named?).await?;
    assert_eq!((record.counts.sent, received.len()), (1, 1), "{record:?}");
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_canceled_notification_is_never_sent() -> Result<()> {
    let server = TestServer::start().await;
    let client = server.client();
    register(&client, crowd(50)).await?;
    // The credentials are refused, so all messages wait.
    let hold = Rule::on(Provider::Apns, ScriptedResponse::reason("InvalidProviderToken"));
    server.sandbox().add_rule(hold)?;
    let notification = CreateNotification::to_platforms([Platform::Ios], "x");
    let id = client.notifications().create(&notification).await?.id;
    until("the channel is held", async || {
        let counts = client.notifications().get(&id).await?.counts;
        let refused = server.sandbox().counts().received > 0;
        Ok((refused && counts.targeted == 25).then_some(()))
    })
    .await?;
    client.notifications().cancel(&id).await?;
    let record = server.completed(&id).await?;
    assert_eq!(record.status, NotificationStatus::Canceled);
    assert_eq!((record.counts.targeted, record.counts.canceled), (25, 25), "{record:?}");
    let again = client.notifications().cancel(&id).await;
    assert!(matches!(again, Err(Error::Rejected { status: 400, .. })), "{again:?}");
    assert_eq!(server.sandbox().counts().accepted, 0);
    server.stop().await;
    Ok(())
}
