//! One fetch of one feed. The request is conditional, every redirect passes the guard for outgoing
//! connections, and a fetch is limited to ten seconds and five mebibytes.
//!
//! Users choose the urls of feeds and see the errors of fetches. An error therefore names only its
//! kind: more detail would let a user explore the network behind the server.

use std::io::Read;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use hyper::body::{Body as _, Incoming};
use notify_core::Timestamp;
use url::Url;

use super::text::URL_BYTES_MAX;
use super::{FEED_BYTES_MAX, ParseError, time};
use crate::outbound::{
    DialError, HttpClient, Outbound, RequestError, Unreachable, next_chunk, retry_after,
    system_roots, trusting,
};
use crate::store::Validators;
use crate::tls_problem::TlsProblem;

/// Longest duration of a fetch, including redirects.
pub(crate) const FETCH_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time to connect, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Most redirects that are followed.
const REDIRECTS_MAX: usize = 3;
/// Longest `ETag` and `Last-Modified` that are kept, in bytes.
const VALIDATOR_BYTES_MAX: usize = 512;
/// The `Accept` header; without it some servers respond with HTML.
const ACCEPT: &str = "application/rss+xml, application/atom+xml, application/feed+json, \
    application/xml;q=0.9, text/xml;q=0.9, application/json;q=0.8, */*;q=0.1";
const USER_AGENT: &str = concat!("notify-server/", env!("CARGO_PKG_VERSION"), " (feeds)");

/// Error text for a name that does not resolve, or only to private addresses.
const NO_PUBLIC_ADDRESS: &str = "the name of the host does not resolve, or only to private addresses, \
    which need --allow-private-networks";
/// Error text for an address that the guard refuses.
const NOT_ALLOWED: &str = "the address is not allowed: private addresses, and other ports than 80 and \
    443, need --allow-private-networks";

/// Why a feed was not read. The texts are shown to callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FetchError {
    /// The guard refused the url of the feed or of a redirect: its address, its port or its scheme.
    #[error("{NOT_ALLOWED}")]
    Blocked,
    /// The name of the host resolves only to private addresses. The text is the same as for an
    /// unknown name, so that a user cannot find out which names exist in the network behind the
    /// server.
    #[error("{NO_PUBLIC_ADDRESS}")]
    PrivateAddress,
    /// The name of the host does not resolve.
    #[error("{NO_PUBLIC_ADDRESS}")]
    Unresolved,
    /// The response arrived, but this server did not parse the body in time, or its parser
    /// panicked. This is not a failure of the feed.
    #[error("could not be read by this server this time")]
    NotAttempted,
    /// The egress proxy cannot be reached or refuses the connection. The log of the server names the proxy.
    #[error(
        "the egress proxy of this server makes no connection to the host; the server's log has the reason"
    )]
    Proxy,
    /// There was no connection, the response was not HTTP, or it did not arrive in time. One text for
    /// all three reveals nothing about the host.
    #[error("the host does not answer, or not in time")]
    Unreachable,
    /// TLS failed.
    #[error("the TLS connection failed: {0}")]
    Tls(TlsProblem),
    /// The status is neither 200, 304, 410 nor a redirect.
    #[error("answered with status {status}")]
    Status {
        /// The status.
        status: u16,
        /// The wait that a 429 or 503 requested in `Retry-After`, in milliseconds from the
        /// response.
        retry_after_ms: Option<i64>,
    },
    /// The status is 410. The feed is not fetched any more.
    #[error("is gone (status 410) and not fetched any more")]
    Gone,
    /// There were too many redirects, or a redirect has no usable `Location`. A url over 2,048
    /// bytes is not usable, because every relative url of the feed would repeat it.
    #[error("redirects too often, or to an invalid address")]
    Redirected,
    /// The body is larger than [`FEED_BYTES_MAX`], before or after decompression.
    #[error("is larger than 5 MiB")]
    TooLarge,
    /// The body has an encoding other than gzip, or is broken gzip.
    #[error("is incomplete, or compressed in a way that the request did not allow")]
    Compression,
    /// The body cannot be parsed as a feed.
    #[error("{0}")]
    Unreadable(#[from] ParseError),
}

/// The relevant headers of a response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// `Cache-Control: max-age`, in seconds.
    pub(crate) max_age_seconds: Option<u64>,
    /// The new url of a feed that was moved permanently (301 or 308). With several redirects, it is
    /// the target of the last one of the unbroken series of permanent redirects at the start.
    pub(crate) moved_to: Option<String>,
}

/// A response of status 200 or 304.
#[derive(Debug)]
pub(crate) enum FeedResponse {
    /// The feed has not changed.
    Unchanged(Head),
    /// The body, not decompressed yet.
    Changed(Body),
}

/// The body of a response, with the headers that belong to it.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) head: Head,
    /// The url after all redirects.
    pub(crate) url: Url,
    pub(crate) validators: Validators,
    charset: Option<String>,
    is_gzip: bool,
    bytes: Vec<u8>,
}

/// The HTTP client for feeds.
pub(crate) struct FeedClient {
    guard: Outbound,
    timeout: Duration,
    /// Created at the first request, because reading the system's root certificates takes a while.
    client: OnceLock<HttpClient>,
}

