//! Computed responses: percentages, statistics and enrichments; and texts with special rules.

use notify_core::{
    AnswerId, CampaignId, Day, DayCount, DayPeriod, DeviceStatistics, Enrichment, FeedItem,
    IdempotencyKey, NotificationStatistics, Platform, PlatformCount, Poll, Request, Template,
    Timestamp, json::JsonObject, percentage,
};
use serde_json::json;

use crate::support::NOW;

#[test]
fn percentages_have_two_decimals() {
    for (part, whole, expected) in
        [(0, 0, 0.0), (0, 5, 0.0), (5, 5, 100.0), (1, 3, 33.33), (2, 3, 66.67), (1, 8_000, 0.01)]
    {
        assert!((percentage(part, whole) - expected).abs() < 1e-12, "{part} of {whole}");
    }
    assert!((percentage(u64::MAX, u64::MAX) - 100.0).abs() < 1e-12);
}

#[test]
fn statistics_always_have_android_and_ios() {
    let counts = [
        PlatformCount { platform: Platform::ChatApp, enabled: 0, disabled: 0 },
        PlatformCount { platform: Platform::Web, enabled: 1, disabled: 0 },
        PlatformCount { platform: Platform::Ios, enabled: 2, disabled: 1 },
    ];
    assert_eq!(
        serde_json::to_value(DeviceStatistics::from_counts(&counts)).unwrap(),
        json!({
            "platforms": [
                {"platform": "android", "enabled_count": 0, "disabled_count": 0, "total_count": 0,
                 "total_enabled_percentage": 0.0, "total_disabled_percentage": 0.0,
                 "enabled_percentage": 0.0, "disabled_percentage": 0.0},
                {"platform": "ios", "enabled_count": 2, "disabled_count": 1, "total_count": 3,
                 "total_enabled_percentage": 66.67, "total_disabled_percentage": 100.0,
                 "enabled_percentage": 66.67, "disabled_percentage": 33.33},
                {"platform": "web", "enabled_count": 1, "disabled_count": 0, "total_count": 1,
                 "total_enabled_percentage": 33.33, "total_disabled_percentage": 0.0,
                 "enabled_percentage": 100.0, "disabled_percentage": 0.0},
            ],
            "total_enabled": 3, "total_disabled": 1, "total": 4,
        })
    );
}

#[test]
fn poll_percentages_are_shares_of_all_clicks() {
    let answer = |clicks: u64| {
        let id: AnswerId = "0197f9a0-0000-7000-8000-000000000003".parse().unwrap();
        json!({"id": id, "text": "", "image_url": "", "percentage": 0, "clicks": clicks})
    };
    let poll: Poll = serde_json::from_value(json!({
        "id": "p", "text": "?", "url": "u", "layout_id": "poll_text", "lang": "en",
        "created_at": 1, "answers": [answer(2), answer(1), answer(0)],
    }))
    .unwrap();
    let answers = poll.with_percentages().answers;
    let shares: Vec<String> = answers.iter().map(|answer| answer.percentage.to_string()).collect();
    assert_eq!(shares, ["66.67", "33.33", "0"]);
}

#[test]
fn idempotency_keys_are_visible_ascii() {
    assert_eq!(IdempotencyKey::new(b"a~!").unwrap().as_str(), "a~!");
    assert!(IdempotencyKey::new(&[b'k'; 255]).is_ok());
    for header in [&b""[..], &[b'k'; 256], b"a b", b"\t", "é".as_bytes(), b"\x7f"] {
        assert_eq!(
            IdempotencyKey::new(header).unwrap_err().as_slice(),
            ["Idempotency-Key: must be 1 to 255 visible ASCII characters"]
        );
    }
}

#[test]
fn json_objects_are_read_as_strictly_as_bodies() {
    for text in ["[]", "{", "{\"a\":1,\"a\":2}", "{\"a\":1e400}", "{\"a\":\"\\u0000\"}", ""] {
        assert!(JsonObject::new(text).is_err(), "{text}");
    }
    let members = JsonObject::new(" {\"b\": 1.50, \"a\": {}} ").unwrap().members();
    let members: Vec<_> = members.iter().map(|(name, raw)| (name.as_str(), raw.get())).collect();
    assert_eq!(members, [("b", "1.50"), ("a", "{}")]);
}

