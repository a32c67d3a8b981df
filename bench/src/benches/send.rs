//! A fan-out through the API to fake FCM and APNs over TLS, compared with a bare h2 client that sends the
//! same requests and with npm's APNs client. The sandbox checks every message and counts the different
//! tokens that it accepted.

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use crate::bare::h2_client::{self, Parameters};
use crate::benches::messages::{CHANNELS, PROVIDERS, SampleMessages};
use crate::caller::Caller;
use crate::paths::Paths;
use crate::peers::Peers;
use crate::proc::{Costs, OtherLoad, flush_p50};
use crate::scale::Scale;
use crate::seed::{Seed, notification, push_token};
use crate::servers::{Sandbox, Server};
use crate::table::{Goal, Line, Section, grouped};

/// Runs the benchmark and returns its section of the report.
pub(crate) async fn run(scale: &Scale, paths: &Paths, peers: &Peers) -> anyhow::Result<Section> {
    let seed = Seed::with(paths, scale.send_devices * 2).await?;
    let data = seed.copy(paths)?;
    let (server, _) = Server::start(paths, data.path())?;
    let caller = Caller { address: server.address, keys: seed.keys };
    let samples = SampleMessages::capture(&caller).await?;
    let sandbox = Sandbox::start(0)?;
    caller.configure_providers(&sandbox, &PROVIDERS).await?;

    let mut section = Section::default();
    let mut costs = CHANNELS.map(|_| [Costs::default(), Costs::default()]);
    let (mut connections, count) = (0, scale.send_devices);
    let (mut npm, mut missing) = (Costs::default(), String::new());
    for _ in 0..scale.rounds {
        let other_load = OtherLoad::watch()?;
        section.flushes.push(flush_p50(paths.disk())?);
        for (channel, [ours, bare]) in CHANNELS.into_iter().zip(&mut costs) {
            let body = notification(&[channel.platform], None);
            ours.0.push(server.measure(count, caller.fan_out(&body, count)).await?);
            let accepted = sandbox.take_accepted().await?;
            // One connection reads the counts.
            connections += accepted.connections.saturating_sub(1);
            ensure!(accepted.tokens == count, "accepted {}", accepted.tokens);

            let parameters = samples.parameters(channel, &sandbox, count).await?;
            bare.0.push(h2_client::run(&parameters)?);
            let accepted = sandbox.take_accepted().await?;
            ensure!(accepted.tokens == count + 1, "accepted {}", accepted.tokens);
            if channel.provider != "apns" {
                continue;
            }
            match peers.start("node-apn.mjs", &peer_parameters(scale, &parameters)?)? {
                Ok(mut peer) => {
                    npm.0.push(peer.measure(scale.peer_devices)?);
                    let accepted = sandbox.take_accepted().await?;
                    let wanted = scale.peer_devices;
                    ensure!(accepted.tokens == wanted, "accepted {}", accepted.tokens);
                }
                Err(reason) => missing = reason,
            }
        }
        section.other_load.push(other_load.share()?);
    }
    server.stop()?;
    section.notes.push(format!(
        "send: the server opened {connections} connections in all, the bare client one each time; \
         both sides share the cores with the sandbox, which limits the rates"
    ));
    for (channel, [ours, bare]) in CHANNELS.iter().zip(&costs) {
        let baseline = format!("bare h2: {}", bare.text());
        let ratio = ours.cpu_ratio(bare);
        section.lines.push(line(scale, channel.provider, (ours, baseline), (ratio, 1.3)));
    }
    let [_, [ours, _]] = &costs;
    let baseline = npm.text_or("@parse/node-apn", &missing);
    section.lines.push(line(scale, "apns", (ours, baseline), (ours.cpu_ratio(&npm), 0.15)));
    Ok(section)
}

fn line(
    scale: &Scale,
    provider: &str,
    (ours, baseline): (&Costs, String),
    (ratio, goal): (f64, f64),
) -> Line {
    let what = format!("{} devices on {provider}", grouped(scale.send_devices as f64));
    Line { row: "send", what, figure: ours.text(), baseline, ratio, goal: Goal::AtMost(goal) }
}

/// The parameters for node-apn, which sends the same messages but renders and signs them itself.
fn peer_parameters(scale: &Scale, parameters: &Parameters) -> anyhow::Result<Value> {
    let numbers = (parameters.first..).step_by(2).take(usize::try_from(scale.peer_devices)?);
    let tokens: Vec<String> = numbers.map(push_token).collect();
    let payload: Value = serde_json::from_str(&parameters.body).context("a payload in JSON")?;
    let headers: serde_json::Map<String, Value> =
        parameters.headers.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    Ok(json!({
        "config": parameters.config, "tokens": tokens, "payload": payload, "headers": headers
    }))
}
