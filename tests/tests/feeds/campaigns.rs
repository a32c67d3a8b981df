//! From a feed to the content on a device.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use http::Method;
use notify_client::notify_core::CheckFeed;
use notify_tests::{DatabaseInspector, Launch, TestServer, until};
use serde_json::{Value, json};

use crate::host::{Host, Then, rss};
use crate::{create, fetched};

/// The error for an address that the guard refuses.
const BLOCKED: &str = "the address is not allowed: private addresses, and other ports than 80 and 443, \
    need --allow-private-networks";

/// A campaign of the default kind that shows a feed.
fn campaign(url: &str) -> Value {
    json!({"name": "c", "layout_id": "content_with_two", "settings": {}, "is_default": true,
        "features": [{"type": "content_feed", "position": 1,
            "data": {"feeds": [{"url": url, "name": "News"}]}}]})
}

#[tokio::test]
async fn a_campaign_keeps_its_feed_items_through_an_outage_and_a_restart() -> Result<()> {
    let host =
        Host::start(|_| ("200 OK\r\netag: \"1\"".into(), rss(&[1, 3, 2]).into(), Then::Ends));
    let host = host.await?;
    let mut server = TestServer::start().await;
    let caller = server.caller();
    caller.post("/v1/campaigns", &campaign(&host.url("/feed"))).await.ok();
    let shown = until("items are shown", async || {
        let answer = caller.send(&Method::GET, "/v1/enrichments/default", "").await?;
        let items = answer.ok()["features"][0]["data"]["items"].clone();
        Ok(items.as_array().is_some_and(|items| !items.is_empty()).then_some((answer, items)))
    });
    let (answer, items) = shown.await?;
    let item = |number: u32| {
        json!({"title": format!("Item {number}"), "url": host.url(&format!("/{number}")),
            "image_url": host.url(&format!("/{number}.png")), "source": "News",
            "published_at": 1_780_387_200_000_i64 + i64::from(number) * 60_000,
            "is_external": false})
    };
    assert_eq!(items, json!([item(3), item(2)]));
    let etag = [("if-none-match", answer.header("etag"))];
    let same = caller.send_with(&Method::GET, "/v1/enrichments/default", "", &etag).await?;
    assert_eq!((same.status, same.text.len()), (304, 0));
    let feeds = caller.get("/v1/feeds").await.ok();
    assert_eq!(
        (&feeds["feeds"][0]["status"], &feeds["feeds"][0]["items"]),
        (&json!("ok"), &json!(3))
    );
    let metrics = server.admin().send(&Method::GET, "/metrics", "").await?.text;
    assert!(metrics.contains("notify_feed_fetches_total{result=\"read\"} 1"), "{metrics}");
    // The server fetched the feed once without a request. No further fetch was due.
    assert_eq!(host.requests().len(), 1);
    drop(host);
    server.restart().await;
    let after = server.caller().send(&Method::GET, "/v1/enrichments/default", "").await?;
    assert_eq!(after.text, answer.text);
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn checking_a_feed_does_not_store_it() -> Result<()> {
    let host = Host::start(|path| {
        let body = if path == "/feed" { rss(&[1]) } else { "<html>secret</html>".to_owned() };
        ("200 OK".into(), body.into(), Then::Ends)
    });
    let host = host.await?;
    let server = TestServer::start().await;
    let feeds = server.client();
    let feeds = feeds.feeds();
    let checked = feeds.check(&CheckFeed { url: host.url("/feed") }).await?;
    assert_eq!((checked.status.as_str(), checked.count, checked.problems), ("ok", 1, vec![]));
    assert_eq!(checked.items[0].url, host.url("/1"));
    let page = feeds.check(&CheckFeed { url: host.url("/page") }).await?;
    let problems = vec!["is not an RSS, Atom or JSON feed".to_owned()];
    assert_eq!((page.status.as_str(), page.count, page.problems), ("failing", 0, problems));
    assert_eq!(server.caller().get("/v1/feeds").await.ok()["feeds"], json!([]));
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn private_addresses_are_not_fetched_unless_allowed() -> Result<()> {
    let canary = Host::start(|_| ("200 OK".into(), rss(&[1]).into(), Then::Ends)).await?;
    let server = TestServer::start_with(|config| config.allow_private_networks = false).await;
    let caller = server.caller();
    for url in [canary.url("/"), format!("http://localhost:{}/", canary.address.port())] {
        let feed = create(&caller, &url).await?;
        let feed = fetched(&caller, &feed).await?;
        let state = (&feed["status"], &feed["last_error"]);
        assert_eq!(state, (&json!("failing"), &json!(BLOCKED)), "{url}");
        let checked = caller.post("/v1/feeds/check", &json!({"url": url})).await.ok();
        assert_eq!(checked["problems"], json!([BLOCKED]));
    }
    assert_eq!(canary.requests(), [""; 0]);
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_fetch_interrupted_by_a_kill_is_repeated() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let is_slow = Arc::new(AtomicBool::new(true));
    let slow = Arc::clone(&is_slow);
    let host = Host::start(move |_| match slow.load(Ordering::SeqCst) {
        true => ("200 OK".into(), Vec::new(), Then::Drips),
        false => ("200 OK".into(), rss(&[1]).into(), Then::Ends),
    });
    let host = host.await?;
    let launch = Launch::on(folder.path()).argument("--allow-private-networks");
    let server = launch.start().await?;
    let key = server.api_key.clone().context("a key")?;
    create(&server.caller(), &host.url("/")).await?;
    until("it is being fetched", async || Ok((!host.requests().is_empty()).then_some(()))).await?;
    server.kill().await?;
    is_slow.store(false, Ordering::SeqCst);
    // The claim of the dead process expires by the clock. The test sets its time in the row instead of
    // waiting.
    let kept = DatabaseInspector::of(folder.path())?;
    let claimed = "where claims = 1 and status = 'pending'";
    assert_eq!(kept.number(&format!("select count(*) from feeds {claimed}"))?, 1);
    kept.change(&format!("update feeds set next_fetch_at = 0 {claimed}"))?;
    drop(kept);
    let server = launch.start().await?;
    let caller = notify_tests::Caller::app(&server.origin, &key);
    let listed = caller.get("/v1/feeds").await.ok();
    let feed = fetched(&caller, listed["feeds"][0]["id"].as_str().context("an id")?).await?;
    assert_eq!((&feed["status"], &feed["items"]), (&json!("ok"), &json!(1)));
    server.kill().await
}
