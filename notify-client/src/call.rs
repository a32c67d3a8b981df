//! One request as a plain value, and the answer to it: what both transports execute.
//! Nothing here does I/O.

#[cfg(test)]
mod tests;

use std::time::Duration;

use backon::ExponentialBuilder;
use notify_core::{ErrorBody, IdempotencyKey, Query, Request, Success, Timestamp, Violations};
use reqwest::Method;
use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde::de::DeserializeOwned;
use url::Url;

use crate::{Error, KeyKind};

/// Whose key a call carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Credential {
    /// The application's, in `X-API-Key`.
    App,
    /// The administrator's, as `Authorization: Bearer`.
    Admin,
    /// Nobody's: what lies beside the API is open.
    None,
}

/// A request, and how its answer reads.
#[derive(Debug)]
pub(crate) struct Call<T> {
    pub(crate) method: Method,
    pub(crate) credential: Credential,
    /// Segments of the path, not encoded yet.
    pub(crate) segments: Vec<String>,
    pub(crate) query: Vec<(&'static str, String)>,
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) if_none_match: Option<String>,
    /// Reads an answer that is not an error.
    pub(crate) read: fn(&Answer) -> Result<T, Error>,
    /// What a 404 means on a repetition of a call that may have been done before: a deletion that
    /// finds nothing left to delete has done its work.
    pub(crate) gone: Option<fn() -> T>,
}

/// An answer, whichever transport brought it.
#[derive(Debug)]
pub(crate) struct Answer {
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

    /// A call beside the API.
    pub(crate) fn open(method: Method, path: &[&str]) -> Self {
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
            read: Answer::json,
            gone: None,
        }
    }
}

impl Call<Success> {
    /// A call whose success says nothing more.
    pub(crate) fn done(self) -> Call<()> {
        let mut call = self.reading(|answer| answer.json::<Success>().map(|_| ()));
        if call.method == Method::DELETE {
            call.gone = Some(|| ());
        }
        call
    }
}

impl<T> Call<T> {
    /// With a body that holds every rule.
    pub(crate) fn checked<R: Request + Serialize + Clone>(
        self,
        request: &R,
    ) -> Result<Self, Error> {
        request.clone().validate(now()).map_err(Error::Invalid)?;
        self.json(request)
    }

    /// With a body that only the server can check.
    pub(crate) fn json<R: Serialize>(mut self, request: &R) -> Result<Self, Error> {
        let body = serde_json::to_vec(request)
            .map_err(|error| Error::Invalid(Violations::one("body", error)))?;
        self.body = Some(body);
        Ok(self)
    }

    /// With a query that holds every rule of `Q`.
    pub(crate) fn filtered<Q: Query>(
        mut self,
        query: Vec<(&'static str, String)>,
    ) -> Result<Self, Error> {
        let named: Vec<_> =
            query.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        Q::parse(&named, now()).map_err(Error::Invalid)?;
        self.query = query;
        Ok(self)
    }

    /// With the tag of an answer that the caller still has.
    pub(crate) fn unless(mut self, etag: Option<String>) -> Self {
        self.if_none_match = etag;
        self
    }

    /// With another reading of the answer.
    pub(crate) fn reading<U>(self, read: fn(&Answer) -> Result<U, Error>) -> Call<U> {
        Call {
            read,
            gone: None,
            method: self.method,
            credential: self.credential,
            segments: self.segments,
            query: self.query,
            body: self.body,
            if_none_match: self.if_none_match,
        }
    }

    /// Whether the call makes something anew each time, unless the server is told by an
    /// `Idempotency-Key` that it is the same one.
    pub(crate) fn creates(&self) -> bool {
        self.method == Method::POST
    }

    /// Whether an `Idempotency-Key` counts.
    pub(crate) fn keyed(&self) -> bool {
        self.creates() && self.credential == Credential::App
    }

    /// What the answer says.
    pub(crate) fn outcome(&self, answer: &Answer, base: &Url) -> Result<T, Error> {
        if (200..300).contains(&answer.status) || self.takes_not_modified(answer) {
            (self.read)(answer)
        } else {
            Err(answer.error(self.name(base)))
        }
    }

    /// The method and the path, for errors: `GET /v1/devices/…`. What follows the kind of resource may
    /// be an id of a device, and stays out.
    pub(crate) fn name(&self, base: &Url) -> String {
        let fixed = match self.credential {
            Credential::Admin => 3,
            Credential::App => 2,
            Credential::None => 1,
        };
        let path: Vec<&str> = self.segments.iter().take(fixed).map(String::as_str).collect();
        let more = if self.segments.len() > fixed { "/…" } else { "" };
        let before = base.path().trim_end_matches('/');
        format!("{} {before}/{}{more}", self.method, path.join("/"))
    }

    fn takes_not_modified(&self, answer: &Answer) -> bool {
        answer.status == 304 && self.if_none_match.is_some()
    }
}

impl Answer {
    /// Reads the body of a success.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(|source| Error::Decode {
            status: self.status,
            request_id: self.request_id(),
            source: Box::new(source),
        })
    }

    /// A header that is text.
    pub(crate) fn header(&self, name: impl header::AsHeaderName) -> Option<String> {
        Some(self.headers.get(name)?.to_str().ok()?.to_owned())
    }

    fn request_id(&self) -> Option<String> {
        self.header("x-request-id")
    }

    fn retry_after(&self) -> Option<Duration> {
        retry_after(&self.header(header::RETRY_AFTER)?, jiff::Timestamp::now())
    }

    /// What an answer to this call says that is no success.
    pub(crate) fn error(&self, call: String) -> Error {
        let request_id = self.request_id();
        let (status, retry_after) = (self.status, self.retry_after());
        // A proxy in between may answer with a page; then the status says it all.
        let mut errors = serde_json::from_slice(&self.body).unwrap_or(ErrorBody::default()).errors;
        match status {
            401 => Error::Unauthorized { errors, request_id },
            404 => Error::NotFound { call, errors, request_id },
            500.. => Error::Server { status, errors, request_id, retry_after },
            _ => {
                if let Some(elsewhere) = self.header(header::LOCATION) {
                    errors.push(format!("redirected to {elsewhere}; take that as the base url"));
                }
                Error::Rejected { status, errors, request_id, retry_after }
            }
        }
    }
}

