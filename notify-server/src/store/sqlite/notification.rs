//! Notifications: accepting, reading back, canceling.

mod accept;
mod cancel;
mod read;

use async_trait::async_trait;
use notify_core::{NotificationCreated, NotificationId, NotificationRecord, Timestamp};

pub(super) use self::accept::number_of;
use super::{SqliteStore, once};
use crate::store::{
    AppNo, Done, NewNotification, NewReport, NotificationStore, Once, Page, PageRequest, StoreError,
};

#[async_trait]
impl NotificationStore for SqliteStore {
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
            accept::notification(tx, app, &notification)?;
            Ok(NotificationCreated { id: notification.id })
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
            Ok(NotificationCreated { id: report.report.id })
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

    async fn cancel_notification(
        &self,
        app: AppNo,
        id: NotificationId,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.write(move |tx| cancel::notification(tx, app, &id, at)).await
    }
}