#[test]
fn enrichments_are_sorted_and_truncated() {
    let body = json!({
        "name": "n", "layout_id": "content_with_two", "settings": {"small_view": false},
        "strings": [{"name": "share_prefix", "translations": {"def": "p"}}],
        "features": [
            {"type": "action_button", "position": 2, "data": {"type": "fb", "data": {"z": 1, "a": 2}}},
            {"type": "action_button", "position": 1, "data": {"type": "wa"}},
            {"type": "external_content", "position": 3, "data": {"type": "ob_sdk", "ob_widget_id": "w"}},
            {"type": "content_feed", "position": 1, "data": {"feeds": [
                {"url": "https://x.example/rss", "name": "f"}]}},
        ],
    });
    let template = Template::parse(body.to_string().as_bytes(), NOW).unwrap();
    let id: CampaignId = "0197f9a0-0000-7000-8000-000000000001".parse().unwrap();
    let item = |title: &str, at: Option<i64>| FeedItem {
        title: title.to_owned(),
        url: "https://x.example".to_owned(),
        image_url: None,
        published_at: at.map(Timestamp),
        source: "f".to_owned(),
        is_external: false,
    };
    let stored_items = vec![
        item("undated", None),
        item("old", Some(1)),
        item("new", Some(3)),
        item("mid", Some(2)),
    ];
    let enrichment = Enrichment::from_template(id, &template, |_| stored_items.clone());
    let text = serde_json::to_string(&enrichment).unwrap();
    assert_eq!(serde_json::from_str::<Enrichment>(&text).unwrap(), enrichment);
    assert!(text.contains(r#"{"z":1,"a":2}"#) || text.contains(r#"{"a":2,"z":1}"#));
    let shown = |title: &str, at: i64| {
        json!({"title": title, "url": "https://x.example", "image_url": null, "published_at": at,
            "source": "f", "is_external": false})
    };
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&text).unwrap(),
        json!({
            "campaign_id": id.to_string(), "layout_id": "content_with_two",
            "settings": {"big_share_button": true, "small_view": false, "build_without_image": true,
                "small_share_button": true, "drag_to_expand": false},
            "strings": {"share_prefix": "p"},
            "features": [
                {"type": "content_feed", "position": 1, "data": {
                    "items": [shown("new", 3), shown("mid", 2)],
                    "view_ext_on_browser": false, "recommendations_title": false}},
                {"type": "action_button", "position": 1, "data": {"type": "wa"}},
                {"type": "action_button", "position": 2, "data": {
                    "type": "fb", "data": {"z": 1, "a": 2}}},
                {"type": "external_content", "position": 3, "data": {
                    "type": "ob_sdk", "ob_widget_id": "w", "view_ext_on_browser": false,
                    "recommendations_title": false}},
            ],
        })
    );
}

#[test]
fn statistics_list_every_day_of_the_period() {
    let count = |day: i64, sent: u64| DayCount {
        day: Day(day),
        sent,
        failed: 3,
        unregistered: 4,
        expired: 5,
        received: 1,
        opened: 0,
        clicked: 0,
        dismissed: 2,
    };
    let counts = [count(3, 7), count(5, 9)];
    let listed = |first: Option<i64>, last: i64, counts: &[DayCount]| {
        let period = DayPeriod { first: first.map(Day), last: Day(last) };
        let answer = NotificationStatistics::from_counts(period, counts);
        let days: Vec<_> =
            answer.days.iter().map(|day| (day.date.as_ms() / 86_400_000, day.sent)).collect();
        let ended = [answer.total_failed, answer.total_unregistered, answer.total_expired];
        assert_eq!(ended, [3, 4, 5].map(|of_day| of_day * counts.len() as u64));
        for day in &answer.days {
            let is_counted = day.received > 0;
            let expected = if is_counted { [3, 4, 5] } else { [0; 3] };
            assert_eq!([day.failed, day.unregistered, day.expired], expected);
        }
        (days, answer.total_sent, answer.total_received, answer.total_dismissed)
    };
    let between = vec![(3, 7), (4, 0), (5, 9)];
    assert_eq!(listed(None, 5, &counts), (between, 16, 2, 4));
    assert_eq!(listed(Some(2), 3, &counts[..1]), (vec![(2, 0), (3, 7)], 7, 1, 2));
    assert_eq!(listed(Some(2), 3, &[]), (vec![(2, 0), (3, 0)], 0, 0, 0));
    assert_eq!(listed(None, 5, &[]), (vec![], 0, 0, 0));
}
