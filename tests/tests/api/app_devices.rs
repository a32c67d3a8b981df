//! Apps with a publishable key (`/device/v1`): devices that only their own app can change.

use notify_tests::{Caller, Response, TestServer};
use reqwest::Method;
use serde_json::{Value, json};

use crate::fixtures::{android, template};

const DEVICES: &str = "/device/v1/devices";
const UNKNOWN_KEY: &[&str] = &["missing or invalid publishable key"];
const WRONG_SECRET: &[&str] = &["missing or wrong device secret"];

/// The app of the first application, with a publishable key.
pub(crate) struct App {
    pub(crate) server: TestServer,
    key: String,
}

impl App {
    pub(crate) async fn new() -> Self {
        Self::on(TestServer::without_providers().await).await
    }

    async fn on(server: TestServer) -> Self {
        let key = json!({"kind": "publishable", "allowed_tags": ["news"],
            "allowed_attributes": ["plan", "seats"]});
        let path = format!("/admin/v1/apps/{}/keys", server.app_id);
        let made = server.admin().post(&path, &key).await.ok();
        Self { key: made["api_key"].as_str().unwrap().to_owned(), server }
    }

    pub(crate) fn caller(&self) -> Caller {
        Caller::app(self.server.origin(), &self.key)
    }

    /// Registers a new device; its id and secret.
    pub(crate) async fn register(&self, token: &str) -> (String, String) {
        let made = self.caller().post(DEVICES, &phone(token)).await.ok();
        let text = |name: &str| made[name].as_str().unwrap().to_owned();
        (text("device_id"), text("device_secret"))
    }

    /// Sends a request below a device, with this secret if there is one.
    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        secret: Option<&str>,
        body: &Value,
    ) -> Response {
        let request = self.caller().request(method, &format!("{DEVICES}/{path}"));
        let request = match secret {
            Some(secret) => request.header("x-device-secret", secret),
            None => request,
        };
        let body = if body.is_null() { String::new() } else { body.to_string() };
        Response::of(request.body(body)).await
    }

    /// What the application has stored.
    async fn stored(&self) -> Value {
        let caller = self.server.caller();
        let mut all = Vec::new();
        for path in ["devices", "users", "tags"] {
            all.push(caller.get(&format!("/v1/{path}")).await.ok());
        }
        json!(all)
    }
}

fn phone(token: &str) -> Value {
    json!({"platform": "android", "sdk_type": "android_push", "push_token": token})
}

/// The calls below a device, each with a body that is valid.
fn calls() -> Vec<(Method, &'static str, Value)> {
    let tags = json!({"tags": [{"name": "news", "type": "bool", "value": true}]});
    let events = json!({"events": [{"type": "opened", "notification_id": "own"}]});
    vec![
        (Method::DELETE, "", Value::Null),
        (Method::PUT, "/user", json!({"user_token": "nu_x"})),
        (Method::DELETE, "/user", Value::Null),
        (Method::POST, "/tags", tags),
        (Method::POST, "/attributes", json!({"plan": "pro"})),
        (Method::POST, "/events", events),
        (Method::GET, "/enrichments/default", Value::Null),
    ]
}

