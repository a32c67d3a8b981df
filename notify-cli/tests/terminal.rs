//! Untrusted text is escaped on a terminal and unchanged in a pipe; confirmations.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::io::Write;
use std::process::Command;

use common::{Fixture, ID, response};
use serde_json::{Value, json};
use wiremock::{Mock, matchers::method};

/// Control characters (C0, C1), a change of the text direction, and an invisible character.
const PLANTED: &str = "\u{1b}]0;planted\u{7}\u{1b}[2J \u{9b}31m \u{202e}ne \u{200b}";

fn devices() -> Value {
    json!({ "devices": [{
        "device_id": "d", "platform": "web", "sdk_type": null, "push_token": null,
        "push_disabled": false, "ios_env": null, "android_id": null, "ad_id": null, "imei": null,
        "sdk_version": null, "app_version": null, "os_version": null, "store_identifier": null,
        "timezone": null, "country": null, "utc_offset": null, "language": PLANTED,
        "device_description": format!("two\nlines {PLANTED}"), "tags": [{ "name": PLANTED, "type": "bool", "value": true }], "enabled": true,
        "disabled_reason": null, "created_at": 1, "updated_at": 1,
    }], "next_cursor": null })
}

/// The width of the terminal, in columns.
const COLUMNS: usize = 80;

/// Runs the command on a terminal. Returns the output, and checks that the command succeeds.
fn on_terminal(fixture: &Fixture, args: &[&str]) -> String {
    let (status, output) = run_with_input(fixture, args, "");
    assert_eq!(status, Some(0), "{output:?}");
    output
}

