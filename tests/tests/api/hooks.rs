//! The webhooks of Messenger and the chat app over HTTP.

mod bodies;
mod events;
mod signatures;

use aws_lc_rs::hmac;
use notify_tests::{Caller, NOW, Response, TestServer};
use reqwest::Method;
use serde_json::{Value, json};

const APP_SECRET: &str = "planted-app-secret";
const VERIFY_TOKEN: &str = "planted&verify=token";
const WEBHOOK_SECRET: &str = "planted-webhook-secret";

fn messenger_config() -> Value {
    json!({"page_access_token": "EAAG-planted", "app_secret": APP_SECRET,
        "verify_token": VERIFY_TOKEN})
}

fn telegram_config() -> Value {
    json!({"bot_token": "1:planted", "webhook_secret": WEBHOOK_SECRET})
}

/// The id of the first application.
async fn first_app(admin: &Caller) -> String {
    let apps = admin.get("/admin/v1/apps").await.ok();
    apps["apps"][0]["id"].as_str().unwrap().to_owned()
}

async fn configure(admin: &Caller, app: &str, provider: &str, config: &Value) {
    admin.put(&format!("/admin/v1/apps/{app}/providers/{provider}"), config).await.ok();
}

/// A server whose first application has both webhooks, and that application.
async fn hooked() -> (TestServer, String) {
    let server = TestServer::without_providers().await;
    let admin = server.admin();
    let app = first_app(&admin).await;
    configure(&admin, &app, "messenger", &messenger_config()).await;
    configure(&admin, &app, "telegram", &telegram_config()).await;
    (server, app)
}

/// `X-Hub-Signature-256` of a body.
fn signature(secret: &str, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, body);
    tag.as_ref().iter().fold("sha256=".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

/// A call as Meta makes it.
async fn from_meta(server: &TestServer, app: &str, body: impl Into<Vec<u8>>) -> Response {
    let body = body.into();
    let signature = signature(APP_SECRET, &body);
    let path = format!("/hooks/messenger/{app}");
    let request = server.anonymous().request(Method::POST, &path);
    Response::of(request.header("X-Hub-Signature-256", signature).body(body)).await
}

/// A call as Telegram makes it.
async fn from_telegram(server: &TestServer, app: &str, body: impl Into<Vec<u8>>) -> Response {
    let request = server.anonymous().request(Method::POST, &format!("/hooks/telegram/{app}"));
    let request = request.header("X-Telegram-Bot-Api-Secret-Token", WEBHOOK_SECRET);
    Response::of(request.body(body.into())).await
}

/// An event of a page.
fn event(person: &str, members: &Value) -> Value {
    let mut event = json!({"sender": {"id": person}, "recipient": {"id": "page"},
        "timestamp": NOW.0 - 1_000});
    for (name, value) in members.as_object().unwrap() {
        event[name] = value.clone();
    }
    event
}

fn call(events: &[Value]) -> String {
    json!({"object": "page", "entry": [{"id": "page", "messaging": events}]}).to_string()
}

fn message(chat: i64, text: &str, seconds_ago: i64) -> String {
    json!({"update_id": 1, "message": {"message_id": 1, "text": text,
        "date": NOW.0 / 1_000 - seconds_ago, "chat": {"id": chat, "type": "private"},
        "from": {"id": chat, "is_bot": false, "language_code": "de"}}})
    .to_string()
}

fn press(chat: i64, data: &str) -> String {
    json!({"update_id": 1, "callback_query": {"id": "q-1", "data": data,
        "from": {"id": chat, "is_bot": false},
        "message": {"message_id": 1, "date": 1, "chat": {"id": chat, "type": "private"}}}})
    .to_string()
}

fn member(chat: i64, status: &str, seconds_ago: i64) -> String {
    json!({"update_id": 1, "my_chat_member": {"chat": {"id": chat, "type": "private"},
        "date": NOW.0 / 1_000 - seconds_ago, "new_chat_member": {"status": status}}})
    .to_string()
}

/// All devices of the first application.
async fn devices(server: &TestServer) -> Vec<Value> {
    let listed = server.caller().get("/v1/devices?limit=1000").await.ok();
    listed["devices"].as_array().unwrap().clone()
}
