//! `notify devices import`, `notify devices tag --file` and `notify users import`: requests, refused rows, and
//! resumption.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::{
    collections::HashMap,
    fmt::Write,
    sync::mpsc::Receiver,
    time::{Duration, Instant},
};

use common::{Fixture, Run, response};
use serde_json::{Value, json};
use wiremock::{
    Mock, Respond, ResponseTemplate,
    matchers::{any, body_partial_json, method, path},
};

/// The device ids of the registrations that the server received, in order of arrival.
async fn registered(fixture: &Fixture) -> Vec<String> {
    let requests = fixture.received().await;
    let ids = requests.into_iter().map(|(line, body)| {
        assert_eq!(line, "POST /v1/devices");
        body.unwrap()["device_id"].as_str().unwrap().to_owned()
    });
    ids.collect()
}

fn done() -> Value {
    json!({ "success": true })
}

/// Responds to the first registration of this device with `reply`, and to all other requests with success.
async fn failing_at(device_id: &str, reply: impl Respond + 'static) -> Fixture {
    let fixture = Fixture::new().await;
    let at = body_partial_json(json!({ "device_id": device_id }));
    Mock::given(at).respond_with(reply).up_to_n_times(1).mount(&fixture.server).await;
    Mock::given(any()).respond_with(response(200, &done())).mount(&fixture.server).await;
    fixture
}

