//! Webhooks: where an application wants to be told what happened, and what became of it.

mod event;

use serde::{Deserialize, Serialize};

pub use self::event::*;
use crate::json::{Body, Object};
use crate::query::Parameters;
use crate::request::request;
use crate::rules::REQUIRED;
use crate::violations::{Findings, Path, path};
use crate::{Parameter, ParameterForm, Query, Timestamp, Violations, WebhookId, WebhookMessageId};

/// A webhook as read back; its secrets are never shown again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Webhook {
    /// Id.
    pub id: WebhookId,
    /// Where its messages go.
    pub url: String,
    /// The types it is told of; empty is every type.
    pub events: Vec<WebhookEventType>,
    /// What it is for.
    pub description: Option<String>,
    /// Whether messages are sent.
    pub enabled: bool,
    /// Why the server disabled it: `gone` (it answered 410) or `failing` (nothing went well for 120
    /// hours).
    pub disabled_reason: Option<String>,
    /// Since when every attempt failed; null after one that went well.
    pub failing_since: Option<Timestamp>,
    /// Messages that wait for their next attempt.
    pub pending: u64,
    /// Events that were dropped since it was created, because the endpoint did not keep up.
    pub dropped: u64,
    /// Until when the secret before the last rotation signs too.
    pub previous_secret_until: Option<Timestamp>,
    /// Creation.
    pub created_at: Timestamp,
    /// Last change.
    pub updated_at: Timestamp,
}

/// Answer of `GET /v1/webhooks`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookList {
    /// One page, oldest first.
    pub webhooks: Vec<Webhook>,
    /// Where the next page begins; null at the end.
    pub next_cursor: Option<String>,
}

/// Answer of `POST /v1/webhooks` and `POST /v1/webhooks/:id/rotate`: the only time that the secret
/// is shown.
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

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum WebhookOutcome {
    /// It is to be tried, for the first time or again.
    Pending,
    /// The endpoint took it.
    Delivered,
    /// It is not tried any more.
    Failed,
}

impl WebhookOutcome {
    /// Every outcome.
    pub const ALL: [Self; 3] = [Self::Pending, Self::Delivered, Self::Failed];

    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
        }
    }
}

/// A message to a webhook, with what its last attempt came to. Nothing that the endpoint said is
/// shown beyond its status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookAttempt {
    /// Id of the message, which is its `webhook-id` on every attempt.
    pub id: WebhookMessageId,
    /// What it tells.
    pub event: WebhookEventType,
    /// What became of it.
    pub outcome: WebhookOutcome,
    /// How often it was tried, since it was made or redelivered.
    pub attempts: u32,
    /// Status of the last answer; null where there was none.
    pub status: Option<u16>,
    /// Why the last attempt failed.
    pub reason: Option<String>,
    /// How long the last attempt took, in milliseconds.
    pub latency_ms: Option<u64>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last tried.
    pub last_attempt_at: Option<Timestamp>,
    /// When it is tried next; null once it is over.
    pub next_attempt_at: Option<Timestamp>,
}

/// Answer of `POST /v1/webhooks/:id/recover`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookRecovered {
    /// How many messages are tried now.
    pub recovered: u64,
    /// Whether there are more, for which there was no room among those that wait: ask again.
    pub more: bool,
}

/// Answer of `GET /v1/webhooks/:id/attempts`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WebhookAttemptList {
    /// One page, newest first.
    pub attempts: Vec<WebhookAttempt>,
    /// Where the next page begins; null at the end.
    pub next_cursor: Option<String>,
}

// Reads and checks what callers ask of webhooks and of the event stream.

/// Longest description of a webhook, in characters.
pub const WEBHOOK_DESCRIPTION_CHARS_MAX: usize = 255;
/// Most types that a request lists; there are fewer.
pub const WEBHOOK_EVENTS_MAX: usize = 32;

/// Body of `POST /v1/webhooks`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreateWebhook {
    /// Where messages go: `https`, at a public address.
    pub url: String,
    /// The types to be told of; every type, those of later versions included, when absent or empty.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<schema::SubscribableEventType>>))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// A webhook that holds every rule but those about addresses, which are the server's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWebhook {
    /// Absolute url.
    pub url: String,
    /// The types; empty is every type.
    pub events: Vec<WebhookEventType>,
    /// What it is for.
    pub description: Option<String>,
}

/// Body of `PATCH /v1/webhooks/:id`; absent fields stay.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UpdateWebhook {
    /// Where messages go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The types to be told of; empty is every type.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<schema::SubscribableEventType>>))]
    pub events: Option<Vec<String>>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether messages are sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// A change of a webhook that holds every rule; `None` stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebhookChange {
    /// Absolute url.
    pub url: Option<String>,
    /// The types; empty is every type.
    pub events: Option<Vec<WebhookEventType>>,
    /// What it is for.
    pub description: Option<String>,
    /// Whether messages are sent.
    pub enabled: Option<bool>,
}

/// Body of `POST /v1/webhooks/:id/recover`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RecoverWebhook {
    /// Messages made since then, unix ms.
    #[cfg_attr(feature = "openapi", schema(value_type = i64, required = true))]
    pub since: Option<i64>,
}

/// Query of `GET /v1/events/stream`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamQuery {
    /// Goes on after the event with this id; `Last-Event-ID` outweighs it.
    pub cursor: Option<String>,
    /// Only these types; empty is every type.
    pub types: Vec<WebhookEventType>,
}

