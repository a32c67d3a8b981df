//! What the server says at the end of a run: over its API, and in its file.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use notify_client::Client;
use notify_core::{ListDeliveries, NotificationRecord, PageQuery};
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use crate::checker::Told;

/// Notifications of a page.
const NOTIFICATIONS: u32 = 100;
/// Deliveries of a page: the most there are (B10).
const PAGE_ROWS: u32 = 1_000;

/// Rows that must be gone when everything is over, by table and condition.
const UNFINISHED: [(&str, &str); 4] = [
    ("notifications", "status in ('queued', 'sending')"),
    ("dispatches", "completed_at is null or open_pages > 0 or open_retries > 0"),
    ("pages", "finished = 0 or retrying > 0"),
    ("retries", "outcome is null"),
];

impl Told {
    /// Reads every notification of an application with what became of each device.
    ///
    /// # Errors
    /// When something cannot be read.
    pub async fn of(client: &Client) -> Result<Vec<Self>> {
        let mut told = Vec::new();
        let query = PageQuery { limit: Some(NOTIFICATIONS), cursor: None };
        let mut all = client.notifications().all(&query);
        while let Some(record) = all.next().await {
            told.push(Self::read(client, record?).await?);
        }
        Ok(told)
    }

    async fn read(client: &Client, record: NotificationRecord) -> Result<Self> {
        let query = ListDeliveries { limit: Some(PAGE_ROWS), ..ListDeliveries::default() };
        let mut deliveries = Vec::new();
        let mut all = client.notifications().all_deliveries(&record.id, &query);
        while let Some(delivery) = all.next().await {
            let delivery = delivery?;
            // Who was erased since has no id any more.
            let device = delivery.device_id.map(|id| id.to_string()).unwrap_or_default();
            deliveries.push((device, delivery.outcome));
        }
        let request: Value = serde_json::from_str(record.request.as_str())?;
        let key = request["text"].as_str().unwrap_or_default().to_owned();
        Ok(Self {
            id: record.id.to_string(),
            key,
            status: record.status,
            counts: record.counts,
            deliveries,
        })
    }
}

/// Checks the file of a server that has stopped: it is whole, and nothing in it is unfinished.
///
/// # Errors
/// When it is not.
pub fn ensure_settled(database: &Path) -> Result<()> {
    let connection = ensure_whole(database)?;
    for (table, condition) in UNFINISHED {
        let sql = format!("select count(*) from {table} where {condition}");
        let stuck: i64 = connection.query_row(&sql, [], |row| row.get(0))?;
        ensure!(stuck == 0, "{stuck} rows of {table} are stuck: {condition}");
    }
    Ok(())
}

/// Checks that a file is no damaged one, and answers a connection that can only read it.
///
/// # Errors
/// When it is damaged.
pub fn ensure_whole(database: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(database, flags)
        .with_context(|| database.display().to_string())?;
    connection.pragma_update(None, "query_only", true)?;
    let said: String = connection.query_row("pragma integrity_check", [], |row| row.get(0))?;
    ensure!(said == "ok", "{}: {said}", database.display());
    Ok(connection)
}
