//! Web, messenger and chat recipients.

use notify_core::{Subscribe, SubscriptionCreated};
use reqwest::Method;

use crate::{call::Call, handle::handle};

handle! {
    /// Subscriptions of browsers, Messenger users and chats, which become devices.
    Subscriptions from subscriptions;

    /// Subscribes a browser, a Messenger user or a chat: `POST /v1/subscriptions`.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if it breaks a rule; [`crate::Error::Rejected`] if its
    /// `device_id` belongs to a device of another platform.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::Subscribe;
    /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
    /// let chat = Subscribe {
    ///     platform: "chatapp".into(),
    ///     recipient_id: Some("4711".into()),
    ///     ..Default::default()
    /// };
    /// let device_id = notify.subscriptions().create(&chat).await?.id;
    /// # Ok(())
    /// # }
    /// ```
    fn create(subscription: &Subscribe) -> SubscriptionCreated =
        Call::v1(Method::POST, &["subscriptions"]).body(subscription);
}
