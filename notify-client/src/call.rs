//! One API call and how its response is decoded, without I/O. Both transports, the asynchronous client and
//! the blocking one, execute these values.

use std::time::Duration;

use notify_core::{ErrorBody, Request, Success, Violations};
use reqwest::Method;
use reqwest::header::{self, HeaderMap};
use serde::Serialize;
use serde::de::DeserializeOwned;
use url::Url;

use crate::query::ToQuery;
use crate::{Error, now};

/// The key that a call is authenticated with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Credential {
    /// The application's key, in `X-API-Key`.
    App,
    /// The admin key, as `Authorization: Bearer`.
    Admin,
    /// No key: endpoints outside the API are public.
    None,
}

/// An API call whose response decodes to `T`.
#[derive(Debug)]
pub(crate) struct Call<T> {
    pub(crate) method: Method,
    pub(crate) credential: Credential,
    /// Path segments, not percent-encoded.
    pub(crate) segments: Vec<String>,
    pub(crate) query: Vec<(&'static str, String)>,
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) if_none_match: Option<String>,
    /// Decodes a response that is not an error.
    pub(crate) decode: fn(&Response) -> Result<T, Error>,
    /// The result if a retry gets a 404 and the server may have executed an earlier attempt. Deletions
    /// set it: the earlier attempt has probably deleted the resource.
    pub(crate) value_if_not_found: Option<fn() -> T>,
}

/// An HTTP response, read completely.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl<T: DeserializeOwned> Call<T> {
    /// A call under `/v1`.
    pub(crate) fn v1(method: Method, path: &[&str]) -> Self {
        Self::new(method, Credential::App, &["v1"], path)
    }

    /// A call under `/admin/v1`.
    pub(crate) fn admin(method: Method, path: &[&str]) -> Self {
        Self::new(method, Credential::Admin, &["admin", "v1"], path)
    }

    /// A call to a public endpoint outside the API.
    pub(crate) fn public(method: Method, path: &[&str]) -> Self {
        Self::new(method, Credential::None, &[], path)
    }

    fn new(method: Method, credential: Credential, root: &[&str], path: &[&str]) -> Self {
        Self {
            method,
            credential,
            segments: root.iter().chain(path).map(|&segment| segment.to_owned()).collect(),
            query: Vec::new(),
            body: None,
            if_none_match: None,
            decode: Response::json,
            value_if_not_found: None,
        }
    }
}

impl Call<Success> {
    /// Discards the body of the response, which carries no information.
    pub(crate) fn discard_response(self) -> Call<()> {
        let mut call = self.discard_body();
        if call.method == Method::DELETE {
            call.value_if_not_found = Some(|| ());
        }
        call
    }

    /// Discards the body of the response, but does not make a 404 a success. It is for a `DELETE` after which
    /// the resource of its path still exists.
    pub(crate) fn discard_body(self) -> Call<()> {
        self.decode_with(|response| response.json::<Success>().map(|_| ()))
    }
}

impl<T> Call<T> {
    /// Sets the body, after validating it with the server's rules.
    pub(crate) fn body<R: Request + Serialize + Clone>(self, request: &R) -> Result<Self, Error> {
        request.clone().validate(now()).map_err(Error::Invalid)?;
        self.unvalidated_body(request)
    }

    /// Sets a body that only the server can validate.
    pub(crate) fn unvalidated_body<R: Serialize>(mut self, request: &R) -> Result<Self, Error> {
        let body = serde_json::to_vec(request)
            .map_err(|error| Error::Invalid(Violations::one("body", error)))?;
        self.body = Some(body);
        Ok(self)
    }

    /// Sets the query, after validating it with the server's rules.
    pub(crate) fn query<Q: ToQuery>(mut self, query: &Q) -> Result<Self, Error> {
        let parameters = query.to_query();
        let pairs: Vec<_> =
            parameters.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        Q::parse(&pairs, now()).map_err(Error::Invalid)?;
        self.query = parameters;
        Ok(self)
    }

    /// Sets `If-None-Match`. A response with status 304 then counts as a success.
    pub(crate) fn if_none_match(mut self, etag: Option<String>) -> Self {
        self.if_none_match = etag;
        self
    }

