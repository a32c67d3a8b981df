//! Cells of tables and of CSV files.

use serde_json::json;

use super::*;

#[test]
fn a_formula_is_exported_as_text() {
    for start in FORMULA_STARTS {
        let text = format!("{start}HYPERLINK(\"x\")");
        let cell = csv_cell(Some(&json!(text)), CellKind::Plain);
        assert_eq!(cell, format!("'{text}"));
        assert_eq!(*escape_formula(text.as_bytes()), *cell.as_bytes());
        assert_eq!(unescape_formula(&cell), text);
    }
    for harmless in ["", "a=b", "'quoted'", " =1"] {
        assert_eq!(csv_cell(Some(&json!(harmless)), CellKind::Plain), harmless);
        assert_eq!(*escape_formula(harmless.as_bytes()), *harmless.as_bytes());
        assert_eq!(unescape_formula(harmless), harmless);
    }
    assert_eq!(csv_cell(Some(&json!(-5)), CellKind::Plain), "-5");
}

#[test]
fn attributes_and_conditions_are_written_as_their_arguments() {
    let attributes = json!({ "b": true, "n": 1e300, "t": "a\u{1b}\nb", "q": "7" });
    let cell = table_cell(Some(&attributes), CellKind::Attributes);
    assert_eq!(cell, "b=true\nn=1e+300\nq=\"7\"\nt=a\\u{1b}\\nb");
    for (audience, text) in [
        (json!({ "not": {"tag": "a b"} }), "not tag = \"a b\""),
        // A form of a newer server.
        (json!({ "radius": 5 }), "{\"radius\": 5}"),
    ] {
        assert_eq!(table_cell(Some(&audience), CellKind::Audience), text);
    }
    for kind in [CellKind::Attributes, CellKind::Audience, CellKind::UserDevices] {
        assert_eq!(table_cell(Some(&json!(null)), kind), "");
    }
}

#[test]
fn control_and_invisible_characters_are_escaped() {
    for (text, shown) in [
        ("plain, é, 漢字, 👍", "plain, é, 漢字, 👍"),
        ("\u{1b}[2J\u{7}", "\\u{1b}[2J\\u{7}"),
        ("\u{9b}2J", "\\u{9b}2J"),
        ("a\r\tb\0", "a\\r\\tb\\u{0}"),
        ("\u{202e}gpj.exe", "\\u{202e}gpj.exe"),
        ("\u{2066}a\u{2069}", "\\u{2066}a\\u{2069}"),
        ("a\u{200b}b\u{2060}\u{feff}", "a\\u{200b}b\\u{2060}\\u{feff}"),
        ("\u{61c}\u{200e}\u{200f}", "\\u{61c}\\u{200e}\\u{200f}"),
        ("\u{2028}\u{ad}\u{e0041}", "\\u{2028}\\u{ad}\\u{e0041}"),
        // Joiners between letters that they join are kept: a family, Persian, Hindi.
        ("👩\u{200d}👧", "👩\u{200d}👧"),
        ("❤\u{fe0f}\u{200d}🔥", "❤\u{fe0f}\u{200d}🔥"),
        ("می\u{200c}خواهم", "می\u{200c}خواهم"),
        ("क\u{94d}\u{200d}ष", "क\u{94d}\u{200d}ष"),
        // Other joiners would make two texts look alike.
        ("pay\u{200d}pal", "pay\\u{200d}pal"),
        ("\u{200d}👧\u{200c}", "\\u{200d}👧\\u{200c}"),
    ] {
        assert_eq!(printable(text), shown, "{text:?}");
    }
    assert_eq!(printable_lines("a\nb\u{1b}"), "a\nb\\u{1b}");
}

