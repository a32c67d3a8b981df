//! Authentication of webhook calls: every invalid call gets the same response.

use notify_tests::{Response, TestServer, logged};
use reqwest::Method;
use serde_json::{Value, json};

use super::{
    APP_SECRET, VERIFY_TOKEN, WEBHOOK_SECRET, call, configure, devices, event, first_app,
    from_meta, from_telegram, hooked, message, messenger_config, signature,
};

const HUB: &str = "X-Hub-Signature-256";
const TOKEN: &str = "X-Telegram-Bot-Api-Secret-Token";
const UNKNOWN_ID: &str = "0190a7c0-0000-7000-8000-00000000ffff";

/// A response as an unauthenticated caller sees it, without what is different every time.
fn seen(answer: &Response) -> (u16, String, Vec<(String, String)>) {
    let headers = answer.headers.iter();
    let headers = headers
        .filter(|(name, _)| !["x-request-id", "date"].contains(&name.as_str()))
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
    (answer.status, answer.text.clone(), headers.collect())
}

fn assert_refused(answer: &Response, what: &str) {
    assert_eq!((answer.status, answer.header("www-authenticate")), (401, "Signature"), "{what}");
    assert_eq!(answer.json(), json!({"errors": ["missing or invalid signature"]}), "{what}");
}

/// An application with its webhooks configured like that, suspended perhaps.
async fn another(server: &TestServer, providers: &[(&str, Value)], suspended: bool) -> String {
    let (app, _) = server.create_app("other").await;
    for (provider, config) in providers {
        configure(&server.admin(), &app, provider, config).await;
    }
    if suspended {
        let path = format!("/admin/v1/apps/{app}");
        server.admin().patch(&path, &json!({"status": "suspended"})).await.ok();
    }
    app
}

#[tokio::test]
async fn the_challenge_is_returned_for_the_verify_token() {
    let (server, app) = hooked().await;
    let token = VERIFY_TOKEN.replace('&', "%26").replace('=', "%3D");
    let path = format!(
        "/hooks/messenger/{app}?hub.mode=subscribe&hub.challenge=%3Cb%3E1158201444&hub.verify_token={token}"
    );
    let answer = server.anonymous().get(&path).await;
    assert_eq!((answer.status, &*answer.text), (200, "<b>1158201444"));
    assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8");
}

