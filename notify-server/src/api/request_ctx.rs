//! The context of a request, which a handler gets: the caller, the path, the body, and the parts of
//! the server that the handler may use.

use std::borrow::Cow;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use http::request::Parts;
use http::{HeaderMap, Method, header};
use notify_core::{
    App, AppId, DeviceId, DeviceLimits, IdempotencyKey, KeyGrant, KeyScope, LIMIT_DEFAULT,
    NotificationId, PageQuery, Timestamp,
};
use percent_encoding::percent_decode_str;

use crate::api::Api;
use crate::api::caller::{Caller, InboundWebhook, WebOrigin};
use crate::api::error::ApiError;
use crate::api::path::{placeholder, segments};
use crate::api::pipeline::memory::RequestBody;
use crate::keys::{hex, sha256};
use crate::store::{AppAccess, AppNo, IdempotentRequest, PageRequest};

/// Longest path that an idempotency record stores without hashing it, in bytes.
const IDEMPOTENCY_PATH_BYTES_MAX: usize = 512;

const IDEMPOTENCY_KEY: header::HeaderName = header::HeaderName::from_static("idempotency-key");

/// A request that passed the pipeline, with its body.
pub(crate) struct RequestCtx {
    /// The server.
    pub(crate) api: Arc<Api>,
    /// Who sent the request.
    pub(crate) caller: Caller,
    /// Path template of the endpoint.
    pub(crate) path_template: &'static str,
    /// The request's head.
    pub(crate) parts: Parts,
    /// The whole body.
    pub(crate) body: RequestBody,
    /// When the whole request had arrived.
    pub(crate) received_at: Timestamp,
    /// The client's address.
    pub(crate) address: IpAddr,
    /// The proxy that forwarded the request, if it is not trusted. `address` is then that of the proxy.
    pub(crate) untrusted_proxy: Option<IpAddr>,
    /// The id of the request, as in the response's `X-Request-Id` and in the log.
    pub(crate) request_id: String,
}

impl RequestCtx {
    /// The application whose key was used.
    pub(crate) fn app(&self) -> &App {
        &self.app_access().app
    }

    /// The internal id of the application whose key was used, or which allows the page's origin.
    pub(crate) fn app_no(&self) -> AppNo {
        match &self.caller {
            Caller::Browser(origin) => origin.web.no,
            Caller::App(_)
            | Caller::DeviceApp(_)
            | Caller::Admin(_)
            | Caller::Platform(_)
            | Caller::Console(_)
            | Caller::Anonymous => self.app_access().no,
        }
    }

    /// The id of the application whose key was used, or which allows the page's origin.
    pub(crate) fn app_id(&self) -> AppId {
        self.caller.web_origin().map_or_else(|| self.app().id, |origin| origin.app)
    }

    /// Whether the caller may read the addresses of devices.
    pub(crate) fn may_read_addresses(&self) -> bool {
        self.has_scope(KeyScope::Devices)
    }

    /// Whether the key of the caller has a scope.
    pub(crate) fn has_scope(&self, scope: KeyScope) -> bool {
        self.app_access().terms.has_scope(scope)
    }

    /// The origin of the calling page.
    pub(crate) fn web_origin(&self) -> &WebOrigin {
        let origin = self.caller.web_origin();
        origin.expect("the pipeline authorizes the origin of every request under /web/v1")
    }

    /// What the publishable key of the caller allows.
    pub(crate) fn device_limits(&self) -> &DeviceLimits {
        match &self.app_access().terms.grant {
            KeyGrant::Devices(limits) => limits,
            KeyGrant::Api(_) => {
                unreachable!("the pipeline authenticates every request under /device/v1")
            }
        }
    }

    /// The webhook that is called.
    pub(crate) fn webhook(&self) -> &InboundWebhook {
        match &self.caller {
            Caller::Platform(webhook) => webhook,
            Caller::App(_)
            | Caller::DeviceApp(_)
            | Caller::Admin(_)
            | Caller::Browser(_)
            | Caller::Console(_)
            | Caller::Anonymous => {
                unreachable!("the pipeline finds the webhook of every request under /hooks")
            }
        }
    }

    fn app_access(&self) -> &AppAccess {
        match &self.caller {
            Caller::App(access) | Caller::DeviceApp(access) => access,
            Caller::Browser(_)
            | Caller::Admin(_)
            | Caller::Platform(_)
            | Caller::Console(_)
            | Caller::Anonymous => {
                unreachable!("the pipeline authenticates every request under /v1 and /device/v1")
            }
        }
    }

