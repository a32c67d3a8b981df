//! Connections that close, refuse streams and lower their stream limit during a send to two thousand devices.
//! No device is skipped, only messages without a response are repeated, and every repeat has the identity of
//! the original.

use std::collections::HashSet;

use anyhow::Result;
use notify_core::{CreateNotification, NotificationRecord};
use notify_sandbox::{Fault, Provider, ReceivedRequest, Rule, ScriptedResponse, Settings};
use notify_tests::{ReceivedByToken, TestServer, WAIT_MAX, crowd, register};

use crate::BOTH;

const DEVICES: u64 = 2_000;
/// The number of messages before each fault.
const FAULTS_AFTER: [u32; 4] = [1, 150, 400, 700];

async fn server_with_a_crowd() -> Result<TestServer> {
    let server = TestServer::start().await;
    register(&server.client(), crowd(DEVICES)).await?;
    Ok(server)
}

/// Sends to all devices. Returns the record and the messages that arrived.
async fn send(server: &TestServer) -> Result<(NotificationRecord, Vec<ReceivedRequest>)> {
    let notification = CreateNotification::to_platforms(BOTH, "x");
    let id = server.client().notifications().create(&notification).await?.id;
    let record = server.completed(&id).await?;
    assert_eq!((record.counts.targeted, record.counts.sent), (DEVICES, DEVICES), "{record:?}");
    let journal = server.sandbox().received();
    assert!(journal.len() < 10_000, "the journal holds everything");
    Ok((record, journal))
}

/// Checks that every device has the notification, that no accepted message was repeated, and that all
/// messages have one identity.
#[track_caller]
fn reached_everybody_once(journal: Vec<ReceivedRequest>, record: &NotificationRecord) {
    let journal = ReceivedByToken::of(journal);
    assert_eq!(journal.reached(), 2_000);
    assert_eq!(journal.accepted_and_sent_again(), Vec::<&ReceivedRequest>::new());
    assert_eq!(journal.identities(), HashSet::from([record.id.to_string()]));
}

/// Makes both providers respond with this fault to some of the messages.
fn script(server: &TestServer, action: Fault) -> Result<()> {
    for provider in [Provider::Apns, Provider::Fcm] {
        for after in FAULTS_AFTER {
            let fault = ScriptedResponse::fault(action).first(1);
            server.sandbox().add_rule(Rule::on(provider, fault).after(after))?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn connections_closed_by_goaway_lose_and_repeat_nothing() -> Result<()> {
    let server = server_with_a_crowd().await?;
    script(&server, Fault::Goaway)?;
    let (record, journal) = send(&server).await?;
    reached_everybody_once(journal, &record);
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn refused_streams_lose_and_repeat_nothing() -> Result<()> {
    let server = server_with_a_crowd().await?;
    script(&server, Fault::Refuse)?;
    let (record, journal) = send(&server).await?;
    let refused =
        journal.iter().filter(|message| message.reason.as_deref() == Some("refuse")).count();
    assert_eq!(refused, 2 * FAULTS_AFTER.len());
    reached_everybody_once(journal, &record);
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn only_messages_on_cut_connections_are_repeated() -> Result<()> {
    let server = server_with_a_crowd().await?;
    script(&server, Fault::Cut)?;
    let (record, journal) = send(&server).await?;
    let cut: HashSet<u64> = journal
        .iter()
        .filter(|message| message.reason.as_deref() == Some("cut"))
        .map(|message| message.connection)
        .collect();
    assert!(!cut.is_empty());
    let by_token = ReceivedByToken::of(journal);
    assert_eq!(by_token.reached(), usize::try_from(DEVICES)?);
    for message in by_token.accepted_and_sent_again() {
        assert!(cut.contains(&message.connection), "repeated without need: {message:?}");
    }
    assert_eq!(by_token.identities(), HashSet::from([record.id.to_string()]));
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_stream_limit_that_falls_to_one_and_rises_loses_and_repeats_nothing() -> Result<()> {
    let server = server_with_a_crowd().await?;
    let notification = CreateNotification::to_platforms(BOTH, "x");
    let id = server.client().notifications().create(&notification).await?.id;
    let one_stream = Settings { max_concurrent_streams: 1, ..Settings::default() };
    for (after, settings) in
        [(300, one_stream.clone()), (350, Settings::default()), (900, one_stream)]
    {
        server.sandbox().wait_for(after, WAIT_MAX).await;
        server.sandbox().set(settings);
    }
    server.sandbox().wait_for(950, WAIT_MAX).await;
    server.sandbox().set(Settings::default());
    let record = server.completed(&id).await?;
    assert_eq!((record.counts.targeted, record.counts.sent), (DEVICES, DEVICES), "{record:?}");
    reached_everybody_once(server.sandbox().received(), &record);
    server.stop().await;
    Ok(())
}
