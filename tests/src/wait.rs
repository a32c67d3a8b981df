//! Bounded waiting. No test sleeps: it polls at every tick until its condition holds.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use notify_client::Client;
use notify_core::{NotificationId, NotificationRecord, NotificationStatus, Timestamp};
use notify_server::clock::{Clock, SystemClock};

use crate::WAIT_MAX;

/// Time between two polls.
const TICK: Duration = Duration::from_millis(10);
/// A day, in milliseconds.
const DAY_MS: i64 = 86_400_000;

/// An instant after the end of every test.
#[must_use]
pub fn tomorrow() -> Timestamp {
    SystemClock::start().now().plus_ms(DAY_MS)
}

/// Polls until `look` returns something, at most [`WAIT_MAX`].
///
/// # Errors
/// When `look` fails, or returns nothing in time; then `what` says what was missing.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    let mut ticks = tokio::time::interval(TICK);
    let looking = async {
        loop {
            ticks.tick().await;
            if let Some(found) = look().await? {
                return Ok(found);
            }
        }
    };
    match tokio::time::timeout(WAIT_MAX, looking).await {
        Ok(found) => found,
        Err(_) => bail!("{what}: not in time"),
    }
}

/// Reads a notification until it is completed or canceled.
///
/// # Errors
/// When it cannot be read, or is not completed in time; then the error shows how far it came.
pub async fn completed(client: &Client, id: &NotificationId) -> Result<NotificationRecord> {
    let mut last = None;
    let reading = until("the notification is completed", async || {
        let record = client.notifications().get(id).await?;
        last = Some(record.clone());
        Ok(match record.status {
            NotificationStatus::Completed | NotificationStatus::Canceled => Some(record),
            NotificationStatus::Scheduled
            | NotificationStatus::Queued
            | NotificationStatus::Sending
            | NotificationStatus::Reported => None,
        })
    });
    let read = reading.await;
    read.with_context(|| format!("last seen: {last:?}"))
}
