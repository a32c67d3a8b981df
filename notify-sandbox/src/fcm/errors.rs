//! Google's error model: HTTP status, canonical status, and the details by which a sender tells
//! a dead token from a wrong project or a wrong message.

use bytes::Bytes;
use http::Response;
use serde_json::{Value, json};

use crate::sandbox::answer::Answer;
use crate::sandbox::exchange::{json, respond, status};

const FCM_ERROR: &str = "type.googleapis.com/google.firebase.fcm.v1.FcmError";
const BAD_REQUEST: &str = "type.googleapis.com/google.rpc.BadRequest";
const QUOTA_FAILURE: &str = "type.googleapis.com/google.rpc.QuotaFailure";

/// The message of a malformed or foreign registration token.
pub(super) const INVALID_TOKEN: &str =
    "The registration token is not a valid FCM registration token";

const UNAUTHENTICATED: &str = "Request had invalid authentication credentials. Expected OAuth 2 \
     access token, login cookie or other valid authentication credential. See \
     https://developers.google.com/identity/sign-in/web/devconsole-project.";

/// The failures that can be asked for: name, HTTP status, canonical status, whether the name is
/// the `errorCode` of an `FcmError` detail, message. The first of a status is its usual one.
const WANTED: [(&str, u16, &str, bool, &str); 15] = [
    ("INVALID_ARGUMENT", 400, "INVALID_ARGUMENT", true, INVALID_TOKEN),
    (
        "BAD_REQUEST",
        400,
        "INVALID_ARGUMENT",
        false,
        "Invalid value at 'message.data[0].value' (TYPE_STRING), 12",
    ),
    ("UNAUTHENTICATED", 401, "UNAUTHENTICATED", false, UNAUTHENTICATED),
    (
        "THIRD_PARTY_AUTH_ERROR",
        401,
        "UNAUTHENTICATED",
        true,
        "Auth error from APNS or Web Push Service",
    ),
    ("SENDER_ID_MISMATCH", 403, "PERMISSION_DENIED", true, "SenderId mismatch"),
    (
        "PERMISSION_DENIED",
        403,
        "PERMISSION_DENIED",
        false,
        "Permission 'cloudmessaging.messages.create' denied on resource (or it may not exist).",
    ),
    ("UNREGISTERED", 404, "NOT_FOUND", true, "Requested entity was not found."),
    ("NOT_FOUND", 404, "NOT_FOUND", false, "Requested entity was not found."),
    ("QUOTA_EXCEEDED", 429, "RESOURCE_EXHAUSTED", true, "Quota exceeded for the project."),
    (
        "DEVICE_QUOTA_EXCEEDED",
        429,
        "RESOURCE_EXHAUSTED",
        false,
        "Message rate for the device exceeded.",
    ),
    ("INTERNAL", 500, "INTERNAL", true, "Internal error encountered."),
    ("UNSPECIFIED_ERROR", 500, "UNKNOWN", true, "Unknown error."),
    ("UNAVAILABLE", 503, "UNAVAILABLE", true, "The service is currently unavailable."),
    ("EMPTY", 503, "UNAVAILABLE", false, ""),
    (
        "HTML",
        502,
        "UNAVAILABLE",
        false,
        "<!DOCTYPE html><title>Error 502 (Server Error)!!1</title>",
    ),
];

/// The status of a failure that can be asked for.
pub(in crate::sandbox) fn status_of(reason: &str) -> Option<u16> {
    WANTED.iter().find(|wanted| wanted.0 == reason).map(|wanted| wanted.1)
}

/// The usual failure of a status.
pub(super) fn usual_reason(status: u16) -> Option<&'static str> {
    WANTED.iter().find(|wanted| wanted.1 == status).map(|wanted| wanted.0)
}

/// One failed request.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) http: u16,
    status: &'static str,
    error_code: Option<String>,
    message: String,
    details: Vec<Value>,
    /// The content type of an answer that is the bare message instead of Google's JSON.
    bare: Option<&'static str>,
}