#[tokio::test]
async fn challenges_without_the_verify_token_are_refused_alike() {
    let (server, app) = hooked().await;
    let good = "hub.mode=subscribe&hub.challenge=1&hub.verify_token=planted%26verify%3Dtoken";
    let bare = json!({"page_access_token": "EAAG"});
    let without_token = another(&server, &[("messenger", bare)], false).await;
    let suspended = another(&server, &[("messenger", messenger_config())], true).await;
    let without_provider = another(&server, &[], false).await;
    let mut answers = Vec::new();
    for (app, query) in [
        (&*app, "hub.mode=subscribe&hub.challenge=1&hub.verify_token=wrong"),
        (&*app, "hub.mode=subscribe&hub.challenge=1&hub.verify_token="),
        (&*app, "hub.mode=subscribe&hub.challenge=1"),
        (&*app, "hub.challenge=1&hub.verify_token=planted%26verify%3Dtoken"),
        (&*app, "hub.mode=unsubscribe&hub.challenge=1&hub.verify_token=planted%26verify%3Dtoken"),
        (&*app, "hub.mode=subscribe&hub.verify_token=planted%26verify%3Dtoken"),
        (&*app, "hub.mode=subscribe&hub.challenge=%FF&hub.verify_token=planted%26verify%3Dtoken"),
        (&*app, ""),
        (&*without_token, good),
        (&*without_token, "hub.mode=subscribe&hub.challenge=1&hub.verify_token="),
        (&*suspended, good),
        (&*without_provider, good),
        (UNKNOWN_ID, good),
        ("x", good),
        ("%00", good),
    ] {
        let answer = server.anonymous().get(&format!("/hooks/messenger/{app}?{query}")).await;
        assert_refused(&answer, &format!("{app} {query}"));
        answers.push(seen(&answer));
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:#?}");
}

#[tokio::test]
async fn calls_without_a_valid_signature_are_refused_alike() {
    let (server, app) = hooked().await;
    let bare = [
        ("messenger", json!({"page_access_token": "EAAG"})),
        ("telegram", json!({"bot_token": "1:x"})),
    ];
    let without_secrets = another(&server, &bare, false).await;
    let others = [
        ("messenger", json!({"page_access_token": "EAAG", "app_secret": "another"})),
        ("telegram", json!({"bot_token": "1:x", "webhook_secret": "another"})),
    ];
    let other = another(&server, &others, false).await;
    let good = [("messenger", messenger_config()), ("telegram", super::telegram_config())];
    let suspended = another(&server, &good, true).await;
    let without_provider = another(&server, &[], false).await;

    let meta = call(&[event("7", &json!({"message": {}}))]);
    let telegram = message(42, "/start", 1);
    let signed = signature(APP_SECRET, meta.as_bytes());
    let mut rows = vec![
        ("messenger", &*app, vec![]),
        ("messenger", &*app, vec![(HUB, signature("another", meta.as_bytes()))]),
        ("messenger", &*app, vec![(HUB, signature(APP_SECRET, telegram.as_bytes()))]),
        ("messenger", &*app, vec![(HUB, "sha256=".to_owned())]),
        ("messenger", &*app, vec![(HUB, signed.replace("sha256=", "sha1="))]),
        ("messenger", &*app, vec![(TOKEN, WEBHOOK_SECRET.to_owned())]),
        ("messenger", &*without_secrets, vec![(HUB, signature("", meta.as_bytes()))]),
        ("telegram", &*app, vec![]),
        ("telegram", &*app, vec![(TOKEN, "another".to_owned())]),
        ("telegram", &*app, vec![(TOKEN, format!("{WEBHOOK_SECRET}-"))]),
        ("telegram", &*app, vec![(TOKEN, String::new())]),
        ("telegram", &*app, vec![(HUB, signature(WEBHOOK_SECRET, telegram.as_bytes()))]),
        ("telegram", &*without_secrets, vec![(TOKEN, String::new())]),
    ];
    for app in [&*without_secrets, &*other, &*suspended, &*without_provider, UNKNOWN_ID, "x", "%00"]
    {
        rows.push(("messenger", app, vec![(HUB, signed.clone())]));
        rows.push(("telegram", app, vec![(TOKEN, WEBHOOK_SECRET.to_owned())]));
    }
    let mut answers = Vec::new();
    for (platform, app, headers) in rows {
        let body = if platform == "messenger" { &meta } else { &telegram };
        for body in [body.clone(), "{".to_owned()] {
            let path = format!("/hooks/{platform}/{app}");
            let request = server.anonymous().request(Method::POST, &path).body(body.clone());
            let request =
                headers.iter().fold(request, |request, (name, value)| request.header(*name, value));
            let answer = Response::of(request).await;
            assert_refused(&answer, &format!("{path} {headers:?} {body}"));
            answers.push(seen(&answer));
        }
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:#?}");
    assert_eq!(devices(&server).await, Vec::<Value>::new(), "nothing was stored");
    from_meta(&server, &app, meta).await.ok();
    from_telegram(&server, &app, telegram).await.ok();
    assert_eq!(devices(&server).await.len(), 2, "signed right they are taken");
}

#[tokio::test]
async fn a_changed_secret_takes_effect_at_once() {
    let (server, app) = hooked().await;
    let body = call(&[event("7", &json!({"message": {}}))]);
    from_meta(&server, &app, body.clone()).await.ok();
    let config = json!({"page_access_token": "EAAG", "app_secret": "new"});
    configure(&server.admin(), &app, "messenger", &config).await;
    from_meta(&server, &app, body.clone()).await.is(401);
    let path = format!("/admin/v1/apps/{app}/providers/telegram");
    from_telegram(&server, &app, message(42, "hi", 1)).await.ok();
    server.admin().delete(&path).await.ok();
    from_telegram(&server, &app, message(42, "hi", 1)).await.is(401);
}

#[tokio::test]
async fn unsigned_callers_are_rate_limited_and_the_platform_is_not() {
    let server =
        TestServer::without_providers_with(|config| config.auth_failures_per_minute = 3).await;
    let app = first_app(&server.admin()).await;
    configure(&server.admin(), &app, "messenger", &messenger_config()).await;
    let path = format!("/hooks/messenger/{app}");
    let mut statuses = Vec::new();
    for _ in 0..5 {
        statuses.push(server.anonymous().post_bytes(&path, "{}").await.status);
    }
    assert_eq!(statuses, [401, 401, 401, 429, 429]);
    server.anonymous().get(&path).await.is(429);
    from_meta(&server, &app, call(&[])).await.ok();
}

#[tokio::test]
async fn other_methods_are_405() {
    let (server, app) = hooked().await;
    for (method, path, allow) in [
        (Method::PUT, format!("/hooks/messenger/{app}"), "GET, HEAD, POST"),
        (Method::GET, format!("/hooks/telegram/{app}"), "POST"),
    ] {
        let answer = Response::of(server.anonymous().request(method, &path)).await;
        answer.rejected(405, &["method not allowed"]);
        assert_eq!(answer.header("allow"), allow);
    }
    server.anonymous().get(&format!("/hooks/toaster/{app}")).await.rejected(404, &["not found"]);
}

#[tokio::test]
async fn secrets_and_message_texts_are_not_logged() {
    let (server, app) = hooked().await;
    let planted = "planted-message-41cc";
    from_telegram(&server, &app, message(421_142_421, planted, 1)).await.ok();
    from_meta(
        &server,
        &app,
        call(&[event("741247741247741", &json!({"message": {"text": planted}}))]),
    )
    .await
    .ok();
    from_telegram(&server, &app, format!("{{\"{planted}")).await.ok();
    server.anonymous().post_bytes(&format!("/hooks/messenger/{app}"), planted).await.is(401);
    let (log, metrics) = (logged(), server.anonymous().get("/metrics").await.text);
    for secret in
        [planted, "421142421", "741247741247741", APP_SECRET, VERIFY_TOKEN, WEBHOOK_SECRET]
    {
        assert!(!log.contains(secret), "the log holds {secret}");
        assert!(!metrics.contains(secret), "the metrics hold {secret}");
    }
}
