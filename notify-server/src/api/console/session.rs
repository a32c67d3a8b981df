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
use super::page::{self, Visit, redirect};
use crate::api::error::ApiError;
use crate::api::request_ctx::{Caller, RequestCtx};
use crate::api::{Api, KeyCache};
use crate::keys::{KeyKind, key_hash, sha256};
use crate::store::{NewSession, SessionAccess, StoreError};

/// The largest form without a session, in bytes. It has room for a key and an address of the console.
pub(crate) const SIGN_IN_BYTES_MAX: usize = 8_192;
/// Random bytes of a cookie.
const SECRET_BYTES: usize = 32;
/// The cookie over TLS. Browsers accept the prefix only from secure origins.
const SECURE_COOKIE: &str = "__Secure-notify";
/// The cookie without TLS.
const PLAIN_COOKIE: &str = "notify";
/// What the token of a form authenticates.
const FORM_PURPOSE: &[u8] = b"form";
/// How the site that caused a browser's request is related to this server (Fetch Metadata, section 2.4).
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// What a browser does with a response (Fetch Metadata, section 2.1). `empty` is a request of a script.
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// The session of a signed-in browser.
#[derive(Debug)]
pub(crate) struct ConsoleSession {
    /// The stored session.
    pub(super) access: SessionAccess,
    /// The token that each form of this session contains.
    pub(super) form_token: String,
    /// The SHA-256 of the cookie's secret, by which the store finds the session.
    hash: [u8; 32],
}

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

    /// Checks that a page of this session sent the form.
    ///
    /// # Errors
    /// 403 if it did not.
    pub(super) fn check_form(&self, form: &Form) -> Result<(), ApiError> {
        // The hashes are compared, so that the time of the comparison reveals nothing.
        if sha256(form.text("token").as_bytes()) == sha256(self.form_token.as_bytes()) {
            Ok(())
        } else {
            Err(ApiError::ForeignForm)
        }
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
    let Some(secret) = secret_of(headers, cookie_name(api)) else { return Ok(None) };
    let hash = sha256(secret.as_bytes());
    let Some(access) = api.store.session(hash).await? else {
        return Ok(None);
    };
    let now = api.clock.now();
    let last_used_at = keys.last_session_use(access.id).unwrap_or(access.last_used_at);
    if is_expired(api, &access, last_used_at) {
        return Ok(None);
    }
    // A page that refreshes itself is not a use: a forgotten tab must not keep the session alive.
    let is_refresh = headers.get(FETCH_DEST).is_some_and(|dest| dest == "empty");
    if !is_refresh {
        keys.record_session_use(access.id, now);
    }
    let form_token = form_token(secret);
    Ok(Some(ConsoleSession { access, form_token, hash }))
}

fn is_expired(api: &Api, access: &SessionAccess, last_used_at: Timestamp) -> bool {
    let cutoffs = api.config.session_timeouts().cutoffs(api.clock.now());
    access.created_at < cutoffs.created_before || last_used_at < cutoffs.used_before
}

/// `GET /console/sign-in`.
pub(super) async fn show_sign_in(ctx: RequestCtx) -> Result<Response, ApiError> {
    let next = ctx.query()?.into_iter().find(|(name, _)| name == "next");
    let next = next.map(|(_, next)| next).unwrap_or_default();
    Ok(page::sign_in(&next, None))
}

/// `POST /console/sign-in`. A wrong key is answered by the page of the form, with status 401.
pub(super) async fn sign_in(ctx: RequestCtx) -> Result<Response, ApiError> {
    check_same_origin(&ctx)?;
    let form = Form::parse(&ctx.body.bytes)?;
    let key = form.text("key");
    let hash = key_hash(KeyKind::Admin, key);
    let admin_key = match hash {
        Some(hash) => ctx.api.store.admin_key(hash).await?,
        None => None,
    };
    let Some(admin_key) = admin_key else {
        let message = if key.is_empty() {
            "enter the admin key"
        } else if key.starts_with(KeyKind::Api.prefix()) {
            "this is the API key of an application; the console needs the admin key, which begins \
             with na_"
        } else {
            "this is not an admin key of this server"
        };
        let next = form.text("next").to_owned();
        return Err(ApiError::WrongSignInKey { message, next });
    };
    let secret = random_secret();
    let id = SessionId(Uuid::now_v7());
    let session = NewSession {
        id,
        hash: sha256(secret.as_bytes()),
        key: admin_key.id,
        address: ctx.address.to_string(),
        created_at: ctx.received_at,
    };
    ctx.api.store.create_session(session).await?;
    let mut response = redirect(page::local_target(form.text("next")));
    set_cookie(&mut response, &ctx.api, &secret, None);
    Ok(response)
}

/// `POST /console/sign-out`.
pub(super) async fn sign_out(visit: Visit, _: Form) -> Result<Response, ApiError> {
    match visit.ctx.api.store.end_session(visit.session.access.id).await {
        // Another page of the session was faster.
        Ok(()) | Err(StoreError::NotFound) => {}
        Err(error) => return Err(error.into()),
    }
    let mut response = redirect("sign-in");
    set_cookie(&mut response, &visit.ctx.api, "", Some(0));
    Ok(response)
}