#[tokio::test]
async fn an_app_registers_changes_reports_and_erases_its_device() {
    let app = App::new().await;
    let backend = app.server.caller();
    let mut body = phone("t1");
    body["language"] = json!("de");
    body["app_version"] = json!("3.1");
    let made = app.caller().post(DEVICES, &body).await.ok();
    assert_eq!(made.as_object().unwrap().len(), 2);
    let (id, secret) =
        (made["device_id"].as_str().unwrap(), made["device_secret"].as_str().unwrap());
    let device = format!("/v1/devices/{id}");
    let read = backend.get(&device).await.ok();
    assert_eq!(
        json!([read["platform"], read["push_token"], read["language"], read["app_version"]]),
        json!(["android", "t1", "de", "3.1"])
    );

    // A repeat brings the id and the secret along.
    let mut again = phone("t2");
    again["device_id"] = json!(id);
    again["device_secret"] = json!(secret);
    let repeated = app.caller().post(DEVICES, &again).await.ok();
    assert_eq!(repeated, json!({"device_id": id, "device_secret": null}));
    backend.put(&format!("{device}/user"), &json!({"user_id": "ada"})).await.ok();
    app.caller().post(DEVICES, &again).await.ok();
    let read = backend.get(&device).await.ok();
    assert_eq!(json!([read["push_token"], read["user_id"]]), json!(["t2", "ada"]));

    let notification = json!({"id": "own", "text": "t", "platforms": ["android"]});
    backend.post("/v1/notifications/notify", &notification).await.ok();
    let campaign = backend.post("/v1/campaigns", &template("spring")).await.id();
    let own = async |method, path: &str, body: Value| {
        app.call(method, &format!("{id}{path}"), Some(secret), &body).await
    };
    let tag = json!({"name": "news", "type": "bool", "value": true});
    own(Method::POST, "/tags", json!({"tags": [tag]})).await.ok();
    own(Method::POST, "/attributes", json!({"plan": "pro", "seats": 3})).await.ok();
    own(Method::POST, "/attributes", json!({"seats": null})).await.ok();
    let read = backend.get(&device).await.ok();
    assert_eq!((&read["tags"], &read["attributes"]), (&json!([tag]), &json!({"plan": "pro"})));
    let event = json!({"type": "opened", "notification_id": "own"});
    for _ in 0..2 {
        let answer = own(Method::POST, "/events", json!({"events": [event]})).await.ok();
        assert_eq!(answer, json!({"accepted": 1, "ignored": []}));
    }
    let record = backend.get("/v1/notifications/own").await.ok();
    assert_eq!(record["engagement"]["opened"], 1, "each counts once");
    let path = format!("/enrichments/{campaign}?notification_id=own");
    let enrichment = own(Method::GET, &path, Value::Null).await.ok();
    assert_eq!(enrichment["campaign_id"], json!(campaign));
    own(Method::GET, &format!("/enrichments/{campaign}?device_id={id}"), Value::Null)
        .await
        .rejected(400, &["device_id: is given in the path"]);
    for _ in 0..2 {
        own(Method::DELETE, "/user", Value::Null).await.ok();
    }
    assert_eq!(backend.get(&device).await.ok()["user_id"], Value::Null);
    assert_eq!(own(Method::DELETE, "", Value::Null).await.ok(), json!({"success": true}));
    backend.get(&device).await.is(404);
    own(Method::DELETE, "", Value::Null).await.rejected(401, WRONG_SECRET);
    app.caller().post(DEVICES, &again).await.rejected(401, WRONG_SECRET);
}

#[tokio::test]
async fn every_wrong_secret_gets_the_same_401_and_changes_nothing() {
    let app = App::new().await;
    let (own, secret) = app.register("t1").await;
    let (other, other_secret) = app.register("t2").await;
    let backend = app.server.caller();
    backend.post("/v1/devices", &android("of-backend")).await.ok();
    backend.put(&format!("/v1/devices/{other}/user"), &json!({"user_id": "ada"})).await.ok();
    let (foreign_app, foreign_backend) = app.server.create_app("foreign").await;
    let foreign_key = json!({"kind": "publishable"});
    let path = format!("/admin/v1/apps/{foreign_app}/keys");
    let foreign_key = app.server.admin().post(&path, &foreign_key).await.ok();
    let foreign_key = foreign_key["api_key"].as_str().unwrap();
    let foreign = Caller::app(app.server.origin(), foreign_key);
    let stored = app.stored().await;
    let long = "s".repeat(1_000);
    for (device, secret) in [
        (&*other, None),
        (&*other, Some("")),
        (&*other, Some("wrong")),
        (&*other, Some(&*secret)),
        (&*other, Some(&*other_secret.to_lowercase())),
        (&*other, Some(&*long)),
        ("of-backend", None),
        ("of-backend", Some("")),
        ("of-backend", Some(&*secret)),
        ("unknown", Some(&*secret)),
        ("%00", Some(&*secret)),
    ] {
        for (method, path, body) in calls() {
            let answer = app.call(method, &format!("{device}{path}"), secret, &body).await;
            answer.rejected(401, WRONG_SECRET);
            assert_eq!(answer.header("www-authenticate"), "DeviceSecret");
        }
    }
    // Two secrets, of which one is right.
    let request = app.caller().request(Method::DELETE, &format!("{DEVICES}/{own}"));
    let request = request.header("x-device-secret", "x").header("x-device-secret", &secret);
    Response::of(request).await.rejected(401, WRONG_SECRET);
    for (id, secret) in
        [(&other, &secret), (&own, &other_secret), (&"of-backend".to_owned(), &secret)]
    {
        let mut claim = phone("stolen");
        claim["device_id"] = json!(id);
        claim["device_secret"] = json!(secret);
        app.caller().post(DEVICES, &claim).await.rejected(401, WRONG_SECRET);
    }
    // The right secret with the key of another application.
    for (method, path, body) in calls() {
        let request = foreign.request(method, &format!("{DEVICES}/{own}{path}"));
        let request = request.header("x-device-secret", &secret).body(body.to_string());
        Response::of(request).await.rejected(401, WRONG_SECRET);
    }
    let mut claim = phone("stolen");
    claim["device_id"] = json!(own);
    claim["device_secret"] = json!(secret);
    foreign.post(DEVICES, &claim).await.rejected(401, WRONG_SECRET);
    assert_eq!(app.stored().await, stored);
    assert_eq!(foreign_backend.get("/v1/devices").await.ok()["devices"], json!([]));
}

