//! The reports that explain why a phone got no message: deliveries by device, previews and explanations, with
//! a real server and the sandbox.

use anyhow::{Context, Result};
use notify_client::Error;
use notify_core::{
    CreateNotification, DeliveryOutcome, DeviceId, ListDeliveries, NotificationId, Platform,
    ProviderKind, RegisterDevice, ReportNotification, SetTags, Tag,
};
use notify_sandbox::{Provider, Rule, ScriptedResponse};
use notify_tests::{TestServer, android, ios, register, tomorrow, until};
use serde_json::{Value, json};

use crate::BOTH;

/// Registers devices one after another, so that their order is known.
async fn in_order(server: &TestServer, devices: &[RegisterDevice]) -> Result<()> {
    for device in devices {
        register(&server.client(), [device.clone()]).await?;
    }
    Ok(())
}

/// The outcome of a device and the names of the steps. A step with a time has an `@`.
async fn explained(server: &TestServer, id: &NotificationId, device: &str) -> Result<String> {
    let device = DeviceId::new(device).map_err(anyhow::Error::msg)?;
    let explanation = server.client().notifications().explain(id, &device).await?;
    assert_eq!(explanation.device_id, device);
    let words = explanation.steps.iter().map(|step| {
        let proved = if step.at.is_some() { "@" } else { "" };
        format!(" {}{proved}", step.what.as_str())
    });
    Ok(format!("{}:{}", explanation.outcome.as_str(), words.collect::<String>()))
}

/// Sends a notification and waits until this many devices have an outcome and the rest waits for a retry.
async fn sent(
    server: &TestServer,
    notification: &CreateNotification,
    settled: u64,
) -> Result<NotificationId> {
    let client = server.client();
    let id = client.notifications().create(notification).await?.id;
    until("they are settled", async || {
        let counts = client.notifications().get(&id).await?.counts;
        Ok((counts.targeted - counts.pending == settled && counts.targeted > 0).then_some(()))
    })
    .await?;
    Ok(id)
}

