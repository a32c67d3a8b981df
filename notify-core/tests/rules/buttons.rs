//! Action buttons.

use notify_core::{Request, Template};
use serde_json::{Value, json};

use crate::support::{NOW, check};

pub(crate) fn button(data: &Value) -> Value {
    json!({"name": "n", "layout_id": "content_with_two", "settings": {}, "features": [
        {"type": "action_button", "position": 1, "data": data},
    ]})
}

#[test]
fn each_button_type_requires_its_fields() {
    let rows: [(Value, &[&str]); 9] = [
        (json!({"type": "fb"}), &[]),
        (json!({"type": "wa"}), &[]),
        (json!({"type": "sms"}), &[]),
        (json!({"type": "email", "title": "t", "url": "https://x.example"}), &[]),
        (
            json!({"type": "cal", "start_date": 5, "end_date": 5, "description": "d"}),
            &["start_date", "end_date", "description"],
        ),
        (json!({"type": "video", "url": "https://x.example/v"}), &["url"]),
        (json!({"type": "url", "url": "myapp://"}), &["url"]),
        (json!({"type": "nav", "lat": 90.0, "lng": -180.0}), &["lat", "lng"]),
        (json!({"type": "custom", "title": "t", "icon_url": "https://x.example/i"}), &["title"]),
    ];
    for (data, required) in rows {
        let base = button(&data);
        let kind = data["type"].as_str().unwrap();
        for field in required {
            let line = format!("features[0].data.{field}: is required for type {kind}");
            check::<Template>(&base, &[(&format!("/features/0/data/{field}"), "-", &[&line])]);
        }
        check::<Template>(&base, &[]);
        let template = Template::parse(base.to_string().as_bytes(), NOW).unwrap();
        let stored = serde_json::to_value(&template).unwrap();
        assert_eq!(stored["features"][0]["data"], data, "stored with the fields of the request");
    }
    const KINDS: &str = "features[0].data.type: must be one of fb, wa, sms, email, cal, video, \
                         url, nav, custom";
    check::<Template>(
        &button(&json!({
            "type": "cal", "start_date": 5, "end_date": 6, "description": "d", "lat": 0, "lng": 0,
            "icon": "i", "icon_url": "https://x.example", "url": "tel:1", "data": {"free": {}},
        })),
        &[
            ("/features/0/data/type", "-", &["features[0].data.type: is required"]),
            ("/features/0/data/type", "\"x\"", &[KINDS]),
            (
                "/features/0/data/end_date",
                "4",
                &["features[0].data.end_date: must not be before start_date"],
            ),
            (
                "/features/0/data/start_date",
                "253402300800000",
                &[
                    "features[0].data.start_date: must be unix milliseconds within the years 1970 to \
                 9999",
                ],
            ),
            (
                "/features/0/data/start_date",
                "\"x\"",
                &["features[0].data.start_date: expected a whole number"],
            ),
            ("/features/0/data/lat", "90.1", &[]),
            ("/features/0/data/lat", "\"x\"", &["features[0].data.lat: expected a number"]),
            (
                "/features/0/data/url",
                "\"javascript:x\"",
                &["features[0].data.url: must not be a javascript: or data: url"],
            ),
            (
                "/features/0/data/icon_url",
                "\"i\"",
                &["features[0].data.icon_url: must be an absolute url"],
            ),
            ("/features/0/data/data", "[]", &["features[0].data.data: expected an object"]),
        ],
    );
}

#[test]
fn coordinates_are_limited_for_navigation_only() {
    check::<Template>(
        &button(&json!({"type": "nav", "lat": -90, "lng": 180.0, "start_date": 5, "end_date": 4})),
        &[
            ("/features/0/data/lat", "90.1", &["features[0].data.lat: must be within ±90"]),
            ("/features/0/data/lat", "-91", &["features[0].data.lat: must be within ±90"]),
            ("/features/0/data/lat", "1e300", &["features[0].data.lat: must be within ±90"]),
            ("/features/0/data/lat", "-0.0", &[]),
            ("/features/0/data/lng", "-180.5", &["features[0].data.lng: must be within ±180"]),
            ("/features/0/data/lng", "1e2", &[]),
            ("/features/0/data/lng", "null", &["features[0].data.lng: is required for type nav"]),
        ],
    );
}
