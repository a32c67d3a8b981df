//! Webhooks: the list, and one webhook with its messages.

use askama::Template;
use http::Method;
use notify_core::{
    CreateWebhook, RecoverWebhook, Success, UpdateWebhook, Webhook, WebhookAttempt,
    WebhookAttemptList, WebhookCreated, WebhookEventType, WebhookList, WebhookOutcome,
    WebhookRecovered,
};
use warp::reply::Response;

use crate::api::console::calls::{AppScope, encoded};
use crate::api::console::form::{Form, new_key};
use crate::api::console::page::base_of;
use crate::api::console::page::{Layout, redirect, show};
use crate::api::console::problems::Problems;
use crate::api::console::screen::{action, screen};
use crate::api::console::visit::Visit;
use crate::api::error::ApiError;
use crate::api::router::Endpoint;

const HOUR_MS: i64 = 3_600_000;

pub(super) fn routes() -> Vec<Endpoint> {
    vec![
        screen("/console/apps/{app}/webhooks", list),
        action("/console/apps/{app}/webhooks", create),
        screen("/console/apps/{app}/webhooks/{id}", webhook),
        action("/console/apps/{app}/webhooks/{id}", update),
        action("/console/apps/{app}/webhooks/{id}/enabled", set_enabled),
        action("/console/apps/{app}/webhooks/{id}/test", test),
        // Loading the page with the new secret again leads to the webhook.
        screen("/console/apps/{app}/webhooks/{id}/rotate", after_rotation),
        action("/console/apps/{app}/webhooks/{id}/rotate", rotate),
        action("/console/apps/{app}/webhooks/{id}/recover", recover),
        action("/console/apps/{app}/webhooks/{id}/delete", delete),
        action("/console/apps/{app}/webhooks/{id}/messages/{message}/redeliver", redeliver),
    ]
}

/// The fields of a webhook in a form.
struct Fields {
    url: String,
    description: String,
    events: Vec<String>,
}

impl Fields {
    fn of(form: &Form) -> Self {
        Self {
            url: form.text("url").to_owned(),
            description: form.text("description").to_owned(),
            events: form.all("events").map(str::to_owned).collect(),
        }
    }

    fn has(&self, event: &str) -> bool {
        self.events.iter().any(|name| name == event)
    }

    fn optional_description(&self) -> Option<String> {
        Some(self.description.clone()).filter(|text| !text.is_empty())
    }
}

/// The state of a webhook as a badge: its text and its class.
fn state_of(webhook: &Webhook) -> (String, &'static str) {
    match (&webhook.disabled_reason, webhook.enabled, webhook.failing_since) {
        (Some(reason), _, _) => (format!("disabled: {reason}"), "bad"),
        (None, false, _) => ("disabled".to_owned(), ""),
        (None, true, Some(_)) => ("failing".to_owned(), "bad"),
        (None, true, None) => ("enabled".to_owned(), "good"),
    }
}

struct Row {
    state: String,
    tone: &'static str,
    webhook: Webhook,
}

impl Row {
    fn of(webhook: Webhook) -> Self {
        let (state, tone) = state_of(&webhook);
        Self { state, tone, webhook }
    }
}

#[derive(Template)]
#[template(path = "webhooks.html")]
struct List {
    layout: Layout,
    base: String,
    rows: Vec<Row>,
    next: Option<String>,
    key: String,
    fields: Fields,
    event_types: &'static [&'static str],
    /// Whether the server sends to addresses such as 127.0.0.1.
    allows_private: bool,
    problems: Problems,
}

async fn list(visit: Visit) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let fields = Fields::of(&Form::default());
    show(&list_page(&visit, &scope, fields, Problems::default()).await?)
}

async fn list_page(
    visit: &Visit,
    scope: &AppScope,
    fields: Fields,
    problems: Problems,
) -> Result<List, ApiError> {
    let layout = visit.app_layout(scope, "Webhooks", "Webhooks").await?;
    let path = format!("/v1/webhooks?cursor={}", encoded(&visit.query("cursor")?));
    let page: WebhookList = visit.get(scope, &path).await?;
    Ok(List {
        base: base_of(&layout, scope),
        layout,
        rows: page.webhooks.into_iter().map(Row::of).collect(),
        next: page.next_cursor,
        key: new_key(),
        fields,
        event_types: WebhookEventType::SUBSCRIBABLE_NAMES,
        allows_private: visit.ctx.api.config.allow_private_networks,
        problems,
    })
}

