//! Pages behind a proxy that serves them below a prefix and removes the prefix. `tests/console` has the pages
//! of the console.

use notify_tests::{Caller, PrefixProxy, Response, TestServer};
use reqwest::Method;
use serde_json::json;

const PREFIX: &str = "/tools/notify";

/// The addresses in the attributes of a page.
fn links(page: &str) -> Vec<&str> {
    ["href=\"", "src=\"", "action=\""]
        .iter()
        .flat_map(|attribute| page.split(attribute).skip(1))
        .map(|rest| rest.split('"').next().unwrap())
        .collect()
}

/// The path to which a browser resolves a link on a page.
fn resolved(page: &str, link: &str) -> String {
    let base = url::Url::parse("http://proxy.example").unwrap().join(page).unwrap();
    base.join(link).unwrap().path().to_owned()
}

#[tokio::test]
async fn the_links_of_every_page_stay_below_the_prefix() {
    let server = TestServer::start().await;
    let proxy = PrefixProxy::start(server.address(), PREFIX).await.unwrap();
    let visitor = Caller::with_header(&proxy.origin, "accept", "text/html");
    for path in ["/", "/docs/"] {
        let page = format!("{PREFIX}{path}");
        let answer = Response::of(visitor.request(Method::GET, &page)).await;
        assert_eq!(resolved(&page, answer.header("location")), format!("{PREFIX}/docs"));
    }
    let body = json!({"platforms": ["ios"], "poll": {"text": "?", "layout_id": "poll_text",
        "answers": [{"text": "a"}, {"text": "b"}]}});
    let id = server.caller().post("/v1/notifications", &body).await.id();
    let poll = server.caller().get(&format!("/v1/polls/{id}")).await.ok();
    let poll = url::Url::parse(poll["url"].as_str().unwrap()).unwrap();
    for (page, method) in [("/docs", Method::GET), (poll.path(), Method::POST)] {
        let page = format!("{PREFIX}{page}");
        let html = visitor.get(&page).await.text;
        let links = links(&html);
        assert!(!links.is_empty(), "{html}");
        for link in links {
            let path = resolved(&page, link);
            assert!(path.starts_with(PREFIX), "{link} on {page}");
            let answer = visitor.send(&method, &path, "").await.unwrap();
            assert_ne!(answer.status, 404, "{link} on {page}");
        }
    }
    let start = visitor.get(&format!("{PREFIX}/docs/start.js")).await.text;
    assert!(start.contains("url: 'openapi.json'"), "{start}");
    visitor.get(&format!("{PREFIX}/openapi.json")).await.is(200);
}

#[tokio::test]
async fn the_page_of_the_sandbox_can_be_below_a_prefix() {
    let server = TestServer::start().await;
    let proxy = PrefixProxy::start(server.sandbox().addr(), PREFIX).await.unwrap();
    let http = notify_tests::http_client().build().unwrap();
    let page = format!("{PREFIX}/");
    let load = async |path: &str| {
        let answer = http.get(format!("{}{path}", proxy.origin)).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        answer.text().await.unwrap()
    };
    let html = load(&page).await;
    let found = links(&html);
    assert_eq!(found, ["./", "sandbox/page.js"], "{html}");
    for link in found {
        load(&resolved(&page, link)).await;
    }
    let script = load(&resolved(&page, "sandbox/page.js")).await;
    assert!(script.contains("fetch(\"./\")"), "{script}");
}
