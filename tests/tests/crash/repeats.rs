//! T2: the same request is sent many times concurrently, again after a crash, and with another body. Each key
//! creates one notification, every copy gets the same response, and nothing is sent twice.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use futures_util::{StreamExt, TryStreamExt, stream};
use http::Method;
use notify_tests::{Caller, LoggedRequest, LoggedResponse, Response, RestartableServer};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::load::{Load, settle};
use crate::{CREDIT, FEW, launch, setting};

/// The number of concurrent copies of a request.
const COPIES: usize = 50;
/// The default number of keys; `NOTIFY_CRASH_KEYS` changes it.
const KEYS: usize = 40;
/// The number of concurrent requests.
const PARALLEL: usize = 64;
/// The routes that create and that report a notification.
const SEND: &str = "/v1/notifications";
const REPORT: &str = "/v1/notifications/notify";

fn body(text: &str) -> Value {
    json!({"text": text, "platforms": ["android", "ios", "web", "fb-messenger"]})
}

async fn ask(caller: &Caller, key: &str, text: &str) -> Result<Response> {
    let key = [("idempotency-key", key)];
    caller.send_with(&Method::POST, SEND, body(text).to_string(), &key).await
}

/// Sends the request of each key several times, all concurrently. Returns the responses with their keys.
async fn ask_all(
    caller: &Caller,
    keys: &[String],
    answered: &watch::Sender<usize>,
) -> Result<Vec<(String, Result<Response>)>> {
    let all = (0..COPIES).flat_map(|_| keys.iter().cloned());
    let asked = stream::iter(all).map(|key| async move {
        let reply = ask(caller, &key, &key).await;
        answered.send_modify(|count| *count += 1);
        anyhow::Ok((key, reply))
    });
    asked.buffer_unordered(PARALLEL).try_collect().await
}

fn named(prefix: &str) -> Vec<String> {
    let keys = setting("NOTIFY_CRASH_KEYS").unwrap_or(KEYS);
    (0..keys).map(|number| format!("{prefix}-{number}")).collect()
}

fn note(load: &Load, keys: &[String]) -> Result<()> {
    for key in keys {
        let audience = "tenant-0".to_owned();
        load.request_log.log_request(&LoggedRequest { key: key.clone(), audience })?;
    }
    Ok(())
}

fn id(reply: &Response) -> Result<String> {
    Ok(reply.json()["id"].as_str().context("an id")?.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_copies_of_a_request_make_one_notification_sent_once() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let data_dir = folder.path().join("data");
    let mut server = RestartableServer::start(launch(&data_dir)).await?;
    let request_log = folder.path().join("request_log");
    let load = Load::prepare_with(&server, 1, &request_log, FEW).await?;
    let api_key = load.tenants[0].api_key.clone();
    let caller = |server: &RestartableServer| Caller::app(&server.origin.borrow(), &api_key);

    // Without a fault, every copy gets the response of the copy that created the notification.
    let calm = named("calm");
    note(&load, &calm)?;
    let mut done = 0;
    for (key, reply) in ask_all(&caller(&server), &calm, &watch::Sender::new(0)).await? {
        let reply = reply?;
        ensure!(reply.status == 200, "{key}: {} {}", reply.status, reply.text);
        done += usize::from(reply.header("idempotency-replayed") != "true");
        load.request_log.log_response(&key, LoggedResponse::Accepted(id(&reply)?))?;
    }
    assert_eq!(done, calm.len(), "each was done by one of its copies");
    load.drain(&server).await?;
    let verdict = load.judge(&server).await?;
    verdict.ensure_sound()?;
    assert_eq!(verdict.repeated(), 0);

    // The process is killed while the copies arrive.
    let cut = named("cut");
    note(&load, &cut)?;
    let asking = caller(&server);
    let answered = watch::Sender::new(0);
    let (replies, ()) = tokio::try_join!(ask_all(&asking, &cut, &answered), async {
        // Some requests are done, some of them with copies in progress, and some are not done.
        answered.subscribe().wait_for(|count| *count >= cut.len() / 2).await?;
        server.kill(CREDIT).await
    })?;
    let mut unanswered = 0;
    for (key, reply) in replies {
        match reply {
            Ok(reply) if reply.status == 200 => {
                load.request_log.log_response(&key, LoggedResponse::Accepted(id(&reply)?))?;
            }
            Ok(reply) => anyhow::bail!("{key}: {} {}", reply.status, reply.text),
            Err(_) => unanswered += 1,
        }
    }
    ensure!(unanswered > 0, "the kill hit copies that were under way");
    server.start_again().await?;
    let caller = caller(&server);
    for key in calm.iter().chain(&cut) {
        let reply = ask(&caller, key, key).await?;
        ensure!(reply.status == 200, "{key}: {}", reply.text);
        load.request_log.log_response(key, LoggedResponse::Accepted(id(&reply)?))?;
        let other = ask(&caller, key, "another body").await?;
        ensure!(other.status == 409 && other.errors().is_some(), "{key}: {}", other.text);
    }
    load.drain(&server).await?;
    let verdict = load.judge(&server).await?;
    verdict.ensure_sound()?;
    println!(
        "T2: {} keys of {COPIES} copies, {unanswered} unanswered, {} pairs, {} repeats",
        calm.len() + cut.len(),
        verdict.pairs,
        verdict.repeated()
    );
    settle(server, &data_dir).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_reports_of_one_id_are_accepted_once() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut server = RestartableServer::start(launch(folder.path())).await?;
    let ids = named("own");
    let report = |id: &str, text: &str| json!({"id": id, "text": text, "platforms": ["ios"]});
    let caller = server.caller();
    let all = (0..COPIES).flat_map(|_| ids.iter());
    let replies: Vec<(&String, Response)> = stream::iter(all)
        .map(|id| {
            let body = report(id, "x").to_string();
            let caller = &caller;
            async move { anyhow::Ok((id, caller.send(&Method::POST, REPORT, body).await?)) }
        })
        .buffer_unordered(PARALLEL)
        .try_collect()
        .await?;
    let mut first = BTreeSet::new();
    for (id, reply) in replies {
        match reply.status {
            200 => assert!(first.insert(id.clone()), "{id} was taken twice"),
            status => assert_eq!(status, 400, "{id}: {}", reply.text),
        }
    }
    assert_eq!(first.len(), ids.len());
    server.kill(CREDIT).await?;
    server.start_again().await?;
    let caller = server.caller();
    for id in &ids {
        for text in ["x", "another text"] {
            let reply = caller.send(&Method::POST, REPORT, report(id, text).to_string()).await?;
            assert_eq!(reply.status, 400, "{id}: {}", reply.text);
        }
    }
    let listed = caller.get("/v1/notifications?limit=1000").await.ok();
    assert_eq!(listed["notifications"].as_array().map(Vec::len), Some(ids.len()));
    settle(server, folder.path()).await
}
