//! The public HTML page of a poll, which needs no key. Anyone who has its address, which contains
//! 122 random bits, can see the poll and vote.

mod i18n;
mod render;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
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
use crate::api::error::ApiError;
use crate::api::handlers::polls;
use crate::api::pipeline::NO_STORE;
use crate::api::request_ctx::{RequestCtx, decode_pairs};
use crate::keys::sha256;
use crate::store::Visitor;

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

// The id of a visitor is random, and sent in the form and, after the vote, in a cookie. It
// identifies one browser at one poll. Only its hash is stored.

/// Random bytes of an id.
const ID_BYTES: usize = 16;
/// The pattern of an id: [`ID_BYTES`] in base64url.
const VISITOR_ID_PATTERN: &str = "^[A-Za-z0-9_-]{21}[AQgw]$";
const COOKIE: &str = "visitor";
/// How long the browser stores the cookie: a year, in seconds.
const COOKIE_SECONDS: u32 = 31_536_000;

/// The id of a visitor, as the browser stores it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct VisitorId(String);

impl VisitorId {
    /// A new random id.
    fn random() -> Self {
        let mut random = [0; ID_BYTES];
        aws_lc_rs::rand::fill(&mut random).expect("the operating system gives random bytes");
        Self(URL_SAFE_NO_PAD.encode(random))
    }

    /// Parses an id.
    fn parse(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        (bytes.len() == ID_BYTES).then(|| Self(text.to_owned()))
    }

    /// The id in the cookie.
    fn from_cookies<'h>(headers: impl Iterator<Item = &'h HeaderValue>) -> Option<Self> {
        let lines = headers.filter_map(|line| line.to_str().ok());
        let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| {
            let (name, value) = pair.trim().split_once('=')?;
            (name == COOKIE).then_some(value)
        });
        pairs.find_map(Self::parse)
    }

    /// The value of the form's hidden field.
    fn as_str(&self) -> &str {
        &self.0
    }

    /// The hash that is stored.
    fn hash(&self) -> Visitor {
        Visitor::of(&sha256(self.0.as_bytes()))
    }

    /// The cookie. Without `Path` the cookie applies to this poll alone, whatever path a proxy
    /// adds. Scripts cannot read the cookie, and forms of other sites do not send it.
    fn cookie(&self, secure: bool) -> HeaderValue {
        let secure = if secure { "; Secure" } else { "" };
        let cookie = format!(
            "{COOKIE}={}; Max-Age={COOKIE_SECONDS}; HttpOnly; SameSite=Lax{secure}",
            self.0
        );
        HeaderValue::try_from(cookie).expect("base64 is visible ASCII")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_id_from_the_cookie() {
        let id = VisitorId::random();
        assert_ne!(id, VisitorId::random());
        let line = id.cookie(true);
        let line = line.to_str().unwrap();
        assert!(line.ends_with("; Max-Age=31536000; HttpOnly; SameSite=Lax; Secure"), "{line}");
        assert!(!id.cookie(false).to_str().unwrap().contains("Secure"));
        let pair = line.split(';').next().unwrap();
        let own = |lines: &[&str]| {
            let lines: Vec<HeaderValue> = lines.iter().map(|line| line.parse().unwrap()).collect();
            VisitorId::from_cookies(lines.iter())
        };
        assert_eq!(own(&[&format!("a=b; visitor=short;{pair}")]), Some(id.clone()));
        assert_eq!(own(&["x=1", pair]), Some(id.clone()));
        assert_eq!(own(&["visitor=", "visitors=AAAAAAAAAAAAAAAAAAAAAA"]), None);
        assert_eq!(id.hash(), VisitorId::parse(id.as_str()).unwrap().hash());
    }
}