/// Checks the printed counts of an import whose rows are all for different devices.
fn check_summary(run: &Run, rows: u64, registered: u64, refused: u64, without_address: u64) {
    let file = (refused > 0).then_some("devices.csv.refused.csv");
    assert_eq!(
        run.json(),
        json!({
            "rows": rows, "registered": registered, "refused": refused, "refused_file": file,
            "duplicates": 0, "left_out": 0, "devices": registered, "replaced": 0,
            "without_address": without_address, "left_out_reasons": {},
        }),
        "{run:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_csv_file_is_registered() {
    let fixture = Fixture::with_body(done()).await;
    fixture.file(
        "devices.csv",
        "\u{feff}device_id,platform,push_token,language,push_disabled\r\n\
         a,ios,\"t,1\",de,true\r\n\
         \"b\",android,'-t2,,\r\n",
    );
    let run =
        fixture.run(&["devices", "import", "devices.csv", "--parallel", "1"]).assert_success();
    check_summary(&run, 2, 2, 0, 0);
    assert_eq!(
        fixture.received().await,
        [
            (
                "POST /v1/devices".to_owned(),
                Some(json!({
                    "device_id": "a", "platform": "ios", "sdk_type": "ios_push", "push_token": "t,1",
                    "language": "de", "push_disabled": true,
                }))
            ),
            (
                "POST /v1/devices".to_owned(),
                Some(json!({
                    "device_id": "b", "platform": "android", "sdk_type": "android_push",
                    "push_token": "-t2",
                }))
            ),
        ]
    );
    assert!(!fixture.has("devices.csv.notify-import") && !fixture.has("devices.csv.refused.csv"));
}

#[tokio::test(flavor = "multi_thread")]
async fn ndjson_comes_from_standard_input() {
    let fixture = Fixture::with_body(done()).await;
    let mut command = fixture.command(&["devices", "import", "-", "--format", "ndjson"]);
    command.write_stdin(
        "{\"device_id\":\"a\",\"platform\":\"ios\",\"sdk_type\":\"ios_push\"}\n\n\
         {\"device_id\":\"b\",\"platform\":\"ios\",\"sdk_type\":\"android_push\"}\n\
         {\"device_id\":\"c\",\"platform\":\"android\"}",
    );
    let run = common::finish(command);
    assert_eq!(run.status, 3);
    assert_eq!(
        run.json(),
        json!({
            "rows": 3, "registered": 2, "refused": 1, "refused_file": null, "duplicates": 0,
            "left_out": 0, "devices": 2, "replaced": 0, "without_address": 2,
            "left_out_reasons": {},
        })
    );
    let lines: Vec<_> = run.stderr.lines().collect();
    assert!(lines[0].starts_with("error: line 3: b: sdk_type: "), "{run:?}");
    assert_eq!(lines[1..], ["error: rows refused: 1"]);
    let mut ids = registered(&fixture).await;
    ids.sort();
    assert_eq!(ids, ["a", "c"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_rows_are_written_to_the_report() {
    let fixture = Fixture::new().await;
    let no = response(400, &json!({ "errors": ["device_id: =no", "and again"] }));
    let refused = body_partial_json(json!({ "device_id": "server-refuses" }));
    Mock::given(refused).respond_with(no).mount(&fixture.server).await;
    Mock::given(any()).respond_with(response(200, &done())).mount(&fixture.server).await;
    fixture.file(
        "devices.csv",
        "device_id,platform,ios_env\n\
        a,ios,\nb,windows,\nserver-refuses,ios,\n=c,ios,moon\nd\ne,android,\n",
    );
    let run = fixture.run(&["devices", "import", "devices.csv"]);
    assert_eq!(run.status, 3);
    check_summary(&run, 6, 2, 4, 2);
    let report = fixture.read("devices.csv.refused.csv");
    let rows: Vec<&str> = report.split("\r\n").collect();
    assert_eq!(rows[0], r#""device_id","platform","ios_env","line","errors""#);
    assert!(rows[1].starts_with(r#""b","windows","","3","platform: "#), "{report}");
    assert!(!rows[1].contains("sdk_type"), "the file has none: {report}");
    assert_eq!(rows[2], r#""server-refuses","ios","","4","device_id: =no; and again""#);
    assert!(rows[3].starts_with(r#""'=c","ios","moon","5","ios_env: "#), "{report}");
    assert_eq!(rows[4], r#""d","","","6","has 1 cells, the header has 3""#);
    assert_eq!(rows[5..], [""]);
    let mut ids = registered(&fixture).await;
    ids.sort();
    assert_eq!(ids, ["a", "e", "server-refuses"], "rows that break a rule are not sent");
}

/// Spreadsheets write `\r\n`, and an empty line at the end.
#[tokio::test(flavor = "multi_thread")]
async fn a_report_has_the_line_for_every_line_ending() {
    let rows =
        ["\u{feff}device_id,platform", "\"a\nb\",x", "\"c\",\"x\"", "d,ios", "e,x", "", "f,x"];
    for (end, last) in [("\n", ""), ("\n", "\n\n"), ("\r\n", ""), ("\r\n", "\r\n")] {
        let fixture = Fixture::with_body(done()).await;
        fixture.file("devices.csv", rows.join(end) + last);
        check_summary(&fixture.run(&["devices", "import", "devices.csv"]), 5, 1, 4, 1);
        let report = fixture.read("devices.csv.refused.csv");
        let mut report = csv::Reader::from_reader(report.as_bytes());
        let lines = report.records().map(|row| row.unwrap()[2].parse::<u32>().unwrap());
        assert_eq!(lines.collect::<Vec<_>>(), [2, 4, 6, 8], "{end:?} {last:?}");
        assert_eq!(registered(&fixture).await, ["d"]);
    }
}

/// Users correct rows in the report, and import the report without further changes.
#[tokio::test(flavor = "multi_thread")]
async fn a_corrected_report_is_imported() {
    for (name, [report, next], file, wrong, right) in [
        (
            "d.csv",
            ["d.csv.refused.csv", "d.csv.refused.2.csv"],
            "device_id,platform,language,shop\n=a,ios,de,7\nb,windows,\"d\"\"e\",8\n",
            [r#""windows""#, r#""d""e""#],
            [r#""ios""#, r#""de""#],
        ),
        (
            "d.ndjson",
            ["d.ndjson.refused.ndjson", "d.ndjson.refused.2.ndjson"],
            r#"{"device_id":"=a","platform":"ios","sdk_type":"ios_push","language":"de"}
{"device_id":"b","platform":"windows","sdk_type":"ios_push","language":"d\"e"}
"#,
            [r#""windows""#, r#""d\"e""#],
            [r#""ios""#, r#""de""#],
        ),
    ] {
        let fixture = Fixture::with_body(done()).await;
        fixture.file(name, file);
        let run = fixture.run(&["devices", "import", name, "--ignore-unknown-columns"]);
        assert_eq!((run.status, &run.json()["refused"]), (3, &json!(1)), "{run:?}");
        let again = ["devices", "import", report];
        let run = fixture.run(&again);
        assert_eq!(
            (run.status, &run.json()["refused"]),
            (3, &json!(1)),
            "without a correction: {run:?}"
        );
        assert_eq!(run.json()["refused_file"], next, "next to the first file");
        let line = if name == "d.csv" { "\"3\"" } else { "\"line\":2," };
        assert!(fixture.read(report).contains(line), "the line of the first file");
        assert_eq!(
            fixture.read(next),
            fixture.read(report),
            "the report of a report has the same rows"
        );

        let mut corrected = fixture.read(report);
        for (wrong, right) in wrong.into_iter().zip(right) {
            assert!(corrected.contains(wrong), "{corrected}");
            corrected = corrected.replacen(wrong, right, 1);
        }
        fixture.file(report, corrected);
        fixture.run(&again).assert_success();
        let requests = fixture.received().await;
        let expected = |device_id: &str| {
            json!({ "device_id": device_id, "platform": "ios", "sdk_type": "ios_push",
                "language": "de" })
        };
        let bodies: Vec<_> = requests.into_iter().map(|(_, body)| body.unwrap()).collect();
        assert_eq!(bodies, [expected("=a"), expected("b")], "{name}");
    }
}

/// Corrections in a report are not lost when the first file is imported again.
#[tokio::test(flavor = "multi_thread")]
async fn a_report_is_never_overwritten() {
    let fixture = Fixture::with_body(done()).await;
    fixture.file("devices.csv", file(10));
    let import = ["devices", "import", "devices.csv"];
    let edited = "edited by hand";
    for (number, extra) in [("", ""), (".2", ""), (".3", "--restart")] {
        let args: Vec<_> =
            import.into_iter().chain([extra]).filter(|arg| !arg.is_empty()).collect();
        let run = fixture.run(&args);
        let report = format!("devices.csv.refused{number}.csv");
        assert_eq!((run.status, &run.json()["refused_file"]), (3, &json!(report)), "{run:?}");
        fixture.file(&report, edited);
    }
    assert_eq!(fixture.read("devices.csv.refused.csv"), edited);

    let before = fixture.requests().await.len();
    let run = fixture.run(&[&import[..], &["--refused", "devices.csv.refused.csv"]].concat());
    assert_eq!(run.status, 2);
    assert_eq!(
        run.stderr,
        "error: --refused: devices.csv.refused.csv already exists and may contain corrections: \
         give another file, or import devices.csv.refused.csv first and remove it\n"
    );
    assert_eq!(fixture.requests().await.len(), before, "nothing is sent");
    assert_eq!(fixture.read("devices.csv.refused.csv"), edited);

    fixture.file("devices.csv", "device_id,platform\na,ios\n");
    let run = fixture.run(&import).assert_success();
    assert_eq!(run.json()["refused_file"], json!(null));
    assert_eq!(fixture.read("devices.csv.refused.csv"), edited, "the report is not removed");
}

/// Corrections that are made between an interruption and the next run are not lost either.
#[tokio::test(flavor = "multi_thread")]
async fn an_import_continues_after_its_report_was_changed() {
    let fixture = failing_at("d15", response(401, &json!({ "errors": ["no"] }))).await;
    fixture.file("devices.csv", file(20));
    let import = ["devices", "import", "devices.csv"];
    assert_eq!(fixture.run(&import).status, 4);
    let report = fixture.read("devices.csv.refused.csv");
    for edited in [report.replace("windows", "ios"), report[..10].to_owned(), String::new()] {
        fixture.file("devices.csv.refused.csv", &edited);
        let run = fixture.run(&import);
        assert_eq!(run.status, 2, "{run:?}");
        assert!(run.stderr.contains("devices.csv.refused.csv was changed since"), "{run:?}");
        assert!(run.stderr.contains("move it away to continue"), "{run:?}");
        assert_eq!(fixture.read("devices.csv.refused.csv"), edited);
    }
    std::fs::remove_file(fixture.home.path().join("devices.csv.refused.csv")).unwrap();
    let run = fixture.run(&import);
    assert_eq!(run.status, 3, "{run:?}");
    check_summary(&run, 20, 18, 2, 18);
    let rest = fixture.read("devices.csv.refused.csv");
    assert!(
        rest.starts_with("\"device_id\",\"platform\",\"line\",\"errors\"\r\n\"d20\","),
        "{rest}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_to_import_is_not_overwritten() {
    let fixture = Fixture::with_body(done()).await;
    fixture.file("devices.csv", file(20));
    for option in ["--refused", "--state"] {
        let run = fixture.run(&["devices", "import", "devices.csv", option, "./devices.csv"]);
        assert_eq!(run.status, 2);
        assert_eq!(run.stderr, format!("error: {option}: devices.csv is the file to import\n"));
        assert_eq!(fixture.read("devices.csv"), file(20));
    }
}

/// A file of `rows` devices, of which every tenth breaks a rule.
fn file(rows: usize) -> String {
    let mut text = "device_id,platform\n".to_owned();
    for row in 1..=rows {
        let platform = if row % 10 == 0 { "windows" } else { "ios" };
        writeln!(text, "d{row},{platform}").unwrap();
    }
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_import_is_resumed() {
    let fixture =
        failing_at("d55", response(401, &json!({ "errors": ["missing or invalid API key"] })))
            .await;
    fixture.file("devices.csv", file(100));
    let import = ["devices", "import", "devices.csv", "--parallel", "4"];

    let run = fixture.run(&import);
    assert_eq!((run.status, run.stdout.as_str()), (4, ""), "{run:?}");
    assert_eq!(
        run.stderr,
        format!(
            "error: not authorised: missing or invalid API key; does the key belong to {} and its \
             data folder, and is its application active?\nerror: stopped after line 55; run the same command again to continue \
             from there\n",
            fixture.server.uri()
        )
    );
    let state: Value = serde_json::from_str(&fixture.read("devices.csv.notify-import")).unwrap();
    assert_eq!(state["mark"]["line"], 55);
    assert_eq!((&state["registered"], &state["refused"]), (&json!(49), &json!(5)));
    let before = registered(&fixture).await.len();

    let run = fixture.run(&import);
    assert_eq!(run.status, 3, "{run:?}");
    assert_eq!(
        run.stderr,
        "continuing after line 55\n\
         the first refused row: line 61: d60: platform: must be one of android, ios (POST \
         /v1/subscriptions takes web, fb-messenger, chatapp)\n\
         error: rows refused: 10; correct them in devices.csv.refused.csv, then run `notify devices \
         import devices.csv.refused.csv`\n"
    );
    check_summary(&run, 100, 90, 10, 90);
    let after = registered(&fixture).await.split_off(before);
    assert_eq!(after.len(), 41, "d55 to d99 without d60, d70, d80, d90");
    assert!(after.contains(&"d55".to_owned()) && !after.contains(&"d54".to_owned()));
    let report = fixture.read("devices.csv.refused.csv");
    let lines: Vec<_> = report.lines().skip(1).map(|row| row.split('"').nth(5).unwrap()).collect();
    assert_eq!(lines, ["11", "21", "31", "41", "51", "61", "71", "81", "91", "101"]);
    assert!(!fixture.has("devices.csv.notify-import"));
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_import_is_resumed() {
    let (arrived, arrival) = std::sync::mpsc::channel();
    let never = move |_: &wiremock::Request| {
        arrived.send(()).unwrap();
        response(200, &done()).set_delay(Duration::from_secs(600))
    };
    let fixture = failing_at("d8", never).await;
    fixture.file("devices.csv", file(9));
    let import = ["devices", "import", "devices.csv", "--parallel", "1"];
    let child = std::process::Command::new(env!("CARGO_BIN_EXE_notify"))
        .args(import)
        .env_clear()
        .env("HOME", fixture.home.path())
        .env("NOTIFY_URL", fixture.server.uri())
        .env("NOTIFY_API_KEY", "nk_test")
        .current_dir(fixture.home.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    arrival.recv_timeout(Duration::from_secs(30)).unwrap();
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let expected =
        "error: stopped after line 8; run the same command again to continue from there\n";
    assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);

    let run = fixture.run(&import);
    assert_eq!((run.status, run.stderr.as_str()), (0, "continuing after line 8\n"));
    check_summary(&run, 9, 9, 0, 9);
    assert_eq!(registered(&fixture).await[8..], ["d8", "d9"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_different_file_is_not_resumed() {
    let fixture = failing_at("d5", response(503, &json!({ "errors": ["busy"] }))).await;
    fixture.file("devices.csv", file(9));
    let import = ["devices", "import", "devices.csv", "--parallel", "1", "--retries", "0"];
    assert_eq!(fixture.run(&import).status, 6);
    let before = fixture.requests().await.len();

    for other in [file(9).replace("d2", "d!"), file(3), file(9).replace("d1,", "\"d1\",")] {
        fixture.file("devices.csv", other);
        let run = fixture.run(&import);
        assert_eq!(run.status, 2, "{run:?}");
        assert!(run.stderr.contains("not the file"), "{run:?}");
    }
    assert_eq!(fixture.requests().await.len(), before, "no row of it was sent");

    fixture.file("devices.csv", file(9) + "d10,ios\n");
    let run = fixture.run(&import);
    assert_eq!(run.status, 0, "a file that has grown is resumed: {run:?}");
    check_summary(&run, 10, 10, 0, 10);
    let mut again = import.to_vec();
    again.push("--restart");
    check_summary(&fixture.run(&again).assert_success(), 10, 10, 0, 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_does_not_duplicate_rows_of_the_report() {
    let fixture = Fixture::with_body(done()).await;
    fixture.file("devices.csv", file(20));
    let run = fixture.run(&["devices", "import", "devices.csv", "--state", "s"]);
    assert_eq!(run.status, 3);
    let whole = fixture.read("devices.csv.refused.csv");

    // After a crash, the report may have rows that the state does not count.
    let fixture = failing_at("d15", response(401, &json!({ "errors": ["no"] }))).await;
    fixture.file("devices.csv", file(20));
    let import = ["devices", "import", "devices.csv", "--state", "s"];
    assert_eq!(fixture.run(&import).status, 4);
    let run = fixture.run(&["users", "import", "devices.csv", "--state", "s"]);
    let expected = "s: the state file of `notify devices import`; --restart starts over";
    assert!(run.status == 2 && run.stderr.contains(expected), "{run:?}");
    let ahead = fixture.read("devices.csv.refused.csv") + "\"d20\",\"windows\",\"21\",\"half a ro";
    fixture.file("devices.csv.refused.csv", ahead);
    assert_eq!(fixture.run(&import).status, 3);
    assert_eq!(fixture.read("devices.csv.refused.csv"), whole);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_file_is_wrong_usage() {
    let endless = format!("device_id,platform\na,\"{}", "x".repeat(2 * 1024 * 1024));
    let long = format!("{{\"device_id\":\"{}\"}}", "x".repeat(2 * 1024 * 1024));
    for (name, text, expected) in [
        ("a.csv", "", "there is no header"),
        ("a.csv", "device_id,push_token\n", "no column `platform`"),
        (
            "a.csv",
            "device_id,platform,token\n",
            "unknown column `token` (did you mean `push_token`?); \
             --ignore-unknown-columns ignores",
        ),
        (
            "a.csv",
            "device_id,platform,plan\n",
            "unknown column `plan` (an attribute is `attribute:plan`)",
        ),
        (
            "a.csv",
            "device_id,platform,push_tokn,shop\n",
            "unknown columns `push_tokn`, `shop` (did you mean `push_token` for `push_tokn`?); \
             --ignore-unknown-columns",
        ),
        ("a.json", "{\n\"device\":[]}\n", "not a list of devices: missing field `devices`"),
        ("a.csv", endless.as_str(), "longer than 1 MiB"),
        ("a.ndjson", long.as_str(), "line 1 is longer than 1 MiB"),
    ] {
        let fixture = Fixture::with_body(done()).await;
        fixture.file(name, text);
        let run = fixture.run(&["devices", "import", name]);
        assert_eq!(run.status, 2, "{run:?}");
        assert!(run.stderr.contains(expected), "{expected}: {run:?}");
        assert!(fixture.requests().await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_to_a_busy_server_are_retried() {
    let fixture = Fixture::with_responses(vec![
        ResponseTemplate::new(503).insert_header("retry-after", "0"),
        response(200, &done()),
    ])
    .await;
    fixture.file("devices.csv", "device_id,platform\na,ios\n");
    check_summary(&fixture.run(&["devices", "import", "devices.csv"]).assert_success(), 1, 1, 0, 1);
    let requests = fixture.requests().await;
    assert_eq!(requests[0].headers["idempotency-key"], requests[1].headers["idempotency-key"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_can_be_imported() {
    let device = json!({
        "device_id": "=a", "platform": "android", "sdk_type": "android_push", "push_token": "-t",
        "push_disabled": true, "ios_env": null, "android_id": null, "ad_id": null, "imei": null,
        "sdk_version": null, "app_version": null, "os_version": null, "store_identifier": null,
        "timezone": null, "country": null, "utc_offset": "-120", "language": null,
        "device_description": null, "tags": [], "enabled": false,
        "disabled_reason": "push_disabled", "created_at": 1, "updated_at": 1,
    });
    let fixture = Fixture::with_responses(vec![
        response(200, &json!({ "devices": [device], "next_cursor": null })),
        response(200, &done()),
    ])
    .await;
    let export = fixture.run(&["devices", "list", "-o", "csv"]).assert_success().stdout;
    fixture.file("devices.csv", export);
    fixture.run(&["devices", "import", "devices.csv"]).assert_success();
    assert_eq!(
        fixture.received().await[1].1,
        Some(json!({
            "device_id": "=a", "platform": "android", "sdk_type": "android_push", "push_token": "-t",
            "push_disabled": true, "utc_offset": "-120",
        }))
    );
}

/// The response time of the server for the first row of a pair.
const SLOW: Duration = Duration::from_millis(30);

/// A server that responds slowly to requests that contain `first`, and reports when each request arrived.
async fn with_slow_first_response(response_body: Value) -> (Fixture, Receiver<(Value, Instant)>) {
    let fixture = Fixture::new().await;
    let (sender, arrivals) = std::sync::mpsc::channel();
    let reply = move |request: &wiremock::Request| {
        let body: Value = request.body_json().unwrap();
        let is_first = body.to_string().contains("first");
        sender.send((body, Instant::now())).unwrap();
        response(200, &response_body).set_delay(if is_first { SLOW } else { Duration::ZERO })
    };
    Mock::given(any()).respond_with(reply).mount(&fixture.server).await;
    (fixture, arrivals)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_row_of_a_file_wins() {
    let devices = |row: usize| [format!("d{row},ios,,first"), format!("d{row},ios,,last")];
    let tokens =
        |row: usize| [format!("a{row},ios,t{row},first"), format!("b{row},ios,t{row},last")];
    for (pair, key, replaced, expected) in [
        (
            &devices as &dyn Fn(usize) -> [String; 2],
            "device_id",
            50,
            "of 100 rows, 50 were replaced by a later row for the same device\n",
        ),
        (
            &tokens,
            "push_token",
            0,
            "50 rows took the address of an earlier row, whose device has none now\n",
        ),
    ] {
        let (fixture, arrivals) = with_slow_first_response(done()).await;
        let rows: Vec<String> = (0..50).flat_map(pair).collect();
        fixture.file(
            "devices.csv",
            format!("device_id,platform,push_token,language\n{}\n", rows.join("\n")),
        );
        let run = fixture.run(&["devices", "import", "devices.csv", "--parallel", "32"]);
        assert_eq!(
            run.json(),
            json!({
                "rows": 100, "registered": 100, "refused": 0, "refused_file": null,
                "duplicates": 50, "left_out": 0, "devices": 100 - replaced,
                "replaced": replaced, "without_address": replaced * 2,
                "left_out_reasons": {},
            })
        );
        assert_eq!((run.status, run.stderr.as_str()), (0, expected));
        let mut firsts = HashMap::new();
        let mut pairs = 0;
        for (body, at) in arrivals.try_iter() {
            let key = body[key].as_str().unwrap().to_owned();
            if body["language"] == "first" {
                firsts.insert(key, at);
            } else {
                let first = firsts.get(&key).expect("the first row arrives first");
                assert!(
                    at - *first >= SLOW,
                    "{key}: the last row was sent after the response to the first"
                );
                pairs += 1;
            }
        }
        assert_eq!(pairs, 50);
    }
}

/// Rows that were finished before the interruption count too.
#[tokio::test(flavor = "multi_thread")]
async fn a_resumed_import_detects_duplicates_of_earlier_rows() {
    let fixture = failing_at("d3", response(401, &json!({ "errors": ["no"] }))).await;
    fixture.file("devices.csv", "device_id,platform\nd1,ios\nd1,ios\nd2,ios\nd3,ios\nd2,ios\n");
    let import = ["devices", "import", "devices.csv", "--parallel", "1"];
    assert_eq!(fixture.run(&import).status, 4);
    let run = fixture.run(&import);
    assert_eq!((&run.json()["rows"], &run.json()["duplicates"]), (&json!(5), &json!(2)), "{run:?}");
}

/// Three registered devices, one replaced row and one refused row are five rows.
#[tokio::test(flavor = "multi_thread")]
async fn the_counts_of_the_summary_add_up() {
    let fixture = Fixture::with_body(done()).await;
    fixture.file(
        "devices.tsv",
        "device_id\tplatform\tpush_token\na\tios\tt\na\tios\tt\nb\tios\t\nc\tandroid\tu\n\
         d\twindows\tv\n",
    );
    let run = fixture.run(&["devices", "import", "devices.tsv", "-o", "table"]);
    let cells = |line: &str| {
        let line = line.trim_matches('│');
        let (name, value) = line.split_once('┆')?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    };
    let shown: Vec<_> = run.stdout.lines().filter_map(cells).collect();
    let expected = [
        ("rows", "5"),
        ("devices registered", "3"),
        ("rows replaced by later ones", "1"),
        ("rows refused", "1"),
        ("refused_file", "devices.tsv.refused.csv"),
        ("rows left out", "0"),
        ("registered without an address", "1"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(shown, expected, "{run:?}");
}

fn utf_16(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
    "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(bytes).collect()
}

/// Spreadsheets of different countries write different delimiters and encodings.
#[tokio::test(flavor = "multi_thread")]
async fn files_of_spreadsheets_are_imported() {
    let semicolons = "Device_ID;Platform;Push Token;DeviceDescription\r\na;IOS;t;\"Café; 1\"\r\n";
    let semicolons = semicolons.to_owned();
    let tabs = semicolons.replace(';', "\t").replace("Café\t", "Café;");
    for file in [
        semicolons.clone().into_bytes(),
        format!("\u{feff}{semicolons}").into_bytes(),
        tabs.clone().into_bytes(),
        utf_16(&tabs, u16::to_le_bytes),
        utf_16(&semicolons, u16::to_be_bytes),
        format!("sep=;\r\n{semicolons}").into_bytes(),
        format!("\u{feff}sep=\t\r\n{tabs}\t\t\r\n\r\n").into_bytes(),
        semicolons.replace("\r\n", ";;;\r\n").into_bytes(),
        format!("{semicolons};;;\r\n;;;;\r\n").into_bytes(),
        semicolons.replace(";t;", ";=\"t\";").into_bytes(),
        semicolons.replace("\r\na;", "\r\n\"=\"\"a\"\"\";").into_bytes(),
    ] {
        let fixture = Fixture::with_body(done()).await;
        fixture.file("devices.csv", &file);
        check_summary(
            &fixture.run(&["devices", "import", "devices.csv"]).assert_success(),
            1,
            1,
            0,
            0,
        );
        assert_eq!(
            fixture.received().await,
            [(
                "POST /v1/devices".to_owned(),
                Some(json!({
                    "device_id": "a", "platform": "ios", "sdk_type": "ios_push",
                    "push_token": "t", "device_description": "Café; 1",
                }))
            )]
        );
    }
    let fixture = Fixture::with_body(done()).await;
    let line = r#"{"device_id":"ä","platform":"ios","sdk_type":"ios_push"}"#;
    fixture.file("devices.ndjson", utf_16(line, u16::to_le_bytes));
    fixture.run(&["devices", "import", "devices.ndjson"]).assert_success();
    assert_eq!(registered(&fixture).await, ["ä"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_after_an_unterminated_quote_are_refused() {
    let fixture = Fixture::with_body(done()).await;
    let text = "device_id,platform,device_description\na,ios,\nb,windows,\nc,ios,\"Pixel\nd,ios,\n";
    fixture.file("devices.csv", text);
    check_summary(&fixture.run(&["devices", "import", "devices.csv"]), 3, 1, 2, 1);
    let report = fixture.read("devices.csv.refused.csv");
    let mut report = csv::Reader::from_reader(report.as_bytes());
    let rows: Vec<_> = report.records().map(Result::unwrap).collect();
    assert_eq!((&rows[0][3], &rows[1][3]), ("3", "4"));
    assert_eq!(&rows[1][4], "has an unterminated quote: all lines after it are part of its cell");
    assert_eq!(registered(&fixture).await, ["a"]);
}

/// The line of a refused row counts the line that names the delimiter.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_row_has_its_line_in_a_file_of_a_spreadsheet() {
    let fixture = Fixture::with_body(done()).await;
    fixture.file("devices.csv", "sep=;\ndevice_id;platform;;\n;;;\na;windows;;\nb;iOS;;\n");
    check_summary(&fixture.run(&["devices", "import", "devices.csv"]), 2, 1, 1, 1);
    let report = fixture.read("devices.csv.refused.csv");
    assert!(report.contains("\"a\",\"windows\",\"4\","), "{report}");
    assert_eq!(registered(&fixture).await, ["b"]);
}

/// Tags of a request body, by name and value.
fn tags(tags: &[(&str, bool)]) -> Value {
    let tag = |(name, value): &(&str, bool)| json!({"name": name, "type": "bool", "value": value});
    json!({ "tags": tags.iter().map(tag).collect::<Vec<_>>() })
}

#[tokio::test(flavor = "multi_thread")]
async fn tags_are_set_after_the_registration() {
    let fixture = Fixture::with_body(done()).await;
    fixture.file(
        "devices.csv",
        "device_id,platform,tags\na,ios,\"vip, new\"\nb,ios,\n\
         c,ios,\"[\"\"a,b\"\",{\"\"name\"\":\"\"old\"\",\"\"type\"\":\"\"bool\"\",\"\"value\"\":false}]\"\n\
         d,ios,\"vip,vip\"\n",
    );
    let run = fixture.run(&["devices", "import", "devices.csv", "--parallel", "1"]);
    check_summary(&run, 4, 3, 1, 3);
    let device = |id: &str| {
        let body = json!({ "device_id": id, "platform": "ios", "sdk_type": "ios_push" });
        ("POST /v1/devices".to_owned(), Some(body))
    };
    let tag = |id: &str, body: Value| (format!("POST /v1/devices/{id}/tags"), Some(body));
    assert_eq!(
        fixture.received().await,
        [
            device("a"),
            tag("a", tags(&[("vip", true), ("new", true)])),
            device("b"),
            device("c"),
            tag("c", tags(&[("a,b", true), ("old", false)])),
        ]
    );
    assert!(fixture.read("devices.csv.refused.csv").contains("tags[1].name: is given twice"));
}

#[tokio::test(flavor = "multi_thread")]
async fn users_and_attributes_are_set_with_the_registration() {
    let fixture = Fixture::with_body(done()).await;
    fixture.file(
        "devices.csv",
        "device_id,platform,User ID,tags,attribute:plan,attribute:seats\n\
         a,ios,user-7,vip,pro,3\n\
         b,ios,,,\"\"\"3\"\"\",\n\
         c,ios,user-7,,,\n\
         d,ios,,,\"\"\"3\",\n",
    );
    let run = fixture.run(&["devices", "import", "devices.csv", "--parallel", "1"]);
    check_summary(&run, 4, 3, 1, 3);
    let device = |id: &str, user: Option<&str>| {
        let mut body = json!({ "device_id": id, "platform": "ios", "sdk_type": "ios_push" });
        if let Some(user) = user {
            body["user_id"] = json!(user);
        }
        ("POST /v1/devices".to_owned(), Some(body))
    };
    let attributes =
        |id: &str, body: Value| (format!("PATCH /v1/devices/{id}/attributes"), Some(body));
    assert_eq!(
        fixture.received().await,
        [
            device("a", Some("user-7")),
            ("POST /v1/devices/a/tags".to_owned(), Some(tags(&[("vip", true)]))),
            attributes("a", json!({ "plan": "pro", "seats": 3 })),
            device("b", None),
            attributes("b", json!({ "plan": "3" })),
            device("c", Some("user-7")),
        ]
    );
    let report = fixture.read("devices.csv.refused.csv");
    assert!(report.contains("attribute:plan: the quotes are not closed"), "{report}");
}

/// The row is finished only after its last request.
#[tokio::test(flavor = "multi_thread")]
async fn an_import_that_failed_at_an_attribute_repeats_the_row() {
    let fixture = Fixture::new().await;
    let unauthorized = response(401, &json!({ "errors": ["no"] }));
    let second = path("/v1/devices/b/attributes");
    Mock::given(second).respond_with(unauthorized).up_to_n_times(1).mount(&fixture.server).await;
    let too_many = response(400, &json!({ "errors": ["must hold at most 100 attributes"] }));
    let third = path("/v1/devices/c/attributes");
    Mock::given(third).respond_with(too_many).mount(&fixture.server).await;
    Mock::given(any()).respond_with(response(200, &done())).mount(&fixture.server).await;
    fixture.file("devices.csv", "device_id,platform,attribute:x\na,ios,1\nb,ios,2\nc,ios,3\n");
    let import = ["devices", "import", "devices.csv", "--parallel", "1"];
    assert_eq!(fixture.run(&import).status, 4);
    let run = fixture.run(&import);
    check_summary(&run, 3, 2, 1, 2);
    assert!(fixture.read("devices.csv.refused.csv").contains("must hold at most 100 attributes"));
    let lines = fixture.received().await.into_iter().map(|(line, body)| {
        let id = body.unwrap()["device_id"].as_str().map(|id| format!(" {id}"));
        format!("{line}{}", id.unwrap_or_default())
    });
    let attributes = |id: &str| format!("PATCH /v1/devices/{id}/attributes");
    let registered = |id: &str| format!("POST /v1/devices {id}");
    assert_eq!(
        lines.collect::<Vec<_>>(),
        [
            registered("a"),
            attributes("a"),
            registered("b"),
            attributes("b"),
            registered("b"),
            attributes("b"),
            registered("c"),
            attributes("c"),
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn devices_of_a_file_are_tagged() {
    let fixture = Fixture::new().await;
    let unknown = response(404, &json!({ "errors": ["not found"] }));
    let ghost = path("/v1/devices/ghost/tags");
    Mock::given(ghost).respond_with(unknown).mount(&fixture.server).await;
    let unauthorized = response(401, &json!({ "errors": ["no"] }));
    let third = path("/v1/devices/c/tags");
    Mock::given(third).respond_with(unauthorized).up_to_n_times(1).mount(&fixture.server).await;
    Mock::given(any()).respond_with(response(200, &done())).mount(&fixture.server).await;
    fixture
        .file("t.csv", "device_id;Tags;platform\na;vip;ios\nghost;vip;\nc;\"vip,new\";web\nd;;\n");
    let tag = ["devices", "tag", "--file", "t.csv", "--parallel", "1"];
    let run = fixture.run(&tag);
    assert_eq!(run.status, 4, "{run:?}");
    assert!(fixture.has("t.csv.notify-tags"));

    let run = fixture.run(&tag);
    assert_eq!(run.status, 3, "{run:?}");
    assert_eq!(
        run.json(),
        json!({ "rows": 4, "tagged": 3, "refused": 1, "refused_file": "t.csv.refused.csv" })
    );
    assert!(fixture.read("t.csv.refused.csv").contains("no device has this id"));
    let lines: Vec<_> = fixture.received().await.into_iter().map(|(line, _)| line).collect();
    let tagged = |id: &str| format!("POST /v1/devices/{id}/tags");
    assert_eq!(lines, [tagged("a"), tagged("ghost"), tagged("c"), tagged("c")]);
    assert_eq!(fixture.received().await[3].1, Some(tags(&[("vip", true), ("new", true)])));

    fixture.file("o.csv", "device_id;tags\na;\"{\"\"x\"\":true}\"\n");
    let run = fixture.run(&["devices", "tag", "--file", "o.csv"]);
    let expected = "the first refused row: line 2: a: tags: must be an array of tags or of names\n\
        error: rows refused: 1; correct them in o.csv.refused.csv, then run `notify devices tag \
        --file o.csv.refused.csv`\n";
    assert_eq!((run.status, run.stderr.as_str()), (3, expected));

    for (args, expected) in [
        (vec!["devices", "tag"], "--file"),
        (vec!["devices", "tag", "a"], "<NAMES>"),
        (vec!["devices", "tag", "a", "vip", "--restart"], "--restart"),
        (vec!["devices", "tag", "a", "vip", "--file", "t.csv"], "--file"),
    ] {
        let run = fixture.run(&args);
        assert!(run.status == 2 && run.stderr.contains(expected), "{args:?}: {run:?}");
    }
}

fn device(more: &Value) -> Value {
    let mut device = json!({
        "device_id": "a", "platform": "android", "sdk_type": "android_push", "push_token": "t",
        "push_disabled": false, "ios_env": null, "android_id": null, "ad_id": null, "imei": null,
        "sdk_version": null, "app_version": null, "os_version": null, "store_identifier": null,
        "timezone": null, "country": null, "utc_offset": null, "language": null,
        "device_description": null, "tags": [], "user_id": null, "attributes": {}, "enabled": true,
        "disabled_reason": null, "created_at": 1, "updated_at": 1,
    });
    for (name, value) in more.as_object().unwrap() {
        device[name] = value.clone();
    }
    device
}

const P256DH: &str =
    "BAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const AUTH: &str = "AAAAAAAAAAAAAAAAAAAAAA";

fn two_tags() -> Value {
    tags(&[("vip", true), ("a,b", false)])
}

/// Attributes of every type, with texts that look like other types.
fn attributes() -> Value {
    json!({ "plan": "pro", "seats": 3, "score": -0.5, "trial": false, "zip": "10115",
        "word": "true", "quoted": "\"x\"", "empty": "" })
}

/// Devices of several platforms, as the API lists them.
fn listed() -> Value {
    json!({ "next_cursor": null, "devices": [
        device(&json!({ "device_id": "=a", "push_disabled": true, "enabled": false,
            "disabled_reason": "push_disabled", "tags": two_tags()["tags"], "utc_offset": "-120",
            "user_id": "=user", "attributes": attributes(),
            "device_description": "two\r\nlines, \"quoted\"" })),
        device(&json!({ "device_id": "w", "platform": "web", "sdk_type": null, "push_token": null,
            "subscription": { "endpoint": "https://push.example/1", "p256dh": P256DH,
                "auth": AUTH } })),
        device(&json!({ "device_id": "c", "platform": "chatapp", "sdk_type": null,
            "push_token": null, "recipient_id": "-77", "language": "de",
            "user_id": "user-7" })),
        device(&json!({ "device_id": "dead", "enabled": false, "push_token": "x",
            "disabled_reason": "unregistered" })),
    ] })
}

/// The requests that create these devices again.
fn recreated() -> Vec<(String, Option<Value>)> {
    let post = |path: &str, body: Value| (format!("POST /v1/{path}"), Some(body));
    vec![
        post(
            "devices",
            json!({ "device_id": "=a", "platform": "android", "sdk_type": "android_push",
                "push_token": "t", "push_disabled": true, "utc_offset": "-120", "user_id": "=user",
                "device_description": "two\r\nlines, \"quoted\"" }),
        ),
        post("devices/=a/tags", two_tags()),
        ("PATCH /v1/devices/=a/attributes".to_owned(), Some(attributes())),
        post(
            "subscriptions",
            json!({ "platform": "web", "device_id": "w",
                "subscription": { "endpoint": "https://push.example/1",
                    "keys": { "p256dh": P256DH, "auth": AUTH } } }),
        ),
        post(
            "subscriptions",
            json!({ "platform": "chatapp", "device_id": "c", "recipient_id": "-77",
                "language": "de", "user_id": "user-7" }),
        ),
    ]
}

/// Every format in which the command prints devices can be imported.
#[tokio::test(flavor = "multi_thread")]
async fn listings_and_exports_are_imported() {
    for (args, name) in [
        (vec!["export"], "d.ndjson"),
        (vec!["export", "--format", "csv"], "d.csv"),
        (vec!["export", "-o", "csv"], "d.csv"),
        (vec!["list", "-o", "csv"], "d.csv"),
        (vec!["list", "-o", "json"], "d.json"),
        (vec!["list", "--all", "-o", "json"], "d.json"),
        (vec!["list", "--all", "-o", "json"], "d.ndjson"),
    ] {
        let fixture = Fixture::new().await;
        let mock = Mock::given(method("GET")).respond_with(response(200, &listed()));
        mock.mount(&fixture.server).await;
        let subscribed = response(200, &json!({ "id": "x" }));
        let mock = Mock::given(path("/v1/subscriptions")).respond_with(subscribed);
        mock.mount(&fixture.server).await;
        Mock::given(any()).respond_with(response(200, &done())).mount(&fixture.server).await;
        let shown = fixture.run(&[&["devices"], &args[..]].concat()).assert_success().stdout;
        fixture.file(name, shown);
        let run = fixture.run(&["devices", "import", name, "--parallel", "1"]);
        assert_eq!(
            run.json(),
            json!({ "rows": 4, "registered": 3, "refused": 0, "refused_file": null,
                "duplicates": 0, "left_out": 1, "devices": 3, "replaced": 0,
                "without_address": 0, "left_out_reasons": { "unregistered": 1 } }),
            "{args:?}: {run:?}"
        );
        assert_eq!(
            run.stderr,
            "1 row left out: the provider reported the device's address as dead (unregistered); its \
             app registers it again\n"
        );
        assert_eq!(fixture.received().await[1..], recreated(), "{args:?}");
    }
}

/// A user as the API returns it.
fn user(user_id: &str, attributes: &Value) -> Value {
    json!({
        "user_id": user_id, "attributes": attributes, "created_at": 1, "updated_at": 2,
        "devices": [{"device_id": "a", "platform": "ios", "enabled": true}],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn users_of_a_file_are_imported() {
    let fixture = Fixture::new().await;
    let too_many = response(400, &json!({ "errors": ["must hold at most 100 attributes"] }));
    Mock::given(path("/v1/users/full")).respond_with(too_many).mount(&fixture.server).await;
    let unauthorized = response(401, &json!({ "errors": ["no"] }));
    let third = path("/v1/users/c");
    Mock::given(third).respond_with(unauthorized).up_to_n_times(1).mount(&fixture.server).await;
    let updated = response(200, &user("u", &json!({})));
    Mock::given(any()).respond_with(updated).mount(&fixture.server).await;
    fixture.file(
        "u.csv",
        "User ID;attribute:plan;attribute:zip;attributes;platform\n\
         a/1;pro;\"\"\"10115\"\"\";\"{\"\"seats\"\":3,\"\"old\"\":null}\";no platform\n\
         full;pro;;;\n\
         c;;;;ios\n\
         ;pro;;;\n\
         d;\"\"\"x\";;;\n",
    );
    let import = ["users", "import", "u.csv", "--parallel", "1"];
    let run = fixture.run(&import);
    assert_eq!(run.status, 4, "{run:?}");
    assert!(fixture.has("u.csv.notify-users"));

    let run = fixture.run(&import);
    assert_eq!(run.status, 3, "{run:?}");
    assert_eq!(
        run.json(),
        json!({ "rows": 5, "imported": 2, "refused": 3, "refused_file": "u.csv.refused.csv" })
    );
    assert_eq!(
        run.stderr,
        "continuing after line 3\n\
         the first refused row: line 5: user_id: must not be empty\n\
         error: rows refused: 3; correct them in u.csv.refused.csv, then run `notify users import \
         u.csv.refused.csv`\n"
    );
    let report = fixture.read("u.csv.refused.csv");
    let mut report = csv::Reader::from_reader(report.as_bytes());
    let rows: Vec<_> = report.records().map(Result::unwrap).collect();
    let errors = rows.iter().map(|row| (&row[5], &row[6]));
    assert_eq!(
        errors.collect::<Vec<_>>(),
        [
            ("3", "must hold at most 100 attributes"),
            ("5", "user_id: must not be empty"),
            ("6", "attribute:plan: the quotes are not closed"),
        ]
    );
    assert!(!fixture.has("u.csv.notify-users"));
    let patch = |id: &str, body: Value| (format!("PATCH /v1/users/{id}"), Some(body));
    let first = json!({ "plan": "pro", "zip": "10115", "seats": 3, "old": null });
    assert_eq!(
        fixture.received().await,
        [
            patch("a%2F1", json!({ "attributes": first })),
            patch("full", json!({ "attributes": { "plan": "pro" } })),
            patch("c", json!({})),
            patch("c", json!({})),
        ]
    );

    fixture.file("o.csv", "external_id,attribute:plan\nu,pro\n");
    let run = fixture.run(&["users", "import", "o.csv"]);
    let expected = "the header has no column `user_id`; if `external_id` is the `user_id`";
    assert!(run.status == 2 && run.stderr.contains(expected), "{run:?}");
    fixture.file("o.json", "{\n\"devices\":[]}\n");
    let run = fixture.run(&["users", "import", "o.json"]);
    assert!(
        run.status == 2 && run.stderr.contains("not a list of users: missing field"),
        "{run:?}"
    );
}

/// Every format in which the command prints users can be imported.
#[tokio::test(flavor = "multi_thread")]
async fn listings_of_users_are_imported() {
    let all = [user("=u", &attributes()), user("v", &json!({}))];
    for (args, name) in [
        (vec!["-o", "json"], "u.json"),
        (vec!["--all", "-o", "json"], "u.json"),
        (vec!["--all", "-o", "json"], "-"),
        (vec!["-o", "csv"], "u.csv"),
    ] {
        let fixture = Fixture::new().await;
        let listed = response(200, &json!({ "users": all, "next_cursor": null }));
        Mock::given(method("GET")).respond_with(listed).mount(&fixture.server).await;
        let updated = response(200, &all[0]);
        Mock::given(any()).respond_with(updated).mount(&fixture.server).await;
        let shown = fixture.run(&[&["users", "list"], &args[..]].concat()).assert_success().stdout;
        fixture.file(name, &shown);
        let import = ["users", "import", name, "--parallel", "1"];
        let run = if name == "-" {
            let mut command = fixture.command(&[&import[..], &["--format", "ndjson"]].concat());
            command.write_stdin(shown);
            common::finish(command)
        } else {
            fixture.run(&import)
        }
        .assert_success();
        assert_eq!(
            run.json(),
            json!({ "rows": 2, "imported": 2, "refused": 0, "refused_file": null }),
            "{args:?}: {run:?}"
        );
        let first = json!({ "attributes": attributes() });
        assert_eq!(
            fixture.received().await[1..],
            [
                ("PATCH /v1/users/=u".to_owned(), Some(first)),
                ("PATCH /v1/users/v".to_owned(), Some(json!({}))),
            ],
            "{args:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_a_user_are_sent_in_the_order_of_the_file() {
    let (fixture, arrivals) = with_slow_first_response(user("u", &json!({}))).await;
    let rows = (0..5).map(|row| format!("u{row},{row},first\nu{row},{row},last\n"));
    let rows: String = rows.collect();
    fixture.file("u.csv", format!("user_id,attribute:row,attribute:plan\n{rows}"));
    let run = fixture.run(&["users", "import", "u.csv"]).assert_success();
    assert_eq!(run.json()["imported"], 10);
    let mut firsts = HashMap::new();
    let mut lasts = 0;
    for (body, at) in arrivals.try_iter() {
        let row = body["attributes"]["row"].as_f64().unwrap().to_string();
        if body["attributes"]["plan"] == "first" {
            firsts.insert(row, at);
        } else {
            let first = firsts.get(&row).expect("the first row arrives first");
            assert!(at - *first >= SLOW, "{row}: the last row was sent after the response");
            lasts += 1;
        }
    }
    assert_eq!((firsts.len(), lasts), (5, 5));
}

/// A list has no line for each row, so a row has the line on which it begins.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_of_a_list_is_refused_and_corrected() {
    let fixture = Fixture::with_body(done()).await;
    let list = json!([device(&json!({})), device(&json!({ "device_id": "b", "tags": [7] }))]);
    fixture.file("d.json", serde_json::to_string_pretty(&list).unwrap());
    let run = fixture.run(&["devices", "import", "d.json"]);
    assert_eq!((run.status, &run.json()["refused"]), (3, &json!(1)), "{run:?}");
    let report = fixture.read("d.json.refused.ndjson");
    let mut row: Value = serde_json::from_str(&report).expect("one row, on one line");
    assert_eq!((&row["line"], &row["device_id"]), (&json!(29), &json!("b")), "{report}");
    row["tags"] = json!(["vip"]);
    fixture.file("d.json.refused.ndjson", row.to_string());
    let run = fixture.run(&["devices", "import", "d.json.refused.ndjson"]);
    assert_eq!(run.json()["registered"], 1, "{run:?}");

    fixture.file(
        "cut.json",
        "[{\"device_id\":\"a\",\"platform\":\"ios\",\"sdk_type\":\"ios_push\"},\n{",
    );
    let run = fixture.run(&["devices", "import", "cut.json"]);
    assert_eq!(run.status, 2, "{run:?}");
    assert!(run.stderr.contains("line 2: the JSON ends within the list"), "{run:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mapping_can_have_any_path_and_its_unknown_columns_are_reported() {
    let fixture = Fixture::with_body(done()).await;
    let mapping = "[fields]\nplatform = { column = \"os\" }\npush_token = \"token\"\nuser_id = \"usre\"\n\
                   [attributes]\nplan = \"plan\"\n";
    fixture.file("Ada's mapping.toml", mapping);
    fixture.file(
        "my devices.ndjson",
        "{\"os\":\"android\",\"token\":\"t\",\"user\":\"u\",\"plan\":null}\n{\"os\":\"beos\",\"token\":\"u\"}\n",
    );
    let import = ["devices", "import", "--mapping", "Ada's mapping.toml"];
    let run = fixture.run(&[&import[..], &["my devices.ndjson"]].concat());
    assert_eq!((run.status, &run.json()["registered"]), (3, &json!(1)), "{run:?}");
    let lines: Vec<_> = run.stderr.lines().collect();
    assert_eq!(lines[0], "warning: no row has the column `usre`, which the mapping names");
    assert_eq!(
        lines[2],
        "error: rows refused: 1; correct them in my devices.ndjson.refused.ndjson, then run `notify devices \
         import --mapping 'Ada'\\''s mapping.toml' 'my devices.ndjson.refused.ndjson'`"
    );
    assert_eq!(lines.len(), 3, "{run:?}");
}

/// An error is corrected in the column of the user's own table, so it names this column.
#[tokio::test(flavor = "multi_thread")]
async fn errors_name_the_columns_of_a_mapping() {
    let fixture = Fixture::with_body(done()).await;
    let mapping = "[fields]\nplatform = \"os\"\npush_token = \"token\"\n\
                   utc_offset = { column = \"tz\", unit = \"hours\" }\n";
    fixture.file("mapping.toml", mapping);
    fixture.file(
        "d.ndjson",
        "{\"os\":\"beos\",\"token\":\"t\"}\n{\"os\":\"ios\",\"token\":\"t\"}\n\
         {\"os\":\"android\",\"token\":\"u\",\"tz\":40}\n",
    );
    let run = fixture.run(&["devices", "import", "--mapping", "mapping.toml", "d.ndjson"]);
    assert_eq!((run.status, &run.json()["refused"]), (3, &json!(3)), "{run:?}");
    let report = fixture.read("d.ndjson.refused.ndjson");
    let errors: Vec<Value> = report
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["errors"].clone())
        .collect();
    assert_eq!(
        errors,
        [
            json!([
                "device_id: is required",
                "os (platform): must be one of android, ios \
                    (POST /v1/subscriptions takes web, fb-messenger, chatapp)"
            ]),
            json!([
                "token (push_token): is not an APNs device token: it looks like a text that is not \
                 hexadecimal"
            ]),
            json!(["tz (utc_offset): must be a whole number of minutes within ±840"]),
        ]
    );
}
