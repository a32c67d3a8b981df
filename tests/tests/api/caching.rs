//! `Cache-Control`: no cache may store a response, except files that are the same for all users.
//! Keys are sent in `X-Api-Key`, which shared caches do not treat as a credential (RFC 9111,
//! section 3.5).

use notify_tests::{Caller, TestServer};
use reqwest::Method;
use serde_json::{Value, json};

use crate::fixtures::template;

const NO_STORE: &str = "no-store";

/// The first value of a response header. The body is not read, because a stream has no end.
async fn cache_control(caller: &Caller, method: &str, path: &str) -> (u16, Vec<String>) {
    let request = caller.request(method.parse().unwrap(), path).body("{}");
    let answer = request.send().await.unwrap();
    let values = answer.headers().get_all("cache-control");
    let values = values.iter().map(|value| value.to_str().unwrap().to_owned()).collect();
    (answer.status().as_u16(), values)
}

#[tokio::test]
async fn responses_of_every_route_are_no_store_whatever_their_status() {
    let server = TestServer::without_providers().await;
    let document: Value = server.anonymous().get("/openapi.json").await.ok();
    let mut statuses = std::collections::BTreeSet::new();
    // Making a client takes longer than a request.
    let callers = [server.caller(), server.admin(), server.anonymous()];
    for (template, item) in document["paths"].as_object().unwrap() {
        if template.starts_with("/sdk/") {
            continue;
        }
        let path = template.replace(['{', '}'], "");
        let listed = item.as_object().unwrap().keys().map(|method| method.to_uppercase());
        let methods: Vec<String> = listed.chain(["BREW".to_owned(), "HEAD".to_owned()]).collect();
        for method in methods {
            for caller in &callers {
                let (status, values) = cache_control(caller, &method, &path).await;
                let is_stream = template == "/v1/events/stream" && status == 200;
                let expected = if is_stream { "no-store, no-transform" } else { NO_STORE };
                assert_eq!(values, [expected], "{method} {template}: {status}");
                statuses.insert(status);
            }
        }
    }
    for status in [200, 400, 401, 404, 405] {
        assert!(statuses.contains(&status), "{status} in {statuses:?}");
    }
    let (status, values) = cache_control(&server.caller(), "GET", "/nowhere").await;
    assert_eq!((status, values), (404, vec![NO_STORE.to_owned()]));
    // The routes never get a request that the HTTP parser refuses.
    let endless = format!("GET /{} HTTP/1.1\r\nhost: a\r\n\r\n", "a".repeat(70_000));
    for request in [&*endless, "NO HTTP\r\n\r\n"] {
        let answer = server.anonymous().exchange(request.as_bytes()).await;
        assert!(answer.contains("\r\ncache-control: no-store\r\n"), "{answer}");
    }
}

#[tokio::test]
async fn secrets_are_no_store_and_public_files_have_a_max_age() {
    let server = TestServer::without_providers().await;
    let (caller, admin) = (server.caller(), server.admin());
    let apps = admin.get("/admin/v1/apps").await.ok();
    let app = apps["apps"][0]["id"].as_str().unwrap();
    let key = admin.post(&format!("/admin/v1/apps/{app}/keys"), &json!({})).await;
    assert_eq!((key.status, key.header("cache-control")), (200, NO_STORE));
    for (path, expected) in [
        ("/sdk/notify.js", "public, max-age=3600"),
        ("/sdk/notify-sw.js", "no-cache"),
        ("/docs/swagger-ui.css", "public, max-age=86400"),
        ("/docs/none.css", NO_STORE),
    ] {
        let answer = server.anonymous().get(path).await;
        assert_eq!(answer.header("cache-control"), expected, "{path}");
    }
    // The device may store a response with an `ETag`, and must revalidate it before each use.
    let id = caller.post("/v1/campaigns", &template("spring")).await.id();
    let path = format!("/v1/enrichments/{id}");
    let answer = caller.get(&path).await;
    assert_eq!((answer.status, answer.header("cache-control")), (200, "private, no-cache"));
    let etag = answer.header("etag");
    let again = caller.request(Method::GET, &path).header("if-none-match", etag).send().await;
    let again = again.unwrap();
    assert_eq!(again.status(), 304);
    assert_eq!(again.headers()["cache-control"], "private, no-cache");
}
