//! Sessions: signing in with an admin key, the cookie, and the protection of forms.
//!
//! The cookie has a random secret; the store has only its SHA-256. The cookie has no `Path`: the browser
//! limits it to the folder of the sign-in page, also if a proxy adds a prefix.

use std::sync::Arc;

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use notify_core::{SessionId, Timestamp};
use url::Url;
use uuid::Uuid;
use warp::reply::Response;

use super::form::Form;
use super::page::redirect;
use super::visit::Visit;
use crate::api::caller::{Caller, ConsoleSession};
use crate::api::error::ApiError;
use crate::api::pipeline::audit;
use crate::api::request_ctx::RequestCtx;
use crate::api::{Api, KeyCache};
use crate::keys::sha256;
use crate::store::audit::record_next_write;
use crate::store::{AdminKey, NewSession, SessionAccess, StoreError};

/// A header with which the script of the console marks a refresh. Browsers send Fetch Metadata only over TLS and
/// to the same machine.
const REFRESH: HeaderName = HeaderName::from_static("x-notify-refresh");
/// What an `EventSource` accepts.
const EVENT_STREAM: &str = "text/event-stream";
/// The most secrets that one request may try.
const SECRETS_MAX: usize = 3;
/// Random bytes of a cookie.
const SECRET_BYTES: usize = 32;
/// The cookie over TLS. Browsers accept the prefix only from secure origins.
const SECURE_COOKIE: &str = "__Secure-notify";
/// The cookie without TLS.
const PLAIN_COOKIE: &str = "notify";
/// What the token of a form authenticates.
const FORM_PURPOSE: &[u8] = b"form";
/// How the site that caused a browser's request is related to this server (Fetch Metadata, section 2.4).
pub(super) const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// What a browser does with a response (Fetch Metadata, section 2.1). `empty` is a request of a script.
pub(super) const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

impl ConsoleSession {
    /// Whether the session still exists and has not expired, for a response that stays open. The stored
    /// time of the last use may be a little old, so that an open stream may end early; the page opens it
    /// again.
    ///
    /// # Errors
    /// When storage is not available.
    pub(crate) async fn is_valid(&self, api: &Api) -> Result<bool, StoreError> {
        let access = api.store.session(self.hash).await?;
        Ok(access.is_some_and(|access| !is_expired(api, &access, access.last_used_at)))
    }

    /// Whether a page of this session sent the form.
    pub(super) fn owns(&self, form: &Form) -> bool {
        is_equal(form.text("token"), &self.form_token)
    }
}

/// The session of a request; `None` if there is none or it has expired.
///
/// # Errors
/// 503 when storage is not available.
pub(crate) async fn session_of(
    api: &Api,
    keys: &KeyCache,
    headers: &HeaderMap,
) -> Result<Option<ConsoleSession>, ApiError> {
    let mut found = None;
    for secret in secrets_of_caller(headers) {
        let hash = sha256(secret.as_bytes());
        if let Some(access) = api.store.session(hash).await? {
            found = Some((secret, hash, access));
            break;
        }
    }
    let Some((secret, hash, mut access)) = found else { return Ok(None) };
    let now = api.clock.now();
    let last_used_at = keys.last_session_use(access.id).unwrap_or(access.last_used_at);
    if is_expired(api, &access, last_used_at) {
        // The last use may have been written between the two reads.
        let Some(again) = api.store.session(hash).await? else { return Ok(None) };
        access = again;
        if is_expired(api, &access, access.last_used_at) {
            return Ok(None);
        }
    }
    // A page that refreshes itself is not a use: a forgotten tab must not keep the session alive.
    let is_stream = headers.get(header::ACCEPT).is_some_and(|accept| accept == EVENT_STREAM);
    let is_refresh = headers.get(FETCH_DEST).is_some_and(|dest| dest != "document")
        || headers.contains_key(REFRESH)
        || is_stream;
    if !is_refresh {
        keys.record_session_use(access.id, now);
        keys.record_use(access.key.id, now);
    }
    let form_token = form_token(secret);
    Ok(Some(ConsoleSession { access, form_token, hash }))
}

fn is_expired(api: &Api, access: &SessionAccess, last_used_at: Timestamp) -> bool {
    let cutoffs = api.config.session_timeouts().cutoffs(api.clock.now());
    access.created_at < cutoffs.created_before || last_used_at < cutoffs.used_before
}