/// Runs the command on a terminal with typed input; returns the exit status and the output.
fn run_with_input(fixture: &Fixture, args: &[&str], typed: &str) -> (Option<i32>, String) {
    let line = [&[env!("CARGO_BIN_EXE_notify")], args].concat().join(" ");
    let line = format!("stty cols {COLUMNS}; {line}");
    let mut script = Command::new("script")
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("TERM", "xterm")
        .env("HOME", fixture.home.path())
        .env("NOTIFY_URL", fixture.server.uri())
        .env("NOTIFY_API_KEY", "nk_test")
        .env("NOTIFY_ADMIN_KEY", "na_test")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("util-linux has `script`");
    script.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
    let output = script.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

fn has_control_characters(text: &str) -> bool {
    let is_line_end = |character| matches!(character, '\r' | '\n');
    text.chars().any(|character| {
        (character.is_control() && !is_line_end(character))
            || matches!(character, '\u{202e}' | '\u{200b}')
    })
}

#[tokio::test]
async fn control_characters_are_escaped_on_a_terminal() {
    let fixture = Fixture::with_body(devices()).await;
    for format in ["table", "csv", "json"] {
        let sent = on_terminal(&fixture, &["devices", "list", "-o", format]);
        assert!(sent.contains("planted") && !has_control_characters(&sent), "{format}: {sent:?}");
        if format == "json" {
            let shown: Value = serde_json::from_str(&sent).unwrap();
            assert_eq!(
                shown["devices"][0]["language"], PLANTED,
                "the escaped JSON has the same value"
            );
        }
        if format == "csv" {
            assert!(sent.contains("two\r\nlines"), "{sent:?}");
        }
    }
}

#[tokio::test]
async fn a_wide_listing_breaks_no_id_and_no_url() {
    let (id, url) = (ID, "https://news.example.com/feeds/of/the/whole/world.xml");
    let feeds = json!({ "feeds": [{
        "id": id, "name": "Shop news", "url": url, "status": "failing", "items": 0,
        "last_fetched_at": 1_767_323_045_000_i64, "last_error": "it answered with status 404",
        "created_at": 1,
    }], "next_cursor": null });
    let fixture = Fixture::with_body(feeds).await;
    let sent = on_terminal(&fixture, &["feeds", "list"]).replace("\r\n", "\n");
    assert_eq!(
        sent,
        format!(
            "{id}  failing\n\
             \x20 name             Shop news\n\
             \x20 last_error       it answered with status 404\n\
             \x20 url              {url}\n\
             \x20 items            0\n\
             \x20 last_fetched_at  2026-01-02T03:04:05Z\n"
        )
    );
}

#[tokio::test]
async fn send_prints_only_the_id() {
    let fixture = Fixture::with_body(json!({ "id": ID })).await;
    let sent = on_terminal(&fixture, &["send", "--text", "Hi", "--platform", "ios"]);
    assert_eq!(sent, format!("{ID}\r\n"));
}

#[tokio::test]
async fn output_to_a_pipe_is_unchanged() {
    let fixture = Fixture::with_body(devices()).await;
    let csv = fixture.run(&["devices", "list", "-o", "csv"]).assert_success();
    assert!(csv.stdout.contains(PLANTED) && csv.stdout.contains("two\nlines"), "{csv:?}");
    let json = fixture.run(&["devices", "list", "-o", "json"]).assert_success();
    assert!(json.stdout.contains("\u{9b}31m \u{202e}ne \u{200b}"), "{json:?}");
    assert_eq!(json.json()["devices"][0]["language"], PLANTED);
}

/// A server that responds to each `GET` with these records, and to each `DELETE` with success.
async fn server_with(records: Value) -> Fixture {
    let fixture = Fixture::new().await;
    Mock::given(method("GET")).respond_with(response(200, &records)).mount(&fixture.server).await;
    let done = response(200, &json!({ "success": true }));
    Mock::given(method("DELETE")).respond_with(done).mount(&fixture.server).await;
    fixture
}

/// The `DELETE` requests that the server received.
async fn deleted(fixture: &Fixture) -> Vec<String> {
    let requests = fixture.received().await.into_iter().map(|(line, _)| line);
    requests.filter(|line| line.starts_with("DELETE ")).collect()
}

/// Commands that cannot be undone, each with the response of the server and a part of the question.
fn irreversible() -> Vec<(&'static str, Value, &'static str)> {
    let mut device = devices()["devices"][0].clone();
    device["language"] = json!("en");
    // The same response serves as an application and as a list of keys, because one command reads both.
    let app = json!({ "id": ID, "name": "Shop", "language": "en", "status": "active",
        "created_at": 1, "keys": [{ "id": ID, "name": "backend", "hint": "nk_…abcd",
        "created_at": 1, "last_used_at": 1_767_323_045_000_i64 }] });
    let webhook = json!({ "id": ID, "url": "https://e/hook", "events": [], "description": null,
        "enabled": true, "disabled_reason": null, "created_at": 1, "updated_at": 1,
        "failing_since": null, "pending": 2, "dropped": 0, "previous_secret_until": null });
    let feed = json!({ "id": ID, "name": "News", "url": "https://e/rss", "status": "ok",
        "items": 1, "last_fetched_at": null, "last_error": null, "created_at": 1 });
    let campaign = json!({ "id": ID, "name": "spring", "status": "active", "is_default": false,
        "created_at": 5, "template": {
            "name": "spring", "layout_id": "content_with_two",
            "settings": { "big_share_button": true, "small_view": true, "build_without_image": true,
                "small_share_button": true, "drag_to_expand": false },
            "strings": [], "is_default": false, "features": [] } });
    let user = json!({ "user_id": "u", "attributes": {}, "created_at": 1, "updated_at": 1,
        "devices": [{ "device_id": "d", "platform": "ios", "enabled": true }] });
    let segment = json!({ "name": "vip", "audience": { "not": { "tag": "vip" } },
        "created_at": 1, "updated_at": 1 });
    vec![
        ("devices delete d", device, "Erase the device `d` (web) with its tags"),
        ("keys revoke ID --app ID", app.clone(), "`backend` (nk_…abcd, last used on 2026-01-02)"),
        (
            "providers delete fcm --app ID",
            app.clone(),
            "the provider fcm of the application `Shop`",
        ),
        ("providers delete webpush --app ID", app, "every browser has to subscribe again"),
        (
            "webhooks delete ID",
            webhook,
            "the webhook to https://e/hook with its secret and its messages (2 pending)",
        ),
        ("feeds delete ID", json!({ "feeds": [feed], "next_cursor": null }), "the feed `News`"),
        ("campaigns delete ID", campaign, "the campaign `spring`"),
        ("users delete u", user.clone(), "Erase the user `u` with 1 device and all data"),
        ("users delete u --keep-devices", user, "The user is logged out of 1 device"),
        ("segments delete vip", segment, "the segment `vip` (not tag = vip)"),
    ]
}

#[tokio::test]
async fn irreversible_commands_ask_for_confirmation_on_a_terminal() {
    for (line, records, question) in irreversible() {
        let line = line.replace("ID", ID);
        let args: Vec<&str> = line.split_whitespace().collect();
        for (typed, is_done) in
            [("y\n", true), ("Yes\n", true), ("n\n", false), ("\n", false), ("", false)]
        {
            let fixture = server_with(records.clone()).await;
            let (status, sent) = run_with_input(&fixture, &args, typed);
            assert!(sent.contains(question) && sent.contains("[y/N]"), "{line}: {sent:?}");
            assert_eq!(deleted(&fixture).await.len(), usize::from(is_done), "{line}: {sent:?}");
            assert_eq!(status, Some(i32::from(!is_done)), "{line}: {sent:?}");
            assert_eq!(sent.contains("error: nothing was changed"), !is_done, "{sent:?}");
        }
        let fixture = server_with(records).await;
        let yes = [&args[..], &["--yes"]].concat();
        assert!(!on_terminal(&fixture, &yes).contains("[y/N]"));
        assert_eq!(deleted(&fixture).await.len(), 1);
    }
}

/// Without a visible question, an answer is not a confirmation.
#[tokio::test]
async fn irreversible_commands_fail_if_the_question_is_not_visible() {
    let mut rows = irreversible();
    let app = rows[1].1.clone();
    rows.push(("apps delete ID", app, ""));
    for (line, records, _) in rows {
        let fixture = server_with(records).await;
        let elsewhere = format!("2>{}", fixture.home.path().join("errors").display());
        let line = line.replace("ID", ID);
        let args: Vec<&str> = line.split_whitespace().chain([&*elsewhere]).collect();
        let (status, sent) = run_with_input(&fixture, &args, "y\n");
        assert_eq!(status, Some(2), "{line}: {sent:?}");
        let text = "error: this cannot be undone, and the command cannot ask for confirmation \
            because standard error is not a terminal: give --yes to go ahead\n";
        assert_eq!(fixture.read("errors"), text, "{line}");
        assert!(deleted(&fixture).await.is_empty(), "{line}");
        let yes = [&args[..], &["--yes"]].concat();
        assert_eq!(run_with_input(&fixture, &yes, "").0, Some(0), "{line}");
        assert_eq!(deleted(&fixture).await.len(), 1, "{line}");
    }
}

/// People read a sentence, and programs still get an empty table or file.
#[tokio::test]
async fn an_empty_listing_is_a_sentence_on_a_terminal() {
    for (line, list, text) in [
        ("devices list", "devices", "No devices."),
        ("devices list --all", "devices", "No devices."),
        ("apps list", "apps", "No applications."),
        ("statistics notifications", "days", "No days with counts."),
    ] {
        let empty = json!({ list: [], "next_cursor": null, "total_sent": 0, "total_failed": 0,
            "total_unregistered": 0, "total_expired": 0, "total_received": 0, "total_opened": 0,
            "total_clicked": 0, "total_dismissed": 0 });
        let fixture = Fixture::with_body(empty).await;
        let args: Vec<&str> = line.split_whitespace().collect();
        let (nowhere, table) = ("2>/dev/null", ["-o", "table"]);
        assert_eq!(on_terminal(&fixture, &args), format!("{text}\r\n"), "{line}");
        assert_eq!(on_terminal(&fixture, &[&args[..], &[nowhere]].concat()), "", "{line}");
        let csv = on_terminal(&fixture, &[&args[..], &["-o", "csv"]].concat());
        assert!(csv.starts_with('"'), "{line}: {csv:?}");
        let piped = fixture.run(&[&args[..], &table].concat()).assert_success().stdout;
        assert!(piped.starts_with('┌'), "{line}: {piped}");
    }
}

/// The cause of an explanation is a sentence that may be longer than a line.
#[tokio::test]
async fn a_heading_is_wrapped_at_the_width_of_the_terminal() {
    let cause = "fcm cannot be reached, or fails every request: everything waits; next probe \
        at 2026-01-02T03:04:05Z";
    let explained = json!({ "device_id": "d", "outcome": "pending",
        "steps": [{ "at": null, "what": "paused", "detail": cause }] });
    let sent = on_terminal(&Fixture::with_body(explained).await, &["explain", ID, "d"]);
    let lines: Vec<&str> = sent.lines().take(2).collect();
    assert!(lines.iter().all(|line| line.chars().count() <= COLUMNS), "{sent}");
    assert_eq!(lines.join(" "), format!("! d pending: {cause}"));
}

/// A script cannot answer a question, so it must give `--yes`.
#[tokio::test]
async fn scripts_need_the_option_yes() {
    let mut rows = irreversible();
    let app = rows[1].1.clone();
    rows.push(("apps delete ID", app.clone(), ""));
    rows.push(("admin-keys revoke ID", app, ""));
    for (line, records, _) in rows {
        let line = line.replace("ID", ID);
        let args: Vec<&str> = line.split_whitespace().collect();
        let fixture = server_with(records).await;
        let refused = fixture.run(&args);
        let text = "error: this cannot be undone, and the command cannot ask for confirmation \
            because standard input is not a terminal: give --yes to go ahead\n";
        assert_eq!((refused.status, &*refused.stderr), (2, text), "{line}");
        assert!(fixture.received().await.is_empty(), "{line}");
        fixture.run(&[&args[..], &["--yes"]].concat()).assert_success();
        let requests: Vec<String> =
            fixture.received().await.into_iter().map(|(line, _)| line).collect();
        assert_eq!(requests.len(), 1, "{requests:?}");
        assert!(requests[0].starts_with("DELETE "), "{requests:?}");
    }
}

/// Deleting an application deletes all its data, so the user must type its name.
#[tokio::test]
async fn an_application_is_deleted_by_its_name() {
    let app = json!({ "id": ID, "name": "Shop", "language": "en", "status": "active",
        "created_at": 1, "keys": [] });
    for (typed, is_done) in [("Shop\n", true), ("y\n", false), ("shop\n", false), ("\n", false)] {
        let fixture = server_with(app.clone()).await;
        let (status, sent) = run_with_input(&fixture, &["apps", "delete", ID], typed);
        assert!(
            sent.contains("This deletes the application `Shop`") && sent.contains("0 API keys"),
            "{sent}"
        );
        assert_eq!(deleted(&fixture).await.len(), usize::from(is_done), "{sent:?}");
        assert_eq!(status, Some(i32::from(!is_done)), "{sent:?}");
    }
    let fixture = server_with(app).await;
    on_terminal(&fixture, &["apps", "delete", ID, "-y"]);
    assert_eq!(deleted(&fixture).await.len(), 1);
}

/// The profile may be the only place where its keys are stored.
#[tokio::test]
async fn a_profile_is_removed_after_confirmation() {
    let fixture = Fixture::new().await;
    fixture.run(&["profile", "set", "shop", "http://127.0.0.1:9"]).assert_success();
    let names = || {
        let profiles = fixture.run(&["profile", "list"]).assert_success().json();
        profiles["profiles"].as_array().unwrap().len()
    };
    let (status, sent) = run_with_input(&fixture, &["profile", "remove", "shop"], "n\n");
    assert!(sent.contains("Remove the profile `shop` with its keys?"), "{sent:?}");
    assert_eq!((status, names()), (Some(1), 1), "{sent:?}");
    assert_eq!(run_with_input(&fixture, &["profile", "remove", "shop"], "y\n").0, Some(0));
    assert_eq!(names(), 0);
}
