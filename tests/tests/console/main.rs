//! The administration console over HTTP: sessions, forms, pages, headers. What needs a browser is tested in
//! browsers.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod access;
mod administration;
mod audiences;
mod content;
mod html;
mod notifications;
mod playground;
mod prefix;
mod program;
mod sending;
mod sessions;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use http::Method;
use notify_server::config::{Span, Switch};
use notify_tests::{Caller, Operator, TestServer};
use serde_json::{Value, json};

/// A name that is markup, to be shown as text.
const MARKUP: &str = "<script>alert(1)</script>\"'&";

/// A text as a page shows it.
fn escaped(text: &str) -> String {
    text.replace('&', "&#38;")
        .replace('<', "&#60;")
        .replace('>', "&#62;")
        .replace('"', "&#34;")
        .replace('\'', "&#39;")
}

/// A valid registration.
fn android(id: &str) -> Value {
    json!({"device_id": id, "platform": "android", "sdk_type": "android_push",
        "push_token": "token"})
}

async fn operator(server: &TestServer) -> Result<Operator> {
    Operator::sign_in(server.origin(), server.admin_key()).await
}

async fn first_app(server: &TestServer) -> String {
    let apps = server.admin().get("/admin/v1/apps").await.ok();
    apps["apps"][0]["id"].as_str().unwrap().to_owned()
}

fn visitor(server: &TestServer) -> Caller {
    Caller::with_header(server.origin(), "accept", "text/html")
}

#[tokio::test]
async fn the_admin_key_signs_in_and_a_wrong_key_says_why_not() -> Result<()> {
    let server = TestServer::without_providers().await;
    let visitor = visitor(&server);
    assert_eq!(visitor.get("/console").await.header("location"), "console/");
    let overview = visitor.get("/console/audit").await;
    assert_eq!((overview.status, overview.header("location")), (303, "./sign-in?next=audit"));
    let api_key = format!("key={}", server.api_key());
    for (form, text) in [
        ("key=", "enter the admin key"),
        ("key=na_wrong", "this is not an admin key of this server"),
        (api_key.as_str(), "the console needs the admin key, which begins with na_"),
    ] {
        let page = visitor.send(&Method::POST, "/console/sign-in", form.to_owned()).await?;
        assert_eq!(page.status, 401, "{form}");
        assert!(page.text.contains(text), "{}", page.text);
        assert!(page.text.contains("autofocus"), "the key can be corrected at once");
        assert_eq!(page.header("set-cookie"), "");
    }
    let form = format!("key={}&next=audit", server.admin_key());
    let signed_in = visitor.send(&Method::POST, "/console/sign-in", form).await?;
    assert_eq!((signed_in.status, signed_in.header("location")), (303, "audit"));
    let cookie = signed_in.header("set-cookie");
    assert!(cookie.starts_with("notify=") && cookie.ends_with("; HttpOnly; SameSite=Strict"));
    assert!(!cookie.contains("Path"), "{cookie}");
    let page = operator(&server).await?.get("").await;
    assert_eq!(page.status, 200);
    assert!(page.text.contains("<h1>Overview</h1>"), "{}", page.text);
    Ok(())
}

#[tokio::test]
async fn the_eleventh_wrong_key_in_a_minute_is_429() -> Result<()> {
    let server = TestServer::without_providers().await;
    let visitor = visitor(&server);
    for attempt in 1..=11 {
        let page = visitor.send(&Method::POST, "/console/sign-in", "key=na_wrong").await?;
        assert_eq!(page.status, if attempt <= 10 { 401 } else { 429 }, "{attempt}");
    }
    operator(&server).await?;
    Ok(())
}

#[tokio::test]
async fn a_session_ends_by_signing_out_idling_and_revoking_its_key() -> Result<()> {
    let server = TestServer::without_providers().await;
    let admin = server.admin();
    let created = admin.post("/admin/v1/keys", &json!({"name": "Ada"})).await.ok();
    let key = created["admin_key"].as_str().unwrap();
    let signed_out = operator(&server).await?;
    signed_out.submit("sign-out", &[]).await?.is(303);
    assert_eq!(signed_out.get("").await.status, 303);
    let revoked = Operator::sign_in(server.origin(), key).await?;
    assert_eq!(revoked.get("").await.status, 200);
    admin.delete(&format!("/admin/v1/keys/{}", created["id"].as_str().unwrap())).await.ok();
    assert_eq!(revoked.get("").await.status, 303);
    let (busy, idle) = (operator(&server).await?, operator(&server).await?);
    let hours = |hours: u64| server.clock().advance(Duration::from_secs(hours * 3_600));
    hours(1);
    assert_eq!(busy.get("").await.status, 200);
    hours(1);
    server.clock().advance(Duration::from_millis(1));
    assert_eq!(busy.get("").await.status, 200);
    assert_eq!(idle.get("").await.status, 303, "two hours without use");
    for _ in 0..10 {
        hours(1);
        busy.get("").await;
    }
    assert_eq!(busy.get("").await.status, 303, "twelve hours at most");
    Ok(())
}