    /// The header fields of the request.
    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }

    /// The body's text without a byte-order mark, for resources that store the request. Call it
    /// only after validation, which refuses a body that is not UTF-8.
    pub(crate) fn body_text(&self) -> String {
        let text = String::from_utf8_lossy(&self.body.bytes);
        text.trim_start_matches('\u{feff}').trim().to_owned()
    }

    /// The text of a placeholder in the path, percent-decoded once.
    ///
    /// # Errors
    /// 404 for a text that is not UTF-8 or contains U+0000: it cannot name anything.
    pub(crate) fn path_param(&self, name: &str) -> Result<Cow<'_, str>, ApiError> {
        let mut pairs = segments(self.path_template).zip(segments(self.parts.uri.path()));
        let (_, segment) = pairs
            .find(|(part, _)| placeholder(part) == Some(name))
            .expect("a handler reads placeholders of its own path");
        decode_segment(segment).ok_or(ApiError::NotFound)
    }

    /// An id in the path that the server generated.
    ///
    /// # Errors
    /// 404 for a text that is not such an id.
    pub(crate) fn id<Id: FromStr>(&self, name: &str) -> Result<Id, ApiError> {
        self.path_param(name)?.parse().map_err(|_| ApiError::NotFound)
    }

    /// The device id in the path.
    pub(crate) fn device_id(&self) -> Result<DeviceId, ApiError> {
        DeviceId::new(self.path_param("device_id")?).map_err(|_| ApiError::NotFound)
    }

    /// The notification id in the path.
    pub(crate) fn notification_id(&self) -> Result<NotificationId, ApiError> {
        NotificationId::new(self.path_param("id")?).map_err(|_| ApiError::NotFound)
    }

    /// The query's parameters, percent-decoded, in order.
    pub(crate) fn query(&self) -> Result<Vec<(String, String)>, ApiError> {
        decode_pairs(self.parts.uri.query().unwrap_or_default())
    }

    /// The idempotency key of this request with its scope, if the caller sent one. Only `POST`
    /// requests of applications have one.
    pub(crate) fn idempotency_key(&self) -> Result<Option<IdempotentRequest>, ApiError> {
        if self.parts.method != Method::POST || !matches!(self.caller, Caller::App(_)) {
            return Ok(None);
        }
        let mut keys = self.parts.headers.get_all(IDEMPOTENCY_KEY).iter();
        let Some(key) = keys.next() else { return Ok(None) };
        if keys.next().is_some() {
            return Err(ApiError::invalid("Idempotency-Key", "is given twice"));
        }
        let key = IdempotencyKey::new(key.as_bytes())?;
        Ok(Some(IdempotentRequest {
            path: idempotency_path(self.parts.uri.path()),
            key: key.as_str().to_owned(),
            digest: sha256(&self.body.bytes),
            at: self.api.trusted_clock.now(),
            device: None,
        }))
    }
}

/// A path as part of an idempotency record. A long one is hashed: an index entry of PostgreSQL is
/// smaller than the longest path.
fn idempotency_path(path: &str) -> String {
    if path.len() <= IDEMPOTENCY_PATH_BYTES_MAX {
        return path.to_owned();
    }
    format!("sha256:{}", hex(&sha256(path.as_bytes())))
}

/// The requested page of a list.
pub(crate) fn page_request(query: PageQuery) -> PageRequest {
    PageRequest { limit: query.limit.unwrap_or(LIMIT_DEFAULT), cursor: query.cursor }
}

/// A path segment, percent-decoded once. `None` for a text that is not UTF-8 or contains U+0000.
/// Other control characters are left to the parser of the text: ids refuse them, names of tags may
/// contain them.
pub(crate) fn decode_segment(segment: &str) -> Option<Cow<'_, str>> {
    let text = percent_decode_str(segment).decode_utf8().ok()?;
    (!text.contains('\0')).then_some(text)
}

/// The pairs of a query or form (`application/x-www-form-urlencoded`), in order.
pub(crate) fn decode_pairs(text: &str) -> Result<Vec<(String, String)>, ApiError> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decode_query_text(name)?, decode_query_text(value)?))
        })
        .collect()
}

fn decode_query_text(text: &str) -> Result<String, ApiError> {
    let with_spaces = text.replace('+', " ");
    let decoded = percent_decode_str(&with_spaces).decode_utf8();
    decoded
        .map(Cow::into_owned)
        .map_err(|_| ApiError::invalid("query", "must be percent-encoded UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_decoded_once() {
        let cases = [
            ("a%20b", Some("a b")),
            ("a%252Fb", Some("a%2Fb")),
            ("a%2Fb", Some("a/b")),
            ("%C3%BC", Some("ü")),
            ("%00", None),
            ("a%0Ab", Some("a\nb")),
            ("%FF", None),
            ("%zz", Some("%zz")),
        ];
        for (segment, expected) in cases {
            assert_eq!(decode_segment(segment).as_deref(), expected, "{segment}");
        }
    }
}
