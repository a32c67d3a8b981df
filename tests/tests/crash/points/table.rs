//! All API calls that write: their prerequisites, the request that shows their effect, and the response to a
//! repeat.

use http::Method;
use notify_tests::{template, tomorrow};
use serde_json::{Value, json};

/// A request. In its path and body, `{n}` stands for a different number in each call (`"#{n}"` for a number
/// in JSON), `{made}` for the id in the response to the request before, and the words of
/// `super::api_calls::Around` for their resources.
pub(super) type Ask = (Method, &'static str, Value);

/// A call that writes.
pub(super) struct Call {
    pub(super) operation: &'static str,
    /// The requests that must be sent first.
    pub(super) before: Vec<Ask>,
    pub(super) ask: Ask,
    /// The path of the request that shows the effect; `None` if no request shows it.
    pub(super) seen_at: Option<&'static str>,
    /// The status of the call when it takes effect.
    pub(super) first: u16,
    /// The status of a repeat after the call took effect.
    pub(super) again: u16,
    /// Whether a repeat makes a new response, because the response has a secret.
    pub(super) is_made_anew: bool,
}

fn call(operation: &'static str, ask: Ask, seen_at: &'static str) -> Call {
    Call {
        operation,
        before: Vec::new(),
        ask,
        seen_at: Some(seen_at),
        first: 200,
        again: 200,
        is_made_anew: false,
    }
}

impl Call {
    fn after(mut self, before: Vec<Ask>) -> Self {
        self.before = before;
        self
    }

    fn again(mut self, status: u16) -> Self {
        self.again = status;
        self
    }

    /// Marks the call as one that is made anew when it is repeated.
    fn made_anew(mut self) -> Self {
        self.is_made_anew = true;
        self
    }

    /// Marks the call as a form of a page, which redirects to the page.
    fn form(mut self) -> Self {
        (self.first, self.again) = (303, 303);
        self
    }

    fn unseen(operation: &'static str, ask: Ask) -> Self {
        Self {
            operation,
            before: Vec::new(),
            ask,
            seen_at: None,
            first: 200,
            again: 200,
            is_made_anew: false,
        }
    }
}

fn post(path: &'static str, body: Value) -> Ask {
    (Method::POST, path, body)
}

fn put(path: &'static str, body: Value) -> Ask {
    (Method::PUT, path, body)
}

pub(super) fn get(path: &'static str) -> Ask {
    (Method::GET, path, Value::Null)
}

fn delete(path: &'static str) -> Ask {
    (Method::DELETE, path, Value::Null)
}

/// All calls that write, except those of [`super::starts`].
pub(super) fn calls() -> Vec<Call> {
    [administration(), templates(), audience(), sending(), webhooks()]
        .into_iter()
        .flatten()
        .collect()
}

const ADMIN_KEYS: &str = "/admin/v1/keys";
const WEB_ACCESS: &str = "/admin/v1/apps/{app}/web";

/// The origin of the pages that call `/web`.
pub(super) const PAGE_ORIGIN: &str = "https://shop.example";

fn web_access() -> Value {
    json!({"allowed_origins": [PAGE_ORIGIN, "https://s-{n}.example"]})
}

/// A browser with the keys of RFC 8291, section 5.
fn browser() -> Value {
    let p256dh =
        "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
    let keys = json!({"p256dh": p256dh, "auth": "BTBZMqHH6r4Tts7J_aSIgg"});
    json!({"subscription": {"endpoint": "https://fcm.googleapis.com/{n}", "keys": keys}})
}

fn administration() -> Vec<Call> {
    let app = || vec![post("/admin/v1/apps", json!({"name": "victim-{n}"}))];
    let (one, providers) = ("/admin/v1/apps/{made}", "/admin/v1/apps/{app}/providers/webpush");
    let keys = "/admin/v1/apps/{app}/keys";
    let webpush = || put(providers, json!({"subject": "mailto:{n}@example.com"}));
    vec![
        call("create_app", post("/admin/v1/apps", json!({"name": "app-{n}"})), "/admin/v1/apps"),
        call("change_app", (Method::PATCH, one, json!({"name": "new-{n}"})), one).after(app()),
        call("delete_app", delete(one), one).after(app()).again(404),
        call("add_key", post(keys, json!({})), keys),
        call("revoke_key", delete("/admin/v1/apps/{app}/keys/{made}"), keys)
            .after(vec![post(keys, json!({}))])
            .again(404),
        call("rotate_key", post("/admin/v1/apps/{app}/keys/{made}/rotate", json!({})), keys)
            .after(vec![post(keys, json!({}))]),
        call("put_provider", webpush(), providers),
        call("delete_provider", delete(providers), providers).after(vec![webpush()]).again(404),
        Call::unseen(
            "release_provider",
            post("/admin/v1/apps/{app}/providers/webpush/resume", json!({})),
        )
        .after(vec![webpush()]),
        call("set_web_access", put(WEB_ACCESS, web_access()), WEB_ACCESS),
        call("clear_web_access", delete(WEB_ACCESS), WEB_ACCESS)
            .after(vec![put(WEB_ACCESS, web_access())])
            .again(404),
        call("add_admin_key", post(ADMIN_KEYS, json!({})), ADMIN_KEYS),
        call(
            "rename_admin_key",
            (Method::PATCH, "/admin/v1/keys/{made}", json!({"name": "key-{n}"})),
            ADMIN_KEYS,
        )
        .after(vec![post(ADMIN_KEYS, json!({}))]),
        call("revoke_admin_key", delete("/admin/v1/keys/{made}"), ADMIN_KEYS)
            .after(vec![post(ADMIN_KEYS, json!({}))])
            .again(404),
        Call::unseen("check", get("/readyz")),
        Call::unseen("storage", get("/admin/v1/diagnostics")),
    ]
}

fn templates() -> Vec<Call> {
    let made = || vec![post("/v1/campaigns", template("made-{n}"))];
    let (all, one) = ("/v1/campaigns?status=all", "/v1/campaigns/{made}");
    let feed = || post("/v1/feeds", json!({"url": "https://f-{n}.example/feed", "name": "f"}));
    let disabled = json!({"status": "disabled"});
    vec![
        call("create_campaign", post("/v1/campaigns", template("new-{n}")), all),
        call("replace_campaign", put(one, template("other-{n}")), one).after(made()),
        call("set_campaign_status", put("/v1/campaigns/{made}/status", disabled), one)
            .after(made()),
        call("delete_campaign", delete(one), one).after(made()).again(404),
        call("create_feed", feed(), "/v1/feeds"),
        call("delete_feed", delete("/v1/feeds/{made}"), "/v1/feeds").after(vec![feed()]).again(404),
    ]
}

fn audience() -> Vec<Call> {
    let phone = || {
        let body = json!({"device_id": "d-{n}", "platform": "ios", "sdk_type": "ios_push"});
        post("/v1/devices", body)
    };
    let tag = || {
        let tag = json!({"name": "t", "type": "bool", "value": true});
        post("/v1/devices/d-{n}/tags", json!({"tags": [tag]}))
    };
    let (one, user) = ("/v1/devices/d-{n}", "/v1/users/u-{n}");
    let log_in = || put("/v1/devices/d-{n}/user", json!({"user_id": "u-{n}"}));
    let person_with_plan = || (Method::PATCH, user, json!({"attributes": {"plan": "pro"}}));
    let segment = || put("/v1/segments/s-{n}", json!({"audience": {"tag": "t"}}));
    let person = json!({"platform": "fb-messenger", "recipient_id": "24{n}"});
    let chat = json!({"id": "#{n}", "type": "private"});
    let message = json!({"message_id": 1, "date": 1, "text": "/start", "chat": chat,
        "from": {"id": "#{n}", "is_bot": false, "first_name": "A"}});
    vec![
        call("register_device", phone(), one),
        call("subscribe_device", post("/v1/subscriptions", person), "/v1/devices?limit=1000"),
        call(
            "register_app_device",
            post(
                "/device/v1/devices",
                json!({"platform": "android", "sdk_type": "android_push", "push_token": "app-{n}"}),
            ),
            "/v1/devices?limit=1000",
        ),
        Call::unseen("give_device_secret", post("/v1/devices/d-{n}/secret", json!({})))
            .after(vec![phone()])
            .made_anew(),
        call(
            "subscribe_browser",
            post("/web/v1/{app}/devices", browser()),
            "/v1/devices?limit=1000",
        )
        .after(vec![put(WEB_ACCESS, web_access())]),
        call("delete_device", delete(one), one).after(vec![phone()]).again(404),
        call("set_tags", tag(), one).after(vec![phone()]),
        call("remove_tag", delete("/v1/devices/d-{n}/tags/t"), one)
            .after(vec![phone(), tag()])
            .again(404),
        call(
            "change_attributes",
            (Method::PATCH, "/v1/devices/d-{n}/attributes", json!({"plan": "pro-{n}"})),
            one,
        )
        .after(vec![phone()]),
        call("create_user", post("/v1/users/t-{n}/tokens", json!({})), "/v1/users/t-{n}")
            .made_anew(),
        call("log_in", log_in(), one).after(vec![phone()]),
        call("log_out", delete("/v1/devices/d-{n}/user"), one).after(vec![phone(), log_in()]),
        call("change_user", person_with_plan(), user),
        call("delete_user", delete(user), user).after(vec![person_with_plan()]).again(404),
        call("put_segment", segment(), "/v1/segments"),
        call("delete_segment", delete("/v1/segments/s-{n}"), "/v1/segments")
            .after(vec![segment()])
            .again(404),
        call(
            "take_inbound",
            post("/hooks/telegram/{app}", json!({"update_id": 1, "message": message})),
            "/v1/devices?platform=chatapp",
        ),
    ]
}

fn sending() -> Vec<Call> {
    let later =
        || json!({"text": "t", "platforms": ["android"], "send_at": tomorrow(), "tags": ["no"]});
    let event = json!({"type": "opened", "notification_id": "{notification}",
        "device_id": "e-{n}"});
    let phone = json!({"device_id": "e-{n}", "platform": "ios", "sdk_type": "ios_push"});
    let report = json!({"id": "own-{n}", "text": "t", "platforms": ["ios"]});
    vec![
        call("accept_notification", post("/v1/notifications", later()), "/v1/notifications"),
        call("record_report", post("/v1/notifications/notify", report), "/v1/notifications"),
        Call::unseen("keep_preview", post("/v1/notifications/preview", later())),
        call("cancel_notification", delete("/v1/notifications/{made}"), "/v1/notifications/{made}")
            .after(vec![post("/v1/notifications", later())])
            .again(400),
        call(
            "pause_notification",
            post("/v1/notifications/{made}/pause", json!({})),
            "/v1/notifications/{made}",
        )
        .after(vec![post("/v1/notifications", later())]),
        Call::unseen("resume_notification", post("/v1/notifications/{made}/resume", json!({})))
            .after(vec![post("/v1/notifications", later())]),
        call(
            "answer_poll",
            post("/v1/polls/{poll}/answers/{answer}", json!({})),
            "/v1/polls/{poll}",
        ),
        call(
            "answer_public_poll",
            post("{page}/votes", json!("answer={answer}&visitor=AAAAAAAAAAAAAAAAAAAA{letter}A")),
            "/v1/polls/{poll}",
        )
        .form(),
        call(
            "record_events",
            post("/v1/events", json!({"events": [event]})),
            "/v1/notifications/{notification}",
        )
        .after(vec![post("/v1/devices", phone)]),
    ]
}

fn webhooks() -> Vec<Call> {
    // The port is closed, so that an attempt fails at once.
    let hook = || post("/v1/webhooks", json!({"url": "https://127.0.0.1:9/{n}"}));
    let (all, one) = ("/v1/webhooks", "/v1/webhooks/{made}");
    let test = || post("/v1/webhooks/{webhook}/test", json!({}));
    let attempts = "/v1/webhooks/{webhook}/attempts";
    vec![
        call("create_webhook", hook(), all),
        call("change_webhook", (Method::PATCH, one, json!({"description": "{n}"})), one)
            .after(vec![hook()]),
        call("delete_webhook", delete(one), one).after(vec![hook()]).again(404),
        call("rotate_webhook", post("/v1/webhooks/{made}/rotate", json!({})), one)
            .after(vec![hook()]),
        call("test_webhook", test(), attempts),
        call(
            "redeliver_message",
            post("/v1/webhooks/{webhook}/attempts/{made}/redeliver", json!({})),
            attempts,
        )
        .after(vec![test()]),
        // Tests are all that was sent, and are not recovered.
        Call::unseen(
            "recover_messages",
            post("/v1/webhooks/{webhook}/recover", json!({"since": 1})),
        ),
    ]
}
