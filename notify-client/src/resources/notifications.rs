//! Notifications, and the polls that are sent with them.

use notify_core::{
    AnswerId, AnswerPoll, CreateNotification, DeliveryList, DeviceId, Explanation, ListDeliveries,
    ListNotificationUsers, ListNotifications, NotificationCreated, NotificationId,
    NotificationList, NotificationPreview, NotificationRecord, NotificationUsers, Poll,
    PreviewQuery, ReportNotification,
};
use reqwest::Method;

use crate::{call::Call, handle::handle};

handle! {
    /// Notifications: sends, reports and reads them.
    Notifications from notifications;

    /// Sends a notification: `POST /v1/notifications`.
    ///
    /// A retry does not send it twice: all attempts carry the same `Idempotency-Key`.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if the request breaks a rule; [`crate::Error::Rejected`] if its
    /// campaign is not active, or it is too large for one of its providers.
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
        Call::v1(Method::POST, &["notifications"]).body(notification);

    /// Returns the payload of a notification on each platform and how many devices it would reach now,
    /// without sending it: `POST /v1/notifications/preview`.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if the request breaks a rule; [`crate::Error::Rejected`] if its
    /// campaign is not active. A payload that is too large is not an error: its `problems` say so.
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
        Call::v1(Method::POST, &["notifications", "preview"]).body(notification);

    /// Returns the same as [`preview`](Self::preview); on the platform of the device, with the message that
    /// this device would get, in its language and with its attributes:
    /// `POST /v1/notifications/preview?device_id=…`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the device is unknown; [`crate::Error::Rejected`] if the notification
    /// does not target its platform; otherwise like `preview`.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::{CreateNotification, DeviceId, Platform};
    /// # async fn example(notify: notify_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let hello = CreateNotification::to_platforms([Platform::Android], "Hello {{first_name|there}}!")
    ///     .personalize();
    /// let phone = DeviceId::new("pixel-7")?;
    /// let preview = notify.notifications().preview_for(&hello, &phone).await?;
    /// println!("{:?}", preview.platforms[0].payload);
    /// # Ok(())
    /// # }
    /// ```
    fn preview_for(notification: &CreateNotification, device: &DeviceId) -> NotificationPreview =
        Call::v1(Method::POST, &["notifications", "preview"])
            .query(&PreviewQuery { device_id: Some(device.to_string()) })
            .and_then(|call| call.body(notification));

    /// Registers a notification that something else delivers: `POST /v1/notifications/notify`. The
    /// server sends nothing.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if the request breaks a rule; [`crate::Error::Rejected`] if its id is
    /// already in use.
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
        Call::v1(Method::POST, &["notifications", "notify"]).body(report);

    /// Reads a notification with its counts: `GET /v1/notifications/:id`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the id is unknown.
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

    /// Explains why a device did or did not receive a notification:
    /// `GET /v1/notifications/:id/explain/:device_id`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if one of the ids is unknown.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::{DeviceId, NotificationId};
    /// # async fn example(notify: notify_client::Client, id: NotificationId)
    /// # -> Result<(), Box<dyn std::error::Error>> {
    /// let explanation = notify.notifications().explain(&id, &DeviceId::new("pixel-7")?).await?;
    /// for step in explanation.steps {
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

    /// Cancels the deliveries that have not been sent yet: `DELETE /v1/notifications/:id`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the id is unknown; [`crate::Error::Rejected`] if nothing is left to
    /// cancel. The call also ends with this error if an attempt succeeded, its response was lost, and the
    /// client retried.
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
        Ok(Call::v1(Method::DELETE, &["notifications", id.as_str()]).discard_response());

    /// Pauses what has not been sent yet: `POST /v1/notifications/:id/pause`. Within five seconds no
    /// delivery starts any more, on any server. `ttl_seconds` keeps running. A notification that is
    /// paused already stays paused.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the id is unknown; [`crate::Error::Rejected`] if the notification has
    /// ended.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::NotificationId;
    /// # async fn example(notify: notify_client::Client, id: NotificationId)
    /// # -> Result<(), notify_client::Error> {
    /// notify.notifications().pause(&id).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn pause(id: &NotificationId) -> () =
        Ok(Call::v1(Method::POST, &["notifications", id.as_str(), "pause"]).discard_response());

    /// Resumes a paused notification: `POST /v1/notifications/:id/resume`. A notification that is not
    /// paused stays as it is.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the id is unknown; [`crate::Error::Rejected`] if the notification has
    /// ended.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::NotificationId;
    /// # async fn example(notify: notify_client::Client, id: NotificationId)
    /// # -> Result<(), notify_client::Error> {
    /// notify.notifications().resume(&id).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn resume(id: &NotificationId) -> () =
        Ok(Call::v1(Method::POST, &["notifications", id.as_str(), "resume"]).discard_response());

    paged {
        /// One page of the notifications, newest first: `GET /v1/notifications`. With a `status`, a
        /// page may have fewer entries than `limit`; the last page has no `next_cursor`.
        ///
        /// # Errors
        /// [`crate::Error::Invalid`] if `limit` is not 1 to 1,000.
        ///
        /// ```no_run
        /// # use notify_client::notify_core::{ListNotifications, NotificationStatus};
        /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
        /// let scheduled = ListNotifications {
        ///     limit: Some(10),
        ///     status: Some(NotificationStatus::Scheduled),
        ///     ..Default::default()
        /// };
        /// let page = notify.notifications().list(&scheduled).await?;
        /// # Ok(())
        /// # }
        /// ```
        fn list;

        /// All notifications, newest first, starting with the page that the query selects.
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
        fn all;

        (query: &ListNotifications) -> NotificationList =
            Call::v1(Method::GET, &["notifications"]).query(query);
    }

    paged {
        /// One page of the deliveries of a notification, one for each device:
        /// `GET /v1/notifications/:id/deliveries`. A page may have fewer entries than `limit`; the
        /// last page has no `next_cursor`.
        ///
        /// # Errors
        /// [`crate::Error::NotFound`] if the id is unknown; [`crate::Error::Invalid`] if `limit`
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
        fn deliveries;

        /// All deliveries of a notification, starting with the page that the query selects.
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
        fn all_deliveries;

        (id: &NotificationId, query: &ListDeliveries) -> DeliveryList =
            Call::v1(Method::GET, &["notifications", id.as_str(), "deliveries"]).query(query);
    }

    paged {
        /// One page of the users of a notification, and whether they were reached:
        /// `GET /v1/notifications/:id/users`. A page may have fewer entries than `limit`; the last page
        /// has no `next_cursor`.
        ///
        /// # Errors
        /// [`crate::Error::NotFound`] if the id is unknown; [`crate::Error::Invalid`] if `limit`
        /// is not 1 to 1,000.
        ///
        /// ```no_run
        /// # use notify_client::notify_core::{ListNotificationUsers, NotificationId, UserState};
        /// # async fn example(notify: notify_client::Client, id: NotificationId)
        /// # -> Result<(), notify_client::Error> {
        /// let unreached =
        ///     ListNotificationUsers { state: Some(UserState::Unreached), ..Default::default() };
        /// for user in notify.notifications().users(&id, &unreached).await?.users {
        ///     println!("{:?}: {} devices", user.user_id, user.devices);
        /// }
        /// # Ok(())
        /// # }
        /// ```
        fn users;

        /// All users of a notification, starting with the page that the query selects.
        ///
        /// ```no_run
        /// # use notify_client::notify_core::NotificationId;
        /// # async fn example(notify: notify_client::Client, id: NotificationId)
        /// # -> Result<(), notify_client::Error> {
        /// let mut all = notify.notifications().all_users(&id, &Default::default());
        /// while let Some(user) = all.next().await {
        ///     println!("{:?}", user?.state);
        /// }
        /// # Ok(())
        /// # }
        /// ```
        fn all_users;

        (id: &NotificationId, query: &ListNotificationUsers) -> NotificationUsers =
            Call::v1(Method::GET, &["notifications", id.as_str(), "users"]).query(query);
    }
}