#[test]
fn tables_have_times_and_no_control_characters() {
    assert_eq!(
        table_cell(Some(&json!(1_767_323_045_678_i64)), CellKind::Time),
        "2026-01-02T03:04:05Z"
    );
    assert_eq!(table_cell(Some(&json!(1_767_323_045_678_i64)), CellKind::Day), "2026-01-02");
    assert_eq!(table_cell(Some(&json!(null)), CellKind::Time), "");
    assert_eq!(table_cell(Some(&json!("a\u{1b}[31m\nb")), CellKind::Plain), "a\\u{1b}[31m\\nb");
    assert_eq!(table_cell(None, CellKind::Plain), "");
    assert_eq!(table_cell(Some(&json!(null)), CellKind::Step), "now");
    assert_eq!(
        table_cell(Some(&json!(1_767_323_045_678_i64)), CellKind::Step),
        "2026-01-02T03:04:05Z"
    );
    assert_eq!(table_cell(Some(&json!(["a", "b\nc"])), CellKind::Lines), "a\nb\\nc");
    assert_eq!(table_cell(Some(&json!(["x", 1])), CellKind::Plain), r#"["x", 1]"#);
    let nested = json!({"a": [true, null], "b": {"c": "d,e"}});
    let text = r#"{"a": [true, null], "b": {"c": "d,e"}}"#;
    assert_eq!(table_cell(Some(&nested), CellKind::Plain), text);
    assert_eq!(csv_cell(Some(&nested), CellKind::Plain), nested.to_string());
    for (kind, text) in [
        (CellKind::Time, "2026-01-02T03:04:05Z"),
        (CellKind::Day, "2026-01-02"),
        (CellKind::Step, "2026-01-02T03:04:05Z"),
        (CellKind::Plain, "1767323045678"),
    ] {
        assert_eq!(csv_cell(Some(&json!(1_767_323_045_678_i64)), kind), text);
        assert_eq!(csv_cell(Some(&json!(null)), kind), "");
    }
    assert_eq!(table_cell(Some(&json!(0)), CellKind::Count), "");
    assert_eq!(table_cell(Some(&json!(7)), CellKind::Count), "7");
}

#[test]
fn a_notification_is_shown_with_its_text_and_its_outcomes() {
    for (request, text) in [
        (json!({"text": "Hi", "platforms": ["ios"]}), "Hi"),
        (json!({"poll": {"text": "Tea?"}}), "Tea?"),
        (json!({"text": null, "poll": {"text": "Tea?"}}), "Tea?"),
        (json!({"text": "a\nb"}), "a\\nb"),
        (json!({"android_json": {}}), ""),
    ] {
        assert_eq!(table_cell(Some(&request), CellKind::Message), text);
    }
    let counts = json!({"targeted": 9, "sent": 4, "failed": 1, "unregistered": 2, "expired": 0,
        "canceled": 0, "pending": 2, "unknown": 5, "excluded": 0});
    let text = "4 of 9 sent\n1 failed\n2 unregistered\n2 pending";
    for (status, counts, text) in [
        ("sending", counts, text),
        ("completed", json!({"targeted": 1, "sent": 1}), "1 of 1 sent"),
        ("completed", json!({"targeted": 0, "unknown": 1}), "no device"),
        ("scheduled", json!({"targeted": 0}), "due 2026-01-02T03:04:05Z"),
        ("reported", json!({"targeted": 0}), ""),
    ] {
        let notification = json!({"status": status, "counts": counts,
            "send_at": 1_767_323_045_678_i64});
        assert_eq!(table_cell(Some(&notification), CellKind::Counts), text);
    }
}

#[test]
fn failures_are_shown_with_their_reasons() {
    let ignored = json!([{"index": 0, "reason": "unknown device"}, {"index": 3, "reason": "x"}]);
    let lines = "events[0]: unknown device\nevents[3]: x";
    assert_eq!(table_cell(Some(&ignored), CellKind::Ignored), lines);
    for (attempt, text) in [
        (json!({"reason": "status", "status": 500}), "it answered with status 500"),
        (json!({"reason": "timeout", "status": null}), "timeout"),
        (json!({"reason": null, "status": 200}), ""),
    ] {
        assert_eq!(table_cell(Some(&attempt), CellKind::Attempt), text);
    }
    let failing = 1_767_323_045_678_i64;
    for (hook, text) in [
        (json!({"enabled": true, "failing_since": null}), "enabled"),
        (json!({"enabled": false, "disabled_reason": null}), "disabled"),
        (json!({"enabled": false, "disabled_reason": "gone"}), "disabled (gone)"),
        (json!({"enabled": true, "failing_since": failing}), "failing since 2026-01-02T03:04:05Z"),
    ] {
        assert_eq!(table_cell(Some(&hook), CellKind::Webhook), text);
    }
}

#[test]
fn tags_and_providers_are_abbreviated() {
    let tags = json!([
        {"name": "vip", "type": "bool", "value": true},
        {"name": "beta", "type": "bool", "value": false},
    ]);
    assert_eq!(table_cell(Some(&tags), CellKind::Tags), "vip, beta=false");
    let apns = json!({"ca_certificate": "-----BEGIN", "endpoint": "https://a/apns",
        "key_id": "KEY", "team_id": "TEAM", "topic": "com.example"});
    assert_eq!(table_cell(Some(&apns), CellKind::Provider), "TEAM KEY com.example https://a/apns");
    let held = json!({"state": "held", "reason": "Forbidden", "until": 1_767_323_045_678_i64});
    let expected = "held until 2026-01-02T03:04:05Z: the credentials are refused (Forbidden)";
    assert_eq!(table_cell(Some(&held), CellKind::Channel), expected);
    let open = json!({"state": "open", "reason": null, "until": null});
    assert_eq!(table_cell(Some(&open), CellKind::Channel), "delivering");
    let fcm = json!({"enriched_as_data": false, "service_account": {"project_id": "shop"}});
    assert_eq!(table_cell(Some(&fcm), CellKind::Provider), "shop");
}
