//! Webhooks: endpoints of an application that receive events.

mod event;

use serde::{Deserialize, Serialize};

pub use self::event::*;
use crate::address::without_secrets;
use crate::json::BodyPresence;
use crate::request::Parameters;
use crate::request::{model, request};
use crate::violations::REQUIRED;
use crate::violations::{Path, Validator, path};
use crate::wire_enum::wire_enum;
use crate::{Parameter, ParameterForm, Query, Timestamp, Violations, WebhookId, WebhookMessageId};

/// A webhook in a response, without its secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Webhook {
    /// Id.
    pub id: WebhookId,
    /// Url that receives the messages.
    pub url: String,
    /// Types of events; all types when empty.
    pub events: Vec<WebhookEventType>,
    /// What the webhook is for.
    pub description: Option<String>,
    /// Whether messages are sent.
    pub enabled: bool,
    /// Why the server disabled it: `gone` (the endpoint answered 410) or `failing` (no attempt succeeded
    /// for 120 hours).
    pub disabled_reason: Option<String>,
    /// Since when all attempts have failed, unix ms; null after a successful one.
    pub failing_since: Option<Timestamp>,
    /// Number of messages that wait for their next attempt.
    pub pending: u64,
    /// Number of events dropped since its creation because too many messages were waiting.
    pub dropped: u64,
    /// Until when messages are also signed with the previous secret, unix ms.
    pub previous_secret_until: Option<Timestamp>,
    /// Time of creation, unix ms.
    pub created_at: Timestamp,
    /// Time of the last change, unix ms.
    pub updated_at: Timestamp,
}

impl Webhook {
    /// The webhook without the secrets in its url, for a reader who may not have them.
    #[must_use]
    pub fn without_secrets(self) -> Self {
        Self { url: without_secrets(&self.url), ..self }
    }
}

/// Answer of `GET /v1/webhooks`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookList {
    /// One page, oldest first.
    pub webhooks: Vec<Webhook>,
    /// `cursor` of the next page; null on the last one.
    pub next_cursor: Option<String>,
}

/// Answer of `POST /v1/webhooks` and `POST /v1/webhooks/:id/rotate`. The secret is shown only here.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookCreated {
    /// Id of the webhook.
    pub id: WebhookId,
    /// The secret: `whsec_` and the base64 of 32 random bytes.
    pub secret: String,
}

impl std::fmt::Debug for WebhookCreated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebhookCreated").field("id", &self.id).finish_non_exhaustive()
    }
}

wire_enum! {
    /// Outcome of a message.
    pub enum WebhookOutcome {
        /// Not delivered yet; it will be attempted, for the first time or again.
        Pending = "pending",
        /// The endpoint accepted it.
        Delivered = "delivered",
        /// Not delivered; it is not attempted again.
        Failed = "failed",
    }
}

/// A message to a webhook, with the result of its last attempt. Of the endpoint's answer, only the
/// status is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookAttempt {
    /// Id of the message: its `webhook-id` header on every attempt.
    pub id: WebhookMessageId,
    /// Type of the event.
    pub event: WebhookEventType,
    /// Outcome.
    pub outcome: WebhookOutcome,
    /// Number of attempts since it was created or last redelivered.
    pub attempts: u32,
    /// HTTP status of the last answer; null if there was none.
    pub status: Option<u16>,
    /// Why the last attempt failed.
    pub reason: Option<String>,
    /// Duration of the last attempt, in milliseconds.
    pub latency_ms: Option<u64>,
    /// When the message was created, unix ms.
    pub created_at: Timestamp,
    /// When the last attempt was made, unix ms.
    pub last_attempt_at: Option<Timestamp>,
    /// When the next attempt is due, unix ms; null unless pending.
    pub next_attempt_at: Option<Timestamp>,
}

/// Answer of `POST /v1/webhooks/:id/recover`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookRecovered {
    /// Number of messages that are attempted again.
    pub recovered: u64,
    /// Whether there are more messages, for which the queue had no room. Repeat the request later.
    pub more: bool,
}

/// Answer of `GET /v1/webhooks/:id/attempts`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookAttemptList {
    /// One page, newest first.
    pub attempts: Vec<WebhookAttempt>,
    /// `cursor` of the next page; null on the last one.
    pub next_cursor: Option<String>,
}

/// Longest description of a webhook, in characters.
pub const WEBHOOK_DESCRIPTION_CHARS_MAX: usize = 255;
/// Most types in one request; more than there are.
pub const WEBHOOK_EVENTS_MAX: usize = 32;

