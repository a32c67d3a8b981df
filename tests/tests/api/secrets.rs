//! Secrets appear in no log, metric, answer or file.

use serde_json::json;

use crate::kit::{TestServer, logged};

#[tokio::test]
async fn planted_secrets_are_nowhere_to_be_found() {
    const TOKEN: &str = "planted-push-token-5f1d";
    const TEXT: &str = "planted text 77ab";
    let server = TestServer::start().await;
    let caller = server.caller();
    let device = json!({"device_id": "d1", "platform": "android", "sdk_type": "android_push",
        "push_token": TOKEN, "imei": "planted-imei-9c"});
    caller.post("/v1/devices", &device).await.ok();
    caller.post("/v1/devices", &json!({"device_id": TOKEN})).await.is(400);
    caller.post("/v1/notifications", &json!({"text": TEXT, "platforms": ["android"]})).await.id();
    caller.post_bytes("/v1/notifications", format!("{{\"text\": \"{TEXT}")).await.is(400);
    let metrics = server.anyone().get("/metrics").await.text;
    let log = logged();
    let secrets = [&*server.api_key, &*server.admin_key, TOKEN, TEXT, "planted-imei-9c"];
    for secret in secrets {
        assert!(!log.contains(secret), "the log holds {secret}");
        assert!(!metrics.contains(secret), "the metrics hold {secret}");
    }
    for entry in std::fs::read_dir(server.folder.path()).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        for key in [&server.api_key, &server.admin_key] {
            let found = bytes.windows(key.len()).any(|part| part == key.as_bytes());
            assert!(!found, "only a hash of a key is stored");
        }
    }
}
