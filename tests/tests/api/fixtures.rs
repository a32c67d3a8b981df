//! Valid bodies, and settings.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use notify_server::config::Config;
use notify_server::store::postgres::testing::TestDatabase;
use serde_json::{Value, json};

/// A valid registration.
pub(crate) fn android(id: &str) -> Value {
    json!({"device_id": id, "platform": "android", "sdk_type": "android_push",
        "push_token": format!("token-{id}")})
}

/// A valid notification.
pub(crate) fn to_android() -> Value {
    json!({"text": "hello", "platforms": ["android"]})
}

/// A valid campaign.
pub(crate) fn template(name: &str) -> Value {
    json!({"name": name, "layout_id": "content_with_two", "settings": {}, "features": [
        {"type": "action_button", "position": 1, "data": {"type": "url", "url": "https://a.example"}}
    ]})
}

/// The settings with which a server uses a database.
pub(crate) fn on_database(database: &TestDatabase) -> impl FnOnce(&mut Config) + use<> {
    let url = database.url().parse().unwrap();
    |config: &mut Config| {
        config.database_url = Some(url);
        config.master_key = Some(STANDARD.encode([7; 32]).into());
        config.reader_threads = 2;
    }
}
