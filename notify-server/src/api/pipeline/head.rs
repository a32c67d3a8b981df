//! Checks of a request's head: every reader has to understand it in the same way, and it has to
//! stay within the limits.

use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Request, Version, header};

use crate::api::error::ApiError;

/// Longest path and query, in bytes.
const URI_BYTES_MAX: usize = 8_192;
/// Largest header block, in bytes, counted as HTTP/1 writes it.
pub(crate) const HEADER_BYTES_MAX: usize = 16_384;
/// Most header fields.
pub(crate) const HEADERS_MAX: usize = 100;

/// Refuses heads over the limits. The parser's own limits are higher, so that the response has our
/// form.
pub(super) fn check_size<B>(request: &Request<B>) -> Result<(), ApiError> {
    let uri = request.uri();
    let uri_bytes = uri.path().len() + uri.query().map_or(0, |query| query.len() + 1);
    if uri_bytes > URI_BYTES_MAX {
        let what = format!("must be at most {URI_BYTES_MAX} bytes");
        return Err(ApiError::invalid("url", &what));
    }
    let headers = request.headers();
    // Name, colon, space, value, end of line.
    let bytes: usize =
        headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    if bytes > HEADER_BYTES_MAX || headers.len() > HEADERS_MAX {
        let what =
            format!("must be at most {HEADERS_MAX} fields and {HEADER_BYTES_MAX} bytes together");
        return Err(ApiError::invalid("headers", &what));
    }
    Ok(())
}

/// Refuses a head that a proxy in front of the server may read as another request: no host or two
/// (RFC 9112 section 3.2), an authority other than the host (RFC 9113 section 8.3.1), and an
/// unknown transfer coding (RFC 9112 section 6.1; the contract has no 501).
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
    let authority = request.uri().authority();
    match (request.version(), host, authority) {
        // HTTP/1.0 has no such field.
        (Version::HTTP_09 | Version::HTTP_10, ..) | (Version::HTTP_11, Some(_), _) => Ok(()),
        (Version::HTTP_11, None, _) | (_, None, None) => {
            Err(ApiError::NotHttp("host: is required"))
        }
        (_, Some(host), Some(authority))
            if !host.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes()) =>
        {
            Err(ApiError::NotHttp("host: is not the authority of the request"))
        }
        (_, Some(_), _) | (_, None, Some(_)) => Ok(()),
    }
}

/// The only `Host`, if there is one. An empty one is valid if the target has no authority.
fn single_host(headers: &HeaderMap) -> Result<Option<&HeaderValue>, ApiError> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(ApiError::NotHttp("host: must be given once"));
    }
    let is_name = |host: &HeaderValue| {
        let authority = Authority::try_from(host.as_bytes());
        host.is_empty() || authority.is_ok_and(|authority| !authority.as_str().contains('@'))
    };
    match host {
        Some(host) if !is_name(host) => Err(ApiError::NotHttp("host: is not a host")),
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
        let (one, two) = (Version::HTTP_11, Version::HTTP_2);
        let (required, once) = (Some("host: is required"), Some("host: must be given once"));
        let (no_host, other) =
            (Some("host: is not a host"), Some("host: is not the authority of the request"));
        type Fields = &'static [(&'static str, &'static str)];
        let cases: [(Version, &str, Fields, Option<&str>); 20] = [
            (one, "/", &[("host", "a")], None),
            (one, "/", &[("host", "a.example:8080")], None),
            (one, "/", &[("host", "[::1]:8080")], None),
            (one, "/", &[("host", "")], None),
            (one, "http://b/", &[("host", "a")], None),
            (one, "/", &[], required),
            (one, "http://a/", &[], required),
            (one, "/", &[("host", "a"), ("host", "a")], once),
            (one, "/", &[("host", "a"), ("host", "b")], once),
            (one, "/", &[("host", "a b")], no_host),
            (one, "/", &[("host", "a/b")], no_host),
            (one, "/", &[("host", "a, b")], no_host),
            (one, "/", &[("host", "user@a")], no_host),
            (Version::HTTP_10, "/", &[], None),
            (Version::HTTP_10, "/", &[("host", "a"), ("host", "b")], once),
            (two, "https://a/", &[], None),
            (two, "https://a/", &[("host", "A")], None),
            (two, "/", &[("host", "a")], None),
            (two, "https://a/", &[("host", "b")], other),
            (two, "/", &[], required),
        ];
        for (version, uri, headers, expected) in cases {
            let found = error_of(version, uri, headers);
            assert_eq!(found.as_deref(), expected, "{version:?} {uri} {headers:?}");
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
            let found = error_of(Version::HTTP_11, "/", &headers);
            assert_eq!(found.as_deref(), expected, "{codings:?}");
        }
    }
}
