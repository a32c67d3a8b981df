//! `PUT /admin/v1/apps/:id/web` and the requests of browsers (`/web/v1`).

use notify_core::{SetWebAccess, UpdateWebhook, WebReport, WebSubscribe};
use serde_json::{Value, json};

use crate::devices;
use crate::support::{check, check_types, errors_of};

pub(crate) fn access() -> Value {
    json!({"allowed_origins": ["https://a.example", "http://localhost:5"],
        "allowed_tags": ["vip"], "push_services": ["push.example", "*.push.example"]})
}

pub(crate) fn subscribe() -> Value {
    json!({"subscription": devices::web()["subscription"], "device_id": "d", "device_secret": "s",
        "language": "en", "timezone": "GMT", "utc_offset": "0",
        "tags": [{"name": "vip", "type": "bool", "value": true}]})
}

pub(crate) fn report() -> Value {
    json!({"events": [{"type": "opened", "notification_id": "n", "at": 1}]})
}

#[test]
fn web_access_is_checked() {
    const ORIGIN: &str = "allowed_origins[1]: must be an origin, such as https://shop.example";
    const HOST: &str = "push_services[0]: must be a host, such as push.example or *.push.example";
    let many = |count: usize| json!(vec!["https://a.example"; count]).to_string();
    check::<SetWebAccess>(
        &access(),
        &[
            ("/allowed_origins", "-", &["allowed_origins: is required"]),
            ("/allowed_origins", "[]", &["allowed_origins: must hold at least 1 element"]),
            ("/allowed_origins", &many(50), &[]),
            ("/allowed_origins", &many(51), &["allowed_origins: must hold at most 50 elements"]),
            ("/allowed_origins/1", "\"https://a.example/path\"", &[ORIGIN]),
            (
                "/allowed_origins/1",
                "\"*\"",
                &["allowed_origins[1]: must be one origin: there is no wildcard"],
            ),
            (
                "/allowed_origins/1",
                "\"http://a.example\"",
                &["allowed_origins[1]: must be https, but for localhost"],
            ),
            ("/allowed_tags", "-", &[]),
            ("/allowed_tags/0", "\"\"", &["allowed_tags[0]: must not be empty"]),
            (
                "/allowed_tags",
                &json!(vec!["t"; 51]).to_string(),
                &["allowed_tags: must hold at most 50 elements"],
            ),
            ("/push_services", "-", &[]),
            ("/push_services/0", "\"push.example:443\"", &[HOST]),
            (
                "/push_services",
                &json!(vec!["a.example"; 51]).to_string(),
                &["push_services: must hold at most 50 elements"],
            ),
        ],
    );
}

#[test]
fn browser_subscriptions_are_checked() {
    check::<WebSubscribe>(
        &subscribe(),
        &[
            ("/subscription", "-", &["subscription: is required"]),
            ("/subscription/keys", "-", &["subscription.keys: is required"]),
            ("/device_id", "-", &["device_id: is required with device_secret"]),
            ("/device_id", "\"\"", &["device_id: must not be empty"]),
            ("/device_secret", "-", &["device_secret: is required with device_id"]),
            ("/device_secret", "\"\"", &["device_secret: is required with device_id"]),
            ("/language", "\"en de\"", &["language: must be a language code, such as en or pt-BR"]),
            ("/timezone", "\"UTC\"", &[]),
            ("/timezone", "\"Europe/Vienna\"", &[]),
            (
                "/timezone",
                "\"Vienna\"",
                &[
                    "timezone: must be a time zone of the IANA database, such as Europe/Vienna, or GMT or \
                   GMT±HH:MM within ±14:00",
                ],
            ),
            ("/tags/0/type", "\"int\"", &["tags[0].type: must be bool"]),
            ("/tags", "-", &[]),
            ("/recipient_id", "\"1\"", &["recipient_id: unknown field"]),
        ],
    );
}

#[test]
fn browser_events_are_checked() {
    let event = json!({"type": "opened", "notification_id": "n"});
    check::<WebReport>(
        &report(),
        &[
            ("/events", "-", &["events: is required"]),
            (
                "/events",
                &json!(vec![event; 51]).to_string(),
                &["events: must hold at most 50 elements"],
            ),
            ("/events/0/type", "-", &["events[0].type: is required"]),
            (
                "/events/0/type",
                "\"seen\"",
                &["events[0].type: must be one of received, opened, clicked, dismissed"],
            ),
            ("/events/0/notification_id", "-", &["events[0].notification_id: is required"]),
            (
                "/events/0/at",
                "253402300800000",
                &["events[0].at: must be unix milliseconds within the years 1970 to 9999"],
            ),
            ("/events/0/device_id", "\"d\"", &["events[0].device_id: unknown field"]),
        ],
    );
}

#[test]
fn webhook_changes_are_checked() {
    let base = json!({"url": "https://a.example", "events": ["poll.answered"],
        "description": "d", "enabled": true});
    check::<UpdateWebhook>(
        &base,
        &[
            ("/url", "-", &[]),
            ("/url", "\"ftp://a.example\"", &["url: must be an absolute http or https url"]),
            ("/events/0", "\"\"", &["events[0]: must not be empty"]),
            (
                "/events",
                &json!(vec!["poll.answered"; 33]).to_string(),
                &["events: must hold at most 32 elements"],
            ),
            (
                "/description",
                &format!("\"{}\"", "d".repeat(256)),
                &["description: must be at most 255 characters"],
            ),
        ],
    );
    check_types::<UpdateWebhook>(
        &base,
        &[
            ("/url", "a string"),
            ("/events", "a list"),
            ("/description", "a string"),
            ("/enabled", "true or false"),
        ],
    );
    assert_eq!(errors_of::<UpdateWebhook>("{}"), [""; 0]);
}
