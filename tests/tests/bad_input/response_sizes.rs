//! The size of responses with the largest rows that the limits allow, on every route that reads.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use http::Method;
use notify_tests::{Caller, Response};
use serde_json::{Value, json};

use crate::target::Target;

/// The largest response: a page of 4 MiB, its last row, and the other members of the response.
const ANSWER_BYTES_MAX: usize = 8 * 1_048_576;
/// The most rows of a page, and of a listing without pages.
const ROWS_MAX: usize = 1_000;
/// The most pages of a listing that the test follows.
const PAGES_MAX: usize = 64;

/// The highest peak memory of the server while it sends the responses one after another, in bytes.
const MEMORY_MAX: u64 = 512 * 1_048_576;

/// The kind of a route's response.
#[derive(Debug, Clone, Copy)]
enum Measured {
    /// A single response.
    Whole,
    /// Pages with a cursor. The rows are in the member with this name.
    Pages(&'static str),
    /// Rows in one response or by offset. The rows are in the member with this name.
    Rows(&'static str),
    /// A stream of server-sent events, which has no end. Each event is measured.
    Stream,
}

/// All routes that read. A route that is not listed fails the test.
const ROUTES: [(&str, Measured); 51] = [
    ("/", Measured::Whole),
    ("/admin/v1/apps", Measured::Pages("apps")),
    ("/admin/v1/apps/{id}", Measured::Whole),
    ("/admin/v1/apps/{id}/devices/diagnostics", Measured::Whole),
    ("/admin/v1/apps/{id}/keys", Measured::Rows("keys")),
    ("/admin/v1/apps/{id}/providers", Measured::Whole),
    ("/admin/v1/apps/{id}/providers/{provider}", Measured::Whole),
    ("/admin/v1/apps/{id}/web", Measured::Whole),
    ("/admin/v1/audit", Measured::Pages("entries")),
    ("/admin/v1/diagnostics", Measured::Whole),
    ("/admin/v1/keys", Measured::Rows("keys")),
    ("/admin/v1/sessions", Measured::Pages("sessions")),
    ("/admin/v1/playground", Measured::Whole),
    ("/admin/v1/playground/messages", Measured::Whole),
    ("/device/v1/devices/{device_id}/enrichments/{campaign_id}", Measured::Whole),
    ("/docs", Measured::Whole),
    ("/docs/", Measured::Whole),
    ("/docs/{file}", Measured::Whole),
    ("/healthz", Measured::Whole),
    ("/hooks/messenger/{app_id}", Measured::Whole),
    ("/metrics", Measured::Whole),
    ("/openapi.json", Measured::Whole),
    ("/polls/{public_id}", Measured::Whole),
    ("/readyz", Measured::Whole),
    ("/sdk/notify-sw.js", Measured::Whole),
    ("/sdk/notify.js", Measured::Whole),
    ("/v1/campaigns", Measured::Rows("campaigns")),
    ("/v1/campaigns/{id}", Measured::Whole),
    ("/v1/devices", Measured::Pages("devices")),
    ("/v1/devices/{device_id}", Measured::Whole),
    ("/v1/enrichments/{campaign_id}", Measured::Whole),
    ("/v1/events/stream", Measured::Stream),
    ("/v1/feeds", Measured::Pages("feeds")),
    ("/v1/notifications", Measured::Pages("notifications")),
    ("/v1/notifications/{id}", Measured::Whole),
    ("/v1/notifications/{id}/deliveries", Measured::Pages("deliveries")),
    ("/v1/notifications/{id}/explain/{device_id}", Measured::Whole),
    ("/v1/notifications/{id}/users", Measured::Pages("users")),
    ("/v1/polls/{id}", Measured::Whole),
    ("/v1/segments", Measured::Pages("segments")),
    ("/v1/segments/{name}", Measured::Whole),
    ("/v1/statistics/devices", Measured::Whole),
    ("/v1/statistics/notifications", Measured::Whole),
    ("/v1/tags", Measured::Pages("tags")),
    ("/v1/users", Measured::Pages("users")),
    ("/v1/users/{user_id}", Measured::Whole),
    ("/v1/webhooks", Measured::Pages("webhooks")),
    ("/v1/webhooks/{id}", Measured::Whole),
    ("/v1/webhooks/{id}/attempts", Measured::Pages("attempts")),
    ("/web/v1/{app_id}", Measured::Whole),
    ("/web/v1/{app_id}/devices/{device_id}/enrichments/{campaign_id}", Measured::Whole),
];

/// A text of this many characters. All but the first, which a name needs, take six bytes in JSON.
fn wide(chars: usize) -> String {
    format!("n{}", "\u{1}".repeat(chars - 1))
}

/// Stores the largest rows that the limits allow, with more of each kind than a response has.
async fn fill(target: &Target) -> Result<()> {
    let (app, admin) = (&target.app, &target.admin);
    for number in 0..8 {
        let id = if number == 0 { "phone".to_owned() } else { format!("d{number}") };
        let text = wide(1_024);
        let device = json!({"device_id": id, "platform": "android", "sdk_type": "android_push",
            "push_token": format!("{number}{}", wide(4_095)), "android_id": text, "ad_id": text,
            "imei": text, "sdk_version": text, "app_version": text, "os_version": text,
            "store_identifier": text, "country": text, "language": text,
            "device_description": text});
        app.post("/v1/devices", &device).await.ok();
        // A body holds half of the tags; the first device has one already.
        for half in 0..2 {
            let tags = (0..500).skip(usize::from(number == 0 && half == 0)).map(|place| {
                let name = format!("{}{number}{half}{place:03}", wide(250));
                json!({"name": name, "type": "bool", "value": true})
            });
            let tags = json!({"tags": tags.collect::<Vec<_>>()});
            app.post(&format!("/v1/devices/{id}/tags"), &tags).await.ok();
        }
        let value = json!({"a": "x".repeat(900_000)});
        let report = json!({"id": format!("own-{number}"), "platforms": ["android"], "text": "t",
            "custom_json_key": "k", "custom_json_value": value});
        app.post("/v1/notifications/notify", &report).await.ok();
        let mut campaign = notify_tests::template("campaign");
        campaign["name"] = wide(1_024).into();
        app.post("/v1/campaigns", &campaign).await.ok();
        let name = json!({"name": wide(255), "language": wide(255)});
        admin.post("/admin/v1/apps", &name).await.ok();
        let keys = format!("/admin/v1/apps/{}/keys", target.resources.app);
        admin.post(&keys, &json!({"name": wide(255)})).await.ok();
        let url = format!("https://a{number}.example/{}", "h".repeat(2_000));
        let hook = json!({"url": url, "events": ["poll.answered"], "description": wide(255)});
        app.post("/v1/webhooks", &hook).await.ok();
    }
    for number in 0..64 {
        let attributes: serde_json::Map<_, _> =
            (0..100).map(|place| (format!("a{place:063}"), Value::from(wide(255)))).collect();
        let user = match number {
            0 => target.resources.user.clone(),
            _ => format!("u{number}"),
        };
        app.patch(&format!("/v1/users/{user}"), &json!({"attributes": attributes})).await.ok();
        let values: Vec<_> = (0..100).map(|_| wide(255)).collect();
        let condition = json!({"attribute": "a", "in": values});
        let name = match number {
            0 => target.resources.segment.clone(),
            _ => format!("s{number}"),
        };
        app.put(&format!("/v1/segments/{name}"), &json!({"audience": condition})).await.ok();
    }
    for number in 0..600 {
        let url = format!("https://a.example/{number}/{}", "f".repeat(2_000));
        app.post("/v1/feeds", &json!({"url": url, "name": wide(1_024)})).await.ok();
    }
    Ok(())
}

async fn read(target: &Target, caller: &Caller, path: &str) -> Result<Response> {
    let reply = caller.send(&Method::GET, path, "").await?;
    let bytes = reply.text.len();
    ensure!(bytes <= ANSWER_BYTES_MAX, "{path}: {bytes} bytes");
    ensure!(reply.status < 500, "{path}: {}", reply.status);
    let memory = target.server.memory_peak()?;
    ensure!(memory < MEMORY_MAX, "{path}: the server grew to {memory} bytes");
    Ok(reply)
}

/// Follows a listing to its end. Returns the size of the largest page and the number of rows.
async fn follow(
    target: &Target,
    caller: &Caller,
    path: &str,
    name: &str,
) -> Result<(usize, usize, bool)> {
    let (mut largest, mut rows, mut cursor) = (0, 0, None::<String>);
    for page in 1..=PAGES_MAX {
        let after = cursor.map_or_else(String::new, |cursor| format!("&cursor={cursor}"));
        let reply = read(target, caller, &format!("{path}?limit={ROWS_MAX}{after}")).await?;
        let answer: Value = reply.json();
        largest = largest.max(reply.text.len());
        rows += answer[name].as_array().with_context(|| format!("{path}: {name}"))?.len();
        cursor = answer["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            return Ok((largest, rows, page > 1));
        }
    }
    anyhow::bail!("{path} does not end")
}

#[tokio::test]
async fn every_response_is_bounded_whatever_is_stored() -> Result<()> {
    let target = Target::start().await?;
    fill(&target).await?;
    let document = target.app.get("/openapi.json").await.ok();
    let paths = document["paths"].as_object().context("paths")?;
    let sizes = BTreeMap::from(ROUTES);
    let reads = paths.iter().filter(|(_, item)| item.get("get").is_some());
    let mut templates: Vec<&str> = reads.map(|(template, _)| template.as_str()).collect();
    templates.sort_unstable();
    let listed: Vec<&str> = sizes.keys().copied().collect();
    assert_eq!(templates, listed, "a route that reads has to be measured");
    let mut split = Vec::new();
    for (template, measured) in ROUTES {
        let path = if template.starts_with("/v1") || template.starts_with("/admin") {
            target.resources.path(template)
        } else {
            template.replace(['{', '}'], "")
        };
        let caller = if template.starts_with("/admin") { &target.admin } else { &target.app };
        match measured {
            Measured::Stream => {}
            Measured::Whole => drop(read(&target, caller, &path).await?),
            Measured::Rows(name) => {
                let reply = read(&target, caller, &path).await?;
                let count = reply.json()[name].as_array().context(name)?.len().max(1);
                let of_all = reply.text.len() / count * ROWS_MAX;
                assert!(of_all <= ANSWER_BYTES_MAX, "{path}: {of_all} bytes with all rows");
            }
            Measured::Pages(name) => {
                let (largest, rows, is_split) = follow(&target, caller, &path, name).await?;
                if is_split {
                    split.push((name, rows));
                } else if let Some(of_one) = largest.checked_div(rows) {
                    let of_all = of_one * ROWS_MAX;
                    assert!(of_all <= ANSWER_BYTES_MAX, "{path}: {of_all} bytes with all rows");
                }
            }
        }
    }
    split.sort_unstable();
    // Tags by their number, the others by their bytes; nothing is left out.
    let expected = [
        ("devices", 8),
        ("feeds", 601),
        ("notifications", 10),
        ("segments", 64),
        ("tags", 8_000),
        ("users", 64),
    ];
    assert_eq!(split, expected);
    target.server.kill().await
}
