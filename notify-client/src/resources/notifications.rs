//! Notifications (spec 4.1, 4.2, B18 to B20).

use notify_core::{
    CreateNotification, NotificationCreated, NotificationId, NotificationList, NotificationRecord,
    PageQuery, ReportNotification,
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
    /// campaign that is not active, or is too large for a provider it goes to (B16, B17).
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

    /// Makes a notification known that the caller delivers by its own means:
    /// `POST /v1/notifications/notify`. Nothing is sent (B18).
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
    }
}
