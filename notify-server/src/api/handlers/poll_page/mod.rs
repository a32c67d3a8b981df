//! The public HTML page of a poll, which needs no key. Anyone who has its address, which contains
//! 122 random bits, can see the poll and vote.

mod i18n;
mod render;
mod visitor;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use notify_core::AnswerId;
use notify_core::schema::SERVER_ID;
use serde_json::{Value, json};
use url::Url;
use uuid::Uuid;

use warp::Reply;
use warp::reply::Response;

use self::render::VoteState;
pub(crate) use self::render::error_page;
use self::visitor::{VISITOR_ID_PATTERN, VisitorId};
use crate::api::error::ApiError;
use crate::api::handlers::polls;
use crate::api::json_reply::NO_STORE;
use crate::api::request_ctx::{RequestCtx, decode_pairs};

/// Path below which these pages are.
pub(crate) const AREA: &str = "/polls";
/// Path template of the form.
pub(crate) const VOTES: &str = "/polls/{public_id}/votes";
/// Largest form, in bytes. It has room for two ids with their names.
pub(crate) const FORM_BYTES_MAX: usize = 1_024;

/// How the site that caused a browser's request is related to this server (Fetch Metadata, section
/// 2.4).
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// A submitted form.
struct Form {
    answer: AnswerId,
    visitor: Option<VisitorId>,
}

/// `GET /polls/{public_id}`.
pub(crate) async fn show(ctx: RequestCtx) -> Result<Response, ApiError> {
    let public_id: Uuid = ctx.id("public_id")?;
    let visitor_cookie = VisitorId::from_cookies(ctx.headers().get_all(header::COOKIE).iter());
    let hash = visitor_cookie.as_ref().map(VisitorId::hash);
    let (poll, chosen) = ctx.api.store.public_poll(public_id, hash).await?;
    let poll = polls::poll_response(&ctx, poll);
    let state = match chosen {
        Some(answer) => VoteState::Voted(answer),
        None => VoteState::Open(visitor_cookie.unwrap_or_else(VisitorId::random)),
    };
    Ok(render::poll(&poll, public_id, &state))
}

/// `POST /polls/{public_id}/votes`.
pub(crate) async fn vote(ctx: RequestCtx) -> Result<Response, ApiError> {
    let public_id: Uuid = ctx.id("public_id")?;
    // Without this check, a form on another site could vote in the name of that site's visitors.
    if !is_same_origin(&ctx) {
        return Err(ApiError::invalid("form", "comes from another site"));
    }
    let form = parse_form(&ctx.body.bytes)?;
    // The cookie takes precedence, so that a visitor who has voted keeps the id. Before the first
    // vote there is no cookie. Then the id is in the form, so that a form that is sent twice counts
    // once.
    let visitor_cookie = VisitorId::from_cookies(ctx.headers().get_all(header::COOKIE).iter());
    let visitor = visitor_cookie.or(form.visitor).unwrap_or_else(VisitorId::random);
    let (api, hash) = (&ctx.api, visitor.hash());
    api.store.answer_public_poll(public_id, form.answer, hash, api.clock.now()).await?;
    let mut response = StatusCode::SEE_OTHER.into_response();
    let headers = response.headers_mut();
    // The address is relative, since a proxy may add a path.
    let page = HeaderValue::try_from(format!("../{public_id}")).expect("an id is visible ASCII");
    headers.insert(header::LOCATION, page);
    headers.insert(header::SET_COOKIE, visitor.cookie(is_secure(&ctx)));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(NO_STORE));
    Ok(response)
}

/// The schema of the form.
pub(crate) fn form_schema() -> Value {
    let id = json!({ "type": "string", "format": "uuid", "pattern": SERVER_ID });
    let visitor = json!({ "type": "string", "pattern": VISITOR_ID_PATTERN });
    json!({
        "type": "object",
        "required": ["answer"],
        "properties": { "answer": id, "visitor": visitor },
        "additionalProperties": false,
    })
}

/// The header `Accept-Language`.
pub(crate) fn accept_language(headers: &HeaderMap) -> &str {
    let languages = headers.get(header::ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok());
    languages.unwrap_or_default()
}

/// Whether a page of this server submitted the form. Current browsers send Fetch Metadata, older
/// browsers send `Origin`. Clients that are not browsers send neither and are accepted.
fn is_same_origin(ctx: &RequestCtx) -> bool {
    if let Some(site) = ctx.headers().get(FETCH_SITE) {
        return matches!(site.as_bytes(), b"same-origin" | b"none");
    }
    let Some(origin) = ctx.headers().get(header::ORIGIN) else { return true };
    let Ok(origin) = origin.to_str() else { return false };
    let public = Url::parse(&ctx.api.public_url).ok();
    if public.is_some_and(|public| public.origin().ascii_serialization() == origin) {
        return true;
    }
    // The request may use another name of this server than `public_url`. The header `Host` has this
    // name too, but never the name of another site.
    let host = ctx.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let origin_host = origin.split_once("://").map(|(_, host)| host);
    origin_host.zip(host).is_some_and(|(origin_host, host)| origin_host.eq_ignore_ascii_case(host))
}

/// Whether browsers load the page over TLS, from this server or a proxy.
fn is_secure(ctx: &RequestCtx) -> bool {
    ctx.api.public_url.starts_with("https:")
}

fn parse_form(body: &Bytes) -> Result<Form, ApiError> {
    let invalid_form = || ApiError::invalid("form", "must be an answer of the page");
    let text = std::str::from_utf8(body).map_err(|_| invalid_form())?;
    let (mut answer, mut visitor) = (None, None);
    for (name, value) in decode_pairs(text)? {
        let field = match &*name {
            "answer" => &mut answer,
            "visitor" => &mut visitor,
            _ => return Err(invalid_form()),
        };
        if field.replace(value).is_some() {
            return Err(invalid_form());
        }
    }
    let answer = answer.and_then(|answer| answer.parse().ok()).ok_or_else(invalid_form)?;
    let visitor = match visitor {
        Some(given) => Some(VisitorId::parse(&given).ok_or_else(invalid_form)?),
        None => None,
    };
    Ok(Form { answer, visitor })
}