impl Query for StreamQuery {
    type Valid = Self;
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "cursor",
            ParameterForm::Text,
            "Goes on after the event with this id, as `Last-Event-ID` does",
        ),
        Parameter::new(
            "types",
            ParameterForm::Words { of: words, max: WEBHOOK_EVENTS_MAX },
            "Only these types, with commas between",
        ),
    ];

    fn parse(parameters: &[(String, String)], _now: Timestamp) -> Result<Self, Violations> {
        let mut parameters = Parameters::new(parameters, Self::PARAMETERS);
        let cursor = parameters.text("cursor").map(str::to_owned);
        let words = parameters.text("types").unwrap_or_default();
        let words: Vec<String> =
            words.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        let types = check_events(&path("types"), &words, &mut parameters.findings);
        parameters.finish(Some(Self { cursor, types }))
    }
}

request!(CreateWebhook => NewWebhook, Body::Required, read_create, check_create);
request!(UpdateWebhook => WebhookChange, Body::Required, read_update, check_update);
request!(RecoverWebhook => Timestamp, Body::Required, read_recover, check_recover);

fn read_recover(object: &mut Object<'_, '_>) -> RecoverWebhook {
    RecoverWebhook { since: object.instant("since") }
}

fn check_recover(
    request: RecoverWebhook,
    _now: Timestamp,
    findings: &mut Findings,
) -> Option<Timestamp> {
    if request.since.is_none() {
        findings.broken(&path("since"), REQUIRED);
    }
    findings.instant(&path("since"), request.since)
}

fn read_create(object: &mut Object<'_, '_>) -> CreateWebhook {
    CreateWebhook {
        url: object.required_string("url"),
        events: object.strings("events", WEBHOOK_EVENTS_MAX).unwrap_or_default(),
        description: object.string("description"),
    }
}

fn check_create(
    request: CreateWebhook,
    _now: Timestamp,
    findings: &mut Findings,
) -> Option<NewWebhook> {
    let url = findings.required_http_url(&path("url"), request.url);
    let events = check_events(&path("events"), &request.events, findings);
    let description = described(request.description, findings);
    Some(NewWebhook { url, events, description })
}

fn read_update(object: &mut Object<'_, '_>) -> UpdateWebhook {
    UpdateWebhook {
        url: object.string("url"),
        events: object.strings("events", WEBHOOK_EVENTS_MAX),
        description: object.string("description"),
        enabled: object.flag("enabled"),
    }
}

fn check_update(
    request: UpdateWebhook,
    _now: Timestamp,
    findings: &mut Findings,
) -> Option<WebhookChange> {
    let url = findings.http_url(&path("url"), request.url);
    let events = request.events.map(|events| check_events(&path("events"), &events, findings));
    let description = described(request.description, findings);
    Some(WebhookChange { url, events, description, enabled: request.enabled })
}

fn words() -> Vec<&'static str> {
    WebhookEventType::ALL.map(WebhookEventType::as_str).into()
}

fn described(description: Option<String>, findings: &mut Findings) -> Option<String> {
    findings.text_up_to(&path("description"), description, WEBHOOK_DESCRIPTION_CHARS_MAX)
}

/// The types that these words name, each once, in the order of [`WebhookEventType::ALL`].
fn check_events(at: &Path<'_>, words: &[String], findings: &mut Findings) -> Vec<WebhookEventType> {
    findings.at_most(at, words.len(), WEBHOOK_EVENTS_MAX, "types");
    let mut types: Vec<WebhookEventType> = words
        .iter()
        .take(WEBHOOK_EVENTS_MAX)
        .enumerate()
        .filter_map(|(place, word)| {
            let at = at.index(place);
            findings.word(&at, word, &WebhookEventType::ALL, WebhookEventType::as_str)
        })
        .collect();
    types.sort_unstable();
    types.dedup();
    types
}

/// The words that `events` may hold, for the API's description alone.
#[cfg(feature = "openapi")]
mod schema {
    use utoipa::openapi::{Object, RefOr, Schema, Type};

    use super::words;

    /// Types that a webhook may be limited to: all but `webhook.test`.
    pub(super) struct SubscribableEventType;

    impl utoipa::PartialSchema for SubscribableEventType {
        fn schema() -> RefOr<Schema> {
            Object::builder()
                .schema_type(Type::String)
                .enum_values(Some(words()))
                .description(Some("A type that a webhook may be limited to."))
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
    fn a_webhook_is_read_strictly() {
        let rows = [
            (r#"{"url":"https://a.example/x"}"#, None),
            (r#"{"url":"https://a.example/x","events":["poll.answered"]}"#, None),
            ("{}", Some("url: is required")),
            (r#"{"url":"ftp://a.example/x"}"#, Some("url: must be an absolute http or https url")),
            (
                r#"{"url":"https://a.example/x","events":["webhook.test"]}"#,
                Some(
                    "events[0]: must be one of notification.completed, notification.failed, \
                     device.unregistered, poll.answered, engagement.opened, engagement.clicked",
                ),
            ),
        ];
        for (body, rule) in rows {
            let outcome = CreateWebhook::parse(body.as_bytes(), NOW);
            let found = outcome.err().map(|broken| broken.as_slice().join("; "));
            assert_eq!(found.as_deref(), rule, "{body}");
        }
    }

    #[test]
    fn a_recovery_says_since_when() {
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
            let outcome = outcome.map_err(|broken| broken.as_slice().join("; "));
            assert_eq!(outcome, expected.map_err(str::to_owned), "{body}");
        }
    }

    #[test]
    fn types_are_kept_once_and_in_order() {
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
