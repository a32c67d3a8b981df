//! What becomes of each answer of a provider: dead addresses, retries, refused credentials,
//! messages that nobody takes (B16, B20, B39, B40).

use std::time::Duration;

use anyhow::{Context, Result};
use notify_client::Error;
use notify_core::{
    CreateNotification, DeviceStatisticsQuery, DisabledReason, FailureCount, NotificationStatus,
    PageQuery, Platform, ProviderKind, RegisterDevice,
};
use notify_server::sandbox::{Answer, Provider, Rule, apns_token, fcm_token};
use notify_tests::{TestServer, WAIT_MAX, android, crowd, ios, register, start_sandbox, until};
use serde_json::Value;

use crate::{BOTH, send};

async fn read(server: &TestServer, device: &RegisterDevice) -> Result<notify_core::Device> {
    let id = notify_core::DeviceId::new(device.device_id.as_str()).map_err(anyhow::Error::msg)?;
    Ok(server.client().devices().get(&id).await?)
}

#[tokio::test]
async fn dead_tokens_disable_their_devices_until_another_token_comes() -> Result<()> {
    let server = TestServer::start().await?;
    let client = server.client();
    let dead = [
        ios(1, &Answer::reason("Unregistered")),
        ios(2, &Answer::reason("ExpiredToken")),
        ios(3, &Answer::reason("BadDeviceToken")),
        android(4, &Answer::reason("UNREGISTERED")),
        android(5, &Answer::reason("INVALID_ARGUMENT")),
    ];
    register(&client, dead.iter().cloned()).await?;
    register(&client, [ios(6, &Answer::ok()), android(7, &Answer::ok())]).await?;

    let notification = CreateNotification::to_platforms(BOTH, "x");
    let (record, received) = send(&server, &notification).await?;
    assert_eq!(received.len(), 7);
    let counts = &record.counts;
    assert_eq!((counts.targeted, counts.sent, counts.unregistered), (7, 2, 5), "{record:?}");
    assert_eq!(record.status, NotificationStatus::Completed);
    for device in &dead {
        let device = read(&server, device).await?;
        let state = (device.enabled, device.disabled_reason);
        assert_eq!(state, (false, Some(DisabledReason::Unregistered)), "{device:?}");
    }
    let statistics = client.statistics().devices(&DeviceStatisticsQuery::default()).await?;
    assert_eq!((statistics.total_enabled, statistics.total_disabled), (2, 5));

    let (record, received) = send(&server, &notification).await?;
    assert_eq!((record.counts.targeted, received.len()), (2, 2), "the dead are left alone");

    // The same token again does not bring a device back, another one does (B22).
    register(&client, [dead[0].clone(), ios(31, &Answer::ok())]).await?;
    assert!(!read(&server, &dead[0]).await?.enabled);
    let revived = RegisterDevice::ios("i1", apns_token(99, &Answer::ok()));
    register(&client, [revived.clone()]).await?;
    let device = read(&server, &revived).await?;
    assert_eq!((device.enabled, device.disabled_reason), (true, None));
    let (record, _) = send(&server, &notification).await?;
    assert_eq!((record.counts.targeted, record.counts.sent), (4, 4));
    server.stop().await
}

#[tokio::test]
async fn transient_refusals_are_tried_again_and_arrive() -> Result<()> {
    let server = TestServer::start().await?;
    let client = server.client();
    let once = |answer: Answer| answer.first(1);
    register(
        &client,
        [
            ios(1, &once(Answer::reason("ServiceUnavailable"))),
            ios(2, &once(Answer::reason("InternalServerError"))),
            ios(3, &Answer::ok()),
            android(4, &once(Answer::reason("UNAVAILABLE").retry_after(1))),
            android(5, &once(Answer::reason("INTERNAL"))),
            android(6, &once(Answer::status(429).retry_after(1))),
            android(7, &Answer::ok()),
        ],
    )
    .await?;
    // Apple's 429 is about one device; a rule, since a token cannot ask for `Retry-After` there.
    let slow_down = Answer::reason("TooManyRequests").retry_after(2).first(1);
    let device = ios(8, &Answer::ok());
    let token = device.push_token.clone().context("it has a token")?;
    server.sandbox.script(Rule::on(Provider::Apns, slow_down).token(&token))?;
    register(&client, [device]).await?;

    let (record, received) = send(&server, &CreateNotification::to_platforms(BOTH, "x")).await?;
    assert_eq!((record.counts.targeted, record.counts.sent), (8, 8), "{record:?}");
    assert_eq!(record.failures, []);
    for device in 1..=8_u64 {
        let id = format!("{device:012}");
        let hex = format!("{device:056x}");
        let of_device = |token: &str| token.contains(&id) || token.starts_with(&hex);
        let statuses: Vec<u16> = received
            .iter()
            .filter(|message| message.token.as_deref().is_some_and(of_device))
            .map(|message| message.status)
            .collect();
        match device {
            3 | 7 => assert_eq!(statuses, [200], "{device}"),
            6 | 8 => assert_eq!(statuses, [429, 200], "{device}"),
            _ => assert!(matches!(statuses[..], [500 | 503, 200]), "{device}: {statuses:?}"),
        }
    }
    // Never earlier than `Retry-After` says (B39).
    let at: Vec<i64> = received
        .iter()
        .filter(|message| message.token.as_deref() == Some(&token))
        .map(|message| message.at_ms)
        .collect();
    assert!(at[1] - at[0] >= 2_000, "{at:?}");
    server.stop().await
}

