//! The complete bodies and headers that the providers receive.

use anyhow::{Context, Result};
use notify_core::json::JsonObject;
use notify_core::{
    AndroidSettings, CampaignLayout, CreateAnswer, CreateNotification, CreatePoll, FeatureData,
    IosSettings, Priority, RegisterDevice, Subscribe, Template, TemplateButton,
};
use notify_sandbox::{Environment, Provider, ReceivedRequest, ScriptedResponse};
use notify_server::payload::apns::delivery_id;
use notify_tests::{TestServer, android, ios, register};
use serde_json::{Value, json};

use crate::{BOTH, send};

/// The default time to live, in seconds.
const TTL_DEFAULT: i64 = 2_419_200;

/// The expected messages of both providers.
struct Expected {
    fcm: Value,
    apns: Value,
    priority: &'static str,
    ttl: i64,
    collapse: Option<&'static str>,
}

impl Expected {
    fn new(fcm: Value, apns: Value) -> Self {
        Self { fcm, apns, priority: "10", ttl: TTL_DEFAULT, collapse: None }
    }
}

async fn server_with_two() -> Result<TestServer> {
    let server = TestServer::start().await;
    let devices = [android(1, &ScriptedResponse::ok()), ios(1, &ScriptedResponse::ok())];
    register(&server.client(), devices).await?;
    Ok(server)
}

fn object(value: &Value) -> Result<JsonObject> {
    Ok(JsonObject::from_serialize(value)?)
}

/// The only message of a provider.
fn only(received: &[ReceivedRequest], provider: Provider) -> Result<&ReceivedRequest> {
    let mut of = received.iter().filter(|message| message.provider == provider);
    let message = of.next().with_context(|| format!("nothing for {}", provider.as_str()))?;
    assert!(of.next().is_none(), "{} received more than one", provider.as_str());
    Ok(message)
}

/// Sends to one device on each platform and compares the messages with the expected ones. In an expected
/// message, `ID` stands for the id of the notification and `POLL` for the URL of its poll.
async fn arrives(
    server: &TestServer,
    notification: &CreateNotification,
    expected: Expected,
) -> Result<()> {
    let (record, received) = send(server, notification).await?;
    let id = record.id.as_str();
    assert_eq!((record.counts.targeted, record.counts.sent), (2, 2), "{record:?}");
    let poll = match server.client().polls().get(&record.id).await {
        Ok(poll) => poll.url,
        Err(_) => "no poll".to_owned(),
    };
    let filled = |value: &Value| -> Result<Value> {
        let text = value.to_string().replace("\"ID\"", &format!("\"{id}\""));
        Ok(serde_json::from_str(&text.replace("\"POLL\"", &format!("\"{poll}\"")))?)
    };

    let fcm = only(&received, Provider::Fcm)?;
    let mut body = filled(&expected.fcm)?;
    body["token"] = json!(fcm.token);
    assert_eq!(fcm.payload, json!({"message": body}));
    assert_eq!((fcm.status, fcm.environment), (200, None));
    let headers = &fcm.headers;
    let expected_headers = json!({"authorization": "Bearer ***", "content-type": FCM_TYPE});
    assert_eq!(json!(headers), expected_headers);

    let apns = only(&received, Provider::Apns)?;
    assert_eq!(apns.payload, filled(&expected.apns)?);
    assert_eq!((apns.status, apns.environment), (200, Some(Environment::Production)));
    let mut headers = apns.headers.clone();
    let expires = record.created_at.as_seconds() + expected.ttl;
    let given: i64 = headers.remove("apns-expiration").context("apns-expiration")?.parse()?;
    if expected.ttl == 0 {
        assert_eq!(given, 0, "one try only");
    } else {
        // The time to live starts when the notification is due. This one is due when it is accepted.
        assert!((expires..=expires + 1).contains(&given), "{given}, not {expires}");
    }
    let token = apns.token.as_deref().context("a token")?;
    let delivery = delivery_id(&id.parse()?, token).to_string();
    let expected_headers = json!({
        "authorization": "bearer ***",
        "apns-topic": "com.example.notify",
        "apns-push-type": "alert",
        "apns-priority": expected.priority,
        "apns-collapse-id": expected.collapse.unwrap_or(id),
        "apns-id": delivery,
    });
    assert_eq!(json!(headers), expected_headers);
    assert_eq!(apns.message_id.as_deref(), Some(delivery.as_str()));
    Ok(())
}

