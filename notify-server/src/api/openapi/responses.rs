//! What a route answers: the statuses that it can give (B4), and what stands in each.

use http::{Method, StatusCode};
use notify_core::ErrorBody;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::JSON;
use super::reference;
use crate::api::endpoint::{Route, placeholder, segments};
use crate::api::openapi::takes_idempotency_key;
use crate::api::openapi::{Example, add_examples};

const HTML: &str = "text/html";

/// A success that is not JSON of a model.
#[derive(Clone, Copy)]
pub(crate) struct Answer {
    /// Its status.
    pub(crate) status: u16,
    /// Its media types; empty where it has no body.
    pub(crate) media_types: &'static [&'static str],
}

impl Answer {
    /// A body with status 200.
    pub(crate) const fn ok(media_types: &'static [&'static str]) -> Self {
        Self { status: 200, media_types }
    }

    /// The client has it already.
    pub(crate) const NOT_MODIFIED: Self = Self { status: 304, media_types: &[] };
    /// It is done, and the page that shows it is elsewhere.
    pub(crate) const SEE_OTHER: Self = Self { status: 303, media_types: &[] };
}

/// The part of the server that a route belongs to, which decides how it refuses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Area {
    Api,
    Admin,
    Browsers,
    Hooks,
    Polls,
    Beside,
}

impl Area {
    fn of(template: &str) -> Self {
        match segments(template).next() {
            Some("v1") => Self::Api,
            Some("admin") => Self::Admin,
            Some("web") => Self::Browsers,
            Some("hooks") => Self::Hooks,
            Some("polls") => Self::Polls,
            _ => Self::Beside,
        }
    }

    fn has_keys(self) -> bool {
        !matches!(self, Self::Polls | Self::Beside)
    }
}

/// The responses of an operation.
pub(super) fn of(route: &Route, examples: &[Example]) -> Value {
    let mut responses = successes(route, examples);
    let area = Area::of(route.template);
    for status in refusals(route, area) {
        let (name, description) = named(status);
        let response = if area == Area::Polls {
            json!({ "description": description, "content": { HTML: {} } })
        } else {
            json!({ "$ref": format!("#/components/responses/{name}") })
        };
        responses.insert(status.as_str().to_owned(), response);
    }
    Value::Object(responses)
}

fn successes(route: &Route, examples: &[Example]) -> Map<String, Value> {
    let mut responses = Map::new();
    if let Some(shape) = route.response {
        let mut content = json!({ "schema": shape.reference() });
        if shape.is::<notify_core::Success>() {
            content["example"] = json!({ "success": true });
        } else {
            add_examples(&mut content, examples);
        }
        let mut success = json!({ "description": "Success", "content": { JSON: content } });
        if takes_idempotency_key(route) {
            success["headers"] = header("Idempotency-Replayed");
        }
        responses.insert("200".to_owned(), success);
    }
    for answer in route.answers {
        let content: Map<String, Value> =
            answer.media_types.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
        let mut response = json!({ "description": described(answer.status) });
        if !content.is_empty() {
            response["content"] = Value::Object(content);
        }
        responses.insert(answer.status.to_string(), response);
    }
    if route.answers.iter().any(|answer| answer.status == Answer::NOT_MODIFIED.status) {
        for status in ["200", "304"] {
            responses[status]["headers"] = header("ETag");
        }
    }
    responses
}

fn described(status: u16) -> &'static str {
    match status {
        303 => "Done; the page shows it",
        304 => "The client has it already",
        _ => "Success",
    }
}

/// The statuses of a route that are no success.
fn refusals(route: &Route, area: Area) -> Vec<StatusCode> {
    let has_body = matches!(route.method, Method::POST | Method::PUT | Method::PATCH);
    // What the path of a hook names is not told apart from a wrong signature; a poll that is not
    // there is 400 where it is read with a key (spec 4.6).
    let names_something = segments(route.template).any(|segment| placeholder(segment).is_some())
        && area != Area::Hooks
        && route.template != "/v1/polls/{id}"
        && route.template != crate::api::handlers::web::SUBSCRIBE;
    // Failures to prove who calls are counted, and so are the votes of strangers.
    let has_rate = area.has_keys() || (area == Area::Polls && has_body);
    let rows = [
        (StatusCode::BAD_REQUEST, true),
        (StatusCode::UNAUTHORIZED, area.has_keys()),
        (StatusCode::NOT_FOUND, names_something),
        (StatusCode::CONFLICT, takes_idempotency_key(route)),
        (StatusCode::PAYLOAD_TOO_LARGE, has_body),
        (StatusCode::TOO_MANY_REQUESTS, has_rate),
        (StatusCode::INTERNAL_SERVER_ERROR, true),
        (StatusCode::SERVICE_UNAVAILABLE, route.template != "/healthz"),
    ];
    rows.into_iter().filter(|(_, can)| *can).map(|(status, _)| status).collect()
}

/// The name of the shared response of a status, and what it means.
fn named(status: StatusCode) -> (&'static str, &'static str) {
    match status {
        StatusCode::UNAUTHORIZED => (
            "Unauthorized",
            "The credentials are missing or invalid, or the application is suspended",
        ),
        StatusCode::NOT_FOUND => {
            ("NotFound", "Something that the path or query names does not exist")
        }
        StatusCode::CONFLICT => ("Conflict", "The `Idempotency-Key` was used with another body"),
        StatusCode::PAYLOAD_TOO_LARGE => ("PayloadTooLarge", "The body exceeds the limit"),
        StatusCode::TOO_MANY_REQUESTS => ("TooManyRequests", "A rate limit is exceeded"),
        StatusCode::INTERNAL_SERVER_ERROR => ("InternalError", "A defect of the server"),
        StatusCode::SERVICE_UNAVAILABLE => {
            ("Unavailable", "The server cannot process it now; send the request again later")
        }
        _ => ("BadRequest", "Every rule that the request violates"),
    }
}

/// The responses that operations share.
pub(super) fn shared() -> Value {
    let statuses = [400, 401, 404, 409, 413, 429, 500, 503];
    let mut shared = Map::new();
    for status in statuses.into_iter().filter_map(|status| StatusCode::from_u16(status).ok()) {
        let (name, description) = named(status);
        let mut response = json!({
            "description": description,
            "content": { JSON: { "schema": reference(&ErrorBody::name()) } },
        });
        match status {
            StatusCode::UNAUTHORIZED => response["headers"] = header("WWW-Authenticate"),
            StatusCode::TOO_MANY_REQUESTS => response["headers"] = header("Retry-After"),
            _ => {}
        }
        shared.insert(name.to_owned(), response);
    }
    Value::Object(shared)
}

fn header(name: &str) -> Value {
    json!({ name: { "$ref": format!("#/components/headers/{name}") } })
}

/// The headers that responses refer to.
pub(super) fn headers() -> Value {
    json!({
        "ETag": {
            "description": "What `If-None-Match` compares with",
            "required": true,
            "schema": { "type": "string" },
        },
        "Idempotency-Replayed": {
            "description": "`true` where the answer is that of an earlier request with the same key",
            "schema": { "type": "string", "enum": ["true"] },
        },
        "Retry-After": {
            "description": "After how many seconds the request can be sent again",
            "required": true,
            "schema": { "type": "integer", "minimum": 0 },
        },
        "WWW-Authenticate": {
            "description": "How the caller can authenticate",
            "required": true,
            "schema": { "type": "string" },
        },
    })
}
