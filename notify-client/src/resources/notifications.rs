//! Notifications.

use notify_core::{
    CreateNotification, DeliveryList, DeviceId, Explanation, ListDeliveries, NotificationCreated,
    NotificationId, NotificationList, NotificationPreview, NotificationRecord, PageQuery,
    ReportNotification,
};
use reqwest::Method;

use crate::{call::Call, handle::handle, parameters};

handle! {
    /// Notifications: sending them, reporting them, reading them back.
    Notifications from notifications;

    /// Sends a notification: `POST /v1/notifications`.
    ///
    /// A retry cannot send it twice: all attempts carry the same `Idempotency-Key`.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] when it breaks a rule; [`crate::Error::Rejected`] when it names a
    /// campaign that is not active, or is too large for a provider it goes to.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::CreateNotification;
    /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
    /// let sale = CreateNotification {
    ///     text: Some("Half price today".into()),
    ///     platforms: Some(vec!["android".into()]),
    ///     ..Default::default()
    /// };
    /// let id = notify.notifications().idempotency_key("sale-17").create(&sale).await?.id;
    /// # Ok(())
    /// # }
    /// ```
    fn create(notification: &CreateNotification) -> NotificationCreated =
        Call::v1(Method::POST, &["notifications"]).checked(notification);

    /// Shows what a notification would be on each platform and how many devices it would reach now,
    /// and sends nothing: `POST /v1/notifications/preview`.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] when it breaks a rule; [`crate::Error::Rejected`] when it names a
    /// campaign that is not active. One that is too large is shown, with the problem.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::{CreateNotification, Platform};
    /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
    /// let sale = CreateNotification::to_platforms([Platform::Android], "Half price today");
    /// for platform in notify.notifications().preview(&sale).await?.platforms {
    ///     println!("{}: {} devices {:?}", platform.platform, platform.devices, platform.problems);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    fn preview(notification: &CreateNotification) -> NotificationPreview =
        Call::v1(Method::POST, &["notifications", "preview"]).checked(notification);

    /// Makes a notification known that the caller delivers by its own means:
    /// `POST /v1/notifications/notify`. Nothing is sent.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] when it breaks a rule; [`crate::Error::Rejected`] when its id is
    /// used already.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::ReportNotification;
    /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
    /// let report = ReportNotification {
    ///     id: "newsletter-2026-05".into(),
    ///     text: Some("The May issue is out".into()),
    ///     platforms: Some(vec!["ios".into()]),
    ///     ..Default::default()
    /// };
    /// notify.notifications().report(&report).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn report(report: &ReportNotification) -> NotificationCreated =
        Call::v1(Method::POST, &["notifications", "notify"]).checked(report);

    /// Reads a notification back with its counts: `GET /v1/notifications/:id`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] when the id names nothing.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::NotificationId;
    /// # async fn example(notify: notify_client::Client, id: NotificationId)
    /// # -> Result<(), notify_client::Error> {
    /// let notification = notify.notifications().get(&id).await?;
    /// println!("{} of {} sent", notification.counts.sent, notification.counts.targeted);
    /// # Ok(())
    /// # }
    /// ```
    fn get(id: &NotificationId) -> NotificationRecord =
        Ok(Call::v1(Method::GET, &["notifications", id.as_str()]));

    /// One page of the notifications, newest first: `GET /v1/notifications`.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] when `limit` is not 1 to 1,000.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::PageQuery;
    /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
    /// let ten = PageQuery { limit: Some(10), ..Default::default() };
    /// let page = notify.notifications().list(&ten).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn list(query: &PageQuery) -> NotificationList =
        Call::v1(Method::GET, &["notifications"]).filtered::<PageQuery>(parameters::page(query));

    /// One page of what became of a notification, device by device:
    /// `GET /v1/notifications/:id/deliveries`. A page may hold fewer than `limit` though
    /// there are more: `next_cursor` says.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] when the id names nothing; [`crate::Error::Invalid`] when `limit`
    /// is not 1 to 1,000.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::{DeliveryOutcome, ListDeliveries, NotificationId};
    /// # async fn example(notify: notify_client::Client, id: NotificationId)
    /// # -> Result<(), notify_client::Error> {
    /// let failed =
    ///     ListDeliveries { outcome: Some(DeliveryOutcome::Failed), ..Default::default() };
    /// for delivery in notify.notifications().deliveries(&id, &failed).await?.deliveries {
    ///     println!("{:?}: {:?}", delivery.device_id, delivery.reason);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    fn deliveries(id: &NotificationId, query: &ListDeliveries) -> DeliveryList =
        Call::v1(Method::GET, &["notifications", id.as_str(), "deliveries"])
            .filtered::<ListDeliveries>(parameters::deliveries(query));

    /// Tells why a device did or did not get a notification:
    /// `GET /v1/notifications/:id/explain/:device_id`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] when one of the ids names nothing.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::{DeviceId, NotificationId};
    /// # async fn example(notify: notify_client::Client, id: NotificationId)
    /// # -> Result<(), Box<dyn std::error::Error>> {
    /// let told = notify.notifications().explain(&id, &DeviceId::new("pixel-7")?).await?;
    /// for step in told.steps {
    ///     println!("{}: {}", step.what.as_str(), step.detail);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    fn explain(id: &NotificationId, device: &DeviceId) -> Explanation =
        Ok(Call::v1(
            Method::GET,
            &["notifications", id.as_str(), "explain", device.as_str()],
        ));

    /// Cancels what has not been sent yet: `DELETE /v1/notifications/:id`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] when the id names nothing; [`crate::Error::Rejected`] when
    /// nothing is left to cancel, which is also what a repetition meets whose first answer was
    /// lost.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::NotificationId;
    /// # async fn example(notify: notify_client::Client, id: NotificationId)
    /// # -> Result<(), notify_client::Error> {
    /// notify.notifications().cancel(&id).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn cancel(id: &NotificationId) -> () =
        Ok(Call::v1(Method::DELETE, &["notifications", id.as_str()]).done());

    pages {
        /// All notifications from that page on, newest first, page by page.
        ///
        /// ```no_run
        /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
        /// let mut all = notify.notifications().all(&Default::default());
        /// while let Some(notification) = all.next().await {
        ///     println!("{}", notification?.id);
        /// }
        /// # Ok(())
        /// # }
        /// ```
        fn all(query: &PageQuery) -> NotificationList =
            Call::v1(Method::GET, &["notifications"]).filtered::<PageQuery>(parameters::page(query));

        /// What became of a notification for every device from that page on, page by page.
        ///
        /// ```no_run
        /// # use notify_client::notify_core::NotificationId;
        /// # async fn example(notify: notify_client::Client, id: NotificationId)
        /// # -> Result<(), notify_client::Error> {
        /// let mut all = notify.notifications().all_deliveries(&id, &Default::default());
        /// while let Some(delivery) = all.next().await {
        ///     println!("{:?}", delivery?.outcome);
        /// }
        /// # Ok(())
        /// # }
        /// ```
        fn all_deliveries(id: &NotificationId, query: &ListDeliveries) -> DeliveryList =
            Call::v1(Method::GET, &["notifications", id.as_str(), "deliveries"])
                .filtered::<ListDeliveries>(parameters::deliveries(query));
    }
}
