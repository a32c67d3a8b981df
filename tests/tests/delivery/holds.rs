//! What is not sent: held until credentials are mended, without a provider, too large, canceled
//! (B16, B20, B40).

use std::time::Duration;

use anyhow::{Context, Result};
use notify_client::Error;
use notify_core::{
    CreateNotification, FailureCount, NotificationStatus, PageQuery, Platform, ProviderKind,
};
use notify_sandbox::{Provider, Rule, ScriptedResponse};
use notify_tests::{TestServer, WAIT_MAX, crowd, ios, register, start_sandbox, until};
use serde_json::Value;

use crate::{BOTH, send};

#[tokio::test]
async fn wrong_credentials_hold_everything_until_they_are_mended() -> Result<()> {
    let server = TestServer::start().await?;
    let (client, app) = (server.client(), server.app_id);
    // A key that is not the account's, and one that Google does not know.
    let stranger = start_sandbox().await?;
    let mut apns = server.sandbox.apns_config();
    apns["private_key"] = stranger.apns_config()["private_key"].clone();
    let mut fcm = server.sandbox.fcm_config();
    fcm["service_account"]["private_key_id"] = Value::from("withdrawn");
    client.admin().put_provider(app, ProviderKind::Apns, &apns).await?;
    client.admin().put_provider(app, ProviderKind::Fcm, &fcm).await?;
    register(&client, crowd(200)).await?;

    let notification = CreateNotification::to_platforms(BOTH, "x");
    let id = client.notifications().create(&notification).await?.id;
    until("both providers refuse the credentials", async || {
        let answers = server.sandbox.counts().answers;
        let refused = |provider| {
            answers.iter().any(|one| one.provider == provider && (400..=403).contains(&one.status))
        };
        Ok((refused(Provider::Apns) && refused(Provider::Oauth)).then_some(()))
    })
    .await?;
    let record = until("all are found", async || {
        let record = client.notifications().get(&id).await?;
        Ok((record.counts.targeted == 200).then_some(record))
    })
    .await?;
    let counts = &record.counts;
    assert_eq!((counts.pending, counts.failed, counts.unregistered), (200, 0, 0), "{record:?}");
    assert_eq!(record.status, NotificationStatus::Sending);
    assert_eq!(server.sandbox.counts().accepted, 0);

    client.admin().put_provider(app, ProviderKind::Apns, &server.sandbox.apns_config()).await?;
    client.admin().put_provider(app, ProviderKind::Fcm, &server.sandbox.fcm_config()).await?;
    let record = server.completed(&id).await?;
    assert_eq!((record.counts.targeted, record.counts.sent), (200, 200), "{record:?}");
    let counts = server.sandbox.counts();
    assert_eq!((counts.accepted, counts.accepted_tokens), (200, 200), "nobody got it twice");
    stranger.stop().await;
    server.stop().await
}

#[tokio::test]
async fn a_retry_that_meets_wrong_credentials_goes_on_as_soon_as_they_are_mended() -> Result<()> {
    let server = TestServer::start().await?;
    let (client, app) = (server.client(), server.app_id);
    let device = ios(1, &ScriptedResponse::ok());
    let token = device.push_token.clone().context("it has a token")?;
    let script = |answer: ScriptedResponse| Rule::on(Provider::Apns, answer.first(1)).token(&token);
    server.sandbox.add_rule(script(ScriptedResponse::reason("ServiceUnavailable")))?;
    server.sandbox.add_rule(script(ScriptedResponse::reason("InvalidProviderToken")))?;
    register(&client, [device]).await?;
    let notification = CreateNotification::to_platforms([Platform::Ios], "x");
    let id = client.notifications().create(&notification).await?.id;
    let journal = server.sandbox.wait_for(2, WAIT_MAX).await;
    let statuses: Vec<u16> = journal.iter().map(|message| message.status).collect();
    assert_eq!(statuses, [503, 403]);
    client.admin().put_provider(app, ProviderKind::Apns, &server.sandbox.apns_config()).await?;
    let mended = std::time::Instant::now();
    let record = server.completed(&id).await?;
    assert_eq!(record.counts.sent, 1, "{record:?}");
    // The probe of a held channel is due after a minute; mending must not wait for it (B40).
    assert!(mended.elapsed() < Duration::from_secs(20), "{:?}", mended.elapsed());
    server.stop().await
}

#[tokio::test]
async fn a_platform_without_provider_fails_its_devices_at_once() -> Result<()> {
    let server = TestServer::start().await?;
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
        .map(|one| (one.platform, one.counts.targeted, one.counts.sent, one.counts.failed))
        .collect();
    assert_eq!(platforms, [(Platform::Android, 10, 10, 0), (Platform::Ios, 10, 0, 10)]);
    server.stop().await
}

#[tokio::test]
async fn a_payload_over_the_limit_is_refused_before_anything_is_sent() -> Result<()> {
    let server = TestServer::start().await?;
    let client = server.client();
    register(&client, crowd(2)).await?;
    let notification = CreateNotification::to_platforms(BOTH, "ä".repeat(2_500));
    let refused = client.notifications().create(&notification).await;
    let Err(Error::Rejected { status: 400, errors, .. }) = refused else {
        anyhow::bail!("{refused:?}");
    };
    assert_eq!(errors.len(), 2, "both platforms: {errors:?}");
    assert!(errors.iter().all(|error| error.contains("4096")), "{errors:?}");
    let listed = client.notifications().list(&PageQuery::default()).await?;
    assert_eq!(listed.notifications, []);
    // Only the platforms that are targeted count, and ids say which these are (B16).
    let named = CreateNotification::to_devices(["a0"], [], "x".repeat(3_900));
    let (record, received) = send(&server, &named?).await?;
    assert_eq!((record.counts.sent, received.len()), (1, 1), "{record:?}");
    server.stop().await
}

#[tokio::test]
async fn what_is_canceled_before_it_is_sent_is_never_sent() -> Result<()> {
    let server = TestServer::start().await?;
    let client = server.client();
    register(&client, crowd(50)).await?;
    // The credentials are refused, so that everything waits.
    let hold = Rule::on(Provider::Apns, ScriptedResponse::reason("InvalidProviderToken"));
    server.sandbox.add_rule(hold)?;
    let notification = CreateNotification::to_platforms([Platform::Ios], "x");
    let id = client.notifications().create(&notification).await?.id;
    until("the channel is held", async || {
        let counts = client.notifications().get(&id).await?.counts;
        let refused = server.sandbox.counts().received > 0;
        Ok((refused && counts.targeted == 25).then_some(()))
    })
    .await?;
    client.notifications().cancel(&id).await?;
    let record = server.completed(&id).await?;
    assert_eq!(record.status, NotificationStatus::Canceled);
    assert_eq!((record.counts.targeted, record.counts.canceled), (25, 25), "{record:?}");
    let again = client.notifications().cancel(&id).await;
    assert!(matches!(again, Err(Error::Rejected { status: 400, .. })), "{again:?}");
    assert_eq!(server.sandbox.counts().accepted, 0);
    server.stop().await
}
