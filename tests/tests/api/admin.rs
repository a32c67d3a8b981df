//! The admin API: applications, keys, providers.

use notify_sandbox::{Sandbox, SandboxConfig};
use notify_tests::{Caller, NOW, TestServer};
use serde_json::{Value, json};
use tokio::net::TcpListener;

async fn first_app(admin: &Caller) -> String {
    admin.get("/admin/v1/apps").await.ok()["apps"][0]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn applications_are_created_changed_and_deleted() {
    let server = TestServer::without_providers().await;
    let admin = server.admin();
    let id = admin.post("/admin/v1/apps", &json!({"name": "shop", "language": "de"})).await.id();
    let path = format!("/admin/v1/apps/{id}");
    let shop = json!({"id": id, "name": "shop", "language": "de", "status": "active",
        "created_at": NOW.0});
    assert_eq!(admin.get(&path).await.ok(), shop);
    admin.patch(&path, &json!({"name": "store"})).await.ok();
    assert_eq!(admin.get(&path).await.ok()["name"], "store");
    admin.patch(&path, &json!({"status": "asleep"})).await.is(400);
    admin.patch(&path, &json!({"on_crash": "skip"})).await.ok();
    admin.patch(&path, &json!({"name": "store"})).await.ok();
    assert_eq!(admin.get(&path).await.ok()["on_crash"], "skip");
    let refused = ["on_crash: must be one of repeat, skip"];
    admin.patch(&path, &json!({"on_crash": "resend"})).await.rejected(400, &refused);
    admin.patch(&path, &json!({"on_crash": "repeat"})).await.ok();
    assert_eq!(admin.get(&path).await.ok().get("on_crash"), None, "the default is left out");
    admin.post("/admin/v1/apps", &json!({"name": ""})).await.is(400);
    let listed = admin.get("/admin/v1/apps").await.ok();
    let names: Vec<&str> = listed["apps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|app| app["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["default", "store"]);
    admin.delete(&path).await.ok();
    admin.get(&path).await.is(404);
    admin.delete(&path).await.is(404);
}

#[tokio::test]
async fn a_key_is_shown_once_and_later_only_its_hint() {
    let server = TestServer::without_providers().await;
    let admin = server.admin();
    let keys = format!("/admin/v1/apps/{}/keys", first_app(&admin).await);
    let made = admin.post_bytes(&keys, "").await.ok();
    let key = made["api_key"].as_str().unwrap();
    assert!(key.starts_with("nk_") && key.len() >= 46);
    let named = admin.post(&keys, &json!({"name": "backend"})).await.ok();
    let listed = admin.get(&keys).await.ok();
    assert!(!listed.to_string().contains(key));
    let rows = listed["keys"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[2]["name"]), (3, &json!("backend")));
    let hint = rows[1]["hint"].as_str().unwrap();
    assert!(hint.starts_with("nk_") && hint.ends_with(&key[key.len() - 4..]), "{hint}");
    assert_eq!(rows[2]["id"], named["id"]);
    admin.post_bytes("/admin/v1/apps/0190a7c0-0000-7000-8000-000000000000/keys", "").await.is(404);
}

async fn sandbox() -> Sandbox {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    Sandbox::start(listener, SandboxConfig::default()).await.unwrap()
}

#[tokio::test]
async fn providers_are_configured_shown_without_secrets_and_removed() {
    let server = TestServer::without_providers().await;
    let (admin, sandbox) = (server.admin(), sandbox().await);
    let app = first_app(&admin).await;
    let path = |provider: &str| format!("/admin/v1/apps/{app}/providers/{provider}");
    let secrets =
        ["page_access_token", "app_secret", "verify_token", "bot_token", "webhook_secret"];
    for (provider, config) in [
        ("apns", sandbox.apns_config()),
        ("fcm", sandbox.fcm_config()),
        ("messenger", sandbox.messenger_config()),
        ("telegram", sandbox.telegram_config()),
    ] {
        admin.get(&path(provider)).await.is(404);
        assert_eq!(admin.put(&path(provider), &config).await.ok(), json!({"success": true}));
        let shown = admin.get(&path(provider)).await;
        assert_eq!(shown.ok()["provider"], provider);
        assert!(!shown.text.contains("PRIVATE KEY"), "{shown:?}");
        assert_eq!(shown.ok()["config"]["ca_certificate"], config["ca_certificate"]);
        for secret in secrets.iter().filter_map(|name| config[*name].as_str()) {
            assert!(!shown.text.contains(secret), "{shown:?}");
        }
    }
    let listed = admin.get(&format!("/admin/v1/apps/{app}/providers")).await;
    assert_eq!(listed.ok()["providers"].as_array().unwrap().len(), 4);
    assert!(!listed.text.contains("PRIVATE KEY"));
    admin.delete(&path("apns")).await.ok();
    admin.delete(&path("apns")).await.is(404);
    admin.put(&path("apns"), &json!({"team_id": 1})).await.is(400);
    admin.get(&path("toaster")).await.is(404);
    admin.put(&path("webpush"), &json!({})).await.rejected(400, &["subject: is required"]);
}

