//! The public page of a poll (B32): for people, without a key, in HTML. Whoever has the address may
//! look and answer; it holds 122 random bits.

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

use self::render::Seen;
use crate::api::error::ApiError;
use crate::api::handlers::polls;
use crate::api::request_ctx::{Ctx, form_pairs};
use crate::keys::sha256;
use crate::store::Visitor;

/// Where these pages are.
pub(crate) const AREA: &str = "/polls";
/// Largest form, in bytes: two ids and their names, with room to spare.
pub(crate) const FORM_BYTES_MAX: usize = 1_024;

/// Who made a browser ask (Fetch Metadata, section 2.4).
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// A form as it was sent.
struct Form {
    answer: AnswerId,
    visitor: Option<VisitorId>,
}

/// `GET /polls/{public_id}`.
pub(crate) async fn show(ctx: Ctx) -> http::Response<Bytes> {
    page(&ctx).await.unwrap_or_else(|error| refusal(error, accept_language(ctx.headers())))
}

/// `POST /polls/{public_id}/votes`.
pub(crate) async fn vote(ctx: Ctx) -> http::Response<Bytes> {
    count(&ctx).await.unwrap_or_else(|error| refusal(error, accept_language(ctx.headers())))
}

/// The schema of the form.
pub(crate) fn form() -> Value {
    let id = json!({ "type": "string", "format": "uuid", "pattern": SERVER_ID });
    let visitor = json!({ "type": "string", "pattern": VISITOR_ID });
    json!({
        "type": "object",
        "required": ["answer"],
        "properties": { "answer": id, "visitor": visitor },
        "additionalProperties": false,
    })
}

/// What is not answered here, as a page.
pub(crate) fn refusal(error: ApiError, accept_language: &str) -> http::Response<Bytes> {
    render::refusal(error, accept_language)
}

/// The languages that a browser asks for.
pub(crate) fn accept_language(headers: &HeaderMap) -> &str {
    let given = headers.get(header::ACCEPT_LANGUAGE).and_then(|given| given.to_str().ok());
    given.unwrap_or_default()
}

async fn page(ctx: &Ctx) -> Result<http::Response<Bytes>, ApiError> {
    let public_id: Uuid = ctx.id("public_id")?;
    let known = VisitorId::of_cookies(ctx.headers().get_all(header::COOKIE).iter());
    let kept = known.as_ref().map(VisitorId::kept);
    let (poll, chosen) = ctx.api().store.public_poll(public_id, kept).await?;
    let poll = polls::read_back(ctx, poll);
    let seen = match chosen {
        Some(chosen) => Seen::Results(chosen),
        None => Seen::Form(known.unwrap_or_else(VisitorId::random)),
    };
    Ok(render::poll(&poll, public_id, &seen))
}

