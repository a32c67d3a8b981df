//! One request as a plain value, and the answer to it: what both transports execute.
//! Nothing here does I/O.

use std::time::Duration;

use notify_core::{ErrorBody, Query, Request, Success, Timestamp, Violations};
use reqwest::{
    Method,
    header::{self, HeaderMap},
};
use serde::{Serialize, de::DeserializeOwned};
use url::Url;

use crate::Error;

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
            assert_eq!(retry_after(value, now), delay.map(Duration::from_secs), "{value}");
        }
    }
}
