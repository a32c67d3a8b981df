//! Errors of the API: which status and which body (B3, B4). A 5xx tells nothing about the inside;
//! its cause travels beside the answer to the log.

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use notify_core::{ErrorBody, Violations};

use super::json_reply::{JSON_CONTENT_TYPE, json_bytes};
use crate::causes::with_causes;
use crate::store::{BackendError, StoreError};

/// `Retry-After` where the server cannot take the request now, in seconds.
const UNAVAILABLE_RETRY_SECONDS: u64 = 2;
/// `Retry-After` while the server stops: another one may be up by then, in seconds.
const STOPPING_RETRY_SECONDS: u64 = 5;

/// Why a request is not answered with 200.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// Rules are broken.
    #[error("invalid request")]
    Invalid(Vec<String>),
    /// The head breaks HTTP where two readers could take it in two ways; the connection ends.
    #[error("{0}")]
    NotHttp(&'static str),
    /// The API key is missing, malformed, unknown or revoked, or its application suspended. One
    /// text for all of them: an answer must not help to guess.
    #[error("missing or invalid API key")]
    Unauthorized,
    /// The same where an API key came as a bearer token. What it says depends on the request alone, not on
    /// which keys there are.
    #[error("missing or invalid API key: send it in the header X-API-Key, not in Authorization")]
    ApiKeyAsBearer,
    /// The same for the admin API.
    #[error("missing or invalid admin key")]
    AdminUnauthorized,
    /// The webhook's signature is missing or wrong, or there is no such webhook. One text for all of
    /// them, for the same reason.
    #[error("missing or invalid signature")]
    HookUnauthorized,
    /// A page calls an application that does not let its origin in, is suspended, or is none. One
    /// text for all of them, for the same reason.
    #[error("this origin may not call")]
    PageUnauthorized,
    /// A browser acts for a device without its secret, or for none.
    #[error("missing or wrong device secret")]
    DeviceUnauthorized,
    /// An unknown path, or an id that names nothing.
    #[error("not found")]
    NotFound,
    /// The path exists, the method not.
    #[error("method not allowed")]
    MethodNotAllowed {
        /// The methods that there are, as `Allow` lists them.
        allow: String,
    },
    /// The body is over the limit.
    #[error("body: must be at most {limit_bytes} bytes")]
    TooLarge {
        /// The limit.
        limit_bytes: usize,
    },
    /// The body did not come in time; there is no 408 in B4, and the connection ends.
    #[error("body: did not arrive in time")]
    TooSlow,
    /// `Idempotency-Key` was used with another body.
    #[error("Idempotency-Key: was used with another body")]
    KeyReused,
    /// Over a rate limit.
    #[error("too many requests")]
    RateLimited {
        /// `Retry-After`, in seconds.
        retry_after_seconds: u64,
    },
    /// The server holds as much as it may for this caller, or for all.
    #[error("the server is busy")]
    Busy,
    /// The server is stopping.
    #[error("the server is stopping")]
    Stopping,
    /// Storage cannot take it now.
    #[error("unavailable")]
    Unavailable(#[source] BackendError),
    /// A defect.
    #[error("internal error")]
    Internal(#[source] BackendError),
}

/// What made a 5xx, for the log alone.
#[derive(Debug, Clone)]
pub(crate) struct Cause(pub(crate) String);

impl ApiError {
    /// One broken rule.
    pub(crate) fn invalid(path: &str, what: &str) -> Self {
        Violations::one(path, what).into()
    }

    /// The status of B4.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Invalid(_) | Self::NotHttp(_) | Self::TooSlow => StatusCode::BAD_REQUEST,
            Self::Unauthorized
            | Self::ApiKeyAsBearer
            | Self::AdminUnauthorized
            | Self::HookUnauthorized
            | Self::PageUnauthorized
            | Self::DeviceUnauthorized => StatusCode::UNAUTHORIZED,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::KeyReused => StatusCode::CONFLICT,
            Self::RateLimited { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::Busy | Self::Stopping | Self::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The answer.
    pub(crate) fn into_response(self) -> http::Response<Bytes> {
        let status = self.status();
        let extra = self.extra_header();
        let ends_connection =
            matches!(self, Self::NotHttp(_) | Self::TooSlow | Self::TooLarge { .. });
        let cause = self.cause();
        let mut response = http::Response::new(json_bytes(&ErrorBody { errors: self.errors() }));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON_CONTENT_TYPE));
        if let Some((name, value)) = extra {
            headers.insert(name, value);
        }
        if ends_connection {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if let Some(cause) = cause {
            response.extensions_mut().insert(cause);
        }
        response
    }

    fn errors(self) -> Vec<String> {
        match self {
            Self::Invalid(errors) => errors,
            Self::NotHttp(_)
            | Self::Unauthorized
            | Self::ApiKeyAsBearer
            | Self::AdminUnauthorized
            | Self::HookUnauthorized
            | Self::PageUnauthorized
            | Self::DeviceUnauthorized
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
            Self::Unauthorized | Self::ApiKeyAsBearer => {
                Some((header::WWW_AUTHENTICATE, HeaderValue::from_static("ApiKey")))
            }
            Self::AdminUnauthorized => {
                Some((header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")))
            }
            Self::HookUnauthorized => {
                Some((header::WWW_AUTHENTICATE, HeaderValue::from_static("Signature")))
            }
            Self::PageUnauthorized => {
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
            | Self::NotFound
            | Self::TooLarge { .. }
            | Self::TooSlow
            | Self::KeyReused
            | Self::Internal(_) => None,
        }
    }

    fn cause(&self) -> Option<Cause> {
        let source: &dyn std::error::Error = match self {
            Self::Unavailable(source) | Self::Internal(source) => source.as_ref(),
            Self::Invalid(_)
            | Self::NotHttp(_)
            | Self::Unauthorized
            | Self::ApiKeyAsBearer
            | Self::AdminUnauthorized
            | Self::HookUnauthorized
            | Self::PageUnauthorized
            | Self::DeviceUnauthorized
            | Self::NotFound
            | Self::MethodNotAllowed { .. }
            | Self::TooLarge { .. }
            | Self::TooSlow
            | Self::KeyReused
            | Self::RateLimited { .. }
            | Self::Busy
            | Self::Stopping => return None,
        };
        Some(Cause(with_causes(source)))
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
    use super::*;

    #[test]
    fn a_5xx_tells_nothing_about_the_inside() {
        let error = ApiError::from(StoreError::Backend("disk I/O error in /var/db".into()));
        let response = error.into_response();
        assert_eq!(response.status(), 500);
        assert_eq!(response.body(), r#"{"errors":["internal error"]}"#);
        let cause = response.extensions().get::<Cause>().unwrap();
        assert_eq!(cause.0, "disk I/O error in /var/db");
    }

    #[test]
    fn each_store_error_has_its_status() {
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
