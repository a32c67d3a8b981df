//! The origin of a page that calls from a browser (`/web/v1`): which application allows it, and the
//! CORS headers with which the page may read the response (Fetch standard, section 3.3).

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use notify_core::AppId;
use url::Url;
use warp::reply::Response;

use crate::api::error::ApiError;
use crate::api::router::RouteMatch;

/// Path below which browsers call.
pub(super) const AREA: &str = "/web/v1";
/// Largest body from a browser or an app, in bytes. A subscription with a long endpoint and 50 tags takes
/// much less.
pub(super) const BODY_BYTES_MAX: usize = 65_536;
/// How long a browser may cache a preflight, in seconds. Every call checks the origin again, so
/// that removing an origin takes effect at once.
const PREFLIGHT_SECONDS: &str = "7200";
/// Headers that a page may send.
const HEADERS_ALLOWED: &str = "content-type, x-device-secret";
const SEC_FETCH_SITE: header::HeaderName = header::HeaderName::from_static("sec-fetch-site");

/// The application id in a path below [`AREA`].
pub(super) fn app_in_path(path: &str) -> Option<AppId> {
    path.strip_prefix(AREA)?.strip_prefix('/')?.split('/').next()?.parse().ok()
}

/// The origin of a request. When a page reads from its own origin, browsers omit `Origin` and send
/// `Sec-Fetch-Site: same-origin`; then the origin is that of this server. `None` if there is no
/// origin or more than one.
pub(super) fn request_origin(headers: &HeaderMap, public_url: &str) -> Option<HeaderValue> {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    match (origins.next(), origins.next()) {
        (Some(origin), None) => Some(origin.clone()),
        (Some(_), Some(_)) => None,
        (None, _) => {
            if headers.get(SEC_FETCH_SITE)? != "same-origin" {
                return None;
            }
            let own_url = Url::parse(public_url).ok()?;
            own_url.origin().ascii_serialization().try_into().ok()
        }
    }
}

/// The response to a preflight request: the methods and headers that a page may send. No endpoint
/// has the method `OPTIONS`, so the route of a preflight contains the methods of its path.
pub(super) fn preflight(route: &RouteMatch<'_>) -> Result<Response, ApiError> {
    let RouteMatch::MethodNotAllowed { allow, .. } = route else { return Err(ApiError::NotFound) };
    let mut response = Response::new(Bytes::new().into());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    let methods = HeaderValue::from_str(allow).expect("methods are visible ASCII");
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    let allowed = HeaderValue::from_static(HEADERS_ALLOWED);
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
    let seconds = HeaderValue::from_static(PREFLIGHT_SECONDS);
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, seconds);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_application_from_the_path() {
        let id = "0190a7c0-0000-7000-8000-00000000ffff";
        for (path, names_app) in [
            (format!("/web/v1/{id}"), true),
            (format!("/web/v1/{id}/devices"), true),
            (format!("/web/v1/{}", id.to_uppercase()), false),
            (format!("/web/v1x/{id}"), false),
            ("/web/v1/".to_owned(), false),
            ("/web/v1".to_owned(), false),
        ] {
            assert_eq!(app_in_path(&path).is_some(), names_app, "{path}");
        }
    }

    #[test]
    fn without_an_origin_only_same_origin_requests_have_one() {
        for (origins, site, expected) in [
            (&["https://a.example"][..], None, Some("https://a.example")),
            (&["null"], None, Some("null")),
            (&["https://a.example", "https://b.example"], None, None),
            (&["https://a.example"], Some("same-origin"), Some("https://a.example")),
            (&[], Some("same-origin"), Some("https://notify.example")),
            (&[], Some("same-site"), None),
            (&[], Some("none"), None),
            (&[], None, None),
        ] {
            let mut headers = HeaderMap::new();
            for origin in origins {
                headers.append(header::ORIGIN, origin.parse().unwrap());
            }
            if let Some(site) = site {
                headers.insert(SEC_FETCH_SITE, HeaderValue::from_static(site));
            }
            let origin = request_origin(&headers, "https://notify.example/below");
            assert_eq!(origin.as_ref().map(|origin| origin.to_str().unwrap()), expected);
        }
    }
}
