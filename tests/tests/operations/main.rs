//! Operating a server: provider tests, resuming a held channel, the doctor, the JSON log, and restoring a backup.

mod restoring;

use anyhow::{Context, Result};
use http::Method;
use notify_client::Client;
use notify_core::{CreateNotification, Platform, ProviderKind, RegisterDevice};
use notify_sandbox::{Provider, Rule, SandboxConfig, ScriptedResponse};
use notify_server::clock::{Clock, SystemClock};
use notify_tests::{
    Launch, Notify, TestServer, configure_providers, crowd, ios, register, start_sandbox,
    start_sandbox_with, until,
};
use serde_json::{Value, json};

const GOOD: &str = "the credentials are accepted";

/// Puts a configuration that differs in one field, and tests it.
async fn check_with(
    server: &TestServer,
    provider: ProviderKind,
    pointer: &str,
    value: Value,
) -> Result<(bool, String)> {
    let mut config = match provider {
        ProviderKind::Apns => server.sandbox().apns_config(),
        _ => server.sandbox().fcm_config(),
    };
    if let Some(field) = config.pointer_mut(pointer) {
        *field = value;
    } else {
        config[pointer.trim_start_matches('/')] = value;
    }
    let client = server.client();
    client.admin().put_provider(server.app_id, provider, &config).await?;
    let checked = client.admin().test_provider(server.app_id, provider).await?;
    Ok((checked.ok, checked.detail))
}