/// Starts a session of an admin key, and ends the session that the browser had. The response of the request has
/// to set the returned cookie.
///
/// # Errors
/// 404 when the key was revoked.
pub(super) async fn start(
    ctx: &RequestCtx,
    key: AdminKey,
) -> Result<(ConsoleSession, HeaderValue), ApiError> {
    let secret = random_secret::<SECRET_BYTES>();
    let hash = sha256(secret.as_bytes());
    let (id, at) = (SessionId(Uuid::now_v7()), ctx.received_at);
    let new =
        NewSession { id, hash, key: key.id, address: ctx.address.to_string(), created_at: at };
    record_next_write(audit::session_entry(ctx, &key, "sign_in", id));
    ctx.api.store.create_session(new).await?;
    if let Some(earlier) = of_caller(ctx) {
        end(ctx, &earlier.access).await?;
    }
    let access = SessionAccess { id, key, created_at: at, last_used_at: at };
    Ok((ConsoleSession { access, form_token: form_token(&secret), hash }, cookie(ctx, &secret)))
}

/// `POST /console/sign-out`.
pub(super) async fn sign_out(visit: Visit, _: Form) -> Result<Response, ApiError> {
    end(&visit.ctx, &visit.session.access).await?;
    let mut response = redirect("sign-in");
    for ended in [
        "__Secure-notify=; Max-Age=0; HttpOnly; SameSite=Strict; Secure",
        "notify=; Max-Age=0; HttpOnly; SameSite=Strict",
    ] {
        response.headers_mut().append(header::SET_COOKIE, HeaderValue::from_static(ended));
    }
    Ok(response)
}