#[tokio::test]
async fn deliveries_list_the_outcome_of_each_device() -> Result<()> {
    let server = TestServer::start_with(|config| config.keep_message_ids = true).await;
    let client = server.client();
    let later = ScriptedResponse::reason("UNAVAILABLE").retry_after(600);
    let devices = [
        ios(1, &ScriptedResponse::ok()),
        android(2, &later),
        ios(3, &ScriptedResponse::reason("BadDeviceToken")),
        android(4, &ScriptedResponse::reason("SENDER_ID_MISMATCH")),
        ios(5, &ScriptedResponse::reason("ServiceUnavailable").first(1)),
        RegisterDevice { push_disabled: Some(true), ..android(6, &ScriptedResponse::ok()) },
        android(7, &ScriptedResponse::ok()),
    ];
    in_order(&server, &devices).await?;
    let id = sent(&server, &CreateNotification::to_platforms(BOTH, "x"), 5).await?;
    let everything = ListDeliveries::default();
    let mut list =
        serde_json::to_value(client.notifications().deliveries(&id, &everything).await?)?;
    for row in list["deliveries"].as_array_mut().context("rows")? {
        let is_pending = row["outcome"] == "pending";
        assert_eq!(
            (row["at"].is_i64(), row["next_attempt_at"].is_i64()),
            (!is_pending, is_pending)
        );
        // The sandbox's message ids differ between runs.
        assert_eq!(row["provider_message_id"].is_string(), row["outcome"] == "sent", "{row}");
        let row = row.as_object_mut().context("a row")?;
        for varying in ["at", "next_attempt_at", "provider_message_id"] {
            row.remove(varying).context("it is there")?;
        }
    }
    let row = |id: &str, platform: &str, outcome: &str, reason: Option<&str>, attempts: u32| {
        json!({"device_id": id, "platform": platform, "outcome": outcome, "reason": reason,
            "attempts": attempts})
    };
    let expected = json!({"deliveries": [
        row("a2", "android", "pending", Some("UNAVAILABLE"), 1),
        row("a4", "android", "failed", Some("SENDER_ID_MISMATCH"), 1),
        row("a7", "android", "sent", None, 1),
        row("i1", "ios", "sent", None, 1),
        row("i3", "ios", "unregistered", Some("BadDeviceToken"), 1),
        row("i5", "ios", "sent", None, 2),
    ], "next_cursor": null});
    assert_eq!(list, expected);

    for outcome in DeliveryOutcome::ALL {
        let query =
            ListDeliveries { limit: Some(1), outcome: Some(outcome), ..ListDeliveries::default() };
        let mut pages = client.notifications().all_deliveries(&id, &query);
        let mut found = Vec::new();
        while let Some(delivery) = pages.next().await {
            found.push(json!(delivery?.device_id));
        }
        let rows = expected["deliveries"].as_array().context("rows")?.iter();
        let of_outcome: Vec<Value> = rows
            .filter(|row| row["outcome"] == outcome.as_str())
            .map(|row| row["device_id"].clone())
            .collect();
        assert_eq!(found, of_outcome, "{outcome}");
    }
    let ghost = NotificationId::new("ghost").map_err(anyhow::Error::msg)?;
    let unknown = client.notifications().deliveries(&ghost, &everything).await;
    assert!(matches!(unknown, Err(Error::NotFound { .. })), "{unknown:?}");
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn message_ids_are_kept_only_when_configured() -> Result<()> {
    let server = TestServer::start().await;
    register(&server.client(), [ios(1, &ScriptedResponse::ok())]).await?;
    let id = sent(&server, &CreateNotification::to_platforms([Platform::Ios], "x"), 1).await?;
    let list = server.client().notifications().deliveries(&id, &ListDeliveries::default()).await?;
    let kept: Vec<_> = list.deliveries.iter().map(|row| &row.provider_message_id).collect();
    assert_eq!(kept, [&None]);
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn every_delivery_outcome_is_explained() -> Result<()> {
    let server = TestServer::start().await;
    let client = server.client();
    let devices = [
        ios(1, &ScriptedResponse::ok()),
        ios(2, &ScriptedResponse::reason("Unregistered")),
        ios(3, &ScriptedResponse::reason("DeviceTokenNotForTopic")),
        android(4, &ScriptedResponse::reason("UNAVAILABLE").retry_after(600)),
        RegisterDevice { push_disabled: Some(true), ..ios(5, &ScriptedResponse::ok()) },
        RegisterDevice { push_token: None, ..ios(6, &ScriptedResponse::ok()) },
        ios(7, &ScriptedResponse::reason("ServiceUnavailable").first(1)),
        ios(8, &ScriptedResponse::ok()),
    ];
    in_order(&server, &devices).await?;
    let everybody = sent(&server, &CreateNotification::to_platforms(BOTH, "x"), 5).await?;
    register(&client, [ios(9, &ScriptedResponse::ok())]).await?;
    let proved = "accepted@ started@ targeted@ enabled@ has_address@ attempted@";
    let after_start = "accepted@ started@ targeted@";
    let rows = [
        ("i1", format!("sent: {proved} sent@")),
        ("i2", format!("unregistered: {proved} unregistered@ address_dead@")),
        ("i3", format!("failed: {proved} failed@")),
        ("a4", format!("pending: {proved} next_attempt@")),
        ("i5", format!("not_targeted: {after_start} disabled has_address passed_over")),
        ("i6", format!("not_targeted: {after_start} enabled no_address passed_over")),
        ("i7", format!("sent: {proved} sent@")),
        ("i9", "not_targeted: accepted@ started@ targeted registered_later@".to_owned()),
    ];
    for (device, expected) in &rows {
        assert_eq!(&explained(&server, &everybody, device).await?, expected, "{device}");
    }

    // An erased device and all its records are deleted, so it is as unknown as a device that never existed.
    let erased = DeviceId::new("i8").map_err(anyhow::Error::msg)?;
    client.devices().delete(&erased).await?;
    for (id, device) in [(&everybody, "i8"), (&everybody, "ghost")] {
        let device = DeviceId::new(device).map_err(anyhow::Error::msg)?;
        let unknown = client.notifications().explain(id, &device).await;
        assert!(matches!(unknown, Err(Error::NotFound { .. })), "{unknown:?}");
    }
    let list = client.notifications().deliveries(&everybody, &ListDeliveries::default()).await?;
    let nameless = list.deliveries.iter().filter(|row| row.device_id.is_none()).count();
    assert_eq!(nameless, 1, "what it got is still counted: {list:?}");
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn every_reason_a_device_is_not_targeted_is_explained() -> Result<()> {
    let server = TestServer::start().await;
    let client = server.client();
    let devices = [
        ios(1, &ScriptedResponse::ok()),
        android(4, &ScriptedResponse::ok()),
        RegisterDevice { push_disabled: Some(true), ..ios(5, &ScriptedResponse::ok()) },
        ios(8, &ScriptedResponse::ok()),
    ];
    in_order(&server, &devices).await?;
    // One device has the tag, and another has the tag with the value false.
    for (device, value) in [("i1", true), ("i8", false)] {
        let tags = SetTags { tags: vec![Tag::new("vip", value)] };
        let device = DeviceId::new(device).map_err(anyhow::Error::msg)?;
        client.devices().set_tags(&device, &tags).await?;
    }
    let mut tagged = CreateNotification::to_platforms([Platform::Ios], "x");
    tagged.content.tags = Some(vec!["vip".into()]);
    let tagged = sent(&server, &tagged, 1).await?;
    let named = sent(&server, &CreateNotification::to_devices([], ["i1"], "x")?, 1).await?;
    let report = ReportNotification {
        id: "own".into(),
        text: Some("x".into()),
        platforms: Some(vec!["ios".into()]),
        ..ReportNotification::default()
    };
    let reported = client.notifications().report(&report).await?.id;
    let at = CreateNotification::to_platforms([Platform::Ios], "x").send_at(tomorrow());
    let scheduled = client.notifications().create(&at).await?.id;
    let canceled = client.notifications().create(&at).await?.id;
    client.notifications().cancel(&canceled).await?;
    let rows = [
        (
            &tagged,
            "i1",
            "sent: accepted@ started@ targeted@ has_tag@ enabled@ has_address@ attempted@ sent@",
        ),
        (
            &tagged,
            "i8",
            "not_targeted: accepted@ started@ targeted@ lacks_tag enabled has_address passed_over",
        ),
        (&tagged, "a4", "not_targeted: accepted@ started@ not_targeted"),
        (&named, "i8", "not_targeted: accepted@ started@ not_targeted@"),
        (&reported, "i1", "reported: reported@"),
        (&scheduled, "i1", "pending: accepted@ scheduled@ targeted enabled has_address"),
        (&scheduled, "i5", "not_targeted: accepted@ scheduled@ targeted disabled has_address"),
        (&canceled, "i1", "canceled: accepted@ targeted enabled has_address cancel_requested@"),
    ];
    for (id, device, expected) in rows {
        assert_eq!(explained(&server, id, device).await?, expected, "{device}");
    }
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_held_delivery_is_explained() -> Result<()> {
    let server = TestServer::start().await;
    let (client, app) = (server.client(), server.app_id);
    let devices = [ios(1, &ScriptedResponse::ok()), android(2, &ScriptedResponse::ok())];
    in_order(&server, &devices).await?;
    server
        .sandbox()
        .add_rule(Rule::on(Provider::Apns, ScriptedResponse::reason("InvalidProviderToken")))?;
    client.admin().delete_provider(app, ProviderKind::Fcm).await?;
    // The first messages find out that the credentials are wrong. Later messages are held from the start.
    let first = CreateNotification::to_platforms([Platform::Ios], "x");
    let first = client.notifications().create(&first).await?.id;
    until("the channel is held", async || {
        Ok(explained(&server, &first, "i1").await?.contains("credentials_refused").then_some(()))
    })
    .await?;
    let id = sent(&server, &CreateNotification::to_platforms(BOTH, "x"), 1).await?;
    let after_start = "accepted@ started@ targeted@";
    let expected =
        format!("failed: {after_start} enabled@ has_address@ provider_not_configured@ failed@");
    assert_eq!(explained(&server, &id, "a2").await?, expected);
    let held = format!("pending: {after_start} enabled has_address waiting credentials_refused");
    until("the channel is held", async || {
        Ok((explained(&server, &id, "i1").await? == held).then_some(()))
    })
    .await?;
    let device = DeviceId::new("i1").map_err(anyhow::Error::msg)?;
    let steps = client.notifications().explain(&id, &device).await?.steps;
    let last = steps.last().context("a step")?;
    assert!(last.detail.contains("InvalidProviderToken"), "the provider's words: {last:?}");
    let preview = CreateNotification::to_platforms(BOTH, "x");
    let problems: Vec<String> = client
        .notifications()
        .preview(&preview)
        .await?
        .platforms
        .into_iter()
        .map(|platform| platform.problems.first().cloned().unwrap_or_default())
        .collect();
    assert!(problems[0].starts_with("fcm is not configured"), "{problems:?}");
    assert!(problems[1].contains("refuses the server's credentials"), "{problems:?}");

    client.notifications().cancel(&id).await?;
    server.completed(&id).await?;
    let expected =
        format!("canceled: {after_start} enabled@ has_address@ cancel_requested@ canceled@");
    assert_eq!(explained(&server, &id, "i1").await?, expected);
    let once = CreateNotification::to_platforms([Platform::Ios], "x").ttl_seconds(0);
    let once = sent(&server, &once, 1).await?;
    let expected =
        format!("expired: {after_start} enabled@ has_address@ credentials_refused@ expired@");
    assert_eq!(explained(&server, &once, "i1").await?, expected);
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_preview_shows_the_payload_and_sends_nothing() -> Result<()> {
    let server = TestServer::start().await;
    let client = server.client();
    let devices = [
        ios(1, &ScriptedResponse::ok()),
        android(2, &ScriptedResponse::ok()),
        android(3, &ScriptedResponse::ok()),
        RegisterDevice { push_disabled: Some(true), ..android(4, &ScriptedResponse::ok()) },
        RegisterDevice { push_token: None, ..android(5, &ScriptedResponse::ok()) },
    ];
    in_order(&server, &devices).await?;
    let mut notification = CreateNotification::to_platforms(BOTH, "Dinner is ready");
    notification.content.url = Some("app://kitchen".into());
    let preview = client.notifications().preview(&notification).await?;
    assert_eq!(server.sandbox().received().len(), 0);
    assert_eq!(client.notifications().list(&Default::default()).await?.notifications, []);
    let devices: Vec<_> =
        preview.platforms.iter().map(|row| (row.platform, row.devices, row.limit)).collect();
    assert_eq!(devices, [(Platform::Android, 2, 4_096), (Platform::Ios, 1, 4_096)]);

    let id = sent(&server, &notification, 3).await?;
    let received = server.sandbox().received();
    for platform in preview.platforms {
        let provider = match platform.platform {
            Platform::Ios => Provider::Apns,
            Platform::Android | Platform::Web | Platform::FbMessenger | Platform::ChatApp => {
                Provider::Fcm
            }
        };
        let sent =
            received.iter().find(|message| message.provider == provider).context("received")?;
        let mut shown = serde_json::to_value(platform.payload.context("a payload")?)?;
        // Except for ids and tokens, the preview must be identical to the message that arrived.
        let payload = sent.payload.to_string();
        if provider == Provider::Fcm {
            shown["message"]["token"] = sent.payload["message"]["token"].clone();
            shown["message"]["data"]["notification_id"] = json!(id);
            shown["message"]["android"]["notification"]["tag"] = json!(id);
        } else {
            shown["notification_id"] = json!(id);
            assert_eq!(platform.bytes, payload.len() as u64, "{payload}");
        }
        assert_eq!(shown, sent.payload);
        for (name, value) in &platform.headers {
            let is_own = ["apns-id", "apns-collapse-id", "apns-expiration"].contains(&&**name);
            let came = sent.headers.get(name).with_context(|| name.clone())?;
            assert!(is_own || came == value, "{name}: {came} instead of {value}");
        }
    }

    let mut named = CreateNotification::to_devices(["a2", "a4", "ghost"], [], "x".repeat(5_000))?;
    named.content.tags = Some(vec!["vip".into()]);
    let preview = client.notifications().preview(&named).await?.platforms.remove(0);
    assert_eq!((preview.devices, preview.payload), (0, None));
    assert_eq!(
        preview.problems,
        [
            "no device with the tag `vip` would be reached now",
            "1 of the ids name no device of the platform",
            "2 of the named devices are disabled, or have no address, or lack the tag `vip`",
            "the payload for android would be 5106 bytes, 4096 are allowed",
        ]
    );
    let campaign = "01890a5d-ac96-774b-bcce-b302099a8057";
    named.content.campaign_id = Some(campaign.into());
    let refused = client.notifications().preview(&named).await;
    assert!(matches!(refused, Err(Error::Rejected { status: 400, .. })), "{refused:?}");
    server.stop().await;
    Ok(())
}
