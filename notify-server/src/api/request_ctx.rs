//! What a handler works with: who calls, what the path names, and the parts of the server that it
//! may use.

use std::str::FromStr;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method, header};
use notify_core::{
    App, DeviceId, IdempotencyKey, LIMIT_DEFAULT, NotificationId, PageQuery, Timestamp,
};
use percent_encoding::percent_decode_str;

use super::Api;
use super::error::ApiError;
use super::inbound::Hook;
use super::pipeline::{Page, Room};
use crate::keys::{hex, sha256};
use crate::store::{AppAccess, AppNo, Once, PageRequest};

/// Longest path that an idempotency record has as it is, in bytes.
const ONCE_PATH_BYTES_MAX: usize = 512;

const IDEMPOTENCY_KEY: header::HeaderName = header::HeaderName::from_static("idempotency-key");

/// Who sent a request, as the front found out before anything else was looked at.
#[derive(Debug, Clone)]
pub(crate) enum Caller {
    /// An application, under `/v1`.
    App(Arc<AppAccess>),
    /// An administrator, under `/admin/v1`.
    Admin,
    /// A page in a browser, under `/web/v1`.
    Page(Arc<Page>),
    /// A platform, under `/hooks`. What proves it may stand in the body.
    Platform(Arc<Hook>),
    /// Anyone, elsewhere.
    Anyone,
}

/// A request that the front let through, with its body.
pub(crate) struct Exchange {
    /// The server.
    pub(crate) api: Arc<Api>,
    /// Who sent it.
    pub(crate) caller: Caller,
    /// `GET` where it was `HEAD`.
    pub(crate) method: Method,
    /// Path and query as they were sent.
    pub(crate) uri: http::Uri,
    /// Header fields.
    pub(crate) headers: HeaderMap,
    /// The whole body.
    pub(crate) body: Bytes,
    /// What the body takes of the bound of all bodies.
    pub(crate) _room: Option<Room>,
    /// When it came in.
    pub(crate) at: Timestamp,
}

