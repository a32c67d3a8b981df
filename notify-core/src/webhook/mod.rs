//! Webhooks: endpoints of an application that receive events.

mod event;

use serde::{Deserialize, Serialize};

pub use self::event::*;
use crate::address::without_secrets;
use crate::field::{
    Flag, HttpUrl, Instant, Kind, List, Model, ModelFields, Required, Text, TextKind,
};
use crate::json::{BodyPresence, Value};
use crate::request::{Parameters, model, request};
#[cfg(feature = "openapi")]
use crate::schema::Schemas;
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
    pub struct CreateWebhook with CreateWebhookFields {
        /// Url that receives the messages: `https`, at a public address.
        pub url: String as HttpUrl,
        /// Types of events to receive; when absent or empty, all types, including those of later versions.
        pub events: Option<Vec<String>> as EventTypes,
        /// What the webhook is for.
        pub description: Option<String> as Text<WEBHOOK_DESCRIPTION_CHARS_MAX>,
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

impl Model for CreateWebhook {
    type Valid = NewWebhook;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<NewWebhook> {
        let CreateWebhookFields { url, events, description } = self.check_fields(at, validator)?;
        Some(NewWebhook { url, events: events.unwrap_or_default(), description })
    }
}

model! {
    /// Body of `PATCH /v1/webhooks/:id`. Absent fields keep their value.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct UpdateWebhook => #[derive(Debug, Clone, Default, PartialEq, Eq)] pub WebhookChange {
        /// Url that receives the messages.
        pub url: Option<String> as HttpUrl,
        /// Types of events to receive; all types when empty.
        pub events: Option<Vec<String>> as EventTypes => Option<Vec<WebhookEventType>>,
        /// What the webhook is for.
        pub description: Option<String> as Text<WEBHOOK_DESCRIPTION_CHARS_MAX>,
        /// Whether messages are sent.
        pub enabled: Option<bool> as Flag,
    }
}

request!(UpdateWebhook => WebhookChange, BodyPresence::Required);

model! {
    /// Body of `POST /v1/webhooks/:id/recover`.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct RecoverWebhook with RecoverWebhookFields {
        /// Recovers messages created at or after this time, unix ms. Required.
        pub since: Option<Timestamp> as Required<Instant>,
    }
}

request!(RecoverWebhook => Timestamp, BodyPresence::Required);

impl Model for RecoverWebhook {
    type Valid = Timestamp;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<Timestamp> {
        self.check_fields(at, validator)?.since
    }
}

/// The types of events that a webhook can subscribe to. Its value is without duplicates, in the order of their
/// declaration.
pub(crate) struct EventTypes;

/// The name of a type that a webhook can subscribe to: all except `webhook.test`.
struct EventTypeName;

impl TextKind for EventTypeName {
    type Valid = WebhookEventType;

    fn check_text(raw: &str, at: &Path<'_>, validator: &mut Validator) -> Option<WebhookEventType> {
        WebhookEventType::parse_subscribable(raw)
            .map_err(|unknown| validator.violation(at, unknown))
            .ok()
    }

    #[cfg(feature = "openapi")]
    fn text_schema(schemas: &mut Schemas) -> serde_json::Value {
        schemas.add_type::<schema::SubscribableEventType>()
    }
}

impl Kind for EventTypes {
    type Raw = Vec<String>;
    type Valid = Vec<WebhookEventType>;

    fn read(value: Value<'_, '_>) -> Option<Vec<String>> {
        List::<EventTypeName, 0, WEBHOOK_EVENTS_MAX>::read(value)
    }

    fn check(
        raw: &Vec<String>,
        at: &Path<'_>,
        validator: &mut Validator,
    ) -> Option<Vec<WebhookEventType>> {
        let mut types = List::<EventTypeName, 0, WEBHOOK_EVENTS_MAX>::check(raw, at, validator)?;
        types.sort_unstable();
        types.dedup();
        Some(types)
    }

    #[cfg(feature = "openapi")]
    fn schema(schemas: &mut Schemas) -> serde_json::Value {
        List::<EventTypeName, 0, WEBHOOK_EVENTS_MAX>::schema(schemas)
    }
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
        let types = EventTypes::check(&names, &path("types"), &mut parameters.validator);
        parameters.finish(types.map(|types| Self { cursor, types }))
    }
}

/// The schema of the elements of `events`.
#[cfg(feature = "openapi")]
mod schema {
    use utoipa::openapi::{Object, RefOr, Schema, Type};

    use super::WebhookEventType;

    /// A type that a webhook can subscribe to: all except `webhook.test`.
    pub(crate) struct SubscribableEventType;

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