async fn create(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let fields = Fields::of(&form);
    let request = CreateWebhook {
        url: fields.url.clone(),
        events: Some(fields.events.clone()),
        description: fields.optional_description(),
    };
    match visit.change(&scope, Method::POST, "/v1/webhooks", &request, form.key()).await {
        Ok(WebhookCreated { id, secret }) => {
            let page = page_of(&visit, &scope, &id.to_string()).await?;
            show(&WebhookPage { secret: Some(Secret { value: secret, is_new: false }), ..page })
        }
        Err(error) => show(&list_page(&visit, &scope, fields, Problems::of(error)?).await?),
    }
}

#[derive(Template)]
#[template(path = "webhook.html")]
struct WebhookPage {
    layout: Layout,
    base: String,
    path_id: String,
    row: Row,
    fields: Fields,
    event_types: &'static [&'static str],
    messages: Vec<Message>,
    next: Option<String>,
    is_first: bool,
    has_pending: bool,
    key: String,
    /// The secret, which only the response to its creation shows.
    secret: Option<Secret>,
    /// The result of a test.
    tested: Option<Message>,
    problems: Problems,
}

/// A secret that was just created.
struct Secret {
    value: String,
    /// Whether it replaces an earlier one.
    is_new: bool,
}

/// A message of a webhook.
struct Message {
    attempt: WebhookAttempt,
}

impl Message {
    fn tone(&self) -> &'static str {
        match self.attempt.outcome {
            WebhookOutcome::Delivered => "good",
            WebhookOutcome::Pending => "busy",
            WebhookOutcome::Failed => "bad",
        }
    }

    /// Why the last attempt failed, in words.
    fn reason(&self) -> Option<&str> {
        let reason = self.attempt.reason.as_deref()?;
        Some(match reason {
            "status" => "did not answer with a 2xx status",
            "gone" => "answered that it is gone",
            "redirected" => "answered with a redirect, which is not followed",
            "timeout" => "did not answer in time",
            "connect_failed" => "could not be reached",
            "proxy_failed" => {
                "was not reached: this server's egress proxy refused the connection or could not be reached"
            }
            "connection_cut" => "closed the connection",
            "address_not_allowed" => "has an address that the server does not allow",
            "secret_cannot_be_opened" => "has a secret that the server cannot read; rotate it",
            other => other.strip_prefix("tls_failed: ").unwrap_or(other),
        })
    }

    /// What the receiver answered, such as `200 in 12 ms`.
    fn answer(&self) -> String {
        let status = match (self.attempt.status, self.attempt.attempts) {
            (Some(status), _) => status.to_string(),
            (None, 0) => return "not attempted yet".to_owned(),
            (None, _) => "no answer".to_owned(),
        };
        match self.attempt.latency_ms {
            Some(latency) => format!("{status} in {latency} ms"),
            None => status,
        }
    }
}

async fn webhook(visit: Visit) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let id = visit.ctx.path_param("id")?.into_owned();
    show(&page_of(&visit, &scope, &id).await?)
}

/// The path of the webhook's endpoint in the API.
fn api_path(visit: &Visit) -> Result<String, ApiError> {
    Ok(format!("/v1/webhooks/{}", encoded(&visit.ctx.path_param("id")?)))
}

async fn page_of(visit: &Visit, scope: &AppScope, id: &str) -> Result<WebhookPage, ApiError> {
    let layout = visit.app_layout(scope, "Webhook", "Webhooks").await?;
    let path_id = encoded(id);
    let webhook: Webhook = visit.get(scope, &format!("/v1/webhooks/{path_id}")).await?;
    let cursor = visit.query("cursor")?;
    let path = format!("/v1/webhooks/{path_id}/attempts?cursor={}", encoded(&cursor));
    let page: WebhookAttemptList = visit.get(scope, &path).await?;
    let fields = Fields {
        url: webhook.url.clone(),
        description: webhook.description.clone().unwrap_or_default(),
        events: webhook.events.iter().map(|event| event.as_str().to_owned()).collect(),
    };
    Ok(WebhookPage {
        base: base_of(&layout, scope),
        layout,
        path_id,
        has_pending: webhook.pending > 0 && webhook.enabled,
        row: Row::of(webhook),
        fields,
        event_types: WebhookEventType::SUBSCRIBABLE_NAMES,
        messages: page.attempts.into_iter().map(|attempt| Message { attempt }).collect(),
        next: page.next_cursor,
        is_first: cursor.is_empty(),
        key: new_key(),
        secret: None,
        tested: None,
        problems: Problems::default(),
    })
}

