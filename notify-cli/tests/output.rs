//! Output on stdout and stderr, and the exit status.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Fixture, ID, finish, response};
use serde_json::json;

fn device(id: &str) -> serde_json::Value {
    json!({
        "device_id": id, "platform": "android", "sdk_type": "android_push", "push_token": "-t",
        "push_disabled": false, "ios_env": null, "android_id": null, "ad_id": null, "imei": null,
        "sdk_version": null, "app_version": "1.2", "os_version": null, "store_identifier": null,
        "timezone": null, "country": null, "utc_offset": null, "language": "de",
        "device_description": null, "tags": [], "user_id": null, "attributes": {}, "enabled": true,
        "disabled_reason": null, "created_at": 1_767_323_045_000_i64,
        "updated_at": 1_767_323_045_000_i64,
    })
}

fn page(ids: &[&str], cursor: Option<&str>) -> serde_json::Value {
    let devices: Vec<_> = ids.iter().map(|id| device(id)).collect();
    json!({ "devices": devices, "next_cursor": cursor })
}

fn errors(texts: &[&str]) -> serde_json::Value {
    json!({ "errors": texts })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_is_printed_as_a_table() {
    let tags = json!({
        "tags": [{"name": "vip", "type": "bool", "devices": 3},
                 {"name": "a\u{1b}[31mb", "type": "bool", "devices": 0}],
        "next_cursor": "next",
    });
    let fixture = Fixture::with_body(tags).await;
    let run = fixture.run(&["tags", "list", "-o", "table"]);
    assert_eq!(run.status, 0);
    assert_eq!(
        run.stdout,
        "┌──────────────┬──────┬─────────┐\n\
         │ name         ┆ type ┆ devices │\n\
         ╞══════════════╪══════╪═════════╡\n\
         │ vip          ┆ bool ┆ 3       │\n\
         │ a\\u{1b}[31mb ┆ bool ┆ 0       │\n\
         └──────────────┴──────┴─────────┘\n"
    );
    assert_eq!(run.stderr, "next page: --cursor next; all pages: --all\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn notifications_by_day_are_a_table_a_chart_and_data() {
    let day = |date: i64, sent: u64, opened: u64| {
        json!({ "date": date, "sent": sent, "failed": 7, "unregistered": 8, "expired": 9,
            "received": 0, "opened": opened, "clicked": 0, "dismissed": 0 })
    };
    let answer = json!({
        "days": [day(1_767_225_600_000, 1_200, 3), day(1_767_312_000_000, 600, 0)],
        "total_sent": 1_800, "total_failed": 14, "total_unregistered": 16, "total_expired": 18,
        "total_received": 0, "total_opened": 3, "total_clicked": 0,
        "total_dismissed": 0,
    });
    let fixture = Fixture::with_body(answer.clone()).await;
    let table =
        fixture.run(&["statistics", "notifications", "-o", "table"]).assert_success().stdout;
    assert!(
        table.contains("│ 2026-01-01 ┆ 1200 ┆ 7      ┆ 8            ┆ 9       ┆ 0        ┆ 3 "),
        "{table}"
    );
    assert_eq!(fixture.run(&["statistics", "notifications"]).assert_success().json(), answer);
    let csv = fixture.run(&["statistics", "notifications", "-o", "csv"]).assert_success().stdout;
    assert!(csv.ends_with(",\"600\",\"7\",\"8\",\"9\",\"0\",\"0\",\"0\",\"0\"\r\n"), "{csv}");
    // No terminal: 80 columns.
    let chart = fixture.run(&["statistics", "notifications", "--chart"]).assert_success().stdout;
    let bar = |length: usize| "#".repeat(length);
    assert_eq!(
        chart,
        format!(
            "sent by day (UTC), 1800 in all\n2026-01-01 {} 1200\n2026-01-02 {} 600\n",
            bar(64),
            bar(32)
        )
    );
    let opened = ["statistics", "notifications", "--chart", "opened", "-o", "table"];
    let chart = fixture.run(&opened).assert_success().stdout;
    assert!(chart.ends_with("# 3\n2026-01-02 0\n"), "{chart}");
    for (count, total) in [("failed", 14), ("unregistered", 16), ("expired", 18)] {
        let chart = fixture.run(&["statistics", "notifications", "--chart", count]);
        let heading = format!("{count} by day (UTC), {total} in all\n");
        assert!(chart.assert_success().stdout.starts_with(&heading), "{count}");
    }
    let run = fixture.run(&["statistics", "notifications", "--chart", "-o", "json"]);
    assert_eq!((run.status, run.stdout.as_str()), (2, ""), "{run:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_is_a_table_of_its_fields() {
    let app = json!({ "id": ID, "name": "Shop", "language": "en", "status": "active",
        "created_at": 1_767_323_045_000_i64 });
    let fixture = Fixture::with_body(app).await;
    let run = fixture.run(&["apps", "get", ID, "--output", "table"]).assert_success();
    assert_eq!(
        run.stdout,
        "┌────────────┬──────────────────────────────────────┐\n\
         │ id         ┆ 0190a3b2-7f00-7000-8000-000000000001 │\n\
         │ name       ┆ Shop                                 │\n\
         │ language   ┆ en                                   │\n\
         │ status     ┆ active                               │\n\
         │ created_at ┆ 2026-01-02T03:04:05Z                 │\n\
         └────────────┴──────────────────────────────────────┘\n"
    );
    let fixture = Fixture::with_body(json!({ "success": true })).await;
    assert_eq!(
        fixture.run(&["apps", "delete", ID, "--yes", "-o", "table"]).assert_success().stdout,
        "done\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_without_an_address_is_marked() {
    let without = |changes: serde_json::Value| {
        let mut device = device("a");
        device.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        device
    };
    let none = json!({"push_token": null});
    let off = json!({"push_token": null, "enabled": false, "disabled_reason": "push_disabled"});
    let chat = json!({"platform": "chatapp", "push_token": null, "recipient_id": "4711"});
    let web = json!({"platform": "web", "push_token": null, 
        "subscription": {"endpoint": "https://e", "p256dh": "p", "auth": "a"}});
    let hidden = json!({"push_token": null, "address_hidden": true});
    let unusable = json!({"address_problem": "looks like an APNs token"});
    let devices = [json!({}), none, off, chat, web, hidden, unusable].map(without);
    let fixture = Fixture::with_body(json!({ "devices": devices, "next_cursor": null })).await;
    let run = fixture.run(&["devices", "list", "-o", "table"]).assert_success();
    assert_eq!(
        run.stdout,
        "┌───────────┬──────────┬──────────────────┬──────┬──────────────────────┐\n\
         │ device_id ┆ platform ┆ state            ┆ tags ┆ updated_at           │\n\
         ╞═══════════╪══════════╪══════════════════╪══════╪══════════════════════╡\n\
         │ a         ┆ android  ┆ enabled          ┆      ┆ 2026-01-02T03:04:05Z │\n\
         │ a         ┆ android  ┆ no address       ┆      ┆ 2026-01-02T03:04:05Z │\n\
         │ a         ┆ android  ┆ push_disabled    ┆      ┆ 2026-01-02T03:04:05Z │\n\
         │ a         ┆ chatapp  ┆ enabled          ┆      ┆ 2026-01-02T03:04:05Z │\n\
         │ a         ┆ web      ┆ enabled          ┆      ┆ 2026-01-02T03:04:05Z │\n\
         │ a         ┆ android  ┆ enabled          ┆      ┆ 2026-01-02T03:04:05Z │\n\
         │ a         ┆ android  ┆ unusable address ┆      ┆ 2026-01-02T03:04:05Z │\n\
         └───────────┴──────────┴──────────────────┴──────┴──────────────────────┘\n"
    );
    let export = fixture.run(&["devices", "export"]);
    let refused = "the key lacks the scope `devices`, so the file would have no addresses";
    assert!(export.status == 2 && export.stderr.contains(refused), "{export:?}");
    let fixture = Fixture::with_body(without(json!({"push_token": null}))).await;
    let shown = fixture.run(&["devices", "get", "a", "-o", "table"]).assert_success().stdout;
    assert!(shown.contains("no address") && !shown.contains("enabled"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn users_and_segments_are_printed_as_tables() {
    let user = |id: &str, attributes: serde_json::Value, devices: serde_json::Value| {
        json!({ "user_id": id, "attributes": attributes, "devices": devices, "created_at": 1,
            "updated_at": 1_767_323_045_000_i64 })
    };
    let device =
        |id: &str, enabled: bool| json!({ "device_id": id, "platform": "ios", "enabled": enabled });
    let first = user(
        "user-7",
        json!({ "note": "x\u{1b}\n", "plan": "pro", "seats": 3, "trial": true, "zip": "10115" }),
        json!([device("a", true), device("b", false)]),
    );
    let users = json!({ "users": [first, user("user-8", json!({}), json!([]))],
        "next_cursor": null });
    let fixture = Fixture::with_body(users).await;
    assert_eq!(
        fixture.run(&["users", "list", "-o", "table"]).assert_success().stdout,
        "┌─────────┬────────────────┬───────────────────┬──────────────────────┐\n\
         │ user_id ┆ attributes     ┆ devices           ┆ updated_at           │\n\
         ╞═════════╪════════════════╪═══════════════════╪══════════════════════╡\n\
         │ user-7  ┆ note=x\\u{1b}\\n ┆ a (ios)           ┆ 2026-01-02T03:04:05Z │\n\
         │         ┆ plan=pro       ┆ b (ios, disabled) ┆                      │\n\
         │         ┆ seats=3        ┆                   ┆                      │\n\
         │         ┆ trial=true     ┆                   ┆                      │\n\
         │         ┆ zip=\"10115\"    ┆                   ┆                      │\n\
         │ user-8  ┆                ┆                   ┆ 2026-01-02T03:04:05Z │\n\
         └─────────┴────────────────┴───────────────────┴──────────────────────┘\n"
    );
    let fixture = Fixture::with_body(first).await;
    let shown = fixture.run(&["users", "get", "user-7", "-o", "table"]).assert_success().stdout;
    assert!(shown.contains("│ attributes ┆ note=x"), "{shown}");
    let csv = fixture.run(&["users", "get", "user-7", "-o", "csv"]).assert_success().stdout;
    assert!(csv.contains(r#""plan"":""pro"",""seats"":3,"#), "{csv}");

    let audience = json!({ "all": [{"field": "language", "in": ["de", "fr"]},
        {"not": {"attribute": "zip", "is": "10115"}}] });
    let fixture = Fixture::with_body(json!({ "name": "fans", "audience": audience,
        "created_at": 1_767_323_045_000_i64, "updated_at": 1_767_323_045_000_i64 }))
    .await;
    assert_eq!(
        fixture.run(&["segments", "get", "fans", "-o", "table"]).assert_success().stdout,
        "┌────────────┬────────────────────────────────────────────┐\n\
         │ name       ┆ fans                                       │\n\
         │ audience   ┆ language in (de, fr) and not zip = \"10115\" │\n\
         │ created_at ┆ 2026-01-02T03:04:05Z                       │\n\
         │ updated_at ┆ 2026-01-02T03:04:05Z                       │\n\
         └────────────┴────────────────────────────────────────────┘\n"
    );
    let sizes = json!({ "platforms": [
        {"platform": "android", "devices": 12_000, "exact": false},
        {"platform": "ios", "devices": 7, "exact": true},
    ] });
    let fixture = Fixture::with_body(sizes).await;
    let run = fixture.run(&["segments", "preview", "tag = vip", "-o", "table"]);
    assert_eq!(
        (run.status, run.stdout.as_str(), run.stderr.as_str()),
        (
            0,
            "┌──────────┬─────────┬───────┐\n\
             │ platform ┆ devices ┆ exact │\n\
             ╞══════════╪═════════╪═══════╡\n\
             │ android  ┆ 12000   ┆ false │\n\
             │ ios      ┆ 7       ┆ true  │\n\
             └──────────┴─────────┴───────┘\n",
            "about 12007 in all\n",
        )
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_has_its_user_and_attributes_in_a_table() {
    let mut with_user = device("a");
    with_user["user_id"] = json!("user-7");
    with_user["attributes"] = json!({ "plan": "pro", "score": 0.5 });
    let fixture = Fixture::with_body(with_user).await;
    let shown = fixture.run(&["devices", "get", "a", "-o", "table"]).assert_success().stdout;
    let lines: Vec<_> = shown.lines().map(|line| line.replace(' ', "")).collect();
    let at = lines.iter().position(|line| line.starts_with("│user_id")).unwrap();
    assert_eq!(lines[at..at + 3], ["│user_id┆user-7│", "│attributes┆plan=pro│", "│┆score=0.5│"]);
    let fixture = Fixture::with_body(device("a")).await;
    let shown = fixture.run(&["devices", "get", "a", "-o", "table"]).assert_success().stdout;
    assert!(!shown.contains("user_id") && !shown.contains("attributes"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notification_has_its_users_and_audience_in_a_table() {
    let counts = json!({ "targeted": 1, "sent": 1, "failed": 0, "unregistered": 0, "expired": 0,
        "canceled": 0, "pending": 0, "unknown": 1, "excluded": 0 });
    let notification = json!({
        "id": "n", "status": "completed", "origin": "created", "created_at": 1, "send_at": 1,
        "started_at": 1, "completed_at": 2, "request": {"text": "Hi"}, "counts": counts,
        "by_platform": [], "failures": [],
        "audience": {"any": [{"tag": "vip"}, {"field": "last_active_at", "within_days": 30}]},
        "users": {"named": 3, "reached": 1, "unreached": 1, "pending": 0, "unknown": 1},
        "engagement": {"received": 0, "opened": 0, "clicked": 0, "dismissed": 0},
    });
    let fixture = Fixture::with_body(notification).await;
    let shown = fixture.run(&["notifications", "get", "n", "-o", "table"]).assert_success().stdout;
    for (name, value) in [
        ("audience", "tag = vip or last_active_at within 30 days"),
        ("users_named", "3"),
        ("users_reached", "1"),
        ("users_unreached", "1"),
        ("users_unknown", "1"),
    ] {
        let is_shown = shown.lines().any(|line| {
            let cells = line.trim_matches('│').split_once('┆');
            cells.is_some_and(|(left, right)| left.trim() == name && right.trim() == value)
        });
        assert!(is_shown, "{name}: {shown}");
    }
    assert!(!shown.contains("users_pending"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_without_its_configuration_is_marked() {
    let provider =
        json!({ "provider": "fcm", "config": null, "updated_at": 1_767_323_045_000_i64 });
    let fixture = Fixture::with_responses(vec![
        response(200, &json!({ "providers": [provider] })),
        response(200, &provider),
    ])
    .await;
    for action in ["list", "get fcm"] {
        let line = format!("providers {action} --app {ID} -o table");
        let run = fixture.run(&line.split_whitespace().collect::<Vec<_>>()).assert_success();
        assert!(run.stdout.contains("┆ (forgotten)"), "{run:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_are_on_separate_lines() {
    let record = json!({ "id": "n", "failures": [
        {"platform": "ios", "reason": "provider_not_configured", "count": 12},
        {"platform": "android", "reason": "a\u{1b}[2J", "count": 1},
    ] });
    let counts = json!({ "targeted": 13, "sent": 0, "failed": 13, "unregistered": 0, "expired": 0,
        "canceled": 0, "pending": 0, "unknown": 0, "excluded": 0 });
    let mut notification = json!({
        "status": "completed", "origin": "created", "created_at": 1, "send_at": 1,
        "started_at": 1, "completed_at": 2, "request": {"text": "Hi"}, "counts": counts,
        "by_platform": [], "engagement": {"received": 0, "opened": 0, "clicked": 0, "dismissed": 0},
    });
    notification.as_object_mut().unwrap().extend(record.as_object().unwrap().clone());
    let fixture = Fixture::with_body(notification).await;
    let run = fixture.run(&["notifications", "get", "n", "-o", "table"]).assert_success();
    let lines: Vec<_> = run.stdout.lines().map(|line| line.replace(' ', "")).collect();
    let at = lines.iter().position(|line| line.starts_with("│failures")).unwrap();
    assert_eq!(
        lines[at..at + 2],
        ["│failures┆12ios:provider_not_configured│", "│┆1android:a\\u{1b}[2J│"]
    );
}

/// The problems of a feed are printed separately from its items.
#[tokio::test(flavor = "multi_thread")]
async fn a_checked_feed_shows_its_items_and_problems() {
    let item = json!({ "title": "T", "url": "https://e/1", "image_url": null,
        "published_at": null });
    let checked = json!({ "status": "ok", "count": 1, "items": [item],
        "problems": ["1 of 1 items have no image"] });
    let fixture = Fixture::with_body(checked).await;
    let run = fixture.run(&["feeds", "check", "https://e/rss", "-o", "table"]);
    assert_eq!((run.status, run.stderr.as_str()), (0, "1 of 1 items have no image\n"));
    assert!(run.stdout.contains("https://e/1"), "{}", run.stdout);
    fixture.run(&["feeds", "check", "https://e/rss"]).assert_success();
    let failing =
        json!({ "status": "failing", "count": 0, "items": [], "problems": ["it is no feed"] });
    let failing = Fixture::with_body(failing).await;
    let run = failing.run(&["feeds", "check", "https://e/rss"]);
    assert_eq!((run.status, run.stderr.as_str()), (1, "error: the feed cannot be used\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn csv_is_quoted_and_has_no_formulas() {
    let fixture = Fixture::with_body(page(&["=cmd|'/c calc'!A0", "a\"b,c"], None)).await;
    let run = fixture.run(&["devices", "list", "-o", "csv"]).assert_success();
    let mut rows = csv::ReaderBuilder::new().from_reader(run.stdout.as_bytes());
    assert!(run.stdout.starts_with("\"device_id\",\"platform\",\"sdk_type\",\"push_token\""));
    assert!(run.stdout.contains("\r\n\"'=cmd|'/c calc'!A0\",\"android\",\"android_push\",\"'-t\""));
    let header = rows.headers().unwrap().clone();
    let created = header.iter().position(|name| name == "created_at").unwrap();
    let rows: Vec<_> = rows.records().map(Result::unwrap).collect();
    assert_eq!(&rows[1][0], "a\"b,c");
    assert_eq!(&rows[1][created], "2026-01-02T03:04:05Z");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_listing_has_the_form_of_a_page() {
    for (form, expect) in [("json", "{\"devices\": ["), ("csv", "\"device_id\"")] {
        let fixture = Fixture::with_responses(vec![
            response(200, &page(&["a", "b"], Some("two"))),
            response(200, &page(&["c"], None)),
        ])
        .await;
        let run = fixture.run(&["devices", "list", "--all", "-o", form]).assert_success();
        assert!(run.stdout.starts_with(expect), "{run:?}");
        if form == "json" {
            assert_eq!(
                run.json(),
                json!({ "devices": [device("a"), device("b"), device("c")], "next_cursor": null })
            );
        } else {
            assert_eq!(run.stdout.lines().count(), 4);
        }
        let lines: Vec<_> = fixture.received().await.into_iter().map(|(line, _)| line).collect();
        assert_eq!(lines, ["GET /v1/devices?limit=500", "GET /v1/devices?limit=500&cursor=two"]);
    }
}

/// A program such as `head -1` closes the pipe early.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_closed_pipe_is_not_a_failure() {
    for args in [
        vec!["devices", "list", "-o", "csv"],
        vec!["devices", "list", "--all", "-o", "csv"],
        vec!["devices", "list", "--all", "-o", "json"],
        vec!["devices", "list", "--all", "-o", "table"],
        vec!["devices", "export"],
        vec!["devices", "export", "--format", "csv"],
        vec!["devices", "get", "a"],
    ] {
        let ids: Vec<String> = (0..1_000).map(|number| number.to_string()).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let is_one = args.contains(&"get");
        let body = if is_one { device("a") } else { page(&ids, None) };
        let fixture = Fixture::with_body(body).await;
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_notify"))
            .args(&args)
            .env_clear()
            .env("HOME", fixture.home.path())
            .env("NOTIFY_URL", fixture.server.uri())
            .env("NOTIFY_API_KEY", "nk_test")
            .stdout(writer)
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap()
            .wait_with_output()
            .unwrap();
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "", "{args:?}");
        assert_eq!(output.status.code(), Some(0), "{args:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_error_has_its_exit_status() {
    let send = ["send", "--text", "Hi", "--platform", "ios", "--retries", "0"];
    for (status, texts, exit, stderr) in [
        (400, vec!["text: a", "url: b\u{1b}[2J"], 3, "error: text: a\nerror: url: b\\u{1b}[2J\n"),
        (
            401,
            vec!["missing or invalid API key"],
            4,
            "error: not authorised: missing or invalid API key; does the key belong to SERVER \
             and its data folder, and is its application active?\n",
        ),
        (
            401,
            vec!["the API key has expired: use its successor, or create another one"],
            4,
            "error: not authorised: the API key has expired: use its successor, or create another one\n",
        ),
        (
            404,
            vec!["not found"],
            5,
            "error: not found: SERVER has no endpoint POST /v1/notifications; is it older than this \
             command?\n",
        ),
        (429, vec!["slow down"], 6, "error: slow down\n"),
        (
            500,
            vec!["internal error"],
            6,
            "error: the server failed with status 500: internal error (request req-1)\n",
        ),
    ] {
        let fixture = Fixture::with_responses(vec![response(status, &errors(&texts))]).await;
        let run = fixture.run(&send);
        assert_eq!((run.status, run.stdout.as_str()), (exit, ""), "{status}");
        assert_eq!(run.stderr, stderr.replace("SERVER", &fixture.server.uri()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admin_api_that_is_not_at_the_address_is_suspected_elsewhere() {
    let fixture = Fixture::with_responses(vec![response(404, &errors(&["not found"]))]).await;
    let run = fixture.run(&["apps", "list"]);
    assert_eq!(run.status, 5);
    let expected = "error: not found: SERVER has no endpoint GET /admin/v1/apps; does it have an address of \
                    its own for the admin API (--admin-listen)?\n";
    assert_eq!(run.stderr, expected.replace("SERVER", &fixture.server.uri()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_id_is_printed() {
    for (line, text) in [
        ("notifications get x", "no notification has the id `x`"),
        ("notifications deliveries x", "no notification has the id `x`"),
        ("notifications cancel x", "no notification has the id `x`"),
        ("notifications pause x", "no notification has the id `x`"),
        ("notifications resume x", "no notification has the id `x`"),
        ("watch x", "no notification has the id `x`"),
        ("explain x d", "no notification has the id `x`"),
        ("devices get d", "no device has the id `d`"),
        ("devices delete d --yes", "no device has the id `d`"),
        ("devices tag d vip", "no device has the id `d`"),
    ] {
        let fixture =
            Fixture::with_responses(vec![response(404, &errors(&["not found"])); 2]).await;
        let run = fixture.run(&line.split_whitespace().collect::<Vec<_>>());
        let stderr = format!("error: not found: {text}\n");
        assert_eq!((run.status, run.stderr.as_str()), (5, stderr.as_str()), "{line}");
    }
}

/// A 404 may be caused by a wrong path in the address of the server, so the message mentions the path. It does
/// not if the command sent no request.
#[tokio::test(flavor = "multi_thread")]
async fn a_404_below_a_path_prints_the_path() {
    for (line, text) in [
        (
            "tags list",
            "SERVER/foo has no endpoint GET /foo/v1/tags; is `/foo` part of its address?",
        ),
        (
            "devices get d",
            "no device has the id `d`; is `/foo` part of the server's address? --server changes it",
        ),
        ("webhooks test spring", "no webhook has the id `spring`"),
    ] {
        let fixture = Fixture::with_responses(vec![response(404, &errors(&["not found"]))]).await;
        let server = format!("{}/foo", fixture.server.uri());
        let args: Vec<&str> = line.split_whitespace().chain(["--server", &server]).collect();
        let run = fixture.run(&args);
        let stderr = format!("error: not found: {text}\n").replace("SERVER", &fixture.server.uri());
        assert_eq!((run.status, run.stderr), (5, stderr), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreachable_server_is_printed_and_exits_with_six() {
    let fixture = Fixture::new().await;
    let address = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let server = format!("http://{address}");
    let args = ["tags", "list", "--retries", "0", "--server", server.as_str()];
    let run = fixture.run(&args);
    assert_eq!(run.status, 6);
    let start = format!("error: cannot connect to {server}: Connection refused (os error");
    let end = "; is the server running? NOTIFY_URL, --server or a profile sets its address\n";
    assert!(run.stderr.starts_with(&start) && run.stderr.ends_with(end), "{run:?}");
    assert_eq!(run.stderr.lines().count(), 1, "no stack trace: {run:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_response_prints_the_server() {
    let late = response(200, &json!({})).set_delay(std::time::Duration::from_secs(60));
    let page = wiremock::ResponseTemplate::new(200).set_body_string("<html>Hello</html>");
    for (reply, start, end) in [
        (late, "SERVER did not answer in time", "--timeout SECONDS waits longer"),
        (page, "the response with status 200 cannot be decoded: ", "is SERVER a Notify server?"),
    ] {
        let fixture = Fixture::with_responses(vec![reply]).await;
        let run = fixture.run(&["tags", "list", "--retries", "0", "--timeout", "1"]);
        let with_server = |text: &str| text.replace("SERVER", &fixture.server.uri());
        assert_eq!(run.status, 6, "{run:?}");
        assert!(run.stderr.starts_with(&with_server(&format!("error: {start}"))), "{run:?}");
        assert!(run.stderr.ends_with(&with_server(&format!("; {end}\n"))), "{run:?}");
        assert_eq!(run.stderr.lines().count(), 1, "no stack trace: {run:?}");
    }
}

/// The address may be that of the sandbox, or of any other server that speaks HTTP.
#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_server_is_recognised() {
    for (status, text) in [
        (401, "not authorised: no such path"),
        (404, "GET /v1/tags: no such path"),
        (405, "no such path"),
        (500, "the server failed with status 500: no such path"),
    ] {
        let reply =
            wiremock::ResponseTemplate::new(status).set_body_json(errors(&["no such path"]));
        let fixture = Fixture::with_responses(vec![reply]).await;
        let run = fixture.run(&["tags", "list", "--retries", "0"]);
        let server = fixture.server.uri();
        let stderr = format!("error: {text}; is {server} a Notify server?\n");
        assert_eq!((run.status, run.stderr), (6, stderr));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_with_a_path_of_the_api_is_an_error() {
    let fixture = Fixture::new().await;
    let server = fixture.server.uri();
    for path in ["/v1", "/v1/", "/admin/v1", "/admin", "/docs"] {
        let run = fixture.run(&["tags", "list", "--server", &format!("{server}{path}")]);
        let path = path.trim_end_matches('/');
        let stderr = format!(
            "error: {server}{path} is not the address of a Notify server: remove `{path}` \
             ({server}), the command adds it\n"
        );
        assert_eq!((run.status, run.stderr), (6, stderr));
    }
    assert!(fixture.requests().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_the_other_kind_is_an_error() {
    let fixture = Fixture::new().await;
    let mut command = fixture.command(&["tags", "list"]);
    command.env("NOTIFY_API_KEY", "na_admins");
    let run = finish(command);
    let stderr = "error: the API key begins with `na_`: that is an admin key; an API key begins with \
        `nk_`: set NOTIFY_API_KEY or the API key of the profile\n";
    assert_eq!((run.status, run.stderr.as_str()), (4, stderr));
    assert!(fixture.requests().await.is_empty());
}

/// The error contains the reason, and not only that the check failed.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_check_prints_the_reason() {
    let checked = json!({ "ok": false, "detail": "the credentials are refused: invalid_grant" });
    let fixture = Fixture::with_body(checked).await;
    let run = fixture.run(&["providers", "test", "fcm", "--app", ID]);
    let stderr = "error: fcm: the credentials are refused: invalid_grant\n";
    assert_eq!((run.status, run.stderr.as_str()), (1, stderr));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wrong_scheme_is_recognised() {
    let fixture = Fixture::with_body(json!({})).await;
    let server = fixture.server.uri().replace("http:", "https:");
    let run = fixture.run(&["tags", "list", "--retries", "0", "--server", &server]);
    let text =
        format!("cannot connect to {server}: the server does not use TLS; does it serve http://?");
    assert_eq!((run.status, run.stderr), (6, format!("error: {text}\n")));

    // A TLS server responds with an alert to a request that is not a handshake (RFC 8446, section 6).
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let alerting = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        let read = stream.read(&mut [0; 4_096]).unwrap();
        assert_ne!(read, 0, "a request");
        stream.write_all(&[0x15, 3, 3, 0, 2, 2, 10]).unwrap();
    });
    let run = fixture.run(&["tags", "list", "--retries", "0", "--server", &server]);
    alerting.join().unwrap();
    assert_eq!(run.status, 6, "{run:?}");
    assert!(run.stderr.ends_with("; does it serve https://?\n"), "{run:?}");
}

/// Each message contains the mistake and its remedy. No request is sent.
#[tokio::test(flavor = "multi_thread")]
async fn wrong_usage_prints_a_hint() {
    let fixture = Fixture::with_body(json!({})).await;
    fixture.file("empty.json", "");
    fixture.file("AuthKey.p8", "-----BEGIN PRIVATE KEY-----\nsecret\n-----END PRIVATE KEY-----\n");
    fixture.file("google.json", r#"{"project_info": {}, "client": []}"#);
    fixture.file("other.json", r#"{"private_key": "secret"}"#);
    let target = "error: no target: give --platform PLATFORM (android, ios, web, fb-messenger, \
        chatapp or all; several as in --platform android --platform ios), --device ID, --user ID, \
        --android-device ID or --ios-device ID\n";
    for (line, remedy) in [
        ("send --text Hi --tag vip", "error: no target: --tag only restricts one; give --platform"),
        ("send --text Hi", target),
        ("send --text Hi --audience user", "--audience only restricts one; give --platform"),
        ("send --text Hi --segment vip", "--segment only restricts one; give --platform"),
        (
            "send --text Hi --tag vip --segment vip",
            "error: no target: --segment and --tag only restrict one; give --platform",
        ),
        (
            "send --platform ios",
            "no text: give --text TEXT, --poll QUESTION for a poll, or --silent",
        ),
        (
            "send --text Hi --platform android,ios",
            "tip: `send` and `report` take each platform separately: --platform android \
             --platform ios",
        ),
        (
            "tail --type foo",
            "error: --type: unknown type `foo`: give one of notification.completed, \
             notification.failed, notification.paused, device.unregistered, poll.answered, \
             engagement.opened, engagement.clicked\n",
        ),
        (
            "explain {\"id\":\"x\"} d",
            "error: notification: this is a JSON object, not an id; `jq -r .id` extracts the id of a \
             result\n",
        ),
        ("send Hello", "tip: give the text with --text 'Hello'"),
        (
            "send --platform ios it's",
            "--text 'it'\\''s'; --android-title sets the title on Android",
        ),
        ("report --id r --platform ios Hello", "--text 'Hello'"),
        ("send --tag vip", "error: no target: --tag only restricts one; give --platform"),
        (
            "send --text Hi --platform ios --at 1767323045",
            "looks like seconds: give unix milliseconds (1767323045000)",
        ),
        ("send --text Hi --platform ios --at tomorrow", "a span from now like `+10m`"),
        (
            "statistics devices --from 1767323045",
            "looks like seconds: give unix milliseconds (1767323045000)",
        ),
        ("send --file -", "error: standard input is empty: `-` reads what is piped in\n"),
        ("providers put fcm -", "error: standard input is empty: `-` reads what is piped in\n"),
        ("campaigns create empty.json", "error: empty.json: is empty\n"),
        ("providers put fcm AuthKey.p8", "expects Google's service account JSON as downloaded"),
        ("providers put fcm google.json", "google.json is the configuration of the app"),
        ("providers put fcm other.json", "expects Google's service account JSON as downloaded"),
        ("tags list --server localhost:8080", "must begin with http:// or https://\n"),
    ] {
        let run = fixture.run(&line.split_whitespace().collect::<Vec<_>>());
        assert_eq!((run.status, run.stdout.as_str()), (2, ""), "{line}: {run:?}");
        assert!(run.stderr.contains(remedy), "{line}: {run:?}");
        assert!(!run.stderr.contains("secret"), "{line}: {run:?}");
    }
    assert!(fixture.requests().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_usage_of_users_and_segments_prints_a_hint() {
    let fixture = Fixture::with_body(json!({})).await;
    for (line, remedy) in [
        ("users set u plan", "must be NAME=VALUE"),
        ("users set u plan=\"x", "the quotes are not closed"),
        ("users set u plan=x --attribute plan=y", "error: the attribute `plan` is given twice\n"),
        (
            "devices attributes d plan=x --remove plan",
            "error: the attribute `plan` is given twice\n",
        ),
        ("devices attributes d", "NAME=VALUE"),
        ("segments set vip", "<AUDIENCE>"),
        ("segments set vip user --file a.json", "--file"),
        ("notifications users n --state lost", "reached, unreached, pending, unknown"),
    ] {
        let run = fixture.run(&line.split_whitespace().collect::<Vec<_>>());
        assert_eq!((run.status, run.stdout.as_str()), (2, ""), "{line}: {run:?}");
        assert!(run.stderr.contains(remedy), "{line}: {run:?}");
    }
    assert!(fixture.requests().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_request_exits_with_three_and_is_not_sent() {
    let fixture = Fixture::with_body(json!({ "id": ID })).await;
    fixture.file("empty.json", r#"{"text": "Hi", "platforms": ["ios"], "ios_device_ids": []}"#);
    let run = fixture.run(&["send", "--file", "empty.json"]);
    assert_eq!(run.status, 3, "{run:?}");
    fixture.file("typo.json", r#"{"text": "Hi", "platforms": ["ios"], "tag": ["vip"]}"#);
    let run = fixture.run(&["send", "--file", "typo.json"]);
    assert_eq!(run.status, 3);
    assert!(run.stderr.contains("tag: unknown field, did you mean `tags`?"), "{run:?}");
    assert!(fixture.requests().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_usage_exits_with_two() {
    let fixture = Fixture::with_body(json!({})).await;
    for line in [
        "",
        "nonsense",
        "send --text Hi",
        "send --platform ios",
        "send --text Hi --platform windows",
        "send --text Hi --ios-device",
        "send --file a.json --text Hi",
        "send --file absent.json",
        "send --text Hi --platform ios --send-at tomorrow",
        "apps update 1",
        "devices tag a",
        "devices import devices.txt",
        "tags list --server ftp://a",
        "tags list --server http://a --profile b",
        "tags list --profile absent",
    ] {
        let run = fixture.run(&line.split_whitespace().collect::<Vec<_>>());
        assert_eq!((run.status, run.stdout.as_str()), (2, ""), "{line}: {run:?}");
        assert!(!run.stderr.is_empty(), "{line}");
    }
    let run = finish(fixture.offline(&["tags", "list"]));
    assert_eq!(run.status, 2);
    assert_eq!(run.stderr, "error: no API key: set NOTIFY_API_KEY or store one in a profile\n");
    assert!(fixture.requests().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_id_is_unknown() {
    let fixture = Fixture::with_body(json!({})).await;
    let run = fixture.run(&["webhooks", "test", "spring"]);
    assert_eq!(
        (run.status, run.stderr.as_str()),
        (5, "error: not found: no webhook has the id `spring`\n")
    );
    assert!(fixture.requests().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_known_enrichment_is_not_printed_again() {
    let fixture = Fixture::with_responses(vec![wiremock::ResponseTemplate::new(304)]).await;
    let run = fixture.run(&[
        "enrichments",
        "get",
        "default",
        "--device",
        "d",
        "--if-none-match",
        "\"v1\"",
    ]);
    assert_eq!((run.status, run.stdout.as_str(), run.stderr.as_str()), (0, "", "not modified\n"));
    assert_eq!(fixture.received().await[0].0, "GET /v1/enrichments/default?device_id=d");
    assert_eq!(fixture.requests().await[0].headers["if-none-match"], "\"v1\"");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_pipe_exits_with_zero() {
    let many: Vec<String> = (0..1_000).map(|n| format!("device-{n}-{}", "x".repeat(200))).collect();
    let ids: Vec<&str> = many.iter().map(String::as_str).collect();
    let fixture = Fixture::with_body(page(&ids, None)).await;
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_notify"))
        .args(["devices", "list"])
        .env_clear()
        .env("HOME", fixture.home.path())
        .env("NOTIFY_URL", fixture.server.uri())
        .env("NOTIFY_API_KEY", "nk_test")
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), b"".as_slice()));
}

#[tokio::test(flavor = "multi_thread")]
async fn help_lists_the_environment_variables() {
    let fixture = Fixture::new().await;
    let help = finish(fixture.offline(&["--help"])).assert_success().stdout;
    for name in [
        "NOTIFY_URL",
        "NOTIFY_API_KEY",
        "NOTIFY_ADMIN_KEY",
        "NOTIFY_PROFILE",
        "NOTIFY_CA_CERTIFICATE",
        "NO_COLOR",
    ] {
        assert!(help.contains(name), "{name}");
    }
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let run = finish(fixture.offline(&["completions", shell])).assert_success();
        assert!(run.stdout.contains("devices"), "{shell}");
    }
}

/// A proxy takes no part in calls of this machine, and errors of all other calls name it, without its credentials.
#[tokio::test(flavor = "multi_thread")]
async fn errors_name_the_proxy_and_it_is_never_used_for_this_machine() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = listener.local_addr().unwrap();
    drop(listener);
    let proxy_url = format!("http://ada:geheim@{closed}");
    let with_proxy = |fixture: &Fixture, server: Option<&str>, url: &str| {
        let mut command = fixture.command(&["--retries", "0", "devices", "get", "a"]);
        command.env("HTTP_PROXY", url).env("HTTPS_PROXY", url);
        if let Some(server) = server {
            command.env("NOTIFY_URL", server);
        }
        finish(command)
    };
    let fixture = Fixture::with_body(json!({ "id": "a" })).await;
    with_proxy(&fixture, None, &proxy_url);
    assert_eq!(fixture.requests().await.len(), 1, "the server on this machine was asked");

    for server in ["http://push.example", "https://push.example"] {
        let run = with_proxy(&fixture, Some(server), &proxy_url);
        let begin = format!("error: cannot connect to {server} (through the proxy {closed}): ");
        assert!(run.stderr.starts_with(&begin), "{}", run.stderr);
        assert!(
            run.stderr.contains("NO_PROXY") && !run.stderr.contains("geheim"),
            "{}",
            run.stderr
        );
    }

    // The proxy itself answers.
    let refusing = Fixture::with_responses(vec![wiremock::ResponseTemplate::new(407)]).await;
    let run = with_proxy(&fixture, Some("http://push.example"), &refusing.server.uri());
    let proxy = refusing.server.address();
    assert!(run.stderr.contains("status 407"), "{}", run.stderr);
    assert!(run.stderr.contains(&format!("did the proxy {proxy} answer")), "{}", run.stderr);
}