async fn count(ctx: &Ctx) -> Result<http::Response<Bytes>, ApiError> {
    let public_id: Uuid = ctx.id("public_id")?;
    // Another site's form would answer for its visitors; there is nothing else to gain here.
    if !is_own_form(ctx) {
        return Err(ApiError::invalid("form", "comes from another site"));
    }
    let form = read_form(ctx.body())?;
    // The cookie first: who has answered stays who they are. The field of a form counts twice sent
    // forms once, before there is a cookie.
    let known = VisitorId::of_cookies(ctx.headers().get_all(header::COOKIE).iter());
    let visitor = known.or(form.visitor).unwrap_or_else(VisitorId::random);
    let (api, kept) = (ctx.api(), visitor.kept());
    api.store.answer_public_poll(public_id, form.answer, kept, api.clock.now()).await?;
    let mut response = http::Response::new(Bytes::new());
    *response.status_mut() = StatusCode::SEE_OTHER;
    let headers = response.headers_mut();
    let back = HeaderValue::try_from(format!("../{public_id}")).expect("an id is visible ASCII");
    headers.insert(header::LOCATION, back);
    headers.insert(header::SET_COOKIE, visitor.cookie(is_secure(ctx)));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Whether a form is one of these pages, as browsers tell: by Fetch Metadata, and those that do not know
/// it by `Origin`. What is no browser tells neither.
fn is_own_form(ctx: &Ctx) -> bool {
    if let Some(site) = ctx.headers().get(FETCH_SITE) {
        return matches!(site.as_bytes(), b"same-origin" | b"none");
    }
    let Some(origin) = ctx.headers().get(header::ORIGIN) else { return true };
    let Ok(origin) = origin.to_str() else { return false };
    let public = Url::parse(&ctx.api().public_url).ok();
    if public.is_some_and(|public| public.origin().ascii_serialization() == origin) {
        return true;
    }
    // Where it was asked for under another name; the name of another site is never ours.
    let host = ctx.headers().get(header::HOST).and_then(|host| host.to_str().ok());
    let named = origin.split_once("://").map(|(_, named)| named);
    named.zip(host).is_some_and(|(named, host)| named.eq_ignore_ascii_case(host))
}

/// Whether browsers see the page over TLS, be it ours or a proxy's.
fn is_secure(ctx: &Ctx) -> bool {
    ctx.api().public_url.starts_with("https:")
}

fn read_form(body: &Bytes) -> Result<Form, ApiError> {
    let refused = || ApiError::invalid("form", "must be an answer of the page");
    let text = std::str::from_utf8(body).map_err(|_| refused())?;
    let (mut answer, mut visitor) = (None, None);
    for (name, value) in form_pairs(text)? {
        let place = match &*name {
            "answer" => &mut answer,
            "visitor" => &mut visitor,
            _ => return Err(refused()),
        };
        if place.replace(value).is_some() {
            return Err(refused());
        }
    }
    let answer = answer.and_then(|answer| answer.parse().ok()).ok_or_else(refused)?;
    let visitor = match visitor {
        Some(given) => Some(VisitorId::parse(&given).ok_or_else(refused)?),
        None => None,
    };
    Ok(Form { answer, visitor })
}

// Who visits: a random id that a form brings along and, after the vote, a cookie. It stands for one
// browser and one poll; a hash of it is all that is kept.

/// Random bytes of an id.
const ID_BYTES: usize = 16;
/// The form of an id: that many bytes in base64url.
const VISITOR_ID: &str = "^[A-Za-z0-9_-]{21}[AQgw]$";
const COOKIE: &str = "visitor";
/// How long an answer is remembered by the browser: a year, in seconds.
const COOKIE_SECONDS: u32 = 31_536_000;

/// The id of a visitor, as the browser keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct VisitorId(String);

impl VisitorId {
    /// A new one.
    fn random() -> Self {
        let mut random = [0; ID_BYTES];
        aws_lc_rs::rand::fill(&mut random).expect("the operating system gives random bytes");
        Self(URL_SAFE_NO_PAD.encode(random))
    }

    /// An id in the form in which we make them.
    fn parse(text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        (bytes.len() == ID_BYTES).then(|| Self(text.to_owned()))
    }

    /// The id that the cookie holds.
    fn of_cookies<'h>(headers: impl Iterator<Item = &'h HeaderValue>) -> Option<Self> {
        let lines = headers.filter_map(|line| line.to_str().ok());
        let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| {
            let (name, value) = pair.trim().split_once('=')?;
            (name == COOKIE).then_some(value)
        });
        pairs.find_map(Self::parse)
    }

    /// The text of the hidden field.
    fn as_str(&self) -> &str {
        &self.0
    }

    /// What is kept of it.
    fn kept(&self) -> Visitor {
        Visitor::of(&sha256(self.0.as_bytes()))
    }

    /// The cookie. Without `Path` it is the poll's alone, under whatever path a proxy shows it; no
    /// script reads it, and other sites' forms do not bring it along.
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
    fn a_cookie_gives_back_the_id_that_it_was_made_of() {
        let id = VisitorId::random();
        assert_ne!(id, VisitorId::random());
        let line = id.cookie(true);
        let line = line.to_str().unwrap();
        assert!(line.ends_with("; Max-Age=31536000; HttpOnly; SameSite=Lax; Secure"), "{line}");
        assert!(!id.cookie(false).to_str().unwrap().contains("Secure"));
        let pair = line.split(';').next().unwrap();
        let own = |lines: &[&str]| {
            let lines: Vec<HeaderValue> = lines.iter().map(|line| line.parse().unwrap()).collect();
            VisitorId::of_cookies(lines.iter())
        };
        assert_eq!(own(&[&format!("a=b; visitor=short;{pair}")]), Some(id.clone()));
        assert_eq!(own(&["x=1", pair]), Some(id.clone()));
        assert_eq!(own(&["visitor=", "visitors=AAAAAAAAAAAAAAAAAAAAAA"]), None);
        assert_eq!(id.kept(), VisitorId::parse(id.as_str()).unwrap().kept());
    }
}