#[tokio::test]
async fn stored_credentials_are_sealed_and_survive_a_restart() {
    let mut server = TestServer::without_providers().await;
    let (admin, sandbox) = (server.admin(), sandbox().await);
    let app = first_app(&admin).await;
    let path = format!("/admin/v1/apps/{app}/providers/apns");
    let config = sandbox.apns_config();
    admin.put(&path, &config).await.ok();
    server.restart().await;
    let read: Value = server.admin().get(&path).await.ok();
    assert_eq!(read["config"]["key_id"], config["key_id"]);
    let pem = config["private_key"].as_str().unwrap();
    let secret: String = pem.lines().nth(1).unwrap().chars().take(40).collect();
    // On PostgreSQL there is no data folder.
    for entry in std::fs::read_dir(server.data_dir()).into_iter().flatten() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(secret.len()).any(|part| part == secret.as_bytes()));
    }
}

#[tokio::test]
async fn a_vapid_key_is_generated_once_and_only_its_public_key_is_shown() {
    let mut server = TestServer::without_providers().await;
    let admin = server.admin();
    let app = first_app(&admin).await;
    let path = format!("/admin/v1/apps/{app}/providers/webpush");
    let subject = json!({"subject": "mailto:push@shop.com"});
    let refused = admin.put(&path, &json!({"subject": "mailto:push@localhost"})).await;
    refused.rejected(
        400,
        &["subject: must name a real domain: Apple refuses localhost, reserved names and addresses"],
    );
    admin.get(&path).await.is(404);
    // Of two concurrent commands, one finds the key that the other created.
    let (one, two) = tokio::join!(admin.put(&path, &subject), admin.put(&path, &subject));
    assert_eq!((one.ok(), two.ok()), (json!({"success": true}), json!({"success": true})));
    let shown = admin.get(&path).await.ok()["config"].clone();
    let public = shown["vapid_public_key"].as_str().unwrap().to_owned();
    assert_eq!(
        shown,
        json!({"subject": "mailto:push@shop.com", "vapid_public_key": public}),
        "and nothing else"
    );
    let by_url = json!({"subject": "https://shop.com/contact", "rate_per_second": 50});
    admin.put(&path, &by_url).await.ok();
    server.restart().await;
    let admin = server.admin();
    let kept = admin.get(&path).await.ok()["config"].clone();
    let mut expected = by_url.clone();
    expected["vapid_public_key"] = json!(public);
    assert_eq!(kept, expected);
    admin.put(&path, &kept).await.ok();
    assert_eq!(admin.get(&path).await.ok()["config"], expected, "what is read can be put");
    // The private key of RFC 8291, appendix A.
    let mut own = subject.clone();
    own["vapid_private_key"] = json!("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw");
    admin.put(&path, &own).await.ok();
    let shown = admin.get(&path).await;
    assert!(!shown.text.contains("yfWPiYE"), "{shown:?}");
    assert!(shown.ok()["config"]["vapid_public_key"].as_str().unwrap().starts_with("BP4z9KsN6nGR"));
    admin.delete(&path).await.ok();
    admin.put(&path, &subject).await.ok();
    let generated = admin.get(&path).await.ok()["config"]["vapid_public_key"].clone();
    assert_ne!(generated, json!(public), "what was removed is gone");
}