#[tokio::test]
async fn keys_open_only_their_own_part_of_the_api() {
    let app = App::new().await;
    let (server, origin) = (&app.server, app.server.origin().to_owned());
    let (id, secret) = app.register("t1").await;
    let stored = app.stored().await;
    // A publishable key under `/v1` and `/admin/v1`.
    const MISPLACED: &str = "missing or invalid API key: a publishable key opens only /device/v1";
    for (method, path) in [
        (Method::GET, "/v1/devices".to_owned()),
        (Method::GET, format!("/v1/devices/{id}")),
        (Method::GET, "/v1/events/stream".to_owned()),
        (Method::POST, "/v1/notifications".to_owned()),
        (Method::POST, format!("/v1/devices/{id}/secret")),
        (Method::DELETE, format!("/v1/devices/{id}")),
        (Method::GET, "/v1/nowhere".to_owned()),
    ] {
        let request = app.caller().request(method, &path).header("x-device-secret", &secret);
        Response::of(request.body("{}")).await.rejected(401, &[MISPLACED]);
    }
    Caller::app(&origin, "np_invented").get("/v1/devices").await.rejected(401, &[MISPLACED]);
    app.caller().get("/admin/v1/apps").await.is(401);
    Caller::admin(&origin, &app.key).get("/admin/v1/apps").await.is(401);
    // Other keys under `/device/v1`.
    const IN_APP: &str = "missing or invalid publishable key: an API key opens only /v1, and must \
        not be in an app";
    let mut claim = phone("t2");
    claim["device_id"] = json!(id);
    claim["device_secret"] = json!(secret);
    for (caller, error) in [
        (server.caller(), IN_APP),
        (Caller::app(&origin, "nk_invented"), IN_APP),
        (server.admin(), UNKNOWN_KEY[0]),
        (server.anonymous(), UNKNOWN_KEY[0]),
        (Caller::app(&origin, server.admin_key()), UNKNOWN_KEY[0]),
        (Caller::app(&origin, &format!("{}x", app.key)), UNKNOWN_KEY[0]),
        (Caller::app(&origin, &app.key.replace("np_", "nk_")), IN_APP),
        (
            Caller::with_header(&origin, "authorization", format!("Bearer {}", app.key)),
            UNKNOWN_KEY[0],
        ),
    ] {
        caller.post(DEVICES, &claim).await.rejected(401, &[error]);
        caller.post(DEVICES, &phone("t3")).await.rejected(401, &[error]);
        for (method, path, body) in calls() {
            let request = caller.request(method, &format!("{DEVICES}/{id}{path}"));
            let request = request.header("x-device-secret", &secret).body(body.to_string());
            Response::of(request).await.rejected(401, &[error]);
        }
    }
    // No list, no device to read, no other way.
    for (method, path, status) in [
        (Method::GET, DEVICES.to_owned(), 405),
        (Method::GET, format!("{DEVICES}/{id}"), 405),
        (Method::PATCH, format!("{DEVICES}/{id}/attributes"), 405),
        (Method::GET, format!("{DEVICES}/{id}/tags"), 405),
        (Method::DELETE, format!("{DEVICES}/{id}/tags/news"), 404),
        (Method::POST, "/device/v1/notifications".to_owned(), 404),
        (Method::GET, "/device/v1/users".to_owned(), 404),
        (Method::OPTIONS, DEVICES.to_owned(), 405),
    ] {
        let request = app.caller().request(method.clone(), &path);
        let request = request.header("x-device-secret", &secret);
        assert_eq!(Response::of(request).await.status, status, "{method} {path}");
    }
    assert_eq!(app.stored().await, stored);
}

