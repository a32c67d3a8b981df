//! The accepts of one application while another one looks at many devices, compared with its accepts alone.

use std::sync::Arc;

use anyhow::Context;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::benches::accept::post;
use crate::caller::Caller;
use crate::http_load::{MakeRequest, load_timed};
use crate::paths::Paths;
use crate::proc::{OtherLoad, flush_p50};
use crate::scale::Scale;
use crate::seed::{DAY_MS, DAYS, Seed, notification, now};
use crate::servers::Server;
use crate::table::{Goal, Line, Section, grouped, median, median_ratio};

/// The tests of an expensive audience. Each is inside of a `not`, which counts as a condition too.
const CONDITIONS: usize = 30;

/// A kind of request that looks at many devices, and how many of them run at the same time.
struct Busy {
    what: &'static str,
    method: &'static str,
    path: &'static str,
    body: Option<Value>,
    parallel: usize,
}

/// The requests beside which accepts are timed.
async fn all_busy(caller: &Caller) -> anyhow::Result<[Busy; 2]> {
    let conditions: Vec<Value> = (0..CONDITIONS)
        .map(|number| json!({"not": {"field": "app_version", "is": format!("0.{number}")}}))
        .collect();
    let audience = json!({"all": conditions});
    let preview = json!({"platforms": ["android", "ios"], "audience": audience});
    caller.v1("PUT", "/v1/segments/busy", Some(&json!({"audience": audience}))).await?;
    Ok([
        Busy {
            what: "beside 4 previews of a segment",
            method: "POST",
            path: "/v1/segments/preview",
            body: Some(preview),
            parallel: 4,
        },
        Busy {
            what: "beside 8 lists of devices in a segment",
            method: "GET",
            path: "/v1/devices?segment=busy&limit=1000",
            body: None,
            parallel: 8,
        },
    ])
}

/// Runs the benchmark and returns its section of the report.
pub(crate) async fn run(scale: &Scale, paths: &Paths) -> anyhow::Result<Section> {
    let seed = Seed::with(paths, scale.devices_many).await?;
    let data = seed.copy(paths)?;
    let (server, _) = Server::start(paths, data.path())?;
    let caller = Arc::new(Caller { address: server.address, keys: seed.keys.clone() });
    let all_busy = all_busy(&caller).await?;
    let accepts = accepts(&caller.second_app_key().await?);
    let p99 = async || -> anyhow::Result<f64> {
        let target = (server.address, server.id());
        let (_, mut times) = load_timed(target, 1, scale.phase, &accepts).await?;
        times.sort_unstable();
        let slow = times.get(times.len() * 99 / 100).context("a time")?;
        Ok(slow.as_secs_f64() * 1e3)
    };

    let mut section = Section::default();
    let mut alone = Vec::new();
    let mut beside = vec![Vec::new(); all_busy.len()];
    for _ in 0..scale.rounds {
        let other_load = OtherLoad::watch()?;
        section.flushes.push(flush_p50(paths.disk())?);
        alone.push(p99().await?);
        for (busy, beside) in all_busy.iter().zip(&mut beside) {
            // They end when the set is dropped.
            let mut asking = JoinSet::new();
            for _ in 0..busy.parallel {
                asking.spawn(ask_forever(
                    Arc::clone(&caller),
                    busy.method,
                    busy.path,
                    busy.body.clone(),
                ));
            }
            beside.push(p99().await?);
        }
        section.other_load.push(other_load.share()?);
    }
    for (busy, beside) in all_busy.iter().zip(&beside) {
        section.lines.push(Line {
            row: "availability",
            what: format!(
                "p99 of an accept in ms, {}, {} devices",
                busy.what,
                grouped(scale.devices_many as f64)
            ),
            figure: format!("{:.1}", median(beside)),
            baseline: format!("alone: {:.1}", median(&alone)),
            ratio: median_ratio(beside, &alone),
            goal: Goal::AtMost(10.0),
        });
    }
    server.stop()?;
    Ok(section)
}

/// Repeats a request. The server may refuse it.
async fn ask_forever(
    caller: Arc<Caller>,
    method: &'static str,
    path: &'static str,
    body: Option<Value>,
) {
    loop {
        let _ = caller.v1(method, path, body.as_ref()).await;
    }
}

/// Makes notifications that are only stored, for an application without devices.
fn accepts(key: &str) -> MakeRequest {
    let body = notification(&["android", "ios"], Some(now().plus_ms(DAYS * DAY_MS))).to_string();
    post("/v1/notifications", key, move |_| body.clone().into_bytes())
}