/// What the path's placeholders stand for, in order: name and text, percent-decoded once; `None`
/// for what is not UTF-8 or holds U+0000 and so names nothing (B1, B6).
pub(crate) type Params = Vec<(&'static str, Option<String>)>;

/// What a handler works with.
pub(crate) struct Ctx {
    exchange: Arc<Exchange>,
    params: Params,
}

impl Ctx {
    pub(crate) fn new(exchange: Arc<Exchange>, params: Params) -> Self {
        Self { exchange, params }
    }

    /// The server.
    pub(crate) fn api(&self) -> &Arc<Api> {
        &self.exchange.api
    }

    /// The application whose key was used.
    pub(crate) fn app(&self) -> &App {
        &self.access().app
    }

    /// The inside number of the application whose key was used, or that let the page in.
    pub(crate) fn app_no(&self) -> AppNo {
        match &self.exchange.caller {
            Caller::Page(page) => page.web.no,
            Caller::App(_) | Caller::Admin | Caller::Platform(_) | Caller::Anyone => {
                self.access().no
            }
        }
    }

    /// The page that calls.
    pub(crate) fn page(&self) -> &Page {
        match &self.exchange.caller {
            Caller::Page(page) => page,
            Caller::App(_) | Caller::Admin | Caller::Platform(_) | Caller::Anyone => {
                unreachable!("the front lets nobody but pages in under /web/v1")
            }
        }
    }

    /// The webhook that is called.
    pub(crate) fn hook(&self) -> &Hook {
        match &self.exchange.caller {
            Caller::Platform(hook) => hook,
            Caller::App(_) | Caller::Admin | Caller::Page(_) | Caller::Anyone => {
                unreachable!("the front lets nobody but platforms in under /hooks")
            }
        }
    }

    /// When the request came in.
    pub(crate) fn at(&self) -> Timestamp {
        self.exchange.at
    }

    /// A header field.
    pub(crate) fn header(&self, name: &header::HeaderName) -> Option<&http::HeaderValue> {
        self.exchange.headers.get(name)
    }

    /// All header fields.
    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.exchange.headers
    }

    /// The body's bytes.
    pub(crate) fn body(&self) -> &Bytes {
        &self.exchange.body
    }

    /// The body's text without a byte-order mark, for what keeps a request as it was sent. Comes
    /// after validation, which lets nothing but UTF-8 through.
    pub(crate) fn body_text(&self) -> String {
        let text = String::from_utf8_lossy(self.body());
        text.trim_start_matches('\u{feff}').trim().to_owned()
    }

    /// A text of the path.
    pub(crate) fn text(&self, name: &str) -> Result<&str, ApiError> {
        let mut params = self.params.iter();
        let (_, text) = params
            .find(|(known, _)| *known == name)
            .expect("a handler asks for placeholders of its own template");
        text.as_deref().ok_or(ApiError::NotFound)
    }

    /// An id that the server made; anything else names nothing.
    pub(crate) fn id<Id: FromStr>(&self, name: &str) -> Result<Id, ApiError> {
        self.text(name)?.parse().map_err(|_| ApiError::NotFound)
    }

    /// A device id of the path.
    pub(crate) fn device_id(&self) -> Result<DeviceId, ApiError> {
        DeviceId::new(self.text("device_id")?).map_err(|_| ApiError::NotFound)
    }

    /// A notification id of the path.
    pub(crate) fn notification_id(&self) -> Result<NotificationId, ApiError> {
        NotificationId::new(self.text("id")?).map_err(|_| ApiError::NotFound)
    }

    /// The query's parameters, percent-decoded, in order.
    pub(crate) fn query(&self) -> Result<Vec<(String, String)>, ApiError> {
        form_pairs(self.exchange.uri.query().unwrap_or_default())
    }

    /// The idempotency record of this request (B8); the one place that makes it.
    pub(crate) fn once(&self) -> Result<Option<Once>, ApiError> {
        if self.exchange.method != Method::POST || !matches!(self.exchange.caller, Caller::App(_)) {
            return Ok(None);
        }
        let mut keys = self.exchange.headers.get_all(IDEMPOTENCY_KEY).iter();
        let Some(key) = keys.next() else { return Ok(None) };
        if keys.next().is_some() {
            return Err(ApiError::invalid("Idempotency-Key", "is given twice"));
        }
        let key = IdempotencyKey::new(key.as_bytes())?;
        Ok(Some(Once {
            path: once_path(self.exchange.uri.path()),
            key: key.as_str().to_owned(),
            digest: sha256(self.body()),
            at: self.api().trusted.now(),
        }))
    }

    fn access(&self) -> &AppAccess {
        match &self.exchange.caller {
            Caller::App(access) => access,
            Caller::Page(_) | Caller::Admin | Caller::Platform(_) | Caller::Anyone => {
                unreachable!("the front authenticates every path under /v1")
            }
        }
    }
}

/// A path as the key of an idempotency record: a long one by its hash, since an index of PostgreSQL
/// holds less than a path may have.
fn once_path(path: &str) -> String {
    if path.len() <= ONCE_PATH_BYTES_MAX {
        return path.to_owned();
    }
    format!("sha256:{}", hex(&sha256(path.as_bytes())))
}

/// The page that a listing is asked for (B10).
pub(crate) fn page_request(query: PageQuery) -> PageRequest {
    PageRequest { limit: query.limit.unwrap_or(LIMIT_DEFAULT), cursor: query.cursor }
}

/// A placeholder's text (B6). Other control characters than U+0000 are left to what the text is
/// read as: an id has none, the name of a tag may.
pub(crate) fn path_text(segment: &str) -> Option<String> {
    let text = percent_decode_str(segment).decode_utf8().ok()?;
    (!text.contains('\0')).then(|| text.into_owned())
}

/// The pairs of a query, or of a form (`application/x-www-form-urlencoded`), in order.
pub(crate) fn form_pairs(text: &str) -> Result<Vec<(String, String)>, ApiError> {
    let pieces = text.split('&').filter(|piece| !piece.is_empty());
    pieces
        .map(|piece| {
            let (name, value) = piece.split_once('=').unwrap_or((piece, ""));
            Ok((query_text(name)?, query_text(value)?))
        })
        .collect()
}

fn query_text(piece: &str) -> Result<String, ApiError> {
    let spaced = piece.replace('+', " ");
    let text = percent_decode_str(&spaced).decode_utf8();
    text.map(std::borrow::Cow::into_owned)
        .map_err(|_| ApiError::invalid("query", "must be percent-encoded UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_texts_are_decoded_once() {
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
            assert_eq!(path_text(segment).as_deref(), expected, "{segment}");
        }
    }
}