#[tokio::test]
async fn a_key_of_an_app_ends_like_every_key() {
    let app = App::new().await;
    let (server, admin) = (&app.server, app.server.admin());
    let (id, secret) = app.register("t1").await;
    let path = format!("/admin/v1/apps/{}", server.app_id);
    let keys = format!("{path}/keys");
    let listed = admin.get(&keys).await.ok();
    let key = &listed["keys"][1];
    assert_eq!(
        json!([key["kind"], key["scopes"], key["allowed_tags"], key["allowed_attributes"]]),
        json!(["publishable", [], ["news"], ["plan", "seats"]])
    );
    assert!(key["hint"].as_str().unwrap().starts_with("np_…"));
    // The successor is of the same kind, with the same limits, for the same devices.
    let rotate = format!("{keys}/{}/rotate", key["id"].as_str().unwrap());
    let successor = admin.post(&rotate, &json!({"overlap_seconds": 60})).await.ok();
    let successor = successor["api_key"].as_str().unwrap();
    assert!(successor.starts_with("np_"));
    let listed = admin.get(&keys).await.ok();
    for field in ["kind", "scopes", "allowed_tags", "allowed_attributes"] {
        assert_eq!(listed["keys"][2][field], key[field], "{field}");
    }
    let call = async |key: &str| {
        let caller = Caller::app(server.origin(), key);
        let request = caller.request(Method::DELETE, &format!("{DEVICES}/{id}/user"));
        Response::of(request.header("x-device-secret", &secret)).await
    };
    call(successor).await.ok();
    call(&app.key).await.ok();
    server.clock().advance(std::time::Duration::from_secs(60));
    let expired = ["the publishable key has expired: the app needs another one"];
    call(&app.key).await.rejected(401, &expired);
    admin.patch(&path, &json!({"status": "suspended"})).await.ok();
    call(successor).await.rejected(401, UNKNOWN_KEY);
    admin.patch(&path, &json!({"status": "active"})).await.ok();
    call(successor).await.ok();
    let id = listed["keys"][2]["id"].as_str().unwrap();
    admin.delete(&format!("{keys}/{id}")).await.ok();
    call(successor).await.rejected(401, UNKNOWN_KEY);
}

