//! `notify devices import --from` and `--mapping`: exports of other systems, as those systems write them,
//! become devices that a real server reaches. Refused rows are corrected and imported again, and an
//! interrupted import continues.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use base64::{Engine, prelude::BASE64_STANDARD};
use flate2::{Compression, write::GzEncoder};
use notify_core::WebSubscription;
use notify_sandbox::{ScriptedResponse, apns_token, fcm_token};
use notify_tests::{Notify, TestServer, WAIT_MAX};
use serde_json::{Value, json};

/// An export, and what becomes of it.
struct Export {
    name: &'static str,
    content: String,
    arguments: &'static [&'static str],
    /// The counts of the result.
    counts: Value,
    /// The end of the name of the report of refused rows.
    report: &'static str,
    /// Texts of the report and what the user writes in their place.
    corrections: Vec<(String, String)>,
    /// Fields of devices, by id.
    devices: Vec<(&'static str, Value)>,
}

fn apns(number: u64) -> String {
    apns_token(number, &ScriptedResponse::ok())
}

fn fcm(number: u64) -> String {
    fcm_token(number, &ScriptedResponse::ok())
}

/// A key of a browser in base64, as several systems store it.
fn in_base64(key: &str) -> String {
    let key = key.replace('-', "+").replace('_', "/");
    format!("{key}{}", "=".repeat((4 - key.len() % 4) % 4))
}

/// Puts a browser's subscription into an export.
fn with_browser(export: &str, browser: &WebSubscription) -> String {
    let WebSubscription { endpoint, p256dh, auth } = browser;
    let (p256dh, auth) = (in_base64(p256dh), in_base64(auth));
    export.replace("WEB_ENDPOINT", endpoint).replace("WEB_P256", &p256dh).replace("WEB_AUTH", &auth)
}

/// The subscription as AeroGear stores it.
fn aerogear_token(browser: &WebSubscription) -> String {
    let WebSubscription { endpoint, p256dh, auth } = browser;
    let keys = json!({ "p256dh": in_base64(p256dh), "auth": in_base64(auth) });
    BASE64_STANDARD.encode(json!({ "endpoint": endpoint, "keys": keys }).to_string())
}

fn replaced(from: &str, to: impl Into<String>) -> (String, String) {
    (from.to_owned(), to.into())
}

fn parse_exports() -> [Export; 2] {
    let user = "g7y9tkhB7O";
    let mongo = Export {
        name: "parse.ndjson",
        content: include_str!("imports/parse.ndjson").to_owned(),
        arguments: &["--from", "parse", "--mapping", "parse.toml"],
        counts: json!({"rows": 6, "registered": 2, "refused": 2, "left_out": 2,
            "left_out_reasons": {"Windows device": 1, "no push token": 1}}),
        report: "refused.ndjson",
        corrections: vec![replaced("simulator", apns(2)), replaced("Mars/Phobos", "Asia/Tokyo")],
        devices: vec![
            (
                "0f7c3a5e-7b1e-4c22-9c0d-4d1c2a9f6b10",
                json!({"platform": "ios", "push_token": apns(1), "language": "de-DE",
                    "country": "DE", "app_version": "4.2.0", "user_id": user,
                    "store_identifier": "com.example.shop",
                    "attributes": {"favourite_team": "FCB"}}),
            ),
            (
                "9d1e0b7a-2f44-4a53-8d3e-0a6c1b2d3e4f",
                json!({"platform": "android", "push_token": fcm(1), "timezone": "America/Sao_Paulo",
                    "country": "BR", "user_id": null, "attributes": {},
                    "tags": [{"name": "news", "type": "bool", "value": true}]}),
            ),
            ("8ebc9f40-23de-4f01-b234-56789abcdef0", json!({"timezone": "Asia/Tokyo"})),
        ],
    };
    let rest = Export {
        name: "parse.json",
        content: include_str!("imports/parse.json").to_owned(),
        arguments: &["--from", "parse"],
        counts: json!({"rows": 3, "registered": 2, "refused": 1, "left_out": 0,
            "left_out_reasons": {}}),
        report: "refused.ndjson",
        corrections: vec![replaced("blackberry", "android")],
        devices: vec![
            (
                "a1b2c3d4-0000-4000-8000-000000000001",
                json!({"push_token": fcm(3), "user_id": user}),
            ),
            ("a1b2c3d4-0000-4000-8000-000000000002", json!({"push_token": apns(3)})),
        ],
    };
    [mongo, rest]
}