impl FeedClient {
    pub(crate) fn new(guard: Outbound, timeout: Duration) -> Self {
        Self { guard, timeout, client: OnceLock::new() }
    }

    /// Requests a feed and follows redirects. `validators` make the request conditional.
    pub(crate) async fn get(
        &self,
        url: &str,
        validators: &Validators,
    ) -> Result<FeedResponse, FetchError> {
        let fetching = self.follow(url, validators);
        tokio::time::timeout(self.timeout, fetching).await.unwrap_or(Err(FetchError::Unreachable))
    }

    async fn follow(&self, url: &str, validators: &Validators) -> Result<FeedResponse, FetchError> {
        let mut url = self.guard.page(url).map_err(|_| FetchError::Blocked)?;
        let (mut head, mut is_permanent) = (Head::default(), true);
        for _ in 0..=REDIRECTS_MAX {
            let response = self.request(&url, validators).await?;
            let status = response.status();
            if !is_redirect(status) {
                return read_response(response, url, head).await;
            }
            let next = redirect_target(&url, response.headers()).ok_or(FetchError::Redirected)?;
            url = self.guard.page(next.as_str()).map_err(|_| FetchError::Blocked)?;
            is_permanent &= matches!(status.as_u16(), 301 | 308);
            if is_permanent {
                head.moved_to = Some(url.to_string());
            }
        }
        Err(FetchError::Redirected)
    }

    async fn request(
        &self,
        url: &Url,
        validators: &Validators,
    ) -> Result<Response<Incoming>, FetchError> {
        // No connection is kept between requests.
        let client = self.client.get_or_init(|| {
            HttpClient::new(&self.guard, Arc::new(trusting(system_roots())), CONNECT_TIMEOUT, 0)
        });
        let headers = request_headers(validators);
        let response = client.send(Method::GET, url.as_str(), headers, Bytes::new()).await;
        response.map_err(|error| failure(&error))
    }
}

/// Why there is no response.
fn failure(error: &RequestError) -> FetchError {
    match error.dial_error() {
        Some(DialError::Unreachable(Unreachable::NotAllowed)) => FetchError::PrivateAddress,
        Some(DialError::Unreachable(Unreachable::Unresolved(_))) => FetchError::Unresolved,
        Some(DialError::Tls(error)) => {
            TlsProblem::of(error).map_or(FetchError::Unreachable, FetchError::Tls)
        }
        Some(DialError::Proxy(error)) if !error.is_about_target() => FetchError::Proxy,
        Some(DialError::Proxy(_) | DialError::Refused(_) | DialError::TimedOut) | None => {
            FetchError::Unreachable
        }
    }
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// The absolute url of a redirect; `None` if `Location` is missing, is not a url, or is too long.
fn redirect_target(url: &Url, headers: &HeaderMap) -> Option<Url> {
    // Read as UTF-8, because some servers do not escape characters outside ASCII.
    let location = std::str::from_utf8(headers.get(header::LOCATION)?.as_bytes()).ok()?;
    if location.len() > URL_BYTES_MAX {
        return None;
    }
    let next = url.join(location).ok()?;
    (next.as_str().len() <= URL_BYTES_MAX).then_some(next)
}

fn request_headers(validators: &Validators) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, HeaderValue::from_static(ACCEPT));
    headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
    let conditions = [
        (header::IF_NONE_MATCH, &validators.etag),
        (header::IF_MODIFIED_SINCE, &validators.last_modified),
    ];
    for (name, value) in conditions {
        if let Some(value) = value.as_ref().and_then(|value| HeaderValue::from_str(value).ok()) {
            headers.insert(name, value);
        }
    }
    headers
}

