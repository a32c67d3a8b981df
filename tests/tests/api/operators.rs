//! Admin keys and the audit trail, over HTTP.

use http::Method;
use notify_tests::{Caller, NOW, TestServer};
use serde_json::{Value, json};

const UNKNOWN: &str = "0190a7c0-0000-7000-8000-000000000000";

#[tokio::test]
async fn an_admin_key_works_until_it_is_revoked() {
    let server = TestServer::without_providers().await;
    let admin = server.admin();
    let created = admin.post("/admin/v1/keys", &json!({"name": "Ada"})).await.ok();
    let (id, key) = (created["id"].as_str().unwrap(), created["admin_key"].as_str().unwrap());
    assert!(key.starts_with("na_"), "{key}");
    let path = format!("/admin/v1/keys/{id}");
    let ada = Caller::admin(server.origin(), key);
    ada.get("/admin/v1/apps").await.ok();
    ada.patch(&path, &json!({"name": "Ada's laptop"})).await.ok();
    let listed = admin.get("/admin/v1/keys").await;
    assert!(!listed.text.contains(key));
    let keys = listed.ok()["keys"].clone();
    assert_eq!(keys.as_array().unwrap().len(), 2);
    assert_eq!(keys[1]["name"], "Ada's laptop");
    let hint = format!("na_…{}", &key[key.len() - 4..]);
    assert_eq!((&keys[1]["hint"], &keys[1]["created_at"]), (&json!(hint), &json!(NOW.0)));
    admin.delete(&path).await.ok();
    ada.get("/admin/v1/apps").await.is(401);
    admin.delete(&path).await.is(404);
    admin.patch(&path, &json!({"name": "x"})).await.is(404);
    admin.patch(&path, &json!({"name": ""})).await.rejected(400, &["name: is required"]);
    let only = keys[0]["id"].as_str().unwrap();
    let refused = admin.delete(&format!("/admin/v1/keys/{only}")).await;
    refused.rejected(400, &["key_id: is the only admin key: create another one first"]);
    admin.get("/admin/v1/apps").await.ok();
}

/// Sends a request and returns the newest entry of the audit trail, without the id of the request.
async fn audited(admin: &Caller, method: Method, path: &str, body: Value) -> (Value, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let response = admin.send(&method, path, body).await.unwrap();
    let request_id = response.header("x-request-id").to_owned();
    let answer = response.ok();
    let trail = admin.get("/admin/v1/audit?limit=1").await.ok();
    let mut entry = trail["entries"][0].clone();
    let named = entry.as_object_mut().unwrap().remove("request_id");
    assert_eq!(named, Some(json!(request_id)), "{method} {path}: {entry}");
    (answer, entry)
}

#[tokio::test]
async fn each_change_of_an_operator_is_in_the_audit_trail() {
    let server = TestServer::without_providers().await;
    let admin = server.admin();
    let keys = admin.get("/admin/v1/keys").await.ok();
    let (key_id, key_name) = (&keys["keys"][0]["id"], &keys["keys"][0]["hint"]);
    let entry = |action: &str, app: Option<&str>, object: Option<&str>| {
        let mut entry = json!({"at": NOW.0, "action": action, "key_id": key_id,
            "key_name": key_name, "address": "127.0.0.1", "source": "api"});
        if let Some(app) = app {
            entry["app_id"] = json!(app);
        }
        if let Some(object) = object {
            entry["object"] = json!(object);
        }
        entry
    };
    let name = json!({"name": "secret name"});
    let (made, shown) = audited(&admin, Method::POST, "/admin/v1/apps", name.clone()).await;
    let app = made["id"].as_str().unwrap();
    assert_eq!(shown, entry("create_app", Some(app), None));
    let below = |path: &str| format!("/admin/v1/apps/{app}{path}");
    let (made, shown) = audited(&admin, Method::POST, &below("/keys"), json!({})).await;
    let api_key = made["id"].as_str().unwrap();
    assert_eq!(shown, entry("create_api_key", Some(app), Some(api_key)));
    let (made, shown) = audited(&admin, Method::POST, "/admin/v1/keys", name.clone()).await;
    let admin_key = made["id"].as_str().unwrap();
    assert_eq!(shown, entry("create_admin_key", None, Some(admin_key)));
    let admin_key_path = format!("/admin/v1/keys/{admin_key}");
    let origins = json!({"allowed_origins": ["https://shop.example"]});
    let webpush = json!({"subject": "mailto:ops@example.com"});
    let (patch, put, delete) = (Method::PATCH, Method::PUT, Method::DELETE);
    let provider = || below("/providers/webpush");
    let rows = [
        (patch.clone(), below(""), json!({"status": "suspended"}), "update_app", None),
        (put.clone(), below("/web"), origins, "set_web_access", None),
        (delete.clone(), below("/web"), Value::Null, "delete_web_access", None),
        (put, provider(), webpush, "configure_provider", Some("webpush")),
        (Method::POST, provider() + "/resume", json!({}), "resume_provider", Some("webpush")),
        (delete.clone(), provider(), Value::Null, "delete_provider", Some("webpush")),
        (
            delete.clone(),
            below(&format!("/keys/{api_key}")),
            Value::Null,
            "revoke_api_key",
            Some(api_key),
        ),
        (delete.clone(), below(""), Value::Null, "delete_app", None),
    ];
    let changes_of_app = rows.len() + 2;
    for (method, path, body, action, object) in rows {
        let (_, shown) = audited(&admin, method, &path, body).await;
        assert_eq!(shown, entry(action, Some(app), object), "{path}");
    }
    for (method, body, action) in
        [(patch, name, "rename_admin_key"), (delete, Value::Null, "revoke_admin_key")]
    {
        let (_, shown) = audited(&admin, method, &admin_key_path, body).await;
        assert_eq!(shown, entry(action, None, Some(admin_key)));
    }
    let of_app = admin.get(&format!("/admin/v1/audit?app_id={app}")).await.ok();
    assert_eq!(of_app["entries"].as_array().unwrap().len(), changes_of_app);
    let all = admin.get("/admin/v1/audit?limit=1000").await;
    assert!(!all.text.contains("secret name") && !all.text.contains("nk_"), "{}", all.text);
}

#[tokio::test]
async fn reads_and_refused_requests_are_not_in_the_audit_trail() {
    let server = TestServer::without_providers().await;
    let admin = server.admin();
    admin.get("/admin/v1/apps").await.ok();
    admin.post("/admin/v1/apps", &json!({"name": ""})).await.is(400);
    admin.delete(&format!("/admin/v1/apps/{UNKNOWN}")).await.is(404);
    admin.delete("/admin/v1/apps/x").await.is(404);
    // Applications write with an API key; the audit trail is about operators.
    let app = server.caller();
    app.post("/v1/devices", &super::fixtures::android("phone")).await.ok();
    assert_eq!(
        admin.get("/admin/v1/audit").await.ok(),
        json!({"entries": [], "next_cursor": null})
    );
    let wrong = admin.get("/admin/v1/audit?app_id=x").await;
    wrong.rejected(400, &["app_id: must be the id of an application"]);
}