#[tokio::test]
async fn one_try_is_one_try() -> Result<()> {
    let server = TestServer::start().await?;
    let device = ios(1, &Answer::reason("ServiceUnavailable"));
    register(&server.client(), [device]).await?;
    let notification = CreateNotification::to_platforms([Platform::Ios], "x").ttl_seconds(0);
    let (record, received) = send(&server, &notification).await?;
    assert_eq!((record.counts.targeted, record.counts.expired), (1, 1), "{record:?}");
    assert_eq!(received.len(), 1);
    server.stop().await
}

#[tokio::test]
async fn refused_messages_fail_with_their_reason_and_keep_their_devices() -> Result<()> {
    let server = TestServer::start().await?;
    let refused = [
        ios(1, &Answer::reason("DeviceTokenNotForTopic")),
        ios(2, &Answer::reason("DeviceTokenNotForTopic")),
        ios(3, &Answer::reason("PayloadTooLarge")),
        android(4, &Answer::reason("SENDER_ID_MISMATCH")),
    ];
    register(&server.client(), refused.iter().cloned()).await?;
    register(&server.client(), [android(5, &Answer::reason("BAD_REQUEST"))]).await?;
    let (record, received) = send(&server, &CreateNotification::to_platforms(BOTH, "x")).await?;
    assert_eq!(received.len(), 5);
    assert_eq!((record.counts.targeted, record.counts.failed), (5, 5), "{record:?}");
    let mut failures = record.failures;
    assert_eq!(failures[0].count, 2, "the most frequent first");
    failures.sort_by(|left, right| left.reason.cmp(&right.reason));
    let failure =
        |platform, reason: &str, count| FailureCount { platform, reason: reason.to_owned(), count };
    let expected = [
        failure(Platform::Ios, "DeviceTokenNotForTopic", 2),
        failure(Platform::Android, "INVALID_ARGUMENT", 1),
        failure(Platform::Ios, "PayloadTooLarge", 1),
        failure(Platform::Android, "SENDER_ID_MISMATCH", 1),
    ];
    assert_eq!(failures, expected);
    for device in &refused {
        assert!(read(&server, device).await?.enabled, "{device:?}");
    }
    server.stop().await
}

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
    let device = ios(1, &Answer::ok());
    let token = device.push_token.clone().context("it has a token")?;
    let script = |answer: Answer| Rule::on(Provider::Apns, answer.first(1)).token(&token);
    server.sandbox.script(script(Answer::reason("ServiceUnavailable")))?;
    server.sandbox.script(script(Answer::reason("InvalidProviderToken")))?;
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
    let hold = Rule::on(Provider::Apns, Answer::reason("InvalidProviderToken"));
    server.sandbox.script(hold)?;
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

#[tokio::test]
async fn an_unknown_token_form_is_quoted_whatever_it_holds() -> Result<()> {
    let server = TestServer::start().await?;
    let token = format!("{}\"\\\u{7f}ü", fcm_token(1, &Answer::ok()));
    register(&server.client(), [RegisterDevice::android("odd", token.as_str())]).await?;
    let notification = CreateNotification::to_platforms([Platform::Android], "x");
    let (record, received) = send(&server, &notification).await?;
    assert_eq!(received[0].payload["message"]["token"], Value::from(token));
    // The sandbox, like Google, knows that this is no token of its own.
    assert_eq!(record.counts.unregistered + record.counts.sent, 1, "{record:?}");
    server.stop().await
}