/// `Retry-After` as RFC 9110 section 10.2.3 has it: seconds or a date.
fn retry_after(value: &str, now: jiff::Timestamp) -> Option<Duration> {
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(value).ok()?;
    // A date that has passed means now.
    Some(Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO))
}

fn now() -> Timestamp {
    Timestamp::from_ms(jiff::Timestamp::now().as_millisecond())
}

// From a call to the request that is sent: address, path, headers. It sends none.

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
/// What an admin key stands behind.
pub(crate) const BEARER: &str = "Bearer ";
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const NO_SCHEME: &str = "must begin with http:// or https://";

/// What both transports share: it makes requests of calls, and sends none.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) base_url: Url,
    pub(crate) api_key: Option<HeaderValue>,
    pub(crate) admin_key: Option<HeaderValue>,
    pub(crate) delays: ExponentialBuilder,
}

/// A request ready to be sent, as often as needed.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Vec<u8>>,
}

impl Shared {
    /// Makes the request of a call. The `Idempotency-Key` is fixed here, ahead of the attempts.
    pub(crate) fn prepare<T>(&self, call: &Call<T>, key: Option<&str>) -> Result<Prepared, Error> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        let needed = match call.credential {
            Credential::App => Some((API_KEY, &self.api_key, (KeyKind::Api, KeyKind::Admin))),
            Credential::Admin => {
                Some((header::AUTHORIZATION, &self.admin_key, (KeyKind::Admin, KeyKind::Api)))
            }
            Credential::None => None,
        };
        if let Some((name, value, (kind, other))) = needed {
            let value = value.clone().ok_or(Error::NoKey(kind))?;
            let bytes = value.as_bytes();
            let key = bytes.strip_prefix(BEARER.as_bytes()).unwrap_or(bytes);
            if key.starts_with(other.prefix().as_bytes()) {
                return Err(Error::OtherKey(kind));
            }
            headers.insert(name, value);
        }
        if call.body.is_some() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if call.keyed() {
            headers.insert(IDEMPOTENCY_KEY, idempotency_key(key)?);
        }
        if let Some(etag) = &call.if_none_match {
            headers.insert(header::IF_NONE_MATCH, header_value("If-None-Match", etag)?);
        }
        Ok(Prepared {
            method: call.method.clone(),
            url: self.url(call),
            headers,
            body: call.body.clone(),
        })
    }

    /// Each segment is encoded as one, whatever it holds: `/`, `%` and `?` included.
    fn url<T>(&self, call: &Call<T>) -> Url {
        let mut url = self.base_url.clone();
        url.path_segments_mut()
            .expect("the base url is http or https, which have paths")
            .pop_if_empty()
            .extend(&call.segments);
        if !call.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&call.query);
        }
        url
    }
}

/// Reads the address of a server: an origin, with a path where a proxy puts one before it.
pub(crate) fn base_url(text: &str) -> Result<Url, Error> {
    let wrong = |what: &str| Error::config(format!("base url `{text}`: {what}"));
    let url = Url::parse(text).map_err(|error| match error {
        url::ParseError::RelativeUrlWithoutBase => wrong(NO_SCHEME),
        other => wrong(&other.to_string()),
    })?;
    // Ahead of the rules whose text repeats the url.
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Error::config("base url: must not hold a user or password"));
    }
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong(NO_SCHEME));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("must not have a query or fragment"));
    }
    Ok(url)
}

/// Makes the header of a key, which no `Debug` shows.
pub(crate) fn secret_header(key: &SecretString, scheme: &str) -> Result<HeaderValue, Error> {
    // The error must not repeat the key.
    let mut value = HeaderValue::from_str(&format!("{scheme}{}", key.expose_secret().trim()))
        .map_err(|_| Error::config("a key must be visible ASCII characters"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn idempotency_key(given: Option<&str>) -> Result<HeaderValue, Error> {
    let Some(key) = given else {
        let made = uuid::Uuid::now_v7().hyphenated().to_string();
        return header_value("Idempotency-Key", &made);
    };
    let key = IdempotencyKey::new(key.as_bytes()).map_err(Error::Invalid)?;
    header_value("Idempotency-Key", key.as_str())
}

fn header_value(name: &str, value: &str) -> Result<HeaderValue, Error> {
    let rule = "must be visible ASCII characters";
    HeaderValue::from_str(value).map_err(|_| Error::Invalid(Violations::one(name, rule)))
}

#[cfg(test)]
mod call_tests {
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
            assert_eq!(retry_after(value, now), delay.map(Duration::from_secs), "{value}");
        }
    }
}