impl Failure {
    fn new(http: u16, status: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { http, status, error_code: None, message, details: Vec::new(), bare: None }
    }

    pub(super) fn missing_credentials() -> Self {
        let message = UNAUTHENTICATED.replace(
            "Request had invalid authentication credentials.",
            "Request is missing required authentication credential.",
        );
        Self::new(401, "UNAUTHENTICATED", message)
    }

    pub(super) fn invalid_credentials() -> Self {
        Self::new(401, "UNAUTHENTICATED", UNAUTHENTICATED)
    }

    pub(super) fn insufficient_scopes() -> Self {
        let message = "Request had insufficient authentication scopes.";
        Self::new(403, "PERMISSION_DENIED", message)
    }

    pub(super) fn unknown_project() -> Self {
        Self::new(404, "NOT_FOUND", "Requested entity was not found.")
    }

    /// A body that is no JSON at all: without details.
    pub(super) fn malformed(message: &str) -> Self {
        Self::new(400, "INVALID_ARGUMENT", message)
    }

    /// A value of the wrong type, or an unknown name: refused before FCM sees it.
    pub(super) fn bad_field(field: &str, message: impl Into<String>) -> Self {
        Self::new(400, "INVALID_ARGUMENT", message).with_violation(field)
    }

    /// Against one of FCM's own rules.
    pub(super) fn invalid(field: &str, message: impl Into<String>) -> Self {
        let failure = Self::new(400, "INVALID_ARGUMENT", message);
        failure.with_code("INVALID_ARGUMENT").with_violation(field)
    }

    /// What a rule or a token asked for.
    pub(super) fn wanted(answer: &Answer) -> Self {
        let usual = answer.status.and_then(usual_reason);
        let reason = answer.reason.as_deref().or(usual).unwrap_or_default();
        let Some(&(name, http, status, is_code, message)) =
            WANTED.iter().find(|wanted| wanted.0 == reason)
        else {
            let failure = Self::new(answer.status.unwrap_or(500), "UNKNOWN", "Unknown error.");
            return if reason.is_empty() { failure } else { failure.with_code(reason) };
        };
        let failure = Self::new(answer.status.unwrap_or(http), status, message);
        let failure = if is_code { failure.with_code(name) } else { failure };
        match name {
            "INVALID_ARGUMENT" => failure.with_violation("message.token"),
            "BAD_REQUEST" => failure.with_violation("message.data[0].value"),
            "QUOTA_EXCEEDED" => failure.with_quota("project:notify-sandbox"),
            "DEVICE_QUOTA_EXCEEDED" => failure.with_quota("device"),
            "EMPTY" => Self { bare: Some("application/json; charset=UTF-8"), ..failure },
            "HTML" => Self { bare: Some("text/html; charset=UTF-8"), ..failure },
            _ => failure,
        }
    }

    fn with_code(mut self, code: &str) -> Self {
        self.details.push(json!({ "@type": FCM_ERROR, "errorCode": code }));
        Self { error_code: Some(code.to_owned()), ..self }
    }

    fn with_violation(mut self, field: &str) -> Self {
        let violation = json!({ "field": field, "description": self.message });
        self.details.push(json!({ "@type": BAD_REQUEST, "fieldViolations": [violation] }));
        self
    }

    fn with_quota(mut self, subject: &str) -> Self {
        let violation = json!({ "subject": subject, "description": self.message });
        self.details.push(json!({ "@type": QUOTA_FAILURE, "violations": [violation] }));
        self
    }

    /// The reason as the journal shows it: the error code, or else the canonical status.
    pub(super) fn reason(&self) -> &str {
        self.error_code.as_deref().unwrap_or(self.status)
    }

    pub(super) fn into_response(self) -> Response<Bytes> {
        if let Some(content_type) = self.bare {
            return respond(status(self.http), content_type, self.message);
        }
        let mut error =
            json!({ "code": self.http, "message": self.message, "status": self.status });
        if !self.details.is_empty() {
            error["details"] = Value::Array(self.details);
        }
        json(status(self.http), &json!({ "error": error }))
    }
}
