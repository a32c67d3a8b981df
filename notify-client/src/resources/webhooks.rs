//! Webhooks, which receive events. [`crate::webhook`] verifies their messages.

use notify_core::{
    CreateWebhook, NoBody, PageQuery, RecoverWebhook, Timestamp, UpdateWebhook, Webhook,
    WebhookAttempt, WebhookAttemptList, WebhookCreated, WebhookId, WebhookList, WebhookMessageId,
    WebhookRecovered,
};
use reqwest::Method;

use crate::{call::Call, handle::handle};

handle! {
    /// Webhooks, which receive events.
    Webhooks from webhooks;

    /// Creates a webhook: `POST /v1/webhooks`. Only this response contains the secret.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if the request breaks a rule; [`crate::Error::Rejected`] if the
    /// address of its url is not allowed.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::CreateWebhook;
    /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
    /// let url = "https://shop.example/hooks/notify".to_owned();
    /// let created = notify.webhooks().create(&CreateWebhook { url, ..Default::default() }).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn create(webhook: &CreateWebhook) -> WebhookCreated =
        Call::v1(Method::POST, &["webhooks"]).body(webhook);

    /// Reads a webhook: `GET /v1/webhooks/:id`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the id is unknown.
    fn get(id: WebhookId) -> Webhook =
        Ok(Call::v1(Method::GET, &["webhooks", &id.to_string()]));

    /// Changes, disables or enables a webhook: `PATCH /v1/webhooks/:id`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the id is unknown; [`crate::Error::Invalid`] if the
    /// change breaks a rule.
    fn update(id: WebhookId, change: &UpdateWebhook) -> () =
        Call::v1(Method::PATCH, &["webhooks", &id.to_string()]).discard_response().body(change);

    /// Deletes a webhook: `DELETE /v1/webhooks/:id`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the id is unknown.
    fn delete(id: WebhookId) -> () =
        Ok(Call::v1(Method::DELETE, &["webhooks", &id.to_string()]).discard_response());

    /// Replaces the secret of a webhook: `POST /v1/webhooks/:id/rotate`. Only this response contains the
    /// new secret. For 24 hours, messages carry signatures with the new and with the previous secret.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the id is unknown.
    fn rotate(id: WebhookId) -> WebhookCreated =
        Call::v1(Method::POST, &["webhooks", &id.to_string(), "rotate"]).body(&NoBody {});

    /// Sends a test event to a webhook and returns the attempt: `POST /v1/webhooks/:id/test`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the id is unknown; [`crate::Error::Rejected`] if the
    /// webhook is disabled.
    fn test(id: WebhookId) -> WebhookAttempt =
        Call::v1(Method::POST, &["webhooks", &id.to_string(), "test"]).body(&NoBody {});

    /// Sends a message again, now: `POST /v1/webhooks/:id/attempts/:attempt_id/redeliver`. The message may
    /// have been delivered, may have failed, or may be waiting for a retry.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if an id is unknown; [`crate::Error::Rejected`] if the
    /// webhook is disabled.
    fn redeliver(id: WebhookId, message: WebhookMessageId) -> () =
        Call::v1(
            Method::POST,
            &["webhooks", &id.to_string(), "attempts", &message.to_string(), "redeliver"],
        )
        .discard_response()
        .body(&NoBody {});

    /// Sends again, now, the messages that were created at `since` or later and that failed or wait for a
    /// retry: `POST /v1/webhooks/:id/recover`. If `more` of the response is true, the queue had no room for
    /// all of them: repeat the call later.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the id is unknown; [`crate::Error::Rejected`] if the
    /// webhook is disabled.
    fn recover(id: WebhookId, since: Timestamp) -> WebhookRecovered =
        Call::v1(Method::POST, &["webhooks", &id.to_string(), "recover"])
            .body(&RecoverWebhook { since: Some(since) });

    paged {
        /// One page of the webhooks: `GET /v1/webhooks`.
        ///
        /// # Errors
        /// [`crate::Error::Invalid`] if `limit` is not 1 to 1,000.
        fn list;

        /// All webhooks, starting with the page that the query selects.
        fn all;

        (query: &PageQuery) -> WebhookList =
            Call::v1(Method::GET, &["webhooks"]).query(query);
    }

    paged {
        /// One page of the messages to a webhook, each with the result of its last attempt:
        /// `GET /v1/webhooks/:id/attempts`.
        ///
        /// # Errors
        /// [`crate::Error::NotFound`] if the id is unknown.
        fn attempts;

        /// All messages to a webhook, each with the result of its last attempt. They start with the page
        /// that the query selects.
        fn all_attempts;

        (id: WebhookId, query: &PageQuery) -> WebhookAttemptList =
            Call::v1(Method::GET, &["webhooks", &id.to_string(), "attempts"]).query(query);
    }
}
