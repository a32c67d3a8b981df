//! Feeds in the whole product: they are fetched, shown on devices and kept during outages, and hostile feeds
//! have a limited cost (S1 to S5 of `docs/reliability.md`).

mod campaigns;
mod host;
mod host_fairness;
mod hostile;

use anyhow::Result;
use notify_tests::{Caller, until};
use serde_json::{Value, json};

/// Creates a feed.
async fn create(caller: &Caller, url: &str) -> Result<String> {
    let made = caller.post("/v1/feeds", &json!({"url": url, "name": "News"})).await.ok();
    Ok(made["id"].as_str().unwrap_or_default().to_owned())
}

/// Waits until the feed has been fetched and returns it.
async fn fetched(caller: &Caller, id: &str) -> Result<Value> {
    until(&format!("feed {id} is fetched"), async || {
        let listed = caller.get("/v1/feeds?limit=1000").await.ok();
        let feeds = listed["feeds"].as_array().cloned().unwrap_or_default();
        let feed = feeds.into_iter().find(|feed| feed["id"] == *id);
        Ok(feed.filter(|feed| feed["status"] != "pending"))
    })
    .await
}