#[tokio::test]
async fn an_app_sets_only_what_its_key_allows() {
    let app = App::new().await;
    let (id, secret) = app.register("t1").await;
    let stored = app.stored().await;
    let tag = |name: &str| json!({"name": name, "type": "bool", "value": true});
    for (path, body, error) in [
        (
            "/tags",
            json!({"tags": [tag("news"), tag("staff")]}),
            "tags[1].name: is not a tag that apps may set",
        ),
        ("/tags", json!({"tags": [tag("News")]}), "tags[0].name: is not a tag that apps may set"),
        (
            "/attributes",
            json!({"plan": "pro", "role": "admin"}),
            "role: is not an attribute that apps may set",
        ),
        ("/attributes", json!({"role": null}), "role: is not an attribute that apps may set"),
        ("/events", json!({"events": []}), "events: must hold at least 1 element"),
    ] {
        let answer = app.call(Method::POST, &format!("{id}{path}"), Some(&secret), &body).await;
        answer.rejected(400, &[error]);
    }
    let event = json!({"type": "opened", "notification_id": "n"});
    let events = json!({"events": vec![event; 51]});
    let answer = app.call(Method::POST, &format!("{id}/events"), Some(&secret), &events).await;
    answer.rejected(400, &["events: must hold at most 50 elements"]);
    let foreign = json!({"events": [{"type": "opened", "notification_id": "n", "device_id": "x"}]});
    let answer = app.call(Method::POST, &format!("{id}/events"), Some(&secret), &foreign).await;
    answer.rejected(400, &["events[0].device_id: unknown field"]);
    let long = "v".repeat(256);
    for (field, value, error) in [
        ("app_version", &*long, "app_version: must be at most 255 characters"),
        ("user_id", "ada", "user_id: unknown field"),
        ("device_id", "chosen", "device_secret: is required with device_id"),
        ("device_secret", "s", "device_id: is required with device_secret"),
        (
            "platform",
            "web",
            "platform: must be one of android, ios (POST /v1/subscriptions takes web, \
             fb-messenger, chatapp)",
        ),
    ] {
        let mut body = phone("t2");
        body[field] = json!(value);
        app.caller().post(DEVICES, &body).await.rejected(400, &[error]);
    }
    let mut other_platform = phone("t1");
    for (field, value) in [
        ("device_id", &*id),
        ("device_secret", &*secret),
        ("platform", "ios"),
        ("sdk_type", "ios_push"),
    ] {
        other_platform[field] = json!(value);
    }
    app.caller()
        .post(DEVICES, &other_platform)
        .await
        .rejected(400, &["platform: must be the platform of the device: register another device"]);
    app.caller().post_bytes(DEVICES, "a".repeat(70_000)).await.is(413);
    assert_eq!(app.stored().await, stored, "nothing was stored");
}

#[tokio::test]
async fn the_server_keeps_a_bounded_number_of_devices_of_strangers() {
    let server =
        TestServer::without_providers_with(|config| config.max_anonymous_devices = 2).await;
    let app = App::on(server).await;
    let mut ids = Vec::new();
    for token in ["t1", "t2", "t3"] {
        ids.push(app.register(token).await.0);
        app.server.clock().advance(std::time::Duration::from_secs(1));
    }
    let diagnostics = format!("/admin/v1/apps/{}/devices/diagnostics", app.server.app_id);
    let diagnostics = app.server.admin().get(&diagnostics).await.ok();
    assert_eq!(diagnostics["anonymous_devices"], json!({"devices": 2, "max": 2}));
    // Expired data is deleted every hour.
    app.server.clock().advance(std::time::Duration::from_secs(3_600));
    let backend = app.server.caller();
    let first = format!("/v1/devices/{}", ids[0]);
    let is_gone = async || Ok((backend.get(&first).await.status == 404).then_some(()));
    notify_tests::until("the first device is removed", is_gone).await.unwrap();
    for id in &ids[1..] {
        backend.get(&format!("/v1/devices/{id}")).await.ok();
    }
}