/// The page of the webhook with the problems of an action.
async fn refused(
    visit: &Visit,
    scope: &AppScope,
    error: ApiError,
) -> Result<WebhookPage, ApiError> {
    let problems = Problems::of(error)?;
    let id = visit.ctx.path_param("id")?.into_owned();
    Ok(WebhookPage { problems, ..page_of(visit, scope, &id).await? })
}

async fn update(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let (path, fields) = (api_path(&visit)?, Fields::of(&form));
    let change = UpdateWebhook {
        url: Some(fields.url.clone()),
        events: Some(fields.events.clone()),
        description: Some(fields.description.clone()),
        enabled: None,
    };
    match visit.change(&scope, Method::PATCH, &path, &change, None).await {
        Ok(Success { .. }) => {
            let id = encoded(&visit.ctx.path_param("id")?);
            Ok(redirect(&format!("{id}?done=saved")))
        }
        Err(error) => show(&WebhookPage { fields, ..refused(&visit, &scope, error).await? }),
    }
}

/// The response to an action on the webhook's page. `target` is where the browser goes after success.
async fn after<T>(
    visit: &Visit,
    scope: &AppScope,
    result: Result<T, ApiError>,
    target: &str,
) -> Result<Response, ApiError> {
    match result {
        Ok(_) => Ok(redirect(target)),
        Err(error) => show(&refused(visit, scope, error).await?),
    }
}

async fn set_enabled(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let enabled = Some(form.text("enabled") == "true");
    let change = UpdateWebhook { enabled, ..UpdateWebhook::default() };
    let path = api_path(&visit)?;
    let result = visit.change::<Success>(&scope, Method::PATCH, &path, &change, None).await;
    let id = encoded(&visit.ctx.path_param("id")?);
    after(&visit, &scope, result, &format!("../{id}?done=saved")).await
}

async fn test(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let path = format!("{}/test", api_path(&visit)?);
    match visit.change(&scope, Method::POST, &path, &(), form.key()).await {
        Ok(attempt) => {
            let id = visit.ctx.path_param("id")?.into_owned();
            let page = page_of(&visit, &scope, &id).await?;
            show(&WebhookPage { tested: Some(Message { attempt }), ..page })
        }
        Err(error) => show(&refused(&visit, &scope, error).await?),
    }
}

async fn rotate(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let path = format!("{}/rotate", api_path(&visit)?);
    match visit.change(&scope, Method::POST, &path, &(), form.key()).await {
        Ok(WebhookCreated { id, secret }) => {
            let page = page_of(&visit, &scope, &id.to_string()).await?;
            show(&WebhookPage { secret: Some(Secret { value: secret, is_new: true }), ..page })
        }
        Err(error) => show(&refused(&visit, &scope, error).await?),
    }
}

async fn after_rotation(visit: Visit) -> Result<Response, ApiError> {
    Ok(redirect(&format!("../{}", encoded(&visit.ctx.path_param("id")?))))
}

async fn recover(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let hours: i64 = form.text("hours").parse().unwrap_or(1);
    let since = visit.ctx.received_at.plus_ms(-hours.clamp(1, 24 * 365) * HOUR_MS);
    let request = RecoverWebhook { since: Some(since) };
    let path = format!("{}/recover", api_path(&visit)?);
    let result: Result<WebhookRecovered, ApiError> =
        visit.change(&scope, Method::POST, &path, &request, form.key()).await;
    let id = encoded(&visit.ctx.path_param("id")?);
    let done = match &result {
        Ok(recovered) if recovered.recovered == 0 => "nothing-recovered",
        Ok(_) | Err(_) => "recovered",
    };
    after(&visit, &scope, result, &format!("../{id}?done={done}")).await
}

/// Sends a message again. In the API, an "attempt" of a webhook is a message with its last attempt; its id
/// is the message's id.
async fn redeliver(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let message = encoded(&visit.ctx.path_param("message")?);
    let path = format!("{}/attempts/{message}/redeliver", api_path(&visit)?);
    let result = visit.change::<Success>(&scope, Method::POST, &path, &(), form.key()).await;
    let id = encoded(&visit.ctx.path_param("id")?);
    after(&visit, &scope, result, &format!("../../../{id}?done=redelivered")).await
}

async fn delete(visit: Visit, _: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let path = api_path(&visit)?;
    let result = visit.change::<Success>(&scope, Method::DELETE, &path, &(), None).await;
    after(&visit, &scope, result, "../../webhooks?done=deleted").await
}