#[tokio::test]
async fn a_page_that_refreshes_itself_does_not_keep_its_session_alive() -> Result<()> {
    let server = TestServer::without_providers().await;
    let operator = operator(&server).await?;
    let script = Caller::with_header(server.origin(), "cookie", operator.cookie.as_str());
    for _ in 0..3 {
        server.clock().advance(Duration::from_secs(3_600));
        let headers = [("sec-fetch-dest", "empty")];
        script.send_with(&Method::GET, "/console/", "", &headers).await?;
    }
    assert_eq!(operator.get("").await.status, 303);
    Ok(())
}

#[tokio::test]
async fn forms_of_other_sites_and_sessions_are_403() -> Result<()> {
    let server = TestServer::without_providers().await;
    let operator = operator(&server).await?;
    let other = Operator::sign_in(server.origin(), server.admin_key()).await?;
    let name = ("name", "forged".to_owned());
    for token in [String::new(), "x".to_owned(), other.token().await?] {
        let refused = operator.submit_as_is("new-app", &[("token", token), name.clone()]).await?;
        assert_eq!(refused.status, 403, "{refused:?}");
    }
    let body = format!("token={}&name=forged", operator.token().await?);
    let caller = Caller::with_header(server.origin(), "cookie", operator.cookie.as_str());
    for header in [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("origin", "https://evil.example"),
        ("origin", "null"),
    ] {
        let sent =
            caller.send_with(&Method::POST, "/console/new-app", body.clone(), &[header]).await?;
        assert_eq!(sent.status, 403, "{header:?}");
    }
    let apps = server.admin().get("/admin/v1/apps").await;
    assert!(!apps.text.contains("forged"), "{}", apps.text);
    // The API ignores the cookie.
    caller.get("/admin/v1/apps").await.is(401);
    Ok(())
}

#[tokio::test]
async fn a_link_of_another_site_opens_the_page_when_signed_in() -> Result<()> {
    let server = TestServer::without_providers().await;
    let visitor = visitor(&server);
    let headers = [("sec-fetch-site", "cross-site")];
    let page = visitor.send_with(&Method::GET, "/console/audit", "", &headers).await?;
    assert_eq!(page.status, 200);
    assert!(page.text.contains("http-equiv=\"refresh\""), "{}", page.text);
    Ok(())
}

#[tokio::test]
async fn pages_allow_no_foreign_script_frame_or_cache() -> Result<()> {
    let server = TestServer::without_providers().await;
    let page = operator(&server).await?.get("").await;
    let policy = page.header("content-security-policy");
    for rule in [
        "default-src 'none'",
        "script-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    ] {
        assert!(policy.split("; ").any(|given| given == rule), "{rule}: {policy}");
    }
    assert_eq!(page.header("cache-control"), "no-store");
    assert_eq!(page.header("referrer-policy"), "same-origin");
    assert_eq!(page.header("cross-origin-opener-policy"), "same-origin");
    let files: Vec<&str> = page
        .text
        .split(['"', '\''])
        .filter(|text| text.contains("?v=") && !text.contains('#'))
        .collect();
    assert_eq!(files.len(), 3, "{files:?}");
    let mut bytes = page.text.len();
    for file in files {
        let path = format!("/console/{}", file.trim_start_matches("./"));
        let file = visitor(&server).get(&path).await;
        assert_eq!(file.status, 200, "{path}");
        assert!(file.header("cache-control").contains("immutable"));
        bytes += file.text.len();
    }
    assert!(bytes < 80_000, "{bytes} bytes for a first load");
    Ok(())
}

/// The text between two others.
fn between<'t>(text: &'t str, start: &str, end: &str) -> &'t str {
    let rest = text.split_once(start).map_or("", |(_, rest)| rest);
    rest.split_once(end).map_or("", |(found, _)| found)
}

