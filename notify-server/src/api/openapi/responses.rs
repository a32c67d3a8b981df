//! The responses of an endpoint: its statuses and their content.

use http::{Method, StatusCode};
use notify_core::ErrorBody;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::sections::{Example, add_examples};
use super::security::takes_idempotency_key;
use super::shape::{JSON, OtherResponse, reference};
use crate::api::path::{placeholder, segments};
use crate::api::pipeline::scopes::scope_of;
use crate::api::router::Endpoint;

const HTML: &str = "text/html";

/// The part of the API that an endpoint belongs to, which determines its error responses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Area {
    Api,
    Admin,
    Apps,
    Browsers,
    Inbound,
    Polls,
    Operations,
}

impl Area {
    fn of(template: &str) -> Self {
        match segments(template).next() {
            Some("v1") => Self::Api,
            Some("admin") => Self::Admin,
            Some("device") => Self::Apps,
            Some("web") => Self::Browsers,
            Some("hooks") => Self::Inbound,
            Some("polls") => Self::Polls,
            _ => Self::Operations,
        }
    }

    fn authenticates(self) -> bool {
        !matches!(self, Self::Polls | Self::Operations)
    }
}

/// The responses of an operation.
pub(super) fn of(route: &Endpoint, examples: &[Example]) -> Value {
    let mut responses = successes(route, examples);
    let area = Area::of(route.path);
    for status in error_statuses(route, area) {
        let (name, description) = shared_response(status);
        let response = if area == Area::Polls {
            json!({ "description": description, "content": { HTML: of_media_type(HTML) } })
        } else {
            json!({ "$ref": format!("#/components/responses/{name}") })
        };
        responses.insert(status.as_str().to_owned(), response);
    }
    Value::Object(responses)
}

fn successes(route: &Endpoint, examples: &[Example]) -> Map<String, Value> {
    let mut responses = Map::new();
    if let Some(shape) = route.docs.response {
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
    for other in route.docs.other_responses {
        let content: Map<String, Value> = other
            .media_types
            .iter()
            .map(|name| ((*name).to_owned(), of_media_type(name)))
            .collect();
        let mut response = json!({ "description": success_description(other.status) });
        if !content.is_empty() {
            response["content"] = Value::Object(content);
        }
        responses.insert(other.status.to_string(), response);
    }
    if route
        .docs
        .other_responses
        .iter()
        .any(|other| other.status == OtherResponse::NOT_MODIFIED.status)
    {
        for status in ["200", "304"] {
            responses[status]["headers"] = header("ETag");
        }
    }
    responses
}

/// A body that is not the JSON of a model.
fn of_media_type(media_type: &str) -> Value {
    let schema = match media_type {
        JSON => json!({ "type": "object" }),
        _ if media_type.starts_with("image/") => json!({ "type": "string", "format": "binary" }),
        _ => json!({ "type": "string" }),
    };
    json!({ "schema": schema })
}

fn success_description(status: u16) -> &'static str {
    match status {
        303 => "Redirect to the page",
        304 => "The client has the current version",
        _ => "Success",
    }
}

/// The error statuses of an endpoint.
fn error_statuses(route: &Endpoint, area: Area) -> Vec<StatusCode> {
    let has_body = matches!(route.method, Method::POST | Method::PUT | Method::PATCH);
    // An unknown inbound webhook gets the same 401 as a wrong signature. By contract, an unknown
    // poll is 400 on `GET /v1/polls/{id}`.
    let names_resource = segments(route.path).any(|segment| placeholder(segment).is_some())
        && area != Area::Inbound
        && route.path != "/v1/polls/{id}"
        && route.path != crate::api::handlers::web::SUBSCRIBE;
    let needs_playground =
        route.path.starts_with("/admin/v1/playground") && route.method != Method::POST;
    // Authentication failures and votes are rate limited.
    let is_rate_limited = area.authenticates() || (area == Area::Polls && has_body);
    let rows = [
        (StatusCode::BAD_REQUEST, true),
        (StatusCode::UNAUTHORIZED, area.authenticates()),
        (StatusCode::FORBIDDEN, scope_of(route).is_some()),
        // The query of a preview can name a device, and there may be no playground.
        (
            StatusCode::NOT_FOUND,
            names_resource || route.path == "/v1/notifications/preview" || needs_playground,
        ),
        (StatusCode::CONFLICT, takes_idempotency_key(route)),
        (StatusCode::PAYLOAD_TOO_LARGE, has_body),
        (StatusCode::TOO_MANY_REQUESTS, is_rate_limited),
        (StatusCode::INTERNAL_SERVER_ERROR, true),
        (StatusCode::SERVICE_UNAVAILABLE, route.path != "/healthz"),
    ];
    rows.into_iter().filter(|(_, can_occur)| *can_occur).map(|(status, _)| status).collect()
}

/// The name and description of the shared response of a status.
fn shared_response(status: StatusCode) -> (&'static str, &'static str) {
    match status {
        StatusCode::UNAUTHORIZED => (
            "Unauthorized",
            "The credentials are missing or invalid, or the application is suspended",
        ),
        StatusCode::FORBIDDEN => ("Forbidden", "The API key lacks the scope of this operation"),
        StatusCode::NOT_FOUND => ("NotFound", "A resource in the path or query does not exist"),
        StatusCode::CONFLICT => {
            ("Conflict", "The `Idempotency-Key` was already used for a request with another body")
        }
        StatusCode::PAYLOAD_TOO_LARGE => ("PayloadTooLarge", "The body exceeds the limit"),
        StatusCode::TOO_MANY_REQUESTS => ("TooManyRequests", "A rate limit is exceeded"),
        StatusCode::INTERNAL_SERVER_ERROR => ("InternalError", "Server error"),
        StatusCode::SERVICE_UNAVAILABLE => {
            ("Unavailable", "The server cannot process the request now; retry later")
        }
        _ => ("BadRequest", "The rules that the request violates"),
    }
}

/// The error responses that operations share.
pub(super) fn shared() -> Value {
    let statuses = [400, 401, 403, 404, 409, 413, 429, 500, 503];
    let mut shared = Map::new();
    for status in statuses.into_iter().filter_map(|status| StatusCode::from_u16(status).ok()) {
        let (name, description) = shared_response(status);
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
            "description": "Version for `If-None-Match`",
            "required": true,
            "schema": { "type": "string" },
        },
        "Idempotency-Replayed": {
            "description": "`true` if this is the response of an earlier request with the same key",
            "schema": { "type": "string", "enum": ["true"] },
        },
        "Retry-After": {
            "description": "Seconds after which the client may retry",
            "required": true,
            "schema": { "type": "integer", "minimum": 0 },
        },
        "WWW-Authenticate": {
            "description": "How to authenticate",
            "required": true,
            "schema": { "type": "string" },
        },
    })
}