model! {
    /// Body of `POST /v1/webhooks`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct CreateWebhook {
        /// Url that receives the messages: `https`, at a public address.
        pub url: String,
        /// Types of events to receive; when absent or empty, all types, including those of later versions.
        #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<schema::SubscribableEventType>>))]
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pub events: Vec<String> =
            |object| object.list("events", WEBHOOK_EVENTS_MAX).unwrap_or_default(),
        /// What the webhook is for.
        pub description: Option<String>,
    }
}

/// The validated form of [`CreateWebhook`]. Whether `http`, the port and the address are allowed depends on
/// the server's configuration, so the server checks them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWebhook {
    /// Absolute `http` or `https` url.
    pub url: String,
    /// Types of events; all types when empty.
    pub events: Vec<WebhookEventType>,
    /// What the webhook is for.
    pub description: Option<String>,
}

request!(CreateWebhook => NewWebhook, BodyPresence::Required);

impl CreateWebhook {
    fn check(self, _now: Timestamp, validator: &mut Validator) -> Option<NewWebhook> {
        let url = validator.required_http_url(&path("url"), self.url);
        let events = check_events(&path("events"), &self.events, validator);
        let description = check_description(self.description, validator);
        Some(NewWebhook { url, events, description })
    }
}

model! {
    /// Body of `PATCH /v1/webhooks/:id`. Absent fields keep their value.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct UpdateWebhook {
        /// Url that receives the messages.
        pub url: Option<String>,
        /// Types of events to receive; all types when empty.
        #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<schema::SubscribableEventType>>))]
        pub events: Option<Vec<String>> = |object| object.list("events", WEBHOOK_EVENTS_MAX),
        /// What the webhook is for.
        pub description: Option<String>,
        /// Whether messages are sent.
        pub enabled: Option<bool>,
    }
}

/// The validated form of [`UpdateWebhook`]; `None` keeps the value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebhookChange {
    /// Absolute `http` or `https` url.
    pub url: Option<String>,
    /// Types of events; all types when empty.
    pub events: Option<Vec<WebhookEventType>>,
    /// What the webhook is for.
    pub description: Option<String>,
    /// Whether messages are sent.
    pub enabled: Option<bool>,
}

request!(UpdateWebhook => WebhookChange, BodyPresence::Required);

impl UpdateWebhook {
    fn check(self, _now: Timestamp, validator: &mut Validator) -> Option<WebhookChange> {
        let url = validator.http_url(&path("url"), self.url);
        let events = self.events.map(|events| check_events(&path("events"), &events, validator));
        let description = check_description(self.description, validator);
        Some(WebhookChange { url, events, description, enabled: self.enabled })
    }
}

model! {
    /// Body of `POST /v1/webhooks/:id/recover`.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct RecoverWebhook {
        /// Recovers messages created at or after this time, unix ms. Required.
        #[cfg_attr(feature = "openapi", schema(value_type = i64, required = true))]
        pub since: Option<i64> = |object| object.instant("since"),
    }
}

request!(RecoverWebhook => Timestamp, BodyPresence::Required);

impl RecoverWebhook {
    fn check(self, _now: Timestamp, validator: &mut Validator) -> Option<Timestamp> {
        if self.since.is_none() {
            validator.violation(&path("since"), REQUIRED);
        }
        validator.instant(&path("since"), self.since)
    }
}

fn check_description(description: Option<String>, validator: &mut Validator) -> Option<String> {
    validator.text_up_to(&path("description"), description, WEBHOOK_DESCRIPTION_CHARS_MAX)
}

/// Checks the names of event types. Returns the types without duplicates, in the order of their
/// declaration.
fn check_events(
    at: &Path<'_>,
    names: &[String],
    validator: &mut Validator,
) -> Vec<WebhookEventType> {
    validator.max_len(at, names.len(), WEBHOOK_EVENTS_MAX, "types");
    let mut types = Vec::new();
    for (index, name) in names.iter().take(WEBHOOK_EVENTS_MAX).enumerate() {
        match WebhookEventType::parse_subscribable(name) {
            Ok(kind) => types.push(kind),
            Err(_) if name.is_empty() => validator.violation(&at.index(index), REQUIRED),
            Err(unknown) => validator.violation(&at.index(index), unknown),
        }
    }
    types.sort_unstable();
    types.dedup();
    types
}