/// The form of a new API key for everything, as a browser sends it.
fn key_form(name: &str) -> Vec<(&str, &str)> {
    let scopes = ["read", "send", "devices", "content", "webhooks"].map(|scope| ("scopes", scope));
    [("name", name)].into_iter().chain(scopes).collect()
}

#[tokio::test]
async fn the_dashboard_makes_a_key_with_the_ticked_scopes() -> Result<()> {
    let server = TestServer::without_providers().await;
    let (operator, app) = (operator(&server).await?, first_app(&server).await);
    let dashboard = format!("apps/{app}");
    let form = [("name", "shop"), ("scopes", "read"), ("scopes", "send")];
    let page = operator.submit(&dashboard, &form).await?;
    assert_eq!(page.status, 200);
    assert!(page.text.contains("nk_") && !page.text.contains("Register a device with it"));
    // Without a box, the form comes back, and no key is made.
    let page = operator.submit(&dashboard, &[("name", "none")]).await?;
    assert!(page.text.contains("must hold at least 1 element") && page.text.contains("\"none\""));
    let mut form = key_form("backend");
    form.push(("lifetime", "90"));
    operator.submit(&dashboard, &form).await?.is(200);
    let keys = server.admin().get(&format!("/admin/v1/apps/{app}/keys")).await.ok();
    let keys: Vec<_> = keys["keys"].as_array().unwrap().iter().skip(1).collect();
    assert_eq!(keys.len(), 2);
    assert_eq!((&keys[0]["name"], &keys[0]["scopes"]), (&json!("shop"), &json!(["read", "send"])));
    let lifetime = |key: &Value| {
        Some(key["expires_at"].as_i64()? - key["created_at"].as_i64().unwrap_or_default())
    };
    assert_eq!((lifetime(keys[0]), lifetime(keys[1])), (None, Some(90 * 86_400_000)));
    let page = operator.get(&dashboard).await.text;
    assert!(page.contains("read, send</td>") && page.contains("everything</td>"));
    Ok(())
}

#[tokio::test]
async fn the_dashboard_makes_a_publishable_key_with_its_limits() -> Result<()> {
    let server = TestServer::without_providers().await;
    let (operator, app) = (operator(&server).await?, first_app(&server).await);
    let dashboard = format!("apps/{app}");
    let mut form = key_form("app");
    let wrong = [("kind", "publishable"), ("allowed_tags", "news\r\n\r\n sport ")];
    form.extend(wrong.into_iter().chain([("allowed_attributes", "Plan")]));
    let page = operator.submit(&dashboard, &form).await?;
    assert!(page.text.contains("must be a lower-case letter") && page.text.contains(">Plan<"));
    *form.last_mut().unwrap() = ("allowed_attributes", "plan");
    let page = operator.submit(&dashboard, &form).await?;
    assert!(between(&page.text, "<code id=\"secret\">", "<").starts_with("np_"));
    let keys = server.admin().get(&format!("/admin/v1/apps/{app}/keys")).await.ok();
    let key = &keys["keys"][1];
    assert_eq!(
        json!([key["kind"], key["scopes"], key["allowed_tags"], key["allowed_attributes"]]),
        json!(["publishable", [], ["news", "sport"], ["plan"]])
    );
    assert_eq!(keys["keys"][2], Value::Null, "the refused form made no key");
    Ok(())
}

#[tokio::test]
async fn rotating_a_key_on_the_dashboard_shows_its_successor() -> Result<()> {
    let server = TestServer::without_providers().await;
    let (operator, app) = (operator(&server).await?, first_app(&server).await);
    let path = format!("/admin/v1/apps/{app}/keys");
    let old = server.admin().post(&path, &json!({"name": "till", "scopes": ["read"]})).await.ok();
    let id = old["id"].as_str().unwrap();
    let rotate = format!("apps/{app}/keys/{id}/rotate");
    let page = operator.submit(&rotate, &[("overlap", "0")]).await?;
    assert_eq!(page.status, 200);
    let key = between(&page.text, "<code id=\"secret\">", "<");
    assert!(page.text.contains("The API key “till”") && page.text.contains("expired</span>"));
    Caller::app(server.origin(), key).get("/v1/devices").await.ok();
    let old = Caller::app(server.origin(), old["api_key"].as_str().unwrap());
    old.get("/v1/devices").await.is(401);
    operator.submit(&format!("apps/{app}/keys/{app}/rotate"), &[]).await?.is(404);
    Ok(())
}

