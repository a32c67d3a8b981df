//! T1 for one large notification. The server is killed at fixed numbers of arrived messages, from none to
//! almost all. Meanwhile it accepts notifications that are due much later.

use std::collections::HashSet;

use anyhow::{Context, Result, ensure};
use notify_client::Client;
use notify_core::{CreateNotification, ListNotifications, NotificationId, Platform};
use notify_tests::{
    EndedProcess, ReceivedByToken, RestartableServer, WAIT_MAX, completed, configure_providers,
    crowd, register, tomorrow,
};

use crate::{CREDIT, launch};

const DEVICES: u64 = 3_000;
/// The numbers of received messages at which the server is killed.
const KILL_AFTER: [usize; 8] = [0, 1, 50, 300, 700, 1_200, 1_900, 2_700];
const BOTH: [Platform; 2] = [Platform::Android, Platform::Ios];

/// The key and id of every 200 that a caller received.
type Accepted = Vec<(String, NotificationId)>;

/// Sends notifications one after another until the server is killed, and returns the accepted ones.
async fn accept_until_the_end(client: Client, later: CreateNotification, run: usize) -> Accepted {
    let mut accepted = Accepted::new();
    loop {
        let key = format!("run-{run}-{}", accepted.len());
        let notifications = client.notifications().idempotency_key(key.as_str());
        match notifications.create(&later).await {
            Ok(created) => accepted.push((key, created.id)),
            Err(_) => return accepted,
        }
    }
}

/// Checks that a repeat of each accepted request gets the same id.
async fn replays_answer_the_same(
    client: &Client,
    later: &CreateNotification,
    accepted: &Accepted,
) -> Result<()> {
    for (key, id) in accepted {
        let replayed = client.notifications().idempotency_key(key.as_str()).create(later).await;
        assert_eq!(&replayed.with_context(|| key.clone())?.id, id, "{key}");
    }
    Ok(())
}

#[tokio::test]
async fn kills_in_the_middle_of_a_large_notification_skip_no_device() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut server = RestartableServer::start(launch(folder.path())).await?;
    configure_providers(&server.client()?, &server.sandbox).await?;
    register(&server.client()?, crowd(DEVICES)).await?;
    let everybody = CreateNotification::to_platforms(BOTH, "x");
    // These notifications are accepted now but due long after the test.
    let later = CreateNotification::to_platforms([Platform::Android], "later").send_at(tomorrow());
    let mut accepted = Accepted::new();
    let mut sent: Option<NotificationId> = None;

    for (run, after) in KILL_AFTER.into_iter().enumerate() {
        let client = server.client()?;
        let again =
            client.notifications().idempotency_key("everybody").create(&everybody).await?.id;
        assert_eq!(sent.get_or_insert(again.clone()), &again, "the same call, the same id");
        let accepting = tokio::spawn(accept_until_the_end(client, later.clone(), run));
        let received = server.sandbox.wait_for(after, WAIT_MAX).await.len();
        ensure!(received >= after, "{received} of {after} came");
        server.kill(CREDIT).await?;
        let seen = accepting.await?;
        server.start_again().await?;
        replays_answer_the_same(&server.client()?, &later, &seen).await?;
        accepted.extend(seen);
    }

    let client = server.client()?;
    let id = sent.context("it was sent")?;
    let record = completed(&client, &id).await?;
    assert_eq!((record.counts.targeted, record.counts.sent), (DEVICES, DEVICES), "{record:?}");
    ensure!(accepted.len() > KILL_AFTER.len(), "the kills hit a server that accepts");
    everything_accepted_is_there(&client, &accepted, &id).await?;
    check_what_arrived(&server, &id);
    server.stop().await?;
    server.sandbox.stop().await;
    Ok(())
}

/// Checks that the listing has each accepted notification once. For each run it may have one more, whose
/// response was lost by the kill.
async fn everything_accepted_is_there(
    client: &Client,
    accepted: &Accepted,
    everybody: &NotificationId,
) -> Result<()> {
    let mut pages =
        client.notifications().all(&ListNotifications { limit: Some(1_000), ..Default::default() });
    let mut listed = HashSet::new();
    let mut count = 0;
    while let Some(notification) = pages.next().await {
        count += 1;
        listed.insert(notification?.id);
    }
    assert_eq!(listed.len(), count, "no notification is listed twice");
    let lost: Vec<_> = accepted.iter().filter(|(_, id)| !listed.contains(id)).collect();
    assert_eq!(lost, Vec::<&(String, NotificationId)>::new());
    assert!(listed.contains(everybody));
    assert!(count <= accepted.len() + 1 + KILL_AFTER.len(), "{count} of {}", accepted.len());
    Ok(())
}

fn check_what_arrived(server: &RestartableServer, id: &NotificationId) {
    assert_eq!(server.sandbox.counts().dropped, 0, "the journal holds everything");
    let journal = ReceivedByToken::of(server.sandbox.received());
    assert_eq!(journal.reached() as u64, DEVICES, "0 lost");
    assert_eq!(journal.identities(), HashSet::from([id.to_string()]), "repeats are recognisable");
    // Each repeat is attributed to the process whose outcome was not on disk yet: the one that sent the
    // message before it. No process may cause more repeats than its credit allows.
    let mut by_process = vec![0; server.ended.len() + 1];
    for message in journal.accepted_and_sent_again() {
        let is_before = |ended: &EndedProcess| ended.last_connection < message.connection;
        by_process[server.ended.partition_point(is_before)] += 1;
    }
    assert_eq!(by_process.last(), Some(&0), "the last process was not killed");
    assert!(by_process.iter().all(|repeated| *repeated <= CREDIT), "{by_process:?}");
}
