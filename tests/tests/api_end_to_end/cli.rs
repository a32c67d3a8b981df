//! The `notify` command against a real server: the main commands, exit statuses, output formats,
//! and imports with invalid rows.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use notify_sandbox::{ScriptedResponse, apns_token, fcm_token};
use notify_tests::{Notify, TestServer, WAIT_MAX, until};
use serde_json::{Value, json};

async fn server_and_command() -> Result<(TestServer, Notify)> {
    let server = TestServer::start().await;
    let notify = Notify::new(server.origin(), server.api_key(), server.admin_key())?;
    Ok((server, notify))
}

#[tokio::test]
async fn a_device_is_registered_sent_to_and_read_back() -> Result<()> {
    let (server, notify) = server_and_command().await?;
    let token = fcm_token(1, &ScriptedResponse::ok());
    let register =
        ["devices", "register", "phone", "--platform", "android", "--push-token", &token];
    assert_eq!(notify.json(&register).await?, json!({"success": true}));
    notify.json(&["devices", "tag", "phone", "vip"]).await?;
    let device = notify.json(&["devices", "get", "phone"]).await?;
    assert_eq!((&device["push_token"], &device["enabled"]), (&json!(token), &json!(true)));

    let send = ["send", "--text", "Dinner!", "--platform", "android", "--tag", "vip"];
    let send = [&send[..], &["--url", "app://dinner", "--idempotency-key", "k"]].concat();
    let id = notify.json(&send).await?["id"].clone();
    assert_eq!(notify.json(&send).await?["id"], id, "once, however often it runs");
    let id = id.as_str().context("an id")?;
    let record = until("it is completed", async || {
        let record = notify.json(&["notifications", "get", id]).await?;
        Ok((record["status"] == "completed").then_some(record))
    })
    .await?;
    assert_eq!((&record["counts"]["sent"], &record["counts"]["targeted"]), (&json!(1), &json!(1)));
    let received = server.sandbox().received();
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].payload["message"]["data"]["url"], "app://dinner");
    let statistics = notify.json(&["statistics", "devices"]).await?;
    assert_eq!((&statistics["total"], &statistics["total_enabled"]), (&json!(1), &json!(1)));
    let events =
        ["events", "report", "--type", "opened", "--notification", id, "--device", "phone"];
    assert_eq!(notify.json(&events).await?, json!({"accepted": 1, "ignored": []}));
    notify.json(&["devices", "untag", "phone", "vip"]).await?;
    notify.json(&["devices", "delete", "phone", "--yes"]).await?;
    assert_eq!(notify.json(&["devices", "list"]).await?["devices"], json!([]));
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_notification_is_previewed_watched_and_explained() -> Result<()> {
    let (server, notify) = server_and_command().await?;
    for (device, token) in [
        ("phone", fcm_token(1, &ScriptedResponse::ok())),
        ("tablet", fcm_token(2, &ScriptedResponse::reason("SENDER_ID_MISMATCH"))),
    ] {
        let register =
            ["devices", "register", device, "--platform", "android", "--push-token", &token];
        notify.json(&register).await?;
    }
    let send = ["send", "--text", "Dinner!", "--platform", "android"];
    let preview = notify.json(&[&send[..], &["--preview"]].concat()).await?;
    let android = &preview["platforms"][0];
    assert_eq!((&android["devices"], &android["problems"]), (&json!(2), &json!([])));
    assert_eq!(notify.json(&["notifications", "list"]).await?["notifications"], json!([]));

    let id = notify.json(&send).await?["id"].clone();
    let id = id.as_str().context("an id")?;
    let watched = notify.run(&["watch", id, "--every", "0.05"]).await?;
    assert_eq!(watched.status, Some(1), "one failed: {watched:?}");
    let record: Value = serde_json::from_str(&watched.stdout)?;
    assert_eq!((&record["counts"]["sent"], &record["counts"]["failed"]), (&json!(1), &json!(1)));
    let list = ["notifications", "deliveries", id, "--outcome", "failed"];
    let failed = notify.json(&list).await?;
    assert_eq!(failed["deliveries"][0]["device_id"], "tablet");
    let explanation = notify.json(&["explain", id, "tablet"]).await?;
    let last = explanation["steps"].as_array().and_then(|steps| steps.last()).context("steps")?;
    assert_eq!((&explanation["outcome"], &last["what"]), (&json!("failed"), &json!("failed")));
    assert_eq!(last["detail"], "failed: SENDER_ID_MISMATCH");
    for device in ["phone", "tablet"] {
        notify.json(&["devices", "login", device, "ada"]).await?;
    }
    let of_user = notify.json(&["explain", id, "--user", "ada"]).await?;
    let outcomes = |place: usize| (&of_user[place]["device_id"], &of_user[place]["outcome"]);
    assert_eq!(outcomes(0), (&json!("phone"), &json!("sent")));
    assert_eq!(outcomes(1), (&json!("tablet"), &json!("failed")));
    for (id, device, message) in [
        (id, "ghost", "no device has the id `ghost`"),
        ("ghost", "phone", "no notification has the id `ghost`"),
    ] {
        let unknown = notify.run(&["explain", id, device]).await?;
        assert!(unknown.status == Some(5) && unknown.stderr.contains(message), "{unknown:?}");
    }

    let named = ["send", "--text", "Dinner!", "--android-device", "phone"];
    let id = notify.json(&named).await?["id"].clone();
    let watched = notify.run(&["watch", id.as_str().context("an id")?]).await?;
    assert_eq!(watched.status, Some(0), "{watched:?}");
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn an_administrator_creates_an_application_with_a_key_and_a_provider() -> Result<()> {
    let (server, notify) = server_and_command().await?;
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("fcm.json");
    std::fs::write(&config, server.sandbox().fcm_config().to_string())?;
    let config = config.to_str().context("a path")?;
    let app = notify.json(&["apps", "create", "Shop", "--language", "de"]).await?;
    let app = app["id"].as_str().context("an id")?;
    let key = notify.json(&["keys", "create", "--app", app, "--name", "backend"]).await?;
    notify.json(&["providers", "put", "fcm", config, "--app", app]).await?;
    for (provider, config) in [
        ("messenger", server.sandbox().messenger_config()),
        ("telegram", server.sandbox().telegram_config()),
    ] {
        let file = folder.path().join(provider);
        std::fs::write(&file, config.to_string())?;
        let file = file.to_str().context("a path")?;
        notify.json(&["providers", "put", provider, file, "--app", app]).await?;
    }
    let listed = notify.json(&["providers", "list", "--app", app]).await?;
    let listed: Vec<_> = listed["providers"]
        .as_array()
        .context("a list")?
        .iter()
        .map(|one| &one["provider"])
        .collect();
    assert_eq!(listed, ["fcm", "messenger", "telegram"]);
    let shop = notify.clone().with("NOTIFY_API_KEY", key["api_key"].as_str().context("a key")?);
    assert_eq!(shop.json(&["devices", "list"]).await?["devices"], json!([]));
    for platform in ["fb-messenger", "chatapp"] {
        let subscribe = ["subscriptions", "create", "--platform", platform];
        shop.json(&[&subscribe[..], &["--recipient-id", "4711"]].concat()).await?;
    }
    let send = ["send", "--text", "Dinner!", "--platform", "fb-messenger", "--platform", "chatapp"];
    let id = shop.json(&send).await?["id"].clone();
    let id = id.as_str().context("an id")?;
    until("both got it", async || {
        let record = shop.json(&["notifications", "get", id]).await?;
        Ok((record["counts"]["sent"] == 2).then_some(()))
    })
    .await?;
    notify.json(&["apps", "update", app, "--on-crash", "skip"]).await?;
    assert_eq!(notify.json(&["apps", "get", app]).await?["on_crash"], "skip");
    notify.json(&["apps", "update", app, "--status", "suspended"]).await?;
    assert_eq!(shop.run(&["devices", "list"]).await?.status, Some(4));
    notify.json(&["apps", "delete", app, "--yes"]).await?;
    assert_eq!(notify.run(&["apps", "get", app]).await?.status, Some(5));
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn browsers_are_configured_subscribed_and_sent_to() -> Result<()> {
    let (server, notify) = server_and_command().await?;
    let folder = tempfile::tempdir()?;
    let file = |name: &str, text: String| -> Result<String> {
        let path = folder.path().join(name);
        std::fs::write(&path, text)?;
        Ok(path.to_str().context("a path")?.to_owned())
    };
    notify.json(&["providers", "delete", "webpush", "--yes"]).await?;
    let ca_certificate = server.sandbox().ca_certificate();
    let config = json!({"subject": "mailto:push@shop.com", "ca_certificate": ca_certificate});
    let config = file("webpush.json", config.to_string())?;
    notify.json(&["providers", "put", "webpush", &config]).await?;
    let shown = notify.json(&["providers", "get", "webpush"]).await?;
    let key = shown["config"]["vapid_public_key"].as_str().context("a public key")?;

    let made = server.sandbox().subscribe(Some(key), &ScriptedResponse::ok())?;
    let subscription = json!({"endpoint": made.endpoint, "expirationTime": null,
        "keys": {"p256dh": made.p256dh, "auth": made.auth}});
    let subscription = file("subscription.json", subscription.to_string())?;
    let create = ["subscriptions", "create", "--platform", "web", "--subscription", &subscription];
    let id = notify.json(&create).await?["id"].clone();
    let device = notify.json(&["devices", "get", id.as_str().context("an id")?]).await?;
    assert_eq!(device["platform"], "web");
    let sent = notify.json(&["send", "--text", "Dinner!", "--platform", "web"]).await?;
    let received = server.sandbox().wait_for(1, WAIT_MAX).await;
    assert_eq!(received.len(), 1);
    assert_eq!(
        (&received[0].payload["body"], &received[0].payload["tag"]),
        (&json!("Dinner!"), &sent["id"])
    );

    let placeholder = file("wrong.json", json!({"subject": "mailto:push@localhost"}).to_string())?;
    let output = notify.run(&["providers", "put", "webpush", &placeholder]).await?;
    assert_eq!(output.status, Some(3), "{output:?}");
    assert!(output.stderr.contains("subject: must name a real domain"), "{output:?}");
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn exit_statuses_classify_errors_which_are_printed_one_per_line() -> Result<()> {
    let (server, notify) = server_and_command().await?;
    let unauthorized = notify.clone().with("NOTIFY_API_KEY", "nk_unknown");
    // Without a device, `send` warns.
    let token = fcm_token(1, &ScriptedResponse::ok());
    let register =
        ["devices", "register", "phone", "--platform", "android", "--push-token", &token];
    notify.json(&register).await?;
    // The port was free a moment ago, so connections to it are refused.
    let free = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let nowhere = notify.clone().with("NOTIFY_URL", &format!("http://{free}"));
    let send: &[&str] = &["send", "--text", "x", "--platform", "android"];
    let cases: [(&Notify, &[&str], i32); 7] = [
        (&notify, send, 0),
        (&notify, &["send", "--text", "x"], 2),
        (&notify, &["send", "--text", "x", "--platform", "ios", "--url", "no url"], 3),
        (&unauthorized, send, 4),
        (&notify, &["devices", "get", "ghost"], 5),
        (&notify, &["notifications", "get", "ghost"], 5),
        (&nowhere, &["devices", "list"], 6),
    ];
    for (notify, arguments, status) in cases {
        let output = notify.run(arguments).await?;
        assert_eq!(output.status, Some(status), "{arguments:?}: {output:?}");
        assert_eq!(output.stdout.is_empty(), status != 0, "{output:?}");
        assert_eq!(output.stderr.is_empty(), status == 0, "{output:?}");
        assert!(!output.stderr.contains("panicked"), "{output:?}");
    }
    let two = ["send", "--text", "x", "--platform", "ios", "--url", "no url", "--collapse-key", ""];
    let output = notify.run(&two).await?;
    assert_eq!((output.status, output.stderr.lines().count()), (Some(3), 1), "{output:?}");
    let long = "k".repeat(65);
    let two =
        ["send", "--text", "x", "--platform", "ios", "--url", "no url", "--collapse-key", &long];
    let output = notify.run(&two).await?;
    assert_eq!((output.status, output.stderr.lines().count()), (Some(3), 2), "{output:?}");
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn results_are_printed_as_table_json_and_csv() -> Result<()> {
    let (server, notify) = server_and_command().await?;
    for (id, platform) in [("a", "android"), ("b", "ios"), ("=c", "ios")] {
        notify.json(&["devices", "register", id, "--platform", platform]).await?;
    }
    let listed = |form: &'static str| {
        let notify = notify.clone();
        async move { notify.run(&["-o", form, "devices", "list", "--all"]).await }
    };
    let json: Value = serde_json::from_str(&listed("json").await?.stdout)?;
    assert_eq!(json["devices"].as_array().map(Vec::len), Some(3), "{json}");
    assert_eq!(json["next_cursor"], Value::Null);
    let csv = listed("csv").await?.stdout;
    let mut lines = csv.lines();
    assert!(
        lines.next().is_some_and(|head| head.starts_with(r#""device_id","platform","sdk_type","#))
    );
    assert!(
        lines.next().is_some_and(|row| row.starts_with(r#""a","android","android_push","#)),
        "{csv}"
    );
    assert!(csv.contains("\n\"'=c\",\"ios\","), "a cell is no formula: {csv}");
    let table = listed("table").await?.stdout;
    assert!(table.contains("device_id") && table.contains("android"), "{table}");
    assert_eq!(table.lines().filter(|line| line.contains("ios")).count(), 2, "{table}");
    server.stop().await;
    Ok(())
}

const ROWS: usize = 2_000;

/// The rows of the files that are refused, and the reason for each.
fn is_refused(row: usize) -> bool {
    row % 500 == 7
}

fn csv_file() -> String {
    let mut file = "device_id,platform,push_token,timezone\n".to_owned();
    for row in 0..ROWS {
        let zone = if is_refused(row) { "GMT+99:00" } else { "GMT+01:00" };
        let token = apns_token(row as u64, &ScriptedResponse::ok());
        writeln!(file, "csv-{row},ios,{token},{zone}").expect("a text takes everything");
    }
    file
}

fn ndjson_file() -> String {
    let mut file = String::new();
    for row in 0..ROWS {
        let mut device = json!({"device_id": format!("json-{row}"), "platform": "android",
            "sdk_type": "android_push", "push_token": fcm_token(row as u64, &ScriptedResponse::ok())});
        if is_refused(row) {
            device["sdk_type"] = json!("ios_push");
        }
        writeln!(file, "{device}").expect("a text takes everything");
    }
    file
}

#[tokio::test]
async fn two_thousand_rows_are_imported_and_rejected_ones_reported() -> Result<()> {
    let (server, notify) = server_and_command().await?;
    let folder = tempfile::tempdir()?;
    for (name, report, content, error, wrong, right) in [
        ("devices.csv", "csv", csv_file(), "timezone: ", "GMT+99:00", "GMT+09:00"),
        (
            "devices.ndjson",
            "ndjson",
            ndjson_file(),
            "sdk_type: must be android_push for platform android",
            "ios_push",
            "android_push",
        ),
    ] {
        let file = folder.path().join(name);
        std::fs::write(&file, content)?;
        let output = notify.run(&["devices", "import", file.to_str().context("a path")?]).await?;
        assert_eq!(output.status, Some(3), "some rows were refused: {output:?}");
        let refused = folder.path().join(format!("{name}.refused.{report}"));
        let summary: Value = serde_json::from_str(&output.stdout)?;
        let expected = json!({"rows": 2_000, "registered": 1_996, "refused": 4,
            "refused_file": refused, "duplicates": 0, "left_out": 0, "devices": 1_996,
            "replaced": 0, "without_address": 0, "left_out_reasons": {}});
        assert_eq!(summary, expected);
        let report = std::fs::read_to_string(&refused)?;
        let rows: Vec<&str> = report.lines().filter(|line| line.contains(error)).collect();
        assert_eq!(rows.len(), 4, "{report}");
        assert!(rows[0].contains("-7\",") && rows[3].contains("-1507\","), "in order: {report}");
        let state = folder.path().join(format!("{name}.notify-import"));
        assert!(!state.exists(), "there is nothing left to go on with");
        // The corrected rows are imported without further changes.
        std::fs::write(&refused, report.replace(wrong, right))?;
        let refused = refused.to_str().context("a path")?;
        let summary = notify.json(&["devices", "import", refused]).await?;
        assert_eq!((&summary["registered"], &summary["refused"]), (&json!(4), &json!(0)));
    }
    let statistics = notify.json(&["statistics", "devices"]).await?;
    assert_eq!(statistics["total_enabled"], 2 * 2_000);
    // A second import of the same rows changes nothing.
    let mended = csv_file().replace("GMT+99:00", "GMT+09:00");
    let file = folder.path().join("devices.csv");
    std::fs::write(&file, mended)?;
    let again = notify.json(&["devices", "import", file.to_str().context("a path")?]).await?;
    assert_eq!((&again["registered"], &again["refused"]), (&json!(2_000), &json!(0)));
    assert_eq!(again["refused_file"], Value::Null);
    let report = std::fs::read_to_string(folder.path().join("devices.csv.refused.csv"))?;
    assert!(report.contains("GMT+09:00"), "what was corrected there stays: {report}");
    let statistics = notify.json(&["statistics", "devices"]).await?;
    assert_eq!(statistics["total"], 2 * 2_000);
    server.stop().await;
    Ok(())
}

/// Writes a file into a folder. Returns its path.
fn write_file(folder: &std::path::Path, name: &str, text: &str) -> Result<String> {
    let path = folder.join(name);
    std::fs::write(&path, text)?;
    Ok(path.to_str().context("a path")?.to_owned())
}

/// The attributes of all users by id.
async fn users_of(notify: &Notify) -> Result<Value> {
    let listed = notify.json(&["users", "list", "--all"]).await?;
    let users = listed["users"].as_array().context("a list")?.iter();
    let users =
        users.map(|user| Some((user["user_id"].as_str()?.to_owned(), user["attributes"].clone())));
    Ok(users.map(|user| user.context("an id")).collect::<Result<serde_json::Map<_, _>>>()?.into())
}

#[tokio::test]
async fn users_are_imported_corrected_and_moved_to_another_application() -> Result<()> {
    let (server, notify) = server_and_command().await?;
    let folder = tempfile::tempdir()?;
    let file = |name: &str, text: &str| write_file(folder.path(), name, text);
    notify.json(&["users", "set", "ada", "--attribute", "old=1", "--attribute", "kept=x"]).await?;
    notify.json(&["devices", "register", "phone", "--platform", "ios", "--user", "ada"]).await?;
    let users = file(
        "users.csv",
        "user_id,attribute:plan,attribute:seats,attribute:zip,attributes\n\
         ada,pro,3,\"\"\"10115\"\"\",\"{\"\"old\"\":null}\"\n\
         '=bob/7,free,-0.5,,\n\
         ..,wrong id,,,\n\
         eve,,,\"\"\"1\",\n\
         carol,,,,\n\
         ada,,4,,\n",
    )?;
    let output = notify.run(&["users", "import", &users]).await?;
    assert_eq!(output.status, Some(3), "some rows were refused: {output:?}");
    let refused = folder.path().join("users.csv.refused.csv");
    let summary: Value = serde_json::from_str(&output.stdout)?;
    let expected = json!({"rows": 6, "imported": 4, "refused": 2, "refused_file": refused});
    assert_eq!(summary, expected);
    assert!(!folder.path().join("users.csv.notify-users").exists());

    let report = std::fs::read_to_string(&refused)?;
    let refused = refused.to_str().context("a path")?;
    std::fs::write(refused, report.replace("\"..\"", "\"dan\"").replace("\"\"\"1\"", "\"1\""))?;
    let summary = notify.json(&["users", "import", refused]).await?;
    assert_eq!((&summary["imported"], &summary["refused"]), (&json!(2), &json!(0)));
    let expected = json!({
        "ada": {"kept": "x", "plan": "pro", "seats": 4, "zip": "10115"},
        "=bob/7": {"plan": "free", "seats": -0.5},
        "carol": {},
        "dan": {"plan": "wrong id"},
        "eve": {"zip": 1},
    });
    assert_eq!(users_of(&notify).await?, expected);

    for format in ["json", "csv"] {
        notify.json(&["apps", "create", format]).await?;
        let key = notify.json(&["keys", "create", "--app", format]).await?;
        let other =
            notify.clone().with("NOTIFY_API_KEY", key["api_key"].as_str().context("a key")?);
        let listed = notify.run(&["users", "list", "--all", "-o", format]).await?;
        assert_eq!(listed.status, Some(0), "{listed:?}");
        let listed = file(&format!("listed.{format}"), &listed.stdout)?;
        let summary = other.json(&["users", "import", &listed]).await?;
        let counts = json!({"rows": 5, "imported": 5, "refused": 0, "refused_file": null});
        assert_eq!(summary, counts, "{format}");
        assert_eq!(users_of(&other).await?, expected, "{format}");
        assert_eq!(other.json(&["devices", "list"]).await?["devices"], json!([]), "{format}");
    }
    server.stop().await;
    Ok(())
}

/// All devices by id, without their registration times.
async fn devices_of(notify: &Notify) -> Result<Vec<Value>> {
    let listed = notify.json(&["devices", "list", "--all"]).await?;
    let mut devices = listed["devices"].as_array().context("a list")?.clone();
    for device in &mut devices {
        let fields = device.as_object_mut().context("a device")?;
        fields.remove("created_at");
        fields.remove("updated_at");
    }
    devices.sort_by_key(|device| device["device_id"].to_string());
    Ok(devices)
}

#[tokio::test]
async fn an_application_is_exported_and_imported_into_another() -> Result<()> {
    let (server, notify) = server_and_command().await?;
    let folder = tempfile::tempdir()?;
    let file = |name: &str, text: &str| write_file(folder.path(), name, text);
    let made = server.sandbox().subscribe(None, &ScriptedResponse::ok())?;
    let subscription = json!({"endpoint": made.endpoint,
        "keys": {"p256dh": made.p256dh, "auth": made.auth}});
    let rows = [
        json!({"device_id": "=a", "platform": "android", "sdk_type": "android_push",
            "push_token": fcm_token(1, &ScriptedResponse::ok()), "push_disabled": true, "android_id": "1",
            "ad_id": "2", "imei": "3", "sdk_version": "4", "app_version": "5", "os_version": "6",
            "store_identifier": "7", "timezone": "GMT-03:30", "country": "BR",
            "utc_offset": "-210", "language": "pt-BR", "device_description": "a \"b\",\r\nc;\td",
            "tags": [{"name": "a,b;c", "type": "bool", "value": true},
                {"name": "[old]", "type": "bool", "value": false}]}),
        json!({"device_id": "ios", "platform": "ios", "sdk_type": "ios_push", "ios_env": "sandbox",
            "push_token": apns_token(1, &ScriptedResponse::ok())}),
        json!({"device_id": "no address", "platform": "ios", "sdk_type": "ios_push"}),
        json!({"device_id": "dead", "platform": "android", "sdk_type": "android_push",
            "push_token": fcm_token(2, &ScriptedResponse::reason("UNREGISTERED"))}),
        json!({"device_id": "web", "platform": "web", "subscription": subscription,
            "language": "de", "timezone": "GMT+01:00", "tags": ["vip"]}),
        json!({"device_id": "person", "platform": "fb-messenger", "recipient_id": "4711"}),
        json!({"device_id": "chat", "platform": "chatapp", "recipient_id": "-77"}),
    ];
    let lines: Vec<String> = rows.iter().map(ToString::to_string).collect();
    let first = file("first.ndjson", &lines.join("\n"))?;
    let imported = notify.json(&["devices", "import", &first]).await?;
    assert_eq!(imported["registered"], 7, "{imported}");
    notify.json(&["send", "--text", "Hi", "--android-device", "dead"]).await?;
    until("the dead address is known", async || {
        let device = notify.json(&["devices", "get", "dead"]).await?;
        Ok((device["disabled_reason"] == "unregistered").then_some(()))
    })
    .await?;
    let mut expected = devices_of(&notify).await?;
    let dead = expected.iter().position(|device| device["device_id"] == "dead");
    expected.remove(dead.context("it is listed")?);

    for format in ["csv", "ndjson"] {
        let app = notify.json(&["apps", "create", format]).await?;
        let key = notify.json(&["keys", "create", "--app", format]).await?;
        let key = key["api_key"].as_str().context("a key")?;
        let other = notify.clone().with("NOTIFY_API_KEY", key);
        let exported = notify.run(&["devices", "export", "--format", format]).await?;
        assert_eq!(exported.status, Some(0), "{app}: {exported:?}");
        let exported = file(&format!("devices.{format}"), &exported.stdout)?;
        let imported = other.json(&["devices", "import", &exported]).await?;
        assert_eq!(
            imported,
            json!({"rows": 7, "registered": 6, "refused": 0, "refused_file": null,
                "duplicates": 0, "left_out": 1, "devices": 6, "replaced": 0,
                "without_address": 1, "left_out_reasons": {"unregistered": 1}})
        );
        assert_eq!(devices_of(&other).await?, expected, "{format}");
    }
    server.stop().await;
    Ok(())
}