#[tokio::test]
async fn the_dashboard_makes_a_key_that_works_and_shows_it_once() -> Result<()> {
    let server = TestServer::without_providers().await;
    let (operator, app) = (operator(&server).await?, first_app(&server).await);
    let page = operator.submit(&format!("apps/{app}"), &key_form("backend")).await?;
    assert_eq!(page.status, 200);
    let start = page.text.find("nk_").unwrap();
    let key: String = page.text[start..]
        .chars()
        .take_while(|char| char.is_ascii_alphanumeric() || *char == '_')
        .collect();
    let caller = Caller::app(server.origin(), &key);
    caller.get("/v1/devices").await.ok();
    let again = operator.get(&format!("apps/{app}")).await;
    assert!(!again.text.contains(&key) && again.text.contains("backend"));
    Ok(())
}

#[tokio::test]
async fn revoking_a_key_ends_it_at_once() -> Result<()> {
    let server = TestServer::without_providers().await;
    let (operator, app) = (operator(&server).await?, first_app(&server).await);
    let created = server.admin().post(&format!("/admin/v1/apps/{app}/keys"), &json!({})).await.ok();
    let caller = Caller::app(server.origin(), created["api_key"].as_str().unwrap());
    caller.get("/v1/devices").await.ok();
    let keys = server.admin().get(&format!("/admin/v1/apps/{app}/keys")).await.ok();
    let id = keys["keys"][1]["id"].as_str().unwrap();
    let revoked = operator.submit(&format!("apps/{app}/keys/{id}/revoke"), &[]).await?;
    assert_eq!(revoked.status, 303);
    caller.get("/v1/devices").await.is(401);
    Ok(())
}

#[tokio::test]
async fn each_change_in_the_console_is_in_the_audit_trail_without_secrets() -> Result<()> {
    let server = TestServer::without_providers().await;
    let operator = operator(&server).await?;
    let app = first_app(&server).await;
    server.caller().post("/v1/devices", &android("phone")).await.ok();
    operator.submit("new-app", &[("name", "Shop"), ("language", "de")]).await?.is(303);
    operator.submit(&format!("apps/{app}"), &key_form("backend")).await?.is(200);
    operator.submit(&format!("apps/{app}/settings"), &[("name", "New")]).await?.is(303);
    let device = format!("apps/{app}/devices/phone");
    operator.submit(&format!("{device}/tag"), &[("name", "vip")]).await?.is(303);
    operator.submit(&format!("{device}/untag"), &[("name", "vip")]).await?.is(303);
    operator.submit(&format!("{device}/delete"), &[]).await?.is(303);
    operator.submit("keys", &[("name", "Ada")]).await?.is(200);
    let trail = server.admin().get("/admin/v1/audit").await;
    assert!(!trail.text.contains("nk_") && !trail.text.contains("backend"), "{}", trail.text);
    let entries = trail.ok()["entries"].clone();
    let shown: Vec<(&str, &str, &Value)> = entries
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            let text = |name: &str| entry[name].as_str().unwrap_or_default();
            (text("action"), text("source"), &entry["object"])
        })
        .collect();
    // The start of the SHA-256 of `phone`: erasing the device leaves no trace of its id.
    let phone = json!("sha256:45569da57f4b7bf4");
    let expected = [
        ("create_admin_key", None),
        ("delete_device", Some(&phone)),
        ("remove_device_tag", Some(&phone)),
        ("set_device_tags", Some(&phone)),
        ("update_app", None),
        ("create_api_key", None),
        ("create_app", None),
        ("sign_in", None),
    ];
    assert_eq!(shown.len(), expected.len(), "{shown:?}");
    for ((action, source, object), (expected, device)) in shown.into_iter().zip(expected) {
        assert_eq!((action, source), (expected, "console"));
        assert!(device.is_none_or(|device| device == object), "{action}: {object}");
    }
    let page = operator.get("audit").await;
    assert!(page.text.contains("remove_device_tag"), "{}", page.text);
    assert!(page.text.contains("device (45569da57f4b7bf4)"), "{}", page.text);
    Ok(())
}

