//! Reads the server's reports at the end of a run, over its API.

use anyhow::Result;
use notify_client::Client;
use notify_core::{ListDeliveries, ListNotifications, NotificationRecord};
use serde_json::Value;

use crate::checker::NotificationReport;

/// The notifications of a page.
const NOTIFICATIONS: u32 = 100;
/// The deliveries of a page: the maximum.
const PAGE_ROWS: u32 = 1_000;

impl NotificationReport {
    /// Reads every notification of an application with the outcome of each device.
    ///
    /// # Errors
    /// When a request fails.
    pub async fn of(client: &Client) -> Result<Vec<Self>> {
        let mut reports = Vec::new();
        let query = ListNotifications { limit: Some(NOTIFICATIONS), ..Default::default() };
        let mut all = client.notifications().all(&query);
        while let Some(record) = all.next().await {
            reports.push(Self::read(client, record?).await?);
        }
        Ok(reports)
    }

    async fn read(client: &Client, record: NotificationRecord) -> Result<Self> {
        let query = ListDeliveries { limit: Some(PAGE_ROWS), ..ListDeliveries::default() };
        let mut deliveries = Vec::new();
        let mut all = client.notifications().all_deliveries(&record.id, &query);
        while let Some(delivery) = all.next().await {
            let delivery = delivery?;
            // The deliveries of an erased device have no id.
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
