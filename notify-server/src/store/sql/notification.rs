//! Notifications: accepting, reading back, canceling.

mod accept;
mod cancel;
mod deliveries;
mod facts;
mod reach;
mod read;
mod sums;

use async_trait::async_trait;
use notify_core::{
    Audience, Delivery, DeliveryOutcome, DeviceId, NotificationCreated, NotificationId,
    NotificationPreview, NotificationRecord, Timestamp,
};

pub(super) use self::accept::number_of;
#[cfg(test)]
pub(in crate::store) use self::deliveries::PAGES_READ_MAX;
use super::{SqlStore, once};
use crate::store::{
    AppNo, DeliveryFacts, Done, NewNotification, NewReport, NotificationStore, Once, Page,
    PageRequest, Reached, StoreError,
};

#[async_trait]
impl NotificationStore for SqlStore {
    async fn replay(&self, app: AppNo, once: &Once) -> Result<Option<String>, StoreError> {
        let once = once.clone();
        self.read(move |connection| once::before(connection, app, &once)).await
    }

    async fn accept_notification(
        &self,
        app: AppNo,
        notification: NewNotification,
        once: Option<Once>,
    ) -> Result<Done<NotificationCreated>, StoreError> {
        self.write_once(app, once, move |tx| {
            let unknown = accept::notification(tx, app, &notification)?;
            Ok(NotificationCreated { id: notification.id, unknown })
        })
        .await
    }

    async fn record_report(
        &self,
        app: AppNo,
        report: NewReport,
        once: Option<Once>,
    ) -> Result<Done<NotificationCreated>, StoreError> {
        self.write_once(app, once, move |tx| {
            accept::report(tx, app, &report)?;
            Ok(NotificationCreated { id: report.report.id, unknown: None })
        })
        .await
    }

    async fn notification(
        &self,
        app: AppNo,
        id: NotificationId,
    ) -> Result<NotificationRecord, StoreError> {
        self.read(move |connection| read::notification(connection, app, &id)).await
    }

    async fn list_notifications(
        &self,
        app: AppNo,
        page: PageRequest,
    ) -> Result<Page<NotificationRecord>, StoreError> {
        self.read(move |connection| read::list(connection, app, &page)).await
    }

    async fn list_deliveries(
        &self,
        app: AppNo,
        id: NotificationId,
        outcome: Option<DeliveryOutcome>,
        page: PageRequest,
    ) -> Result<Page<Delivery>, StoreError> {
        self.read(move |connection| deliveries::list(connection, app, (&id, outcome), &page)).await
    }

    async fn delivery_facts(
        &self,
        app: AppNo,
        id: NotificationId,
        device: DeviceId,
    ) -> Result<DeliveryFacts, StoreError> {
        self.read(move |connection| facts::read(connection, app, &id, &device)).await
    }

    async fn reach(&self, app: AppNo, audience: Audience) -> Result<Reached, StoreError> {
        self.read(move |connection| reach::count(connection, app, &audience)).await
    }

    async fn keep_preview(
        &self,
        app: AppNo,
        preview: NotificationPreview,
        once: Option<Once>,
    ) -> Result<Done<NotificationPreview>, StoreError> {
        match once {
            None => Ok(Done::Now(preview)),
            once => self.write_once(app, once, move |_| Ok(preview)).await,
        }
    }

    async fn cancel_notification(
        &self,
        app: AppNo,
        id: NotificationId,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.write(move |tx| cancel::notification(tx, app, &id, at)).await
    }
}
