//! What strangers wrote cannot act on a terminal; to a pipe every byte stays as it was.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it must be")]

mod common;

use std::process::Command;

use common::{Bench, ID};
use serde_json::{Value, json};

/// Steers a terminal (C0, C1), turns the direction of a text, hides in it.
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

/// Columns of the terminal.
const COLUMNS: usize = 80;

/// Runs the command on a terminal of its own; gives what the terminal was sent.
fn on_terminal(bench: &Bench, args: &[&str]) -> String {
    let line = [&[env!("CARGO_BIN_EXE_notify")], args].concat().join(" ");
    let line = format!("stty cols {COLUMNS}; {line}");
    let output = Command::new("script")
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("TERM", "xterm")
        .env("HOME", bench.home.path())
        .env("NOTIFY_URL", bench.server.uri())
        .env("NOTIFY_API_KEY", "nk_test")
        .stdin(std::process::Stdio::null())
        .output()
        .expect("util-linux has `script`");
    let sent = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{sent:?}");
    sent
}

fn steers(text: &str) -> bool {
    let is_line_end = |character| matches!(character, '\r' | '\n');
    text.chars().any(|character| {
        (character.is_control() && !is_line_end(character))
            || matches!(character, '\u{202e}' | '\u{200b}')
    })
}

#[tokio::test]
async fn nothing_that_steers_reaches_a_terminal() {
    let bench = Bench::answering(devices()).await;
    for format in ["table", "csv", "json"] {
        let sent = on_terminal(&bench, &["devices", "list", "-o", format]);
        assert!(sent.contains("planted") && !steers(&sent), "{format}: {sent:?}");
        if format == "json" {
            let shown: Value = serde_json::from_str(&sent).unwrap();
            assert_eq!(shown["devices"][0]["language"], PLANTED, "it is the same JSON");
        }
        if format == "csv" {
            assert!(sent.contains("two\r\nlines"), "{sent:?}");
        }
    }
}

#[tokio::test]
async fn a_listing_that_is_wider_than_the_terminal_breaks_no_id_and_no_url() {
    let (id, url) = (ID, "https://news.example.com/feeds/of/the/whole/world.xml");
    let feeds = json!({ "feeds": [{
        "id": id, "name": "Shop news", "url": url, "status": "failing", "items": 0,
        "last_fetched_at": 1_767_323_045_000_i64, "last_error": "it answered with status 404",
        "created_at": 1,
    }], "next_cursor": null });
    let bench = Bench::answering(feeds).await;
    let sent = on_terminal(&bench, &["feeds", "list"]).replace("\r\n", "\n");
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
async fn what_was_sent_is_an_id_and_nothing_around_it() {
    let bench = Bench::answering(json!({ "id": ID })).await;
    let sent = on_terminal(&bench, &["send", "--text", "Hi", "--platform", "ios"]);
    assert_eq!(sent, format!("{ID}\r\n"));
}

#[tokio::test]
async fn a_pipe_gets_every_byte() {
    let bench = Bench::answering(devices()).await;
    let csv = bench.run(&["devices", "list", "-o", "csv"]).quiet();
    assert!(csv.stdout.contains(PLANTED) && csv.stdout.contains("two\nlines"), "{csv:?}");
    let json = bench.run(&["devices", "list", "-o", "json"]).quiet();
    assert!(json.stdout.contains("\u{9b}31m \u{202e}ne \u{200b}"), "{json:?}");
    assert_eq!(json.json()["devices"][0]["language"], PLANTED);
}