#[tokio::test]
async fn a_device_of_a_backend_gets_a_secret_on_request() {
    let app = App::new().await;
    let backend = app.server.caller();
    backend.post("/v1/devices", &android("phone")).await.ok();
    let token = json!("token-phone");
    let (own, own_secret) = app.register("t1").await;
    // Whoever learned the token cannot take it from the device.
    const TAKEN: &str = "push_token: belongs to a device that was registered with an API key: the \
        backend gives that device a secret";
    app.caller().post(DEVICES, &phone("token-phone")).await.rejected(400, &[TAKEN]);
    let mut again = phone("token-phone");
    again["device_id"] = json!(own);
    again["device_secret"] = json!(own_secret);
    app.caller().post(DEVICES, &again).await.rejected(400, &[TAKEN]);
    assert_eq!(backend.get("/v1/devices/phone").await.ok()["push_token"], token);

    let path = "/v1/devices/phone/secret";
    let mut secrets = Vec::new();
    for _ in 0..2 {
        let answer = backend.post_once(path, "once", &json!({})).await;
        assert_eq!(answer.header("idempotency-replayed"), "", "each request makes a new secret");
        let made = answer.ok();
        assert_eq!(made["device_id"], "phone");
        secrets.push(made["device_secret"].as_str().unwrap().to_owned());
    }
    assert_ne!(secrets[0], secrets[1]);
    let log_out = async |secret: &str| {
        app.call(Method::DELETE, "phone/user", Some(secret), &Value::Null).await
    };
    log_out(&secrets[0]).await.rejected(401, WRONG_SECRET);
    log_out(&secrets[1]).await.ok();
    // Another registration with the API key leaves the secret.
    backend.post("/v1/devices", &android("phone")).await.ok();
    log_out(&secrets[1]).await.ok();

    let chat = json!({"platform": "chatapp", "device_id": "chat", "recipient_id": "1"});
    backend.post("/v1/subscriptions", &chat).await.ok();
    let refused = "device_id: must be the id of a device of the platform android or ios";
    backend.post("/v1/devices/chat/secret", &json!({})).await.rejected(400, &[refused]);
    backend.post("/v1/devices/unknown/secret", &json!({})).await.is(404);
    backend.post(path, &json!({"secret": "chosen"})).await.is(400);
    let (_, foreign) = app.server.create_app("foreign").await;
    foreign.post(path, &json!({})).await.is(404);
    backend.post_once(path, "a b", &json!({})).await.is(400);
}

#[tokio::test]
async fn secrets_of_apps_and_browsers_do_not_open_each_other() {
    let app = App::new().await;
    let admin = app.server.admin();
    let path = format!("/admin/v1/apps/{}/web", app.server.app_id);
    admin.put(&path, &json!({"allowed_origins": ["https://shop.example"]})).await.ok();
    let page = Caller::with_header(app.server.origin(), "origin", "https://shop.example");
    let web = format!("/web/v1/{}/devices", app.server.app_id);
    let keys = json!({"p256dh": "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
        "auth": "BTBZMqHH6r4Tts7J_aSIgg"});
    let subscription = json!({"endpoint": "https://fcm.googleapis.com/fcm/send/a", "keys": keys});
    let browser = page.post(&web, &json!({"subscription": subscription})).await.ok();
    let (browser_id, browser_secret) =
        (browser["id"].as_str().unwrap(), browser["device_secret"].as_str().unwrap());
    let (phone_id, phone_secret) = app.register("t1").await;
    let stored = app.stored().await;
    app.call(Method::DELETE, browser_id, Some(browser_secret), &Value::Null)
        .await
        .rejected(401, WRONG_SECRET);
    let request = page.request(Method::DELETE, &format!("{web}/{phone_id}"));
    let request = request.header("x-device-secret", &phone_secret);
    Response::of(request).await.rejected(401, WRONG_SECRET);
    assert_eq!(app.stored().await, stored);
}

#[tokio::test]
async fn phones_behind_one_address_have_limits_of_their_own() {
    let server = TestServer::without_providers_with(|config| {
        config.web_requests_per_minute = 1;
        config.web_address_requests_per_minute = 5;
        config.web_subscriptions_per_minute = 4;
    });
    let app = App::on(server.await).await;
    let mut phones = Vec::new();
    for token in ["a", "b", "c"] {
        phones.push(app.register(token).await);
    }
    for (id, secret) in &phones {
        let mut statuses = Vec::new();
        for _ in 0..2 {
            let path = format!("{id}/user");
            let answer = app.call(Method::DELETE, &path, Some(secret), &Value::Null).await;
            statuses.push(answer.status);
        }
        assert_eq!(statuses, [200, 429], "each phone alone");
    }
    let mut statuses = Vec::new();
    for token in ["d", "e", "f"] {
        statuses.push(app.caller().post(DEVICES, &phone(token)).await.status);
    }
    assert_eq!(statuses, [200, 429, 429], "four of the application, five of the address");
    let wrong = async || app.call(Method::DELETE, "x", Some("wrong"), &Value::Null).await;
    wrong().await.rejected(401, WRONG_SECRET);
    let last = wrong().await;
    let wait: u32 = last.header("retry-after").parse().unwrap();
    assert!((1..=60).contains(&wait));
    last.rejected(429, &["too many requests"]);
    app.server.caller().get("/v1/devices").await.ok();

    let refused = async || {
        let diagnostics = app.server.admin().get("/admin/v1/diagnostics").await.ok();
        diagnostics["refused_calls"].clone()
    };
    let apps = app.server.admin().get("/admin/v1/apps").await.ok();
    let expected = |address: u32, untrusted_proxy: Value| {
        json!([{"app_id": app.server.app_id, "app_name": apps["apps"][0]["name"], "device": 3,
            "address": address, "application": 1, "last_at": notify_tests::NOW.0,
            "untrusted_proxy": untrusted_proxy}])
    };
    assert_eq!(refused().await, expected(2, Value::Null));
    let request = app.caller().request(Method::DELETE, &format!("{DEVICES}/x"));
    let request = request.header("x-device-secret", "wrong").header("x-forwarded-for", "192.0.2.7");
    Response::of(request).await.rejected(429, &["too many requests"]);
    assert_eq!(refused().await, expected(3, json!("127.0.0.1")));
    let metrics = app.server.anonymous().get("/metrics").await.text;
    for (limit, count) in [("device", 3), ("address", 3), ("application", 1)] {
        let line = format!("notify_device_calls_refused_total{{limit=\"{limit}\"}} {count}");
        assert!(metrics.lines().any(|found| found == line), "{line} in {metrics}");
    }
}

