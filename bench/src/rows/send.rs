//! A fan-out over the API to fake FCM and APNs over TLS, beside a bare h2 client that sends the
//! same requests, and beside npm's client of APNs. The sandbox checks every message and counts the
//! different tokens it accepted.

use anyhow::ensure;

use crate::bare::h2_client;
use crate::caller::Caller;
use crate::children::{Sandbox, Server};
use crate::costs::Costs;
use crate::place::Place;
use crate::process::{Others, flush_p50};
use crate::rows::shown::{CHANNELS, PROVIDERS, Shown};
use crate::scale::Scale;
use crate::seed::{Seed, notification};
use crate::table::{Goal, Line, Section, grouped};

/// Measures the row.
pub(crate) async fn run(scale: &Scale, place: &Place) -> anyhow::Result<Section> {
    let seed = Seed::with(place, scale.send_devices * 2).await?;
    let data = seed.copy(place)?;
    let (server, _) = Server::start(place, data.path())?;
    let caller = Caller { address: server.address, keys: seed.keys };
    let shown = Shown::by(&caller).await?;
    let sandbox = Sandbox::start(0)?;
    caller.send_to(&sandbox, &PROVIDERS).await?;

    let mut section = Section::default();
    let mut costs = CHANNELS.map(|_| [Costs::default(), Costs::default()]);
    let (mut connections, count) = (0, scale.send_devices);
    for _ in 0..scale.rounds {
        let others = Others::watch()?;
        section.flushes.push(flush_p50(place.disk())?);
        for (channel, [ours, bare]) in CHANNELS.into_iter().zip(&mut costs) {
            let body = notification(&[channel.platform], None);
            ours.0.push(server.measure(count, caller.fan_out(&body, count)).await?);
            let accepted = sandbox.take_accepted().await?;
            // The one that asks for the counts is among them.
            connections += accepted.connections.saturating_sub(1);
            ensure!(accepted.tokens == count, "accepted {}", accepted.tokens);

            bare.0.push(h2_client::run(&shown.orders(channel, &sandbox, count).await?)?);
            let accepted = sandbox.take_accepted().await?;
            ensure!(accepted.tokens == count + 1, "accepted {}", accepted.tokens);
        }
        section.others.push(others.share()?);
    }
    server.stop()?;
    section.notes.push(format!(
        "send: the server opened {connections} connections in all, the bare client one each time; \
         both sides share the cores with the sandbox, so that rates are its"
    ));
    for (channel, [ours, bare]) in CHANNELS.iter().zip(&costs) {
        section.lines.push(line(scale, channel.provider, ours, bare));
    }
    Ok(section)
}

fn line(scale: &Scale, provider: &str, ours: &Costs, bare: &Costs) -> Line {
    Line {
        row: "send",
        what: format!("{} devices on {provider}", grouped(scale.send_devices as f64)),
        figure: ours.text(),
        beside: format!("bare h2: {}", bare.text()),
        ratio: ours.cpu_ratio(bare),
        goal: Goal::AtMost(1.3),
    }
}