#[tokio::test]
async fn markup_in_names_and_texts_is_shown_as_text() -> Result<()> {
    let server = TestServer::start().await;
    let operator = operator(&server).await?;
    let app = first_app(&server).await;
    operator.submit(&format!("apps/{app}/settings"), &[("name", MARKUP)]).await?.is(303);
    operator.submit("keys", &[("name", MARKUP)]).await?.is(200);
    let caller = server.caller();
    let mut device = android(MARKUP);
    device["device_description"] = json!(MARKUP);
    caller.post("/v1/devices", &device).await.ok();
    let path = "/v1/devices/%3Cscript%3Ealert(1)%3C%2Fscript%3E%22'&";
    let tags = json!({"tags": [{"name": MARKUP, "type": "bool", "value": true}]});
    caller.post(&format!("{path}/tags"), &tags).await.ok();
    let content = content_with_markup(&caller).await;
    let to_users = users_and_segments_with_markup(&caller).await;
    let web = json!({"allowed_origins": ["https://a.example"], "allowed_tags": [MARKUP]});
    server.admin().put(&format!("/admin/v1/apps/{app}/web"), &web).await.ok();
    let sent = json!({"text": MARKUP, "platforms": ["android"]});
    let id = caller.post("/v1/notifications", &sent).await.id();
    let device = "%3Cscript%3Ealert%281%29%3C%2Fscript%3E%22%27%26";
    let base = format!("apps/{app}");
    for path in [
        "".to_owned(),
        "keys".to_owned(),
        "audit".to_owned(),
        base.clone(),
        format!("{base}/settings"),
        format!("{base}/notifications"),
        format!("{base}/notifications/{id}"),
        format!("{base}/notifications/{id}/deliveries"),
        format!("{base}/notifications/{id}/explain?device={device}"),
        format!("{base}/devices"),
        format!("{base}/devices/{device}"),
        format!("{base}/tags"),
        format!("{base}/send?from={id}"),
        format!("{base}/send?device={device}&text={device}"),
        "doctor".to_owned(),
        format!("doctor?app={app}"),
        "server".to_owned(),
        format!("find?id={device}-none"),
        format!("{base}/providers"),
        format!("{base}/providers/fcm"),
        format!("{base}/web"),
        format!("{base}/devices?tag={device}&state=enabled"),
        format!("{base}/notifications?status=sending"),
        format!("{base}/users"),
        format!("{base}/users/{device}"),
        format!("{base}/users/{device}?attribute=note"),
        format!("{base}/devices/{device}?attribute=note"),
        format!("{base}/segments"),
        format!("{base}/segments/edit?name={device}"),
        format!("{base}/devices?segment={device}"),
        format!("{base}/devices?segment=%3Cscript%3Ealert"),
        format!("{base}/devices?user={device}"),
        format!("{base}/notifications/{to_users}"),
        format!("{base}/notifications/{to_users}/users"),
        format!("{base}/send?from={to_users}"),
        format!("{base}/send?user={device}&segment={device}&text=Hi"),
        format!("{base}/send?segment=%3Cscript%3Ealert"),
    ]
    .into_iter()
    .chain(content.iter().map(|path| format!("{base}/{path}")))
    {
        let page = operator.get(&path).await;
        let status = if path.starts_with("find") { 404 } else { 200 };
        assert_eq!(page.status, status, "{path}: {}", page.text);
        assert!(!page.text.contains("<script>alert"), "{path}: {}", page.text);
        assert!(page.text.contains("&#60;script&#62;"), "{path} shows the text");
    }
    Ok(())
}

#[tokio::test]
async fn markup_in_refused_forms_is_shown_as_text() -> Result<()> {
    let server = TestServer::start().await;
    let operator = operator(&server).await?;
    let base = format!("apps/{}", first_app(&server).await);
    server.caller().post("/v1/devices", &android(MARKUP)).await.ok();
    users_and_segments_with_markup(&server.caller()).await;
    let name = "%3Cscript%3Ealert%281%29%3C%2Fscript%3E%22%27%26";
    let not_an_id = format!("\u{1}{MARKUP}");
    for (path, fields) in [
        ("segments/edit", &[("audience", MARKUP), ("name", MARKUP), ("do", "save")][..]),
        ("segments/edit", &[("audience", MARKUP), ("new", "1"), ("do", "preview")]),
        ("send", &[("audience", MARKUP), ("segment", MARKUP), ("users", MARKUP)]),
        ("users", &[("user_id", &not_an_id)]),
        (&format!("users/{name}/attributes"), &[("name", MARKUP), ("value", MARKUP)]),
        (
            &format!("devices/{name}/attributes"),
            &[("name", "n"), ("kind", "number"), ("value", MARKUP)],
        ),
        (&format!("devices/{name}/log-in"), &[("user_id", &not_an_id)]),
    ] {
        let page = operator.submit(&format!("{base}/{path}"), fields).await?;
        assert_eq!(page.status, 200, "{path}: {}", page.text);
        assert!(!page.text.contains("<script>alert"), "{path}: {}", page.text);
        assert!(page.text.contains("&#60;script&#62;"), "{path} shows the text");
    }
    Ok(())
}

