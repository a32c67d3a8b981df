//! From a `POST` to a push provider, through the SDK and the sandbox: the messages that arrive, the effect of
//! rejections, and broken connections that lose nothing.

mod audiences;
mod chat;
mod faults;
mod languages;
mod outcomes;
mod payloads;
mod reports;
mod unsent;
mod variables;
mod web_push;

use std::time::Duration;

use anyhow::Result;
use notify_core::{CreateNotification, NotificationRecord, Platform};
use notify_sandbox::ReceivedRequest;
use notify_tests::TestServer;

/// The two platforms with push tokens.
const BOTH: [Platform; 2] = [Platform::Android, Platform::Ios];

/// Sends a notification and waits until it is completed. Returns its record and the messages that the sandbox
/// received for it.
async fn send(
    server: &TestServer,
    notification: &CreateNotification,
) -> Result<(NotificationRecord, Vec<ReceivedRequest>)> {
    let before = server.sandbox().received().len();
    let id = server.client().notifications().create(notification).await?.id;
    let record = server.completed(&id).await?;
    let sent = usize::try_from(record.counts.targeted)?;
    let mut received = server.sandbox().wait_for(before + sent, Duration::ZERO).await;
    Ok((record, received.split_off(before)))
}