#[tokio::test]
async fn a_phone_that_registers_again_does_not_count_as_a_new_one() {
    let server = TestServer::without_providers_with(|config| {
        config.web_requests_per_minute = 3;
        config.web_address_requests_per_minute = 1;
        config.web_subscriptions_per_minute = 1;
    });
    let app = App::on(server.await).await;
    let (id, secret) = app.register("a").await;
    app.caller().post(DEVICES, &phone("b")).await.rejected(429, &["too many requests"]);
    let mut again = phone("a2");
    again["device_id"] = json!(id);
    again["device_secret"] = json!(secret);
    let expected = json!({"device_id": id, "device_secret": null});
    for _ in 0..3 {
        assert_eq!(app.caller().post(DEVICES, &again).await.ok(), expected);
    }
    app.caller().post(DEVICES, &again).await.rejected(429, &["too many requests"]);
}

const INVALID_TOKEN: &[&str] = &["user_token: is not a valid token of this application"];

#[tokio::test]
async fn an_app_logs_in_with_a_token_of_the_user() {
    let app = App::new().await;
    let backend = app.server.caller();
    let (id, secret) = app.register("t1").await;
    let created = backend.post("/v1/users/ada/tokens", &json!({"ttl_seconds": 60})).await.ok();
    assert_eq!(created["expires_at"], notify_tests::NOW.0 + 60_000);
    assert!(created["user_token"].as_str().unwrap().starts_with("nu_"));
    backend.get("/v1/users/ada").await.ok();
    let path = format!("{id}/user");
    let log_in = async |token: &Value| {
        let body = json!({"user_token": token});
        app.call(Method::PUT, &path, Some(&secret), &body).await
    };
    let user = async || backend.get(&format!("/v1/devices/{id}")).await.ok()["user_id"].clone();
    for _ in 0..2 {
        log_in(&created["user_token"]).await.ok();
        assert_eq!(user().await, "ada");
    }
    // Another user takes the device over, and the first one comes back.
    let bob = backend.post("/v1/users/bob/tokens", &json!({})).await.ok();
    log_in(&bob["user_token"]).await.ok();
    assert_eq!(user().await, "bob");
    log_in(&created["user_token"]).await.ok();
    app.server.clock().advance(std::time::Duration::from_secs(60));
    log_in(&created["user_token"]).await.rejected(400, &["user_token: has expired"]);
    assert_eq!(user().await, "ada", "the log-in outlives the token");
}

