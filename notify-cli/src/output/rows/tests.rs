//! Listings and records on terminals of several widths.

use serde_json::json;

use super::*;
use crate::output::view;

const ID: &str = "0190a3b2-7f00-7000-8000-000000000001";
const AT: i64 = 1_767_323_045_678;

fn printed_at(view: &View, records: &[Value], width_limit: Option<u16>) -> String {
    let cells = |record: &Value| {
        let columns = view.columns.iter();
        columns.map(|column| table_cell(record.pointer(column.pointer), column.kind)).collect()
    };
    let rows: Vec<_> = records.iter().map(cells).collect();
    listing(view, &rows, width_limit)
}

fn widest(text: &str) -> usize {
    text.lines().map(text::width).max().unwrap_or_default()
}

#[test]
fn a_terminal_of_unknown_size_has_80_columns() {
    for (reported, known) in [(0, 80), (1, 1), (200, 200)] {
        assert_eq!(width_or_default(reported), known);
    }
}

#[test]
fn a_payload_is_complete_and_of_limited_width() {
    let payload = json!({"message": {"notification": {"body": "word ".repeat(200)}}, "z": "end"});
    let record = json!({"platform": "android", "payload": payload});
    for (width_limit, most) in [(None, 130), (Some(80), 80)] {
        let text = printed_at(&view::PREVIEW, std::slice::from_ref(&record), width_limit);
        assert!(text.contains("\"z\": \"end\""), "{text}");
        assert!(text.contains("  \"message\": {"), "{text}");
        assert!(widest(&text) <= most, "{text}");
    }
}

fn notifications() -> [Value; 3] {
    let counts = json!({"targeted": 1_200_000, "sent": 1_199_700, "failed": 100,
        "unregistered": 200});
    [
        json!({"id": ID, "status": "completed", "created_at": AT,
            "request": {"text": "Dinner is ready"}, "counts": {"targeted": 3, "sent": 3}}),
        json!({"id": ID, "status": "completed", "created_at": AT,
            "request": {"poll": {"text": "お茶はいかが"}}, "counts": counts}),
        json!({"id": ID, "status": "scheduled", "created_at": AT, "send_at": AT,
            "request": {"text": "Later"}, "counts": {"targeted": 0}}),
    ]
}

/// On a terminal of 80 columns, a table does not fit, since ids are not broken.
#[test]
fn records_are_blocks_if_a_table_does_not_fit() {
    assert_eq!(
        printed_at(&view::NOTIFICATIONS, &notifications(), Some(80)),
        "\
0190a3b2-7f00-7000-8000-000000000001  completed  2026-01-02T03:04:05Z
  text     Dinner is ready
  devices  3 of 3 sent
0190a3b2-7f00-7000-8000-000000000001  completed  2026-01-02T03:04:05Z
  text     お茶はいかが
  devices  1199700 of 1200000 sent
           100 failed
           200 unregistered
0190a3b2-7f00-7000-8000-000000000001  scheduled  2026-01-02T03:04:05Z
  text     Later
  devices  due 2026-01-02T03:04:05Z"
    );
}

#[test]
fn records_are_a_table_if_it_fits() {
    let [first, ..] = notifications();
    assert_eq!(
        printed_at(&view::NOTIFICATIONS, &[first], Some(120)),
        "\
┌──────────────────────────────────────┬───────────┬──────────────────────┬─────────────────┬─────────────┐
│ id                                   ┆ status    ┆ created_at           ┆ text            ┆ devices     │
╞══════════════════════════════════════╪═══════════╪══════════════════════╪═════════════════╪═════════════╡
│ 0190a3b2-7f00-7000-8000-000000000001 ┆ completed ┆ 2026-01-02T03:04:05Z ┆ Dinner is ready ┆ 3 of 3 sent │
└──────────────────────────────────────┴───────────┴──────────────────────┴─────────────────┴─────────────┘"
    );
}