/// Checks that a page of this server submitted the form. Current browsers send Fetch Metadata, older
/// browsers send `Origin`. A request with neither is accepted here: it needs the token of the session.
///
/// # Errors
/// 403 for a form of another site.
pub(super) fn check_same_origin(ctx: &RequestCtx) -> Result<(), ApiError> {
    let headers = ctx.headers();
    let is_same = if let Some(site) = headers.get(FETCH_SITE) {
        site == "same-origin"
    } else if let Some(origin) = headers.get(header::ORIGIN) {
        origin.to_str().is_ok_and(|origin| is_own_origin(ctx, origin))
    } else {
        true
    };
    if is_same { Ok(()) } else { Err(ApiError::ForeignForm) }
}

fn is_own_origin(ctx: &RequestCtx, origin: &str) -> bool {
    let public = Url::parse(&ctx.api.public_url).ok();
    if public.is_some_and(|public| public.origin().ascii_serialization() == origin) {
        return true;
    }
    // A browser may use another name of this server than `public_url`. The header `Host` has it too.
    let host = ctx.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let origin_host = origin.split_once("://").map(|(_, host)| host);
    origin_host.zip(host).is_some_and(|(origin_host, host)| origin_host.eq_ignore_ascii_case(host))
}

/// Whether a link on another site led to this page. A `Strict` cookie is not sent with such a request.
pub(super) fn is_cross_site(headers: &HeaderMap) -> bool {
    headers.get(FETCH_SITE).is_some_and(|site| site == "cross-site")
}

/// The response to a request without a session: the sign-in page, or a refresh of the page if a link on
/// another site led here, because the browser sends its cookie with the refresh.
pub(super) fn without_session(ctx: &RequestCtx) -> Response {
    if is_cross_site(ctx.headers()) {
        return page::refresh();
    }
    let next = ctx.parts.uri.path_and_query().map_or("", |path| path.as_str());
    let next = next.strip_prefix("/console/").unwrap_or_default();
    let root = page::root_of(ctx.parts.uri.path());
    redirect(&format!("{root}sign-in?next={}", super::calls::encoded(next)))
}

/// The response to a form whose session has ended: the sign-in page, which then leads to the page of the form.
pub(super) fn expired_form(ctx: &RequestCtx) -> Response {
    let referer = ctx.headers().get(header::REFERER).and_then(|value| value.to_str().ok());
    let page = referer.and_then(|referer| referer.split_once("/console/"));
    let next = super::calls::encoded(page.map_or("", |(_, page)| page));
    let root = page::root_of(ctx.parts.uri.path());
    redirect(&format!("{root}sign-in?next={next}"))
}

/// The session of the caller; `None` if the caller is not signed in.
pub(super) fn of_caller(ctx: &RequestCtx) -> Option<Arc<ConsoleSession>> {
    match &ctx.caller {
        Caller::Console(session) => session.clone(),
        Caller::App(_)
        | Caller::Admin(_)
        | Caller::Browser(_)
        | Caller::Platform(_)
        | Caller::Anonymous => None,
    }
}

fn random_secret() -> String {
    let mut random = [0; SECRET_BYTES];
    aws_lc_rs::rand::fill(&mut random).expect("the operating system gives random bytes");
    URL_SAFE_NO_PAD.encode(random)
}

fn form_token(secret: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    URL_SAFE_NO_PAD.encode(hmac::sign(&key, FORM_PURPOSE))
}

/// Whether browsers load the console over TLS, from this server or a proxy.
fn is_secure(api: &Api) -> bool {
    api.public_url.starts_with("https:")
}

fn cookie_name(api: &Api) -> &'static str {
    if is_secure(api) { SECURE_COOKIE } else { PLAIN_COOKIE }
}

fn set_cookie(response: &mut Response, api: &Api, value: &str, max_age: Option<u32>) {
    let name = cookie_name(api);
    let secure = if is_secure(api) { "; Secure" } else { "" };
    let max_age = max_age.map_or_else(String::new, |seconds| format!("; Max-Age={seconds}"));
    let cookie = format!("{name}={value}{max_age}; HttpOnly; SameSite=Strict{secure}");
    let cookie = HeaderValue::try_from(cookie).expect("base64 is visible ASCII");
    response.headers_mut().insert(header::SET_COOKIE, cookie);
}

/// The secret in the cookie of this name, if it has the form of a secret.
fn secret_of<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs =
        lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let mut values = pairs.filter(|(cookie, _)| *cookie == name).map(|(_, value)| value);
    values
        .find(|value| URL_SAFE_NO_PAD.decode(value).is_ok_and(|bytes| bytes.len() == SECRET_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_is_read_from_its_cookie_alone() {
        let secret = random_secret();
        assert_ne!(secret, random_secret());
        let read = |cookie: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::COOKIE, HeaderValue::from_str(cookie).unwrap());
            secret_of(&headers, PLAIN_COOKIE).map(str::to_owned)
        };
        assert_eq!(read(&format!("notify={secret}")), Some(secret.clone()));
        assert_eq!(read(&format!("a=b; notify=short; notify={secret}")), Some(secret.clone()));
        assert_eq!(read(&format!("__Secure-notify={secret}")), None);
        assert_eq!(read("notify="), None);
        assert_eq!(secret_of(&HeaderMap::new(), PLAIN_COOKIE), None);
    }

    #[test]
    fn the_token_of_a_form_depends_on_the_secret() {
        assert_eq!(form_token("a"), form_token("a"));
        assert_ne!(form_token("a"), form_token("b"));
        assert_eq!(form_token("a").len(), 43);
    }
}
