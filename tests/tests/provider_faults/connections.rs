//! T7: `GOAWAY` frames with any last stream, and bad certificates.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::Result;
use notify_core::{CreateNotification, DeviceStatisticsQuery, Platform};
use notify_sandbox::{Certificate, Fault, Provider, Rule, ScriptedResponse, Settings};
use notify_tests::{ReceivedByToken, TestServer, crowd, register, unlimited, until};

use crate::manual_clock::{ALL, ManualServer};

/// The number of devices on both platforms together.
const CROWD: u64 = 2_000;
/// The number of connections of each provider that send a `GOAWAY`. For this many `GOAWAY`, the server
/// resends a message without a delay.
const GOAWAYS: u32 = 2;
/// The distance of two `GOAWAY` in messages. Up to half of it is added at random.
const DISTANCE: u32 = 250;
/// The highest last stream in a `GOAWAY`. The server waits for the response to any stream up to it, so it
/// lies far below the streams in flight.
const LAST_MAX: u32 = 9;

/// Pseudorandom numbers, which are the same in every run.
fn numbers(seed: u32) -> impl Iterator<Item = u32> {
    let step = |last: &u32| Some(last.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
    std::iter::successors(Some(seed), step).skip(1).map(|number| number >> 8)
}

/// The rules that make connections of a provider send a `GOAWAY` with a last stream that is too low.
fn goaway_rules(provider: Provider, seed: u32) -> Vec<Rule> {
    let rule = |(number, random): (u32, u32)| {
        let goaway = ScriptedResponse {
            last_stream_id: Some((random % LAST_MAX) | 1),
            ..ScriptedResponse::fault(Fault::Goaway).first(1)
        };
        let after = (1 + number) * DISTANCE + random % (DISTANCE / 2);
        Rule::on(provider, goaway).after(after)
    };
    (0..GOAWAYS).zip(numbers(seed)).map(rule).collect()
}

/// A `GOAWAY` names the last stream that was processed. Here it names an early stream, so the streams that
/// were answered since then count as unprocessed, and the server repeats them. No device is skipped,
/// messages on other connections are not repeated, and a repeat has the identity of the original.
/// `delivery` tests that a correct `GOAWAY` repeats nothing.
#[tokio::test]
async fn a_goaway_with_an_early_last_stream_repeats_only_its_connection_and_loses_nothing()
-> Result<()> {
    let server = TestServer::start().await;
    register(&server.client(), crowd(CROWD)).await?;
    for (provider, seed) in [(Provider::Apns, 7), (Provider::Fcm, 11)] {
        for rule in goaway_rules(provider, seed) {
            server.sandbox().add_rule(rule)?;
        }
    }
    let both = [Platform::Android, Platform::Ios];
    let notification = CreateNotification::to_platforms(both, "x");
    let id = server.client().notifications().create(&notification).await?.id;
    let record = server.completed(&id).await?;
    assert_eq!((record.counts.targeted, record.counts.sent), (CROWD, CROWD), "{record:?}");
    let received = server.sandbox().received();
    let goaways = received.iter().filter(|message| message.reason.as_deref() == Some("goaway"));
    let goaway_connections: HashSet<u64> = goaways.map(|message| message.connection).collect();
    assert_eq!(goaway_connections.len(), 2 * GOAWAYS as usize);
    let by_token = ReceivedByToken::of(received);
    assert_eq!(by_token.reached(), usize::try_from(CROWD)?);
    let repeated = by_token.accepted_and_sent_again();
    println!("{} repeated", repeated.len());
    for message in repeated {
        let is_expected = goaway_connections.contains(&message.connection);
        assert!(is_expected, "repeated without need: {message:?}");
    }
    assert_eq!(by_token.identities(), HashSet::from([id.to_string()]));
    server.stop().await;
    Ok(())
}

/// The number of devices on each platform.
const DEVICES: u64 = 20;

/// A server with such a certificate receives no byte of a message. Waiting messages are sent when the right
/// certificate is back.
#[tokio::test]
async fn nothing_is_sent_to_a_peer_with_a_bad_certificate() -> Result<()> {
    let server = ManualServer::start_with(|_, _| {}).await?;
    server.everybody(DEVICES).await?;
    let all = DEVICES * ALL.len() as u64;
    for certificate in [Certificate::Expired, Certificate::Elsewhere, Certificate::Stranger] {
        server.sandbox().clear();
        server.sandbox().set(Settings { certificate, ..unlimited() });
        server.sandbox().drop_connections();
        let id = server.broadcast(&format!("{certificate:?}")).await?;
        until("it is tried", async || {
            let record = server.read(&id).await?;
            let tried = server.sandbox().counts().failed_handshakes >= 2;
            Ok((tried && record.counts.targeted == all).then_some(()))
        })
        .await?;
        for _ in 0..60 {
            server.clock().advance(Duration::from_secs(1));
            server.settle().await;
        }
        let counts = server.sandbox().counts();
        assert_eq!((counts.connections, counts.received), (0, 0), "{certificate:?}: {counts:?}");
        let record = server.read(&id).await?;
        assert_eq!(record.counts.pending, all, "{certificate:?}: {record:?}");

        server.sandbox().set(unlimited());
        let records = server.completed(&[id], Duration::from_secs(1)).await?;
        assert_eq!(records[0].counts.sent, all, "{certificate:?}: {:?}", records[0]);
        let counts = server.sandbox().counts();
        assert_eq!((counts.accepted, counts.accepted_tokens), (all, all), "each once");
    }
    let statistics = server.client.statistics().devices(&DeviceStatisticsQuery::default()).await?;
    assert_eq!(statistics.total_disabled, 0);
    server.stop().await;
    Ok(())
}
