//! A fan-out to browsers, compared with a bare loop that encrypts and sends, and with npm's web-push. Each
//! message is encrypted for its browser. The sandbox's browsers decrypt every message with independent code.
//! A message that its browser cannot decrypt is not counted as accepted.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, ensure};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::bare::web_push::{self, Parameters, Subscription};
use crate::benches::messages::{headers, received};
use crate::caller::Caller;
use crate::http_load::{Connection, call, write_request};
use crate::paths::Paths;
use crate::peers::Peers;
use crate::proc::{Costs, OtherLoad, flush_p50};
use crate::scale::Scale;
use crate::seed::notification;
use crate::servers::{Sandbox, Server};
use crate::table::{Goal, Line, Section, grouped};

/// The number of concurrent connections that subscribe browsers.
const SUBSCRIBE_CONNECTIONS: usize = 32;
/// The number of browsers whose messages a second implementation decrypts.
const SAMPLE: usize = 100;

/// A message of the server to a browser.
struct Sample {
    headers: Vec<(String, String)>,
    payload: String,
}

/// Runs the benchmark and returns its section of the report.
pub(crate) async fn run(scale: &Scale, paths: &Paths, peers: &Peers) -> anyhow::Result<Section> {
    let count = scale.browsers;
    let Sample { headers, payload } = capture_sample(paths).await?;
    let (server, caller, sandbox, _data) = start(paths, 0).await?;
    let all = subscribe(&caller, &sandbox, count).await?;
    let folder = paths.folder()?;
    let subscriptions = folder.path().join("subscriptions.json");
    std::fs::write(&subscriptions, serde_json::to_vec(&all)?)?;
    let config = sandbox.config("webpush").await?;
    let parameters =
        Parameters { address: sandbox.address, config, headers, payload, subscriptions, count };
    let peer_parameters = Parameters { count: scale.peer_browsers, ..parameters.clone() };

    let mut section = Section::default();
    let [mut ours, mut bare, mut npm] = [(); 3].map(|()| Costs::default());
    let mut missing = String::new();
    for _ in 0..scale.rounds {
        let other_load = OtherLoad::watch()?;
        section.flushes.push(flush_p50(paths.disk())?);
        ours.0.push(
            server.measure(count, caller.fan_out(&notification(&["web"], None), count)).await?,
        );
        ensure_accepted(&sandbox, count).await?;
        bare.0.push(web_push::run(&parameters)?);
        ensure_accepted(&sandbox, count).await?;
        match peers.start("web-push.mjs", &peer_parameters)? {
            Ok(mut peer) => {
                npm.0.push(peer.measure(peer_parameters.count)?);
                ensure_accepted(&sandbox, peer_parameters.count).await?;
            }
            Err(reason) => missing = reason,
        }
        section.other_load.push(other_load.share()?);
    }
    server.stop()?;
    let second = match decrypt_with_peer(paths, peers).await? {
        Ok(read) => format!("{read} more were read by http_ece of npm"),
        Err(reason) => format!("http_ece of npm read none: {reason}"),
    };
    let line = |baseline: String, ratio: f64, goal: f64| Line {
        row: "web push",
        what: format!("{} browsers, encrypted and sent", grouped(count as f64)),
        figure: ours.text(),
        baseline,
        ratio,
        goal: Goal::AtMost(goal),
    };
    let baseline = format!("bare aws-lc-rs and h2: {}", bare.text());
    section.lines.push(line(baseline, ours.cpu_ratio(&bare), 1.25));
    let baseline = npm.text_or("web-push of npm", &missing);
    section.lines.push(line(baseline, ours.cpu_ratio(&npm), 0.15));
    section.notes.push(format!(
        "web push: every message of all three was read by the sandbox's browsers, whose code is not \
         that which encrypts; {second}; npm's web-push sent {} a round",
        grouped(scale.peer_browsers as f64)
    ));
    Ok(section)
}

/// An empty server and a sandbox that is its push service.
async fn start(
    paths: &Paths,
    journal: usize,
) -> anyhow::Result<(Server, Caller, Sandbox, tempfile::TempDir)> {
    let data = paths.folder()?;
    let (server, keys) = Server::start(paths, data.path())?;
    let sandbox = Sandbox::start(journal)?;
    let keys = keys.context("a first start shows keys")?;
    let caller = Caller { address: server.address, keys };
    caller.configure_providers(&sandbox, &["webpush"]).await?;
    Ok((server, caller, sandbox, data))
}

