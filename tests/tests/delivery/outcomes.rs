//! The effect of each provider response: unregistered addresses, retries, rejected credentials and rejected
//! messages.

use anyhow::{Context, Result};
use notify_core::{
    CreateNotification, DeviceStatisticsQuery, DisabledReason, FailureCount, NotificationStatus,
    Platform, RegisterDevice,
};
use notify_sandbox::{Provider, Rule, ScriptedResponse, apns_token, fcm_token};
use notify_tests::{TestServer, android, ios, register};
use serde_json::Value;

use crate::{BOTH, send};

async fn read(server: &TestServer, device: &RegisterDevice) -> Result<notify_core::Device> {
    let id = notify_core::DeviceId::new(device.device_id.as_str()).map_err(anyhow::Error::msg)?;
    Ok(server.client().devices().get(&id).await?)
}

#[tokio::test]
async fn dead_tokens_disable_their_devices_until_a_new_token_is_registered() -> Result<()> {
    let server = TestServer::start().await;
    let client = server.client();
    let dead = [
        ios(1, &ScriptedResponse::reason("Unregistered")),
        ios(2, &ScriptedResponse::reason("ExpiredToken")),
        ios(3, &ScriptedResponse::reason("BadDeviceToken")),
        android(4, &ScriptedResponse::reason("UNREGISTERED")),
        android(5, &ScriptedResponse::reason("INVALID_ARGUMENT")),
    ];
    register(&client, dead.iter().cloned()).await?;
    register(&client, [ios(6, &ScriptedResponse::ok()), android(7, &ScriptedResponse::ok())])
        .await?;

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

    // A registration with the same token does not enable the device. A registration with another token does.
    register(&client, [dead[0].clone(), ios(31, &ScriptedResponse::ok())]).await?;
    assert!(!read(&server, &dead[0]).await?.enabled);
    let revived = RegisterDevice::ios("i1", apns_token(99, &ScriptedResponse::ok()));
    register(&client, [revived.clone()]).await?;
    let device = read(&server, &revived).await?;
    assert_eq!((device.enabled, device.disabled_reason), (true, None));
    let (record, _) = send(&server, &notification).await?;
    assert_eq!((record.counts.targeted, record.counts.sent), (4, 4));
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn transient_failures_are_retried_and_delivered() -> Result<()> {
    let server = TestServer::start().await;
    let client = server.client();
    let once = |answer: ScriptedResponse| answer.first(1);
    register(
        &client,
        [
            ios(1, &once(ScriptedResponse::reason("ServiceUnavailable"))),
            ios(2, &once(ScriptedResponse::reason("InternalServerError"))),
            ios(3, &ScriptedResponse::ok()),
            android(4, &once(ScriptedResponse::reason("UNAVAILABLE").retry_after(1))),
            android(5, &once(ScriptedResponse::reason("INTERNAL"))),
            android(6, &once(ScriptedResponse::status(429).retry_after(1))),
            android(7, &ScriptedResponse::ok()),
        ],
    )
    .await?;
    // Apple's 429 is about one device. The test uses a rule, because an APNs token cannot select
    // `Retry-After`.
    let slow_down = ScriptedResponse::reason("TooManyRequests").retry_after(2).first(1);
    let device = ios(8, &ScriptedResponse::ok());
    let token = device.push_token.clone().context("it has a token")?;
    server.sandbox().add_rule(Rule::on(Provider::Apns, slow_down).token(&token))?;
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
    // The retry must not come before the time of `Retry-After`.
    let at: Vec<i64> = received
        .iter()
        .filter(|message| message.token.as_deref() == Some(&token))
        .map(|message| message.at_ms)
        .collect();
    assert!(at[1] - at[0] >= 2_000, "{at:?}");
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_ttl_of_zero_allows_one_attempt() -> Result<()> {
    let server = TestServer::start().await;
    let device = ios(1, &ScriptedResponse::reason("ServiceUnavailable"));
    register(&server.client(), [device]).await?;
    let notification = CreateNotification::to_platforms([Platform::Ios], "x").ttl_seconds(0);
    let (record, received) = send(&server, &notification).await?;
    assert_eq!((record.counts.targeted, record.counts.expired), (1, 1), "{record:?}");
    assert_eq!(received.len(), 1);
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn rejected_messages_fail_with_their_reason_and_keep_their_devices() -> Result<()> {
    let server = TestServer::start().await;
    let refused = [
        ios(1, &ScriptedResponse::reason("DeviceTokenNotForTopic")),
        ios(2, &ScriptedResponse::reason("DeviceTokenNotForTopic")),
        ios(3, &ScriptedResponse::reason("PayloadTooLarge")),
        android(4, &ScriptedResponse::reason("SENDER_ID_MISMATCH")),
    ];
    register(&server.client(), refused.iter().cloned()).await?;
    register(&server.client(), [android(5, &ScriptedResponse::reason("BAD_REQUEST"))]).await?;
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
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_token_of_any_form_is_sent_unchanged() -> Result<()> {
    let server = TestServer::start().await;
    let token = format!("{}\"\\\u{7f}ü", fcm_token(1, &ScriptedResponse::ok()));
    register(&server.client(), [RegisterDevice::android("odd", token.as_str())]).await?;
    let notification = CreateNotification::to_platforms([Platform::Android], "x");
    let (record, received) = send(&server, &notification).await?;
    assert_eq!(received[0].payload["message"]["token"], Value::from(token));
    // The sandbox, like Google, recognises that the token is not an FCM token.
    assert_eq!(record.counts.unregistered + record.counts.sent, 1, "{record:?}");
    server.stop().await;
    Ok(())
}