#[tokio::test]
async fn a_token_of_nobody_else_logs_in() {
    let app = App::new().await;
    let backend = app.server.caller();
    let (id, secret) = app.register("t1").await;
    let (_, foreign) = app.server.create_app("foreign").await;
    let token = |answer: Value| answer["user_token"].as_str().unwrap().to_owned();
    let of_foreign = token(foreign.post("/v1/users/ada/tokens", &json!({})).await.ok());
    let of_erased = token(backend.post("/v1/users/eve/tokens", &json!({})).await.ok());
    backend.delete("/v1/users/eve").await.ok();
    let of_earlier = token(backend.post("/v1/users/joe/tokens", &json!({})).await.ok());
    backend.delete("/v1/users/joe?devices=keep").await.ok();
    app.server.clock().advance(std::time::Duration::from_millis(1));
    backend.patch("/v1/users/joe", &json!({})).await.ok();
    let own = token(backend.post("/v1/users/ada/tokens", &json!({})).await.ok());
    let (first, last) = own.split_at(own.len() - 1);
    let tampered = format!("{first}{}", if last == "A" { "B" } else { "A" });
    let stored = app.stored().await;
    let path = format!("{id}/user");
    for wrong in [
        &*of_foreign,
        &*of_erased,
        &*of_earlier,
        &*tampered,
        first,
        "ada",
        "nu_",
        &*app.key,
        &*secret,
    ] {
        let body = json!({"user_token": wrong});
        let answer = app.call(Method::PUT, &path, Some(&secret), &body).await;
        answer.rejected(400, INVALID_TOKEN);
        assert!(wrong.len() < 20 || !answer.text.contains(wrong), "it is not echoed");
    }
    for (body, errors) in [
        (json!({"user_id": "ada"}), &["user_id: unknown field", "user_token: is required"][..]),
        (json!({"user_token": own, "user_id": "bob"}), &["user_id: unknown field"]),
        (json!({"user_token": ""}), &["user_token: is required"]),
        (json!({"user_token": own.repeat(4)}), &["user_token: must be at most 255 characters"]),
    ] {
        let answer = app.call(Method::PUT, &path, Some(&secret), &body).await;
        answer.rejected(400, errors);
    }
    // A valid token does not replace the secret of the device.
    let body = json!({"user_token": own});
    app.call(Method::PUT, &path, None, &body).await.rejected(401, WRONG_SECRET);
    app.call(Method::PUT, &path, Some(&own), &body).await.rejected(401, WRONG_SECRET);
    let (other, _) = app.register("t2").await;
    app.call(Method::PUT, &format!("{other}/user"), Some(&secret), &body)
        .await
        .rejected(401, WRONG_SECRET);
    backend.delete(&format!("/v1/devices/{other}")).await.ok();
    assert_eq!(app.stored().await, stored, "nothing was stored");
    app.call(Method::PUT, &path, Some(&secret), &body).await.ok();
}

#[tokio::test]
async fn a_token_is_made_anew_and_needs_the_scope_devices() {
    let app = App::new().await;
    let backend = app.server.caller();
    let path = "/v1/users/ada%2F1/tokens";
    let mut tokens = Vec::new();
    for ttl in [60, 86_400] {
        let answer = backend.post_once(path, "once", &json!({"ttl_seconds": ttl})).await;
        assert_eq!(answer.header("idempotency-replayed"), "");
        tokens.push(answer.ok()["user_token"].clone());
    }
    assert_ne!(tokens[0], tokens[1], "another body with the same key is no conflict");
    assert_eq!(backend.get("/v1/users").await.ok()["users"].as_array().unwrap().len(), 1);
    for (ttl, error) in [
        (json!(59), "ttl_seconds: must be from 60 to 86400"),
        (json!(86_401), "ttl_seconds: must be from 60 to 86400"),
    ] {
        let body = json!({"ttl_seconds": ttl});
        backend.post("/v1/users/new/tokens", &body).await.rejected(400, &[error]);
    }
    let keys = format!("/admin/v1/apps/{}/keys", app.server.app_id);
    let others = json!({"scopes": ["read", "send", "content", "webhooks"]});
    let key = app.server.admin().post(&keys, &others).await.ok();
    let caller = Caller::app(app.server.origin(), key["api_key"].as_str().unwrap());
    let answer = caller.post("/v1/users/new/tokens", &json!({})).await;
    answer.rejected(403, &["the key lacks the scope `devices`"]);
    app.caller().post("/v1/users/new/tokens", &json!({})).await.is(401);
    backend.get("/v1/users/new").await.is(404);
}
