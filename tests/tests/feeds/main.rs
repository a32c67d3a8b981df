//! Feeds in the whole product: fetched, shown on devices, kept during outages, and the cost of
//! hostile ones (S1 to S5 of `docs/reliability.md`).

mod campaigns;
mod host;
mod host_fairness;
mod hostile;

use anyhow::Result;
use notify_tests::{Caller, until};
use serde_json::{Value, json};

/// Makes a feed.
async fn create(caller: &Caller, url: &str) -> Result<String> {
    let made = caller.post("/v1/feeds", &json!({"url": url, "name": "News"})).await.ok();
    Ok(made["id"].as_str().unwrap_or_default().to_owned())
}

/// The feed, once it was fetched.
async fn fetched(caller: &Caller, id: &str) -> Result<Value> {
    until(&format!("feed {id} is fetched"), async || {
        let listed = caller.get("/v1/feeds?limit=1000").await.ok();
        let feeds = listed["feeds"].as_array().cloned().unwrap_or_default();
        let feed = feeds.into_iter().find(|feed| feed["id"] == *id);
        Ok(feed.filter(|feed| feed["status"] != "pending"))
    })
    .await
}
