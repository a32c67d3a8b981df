//! For tests that call all routes: one of each resource of an application, and a request for every route.

use anyhow::{Context, Result};
use http::Method;
use serde_json::{Value, json};

use crate::Caller;

/// An operation of the served OpenAPI document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Method.
    pub method: Method,
    /// Path with its placeholders.
    pub template: String,
}

/// All operations below `/v1` and `/admin/v1` in the server's OpenAPI document.
///
/// # Errors
/// When the document cannot be read.
pub async fn routes(caller: &Caller) -> Result<Vec<Route>> {
    let document = caller.get("/openapi.json").await.ok();
    let paths = document["paths"].as_object().context("the document has paths")?;
    let mut routes = Vec::new();
    for (template, item) in paths {
        if !template.starts_with("/v1") && !template.starts_with("/admin/v1") {
            continue;
        }
        for method in item.as_object().context("a path has operations")?.keys() {
            let method = method.to_uppercase().parse()?;
            routes.push(Route { method, template: template.clone() });
        }
    }
    Ok(routes)
}

/// The ids of one of each resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resources {
    /// A device with [`Resources::tag`] set to true.
    pub device: String,
    /// A tag.
    pub tag: String,
    /// User of the device.
    pub user: String,
    /// Name of a segment.
    pub segment: String,
    /// A scheduled notification.
    pub notification: String,
    /// A poll.
    pub poll: String,
    /// An answer of the poll.
    pub answer: String,
    /// A campaign.
    pub campaign: String,
    /// A feed that no campaign uses.
    pub feed: String,
    /// A webhook that subscribes only to answers to polls. No poll is answered, so it is never called.
    pub webhook: String,
    /// The application itself, for admin routes.
    pub app: String,
    /// A key of the application, for admin routes.
    pub key: String,
}

impl Resources {
    /// Creates one of each resource. The notifications are scheduled for tomorrow, so they are never sent.
    ///
    /// # Errors
    /// When a response has no id.
    pub async fn create(caller: &Caller, device: &str) -> Result<Self> {
        let body = json!({"device_id": device, "platform": "android", "sdk_type": "android_push"});
        caller.post("/v1/devices", &body).await.ok();
        let tag = "vip".to_owned();
        let tags = json!({"tags": [{"name": tag, "type": "bool", "value": true}]});
        caller.post(&format!("/v1/devices/{device}/tags"), &tags).await.ok();
        let (user, segment) = (format!("{device}-user"), format!("{device}-segment"));
        let log_in = json!({"user_id": user});
        caller.put(&format!("/v1/devices/{device}/user"), &log_in).await.ok();
        let condition = json!({"audience": {"tag": tag}});
        caller.put(&format!("/v1/segments/{segment}"), &condition).await.ok();
        let send_at = crate::tomorrow();
        let scheduled = json!({"text": "later", "platforms": ["android"], "send_at": send_at});
        let poll = json!({"platforms": ["android"], "send_at": send_at, "poll": {"text": "?",
            "layout_id": "poll_text", "answers": [{"text": "a"}, {"text": "b"}]}});
        let poll = id(&caller.post("/v1/notifications", &poll).await.ok())?;
        let read = caller.get(&format!("/v1/polls/{poll}")).await.ok();
        let feed = json!({"url": format!("https://{device}.example/feed"), "name": "feed"});
        let hook = json!({"url": format!("https://{device}.example/hook"),
            "events": ["poll.answered"]});
        Ok(Self {
            device: device.to_owned(),
            user,
            segment,
            tag,
            notification: id(&caller.post("/v1/notifications", &scheduled).await.ok())?,
            poll,
            answer: id(&read["answers"][0])?,
            campaign: id(&caller.post("/v1/campaigns", &template("own")).await.ok())?,
            feed: id(&caller.post("/v1/feeds", &feed).await.ok())?,
            webhook: id(&caller.post("/v1/webhooks", &hook).await.ok())?,
            app: UNKNOWN_ID.to_owned(),
            key: UNKNOWN_ID.to_owned(),
        })
    }

    /// Well-formed ids that do not exist.
    #[must_use]
    pub fn unknown() -> Self {
        let id = || UNKNOWN_ID.to_owned();
        Self {
            device: "unknown".to_owned(),
            user: "unknown".to_owned(),
            segment: "unknown".to_owned(),
            tag: "vip".to_owned(),
            notification: id(),
            poll: id(),
            answer: id(),
            campaign: id(),
            feed: id(),
            webhook: id(),
            app: id(),
            key: id(),
        }
    }

    /// The path of a route with these ids in place of its placeholders.
    ///
    /// # Panics
    /// When the route has a placeholder that this function does not replace yet.
    #[must_use]
    pub fn path(&self, template: &str) -> String {
        let id = match template {
            path if path.starts_with("/v1/notifications") => &self.notification,
            path if path.starts_with("/v1/polls") => &self.poll,
            path if path.starts_with("/v1/campaigns") => &self.campaign,
            path if path.starts_with("/v1/feeds") => &self.feed,
            path if path.starts_with("/v1/webhooks") => &self.webhook,
            _ => &self.app,
        };
        let name = if template.contains("/segments/") { &self.segment } else { &self.tag };
        let path = template
            .replace("{id}", id)
            .replace("{device_id}", &self.device)
            .replace("{name}", name)
            .replace("{user_id}", &self.user)
            .replace("{answer_id}", &self.answer)
            .replace("{campaign_id}", &self.campaign)
            .replace("{key_id}", &self.key)
            .replace("{attempt_id}", UNKNOWN_ID)
            .replace("{session_id}", UNKNOWN_ID)
            .replace("{provider}", "fcm");
        assert!(!path.contains('{'), "{template}: a placeholder without a value");
        path
    }
}

