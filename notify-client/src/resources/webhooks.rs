//! Webhooks: where an application is told what happened. [`crate::webhook`] verifies what comes.

use notify_core::{
    CreateWebhook, NoBody, PageQuery, RecoverWebhook, Timestamp, UpdateWebhook, Webhook,
    WebhookAttempt, WebhookAttemptList, WebhookCreated, WebhookId, WebhookList, WebhookMessageId,
    WebhookRecovered,
};
use reqwest::Method;

use crate::{call::Call, handle::handle, parameters};

handle! {
    /// Webhooks, which are told what happened.
    Webhooks from webhooks;

    /// Creates a webhook: `POST /v1/webhooks`. Its secret is shown this once.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] when it breaks a rule; [`crate::Error::Rejected`] when nothing may
    /// be sent to its address.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::CreateWebhook;
    /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
    /// let url = "https://shop.example/hooks/notify".to_owned();
    /// let made = notify.webhooks().create(&CreateWebhook { url, ..Default::default() }).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn create(webhook: &CreateWebhook) -> WebhookCreated =
        Call::v1(Method::POST, &["webhooks"]).checked(webhook);

    /// One page of the webhooks: `GET /v1/webhooks`.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] when `limit` is not 1 to 1,000.
    fn list(query: &PageQuery) -> WebhookList =
        Call::v1(Method::GET, &["webhooks"]).filtered::<PageQuery>(parameters::page(query));

    /// Reads a webhook: `GET /v1/webhooks/:id`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] when the id names no webhook.
    fn get(id: WebhookId) -> Webhook =
        Ok(Call::v1(Method::GET, &["webhooks", &id.to_string()]));

    /// Changes, disables or enables a webhook: `PATCH /v1/webhooks/:id`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] when the id names no webhook; [`crate::Error::Invalid`] when the
    /// change breaks a rule.
    fn update(id: WebhookId, change: &UpdateWebhook) -> () =
        Call::v1(Method::PATCH, &["webhooks", &id.to_string()]).done().checked(change);

    /// Deletes a webhook: `DELETE /v1/webhooks/:id`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] when the id names no webhook.
    fn delete(id: WebhookId) -> () =
        Ok(Call::v1(Method::DELETE, &["webhooks", &id.to_string()]).done());

    /// Gives a webhook another secret, shown this once: `POST /v1/webhooks/:id/rotate`. The one
    /// before it signs too for 24 hours.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] when the id names no webhook.
    fn rotate(id: WebhookId) -> WebhookCreated =
        Call::v1(Method::POST, &["webhooks", &id.to_string(), "rotate"]).checked(&NoBody {});

    /// Sends an event that tests a webhook, and tells what came of it: `POST
    /// /v1/webhooks/:id/test`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] when the id names no webhook; [`crate::Error::Rejected`] when it
    /// is disabled.
    fn test(id: WebhookId) -> WebhookAttempt =
        Call::v1(Method::POST, &["webhooks", &id.to_string(), "test"]).checked(&NoBody {});

    /// One page of what was sent to a webhook: `GET /v1/webhooks/:id/attempts`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] when the id names no webhook.
    fn attempts(id: WebhookId, query: &PageQuery) -> WebhookAttemptList =
        Call::v1(Method::GET, &["webhooks", &id.to_string(), "attempts"])
            .filtered::<PageQuery>(parameters::page(query));

    /// Sends a message now, whether it is over or waits to be tried again:
    /// `POST /v1/webhooks/:id/attempts/:attempt_id/redeliver`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] when an id names nothing; [`crate::Error::Rejected`] when the
    /// webhook is disabled.
    fn redeliver(id: WebhookId, message: WebhookMessageId) -> () =
        Call::v1(
            Method::POST,
            &["webhooks", &id.to_string(), "attempts", &message.to_string(), "redeliver"],
        )
        .done()
        .checked(&NoBody {});

    /// Sends now what failed since then, or waits to be tried again: `POST /v1/webhooks/:id/recover`.
    /// Where `more` is true there was no room for all of it: ask again.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] when the id names no webhook; [`crate::Error::Rejected`] when it
    /// is disabled.
    fn recover(id: WebhookId, since: Timestamp) -> WebhookRecovered =
        Call::v1(Method::POST, &["webhooks", &id.to_string(), "recover"])
            .checked(&RecoverWebhook { since: Some(since.as_ms()) });

    pages {
        /// All webhooks from that page on, page by page.
        fn all(query: &PageQuery) -> WebhookList =
            Call::v1(Method::GET, &["webhooks"]).filtered::<PageQuery>(parameters::page(query));

        /// Everything that was sent to a webhook, page by page.
        fn all_attempts(id: WebhookId, query: &PageQuery) -> WebhookAttemptList =
            Call::v1(Method::GET, &["webhooks", &id.to_string(), "attempts"])
                .filtered::<PageQuery>(parameters::page(query));
    }
}
