//! Errors of the API, with their status and body. A 5xx reveals nothing about the server; its cause
//! goes to the log.

use std::any::Any;

use http::{HeaderValue, StatusCode, header};
use notify_core::{ErrorBody, KeyScope, Violations};
use warp::reply::{Reply, Response};

use crate::api::json_reply::{json_bytes, json_response};
use crate::error_chain::error_chain;
use crate::store::{BackendError, StoreError};

/// `Retry-After` when the server cannot process the request now, in seconds.
const UNAVAILABLE_RETRY_SECONDS: u64 = 2;
/// `Retry-After` while the server stops, in seconds. A new server may be running by then.
const STOPPING_RETRY_SECONDS: u64 = 5;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// The request violates rules.
    #[error("invalid request")]
    Invalid(Vec<String>),
    /// A proxy may understand the head of the request differently than this server. The connection
    /// is closed.
    #[error("{0}")]
    NotHttp(&'static str),
    /// The API key is missing, malformed, unknown or revoked, or its application is suspended. All
    /// have the same text, so that a response does not help to guess a key.
    #[error("missing or invalid API key")]
    Unauthorized,
    /// As [`Self::Unauthorized`], when an API key was sent as a bearer token. The text depends only
    /// on the request, and not on which keys exist.
    #[error("missing or invalid API key: send it in the header X-API-Key, not in Authorization")]
    ApiKeyAsBearer,
    /// As [`Self::Unauthorized`], when a publishable key was sent to `/v1`. The text depends only on the
    /// request.
    #[error("missing or invalid API key: a publishable key opens only /device/v1")]
    PublishableKeyMisplaced,
    /// As [`Self::Unauthorized`], when an admin key was sent to `/v1`. The text depends only on the request.
    #[error("missing or invalid API key: an admin key opens only /admin/v1")]
    AdminKeyMisplaced,
    /// The API key has expired. Only a caller that has the whole key can learn this.
    #[error("the API key has expired: use its successor, or create another one")]
    KeyExpired,
    /// The publishable key is missing, malformed, unknown or revoked, or its application is suspended. All have
    /// the same text.
    #[error("missing or invalid publishable key")]
    PublishableUnauthorized,
    /// As [`Self::PublishableUnauthorized`], when a secret key was sent to `/device/v1`. The text depends
    /// only on the request.
    #[error(
        "missing or invalid publishable key: an API key opens only /v1, and must not be in an app"
    )]
    ApiKeyInApp,
    /// As [`Self::KeyExpired`], for a publishable key.
    #[error("the publishable key has expired: the app needs another one")]
    PublishableKeyExpired,
    /// The admin key is missing or invalid.
    #[error("missing or invalid admin key")]
    AdminUnauthorized,
    /// The signature of a webhook call is missing or wrong, or the webhook does not exist. All have
    /// the same text.
    #[error("missing or invalid signature")]
    InvalidSignature,
    /// The application does not allow the page's origin, is suspended or does not exist. All have
    /// the same text.
    #[error("this origin may not call")]
    OriginNotAllowed,
    /// The device secret is missing or wrong, or the device does not exist.
    #[error("missing or wrong device secret")]
    DeviceUnauthorized,
    /// The key at the sign-in of the console is not an admin key.
    #[error("{message}")]
    #[cfg_attr(not(feature = "console"), expect(dead_code, reason = "of the console"))]
    WrongSignInKey {
        /// What is wrong with the key.
        message: &'static str,
        /// Hidden fields of the form, which the page shows again.
        kept: Vec<(&'static str, String)>,
        /// Whether others on the network could read the key.
        is_exposed: bool,
    },
    /// A form of the console that another site or an earlier session sent.
    #[error("this form does not belong to your session: load the page again")]
    #[cfg_attr(not(feature = "console"), expect(dead_code, reason = "of the console"))]
    ForeignForm,
    /// The API key may not do this.
    #[error("the key lacks the scope `{0}`")]
    MissingScope(KeyScope),
    /// The path or an id in it does not exist.
    #[error("not found")]
    NotFound,
    /// The path does not have this method.
    #[error("method not allowed")]
    MethodNotAllowed {
        /// The methods of the path, in the form of the header `Allow`.
        allow: String,
    },
    /// The body exceeds its limit.
    #[error("body: must be at most {limit_bytes} bytes")]
    TooLarge {
        /// The limit, in bytes.
        limit_bytes: usize,
    },
    /// The body did not arrive in time; the connection is closed. The contract has no 408.
    #[error("body: did not arrive in time")]
    TooSlow,
    /// `Idempotency-Key` was already used for a request with another body.
    #[error("Idempotency-Key: was already used for a request with another body")]
    KeyReused,
    /// A rate limit is exceeded.
    #[error("too many requests")]
    RateLimited {
        /// `Retry-After`, in seconds.
        retry_after_seconds: u64,
    },
    /// The memory limit of this caller, or of all callers, is reached.
    #[error("the server is busy")]
    Busy,
    /// The server is stopping.
    #[error("the server is stopping")]
    Stopping,
    /// Storage is not available.
    #[error("unavailable")]
    Unavailable(#[source] BackendError),
    /// A defect of the server.
    #[error("internal error")]
    Internal(#[source] BackendError),
}

impl ApiError {
    /// The error of one violated rule: the path of the field, and what is wrong with it.
    pub(crate) fn invalid(path: &str, what: &str) -> Self {
        Violations::one(path, what).into()
    }

    /// The status code.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Invalid(_) | Self::NotHttp(_) | Self::TooSlow => StatusCode::BAD_REQUEST,
            Self::Unauthorized
            | Self::ApiKeyAsBearer
            | Self::PublishableKeyMisplaced
            | Self::AdminKeyMisplaced
            | Self::KeyExpired
            | Self::PublishableUnauthorized
            | Self::ApiKeyInApp
            | Self::PublishableKeyExpired
            | Self::AdminUnauthorized
            | Self::InvalidSignature
            | Self::OriginNotAllowed
            | Self::DeviceUnauthorized
            | Self::WrongSignInKey { .. } => StatusCode::UNAUTHORIZED,
            Self::ForeignForm | Self::MissingScope(_) => StatusCode::FORBIDDEN,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::KeyReused => StatusCode::CONFLICT,
            Self::RateLimited { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::Busy | Self::Stopping | Self::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The error of a handler that panicked.
    pub(crate) fn from_panic(panic: &(dyn Any + Send)) -> Self {
        let text = panic
            .downcast_ref::<&str>()
            .copied()
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        Self::Internal(format!("panic: {}", text.unwrap_or("without a message")).into())
    }

    /// The texts of the error; for an invalid request, one for each violated rule.
    pub(crate) fn errors(&self) -> Vec<String> {
        match self {
            Self::Invalid(errors) => errors.clone(),
            Self::NotHttp(_)
            | Self::Unauthorized
            | Self::ApiKeyAsBearer
            | Self::PublishableKeyMisplaced
            | Self::AdminKeyMisplaced
            | Self::KeyExpired
            | Self::PublishableUnauthorized
            | Self::ApiKeyInApp
            | Self::PublishableKeyExpired
            | Self::AdminUnauthorized
            | Self::InvalidSignature
            | Self::OriginNotAllowed
            | Self::DeviceUnauthorized
            | Self::WrongSignInKey { .. }
            | Self::ForeignForm
            | Self::MissingScope(_)
            | Self::NotFound
            | Self::MethodNotAllowed { .. }
            | Self::TooLarge { .. }
            | Self::TooSlow
            | Self::KeyReused
            | Self::RateLimited { .. }
            | Self::Busy
            | Self::Stopping
            | Self::Unavailable(_)
            | Self::Internal(_) => vec![self.to_string()],
        }
    }

    fn extra_header(&self) -> Option<(header::HeaderName, HeaderValue)> {
        match self {
            Self::Unauthorized
            | Self::ApiKeyAsBearer
            | Self::PublishableKeyMisplaced
            | Self::AdminKeyMisplaced
            | Self::KeyExpired
            | Self::PublishableUnauthorized
            | Self::ApiKeyInApp
            | Self::PublishableKeyExpired => {
                Some((header::WWW_AUTHENTICATE, HeaderValue::from_static("ApiKey")))
            }
            Self::AdminUnauthorized => {
                Some((header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")))
            }
            Self::InvalidSignature => {
                Some((header::WWW_AUTHENTICATE, HeaderValue::from_static("Signature")))
            }
            Self::OriginNotAllowed => {
                Some((header::WWW_AUTHENTICATE, HeaderValue::from_static("Origin")))
            }
            Self::DeviceUnauthorized => {
                Some((header::WWW_AUTHENTICATE, HeaderValue::from_static("DeviceSecret")))
            }
            Self::MethodNotAllowed { allow } => {
                let allow = HeaderValue::from_str(allow).expect("methods are visible ASCII");
                Some((header::ALLOW, allow))
            }
            Self::RateLimited { retry_after_seconds } => {
                Some((header::RETRY_AFTER, (*retry_after_seconds).into()))
            }
            Self::Busy | Self::Unavailable(_) => {
                Some((header::RETRY_AFTER, UNAVAILABLE_RETRY_SECONDS.into()))
            }
            Self::Stopping => Some((header::RETRY_AFTER, STOPPING_RETRY_SECONDS.into())),
            Self::Invalid(_)
            | Self::NotHttp(_)
            | Self::WrongSignInKey { .. }
            | Self::ForeignForm
            | Self::MissingScope(_)
            | Self::NotFound
            | Self::TooLarge { .. }
            | Self::TooSlow
            | Self::KeyReused
            | Self::Internal(_) => None,
        }
    }

    /// The cause of a 5xx, for the log.
    pub(crate) fn cause(&self) -> Option<String> {
        let source: &dyn std::error::Error = match self {
            Self::Unavailable(source) | Self::Internal(source) => source.as_ref(),
            Self::Invalid(_)
            | Self::NotHttp(_)
            | Self::Unauthorized
            | Self::ApiKeyAsBearer
            | Self::PublishableKeyMisplaced
            | Self::AdminKeyMisplaced
            | Self::KeyExpired
            | Self::PublishableUnauthorized
            | Self::ApiKeyInApp
            | Self::PublishableKeyExpired
            | Self::AdminUnauthorized
            | Self::InvalidSignature
            | Self::OriginNotAllowed
            | Self::DeviceUnauthorized
            | Self::WrongSignInKey { .. }
            | Self::ForeignForm
            | Self::MissingScope(_)
            | Self::NotFound
            | Self::MethodNotAllowed { .. }
            | Self::TooLarge { .. }
            | Self::TooSlow
            | Self::KeyReused
            | Self::RateLimited { .. }
            | Self::Busy
            | Self::Stopping => return None,
        };
        Some(error_chain(source))
    }
}

impl Reply for ApiError {
    fn into_response(self) -> Response {
        let extra = self.extra_header();
        let closes_connection =
            matches!(self, Self::NotHttp(_) | Self::TooSlow | Self::TooLarge { .. });
        let status = self.status();
        let body = json_bytes(&ErrorBody { errors: self.errors() });
        let mut response = json_response(status, body);
        let headers = response.headers_mut();
        if let Some((name, value)) = extra {
            headers.insert(name, value);
        }
        if closes_connection {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

impl From<Violations> for ApiError {
    fn from(violations: Violations) -> Self {
        Self::Invalid(violations.into_vec())
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound => Self::NotFound,
            StoreError::Refused(violations) => violations.into(),
            StoreError::KeyReused => Self::KeyReused,
            StoreError::Fenced => Self::Internal(StoreError::Fenced.into()),
            StoreError::Unavailable(source) => Self::Unavailable(source),
            StoreError::Backend(source) => Self::Internal(source),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use http_body_util::BodyExt;

    use super::*;
    use crate::api::json_reply::JSON_CONTENT_TYPE;

    #[test]
    fn a_5xx_does_not_reveal_its_cause() {
        let error = ApiError::from(StoreError::Backend("disk I/O error in /var/db".into()));
        assert_eq!(error.cause().unwrap(), "disk I/O error in /var/db");
        let response = error.into_response();
        assert_eq!(response.status(), 500);
        let body = response.into_body().collect().now_or_never().unwrap().unwrap().to_bytes();
        assert_eq!(body, r#"{"errors":["internal error"]}"#);
    }

    #[test]
    fn maps_store_errors_to_statuses() {
        let cases = [
            (StoreError::NotFound, 404),
            (StoreError::refused("id", "is in use"), 400),
            (StoreError::KeyReused, 409),
            (StoreError::Fenced, 500),
            (StoreError::Unavailable("disk full".into()), 503),
            (StoreError::Backend("corrupt".into()), 500),
        ];
        for (error, status) in cases {
            let response = ApiError::from(error).into_response();
            assert_eq!(response.status(), status);
            assert_eq!(response.headers()["content-type"], JSON_CONTENT_TYPE);
            assert_eq!(response.headers().contains_key("retry-after"), status == 503);
        }
    }
}
