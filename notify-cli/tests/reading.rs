//! Previews, deliveries, explanations, and `watch`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{Fixture, ID, response};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn a_preview_sends_one_request() {
    let preview = json!({"platforms": [{"platform": "android", "devices": 3,
        "payload": {"message": {"token": "device-token"}}, "headers": {"content-type": "a"},
        "bytes": 44, "limit": 4096, "problems": ["one thing", "another"]}]});
    let fixture = Fixture::with_body(preview.clone()).await;
    let args = ["send", "--preview", "--text", "Hi", "--platform", "android"];
    let run = fixture.run(&args).assert_success();
    assert_eq!(run.json(), preview);
    let requests = fixture.received().await;
    let body = json!({"text": "Hi", "platforms": ["android"]});
    assert_eq!(requests, [("POST /v1/notifications/preview".to_owned(), Some(body))]);
    let table = fixture.run(&[&args[..], &["-o", "table"]].concat()).assert_success().stdout;
    assert!(table.contains("one thing") && table.contains("another"), "{table}");
    assert_eq!(fixture.run(&[&args[..], &["--idempotency-key", "k"]].concat()).status, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_deliveries_with_an_outcome_are_listed() {
    let delivery = |device: Option<&str>| {
        json!({"device_id": device, "platform": "ios", "outcome": "failed", "reason": "BadTopic",
            "attempts": 1, "provider_message_id": null, "at": 1_767_323_045_000_i64,
            "next_attempt_at": null})
    };
    let page = |device, cursor: Option<&str>| {
        response(200, &json!({"deliveries": [delivery(device)], "next_cursor": cursor}))
    };
    let fixture =
        Fixture::with_responses(vec![page(Some("a"), Some("next")), page(None, None)]).await;
    let list = ["notifications", "deliveries", ID, "--outcome", "failed", "--all"];
    let run = fixture.run(&list).assert_success();
    assert_eq!(
        run.json(),
        json!({"deliveries": [delivery(Some("a")), delivery(None)], "next_cursor": null})
    );
    let path = format!("GET /v1/notifications/{ID}/deliveries?limit=500&outcome=failed");
    let requests: Vec<String> =
        fixture.received().await.into_iter().map(|(path, _)| path).collect();
    assert_eq!(requests, [path.clone(), format!("{path}&cursor=next")]);
    assert_eq!(fixture.run(&["notifications", "deliveries", ID, "--outcome", "lost"]).status, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_explanation_lists_its_steps_in_order() {
    let explanation = json!({"device_id": "pixel/7", "outcome": "not_targeted", "steps": [
        {"at": 1_767_323_045_000_i64, "what": "accepted", "detail": "accepted"},
        {"at": null, "what": "lacks_tag", "detail": "does not have the tag"}]});
    let fixture = Fixture::with_body(explanation.clone()).await;
    assert_eq!(fixture.run(&["explain", ID, "pixel/7"]).assert_success().json(), explanation);
    let path = format!("GET /v1/notifications/{ID}/explain/pixel%2F7");
    assert_eq!(fixture.received().await, [(path, None)]);
    let table = fixture.run(&["explain", ID, "pixel/7", "-o", "table"]).assert_success().stdout;
    assert_eq!(
        table,
        "✗ pixel/7 not sent: does not have the tag\n\
         ┌─────┬───────────┬───────────────────────┐\n\
         │ at  ┆ what      ┆ detail                │\n\
         ╞═════╪═══════════╪═══════════════════════╡\n\
         │ now ┆ lacks_tag ┆ does not have the tag │\n\
         └─────┴───────────┴───────────────────────┘\n"
    );
}

/// `notify explain --user` explains the devices of a user: in JSON as a list, in CSV with a row for each step.
#[tokio::test(flavor = "multi_thread")]
async fn the_devices_of_a_user_are_explained() {
    let explained = |device: &str, what: &str, detail: &str| {
        json!({"device_id": device, "outcome": "not_targeted", "steps": [
            {"at": 1_767_323_045_000_i64, "what": "accepted", "detail": "accepted"},
            {"at": null, "what": what, "detail": detail}]})
    };
    let phone = explained("phone", "lacks_tag", "does not have the tag");
    let tablet = explained("tablet", "disabled", "push is turned off by its user now");
    let page = |next_cursor: Value| {
        let device = |id: &str| {
            json!({
                "device_id": id, "platform": "ios", "sdk_type": "ios_push", "tags": [],
                "attributes": {}, "user_id": "ada/1", "enabled": true, "created_at": 1,
                "updated_at": 1, "push_disabled": false,
            })
        };
        json!({"devices": [device("phone"), device("tablet")], "next_cursor": next_cursor})
    };
    let explain = async |next_cursor: Value, format: &str| {
        let bodies = [&page(next_cursor), &phone, &tablet];
        let fixture = Fixture::with_responses(bodies.map(|body| response(200, body)).into()).await;
        let run = fixture.run(&["explain", ID, "--user", "ada/1", "-o", format]);
        let path = format!("GET /v1/notifications/{ID}/explain");
        let devices = "GET /v1/devices?limit=20&user_id=ada%2F1".to_owned();
        let expected = [devices, format!("{path}/phone"), format!("{path}/tablet")];
        let received: Vec<String> =
            fixture.received().await.into_iter().map(|(line, _)| line).collect();
        assert_eq!(received, expected);
        run
    };
    let run = explain(Value::Null, "json").await.assert_success();
    assert_eq!(run.json(), json!([phone, tablet]));
    let run = explain(Value::Null, "csv").await.assert_success();
    assert_eq!(
        run.stdout,
        "\"device_id\",\"at\",\"what\",\"detail\"\r\n\
         \"phone\",\"2026-01-02T03:04:05Z\",\"accepted\",\"accepted\"\r\n\
         \"phone\",\"\",\"lacks_tag\",\"does not have the tag\"\r\n\
         \"tablet\",\"2026-01-02T03:04:05Z\",\"accepted\",\"accepted\"\r\n\
         \"tablet\",\"\",\"disabled\",\"push is turned off by its user now\"\r\n"
    );
    let run = explain(json!("next"), "table").await;
    assert_eq!(
        run.stdout,
        "✗ phone not sent: does not have the tag\n\
         ┌─────┬───────────┬───────────────────────┐\n\
         │ at  ┆ what      ┆ detail                │\n\
         ╞═════╪═══════════╪═══════════════════════╡\n\
         │ now ┆ lacks_tag ┆ does not have the tag │\n\
         └─────┴───────────┴───────────────────────┘\n\
         ✗ tablet not sent: push is turned off by its user now\n\
         ┌─────┬──────────┬────────────────────────────────────┐\n\
         │ at  ┆ what     ┆ detail                             │\n\
         ╞═════╪══════════╪════════════════════════════════════╡\n\
         │ now ┆ disabled ┆ push is turned off by its user now │\n\
         └─────┴──────────┴────────────────────────────────────┘\n"
    );
    let more = "the user has more devices than these: `notify devices list --user ada/1` lists \
        all\n";
    assert_eq!((run.status, run.stderr.as_str()), (0, more));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_without_devices_is_reported() {
    let none = response(200, &json!({"devices": [], "next_cursor": null}));
    let user = json!({"user_id": "ada", "attributes": {}, "devices": [], "created_at": 1,
        "updated_at": 1});
    let unknown = json!({"errors": ["not found"]});
    for (user, status, stdout, stderr) in [
        (response(200, &user), 0, "[]\n", "no device is logged in as the user `ada` now\n"),
        (response(404, &unknown), 5, "", "error: not found: no user has the id `ada`\n"),
    ] {
        let fixture = Fixture::with_responses(vec![none.clone(), user]).await;
        let run = fixture.run(&["explain", ID, "--user", "ada"]);
        assert_eq!((run.status, &*run.stdout, &*run.stderr), (status, stdout, stderr));
    }
    let fixture = Fixture::with_body(json!({})).await;
    for wrong in [&["explain", ID][..], &["explain", ID, "d", "--user", "ada"]] {
        assert_eq!(fixture.run(wrong).status, 2, "{wrong:?}");
    }
}

/// A notification with these counts: sent, failed, unregistered, expired, canceled, pending.
fn record(status: &str, counts: [u64; 6]) -> Value {
    let [sent, failed, unregistered, expired, canceled, pending] = counts;
    let reason = json!({"platform": "ios", "reason": "BadTopic", "count": failed});
    json!({"id": ID, "status": status, "origin": "created", "created_at": 1, "send_at": 2,
        "started_at": null, "completed_at": null, "request": {"text": "hi"}, "by_platform": [],
        "counts": {"targeted": counts.iter().sum::<u64>(), "sent": sent, "failed": failed,
            "unregistered": unregistered, "expired": expired, "canceled": canceled,
            "pending": pending, "unknown": 0, "excluded": 0},
        "failures": if failed > 0 { json!([reason]) } else { json!([]) },
        "audience": null, "users": null, "paused": null,
        "engagement": {"received": 0, "opened": 0, "clicked": 0, "dismissed": 0}})
}

#[tokio::test(flavor = "multi_thread")]
async fn the_exit_status_of_watch_reflects_the_outcomes() {
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
        let answers = vec![
            response(200, &record("scheduled", [0; 6])),
            response(200, &record("sending", [1, 0, 0, 0, 0, 2])),
            response(200, &record("sending", [1, 0, 0, 0, 0, 2])),
            // Without progress, the command requests an explanation. It continues if that fails.
            response(404, &json!({"errors": ["not found"]})),
            response(200, &last),
        ];
        let fixture = Fixture::with_responses(answers).await;
        let run = fixture.run(&["watch", ID, "--every", "0.05"]);
        assert_eq!((run.status, run.json()), (exit, last), "{run:?}");
        let lines: Vec<&str> = run.stderr.lines().collect();
        assert_eq!(lines[0], "scheduled for 1970-01-01T00:00:00Z");
        assert!(lines[1].starts_with("sending: 1 of 3 sent, 2 pending ("), "{lines:?}");
        // A state that does not change is printed only once.
        assert_eq!((lines[2], lines.len()), (line, 3 + usize::from(exit == 1)), "{lines:?}");
        if exit == 1 {
            let error = match counts {
                [0, 0, 0, 0, 0, 0] => "error: canceled before anything was sent",
                _ => "error: the notification ended with ",
            };
            assert!(lines[3].starts_with(error), "{lines:?}");
        }
    }
    let fixture =
        Fixture::with_responses(vec![response(404, &json!({"errors": ["not found"]}))]).await;
    assert_eq!(fixture.run(&["watch", ID]).status, 5);
    assert_eq!(fixture.run(&["watch", ID, "--every", "0"]).status, 2);
}

/// When no delivery makes progress, the command requests the explanation of a pending one.
#[tokio::test(flavor = "multi_thread")]
async fn watch_prints_why_deliveries_wait() {
    let waiting = json!({"deliveries": [{"device_id": "d", "platform": "android",
        "outcome": "pending", "reason": null, "attempts": 0, "provider_message_id": null,
        "at": null, "next_attempt_at": null}], "next_cursor": null});
    let held = "fcm refuses the server's credentials (invalid_grant): everything is held";
    let explanation = json!({"device_id": "d", "outcome": "pending", "steps": [
        {"at": null, "what": "has_address", "detail": "has an address now"},
        {"at": null, "what": "credentials_refused", "detail": held}]});
    let bodies = [
        record("sending", [0, 0, 0, 0, 0, 3]),
        record("sending", [0, 0, 0, 0, 0, 3]),
        waiting,
        explanation,
        record("completed", [3, 0, 0, 0, 0, 0]),
    ];
    let fixture =
        Fixture::with_responses(bodies.iter().map(|body| response(200, body)).collect()).await;
    let run = fixture.run(&["watch", ID, "--every", "0.05"]);
    let lines: Vec<&str> = run.stderr.lines().collect();
    let expected = [
        "sending: 0 of 3 sent, 3 pending".to_owned(),
        format!("waiting: {held}"),
        "completed: 3 of 3 sent".to_owned(),
    ];
    assert_eq!((run.status, lines), (0, expected.iter().map(String::as_str).collect()));
    let requests: Vec<String> =
        fixture.received().await.into_iter().map(|(line, _)| line).collect();
    let path = format!("GET /v1/notifications/{ID}");
    assert_eq!(requests[2], format!("{path}/deliveries?limit=1&outcome=pending"));
    assert_eq!(requests[3], format!("{path}/explain/d"));
}

/// The reason is printed when the wait begins and when it ends. It is not printed again when only the time
/// of the next probe changes.
#[tokio::test(flavor = "multi_thread")]
async fn watch_prints_the_start_and_the_end_of_a_wait() {
    let unreachable = |minute: u8| {
        format!(
            "fcm cannot be reached: everything waits; next probe at 2026-01-02T03:{minute:02}:00Z"
        )
    };
    let explained = |steps: Value| json!({"device_id": "d", "outcome": "pending", "steps": steps});
    let paused =
        |minute| explained(json!([{"at": null, "what": "paused", "detail": unreachable(minute)}]));
    let waiting = json!({"deliveries": [{"device_id": "d", "platform": "android",
        "outcome": "pending", "reason": null, "attempts": 0, "provider_message_id": null,
        "at": null, "next_attempt_at": null}], "next_cursor": null});
    let pending = || record("sending", [0, 0, 0, 0, 0, 3]);
    let bodies = [
        pending(),
        pending(),
        waiting.clone(),
        paused(4),
        // The command requests the explanation of the same device again, although other devices make progress.
        record("sending", [1, 0, 0, 0, 0, 2]),
        paused(5),
        pending(),
        explained(json!([])),
        waiting,
        explained(json!([])),
        record("completed", [3, 0, 0, 0, 0, 0]),
    ];
    let fixture =
        Fixture::with_responses(bodies.iter().map(|body| response(200, body)).collect()).await;
    let run = fixture.run(&["watch", ID, "--every", "0.05"]);
    let waits = |line: &&str| line.starts_with("waiting: ") || line.starts_with("deliveries ");
    let text: Vec<&str> = run.stderr.lines().filter(waits).collect();
    let begins = format!("waiting: {}", unreachable(4));
    assert_eq!(text, [&*begins, "deliveries resumed"], "{run:?}");
    assert_eq!(run.status, 0);
}

/// A delivery that waits for a retry, and its explanation.
fn delivery_before_a_retry() -> [Value; 2] {
    let waiting = json!({"deliveries": [{"device_id": "d", "platform": "web",
        "outcome": "pending", "reason": null, "attempts": 1, "provider_message_id": null,
        "at": null, "next_attempt_at": 3}], "next_cursor": null});
    let explanation = json!({"device_id": "d", "outcome": "pending", "steps": [
        {"at": 2, "what": "attempted", "detail": "1 attempt, the last answer: connect_failed"},
        {"at": 3, "what": "next_attempt", "detail": "due at 2026-01-02T03:04:05Z"}]});
    [waiting, explanation]
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_ends_after_the_time_of_wait() {
    let [waiting, explanation] = delivery_before_a_retry();
    let state = "sending: 0 of 1 sent, 1 pending";
    for (send, bodies) in [
        (false, vec![record("sending", [0, 0, 0, 0, 0, 1]), waiting.clone(), explanation.clone()]),
        (
            true,
            vec![
                json!({ "id": ID }),
                json!({ "platforms": [] }),
                record("sending", [0, 0, 0, 0, 0, 1]),
                waiting,
                explanation,
            ],
        ),
    ] {
        let responses = bodies.iter().map(|body| response(200, body)).collect();
        let fixture = Fixture::with_responses(responses).await;
        let run = if send {
            let line = ["send", "--text", "Hi", "--platform", "ios", "--watch", "--wait", "0s"];
            fixture.run(&line)
        } else {
            fixture.run(&["watch", ID, "--wait", "0s"])
        };
        let error = format!(
            "error: {state}: the last answer: connect_failed; the next attempt is due at \
             2026-01-02T03:04:05Z; `notify watch {ID}` continues to watch\n"
        );
        assert!(run.stderr.ends_with(&error), "{run:?}");
        assert_eq!((run.status, &run.json()["status"]), (1, &json!("sending")), "{run:?}");
    }
    let fixture = Fixture::new().await;
    let run = fixture.run(&["send", "--text", "Hi", "--platform", "ios", "--wait", "1s"]);
    assert_eq!((run.status, &*run.stderr), (2, "error: --wait needs --watch\n"));
    assert!(fixture.received().await.is_empty());
}

/// A single push service may fail. The server then does not pause all deliveries of the provider, and each
/// attempt fails.
#[tokio::test(flavor = "multi_thread")]
async fn watch_prints_why_a_delivery_is_retried() {
    let [waiting, explanation] = delivery_before_a_retry();
    let bodies = [
        record("sending", [0, 0, 0, 0, 0, 1]),
        record("sending", [0, 0, 0, 0, 0, 1]),
        waiting,
        explanation,
        record("completed", [1, 0, 0, 0, 0, 0]),
    ];
    let fixture =
        Fixture::with_responses(bodies.iter().map(|body| response(200, body)).collect()).await;
    let run = fixture.run(&["watch", ID, "--every", "0.05"]);
    let text = "sending: 0 of 1 sent, 1 pending\nwaiting: the last answer: connect_failed; the next \
        attempt is due at 2026-01-02T03:04:05Z\ncompleted: 1 of 1 sent\n";
    assert_eq!((run.status, run.stderr.as_str()), (0, text));
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_prints_why_no_device_matched() {
    for (request, unknown, excluded, why) in [
        (json!({"device_ids": ["a"]}), 1, 0, "no device has the given id"),
        (json!({"device_ids": ["a", "b"]}), 2, 0, "no device has one of the 2 given ids"),
        (
            json!({"device_ids": ["a", "b"]}),
            1,
            1,
            "no device has the given id; 1 given device is disabled, or has no address",
        ),
        (
            json!({"device_ids": ["a", "b"], "tags": ["vip"]}),
            0,
            2,
            "2 given devices are disabled, or have no address, or lack the tag",
        ),
        (
            json!({"platforms": ["ios", "web"], "tags": ["vip"]}),
            0,
            0,
            "there is no enabled device on ios, web with the tag `vip`",
        ),
        (json!({"platforms": ["ios"]}), 0, 0, "there is no enabled device on ios"),
        (json!({"user_ids": ["u"]}), 1, 0, "no user has the given id"),
        (json!({"user_ids": ["u"]}), 0, 0, "there is no enabled device of the users"),
        (
            json!({"user_ids": ["u", "v"], "audience": {"tag": "vip"}}),
            1,
            2,
            "no user has the given id; 2 devices of the users are disabled, or have no address, or do \
             not meet the condition of the audience, or are no longer logged in",
        ),
        (
            json!({"platforms": ["ios"], "audience": {"tag": "vip"}}),
            0,
            0,
            "there is no enabled device on ios that meets the condition of the audience",
        ),
    ] {
        let mut last = record("completed", [0; 6]);
        if request["user_ids"].is_array() {
            last["users"] =
                json!({"named": 1, "reached": 0, "unreached": 1, "pending": 0, "unknown": 0});
        }
        last["audience"] = request["audience"].clone();
        last["request"] = request;
        last["counts"]["unknown"] = json!(unknown);
        last["counts"]["excluded"] = json!(excluded);
        let fixture = Fixture::with_responses(vec![response(200, &last)]).await;
        let run = fixture.run(&["watch", ID]);
        let text = format!("completed: 0 of 0 sent\nwarning: no device matched: {why}\n");
        assert_eq!((run.status, run.stderr), (0, text));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn send_can_watch_the_notification() {
    let last = record("completed", [3, 0, 0, 0, 0, 0]);
    let created = response(200, &json!({"id": ID}));
    let preview = response(200, &json!({"platforms": []}));
    let fixture = Fixture::with_responses(vec![created, preview, response(200, &last)]).await;
    let run = fixture.run(&["send", "--text", "Hi", "--platform", "ios", "--watch"]);
    assert_eq!((run.status, run.json()), (0, last));
    assert_eq!(run.stderr, format!("id {ID}\ncompleted: 3 of 3 sent\n"));
}
