//! Campaigns, feeds and enrichment over HTTP.

use notify_tests::{Caller, NOW, Response, TestServer};
use reqwest::Method;
use serde_json::{Value, json};

use crate::fixtures::{template, to_android};

#[tokio::test]
async fn a_template_reads_back_with_its_defaults() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    let id = caller.post("/v1/campaigns", &template("spring")).await.id();
    let read = caller.get(&format!("/v1/campaigns/{id}")).await.ok();
    assert_eq!(
        read,
        json!({
            "id": id, "name": "spring", "status": "active", "is_default": false,
            "created_at": NOW.0,
            "template": {
                "name": "spring", "layout_id": "content_with_two", "strings": [],
                "is_default": false,
                "settings": {"big_share_button": true, "small_view": true,
                    "build_without_image": true, "small_share_button": true,
                    "drag_to_expand": false},
                "features": [{"type": "action_button", "position": 1,
                    "data": {"type": "url", "url": "https://a.example"}}],
            },
        })
    );
    caller.put(&format!("/v1/campaigns/{id}"), &template("summer")).await.ok();
    assert_eq!(caller.get(&format!("/v1/campaigns/{id}")).await.ok()["name"], "summer");
    caller.put("/v1/campaigns/unknown", &template("x")).await.is(404);
}

async fn names(caller: &Caller, query: &str) -> Vec<String> {
    let listed = caller.get(&format!("/v1/campaigns{query}")).await.ok();
    let rows = listed["campaigns"].as_array().unwrap().iter();
    rows.map(|row| row["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn the_listing_filters_by_name_and_status_and_pages_by_offset() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    let mut last = String::new();
    for name in ["Älpha", "beta 50%", "gamma"] {
        server.clock().advance(std::time::Duration::from_millis(1));
        last = caller.post("/v1/campaigns", &template(name)).await.id();
    }
    let path = format!("/v1/campaigns/{last}/status");
    caller.put(&path, &json!({"status": "disabled"})).await.ok();
    caller.put(&path, &json!({"status": "asleep"})).await.is(400);
    assert_eq!(names(&caller, "").await, ["beta 50%", "Älpha"]);
    assert_eq!(names(&caller, "?status=all").await, ["gamma", "beta 50%", "Älpha"]);
    assert_eq!(names(&caller, "?status=disabled").await, ["gamma"]);
    assert_eq!(names(&caller, "?name=%C3%A4L").await, ["Älpha"]);
    assert_eq!(names(&caller, "?name=0%25").await, ["beta 50%"]);
    assert_eq!(names(&caller, "?offset=1&limit=1").await, ["Älpha"]);
    caller.get("/v1/campaigns?offset=-1").await.is(400);
    caller.get("/v1/campaigns?status=some").await.is(400);
}

#[tokio::test]
async fn a_campaign_in_use_and_the_default_one_cannot_be_deleted() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    let used = caller.post("/v1/campaigns", &template("used")).await.id();
    let mut body = to_android();
    body["campaign_id"] = json!(used);
    caller.post("/v1/notifications", &body).await.id();
    caller.delete(&format!("/v1/campaigns/{used}")).await.is(400);
    let mut default = template("default");
    default["is_default"] = json!(true);
    let default = caller.post("/v1/campaigns", &default).await.id();
    caller.delete(&format!("/v1/campaigns/{default}")).await.is(400);
    let path = format!("/v1/campaigns/{default}/status");
    caller.put(&path, &json!({"status": "disabled"})).await.is(400);
    let free = caller.post("/v1/campaigns", &template("free")).await.id();
    caller.delete(&format!("/v1/campaigns/{free}")).await.ok();
    caller.delete(&format!("/v1/campaigns/{free}")).await.is(404);
}

#[tokio::test]
async fn enrichment_is_returned_with_an_etag() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    caller.get("/v1/enrichments/default").await.is(404);
    let mut body = template("c");
    body["is_default"] = json!(true);
    body["strings"] = json!([{"name": "share_prefix", "translations": {"def": "Look:"}}]);
    body["features"] = json!([
        {"type": "action_button", "position": 2, "data": {"type": "fb"}},
        {"type": "content_feed", "position": 1,
            "data": {"feeds": [{"url": "https://a.example/feed", "name": "f"}]}},
    ]);
    let id = caller.post("/v1/campaigns", &body).await.id();
    let answer = caller.get("/v1/enrichments/default").await;
    let enrichment: Value = answer.ok();
    assert_eq!(
        (&enrichment["campaign_id"], &enrichment["strings"]),
        (&json!(id), &json!({"share_prefix": "Look:"}))
    );
    assert_eq!(
        enrichment["features"],
        json!([
            {"type": "content_feed", "position": 1, "data": {"items": [],
                "view_ext_on_browser": false, "recommendations_title": false}},
            {"type": "action_button", "position": 2, "data": {"type": "fb"}},
        ])
    );
    let path = format!("/v1/enrichments/{id}");
    let etag = answer.header("etag").to_owned();
    let request = caller.request(Method::GET, &path).header("if-none-match", &etag);
    let same = Response::of(request).await;
    assert_eq!((same.status, &*same.text, same.header("etag")), (304, "", &*etag));
    let notification = caller.post("/v1/notifications", &to_android()).await.id();
    caller.get(&format!("{path}?notification_id={notification}")).await.ok();
    caller.get(&format!("{path}?notification_id=unknown")).await.is(404);
    caller.get(&format!("{path}?device_id=unknown")).await.is(404);
}