/// Reads a response that is not a redirect: its status, its headers and, for 200, its body.
async fn read_response(
    mut response: Response<Incoming>,
    url: Url,
    mut head: Head,
) -> Result<FeedResponse, FetchError> {
    let headers = response.headers();
    head.max_age_seconds = max_age(headers);
    match response.status().as_u16() {
        200 => {}
        304 => return Ok(FeedResponse::Unchanged(head)),
        410 => return Err(FetchError::Gone),
        status => {
            let retry_after_ms = match status {
                429 | 503 => retry_after_ms(headers),
                _ => None,
            };
            return Err(FetchError::Status { status, retry_after_ms });
        }
    }
    let is_gzip = match lowercase_value(headers, header::CONTENT_ENCODING).as_deref() {
        None | Some("" | "identity") => false,
        Some("gzip" | "x-gzip") => true,
        Some(_) => return Err(FetchError::Compression),
    };
    let validators = Validators {
        etag: validator(headers, header::ETAG),
        last_modified: validator(headers, header::LAST_MODIFIED),
    };
    let charset = charset(headers);
    let length = response.body().size_hint().exact();
    let content_length = length.and_then(|length| usize::try_from(length).ok());
    if content_length.is_some_and(|length| length > FEED_BYTES_MAX) {
        return Err(FetchError::TooLarge);
    }
    // Allocated once with the announced length: a growing buffer would copy the body.
    let mut bytes = Vec::with_capacity(content_length.unwrap_or(0));
    let cut = |_| FetchError::Unreachable;
    while let Some(chunk) = next_chunk(response.body_mut()).await.map_err(cut)? {
        if bytes.len() + chunk.len() > FEED_BYTES_MAX {
            return Err(FetchError::TooLarge);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(FeedResponse::Changed(Body { head, url, validators, charset, is_gzip, bytes }))
}

impl Body {
    /// The decompressed bytes. Blocks while it decompresses.
    ///
    /// # Errors
    /// `TooLarge` above [`FEED_BYTES_MAX`], `Compression` when the gzip is broken.
    pub(crate) fn plain(&self) -> Result<std::borrow::Cow<'_, [u8]>, FetchError> {
        if !self.is_gzip {
            return Ok((&self.bytes[..]).into());
        }
        // Allocated once with the maximum size: a growing buffer would copy the text.
        let mut plain = Vec::with_capacity(FEED_BYTES_MAX + 1);
        let limit = FEED_BYTES_MAX as u64 + 1;
        let mut gzip = flate2::read::MultiGzDecoder::new(&self.bytes[..]).take(limit);
        gzip.read_to_end(&mut plain).map_err(|_| FetchError::Compression)?;
        if plain.len() > FEED_BYTES_MAX { Err(FetchError::TooLarge) } else { Ok(plain.into()) }
    }

    /// The charset of the `Content-Type` header.
    pub(crate) fn charset(&self) -> Option<&str> {
        self.charset.as_deref()
    }
}

/// The value of a header in lower case.
fn lowercase_value(headers: &HeaderMap, name: header::HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(|text| text.trim().to_ascii_lowercase())
}

/// A validator as received. Weak validators are kept too; a validator that is too long is ignored.
fn validator(headers: &HeaderMap, name: header::HeaderName) -> Option<String> {
    let text = headers.get(name)?.to_str().ok()?;
    (!text.is_empty() && text.len() <= VALIDATOR_BYTES_MAX).then(|| text.to_owned())
}

/// The charset parameter of `Content-Type`, in lower case and without quotes.
fn charset(headers: &HeaderMap) -> Option<String> {
    let content_type = lowercase_value(headers, header::CONTENT_TYPE)?;
    let parameters =
        content_type.split(';').skip(1).filter_map(|parameter| parameter.split_once('='));
    let mut charsets = parameters.filter(|(name, _)| name.trim() == "charset");
    charsets.next().map(|(_, value)| value.trim().trim_matches('"').to_owned())
}

/// The `max-age` of `Cache-Control`, in seconds.
fn max_age(headers: &HeaderMap) -> Option<u64> {
    let control = lowercase_value(headers, header::CACHE_CONTROL)?;
    let mut ages = control.split(',').filter_map(|part| part.trim().strip_prefix("max-age="));
    ages.next()?.trim_matches('"').parse().ok()
}

/// How long to wait by `Retry-After`, in milliseconds. A date in `Retry-After` is compared with the
/// `Date` of the same response, so a wrong clock of this server does not matter. Without `Date`, a date
/// in `Retry-After` is ignored.
fn retry_after_ms(headers: &HeaderMap) -> Option<i64> {
    let date = headers.get(header::DATE).and_then(|date| time::read(date.to_str().ok()?));
    let wait = retry_after(headers, date.unwrap_or(Timestamp(i64::MAX)))?;
    i64::try_from(wait.as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = lines.iter().map(|(name, value)| {
            (header::HeaderName::from_static(name), HeaderValue::from_static(value))
        });
        pairs.collect()
    }

    #[test]
    fn response_headers_of_time_and_charset_are_parsed() {
        for (value, expected) in [
            ("max-age=60", Some(60)),
            ("public, Max-Age=3600, must-revalidate", Some(3_600)),
            ("no-cache", None),
            ("max-age=soon", None),
            ("s-maxage=60", None),
        ] {
            assert_eq!(max_age(&headers(&[("cache-control", value)])), expected, "{value}");
        }
        for (value, expected) in [
            ("text/xml; charset=ISO-8859-1", Some("iso-8859-1")),
            ("text/xml;charset=\"utf-8\"", Some("utf-8")),
            ("text/xml", None),
        ] {
            let charset = charset(&headers(&[("content-type", value)]));
            assert_eq!(charset.as_deref(), expected, "{value}");
        }
        let date = ("date", "Tue, 02 Jun 2026 08:30:00 GMT");
        for (value, expected) in [
            ("120", Some(120_000)),
            ("Tue, 02 Jun 2026 08:31:00 GMT", Some(60_000)),
            ("Tue, 02 Jun 2026 08:29:00 GMT", Some(0)),
            ("later", None),
            ("99999999999999999999", Some(86_400_000)),
            ("Tue, 02 Jun 9926 08:31:00 GMT", Some(86_400_000)),
        ] {
            let wait_ms = retry_after_ms(&headers(&[date, ("retry-after", value)]));
            assert_eq!(wait_ms, expected, "{value}");
        }
    }
}
