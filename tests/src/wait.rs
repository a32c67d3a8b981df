//! Waiting with a time limit. A test does not sleep for a fixed time; it polls until a condition holds.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use notify_client::Client;
use notify_core::{NotificationId, NotificationRecord, NotificationStatus, Timestamp};
use notify_server::clock::{Clock, SystemClock};

use crate::WAIT_MAX;

/// The time between two polls.
const TICK: Duration = Duration::from_millis(10);
/// A day, in milliseconds.
const DAY_MS: i64 = 86_400_000;

/// The time in a day, when every test has ended.
#[must_use]
pub fn tomorrow() -> Timestamp {
    SystemClock::start().now().plus_ms(DAY_MS)
}

/// Calls `poll` until it returns a value, and returns the value.
///
/// # Errors
/// When `poll` fails, or returns no value within [`WAIT_MAX`]. The error of the second case starts with
/// `what`, the description of the awaited event.
pub async fn until<T>(what: &str, mut poll: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    let mut ticks = tokio::time::interval(TICK);
    let polling = async {
        loop {
            ticks.tick().await;
            if let Some(value) = poll().await? {
                return Ok(value);
            }
        }
    };
    match tokio::time::timeout(WAIT_MAX, polling).await {
        Ok(result) => result,
        Err(_) => bail!("{what}: not in time"),
    }
}

/// Reads a notification until it is completed or canceled, and returns its record.
///
/// # Errors
/// When the notification cannot be read, or is not completed in time. The error has the last record that
/// was read.
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