#[tokio::test]
async fn feeds_are_unique_by_url_and_kept_while_in_use() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    let body = json!({"url": "https://a.example/feed", "name": "news"});
    let id = caller.post("/v1/feeds", &body).await.id();
    assert_eq!(caller.post("/v1/feeds", &body).await.id(), id);
    let mut listed = caller.get("/v1/feeds").await.ok();
    // The server fetches the feed in the background, from a name that does not resolve.
    for field in ["status", "last_fetched_at", "last_error"] {
        assert!(listed["feeds"][0].as_object_mut().unwrap().remove(field).is_some(), "{field}");
    }
    assert_eq!(
        listed,
        json!({"next_cursor": null, "feeds": [{"id": id, "name": "news",
            "url": "https://a.example/feed", "items": 0, "created_at": NOW.0}]})
    );
    let mut campaign = template("c");
    campaign["features"] = json!([{"type": "content_feed", "position": 1,
        "data": {"feeds": [{"id": id}]}}]);
    let campaign = caller.post("/v1/campaigns", &campaign).await.id();
    caller.delete(&format!("/v1/feeds/{id}")).await.is(400);
    caller.delete(&format!("/v1/campaigns/{campaign}")).await.ok();
    caller.delete(&format!("/v1/feeds/{id}")).await.ok();
    caller.delete(&format!("/v1/feeds/{id}")).await.is(404);
    caller.post("/v1/feeds", &json!({"url": "ftp://a.example", "name": "x"})).await.is(400);
}

#[tokio::test]
async fn every_unknown_feed_is_listed_with_the_other_violations() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    let id = caller.post("/v1/campaigns", &template("spring")).await.id();
    let path = format!("/v1/campaigns/{id}");
    caller.put(&format!("{path}/status"), &json!({"status": "disabled"})).await.ok();
    let unknown = |last: u8| json!({"id": format!("01890000-0000-7000-8000-00000000000{last}")});
    let mut fed = template("fed");
    fed["is_default"] = json!(true);
    fed["features"] = json!([{"type": "content_feed", "position": 1, "data": {"feeds":
        [unknown(1), {"url": "https://feed.example/", "name": "new"}, unknown(2)]}}]);
    let feeds = [
        "features[0].data.feeds[0].id: no feed has this id",
        "features[0].data.feeds[2].id: no feed has this id",
    ];
    caller.post("/v1/campaigns", &fed).await.rejected(400, &feeds);
    let default = "is_default: a disabled campaign cannot be the default";
    caller.put(&path, &fed).await.rejected(400, &[default, feeds[0], feeds[1]]);
    assert_eq!(caller.get("/v1/feeds").await.ok()["feeds"], json!([]), "nothing is stored");
}
