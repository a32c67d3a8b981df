//! Checks of a request's head: a proxy in front of the server has to understand the head in the
//! same way as the server, and the head has to stay within the limits of size.

use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Request, Version, header};

use crate::api::error::ApiError;

/// Longest path and query, in bytes.
const URI_BYTES_MAX: usize = 8_192;
/// Largest header block, in bytes, counted as HTTP/1 writes it.
pub(crate) const HEADER_BYTES_MAX: usize = 16_384;
/// Most header fields.
pub(crate) const HEADERS_MAX: usize = 100;

/// Refuses heads over the limits. hyper's own limits are higher, so that this check sends the
/// error.
pub(super) fn check_size<B>(request: &Request<B>) -> Result<(), ApiError> {
    let uri = request.uri();
    let uri_bytes = uri.path().len() + uri.query().map_or(0, |query| query.len() + 1);
    if uri_bytes > URI_BYTES_MAX {
        let rule = format!("must be at most {URI_BYTES_MAX} bytes");
        return Err(ApiError::invalid("url", &rule));
    }
    let headers = request.headers();
    // Name, colon, space, value, end of line.
    let bytes: usize =
        headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    if bytes > HEADER_BYTES_MAX || headers.len() > HEADERS_MAX {
        let rule =
            format!("must be at most {HEADERS_MAX} fields and {HEADER_BYTES_MAX} bytes together");
        return Err(ApiError::invalid("headers", &rule));
    }
    Ok(())
}

/// Refuses a head that a proxy in front of the server may understand differently. Otherwise an
/// attacker could send a request past the proxy's checks. The refused heads have no host or two
/// hosts (RFC 9112 section 3.2), an authority other than the host (RFC 9113 section 8.3.1), or an
/// unknown transfer coding (RFC 9112 section 6.1; the contract has no 501).
///
/// # Errors
/// 400; the connection is closed.
pub(super) fn check_message<B>(request: &Request<B>) -> Result<(), ApiError> {
    check_host(request)?;
    let mut codings = request.headers().get_all(header::TRANSFER_ENCODING).iter();
    if let Some(coding) = codings.next() {
        let is_chunked = coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked");
        if !is_chunked || codings.next().is_some() {
            return Err(ApiError::NotHttp("transfer-encoding: must be chunked alone"));
        }
    }
    Ok(())
}

fn check_host<B>(request: &Request<B>) -> Result<(), ApiError> {
    let host = single_host(request.headers())?;
    match request.version() {
        // HTTP/1.0 does not require the field.
        Version::HTTP_09 | Version::HTTP_10 => Ok(()),
        // HTTP/1.1 requires the field, but does not compare it with the target of the request.
        Version::HTTP_11 if host.is_some() => Ok(()),
        Version::HTTP_11 => Err(ApiError::NotHttp("host: is required")),
        _ => check_authority(host, request.uri().authority()),
    }
}

/// Checks a request of HTTP/2, which names its host in the authority, in the field `Host`, or in
/// both.
fn check_authority(
    host: Option<&HeaderValue>,
    authority: Option<&Authority>,
) -> Result<(), ApiError> {
    match (host, authority) {
        (None, None) => Err(ApiError::NotHttp("host: is required")),
        (Some(host), Some(authority))
            if !host.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes()) =>
        {
            Err(ApiError::NotHttp("host: is not the authority of the request"))
        }
        (Some(_), _) | (None, Some(_)) => Ok(()),
    }
}

/// The value of the header `Host`, if the request has it. An empty value is valid: a target without
/// an authority has none.
fn single_host(headers: &HeaderMap) -> Result<Option<&HeaderValue>, ApiError> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(ApiError::NotHttp("host: must be given once"));
    }
    let is_valid = |host: &HeaderValue| {
        let authority = Authority::try_from(host.as_bytes());
        host.is_empty() || authority.is_ok_and(|authority| !authority.as_str().contains('@'))
    };
    match host {
        Some(host) if !is_valid(host) => Err(ApiError::NotHttp("host: is not a host")),
        host => Ok(host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(version: Version, uri: &str, headers: &[(&str, &str)]) -> Option<String> {
        let mut request = Request::builder().version(version).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        check_message(&request.body(()).unwrap()).err().map(|error| error.to_string())
    }

    #[test]
    fn requires_exactly_one_valid_host() {
        let (http1, http2) = (Version::HTTP_11, Version::HTTP_2);
        let (required, once) = (Some("host: is required"), Some("host: must be given once"));
        let (not_a_host, mismatch) =
            (Some("host: is not a host"), Some("host: is not the authority of the request"));
        type Fields = &'static [(&'static str, &'static str)];
        let cases: [(Version, &str, Fields, Option<&str>); 20] = [
            (http1, "/", &[("host", "a")], None),
            (http1, "/", &[("host", "a.example:8080")], None),
            (http1, "/", &[("host", "[::1]:8080")], None),
            (http1, "/", &[("host", "")], None),
            (http1, "http://b/", &[("host", "a")], None),
            (http1, "/", &[], required),
            (http1, "http://a/", &[], required),
            (http1, "/", &[("host", "a"), ("host", "a")], once),
            (http1, "/", &[("host", "a"), ("host", "b")], once),
            (http1, "/", &[("host", "a b")], not_a_host),
            (http1, "/", &[("host", "a/b")], not_a_host),
            (http1, "/", &[("host", "a, b")], not_a_host),
            (http1, "/", &[("host", "user@a")], not_a_host),
            (Version::HTTP_10, "/", &[], None),
            (Version::HTTP_10, "/", &[("host", "a"), ("host", "b")], once),
            (http2, "https://a/", &[], None),
            (http2, "https://a/", &[("host", "A")], None),
            (http2, "/", &[("host", "a")], None),
            (http2, "https://a/", &[("host", "b")], mismatch),
            (http2, "/", &[], required),
        ];
        for (version, uri, headers, expected) in cases {
            let error = error_of(version, uri, headers);
            assert_eq!(error.as_deref(), expected, "{version:?} {uri} {headers:?}");
        }
    }

    #[test]
    fn refuses_transfer_codings_other_than_chunked() {
        let wrong = Some("transfer-encoding: must be chunked alone");
        let cases: [(&[&str], Option<&str>); 9] = [
            (&[], None),
            (&["chunked"], None),
            (&["Chunked"], None),
            (&["gzip, chunked"], wrong),
            (&["gzip", "chunked"], wrong),
            (&["chunked, chunked"], wrong),
            (&["identity"], wrong),
            (&["chunked;q=1"], wrong),
            (&[""], wrong),
        ];
        for (codings, expected) in cases {
            let mut headers = vec![("host", "a")];
            headers.extend(codings.iter().map(|coding| ("transfer-encoding", *coding)));
            let error = error_of(Version::HTTP_11, "/", &headers);
            assert_eq!(error.as_deref(), expected, "{codings:?}");
        }
    }
}