async fn end(ctx: &RequestCtx, session: &SessionAccess) -> Result<(), ApiError> {
    record_next_write(audit::session_entry(ctx, &session.key, "sign_out", session.id));
    match ctx.api.store.end_session(session.id).await {
        // Another page of the session was faster.
        Ok(()) | Err(StoreError::NotFound) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Checks that a page of this server submitted the form. Current browsers send Fetch Metadata, older
/// browsers send `Origin`. A request with neither is accepted here: it needs the token of the session.
///
/// # Errors
/// 403 for a form of another site.
pub(super) fn check_same_origin(ctx: &RequestCtx) -> Result<(), ApiError> {
    if is_same_origin(ctx) == Some(false) { Err(ApiError::ForeignForm) } else { Ok(()) }
}

/// Whether a page of this server submitted the form, as the browser says; `None` if it does not say.
pub(super) fn is_same_origin(ctx: &RequestCtx) -> Option<bool> {
    let headers = ctx.headers();
    if let Some(site) = headers.get(FETCH_SITE) {
        return Some(site == "same-origin");
    }
    let origin = headers.get(header::ORIGIN)?;
    Some(origin.to_str().is_ok_and(|origin| is_own_origin(ctx, origin)))
}

fn is_own_origin(ctx: &RequestCtx, origin: &str) -> bool {
    let public = Url::parse(&ctx.api.public_url).ok();
    if public.is_some_and(|public| public.origin().ascii_serialization() == origin) {
        return true;
    }
    // A browser may use another name of this server than `public_url`. The request names its host too.
    let origin_host = origin.split_once("://").map(|(_, host)| host);
    let names = origin_host.zip(host_of(ctx));
    names.is_some_and(|(origin_host, host)| origin_host.eq_ignore_ascii_case(host))
}

/// The host and the port that the browser asked for.
pub(super) fn host_of(ctx: &RequestCtx) -> Option<&str> {
    let host = ctx.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    // Over HTTP/2, the authority of the URL is in place of the header.
    host.or_else(|| ctx.parts.uri.authority().map(http::uri::Authority::as_str))
}

/// Whether the browser loads the response as a part of a page, such as an image.
pub(super) fn is_part_of_page(headers: &HeaderMap) -> bool {
    headers.get(FETCH_DEST).is_some_and(|dest| dest != "document" && dest != "empty")
}

/// Whether a link on another site led to this page. A `Strict` cookie is not sent with such a request.
pub(super) fn is_cross_site(headers: &HeaderMap) -> bool {
    headers.get(FETCH_SITE).is_some_and(|site| site == "cross-site")
}

/// Whether the form is from a page that this browser loaded in its session, which has ended. The cookie
/// still has the secret of the session, and only pages of that session have the token that belongs to it.
pub(super) fn is_from_ended_session(ctx: &RequestCtx, form: &Form) -> bool {
    secrets_of_caller(ctx.headers()).any(|secret| is_equal(form.text("token"), &form_token(secret)))
}

/// The session of the caller; `None` if the caller is not signed in.
pub(super) fn of_caller(ctx: &RequestCtx) -> Option<Arc<ConsoleSession>> {
    match &ctx.caller {
        Caller::Console(session) => session.clone(),
        Caller::App(_)
        | Caller::Admin(_)
        | Caller::DeviceApp(_)
        | Caller::Browser(_)
        | Caller::Platform(_)
        | Caller::Anonymous => None,
    }
}

/// A secret of this many random bytes.
pub(super) fn random_secret<const BYTES: usize>() -> String {
    let mut random = [0; BYTES];
    aws_lc_rs::rand::fill(&mut random).expect("the operating system gives random bytes");
    URL_SAFE_NO_PAD.encode(random)
}

fn form_token(secret: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    URL_SAFE_NO_PAD.encode(hmac::sign(&key, FORM_PURPOSE))
}

/// Compares hashes, so that the time of the comparison reveals nothing.
fn is_equal(given: &str, expected: &str) -> bool {
    sha256(given.as_bytes()) == sha256(expected.as_bytes())
}

/// Whether the browser loads the console over TLS, from this server or a proxy. A form has an `Origin`, which
/// says what the browser sees; without one, the setting of the public address decides.
fn is_secure(ctx: &RequestCtx) -> bool {
    let origin = ctx.headers().get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    match origin.and_then(|origin| origin.split_once("://")) {
        Some((scheme, _)) => scheme == "https",
        None => ctx.api.public_url.starts_with("https:"),
    }
}

/// The cookie of a session.
fn cookie(ctx: &RequestCtx, secret: &str) -> HeaderValue {
    let cookie = if is_secure(ctx) {
        format!("{SECURE_COOKIE}={secret}; HttpOnly; SameSite=Strict; Secure")
    } else {
        format!("{PLAIN_COOKIE}={secret}; HttpOnly; SameSite=Strict")
    };
    HeaderValue::try_from(cookie).expect("base64 is visible ASCII")
}

/// The secrets in the cookies of the caller. Another server at this host name can set cookies too, also with
/// our name, so the first [`SECRETS_MAX`] are tried. The secure cookies come first: without TLS nobody can set
/// them.
fn secrets_of_caller(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    secrets_of(headers, SECURE_COOKIE).chain(secrets_of(headers, PLAIN_COOKIE)).take(SECRETS_MAX)
}

/// The values of the cookies with this name that have the form of a secret. The line is read as bytes, because
/// the cookies of other servers may not be text.
fn secrets_of<'h>(headers: &'h HeaderMap, name: &'static str) -> impl Iterator<Item = &'h str> {
    let lines = headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes);
    let pairs = lines.flat_map(|line| line.split(|byte| *byte == b';')).map(<[u8]>::trim_ascii);
    let values = pairs.filter_map(move |pair| {
        let value = pair.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        std::str::from_utf8(value).ok()
    });
    values.filter(|value| {
        URL_SAFE_NO_PAD.decode(value).is_ok_and(|bytes| bytes.len() == SECRET_BYTES)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_read_from_their_cookies_alone() {
        let secret = random_secret::<SECRET_BYTES>();
        assert_ne!(secret, random_secret::<SECRET_BYTES>());
        let read = |cookie: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::COOKIE, HeaderValue::from_bytes(cookie.as_bytes()).unwrap());
            secrets_of_caller(&headers).map(str::to_owned).collect::<Vec<_>>()
        };
        let planted = random_secret::<SECRET_BYTES>();
        for (cookie, expected) in [
            (format!("notify={secret}"), vec![&secret]),
            (format!("a=b; notify=short; notify={secret}"), vec![&secret]),
            (format!("x=\u{e9}; notify={secret}"), vec![&secret]),
            (format!("notify={planted}; notify={secret}"), vec![&planted, &secret]),
            (format!("notify={planted}; __Secure-notify={secret}"), vec![&secret, &planted]),
            ("notify=".to_owned(), vec![]),
        ] {
            assert_eq!(read(&cookie).iter().collect::<Vec<_>>(), expected, "{cookie}");
        }
        assert_eq!(read(&format!("notify={secret};").repeat(9)).len(), SECRETS_MAX);
        assert_eq!(secrets_of_caller(&HeaderMap::new()).count(), 0);
    }

    #[test]
    fn the_token_of_a_form_depends_on_the_secret() {
        assert_eq!(form_token("a"), form_token("a"));
        assert_ne!(form_token("a"), form_token("b"));
        assert_eq!(form_token("a").len(), 43);
    }
}