/// The parts that all bodies to FCM have.
const FCM_TYPE: &str = "application/json";

fn android_options(tag: &str) -> Value {
    json!({"priority": "HIGH", "ttl": "2419200s", "notification": {"tag": tag}})
}

#[tokio::test]
async fn a_text_arrives_under_the_name_of_the_application() -> Result<()> {
    let server = server_with_two().await?;
    let fcm = json!({
        "notification": {"title": "default", "body": "Grüße"},
        "data": {"notification_id": "ID"},
        "android": android_options("ID"),
    });
    let apns = json!({
        "aps": {"alert": {"title": "default", "body": "Grüße"}, "sound": "default"},
        "notification_id": "ID",
    });
    let notification = CreateNotification::to_platforms(BOTH, "Grüße");
    arrives(&server, &notification, Expected::new(fcm, apns)).await?;
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn every_setting_arrives_in_its_place() -> Result<()> {
    let server = server_with_two().await?;
    let template = Template::new("spring", CampaignLayout::ContentWithTwo)
        .feature(1, FeatureData::ActionButton(TemplateButton::open("https://a.example")));
    let campaign = server.client().campaigns().create(&template).await?.id.to_string();
    let (url, image) = ("shop://order/7", "https://i.example/7.png");
    let extra = json!({"order": {"id": 7, "lines": [1, 2.50]}});
    let mut notification = CreateNotification::to_platforms(BOTH, "Your order")
        .url(url)
        .image_url(image)
        .campaign(campaign.as_str())
        .extra("extra", object(&extra)?);
    notification.content.android_settings =
        Some(AndroidSettings { title: Some("Shop".into()), sound: Some("ding".into()) });
    notification.content.ios_settings =
        Some(IosSettings { badge: Some(3), sound: "ding.caf".into() });
    let mut options = android_options("ID");
    options["notification"]["sound"] = json!("ding");
    let fcm = json!({
        "notification": {"title": "Shop", "body": "Your order", "image": image},
        "data": {
            "notification_id": "ID", "url": url, "image_url": image, "campaign_id": campaign,
            "extra": extra.to_string(),
        },
        "android": options,
    });
    let apns = json!({
        "aps": {
            "alert": {"title": "default", "body": "Your order"},
            "badge": 3, "sound": "ding.caf", "mutable-content": 1,
        },
        "notification_id": "ID", "url": url, "image_url": image, "campaign_id": campaign,
        "extra": extra,
    });
    arrives(&server, &notification, Expected::new(fcm, apns)).await?;
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn raw_payloads_arrive_as_they_were_given_and_override_everything() -> Result<()> {
    let server = server_with_two().await?;
    let raw_android = json!({"a": "text", "n": 1.5, "o": {"x": [null]}, "b": true});
    let raw_ios = json!({"aps": {"alert": "raw", "badge": 0, "sound": "s"}, "own": [1]});
    let mut notification = CreateNotification::to_platforms(BOTH, "unseen")
        .url("https://unseen.example")
        .image_url("https://unseen.example/1.png");
    notification.content.android_json = Some(object(&raw_android)?);
    notification.content.ios_json = Some(object(&raw_ios)?);
    let fcm = json!({
        "data": {"a": "text", "n": "1.5", "o": "{\"x\":[null]}", "b": "true"},
        "android": {"priority": "HIGH", "ttl": "2419200s"},
    });
    arrives(&server, &notification, Expected::new(fcm, raw_ios)).await?;
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_poll_arrives_as_its_question_with_its_page() -> Result<()> {
    let server = server_with_two().await?;
    let answer = |text: &str| CreateAnswer {
        text: Some(text.into()),
        image_url: Some(format!("https://i.example/{text}.png")),
    };
    let poll = CreatePoll {
        text: "Tea or coffee?".into(),
        layout_id: "poll_text_wide_image".into(),
        image_url: Some("https://i.example/cup.png".into()),
        answers: vec![answer("tea"), answer("coffee")],
    };
    let fcm = json!({
        "notification": {
            "title": "default", "body": "Tea or coffee?", "image": "https://i.example/cup.png",
        },
        "data": {
            "notification_id": "ID", "url": "POLL", "image_url": "https://i.example/cup.png",
            "poll_id": "ID",
        },
        "android": android_options("ID"),
    });
    let apns = json!({
        "aps": {
            "alert": {"title": "default", "body": "Tea or coffee?"},
            "sound": "default", "mutable-content": 1,
        },
        "notification_id": "ID", "url": "POLL", "image_url": "https://i.example/cup.png",
        "poll_id": "ID",
    });
    let notification = CreateNotification::poll(BOTH, poll);
    arrives(&server, &notification, Expected::new(fcm, apns)).await?;
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn priority_ttl_and_collapse_key_arrive_in_each_providers_form() -> Result<()> {
    let server = server_with_two().await?;
    let notification = CreateNotification::to_platforms(BOTH, "x")
        .priority(Priority::Normal)
        .ttl_seconds(60)
        .collapse_key("score!");
    let body = |priority: &str, ttl: &str, tag: &str| {
        json!({
            "notification": {"title": "default", "body": "x"},
            "data": {"notification_id": "ID"},
            "android": {"priority": priority, "ttl": ttl, "notification": {"tag": tag}},
        })
    };
    let apns = json!({
        "aps": {"alert": {"title": "default", "body": "x"}, "sound": "default"},
        "notification_id": "ID",
    });
    let expected = Expected {
        priority: "5",
        ttl: 60,
        collapse: Some("score!"),
        ..Expected::new(body("NORMAL", "60s", "score!"), apns.clone())
    };
    arrives(&server, &notification, expected).await?;
    let one_try = CreateNotification::to_platforms(BOTH, "x").ttl_seconds(0);
    let expected = Expected { ttl: 0, ..Expected::new(body("HIGH", "0s", "ID"), apns) };
    arrives(&server, &one_try, expected).await?;
    server.stop().await;
    Ok(())
}

/// A silent notification reaches phones alone, also those of a user, and shows nothing there.
#[tokio::test]
async fn a_silent_notification_wakes_the_apps_of_a_user() -> Result<()> {
    let server = TestServer::start().await;
    let client = server.client();
    let ok = ScriptedResponse::ok();
    let of_ada = |device: RegisterDevice| RegisterDevice { user_id: Some("ada".into()), ..device };
    register(&client, [of_ada(android(1, &ok)), of_ada(ios(1, &ok))]).await?;
    let chat = Subscribe {
        device_id: Some("chat-77".into()),
        user_id: Some("ada".into()),
        ..Subscribe::chat("77")
    };
    client.subscriptions().create(&chat).await?;
    let changed = object(&json!({"inbox": 7}))?;
    let notification = CreateNotification::to_users(["ada"], "")?
        .silent()
        .url("shop://inbox")
        .extra("changed", changed);
    let (record, received) = send(&server, &notification).await?;
    let counts = &record.counts;
    assert_eq!((counts.targeted, counts.sent, counts.excluded), (2, 2, 0));
    let id = record.id.as_str();
    let fcm = only(&received, Provider::Fcm)?;
    assert!(fcm.is_silent());
    assert_eq!(
        fcm.payload,
        json!({"message": {
            "token": fcm.token,
            "data": {"notification_id": id, "url": "shop://inbox", "changed": "{\"inbox\":7}"},
            "android": {"priority": "HIGH", "ttl": "2419200s"},
        }})
    );
    let apns = only(&received, Provider::Apns)?;
    assert!(apns.is_silent());
    assert_eq!(
        apns.payload,
        json!({"aps": {"content-available": 1}, "notification_id": id, "url": "shop://inbox",
            "changed": {"inbox": 7}})
    );
    assert_eq!(
        (apns.headers["apns-push-type"].as_str(), apns.headers["apns-priority"].as_str()),
        ("background", "5")
    );
    let named = CreateNotification::to_any_devices(["chat-77"], "")?.silent().url("shop://inbox");
    for answer in [
        client.notifications().create(&named).await.map(drop),
        client.notifications().preview(&named).await.map(drop),
    ] {
        let error = answer.err().context("refused")?.to_string();
        assert!(
            error.contains("some devices are on chatapp, but a silent notification"),
            "{error}"
        );
    }
    Ok(())
}