/// Creates a user and a segment with markup in their texts, logs the device in as the user, and sends to
/// both. The id of the device is markup too. Returns the id of the notification.
async fn users_and_segments_with_markup(caller: &Caller) -> String {
    let name = "%3Cscript%3Ealert(1)%3C%2Fscript%3E%22'&";
    let note = json!({"note": MARKUP});
    caller.patch(&format!("/v1/users/{name}"), &json!({"attributes": note})).await.ok();
    let device = format!("/v1/devices/{name}");
    caller.put(&format!("{device}/user"), &json!({"user_id": MARKUP})).await.ok();
    caller.patch(&format!("{device}/attributes"), &note).await.ok();
    let condition = json!({"attribute": "note", "is": MARKUP});
    caller.put(&format!("/v1/segments/{name}"), &json!({"audience": condition})).await.ok();
    let to_users = json!({"text": MARKUP, "user_ids": [MARKUP, "nobody"],
        "audience": {"all": [{"segment": MARKUP}, condition]}});
    caller.post("/v1/notifications", &to_users).await.id()
}

/// Creates a campaign, a feed, a poll and a webhook with markup in each text. Returns the paths of their pages
/// below the application.
async fn content_with_markup(caller: &Caller) -> Vec<String> {
    let article = json!({"url": "https://a.example/", "title": MARKUP,
        "thumb_url": "https://a.example/", "is_external": false});
    let feed = json!({"url": "https://a.example/feed", "name": MARKUP});
    let campaign = json!({"name": MARKUP, "layout_id": "content_with_two", "settings": {},
        "strings": [{"name": "recommendations_title", "translations": {"def": MARKUP}}],
        "features": [
            {"type": "custom_feed", "position": 1,
                "data": {"recommendations_title": true, "articles": [article, article]}},
            {"type": "content_feed", "position": 1, "data": {"feeds": [feed]}},
            {"type": "action_button", "position": 1,
                "data": {"type": "custom", "title": MARKUP, "icon": "a.png"}}]});
    let poll = json!({"platforms": ["android"], "poll": {"text": MARKUP, "layout_id": "poll_text",
        "answers": [{"text": MARKUP}, {"text": MARKUP}]}});
    let webhook = json!({"url": "https://a.example/hook", "description": MARKUP});
    let mut paths: Vec<String> =
        ["campaigns", "campaigns/apply", "feeds", "polls", "webhooks", "events"]
            .map(str::to_owned)
            .into();
    for (folder, path, body) in [
        ("campaigns", "/v1/campaigns", campaign),
        ("feeds", "/v1/feeds", feed),
        ("polls", "/v1/notifications", poll),
        ("webhooks", "/v1/webhooks", webhook),
    ] {
        paths.push(format!("{folder}/{}", caller.post(path, &body).await.id()));
    }
    paths
}

#[tokio::test]
async fn another_applications_ids_are_404_inside_the_first() -> Result<()> {
    let server = TestServer::without_providers().await;
    let operator = operator(&server).await?;
    server.caller().post("/v1/devices", &android("phone")).await.ok();
    let report = json!({"id": "own-1", "text": "t", "platforms": ["android"]});
    let id = server.caller().post("/v1/notifications/notify", &report).await.id();
    let other = server.admin().post("/admin/v1/apps", &json!({"name": "Other"})).await.id();
    let own = first_app(&server).await;
    server.caller().patch("/v1/users/ada", &json!({})).await.ok();
    let condition = json!({"audience": {"tag": "vip"}});
    server.caller().put("/v1/segments/fans", &condition).await.ok();
    for path in [
        "devices/phone".to_owned(),
        format!("notifications/{id}"),
        "users/ada".to_owned(),
        "segments/edit?name=fans".to_owned(),
    ] {
        assert_eq!(operator.get(&format!("apps/{own}/{path}")).await.status, 200, "{path}");
        assert_eq!(operator.get(&format!("apps/{other}/{path}")).await.status, 404, "{path}");
    }
    assert_eq!(operator.get("apps/x").await.status, 404);
    Ok(())
}