/// An id in the server's format that does not exist.
const UNKNOWN_ID: &str = "0190a7c0-0000-7000-8000-00000000ffff";

fn id(answer: &Value) -> Result<String> {
    Ok(answer["id"].as_str().context("the answer has an id")?.to_owned())
}

/// A valid campaign with this name.
#[must_use]
pub fn template(name: &str) -> Value {
    json!({"name": name, "layout_id": "content_with_two", "settings": {"small_view": false},
        "strings": [{"name": "share_prefix", "translations": {"def": "Look:"}}],
        "features": [{"type": "action_button", "position": 1,
            "data": {"type": "nav", "lat": 48.2, "lng": 16.37, "data": {"a": [1, null]}}}]})
}

/// A body that a route accepts; `None` for a route that reads no body.
///
/// # Panics
/// When the function has no body for the route yet.
#[must_use]
pub fn body(route: &Route) -> Option<Value> {
    if matches!(route.method, Method::GET | Method::DELETE) {
        return None;
    }
    let poll = json!({"text": "?", "layout_id": "poll_text",
        "answers": [{"text": "a"}, {"text": "b"}]});
    Some(match (route.method.as_str(), route.template.as_str()) {
        ("POST", "/v1/notifications" | "/v1/notifications/preview") => {
            json!({"text": "t", "platforms": ["ios"], "url": "a://b",
            "tags": ["none"], "custom_json_key": "k", "custom_json_value": {"n": 1.5},
            "ios_settings": {"badge": 1, "sound": "default"}, "ttl_seconds": 60})
        }
        ("POST", "/v1/notifications/notify") => {
            json!({"id": "own-1", "platforms": ["ios", "android"], "poll": poll})
        }
        ("POST", "/v1/polls/{id}/answers/{answer_id}") => json!({}),
        ("POST", "/v1/events") => json!({"events": [{"type": "opened",
            "notification_id": UNKNOWN_ID, "device_id": "unknown", "at": 1_700_000_000_000_u64}]}),
        ("POST", "/v1/devices") => json!({"device_id": "d-1", "platform": "ios",
            "sdk_type": "ios_push", "timezone": "GMT+01:00", "ios_env": "sandbox"}),
        ("POST", "/v1/devices/{device_id}/tags") => {
            json!({"tags": [{"name": "t", "type": "bool", "value": true}]})
        }
        ("PATCH", "/v1/devices/{device_id}/attributes") => json!({"plan": "pro", "gone": null}),
        ("PUT", "/v1/devices/{device_id}/user") => json!({"user_id": "u-1"}),
        ("POST", "/v1/users/{user_id}/tokens") => json!({"ttl_seconds": 60}),
        ("PATCH", "/v1/users/{user_id}") => json!({"attributes": {"seats": 3, "beta": true}}),
        ("PUT", "/v1/segments/{name}") => json!({"audience": {"not": {"tag": "t"}}}),
        ("POST", "/v1/segments/preview") => json!({"platforms": ["ios"],
            "audience": {"all": [{"tag": "t"}, {"field": "app_version", "at_least": "3.10"}]}}),
        ("POST", "/v1/subscriptions") => json!({"platform": "fb-messenger", "recipient_id": "1"}),
        ("POST", "/v1/campaigns") | ("PUT", "/v1/campaigns/{id}") => template("made"),
        ("PUT", "/v1/campaigns/{id}/status") => json!({"status": "disabled"}),
        ("POST", "/v1/feeds/check") => json!({"url": "https://a.example/feed"}),
        ("POST", "/v1/feeds") => json!({"url": "https://a.example/feed", "name": "feed"}),
        ("POST", "/v1/webhooks") => json!({"url": "https://a.example/hook",
            "events": ["poll.answered"], "description": "d"}),
        ("PATCH", "/v1/webhooks/{id}") => json!({"description": "other", "enabled": true}),
        ("POST", "/v1/webhooks/{id}/rotate" | "/v1/webhooks/{id}/test")
        | ("POST", "/v1/webhooks/{id}/attempts/{attempt_id}/redeliver") => json!({}),
        ("POST", "/v1/webhooks/{id}/recover") => json!({"since": 1}),
        ("POST", "/admin/v1/apps") => json!({"name": "made", "language": "de"}),
        ("PATCH", "/admin/v1/apps/{id}") => json!({"name": "renamed"}),
        ("PUT", "/admin/v1/apps/{id}/web") => {
            json!({"allowed_origins": ["https://shop.example"], "allowed_tags": ["t"]})
        }
        ("POST", "/admin/v1/apps/{id}/keys" | "/admin/v1/keys")
        | ("PATCH", "/admin/v1/keys/{key_id}") => json!({"name": "made"}),
        ("PUT", "/admin/v1/apps/{id}/providers/{provider}") => {
            json!({"service_account": {"type": "service_account"}})
        }
        ("POST", "/admin/v1/apps/{id}/providers/{provider}/test")
        | ("POST", "/admin/v1/apps/{id}/providers/{provider}/resume")
        | ("POST", "/v1/notifications/{id}/pause" | "/v1/notifications/{id}/resume")
        | ("POST", "/v1/devices/{device_id}/secret")
        | ("POST", "/admin/v1/apps/{id}/keys/{key_id}/rotate")
        | ("POST", "/admin/v1/playground") => json!({}),
        ("PUT", "/admin/v1/playground/devices/{device_id}/answer") => json!({"answer": "slow"}),
        (method, template) => panic!("{method} {template}: a route without a body here"),
    })
}
