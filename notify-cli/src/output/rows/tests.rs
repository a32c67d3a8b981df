//! Listings and records on terminals of several widths.

use serde_json::json;

use super::*;
use crate::output::view;

const ID: &str = "0190a3b2-7f00-7000-8000-000000000001";
const AT: i64 = 1_767_323_045_678;

fn shown_at(view: &View, records: &[Value], room: Option<u16>) -> String {
    let cells = |record: &Value| {
        let columns = view.columns.iter();
        columns.map(|column| shown(record.pointer(column.pointer), column.kind)).collect()
    };
    let rows: Vec<_> = records.iter().map(cells).collect();
    listing(view, &rows, room)
}

fn widest(text: &str) -> usize {
    text.lines().map(text::width).max().unwrap_or_default()
}

#[test]
fn a_terminal_of_no_columns_has_80() {
    for (told, known) in [(0, 80), (1, 1), (200, 200)] {
        assert_eq!(known_width(told), known);
    }
}

#[test]
fn a_payload_is_whole_and_no_wider_than_a_text() {
    let payload = json!({"message": {"notification": {"body": "word ".repeat(200)}}, "z": "end"});
    let record = json!({"platform": "android", "payload": payload});
    for (room, most) in [(None, 130), (Some(80), 80)] {
        let text = shown_at(&view::PREVIEW, std::slice::from_ref(&record), room);
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

/// On a terminal of 80 characters there is no room for a table: an id stays whole.
#[test]
fn records_are_blocks_where_a_table_has_no_room() {
    assert_eq!(
        shown_at(&view::NOTIFICATIONS, &notifications(), Some(80)),
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
fn records_are_a_table_where_it_has_room() {
    let [first, ..] = notifications();
    assert_eq!(
        shown_at(&view::NOTIFICATIONS, &[first], Some(120)),
        "\
┌──────────────────────────────────────┬───────────┬──────────────────────┬─────────────────┬─────────────┐
│ id                                   ┆ status    ┆ created_at           ┆ text            ┆ devices     │
╞══════════════════════════════════════╪═══════════╪══════════════════════╪═════════════════╪═════════════╡
│ 0190a3b2-7f00-7000-8000-000000000001 ┆ completed ┆ 2026-01-02T03:04:05Z ┆ Dinner is ready ┆ 3 of 3 sent │
└──────────────────────────────────────┴───────────┴──────────────────────┴─────────────────┴─────────────┘"
    );
}

#[test]
fn a_column_that_can_be_spared_makes_room() {
    let app = json!({"id": ID, "name": "Shop", "language": "en", "status": "active",
        "created_at": AT});
    let apps = [app];
    for (room, is_there) in [(None, true), (Some(100), true), (Some(80), false)] {
        let text = shown_at(&view::APPS, &apps, room);
        assert_eq!(text.contains("2026-01-02T03:04:05Z"), is_there, "{text}");
        assert!(text.starts_with('┌'), "{text}");
    }
}

/// Whatever the terminal: an id or url is on one line, and so can be copied.
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
        for room in [40, 80, 100, 132, 250] {
            let text = shown_at(view, std::slice::from_ref(record), Some(room));
            for part in whole {
                let is_there = room == 40 && part.contains(' ') || text.contains(part);
                assert!(is_there, "{part} at {room}:\n{text}");
            }
            let most = usize::from(room).max(url.len() + 20);
            assert!(widest(&text) <= most, "at {room}:\n{text}");
        }
    }
}

#[test]
fn a_record_is_a_box_where_it_has_room_and_shows_no_zeros() {
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