/// Lets the server send one message and returns it.
async fn capture_sample(paths: &Paths) -> anyhow::Result<Sample> {
    let (server, caller, sandbox, _data) = start(paths, 1).await?;
    subscribe(&caller, &sandbox, 1).await?;
    caller.fan_out(&notification(&["web"], None), 1).await?;
    let received = received(&sandbox).await?;
    let message = received.first().context("the message")?;
    let sent = Sample { headers: headers(message)?, payload: message["payload"].to_string() };
    server.stop()?;
    Ok(sent)
}

/// Lets browsers of a second implementation decrypt their messages. Returns how many messages they
/// decrypted. The inner error is the reason why the implementation is not available.
async fn decrypt_with_peer(paths: &Paths, peers: &Peers) -> anyhow::Result<Result<usize, String>> {
    let mut browsers = match peers.start("browsers.mjs", &json!({ "count": SAMPLE }))? {
        Ok(browsers) => browsers,
        Err(reason) => return Ok(Err(reason)),
    };
    browsers.send_line("{}")?;
    let all: Vec<Value> = serde_json::from_str(&browsers.read_line()?)?;
    let (server, caller, sandbox, _data) = start(paths, SAMPLE).await?;
    let mut keys = HashMap::new();
    for browser_keys in all {
        let ask = json!({ "keys": browser_keys });
        let made = call(sandbox.address, "POST", "/sandbox/subscriptions", &[], Some(&ask)).await?;
        let body = json!({ "platform": "web", "subscription": made });
        let key = [("x-api-key", caller.keys.api_key.as_str())];
        call(caller.address, "POST", "/v1/subscriptions", &key, Some(&body)).await?;
        let endpoint = made["endpoint"].as_str().context("an endpoint")?;
        let id = endpoint.rsplit('/').next().unwrap_or_default().to_owned();
        keys.insert(id, browser_keys["p256dh"].clone());
    }
    caller.fan_out(&notification(&["web"], None), SAMPLE as u64).await?;
    let sent = received(&sandbox).await?.into_iter().map(|message| {
        let token = message["token"].as_str().unwrap_or_default();
        json!({ "p256dh": keys[token], "encrypted": message["payload"]["encrypted"] })
    });
    browsers.send_line(&Value::from_iter(sent).to_string())?;
    let read: Vec<Value> = serde_json::from_str(&browsers.read_line()?)?;
    server.stop()?;
    for text in &read {
        let message: Value = serde_json::from_str(text.as_str().context("a text")?)?;
        ensure!(message["data"]["notification_id"].is_string(), "{message}");
    }
    ensure!(read.len() == SAMPLE, "{} of {SAMPLE} were read", read.len());
    Ok(Ok(read.len()))
}

/// Subscribes `count` browsers at the sandbox and registers them with the server.
async fn subscribe(
    caller: &Caller,
    sandbox: &Sandbox,
    count: u64,
) -> anyhow::Result<Vec<Subscription>> {
    let next = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for _ in 0..SUBSCRIBE_CONNECTIONS {
        let next = Arc::clone(&next);
        let (server, sandbox) = (caller.address, sandbox.address);
        let key = caller.keys.api_key.clone();
        tasks.spawn(async move {
            let mut sandbox = Connection::open(sandbox).await?;
            let mut server = Connection::open(server).await?;
            let mut made = Vec::new();
            let mut ask = Vec::new();
            write_request(&mut ask, ("POST", "/sandbox/subscriptions"), &[], b"{}");
            while next.fetch_add(1, Ordering::Relaxed) < count {
                let (_, answer) = sandbox.exchange(&ask).await?;
                let subscription: Subscription = serde_json::from_slice(answer)?;
                let body = json!({ "platform": "web", "subscription": subscription }).to_string();
                let mut request = Vec::new();
                let headers = [("x-api-key", key.as_str())];
                let target = ("POST", "/v1/subscriptions");
                write_request(&mut request, target, &headers, body.as_bytes());
                let (status, answer) = server.exchange(&request).await?;
                ensure!(status == 200, "{status} {}", String::from_utf8_lossy(answer));
                made.push(subscription);
            }
            anyhow::Ok(made)
        });
    }
    let mut all = Vec::new();
    while let Some(made) = tasks.join_next().await {
        all.extend(made??);
    }
    Ok(all)
}

/// Checks that `count` different browsers have decrypted a message since the last call.
async fn ensure_accepted(sandbox: &Sandbox, count: u64) -> anyhow::Result<()> {
    let accepted = sandbox.take_accepted().await?;
    ensure!(accepted.tokens == count, "{} of {count} browsers read it", accepted.tokens);
    Ok(())
}
