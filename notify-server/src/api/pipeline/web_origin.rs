//! Pages that call from browsers (`/web/v1`): which application lets that origin in, and the words
//! of CORS that let the page read the answer (Fetch standard, section 3.3).

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use notify_core::AppId;
use url::Url;

use crate::api::error::ApiError;
use crate::api::router::Found;
use crate::store::WebApp;

/// What pages call under.
pub(super) const AREA: &str = "/web/v1";
/// Largest body of a page, in bytes: a subscription with a long endpoint and 50 tags is far below.
pub(super) const BODY_BYTES_MAX: usize = 65_536;
/// How long a browser may believe a preflight, in seconds. What it permits is asked again with every
/// call, so that an origin which is taken away is out at once all the same.
const PREFLIGHT_SECONDS: &str = "7200";
/// Headers that a page may send.
const HEADERS_ALLOWED: &str = "content-type, x-device-secret";
/// Headers that a page may read.
const HEADERS_EXPOSED: &str = "etag, retry-after, x-request-id";
const SEC_FETCH_SITE: header::HeaderName = header::HeaderName::from_static("sec-fetch-site");

/// A page that an application lets in.
#[derive(Debug, Clone)]
pub(crate) struct Page {
    /// The application's id.
    pub(crate) app: AppId,
    /// What it lets browsers do.
    pub(crate) web: WebApp,
    /// Where the page is from, as it said.
    origin: HeaderValue,
}

impl Page {
    /// The page, if the application lets its origin in.
    pub(super) fn admitted(app: AppId, web: &WebApp, origin: HeaderValue) -> Option<Self> {
        let is_allowed = origin.to_str().is_ok_and(|origin| web.access.allows_origin(origin));
        is_allowed.then(|| Self { app, web: web.clone(), origin })
    }

    /// Lets the page read an answer; never with credentials, which are not looked at here.
    pub(super) fn may_read(&self, response: &mut Response<Bytes>) {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, self.origin.clone());
        let exposed = HeaderValue::from_static(HEADERS_EXPOSED);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    }
}

/// The application that a path under [`AREA`] names.
pub(super) fn app_of(path: &str) -> Option<AppId> {
    path.strip_prefix(AREA)?.strip_prefix('/')?.split('/').next()?.parse().ok()
}

/// Where a page is from. Browsers leave `Origin` out where a page reads from its own origin, which
/// they say otherwise; then that is ours.
pub(super) fn origin_of(headers: &HeaderMap, public_url: &str) -> Option<HeaderValue> {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    match (origins.next(), origins.next()) {
        (Some(origin), None) => Some(origin.clone()),
        (Some(_), Some(_)) => None,
        (None, _) => {
            let is_own = headers.get(SEC_FETCH_SITE).is_some_and(|site| site == "same-origin");
            let own = Url::parse(public_url).ok().filter(|_| is_own)?;
            own.origin().ascii_serialization().try_into().ok()
        }
    }
}

/// What may be called there.
pub(super) fn preflight(found: &Found<'_>) -> Response<Bytes> {
    let allow = match found {
        Found::OtherMethod { allow, .. } => allow,
        Found::Row(_) | Found::Nothing => return ApiError::NotFound.into_response(),
    };
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    let allow = HeaderValue::from_str(allow).expect("methods are visible ASCII");
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, allow);
    let allowed = HeaderValue::from_static(HEADERS_ALLOWED);
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
    let seconds = HeaderValue::from_static(PREFLIGHT_SECONDS);
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, seconds);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_its_application() {
        let id = "0190a7c0-0000-7000-8000-00000000ffff";
        for (path, is_named) in [
            (format!("/web/v1/{id}"), true),
            (format!("/web/v1/{id}/devices"), true),
            (format!("/web/v1/{}", id.to_uppercase()), false),
            (format!("/web/v1x/{id}"), false),
            ("/web/v1/".to_owned(), false),
            ("/web/v1".to_owned(), false),
        ] {
            assert_eq!(app_of(&path).is_some(), is_named, "{path}");
        }
    }

    #[test]
    fn a_page_without_an_origin_is_ours_only_where_its_browser_says_so() {
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
            let found = origin_of(&headers, "https://notify.example/below");
            assert_eq!(found.as_ref().map(|origin| origin.to_str().unwrap()), expected);
        }
    }
}
