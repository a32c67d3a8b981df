//! Paths and methods: 404, 405 with `Allow`, `HEAD` and OpenAPI, all of which come from one table.

use notify_tests::{Caller, Response, TestServer};
use reqwest::Method;
use serde_json::{Value, json};

#[tokio::test]
async fn unknown_paths_are_404_in_the_shape_of_errors() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    for path in
        ["/v1/nowhere", "/v1/devices/", "/v1/devices//x", "/v1", "/nowhere", "//", "/v2/devices"]
    {
        caller.get(path).await.rejected(404, &["not found"]);
    }
}

#[tokio::test]
async fn other_methods_are_405_with_the_allowed_ones() {
    let server = TestServer::without_providers().await;
    for (method, path, allow) in [
        (Method::PUT, "/v1/devices", "GET, HEAD, POST"),
        (Method::OPTIONS, "/v1/devices", "GET, HEAD, POST"),
        (Method::GET, "/v1/notifications/notify", "POST"),
        (Method::POST, "/v1/campaigns/x", "DELETE, GET, HEAD, PUT"),
        (Method::DELETE, "/healthz", "GET, HEAD"),
        (Method::from_bytes(b"BREW").unwrap(), "/v1/devices", "GET, HEAD, POST"),
    ] {
        let answer = Response::of(server.caller().request(method, path)).await;
        answer.rejected(405, &["method not allowed"]);
        assert_eq!(answer.header("allow"), allow, "{path}");
    }
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let server = TestServer::without_providers().await;
    for path in ["/v1/devices", "/healthz", "/v1/tags?limit=3", "/openapi.json"] {
        let get = server.caller().get(path).await;
        let head = Response::of(server.caller().request(Method::HEAD, path)).await;
        assert_eq!((head.status, &*head.text), (200, ""));
        assert_eq!(head.header("content-type"), get.header("content-type"));
        assert_eq!(head.header("content-length"), get.text.len().to_string());
    }
    Response::of(server.anonymous().request(Method::HEAD, "/v1/devices")).await.is(401);
}

#[tokio::test]
async fn openapi_is_served_and_lists_exactly_the_routes_that_exist() {
    let server = TestServer::without_providers().await;
    let document = server.anonymous().get("/openapi.json").await.ok();
    assert_eq!(document["openapi"], "3.1.0");
    // Pages are let in by an application that there is, before anything else is looked at.
    let apps = server.admin().get("/admin/v1/apps").await.ok();
    let app = apps["apps"][0]["id"].as_str().unwrap();
    let origin = "https://shop.example";
    let access = json!({"allowed_origins": [origin]});
    server.admin().put(&format!("/admin/v1/apps/{app}/web"), &access).await.ok();
    let keys = format!("/admin/v1/apps/{app}/keys");
    let key = server.admin().post(&keys, &json!({"kind": "publishable"})).await.ok();
    let publishable = key["api_key"].as_str().unwrap().to_owned();
    let mut operations = 0;
    for (template, item) in document["paths"].as_object().unwrap() {
        let path = template
            .replace("/web/v1/{app_id}", &format!("/web/v1/{app}"))
            .split('/')
            .map(|part| if part.starts_with('{') { "x" } else { part })
            .collect::<Vec<_>>()
            .join("/");
        let listed: Vec<String> =
            item.as_object().unwrap().keys().map(|method| method.to_uppercase()).collect();
        let key = match path.split('/').nth(1) {
            Some("admin") => server.admin(),
            Some("web") => Caller::with_header(server.origin(), "origin", origin),
            Some("device") => Caller::app(server.origin(), &publishable),
            _ => server.caller(),
        };
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            let request = key.request(method.parse().unwrap(), &path).body("");
            // The head alone: a stream has no end.
            let exists = request.send().await.unwrap().status() != 405;
            assert_eq!(exists, listed.iter().any(|one| one == method), "{method} {template}");
            operations += usize::from(exists);
        }
    }
    assert!(operations > 40);
}

#[tokio::test]
async fn openapi_has_a_form_for_generators_and_a_strict_one() {
    let server = TestServer::without_providers().await;
    let anonymous = server.anonymous();
    let published = anonymous.get("/openapi.json").await.ok();
    assert_eq!(anonymous.get("/openapi.json?strict=false").await.ok(), published);
    let strict = anonymous.get("/openapi.json?strict=true").await.ok();
    let has_variants = |document: &Value| {
        let model = &document["components"]["schemas"]["Subscribe"];
        assert!(model["properties"].is_object(), "{model}");
        model.get("anyOf").is_some()
    };
    assert_eq!((has_variants(&published), has_variants(&strict)), (false, true));
    for (query, error) in [
        ("strict=yes", "strict: must be one of true, false"),
        ("strict=", "strict: must not be empty"),
        ("strictly=true", "strictly: unknown parameter, did you mean `strict`?"),
    ] {
        anonymous.get(&format!("/openapi.json?{query}")).await.rejected(400, &[error]);
    }
}

#[tokio::test]
async fn every_get_rejects_unknown_query_parameters() {
    let server = TestServer::without_providers().await;
    let document: Value = server.anonymous().get("/openapi.json").await.ok();
    for (template, item) in document["paths"].as_object().unwrap() {
        if item.get("get").is_none() || !template.starts_with("/v1") {
            continue;
        }
        let path = template.replace(['{', '}'], "");
        let answer = server.caller().get(&format!("{path}?surprise=1")).await;
        answer.rejected(400, &["surprise: unknown parameter"]);
    }
}

#[tokio::test]
async fn listings_check_limit_and_cursor() {
    let server = TestServer::without_providers().await;
    for path in ["/v1/devices", "/v1/tags", "/v1/feeds", "/v1/notifications"] {
        for (limit, status) in [("1", 200), ("1000", 200), ("0", 400), ("1001", 400), ("x", 400)] {
            server.caller().get(&format!("{path}?limit={limit}")).await.is(status);
        }
        let answer = server.caller().get(&format!("{path}?cursor=made-up")).await;
        answer.rejected(400, &["cursor: is not a cursor of this list"]);
    }
    let empty = server.caller().get("/v1/tags").await.ok();
    assert_eq!(empty, json!({"tags": [], "next_cursor": null}));
}
