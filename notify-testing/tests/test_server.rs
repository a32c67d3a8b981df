//! The test server delivers on every platform, advances its clock, fails on request, and reports what a test
//! expected in vain.

use std::time::Duration;

use notify_client::Error;
use notify_core::{CreateNotification, DisabledReason, NotificationStatus, Platform};
use notify_sandbox::{Provider, Rule, ScriptedResponse};
use notify_testing::{
    ADVANCE_MAX, Expectation, Failure, Message, TestServer, assert_delivered, assert_not_delivered,
};
use tokio::net::TcpStream;

const ALL: [&str; 5] = ["android-1", "iphone-1", "browser-1", "person-1", "chat-1"];

async fn with_a_device_of_each_platform() -> TestServer {
    let notify = TestServer::start().await;
    let devices = [
        notify.register_android(ALL[0]).await,
        notify.register_ios(ALL[1]).await,
        notify.subscribe_browser(ALL[2]).await,
        notify.subscribe_messenger(ALL[3]).await,
        notify.subscribe_telegram(ALL[4]).await,
    ];
    assert_eq!(devices.map(|id| id.to_string()), ALL);
    notify
}

fn to(devices: &[&str], text: &str) -> CreateNotification {
    CreateNotification::to_any_devices(devices.iter().copied(), text).expect("at least one device")
}

async fn send(
    notify: &TestServer,
    notification: CreateNotification,
) -> notify_core::NotificationId {
    notify.client().notifications().create(&notification).await.expect("it is accepted").id
}

#[tokio::test]
async fn a_message_reaches_a_device_of_each_platform() {
    let notify = with_a_device_of_each_platform().await;
    let shipped =
        to(&ALL, "Your order has shipped").title("Shop").url("https://shop.example.com/7");
    let id = send(&notify, shipped).await;
    for device in ALL {
        let message = assert_delivered!(notify, to: device, text: "Your order has shipped");
        assert_eq!(notify.delivered_to(device).await, std::slice::from_ref(&message), "once");
        let Message { platform, title, url, notification_id, .. } = message;
        let is_chat = matches!(platform, Platform::FbMessenger | Platform::ChatApp);
        let expected = (!is_chat).then(|| ("Shop", "https://shop.example.com/7", id.clone()));
        assert_eq!(title.as_deref(), expected.as_ref().map(|(title, ..)| *title), "{platform}");
        assert_eq!(url.as_deref(), expected.as_ref().map(|(_, url, _)| *url), "{platform}");
        assert_eq!(notification_id, expected.map(|(.., id)| id), "{platform}");
    }
    notify.forget_messages();
    assert_not_delivered!(notify, to: ALL[0]);
    notify.stop().await;
}

#[tokio::test]
async fn the_clock_runs_and_advances_through_what_becomes_due() {
    let notify = TestServer::start().await;
    notify.register_android("phone-1").await;
    let start = notify.now();
    let at_hour = |hour: i64| start.plus_ms(hour * 3_600_000);
    for (hour, text) in [(3, "third"), (1, "first"), (5, "fifth")] {
        send(&notify, to(&["phone-1"], text).send_at(at_hour(hour))).await;
    }
    assert_not_delivered!(notify, to: "phone-1");
    notify.advance(Duration::from_hours(4)).await;
    let delivered = notify.delivered_to("phone-1").await;
    let texts: Vec<_> = delivered.iter().map(|message| message.text.as_deref().unwrap()).collect();
    assert_eq!(texts, ["first", "third"]);
    assert!(delivered[0].at < at_hour(3), "each at its time");
    assert!(notify.now() >= at_hour(4) && notify.now() < at_hour(5));
    notify.stop().await;
}

#[tokio::test]
async fn the_next_messages_to_a_device_fail() {
    let notify = with_a_device_of_each_platform().await;
    for (failure, status, sent_again) in [
        (Failure::Unavailable, 503, &ALL[..]),
        (Failure::Throttled, 429, &ALL[..]),
        (Failure::Disconnected, 0, &ALL[..3]),
    ] {
        for device in ALL {
            notify.fail_next(device, failure, 2).await;
        }
        let text = format!("{failure:?}");
        send(&notify, to(&ALL, &text)).await;
        notify.advance(Duration::from_mins(30)).await;
        for device in ALL {
            let attempts = notify.attempts_to(device).await;
            let statuses: Vec<u16> = attempts.iter().map(|attempt| attempt.status).collect();
            if sent_again.contains(&device) {
                assert_delivered!(notify, to: device, text: text.clone());
                assert_eq!(statuses, [status, status, statuses[2]], "{device}, {failure:?}");
            } else {
                assert_not_delivered!(notify, to: device);
                assert_eq!(statuses, [status; 2], "{device}: it could arrive a third time");
            }
        }
        notify.recover();
        notify.forget_messages();
    }
    notify.stop().await;
}

#[tokio::test]
async fn an_unregistered_device_is_disabled() {
    let notify = with_a_device_of_each_platform().await;
    for device in ALL {
        notify.fail_next(device, Failure::Unregistered, 1).await;
    }
    let id = send(&notify, to(&ALL, "Hello")).await;
    for device in ALL {
        assert_not_delivered!(notify, to: device);
        let device = notify.client().devices().get(&device.parse().unwrap()).await.unwrap();
        assert!(!device.enabled, "{device:?}");
        assert_eq!(device.disabled_reason, Some(DisabledReason::Unregistered), "{device:?}");
    }
    let record = notify.client().notifications().get(&id).await.unwrap();
    assert_eq!((record.status, record.counts.unregistered), (NotificationStatus::Completed, 5));
    notify.stop().await;
}

