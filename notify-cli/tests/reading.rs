//! Looking at notifications: previews, deliveries, explanations, and watching one to its end.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Bench, ID, answer};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn a_preview_asks_for_no_more_than_a_preview() {
    let preview = json!({"platforms": [{"platform": "android", "devices": 3,
        "payload": {"message": {"token": "device-token"}}, "headers": {"content-type": "a"},
        "bytes": 44, "limit": 4096, "problems": ["one thing", "another"]}]});
    let bench = Bench::answering(preview.clone()).await;
    let args = ["send", "--preview", "--text", "Hi", "--platform", "android"];
    let run = bench.run(&args).quiet();
    assert_eq!(run.json(), preview);
    let asked = bench.asked().await;
    let body = json!({"text": "Hi", "platforms": ["android"]});
    assert_eq!(asked, [("POST /v1/notifications/preview".to_owned(), Some(body))]);
    let table = bench.run(&[&args[..], &["-o", "table"]].concat()).quiet().stdout;
    assert!(table.contains("one thing") && table.contains("another"), "{table}");
    assert_eq!(bench.run(&[&args[..], &["--idempotency-key", "k"]].concat()).status, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_are_listed_by_outcome_to_the_end() {
    let delivery = |device: Option<&str>| {
        json!({"device_id": device, "platform": "ios", "outcome": "failed", "reason": "BadTopic",
            "attempts": 1, "provider_message_id": null, "at": 1_767_323_045_000_i64,
            "next_attempt_at": null})
    };
    let page = |device, cursor: Option<&str>| {
        answer(200, &json!({"deliveries": [delivery(device)], "next_cursor": cursor}))
    };
    let bench = Bench::giving(vec![page(Some("a"), Some("next")), page(None, None)]).await;
    let list = ["notifications", "deliveries", ID, "--outcome", "failed", "--all"];
    let run = bench.run(&list).quiet();
    assert_eq!(run.json(), json!([delivery(Some("a")), delivery(None)]));
    let path = format!("GET /v1/notifications/{ID}/deliveries?limit=500&outcome=failed");
    let asked: Vec<String> = bench.asked().await.into_iter().map(|(path, _)| path).collect();
    assert_eq!(asked, [path.clone(), format!("{path}&cursor=next")]);
    assert_eq!(bench.run(&["notifications", "deliveries", ID, "--outcome", "lost"]).status, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_explanation_reads_from_top_to_bottom() {
    let told = json!({"device_id": "pixel/7", "outcome": "not_targeted", "steps": [
        {"at": 1_767_323_045_000_i64, "what": "accepted", "detail": "accepted"},
        {"at": null, "what": "lacks_tag", "detail": "does not have the tag"}]});
    let bench = Bench::answering(told.clone()).await;
    assert_eq!(bench.run(&["explain", ID, "pixel/7"]).quiet().json(), told);
    let path = format!("GET /v1/notifications/{ID}/explain/pixel%2F7");
    assert_eq!(bench.asked().await, [(path, None)]);
    let table = bench.run(&["explain", ID, "pixel/7", "-o", "table"]).quiet().stdout;
    assert_eq!(
        table,
        "pixel/7: not_targeted\n\
         ┌──────────────────────┬───────────┬───────────────────────┐\n\
         │ at                   ┆ what      ┆ detail                │\n\
         ╞══════════════════════╪═══════════╪═══════════════════════╡\n\
         │ 2026-01-02T03:04:05Z ┆ accepted  ┆ accepted              │\n\
         │ now                  ┆ lacks_tag ┆ does not have the tag │\n\
         └──────────────────────┴───────────┴───────────────────────┘\n"
    );
}

/// A notification with so many sent, failed, unregistered, expired, canceled and pending.
fn record(status: &str, counts: [u64; 6]) -> Value {
    let [sent, failed, unregistered, expired, canceled, pending] = counts;
    let reason = json!({"platform": "ios", "reason": "BadTopic", "count": failed});
    json!({"id": ID, "status": status, "origin": "created", "created_at": 1, "send_at": 2,
        "started_at": null, "completed_at": null, "request": {"text": "hi"}, "by_platform": [],
        "counts": {"targeted": counts.iter().sum::<u64>(), "sent": sent, "failed": failed,
            "unregistered": unregistered, "expired": expired, "canceled": canceled,
            "pending": pending, "unknown": 0, "excluded": 0},
        "failures": if failed > 0 { json!([reason]) } else { json!([]) },
        "engagement": {"received": 0, "opened": 0, "clicked": 0, "dismissed": 0}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_ends_with_a_status_that_tells() {
    let rows = [
        ("completed", [3, 0, 0, 0, 0, 0], 0, "completed: 3 of 3 sent"),
        ("completed", [2, 0, 1, 0, 0, 0], 0, "completed: 2 of 3 sent, 1 unregistered"),
        (
            "completed",
            [1, 1, 0, 1, 0, 0],
            1,
            "completed: 1 of 3 sent, 1 failed, 1 expired (most often BadTopic on ios)",
        ),
        ("canceled", [1, 0, 0, 0, 2, 0], 1, "canceled: 1 of 3 sent, 2 canceled"),
        ("canceled", [0; 6], 1, "canceled"),
        ("reported", [0; 6], 0, "reported: 0 of 0 sent"),
    ];
    for (status, counts, exit, line) in rows {
        let last = record(status, counts);
        let answers = [
            record("scheduled", [0; 6]),
            record("sending", [1, 0, 0, 0, 0, 2]),
            record("sending", [1, 0, 0, 0, 0, 2]),
            last.clone(),
        ];
        let bench = Bench::giving(answers.iter().map(|body| answer(200, body)).collect()).await;
        let run = bench.run(&["watch", ID, "--every", "0.05"]);
        assert_eq!((run.status, run.json()), (exit, last), "{run:?}");
        let lines: Vec<&str> = run.stderr.lines().collect();
        assert_eq!(lines[0], "scheduled for 1970-01-01T00:00:00Z");
        assert!(lines[1].starts_with("sending: 1 of 3 sent, 2 pending ("), "{lines:?}");
        // What stands still is said once.
        assert_eq!((lines[2], lines.len()), (line, 3 + usize::from(exit == 1)), "{lines:?}");
        if exit == 1 {
            let error = match counts {
                [0, 0, 0, 0, 0, 0] => "error: canceled before anything was sent",
                _ => "error: it ended with ",
            };
            assert!(lines[3].starts_with(error), "{lines:?}");
        }
    }
    let bench = Bench::giving(vec![answer(404, &json!({"errors": ["not found"]}))]).await;
    assert_eq!(bench.run(&["watch", ID]).status, 5);
    assert_eq!(bench.run(&["watch", ID, "--every", "0"]).status, 2);
}