    /// Decodes the response with another function.
    pub(crate) fn decode_with<U>(self, decode: fn(&Response) -> Result<U, Error>) -> Call<U> {
        Call {
            decode,
            value_if_not_found: None,
            method: self.method,
            credential: self.credential,
            segments: self.segments,
            query: self.query,
            body: self.body,
            if_none_match: self.if_none_match,
        }
    }

    /// Whether the call is a `POST`. The server executes a repeated `POST` twice, unless it recognises the
    /// repetition by an `Idempotency-Key`.
    pub(crate) fn is_post(&self) -> bool {
        self.method == Method::POST
    }

    /// Whether the server honours an `Idempotency-Key`.
    pub(crate) fn takes_idempotency_key(&self) -> bool {
        self.is_post() && self.credential == Credential::App
    }

    /// The result of the call, given the response of the server at `base`.
    pub(crate) fn result(&self, response: &Response, base: &Url) -> Result<T, Error> {
        let is_not_modified = response.status == 304 && self.if_none_match.is_some();
        if (200..300).contains(&response.status) || is_not_modified {
            (self.decode)(response)
        } else {
            Err(response.error(self.endpoint(base)))
        }
    }

    /// Method and path for errors, such as `GET /v1/devices/…`. The segments after the kind of resource
    /// are omitted, because they may be device ids.
    pub(crate) fn endpoint(&self, base: &Url) -> String {
        let shown_count = match self.credential {
            Credential::Admin => 3,
            Credential::App => 2,
            Credential::None => 1,
        };
        let path: Vec<&str> = self.segments.iter().take(shown_count).map(String::as_str).collect();
        let rest = if self.segments.len() > shown_count { "/…" } else { "" };
        let prefix = base.path().trim_end_matches('/');
        format!("{} {prefix}/{}{rest}", self.method, path.join("/"))
    }
}

impl Response {
    /// Decodes the body of a success.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(|source| Error::Decode {
            status: self.status,
            request_id: self.request_id(),
            source: Box::new(source),
        })
    }

    /// The value of a header, if it is text.
    pub(crate) fn header(&self, name: impl header::AsHeaderName) -> Option<String> {
        Some(self.headers.get(name)?.to_str().ok()?.to_owned())
    }

    fn request_id(&self) -> Option<String> {
        self.header("x-request-id")
    }

    /// The error for a response that is not a success. `call` is the method and path for the message.
    pub(crate) fn error(&self, call: String) -> Error {
        let (status, request_id) = (self.status, self.request_id());
        let retry_after = self
            .header(header::RETRY_AFTER)
            .and_then(|value| parse_retry_after(&value, jiff::Timestamp::now()));
        // A proxy may answer with an HTML page. The error then has only the status.
        let mut errors = serde_json::from_slice(&self.body).unwrap_or(ErrorBody::default()).errors;
        match status {
            401 => Error::Unauthorized { errors, request_id },
            404 => Error::NotFound { call, errors, request_id },
            500.. => Error::Server { status, errors, request_id, retry_after },
            _ => {
                if let Some(location) = self.header(header::LOCATION) {
                    // A query may contain a push token.
                    let location = location.split('?').next().unwrap_or_default();
                    errors.push(format!("redirected to {location}; use that as the base url"));
                }
                Error::Rejected { status, errors, request_id, retry_after }
            }
        }
    }
}

/// Parses `Retry-After` (RFC 9110 section 10.2.3): seconds or a date. A past date means now.
fn parse_retry_after(value: &str, now: jiff::Timestamp) -> Option<Duration> {
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(value).ok()?;
    Some(Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now: jiff::Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        for (value, delay) in [
            ("0", Some(0)),
            ("120", Some(120)),
            ("Fri, 02 Jan 2026 03:04:35 GMT", Some(30)),
            ("Fri, 02 Jan 2026 03:04:00 GMT", Some(0)),
            ("soon", None),
            ("-1", None),
            ("", None),
        ] {
            assert_eq!(parse_retry_after(value, now), delay.map(Duration::from_secs), "{value}");
        }
    }
}