#[tokio::test]
async fn a_platform_fails_until_it_recovers() {
    let notify = with_a_device_of_each_platform().await;
    notify.fail(Platform::Ios, Failure::Unavailable);
    send(&notify, to(&["iphone-1", "android-1"], "Hello")).await;
    assert_delivered!(notify, to: "android-1", text: "Hello");
    assert_not_delivered!(notify, to: "iphone-1");
    notify.recover();
    notify.advance(Duration::from_mins(10)).await;
    assert_delivered!(notify, to: "iphone-1", text: "Hello");
    notify.stop().await;
}

/// After so many failures in a row a provider counts as unreachable, until the next message to it.
const FAILURES_OF_AN_OUTAGE: usize = 20;

#[tokio::test]
async fn a_provider_that_failed_ends_no_wait_for_the_others() {
    let notify = with_a_device_of_each_platform().await;
    notify.fail(Platform::FbMessenger, Failure::Unavailable);
    for _ in 0..FAILURES_OF_AN_OUTAGE {
        send(&notify, to(&["person-1"], "Hello").ttl_seconds(0)).await;
        notify.settle().await;
    }
    let slow = Rule::on(Provider::Fcm, ScriptedResponse::ok()).delay_ms(1_000);
    notify.sandbox().add_rule(slow).expect("the rule is right");
    let id = send(&notify, to(&["android-1"], "Hello")).await;
    notify.settle().await;
    let record = notify.client().notifications().get(&id).await.unwrap();
    assert_eq!((record.status, record.counts.sent), (NotificationStatus::Completed, 1));
    notify.stop().await;
}

#[tokio::test]
async fn a_mismatch_lists_the_messages_and_explains_the_last_notification() {
    let notify = TestServer::start().await;
    notify.register_android("phone-1").await;
    notify.register_android("phone-2").await;
    let wanted = Expectation { text: Some("Hello".into()), ..Expectation::default() };
    let report = notify.check_delivered("phone-1", &wanted).await.unwrap_err();
    assert_eq!(
        report.to_string(),
        "phone-1 got no message with text \"Hello\"; it got nothing\nno notification was created"
    );
    let id = send(&notify, to(&["phone-1"], "Goodbye").title("Shop")).await;
    let report = notify.check_delivered("phone-1", &wanted).await.unwrap_err().to_string();
    let expected = format!(
        "phone-1 got no message with text \"Hello\"; it got:\n  \"Goodbye\", title \"Shop\"\n\
         the last notification {id}: sent"
    );
    assert!(report.starts_with(&expected), "{report}");
    let report = notify.check_delivered("phone-2", &wanted).await.unwrap_err().to_string();
    let expected = format!("the last notification {id}: not sent: ");
    assert!(report.contains(&expected), "{report}");
    let unwanted = Expectation { title: Some("Shop".into()), ..Expectation::default() };
    let report = notify.check_not_delivered("phone-1", &unwanted).await.unwrap_err();
    assert_eq!(
        report.to_string(),
        "phone-1 must not get a message with title \"Shop\"; it got:\n  \"Goodbye\", title \"Shop\""
    );
    notify.stop().await;
}

#[tokio::test]
async fn servers_of_one_process_do_not_meet() {
    let (first, second) = tokio::join!(TestServer::start(), TestServer::start());
    first.register_android("phone-1").await;
    second.register_android("phone-1").await;
    send(&first, to(&["phone-1"], "Hello")).await;
    assert_delivered!(first, to: "phone-1");
    assert_not_delivered!(second, to: "phone-1");
    let foreign = notify_client::Client::builder(second.url()).api_key(first.api_key()).build();
    let refused = foreign.unwrap().notifications().create(&to(&["phone-1"], "Hello")).await;
    assert!(matches!(refused, Err(Error::Unauthorized { .. })), "{refused:?}");
    drop(first);
    assert_not_delivered!(second, to: "phone-1");
    second.stop().await;
}

#[tokio::test]
async fn a_dropped_server_ends() {
    let notify = TestServer::start().await;
    let address = notify.url().strip_prefix("http://").unwrap().to_owned();
    assert!(TcpStream::connect(&address).await.is_ok());
    drop(notify);
    let ended = async {
        while TcpStream::connect(&address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), ended).await.expect("its port is free again");
}

#[tokio::test]
#[should_panic(expected = "the clock can be advanced by at most 315360000 seconds")]
async fn the_clock_does_not_leave_its_range() {
    let notify = TestServer::start().await;
    notify.advance(ADVANCE_MAX).await;
    notify.advance(Duration::MAX).await;
}

#[tokio::test]
#[should_panic(expected = "times: must be at least 1")]
async fn a_failure_of_no_message_is_refused() {
    let notify = TestServer::start().await;
    notify.register_android("phone-1").await;
    notify.fail_next("phone-1", Failure::Unavailable, 0).await;
}