/// The addresses of the links on a page, relative to `/console/`.
fn links(page: &str, at: &str) -> BTreeSet<String> {
    let at = url::Url::parse(&format!("http://host/console/{at}")).unwrap();
    html::links(page, &at)
        .into_iter()
        .map(|url| {
            let query = url.query().map_or_else(String::new, |query| format!("?{query}"));
            format!("{}{query}", url.path().strip_prefix("/console/").unwrap())
        })
        .collect()
}

#[tokio::test]
async fn each_link_leads_somewhere() -> Result<()> {
    let server = TestServer::start().await;
    let operator = operator(&server).await?;
    server.caller().post("/v1/devices", &android("phone")).await.ok();
    let sent = json!({"text": "Hello", "platforms": ["android"]});
    server.caller().post("/v1/notifications", &sent).await.id();
    content_with_markup(&server.caller()).await;
    server.caller().post("/v1/devices", &android(MARKUP)).await.ok();
    users_and_segments_with_markup(&server.caller()).await;
    operator.submit("playground/start", &[]).await?.is(303);
    let mut seen = BTreeSet::new();
    let mut open = vec![String::new()];
    while let Some(path) = open.pop() {
        if !seen.insert(path.clone()) {
            continue;
        }
        let page = operator.get(&path).await;
        assert_eq!(page.status, 200, "{path}");
        open.extend(links(&page.text, &path));
    }
    assert!(seen.len() > 12, "{seen:?}");
    Ok(())
}

#[tokio::test]
async fn errors_of_a_form_are_at_their_fields_and_the_input_stays() -> Result<()> {
    let server = TestServer::without_providers().await;
    let operator = operator(&server).await?;
    let long = "x".repeat(300);
    let page = operator.submit("new-app", &[("name", &long), ("language", "en")]).await?;
    assert_eq!(page.status, 200);
    assert!(
        page.text.contains("<p class=\"error\" id=\"name-problem\">must be at most 255 characters")
    );
    assert!(page.text.contains(&long), "the input is shown again");
    Ok(())
}

#[tokio::test]
async fn the_console_can_be_switched_off() -> Result<()> {
    let server = TestServer::without_providers_with(|config| config.console = Switch::Off).await;
    for path in ["/console", "/console/", "/console/sign-in", "/console/console.css"] {
        is_unknown_path(&server, path).await?;
    }
    Ok(())
}

/// Checks that a path of the console is as unknown as any path of an address without a console. The checks of
/// `Caller` expect pages at these paths.
async fn is_unknown_path(server: &TestServer, path: &str) -> Result<()> {
    let response = reqwest::get(format!("{}{path}", server.origin())).await?;
    assert_eq!(response.status(), 404, "{path}");
    assert_eq!(response.text().await?, r#"{"errors":["not found"]}"#, "{path}");
    Ok(())
}

#[tokio::test]
async fn settings_decide_what_happens_to_messages_after_a_crash() -> Result<()> {
    let server = TestServer::without_providers().await;
    let operator = operator(&server).await?;
    let app = first_app(&server).await;
    let (settings, path) = (format!("apps/{app}/settings"), format!("/admin/v1/apps/{app}"));
    let skips = r#"<option value="skip" selected>"#;
    assert!(!operator.get(&settings).await.text.contains(skips));
    for (chosen, stored) in [("skip", json!("skip")), ("repeat", Value::Null)] {
        operator.submit(&settings, &[("on_crash", chosen)]).await?.is(303);
        assert_eq!(server.admin().get(&path).await.ok()["on_crash"], stored);
        assert_eq!(operator.get(&settings).await.text.contains(skips), chosen == "skip");
    }
    Ok(())
}

#[tokio::test]
async fn timeouts_of_sessions_are_settings() -> Result<()> {
    let server = TestServer::without_providers_with(|config| {
        config.console_idle_timeout = Span::from_millis(1);
    })
    .await;
    // The clock of this server stands still, so the session is used at the time of its creation.
    assert_eq!(operator(&server).await?.get("").await.status, 200);
    Ok(())
}