#[test]
fn an_optional_column_is_omitted_if_the_table_does_not_fit() {
    let app = json!({"id": ID, "name": "Shop", "language": "en", "status": "active",
        "created_at": AT});
    let apps = [app];
    for (width_limit, is_there) in [(None, true), (Some(100), true), (Some(80), false)] {
        let text = printed_at(&view::APPS, &apps, width_limit);
        assert_eq!(text.contains("2026-01-02T03:04:05Z"), is_there, "{text}");
        assert!(text.starts_with('┌'), "{text}");
    }
}

/// An id or url is on one line for every width, so that it can be copied.
#[test]
fn no_id_and_no_url_is_broken() {
    let url = "https://hooks.example.com/services/T0000/B0000/notifications?token=abcdef";
    let feed = json!({"id": ID, "name": "Shop news", "url": url, "status": "failing",
        "items": 0, "last_fetched_at": AT, "last_error": "the host answered with 404"});
    let hook = json!({"id": ID, "url": url, "enabled": false, "disabled_reason": "gone",
        "pending": 0, "dropped": 3});
    let delivery = json!({"device_id": ID, "platform": "android", "outcome": "failed",
        "reason": "http_400 INVALID_ARGUMENT", "attempts": 1, "at": AT});
    let attempt = json!({"id": ID, "event": "notification.completed", "outcome": "failed",
        "attempts": 7, "status": 500, "reason": "status", "latency_ms": 3,
        "last_attempt_at": AT, "next_attempt_at": null});
    for (view, record, whole) in [
        (&view::FEEDS, &feed, &[ID, url, "the host answered with 404"][..]),
        (&view::WEBHOOKS, &hook, &[ID, url, "disabled (gone)"]),
        (&view::DELIVERIES, &delivery, &[ID, "http_400 INVALID_ARGUMENT"]),
        (&view::WEBHOOK_ATTEMPTS, &attempt, &[ID, "it answered with status 500"]),
    ] {
        for width_limit in [40, 80, 100, 132, 250] {
            let text = printed_at(view, std::slice::from_ref(record), Some(width_limit));
            for part in whole {
                let is_there = width_limit == 40 && part.contains(' ') || text.contains(part);
                assert!(is_there, "{part} at {width_limit}:\n{text}");
            }
            let most = usize::from(width_limit).max(url.len() + 20);
            assert!(widest(&text) <= most, "at {width_limit}:\n{text}");
        }
    }
}

#[test]
fn a_record_is_a_table_without_zeros_if_it_fits() {
    let record = json!({"id": ID, "status": "completed", "counts": {"targeted": 3, "sent": 3,
        "failed": 0}, "started_at": null, "request": {"text": "Hi", "platforms": ["ios"]}});
    let text = super::record(&record, &view::NOTIFICATION, Some(80));
    assert_eq!(
        text,
        "\
┌──────────┬──────────────────────────────────────┐
│ id       ┆ 0190a3b2-7f00-7000-8000-000000000001 │
│ status   ┆ completed                            │
│ request  ┆ {\"platforms\": [\"ios\"], \"text\": \"Hi\"} │
│ targeted ┆ 3                                    │
│ sent     ┆ 3                                    │
└──────────┴──────────────────────────────────────┘"
    );
    let settings = json!({"big_share_button": true, "build_without_image": true,
        "drag_to_expand": true, "small_share_button": true});
    let feature = json!({"type": "article", "text": "word ".repeat(12).trim_end()});
    let template = json!({"settings": settings, "strings": [], "features": [feature]});
    let campaign = json!({"id": ID, "name": "spring", "template": template});
    assert_eq!(
        super::record(&campaign, &view::CAMPAIGN, Some(60)),
        "\
id        0190a3b2-7f00-7000-8000-000000000001
name      spring
settings  {
            \"big_share_button\": true,
            \"build_without_image\": true,
            \"drag_to_expand\": true,
            \"small_share_button\": true
          }
strings   []
features  [
            {
              \"text\": \"word word word word word word word
              word word word word word\",
              \"type\": \"article\"
            }
          ]"
    );
    assert_eq!(super::record(&json!({"id": ID}), &view::CREATED, Some(80)), ID);
}