#[tokio::test]
async fn a_provider_test_returns_the_providers_response_and_sends_nothing() -> Result<()> {
    let server = TestServer::start().await;
    let (client, app) = (server.client(), server.app_id);
    register(&client, crowd(4)).await?;
    for provider in [ProviderKind::Apns, ProviderKind::Fcm] {
        let checked = client.admin().test_provider(app, provider).await?;
        assert!(checked.ok && checked.detail.contains(GOOD), "{checked:?}");
    }
    let other_sandbox = start_sandbox().await?;
    let other_key = other_sandbox.apns_config()["private_key"].clone();
    let (apns, fcm) = (ProviderKind::Apns, ProviderKind::Fcm);
    let rows = [
        (apns, "/private_key", other_key, "InvalidProviderToken"),
        (apns, "/topic", json!("com.example.other"), "TopicDisallowed"),
        (apns, "/endpoint", json!("http://127.0.0.1:1"), "connect_failed"),
        (fcm, "/service_account/private_key_id", json!("withdrawn"), "invalid_grant"),
        (fcm, "/service_account/project_id", json!("another"), "NOT_FOUND"),
        (fcm, "/endpoint", json!("http://127.0.0.1:1"), "connect_failed"),
    ];
    for (provider, pointer, value, expected) in rows {
        let (ok, detail) = check_with(&server, provider, pointer, value).await?;
        assert!(!ok && detail.contains(expected), "{provider} {pointer}: {detail}");
    }
    for received in server.sandbox().received() {
        let token = received.token.unwrap_or_default();
        let is_test_token = token.bytes().all(|digit| digit == b'0') || token == "notify-check";
        assert!(is_test_token, "a real device got something");
    }
    other_sandbox.stop().await;
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_held_channel_is_reported_and_can_be_resumed() -> Result<()> {
    let server = TestServer::start().await;
    let client = server.client();
    register(&client, [ios(1, &ScriptedResponse::ok())]).await?;
    server.sandbox().add_rule(Rule::on(
        Provider::Apns,
        ScriptedResponse::reason("InvalidProviderToken").first(2),
    ))?;
    let hello = CreateNotification::to_platforms([Platform::Ios], "x");
    let id = client.notifications().create(&hello).await?.id;
    let caller = server.caller();
    let has_line = async |line: &str| {
        let metrics = caller.send(&Method::GET, "/metrics", "").await?.text;
        Ok(metrics.lines().any(|found| found == line).then_some(()))
    };
    let held = "notify_channel_paused{channel=\"apns\",why=\"credentials\"}";
    until("the channel is held", async || has_line(&format!("{held} 1")).await).await?;
    // Without the resume, the next probe would come after a minute.
    client.admin().resume_provider(server.app_id, ProviderKind::Apns).await?;
    let record = server.completed(&id).await?;
    assert_eq!(record.counts.sent, 1, "{record:?}");
    until("it is open", async || has_line(&format!("{held} 0")).await).await?;
    for line in [
        "notify_deliveries_total{channel=\"apns\",outcome=\"sent\",reason=\"\"} 1",
        "notify_delivery_attempts_total{channel=\"apns\"} 3",
    ] {
        assert!(has_line(line).await?.is_some(), "{line}");
    }
    server.stop().await;
    Ok(())
}

/// Good credentials deliver nothing while a channel is stopped or held, while a platform has no provider, or
/// while the application is suspended. The doctor must report which of these applies, and fail.
#[tokio::test]
async fn the_doctor_reports_what_delays_deliveries() -> Result<()> {
    let server = TestServer::start().await;
    let client = server.client();
    let notify = Notify::new(server.origin(), server.api_key(), server.admin_key())?;
    let apps = notify.json(&["apps", "list"]).await?;
    let name = apps["apps"][0]["name"].as_str().context("a name")?.to_owned();
    let dead = ScriptedResponse::reason("BadDeviceToken");
    register(&client, (1..=60).map(|nth| ios(nth, &dead))).await?;
    register(&client, [RegisterDevice::android("phone", "t")]).await?;
    client.admin().delete_provider(server.app_id, ProviderKind::Fcm).await?;
    let hello = CreateNotification::to_platforms([Platform::Ios], "x");
    client.notifications().create(&hello).await?;
    let channel = until("the guard stops", async || {
        let provider = notify.json(&["providers", "get", "apns"]).await?;
        Ok((provider["channel"]["state"] == "stopped").then(|| provider["channel"].clone()))
    })
    .await?;
    assert_eq!(channel, json!({"state": "stopped", "reason": null, "until": null}));
    let tested = notify.json(&["providers", "test", "apns"]).await?;
    assert_eq!((&tested["ok"], &tested["channel"]), (&json!(true), &channel));

    let ill = async || -> Result<Vec<String>> {
        let output = notify.run(&["doctor", "-o", "json"]).await?;
        assert_eq!(output.status, Some(1), "{output:?}");
        let found: Value = serde_json::from_str(&output.stdout)?;
        let checks = found["checks"].as_array().context("checks")?;
        let ill = checks.iter().filter(|check| check["ok"] == false && check["check"] != "disk");
        Ok(ill
            .map(|check| format!("{} {}: {}", check["check"], check["about"], check["hint"]))
            .map(|line| line.replace('"', ""))
            .collect())
    };
    let problems = ill().await?;
    let stopped = format!(
        "channel {name} apns: check that topic, key and environment, or project, belong to the app \
         of these devices; then `notify providers resume apns --app '{name}'`"
    );
    let missing = format!("channel {name} fcm: `notify providers put fcm FILE --app '{name}'`");
    assert!(problems.contains(&stopped) && problems.contains(&missing), "{problems:?}");

    notify.json(&["providers", "resume", "apns"]).await?;
    let suspend = ["apps", "update", &server.app_id.to_string(), "--status", "suspended"];
    notify.json(&suspend).await?;
    let problems = ill().await?;
    assert!(
        problems[0].starts_with(&format!("status {name}: `notify apps update")),
        "{problems:?}"
    );
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn the_doctor_finds_problems_and_gives_hints() -> Result<()> {
    let server = TestServer::start().await;
    let notify = Notify::new(server.origin(), server.api_key(), server.admin_key())?;
    let topic = server.sandbox().apns_config()["topic"].as_str().context("a topic")?.to_owned();
    let device = |id: &str, identifier: &str| {
        let mut device = RegisterDevice::ios(id, "ab".repeat(32));
        device.push_token = Some(format!("{:0>64}", hex(id)));
        device.store_identifier = Some(identifier.to_owned());
        device
    };
    register(&server.client(), [device("a", &topic)]).await?;
    let well = notify.run(&["doctor", "-o", "json"]).await?;
    let found: Value = serde_json::from_str(&well.stdout).context(well.stdout.clone())?;
    let checks = found["checks"].as_array().context("checks")?;
    let is = |check: &Value, name: &str| check["check"] == name;
    for name in ["server", "clock", "work", "storage", "disk", "credentials", "topic"] {
        assert!(checks.iter().any(|check| is(check, name)), "{name}: {found}");
    }
    let ill: Vec<&Value> = checks.iter().filter(|check| check["ok"] == false).collect();
    // The machine of the test may have little free space, which is not a fault of the server.
    let is_well = ill.iter().all(|check| is(check, "disk"));
    assert!(is_well && well.status == Some(i32::from(!ill.is_empty())), "{well:?}");

    register(&server.client(), [device("b", "com.example.other")]).await?;
    let other_sandbox = start_sandbox().await?;
    let mut apns = server.sandbox().apns_config();
    apns["private_key"] = other_sandbox.apns_config()["private_key"].clone();
    server.client().admin().put_provider(server.app_id, ProviderKind::Apns, &apns).await?;
    let sick = notify.run(&["doctor", "-o", "json"]).await?;
    assert_eq!(sick.status, Some(1), "{sick:?}");
    let found: Value = serde_json::from_str(&sick.stdout)?;
    for (name, expected) in
        [("credentials", "InvalidProviderToken"), ("topic", "com.example.other")]
    {
        let mut ill = found["checks"].as_array().context("checks")?.iter();
        let ill = ill.find(|check| is(check, name) && check["ok"] == false).context(name)?;
        assert!(ill["detail"].as_str().is_some_and(|detail| detail.contains(expected)), "{ill}");
        assert!(ill["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{ill}");
    }
    let table = notify.run(&["doctor", "-o", "table"]).await?;
    assert!(table.stdout.contains("InvalidProviderToken"), "{table:?}");

    let locked_out = notify.clone().with("NOTIFY_ADMIN_KEY", "na_wrong").run(&["doctor"]).await?;
    assert_eq!(locked_out.status, Some(1));
    assert!(locked_out.stdout.contains("admin-key create"), "{locked_out:?}");
    other_sandbox.stop().await;
    server.stop().await;
    let unreachable = notify.run(&["--retries", "0", "doctor"]).await?;
    assert_eq!(unreachable.status, Some(1));
    assert!(unreachable.stdout.contains("NOTIFY_URL"), "{unreachable:?}");
    Ok(())
}

fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn the_json_log_is_one_object_per_line_with_the_request_id() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (data, log) = (folder.path().join("data"), folder.path().join("log"));
    let launch = Launch::on(&data).log("debug", &log).argument("--log-format").argument("json");
    let server = launch.start().await?;
    let caller = server.caller();
    // Percent-encoded, quoted and multi-line input must not become a separate line of the log.
    for path in ["/v1/devices/a%0AERROR%20forged", "/v1/devices?x=%0D%0A{", "/v1/%00"] {
        caller.send(&Method::GET, path, "").await?;
    }
    let client = Client::builder(&server.origin)
        .api_key(server.api_key.clone().context("a key")?)
        .build()?;
    client.devices().list(&notify_core::ListDevices::default()).await?;
    assert_eq!(server.terminate().await?.code(), Some(0));
    let logged = std::fs::read_to_string(&log)?;
    let mut answered = 0;
    for line in logged.lines() {
        let event: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
        assert!(event["timestamp"].is_string() && event["level"].is_string(), "{line}");
        answered += usize::from(event["fields"]["request.id"].is_string());
    }
    assert!(answered >= 4 && !logged.contains("ERROR forged"), "{logged}");
    Ok(())
}

/// If the server's clock is wrong, the doctor must not advise to get other keys. The command runs on the same
/// machine, so it finds no difference itself.
#[tokio::test]
async fn the_doctor_tells_how_far_the_clock_is_from_the_providers() -> Result<()> {
    const AHEAD_MS: i64 = 2 * 3_600_000;
    let server = TestServer::start().await;
    let machine = SystemClock::start();
    let behind = notify_sandbox::Clock::from_fn(move || machine.now().plus_ms(-AHEAD_MS).as_ms());
    let sandbox =
        start_sandbox_with(SandboxConfig { clock: behind, ..SandboxConfig::default() }).await?;
    configure_providers(&server.client(), &sandbox).await?;
    let notify = Notify::new(server.origin(), server.api_key(), server.admin_key())?;
    let doctor = async || -> Result<Vec<Value>> {
        let output = notify.run(&["doctor", "-o", "json"]).await?;
        assert_eq!(output.status, Some(1), "{output:?}");
        let found: Value = serde_json::from_str(&output.stdout)?;
        Ok(found["checks"].as_array().context("checks")?.clone())
    };
    let difference = "this server's clock is 120 minutes ahead of the provider's";
    let is_told = |check: &&Value| {
        check["detail"].as_str().is_some_and(|detail| detail.ends_with(difference))
            && check["hint"].as_str().is_some_and(|hint| hint.starts_with("set the clock"))
    };
    let checks = doctor().await?;
    let refused = checks.iter().filter(|check| check["check"] == "credentials").filter(is_told);
    assert_eq!(refused.count(), 2, "APNs and FCM: {checks:?}");
    // The server knows the time of the providers from their checks.
    let checks = doctor().await?;
    let mut clocks = checks.iter().filter(|check| check["check"] == "provider clock");
    assert!(clocks.next().as_ref().is_some_and(is_told), "{checks:?}");
    let diagnostics = server.admin().get("/admin/v1/diagnostics").await.ok();
    let ahead_ms = diagnostics["clock_ahead_ms"].as_i64().context("compared")?;
    assert!((AHEAD_MS..AHEAD_MS + 60_000).contains(&ahead_ms), "{diagnostics}");
    server.stop().await;
    Ok(())
}