/// Query of `GET /v1/events/stream`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamQuery {
    /// Id of the event after which the stream continues. The `Last-Event-ID` header takes precedence.
    pub cursor: Option<String>,
    /// Types of events; all types when empty.
    pub types: Vec<WebhookEventType>,
}

impl Query for StreamQuery {
    type Valid = Self;
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "cursor",
            ParameterForm::Text,
            "Id of the event after which the stream continues, like `Last-Event-ID`",
        ),
        Parameter::new(
            "types",
            ParameterForm::ListOf {
                names: WebhookEventType::SUBSCRIBABLE_NAMES,
                max: WEBHOOK_EVENTS_MAX,
            },
            "Only events of these types, separated by commas",
        ),
    ];

    fn parse(parameters: &[(String, String)], _now: Timestamp) -> Result<Self, Violations> {
        let mut parameters = Parameters::new(parameters, Self::PARAMETERS);
        let cursor = parameters.text("cursor").map(str::to_owned);
        let names = parameters.non_empty("types");
        let names: Vec<String> =
            names.into_iter().flat_map(|names| names.split(',')).map(str::to_owned).collect();
        let types = check_events(&path("types"), &names, &mut parameters.validator);
        parameters.finish(Some(Self { cursor, types }))
    }
}

/// The schema of the elements of `events`.
#[cfg(feature = "openapi")]
mod schema {
    use utoipa::openapi::{Object, RefOr, Schema, Type};

    use super::WebhookEventType;

    /// A type that a webhook can subscribe to: all except `webhook.test`.
    pub(super) struct SubscribableEventType;

    impl utoipa::PartialSchema for SubscribableEventType {
        fn schema() -> RefOr<Schema> {
            Object::builder()
                .schema_type(Type::String)
                .enum_values(Some(WebhookEventType::SUBSCRIBABLE_NAMES.iter().copied()))
                .description(Some("A type of events that a webhook can subscribe to."))
                .into()
        }
    }

    impl utoipa::ToSchema for SubscribableEventType {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Request;

    const NOW: Timestamp = Timestamp(0);

    #[test]
    fn webhooks_are_checked() {
        let rows = [
            (r#"{"url":"https://a.example/x"}"#, None),
            (r#"{"url":"https://a.example/x","events":["poll.answered"]}"#, None),
            ("{}", Some("url: is required")),
            (r#"{"url":"ftp://a.example/x"}"#, Some("url: must be an absolute http or https url")),
            (
                r#"{"url":"https://a.example/x","events":["webhook.test"]}"#,
                Some(
                    "events[0]: must be one of notification.completed, notification.failed, notification.paused, \
                     device.unregistered, poll.answered, engagement.opened, engagement.clicked",
                ),
            ),
        ];
        for (body, rule) in rows {
            let outcome = CreateWebhook::parse(body.as_bytes(), NOW);
            let violations = outcome.err().map(|violations| violations.as_slice().join("; "));
            assert_eq!(violations.as_deref(), rule, "{body}");
        }
    }

    #[test]
    fn recover_requires_since() {
        let rows = [
            (r#"{"since":1795242504724}"#, Ok(Timestamp(1_795_242_504_724))),
            ("{}", Err("since: is required")),
            (r#"{"since":null}"#, Err("since: is required")),
            (
                r#"{"since":99999999999999999}"#,
                Err("since: must be unix milliseconds within the years 1970 to 9999"),
            ),
            (r#"{"until":1}"#, Err("until: unknown field; since: is required")),
        ];
        for (body, expected) in rows {
            let outcome = RecoverWebhook::parse(body.as_bytes(), NOW);
            let outcome = outcome.map_err(|violations| violations.as_slice().join("; "));
            assert_eq!(outcome, expected.map_err(str::to_owned), "{body}");
        }
    }

    #[test]
    fn event_types_are_deduplicated_and_sorted() {
        let body = r#"{"events":["engagement.opened","poll.answered","engagement.opened"]}"#;
        let change = UpdateWebhook::parse(body.as_bytes(), NOW).unwrap();
        let expected = vec![WebhookEventType::PollAnswered, WebhookEventType::EngagementOpened];
        assert_eq!(change.events, Some(expected));
        let query = [("types".to_owned(), "poll.answered,engagement.clicked".to_owned())];
        let query = StreamQuery::parse(&query, NOW).unwrap();
        assert_eq!(query.types.len(), 2);
        assert!(StreamQuery::parse(&[("types".to_owned(), "nonsense".to_owned())], NOW).is_err());
    }
}