fn aerogear_export(browsers: &[WebSubscription; 2]) -> Export {
    let content = include_str!("imports/aerogear.json");
    Export {
        name: "aerogear.json",
        content: content.replace("WEB_TOKEN", &aerogear_token(&browsers[0])),
        arguments: &["--from", "aerogear"],
        counts: json!({"rows": 6, "registered": 4, "refused": 1, "left_out": 1,
            "left_out_reasons": {"Windows device": 1}}),
        report: "refused.ndjson",
        corrections: vec![replaced("bm90IGpzb24=", aerogear_token(&browsers[1]))],
        devices: vec![
            (
                "2c948a8a-6f1b-4a0e-9d57-0d4f8e3c1a01",
                json!({"push_token": apns(11), "os_version": "12.4.1", "user_id": "ada@example.com",
                    "device_description": "iPhone", "enabled": true}),
            ),
            (
                "2c948a8a-6f1b-4a0e-9d57-0d4f8e3c1a03",
                json!({"enabled": false, "disabled_reason": "push_disabled", "user_id": "bob"}),
            ),
            (
                "2c948a8a-6f1b-4a0e-9d57-0d4f8e3c1a04",
                json!({"platform": "web", "subscription": browsers[0]}),
            ),
        ],
    }
}

fn onesignal_export(browsers: &[WebSubscription; 2]) -> Export {
    let content = include_str!("imports/onesignal.csv");
    let content = content.replace("WEB_ENDPOINT_2", &browsers[1].endpoint);
    let keys =
        format!(r#","{}","{}","5","#, in_base64(&browsers[1].auth), in_base64(&browsers[1].p256dh));
    Export {
        name: "onesignal.csv",
        content: with_browser(&content, &browsers[0]),
        arguments: &["--from", "onesignal"],
        counts: json!({"rows": 10, "registered": 3, "refused": 2, "left_out": 5,
            "left_out_reasons": {"Amazon device": 1, "email address": 1, "no push token": 1,
                "telephone number": 1, "unsubscribed": 1}}),
        report: "refused.csv",
        corrections: vec![replaced(r#","","","5","#, keys), replaced("PST", "-28800")],
        devices: vec![
            (
                "7a1d2e3f-0000-4000-8000-000000000001",
                json!({"platform": "ios", "push_token": apns(21), "app_version": "4.2.0",
                    "device_description": "iPhone14,5", "utc_offset": "60", "user_id": "u-1",
                    "attributes": {"first_name": "Ada", "level": "12", "plan": "pro"}}),
            ),
            (
                "7a1d2e3f-0000-4000-8000-000000000002",
                json!({"ad_id": null, "utc_offset": "-180", "attributes": {"plan": "free"}}),
            ),
            (
                "7a1d2e3f-0000-4000-8000-000000000003",
                json!({"platform": "web", "subscription": browsers[0], "user_id": "u-1"}),
            ),
            ("7a1d2e3f-0000-4000-8000-000000000004", json!({"subscription": browsers[1]})),
        ],
    }
}

fn rpush_export(browser: &WebSubscription) -> Export {
    Export {
        name: "rpush_notifications.csv",
        content: with_browser(include_str!("imports/rpush_notifications.csv"), browser),
        arguments: &[
            "--from",
            "rpush",
            "--mapping",
            "rpush.toml",
            "--feedback",
            "rpush_feedback.csv",
        ],
        counts: json!({"rows": 13, "registered": 5, "refused": 1, "left_out": 7,
            "left_out_reasons": {"Amazon device": 1, "excluded by [where] of the mapping": 1,
                "repeated token": 2, "unregistered": 3}}),
        report: "refused.csv",
        corrections: vec![replaced("feedfacecafebee", apns(34))],
        devices: vec![],
    }
}

fn own_table() -> Export {
    Export {
        name: "own_table.csv",
        content: include_str!("imports/own_table.csv").to_owned(),
        arguments: &["--mapping", "own_table.toml"],
        counts: json!({"rows": 4, "registered": 2, "refused": 1, "left_out": 1,
            "left_out_reasons": {"excluded by [where] of the mapping": 1}}),
        report: "refused.csv",
        corrections: vec![replaced(r#""u-3","3""#, r#""u-3","2""#)],
        devices: vec![
            (
                "1001",
                json!({"platform": "ios", "push_token": apns(41), "ios_env": "production",
                    "utc_offset": "60", "language": "de", "user_id": "u-1",
                    "attributes": {"plan": "pro", "points": 120},
                    "tags": [{"name": "news", "type": "bool", "value": true},
                        {"name": "sport", "type": "bool", "value": true},
                        {"name": "vip", "type": "bool", "value": true}]}),
            ),
            (
                "1002",
                json!({"push_token": fcm(41), "ios_env": null, "utc_offset": "-210",
                    "tags": [{"name": "vip", "type": "bool", "value": false}]}),
            ),
        ],
    }
}

/// Writes the files next to the exports.
fn write_others(folder: &Path) -> Result<()> {
    for (name, content) in [
        ("parse.toml", include_str!("imports/parse.toml")),
        ("rpush.toml", include_str!("imports/rpush.toml")),
        ("rpush_feedback.csv", include_str!("imports/rpush_feedback.csv")),
        ("own_table.toml", include_str!("imports/own_table.toml")),
    ] {
        std::fs::write(folder.join(name), content)?;
    }
    Ok(())
}

/// Imports an export, corrects its report, and imports that.
async fn import(notify: &Notify, folder: &Path, export: &Export) -> Result<()> {
    let name = export.name;
    let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let is_file = |argument: &str| Path::new(argument).extension().is_some();
    let arguments = export.arguments.iter().map(|argument| match is_file(argument) {
        true => path(argument),
        false => (*argument).to_owned(),
    });
    let arguments: Vec<String> =
        ["devices", "import"].map(str::to_owned).into_iter().chain(arguments).collect();
    let import = async |file: String| {
        let arguments: Vec<&str> = arguments.iter().chain([&file]).map(String::as_str).collect();
        notify.run(&arguments).await
    };
    std::fs::write(folder.join(name), &export.content)?;
    let output = import(path(name)).await?;
    ensure!(output.status == Some(3), "{name}: some rows are refused: {output:?}");
    let result: Value = serde_json::from_str(&output.stdout)?;
    for (count, expected) in export.counts.as_object().context("counts")? {
        assert_eq!(&result[count], expected, "{name}: {count}: {output:?}");
    }
    let report = format!("{name}.{}", export.report);
    let command = format!("notify {} {}`", arguments.join(" "), path(&report));
    assert!(output.stderr.contains(&command), "{name}: {output:?}");

    let mut corrected = std::fs::read_to_string(folder.join(&report))?;
    for (wrong, right) in &export.corrections {
        ensure!(corrected.contains(wrong), "{name}: no {wrong} in {corrected}");
        corrected = corrected.replace(wrong, right);
    }
    std::fs::write(folder.join(&report), corrected)?;
    let output = import(path(&report)).await?;
    let result: Value = serde_json::from_str(&output.stdout)?;
    let counts = (output.status, &result["registered"], &result["left_out"]);
    assert_eq!(counts, (Some(0), &export.counts["refused"], &json!(0)), "{name}: {output:?}");

    for (device_id, fields) in &export.devices {
        let device = notify.json(&["devices", "get", device_id]).await?;
        for (field, expected) in fields.as_object().context("fields")? {
            assert_eq!(&device[field], expected, "{name}: {device_id}: {field}");
        }
    }
    Ok(())
}

/// Every address of an export that still works gets the notification, once.
#[tokio::test]
async fn exports_of_other_systems_are_imported_corrected_and_reached() -> Result<()> {
    let server = TestServer::start().await;
    let notify = Notify::new(server.origin(), server.api_key(), server.admin_key())?;
    let subscribe = || server.sandbox().subscribe(None, &ScriptedResponse::ok());
    let [aerogear, onesignal] = [[subscribe()?, subscribe()?], [subscribe()?, subscribe()?]];
    let rpush = subscribe()?;
    let folder = tempfile::tempdir()?;
    write_others(folder.path())?;
    let [mongo, rest] = parse_exports();
    let others = [
        aerogear_export(&aerogear),
        onesignal_export(&onesignal),
        rpush_export(&rpush),
        own_table(),
    ];
    for export in [mongo, rest].iter().chain(&others) {
        import(&notify, folder.path(), export).await?;
    }

    let mut expected: Vec<String> = [1, 2, 3, 11, 21, 31, 34, 41].map(apns).to_vec();
    expected.extend([1, 2, 3, 4, 11, 21, 23, 31, 33, 34, 41, 43].map(fcm));
    let browsers = aerogear.iter().chain(&onesignal).chain([&rpush]);
    expected.extend(browsers.map(|browser| browser.endpoint.clone()));
    expected.sort();
    let mut addresses = Vec::new();
    for device in
        notify.json(&["devices", "list", "--all"]).await?["devices"].as_array().context("a list")?
    {
        let address = device["push_token"].as_str().or(device["subscription"]["endpoint"].as_str());
        if device["enabled"] == true {
            addresses.push(address.context("an address")?.to_owned());
        }
    }
    addresses.sort();
    assert_eq!(addresses, expected);
    let platforms = ["--platform", "ios", "--platform", "android", "--platform", "web"];
    notify.json(&[&["send", "--text", "We moved"], &platforms[..]].concat()).await?;
    let received = server.sandbox().wait_for(expected.len(), WAIT_MAX).await;
    assert_eq!(received.len(), expected.len());
    let of_user = notify.json(&["devices", "list", "--user", "u-1"]).await?;
    let of_user = of_user["devices"].as_array().map(Vec::len);
    assert_eq!(of_user, Some(3), "two of OneSignal, one of the own table");
    server.stop().await;
    Ok(())
}

/// The rows of the long export.
const ROWS: usize = 400;

/// A long export of OneSignal, of which every hundredth row has no type.
fn long_export() -> String {
    let mut export = "id,identifier,device_type,timezone,invalid_identifier\n".to_owned();
    for row in 0..ROWS {
        let kind = if row % 100 == 50 { "" } else { "1" };
        writeln!(export, "p-{row},{},{kind},3600,f", fcm(row as u64))
            .expect("a text takes everything");
    }
    export
}

fn compressed(text: &str) -> Result<Vec<u8>> {
    let mut file = GzEncoder::new(Vec::new(), Compression::default());
    file.write_all(text.as_bytes())?;
    Ok(file.finish()?)
}

/// The download of an export was cut. The import uses the rows that it has, and continues with the whole file.
#[tokio::test]
async fn an_import_of_a_cut_export_continues_with_the_whole_file() -> Result<()> {
    let server = TestServer::start().await;
    let notify = Notify::new(server.origin(), server.api_key(), server.admin_key())?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("players.csv.gz");
    let file = path.to_str().context("a path")?;
    let import = ["devices", "import", "--from", "onesignal", file];
    let whole = compressed(&long_export())?;
    std::fs::write(&path, &whole[..whole.len() / 2])?;
    let output = notify.run(&import).await?;
    ensure!(output.status != Some(0) && output.stderr.contains("stopped after line"), "{output:?}");
    let registered = notify.json(&["statistics", "devices"]).await?["total"].clone();
    let registered = registered.as_u64().context("a number")?;
    assert!((1..ROWS as u64 - 4).contains(&registered), "a part: {registered}");

    // Neither another system nor another mapping continues it.
    std::fs::write(&path, &whole)?;
    let other = notify.run(&["devices", "import", "--from", "parse", file]).await?;
    assert!(
        other.stderr.contains("the state file of `notify devices import --from onesignal`"),
        "{other:?}"
    );
    let mapping = folder.path().join("mapping.toml");
    std::fs::write(&mapping, "[attributes]\nzone = \"timezone\"\n")?;
    let mapping = mapping.to_str().context("a path")?;
    let other = notify.run(&[&import[..], &["--mapping", mapping]].concat()).await?;
    assert!(other.stderr.contains("not the file"), "{other:?}");

    let output = notify.run(&import).await?;
    assert_eq!(output.status, Some(3), "{output:?}");
    assert!(output.stderr.starts_with("continuing after line "), "{output:?}");
    let result: Value = serde_json::from_str(&output.stdout)?;
    let refused = folder.path().join("players.csv.gz.refused.csv");
    assert_eq!(
        result,
        json!({"rows": ROWS, "registered": ROWS - 4, "refused": 4, "refused_file": refused,
            "duplicates": 0, "left_out": 0, "devices": ROWS - 4, "replaced": 0,
            "without_address": 0, "left_out_reasons": {}})
    );
    let report = std::fs::read_to_string(&refused)?;
    let lines = report.lines().skip(1).filter_map(|row| row.split('"').nth(11));
    assert_eq!(lines.collect::<Vec<_>>(), ["52", "152", "252", "352"], "{report}");
    let total = notify.json(&["statistics", "devices"]).await?["total"].clone();
    assert_eq!(total, ROWS - 4, "no device twice");
    server.stop().await;
    Ok(())
}