handle! {
    /// Polls. A poll has the id of its notification.
    Polls from polls;

    /// Reads a poll with the counts of its answers: `GET /v1/polls/:id`.
    ///
    /// # Errors
    /// [`crate::Error::Rejected`] with status 400 if the id is unknown.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::NotificationId;
    /// # async fn example(notify: notify_client::Client, id: NotificationId)
    /// # -> Result<(), notify_client::Error> {
    /// for answer in notify.polls().get(&id).await?.answers {
    ///     println!("{}: {} %", answer.text, answer.percentage);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    fn get(id: &NotificationId) -> Poll = Ok(Call::v1(Method::GET, &["polls", id.as_str()]));

    /// Records a chosen answer: `POST /v1/polls/:id/answers/:answer_id`. At most one answer counts for
    /// each device.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if an id is unknown; [`crate::Error::Rejected`] if the
    /// device is unknown.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::{AnswerPoll, Poll};
    /// # async fn example(notify: notify_client::Client, poll: Poll)
    /// # -> Result<(), notify_client::Error> {
    /// let request = AnswerPoll { device_id: Some("pixel-7".into()) };
    /// notify.polls().answer(&poll.id, poll.answers[0].id, &request).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn answer(poll: &NotificationId, answer: AnswerId, request: &AnswerPoll) -> () =
        Call::v1(Method::POST, &["polls", poll.as_str(), "answers", &answer.to_string()])
            .discard_response()
            .body(request);
}
