//! Signing in: with the admin key, with the link of the first start, and after a session has ended.
//!
//! A form that was sent after its session had ended is not lost: the sign-in page carries its fields, and the
//! page after the sign-in shows them and offers to send them. If the operator has signed in again in another tab,
//! the response to the form shows them. The server keeps nothing, and nothing is sent without the operator.
//! Fields that can be secrets are left out.

use std::sync::{Mutex, MutexGuard, PoisonError};

use askama::Template;
use http::{StatusCode, header};
use notify_core::address::is_this_machine;
use notify_core::{KeyId, Timestamp};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use url::Url;
use uuid::Uuid;
use warp::reply::Response;

use super::calls::encoded;
use super::form::Form;
use super::page::{self, Layout, SignIn, local_target, redirect};
use super::session::{self, FETCH_DEST, FETCH_SITE};
use super::visit::Visit;
use crate::api::error::ApiError;
use crate::api::request_ctx::{RequestCtx, decode_pairs};
use crate::keys::{KeyKind, key_hash, sha256};
use crate::store::AdminKey;

/// The largest form without a session, in bytes: a key and the fields of an unsent form.
pub(crate) const FORM_BYTES_MAX: usize = 65_536;
/// The most bytes that the sign-in page carries of an unsent form. When the page is sent, they can take three
/// times as many bytes, which must fit into [`FORM_BYTES_MAX`].
const UNSENT_BYTES_MAX: usize = 16_384;
/// How long the link of the first start works, in milliseconds.
const FIRST_LINK_MS: i64 = 600_000;
/// Random bytes of the code in the link: too many to guess at any rate of requests.
const CODE_BYTES: usize = 16;

/// The names of the hidden fields that the sign-in page keeps.
const NEXT: &str = "next";
const UNSENT: &str = "unsent";
const UNSENT_TO: &str = "unsent-to";
const WITHHELD: &str = "withheld";

/// Hidden fields of the sign-in page.
type Kept = Vec<(&'static str, String)>;

/// `GET /console/sign-in`.
pub(super) async fn show(ctx: RequestCtx) -> Result<Response, ApiError> {
    let next = ctx.query()?.into_iter().find(|(name, _)| name == NEXT);
    let next = next.map(|(_, next)| local_target(&next).to_owned()).unwrap_or_default();
    let kept = [(NEXT, next)];
    let is_exposed = is_exposed(&ctx);
    Ok(page::sign_in(&SignIn { kept: &kept, is_exposed, ..SignIn::new("./") }))
}

/// `POST /console/sign-in`. A wrong key is answered by the page of the form, with status 401.
pub(super) async fn submit(ctx: RequestCtx) -> Result<Response, ApiError> {
    session::check_same_origin(&ctx)?;
    let form = Form::parse(&ctx.body.bytes)?;
    let key = form.text("key");
    let admin_key = match key_hash(KeyKind::Admin, key) {
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
        let kept = [NEXT, UNSENT, UNSENT_TO, WITHHELD];
        let kept = kept.map(|name| (name, form.text(name).to_owned()));
        return Err(refused(&ctx, message, kept.into_iter().collect()));
    };
    enter(ctx, admin_key, &form).await
}

/// The error of a wrong key or code, which shows the sign-in page again.
fn refused(ctx: &RequestCtx, message: &'static str, kept: Kept) -> ApiError {
    let kept = kept.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    ApiError::WrongSignInKey { message, kept, is_exposed: is_exposed(ctx) }
}

/// Starts the session and leads to the page that the form names, or shows the unsent form.
async fn enter(ctx: RequestCtx, key: AdminKey, form: &Form) -> Result<Response, ApiError> {
    let unsent = Unsent::of_sign_in(form)?;
    let next = local_target(form.text(NEXT)).to_owned();
    let (session, cookie) = session::start(&ctx, key).await?;
    let mut response = match unsent {
        None => redirect(&next),
        Some(unsent) => show_unsent(Visit { ctx, session: session.into() }, unsent, next).await?,
    };
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}

// The link of the first start.

/// The code of the link that signs in at the first start. Only this process has it, as a hash.
#[derive(Default)]
pub(crate) struct FirstSignIn(Mutex<Option<Offer>>);

#[derive(Clone, Copy)]
struct Offer {
    hash: [u8; 32],
    key: KeyId,
    until: Timestamp,
}

impl FirstSignIn {
    /// Makes a code that signs in once as this admin key, and replaces the previous code.
    pub(crate) fn offer(&self, key: KeyId, now: Timestamp) -> String {
        let code = session::random_secret::<CODE_BYTES>();
        let hash = sha256(code.as_bytes());
        *self.lock() = Some(Offer { hash, key, until: now.plus_ms(FIRST_LINK_MS) });
        code
    }

    /// Spends a code. `None` if it is wrong, spent or has expired.
    fn take(&self, code: &str, now: Timestamp) -> Option<Offer> {
        let mut offer = self.lock();
        let hash = sha256(code.as_bytes());
        if offer.is_some_and(|offer| offer.hash == hash && now < offer.until) {
            offer.take()
        } else {
            None
        }
    }

    /// Makes a code valid again that was spent without a sign-in, because storage failed.
    fn put_back(&self, offer: Offer) {
        self.lock().get_or_insert(offer);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Offer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Template)]
#[template(path = "first.html")]
struct First {
    /// The relative address of `/console/`.
    root: &'static str,
    code: String,
    is_exposed: bool,
    style: &'static str,
    script: &'static str,
    icons: &'static str,
}

/// `GET /console/first`: a button that spends the code. Programs that load links for a preview press no
/// buttons.
pub(super) async fn show_first(ctx: RequestCtx) -> Result<Response, ApiError> {
    let code = ctx.query()?.into_iter().find(|(name, _)| name == "code");
    let code = code.map(|(_, code)| code).unwrap_or_default();
    let (style, script, icons) = page::versions();
    page::show(&First { root: "./", code, is_exposed: is_exposed(&ctx), style, script, icons })
}

/// `POST /console/first`. A wrong code counts as a wrong key.
pub(super) async fn submit_first(ctx: RequestCtx) -> Result<Response, ApiError> {
    session::check_same_origin(&ctx)?;
    let form = Form::parse(&ctx.body.bytes)?;
    let message = "this link was used, has expired, or is of an earlier start: sign in with the \
                   admin key";
    let first = &ctx.api.first_sign_in;
    let Some(offer) = first.take(form.text("code"), ctx.received_at) else {
        return Err(refused(&ctx, message, Vec::new()));
    };
    let keys = ctx.api.store.list_admin_keys().await;
    let keys = keys.inspect_err(|_| first.put_back(offer))?;
    let Some(key) = keys.into_iter().find(|key| key.id == offer.key) else {
        return Err(refused(&ctx, message, Vec::new()));
    };
    let label = key.name.unwrap_or(key.hint);
    let api = ctx.api.clone();
    let entered = enter(ctx, AdminKey { id: key.id, label }, &Form::default()).await;
    entered.inspect_err(|_| api.first_sign_in.put_back(offer))
}

// Requests without a session.

/// The response to a request without a session: the sign-in page, or a refresh of the page if a link on
/// another site led here, because the browser sends its cookie with the refresh.
pub(super) fn without_session(ctx: &RequestCtx) -> Response {
    if session::is_cross_site(ctx.headers()) {
        return page::refresh();
    }
    let next = ctx.parts.uri.path_and_query().map_or("", |path| path.as_str());
    to_sign_in(ctx, next.strip_prefix("/console/").unwrap_or_default())
}

fn to_sign_in(ctx: &RequestCtx, next: &str) -> Response {
    let root = page::root_of(ctx.parts.uri.path());
    redirect(&format!("{root}sign-in?next={}", encoded(next)))
}

/// The response to a form whose session has ended: the sign-in page, which carries the fields of the form and
/// then leads back to its page.
pub(super) fn expired_form(ctx: &RequestCtx) -> Response {
    let next = page_of_form(ctx);
    let form = Form::parse(&ctx.body.bytes).ok().filter(|_| !is_of_script(ctx));
    let form = form.filter(|form| session::is_from_ended_session(ctx, form));
    let unsent = form.and_then(|form| Unsent::of_form(ctx.parts.uri.path(), &form));
    let unsent =
        unsent.filter(|unsent| unsent.has_text() && unsent.encoded().len() <= UNSENT_BYTES_MAX);
    let Some(unsent) = unsent else {
        return to_sign_in(ctx, next);
    };
    let mut kept = unsent.kept();
    kept.push((NEXT, local_target(next).to_owned()));
    let root = page::root_of(ctx.parts.uri.path());
    let is_exposed = is_exposed(ctx);
    page::sign_in(&SignIn { kept: &kept, has_ended: true, is_exposed, ..SignIn::new(&root) })
}

/// The response to a form that is not from a page of the caller's session: the operator has signed in again in
/// another tab meanwhile. The page shows the fields of the form, and nothing is done.
///
/// # Errors
/// 403 if the browser does not say that a page of this server sent the form.
pub(super) async fn form_of_earlier_session(
    visit: Visit,
    form: &Form,
) -> Result<Response, ApiError> {
    // A script cannot show the page.
    if session::is_same_origin(&visit.ctx) != Some(true) || is_of_script(&visit.ctx) {
        return Err(ApiError::ForeignForm);
    }
    let path = visit.ctx.parts.uri.path();
    let unsent = Unsent::of_form(path, form).ok_or(ApiError::ForeignForm)?;
    let page = local_target(page_of_form(&visit.ctx)).to_owned();
    let mut response = show_unsent(visit, unsent, page).await?;
    *response.status_mut() = StatusCode::FORBIDDEN;
    Ok(response)
}

/// The page that sent a form, relative to `/console/`; empty if the browser does not name it.
fn page_of_form(ctx: &RequestCtx) -> &str {
    let referer = ctx.headers().get(header::REFERER).and_then(|value| value.to_str().ok());
    let page = referer.and_then(|referer| referer.split_once("/console/"));
    page.map_or("", |(_, page)| page)
}

/// Whether a script sent the form, which loads its own page again.
fn is_of_script(ctx: &RequestCtx) -> bool {
    ctx.headers().get(FETCH_DEST).is_some_and(|dest| dest == "empty")
}

/// A form that was not sent.
#[derive(Debug, PartialEq, Eq)]
struct Unsent {
    /// Where it would be sent to, relative to `/console/`.
    to: String,
    fields: Vec<(String, String)>,
    /// The names of the fields that can be secrets, separated by commas.
    withheld: String,
}

impl Unsent {
    /// The fields of a form that can be shown again; `None` if the form is not of the console.
    fn of_form(path: &str, form: &Form) -> Option<Self> {
        let to = local_target(path.strip_prefix("/console/")?);
        let given = form.fields().iter().filter(|(name, _)| name != "token");
        let (secret, fields): (Vec<_>, Vec<_>) =
            given.cloned().partition(|(name, value)| is_secret(name, value));
        let names: Vec<&str> = secret
            .iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, _)| name.as_str())
            .collect();
        Some(Self { to: to.to_owned(), fields, withheld: names.join(", ") })
    }

    /// Whether there is anything to show again.
    fn has_text(&self) -> bool {
        self.fields.iter().any(|(_, value)| !value.is_empty())
    }

    /// Whether the form can be sent again as it was.
    fn is_complete(&self) -> bool {
        self.has_text() && self.withheld.is_empty()
    }

    /// The unsent form that the sign-in page carried, if it carried one.
    fn of_sign_in(form: &Form) -> Result<Option<Self>, ApiError> {
        let encoded = form.text(UNSENT);
        if encoded.is_empty() || encoded.len() > UNSENT_BYTES_MAX {
            return Ok(None);
        }
        let to = local_target(form.text(UNSENT_TO)).to_owned();
        let withheld = form.text(WITHHELD).to_owned();
        Ok(Some(Self { to, fields: decode_pairs(encoded)?, withheld }))
    }

    /// The hidden fields of the sign-in page.
    fn kept(&self) -> Kept {
        vec![
            (UNSENT, self.encoded()),
            (UNSENT_TO, self.to.clone()),
            (WITHHELD, self.withheld.clone()),
        ]
    }

    fn encoded(&self) -> String {
        let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let pairs = self.fields.iter();
        let pairs = pairs.map(|(name, value)| format!("{}={}", encode(name), encode(value)));
        pairs.collect::<Vec<_>>().join("&")
    }
}

/// Whether a field can be a secret, by its name or its value.
fn is_secret(name: &str, value: &str) -> bool {
    const NAMES: [&str; 5] = ["key", "config", "secret", "token", "service_account"];
    const PARTS: [&str; 8] = [
        "password",
        "passphrase",
        "secret",
        "credential",
        "private",
        "api_key",
        "admin_key",
        "_token",
    ];
    // The key with which the form takes effect once is no secret.
    if name == "key" && Uuid::try_parse(value.trim()).is_ok() {
        return false;
    }
    let name = name.to_ascii_lowercase().replace('-', "_");
    NAMES.contains(&name.as_str())
        || PARTS.iter().any(|part| name.contains(part))
        || value.contains("PRIVATE KEY")
        || KeyKind::ALL.iter().any(|kind| key_hash(*kind, value.trim()).is_some())
}

#[derive(Template)]
#[template(path = "unsent.html")]
struct UnsentPage {
    layout: Layout,
    unsent: Unsent,
    /// The page of the form, relative to `/console/`.
    page: String,
}

/// Shows an unsent form after the sign-in.
async fn show_unsent(visit: Visit, unsent: Unsent, page: String) -> Result<Response, ApiError> {
    let layout = visit.layout("Your form was not sent", "").await?;
    page::show(&UnsentPage { layout, unsent, page })
}

// Encryption.

/// Whether others on the network could read what is entered on the page: it was loaded without TLS, and not
/// from this machine.
fn is_exposed(ctx: &RequestCtx) -> bool {
    // Browsers send Fetch Metadata only over TLS and to loopback addresses.
    let is_private = ctx.headers().contains_key(FETCH_SITE) || ctx.api.config.tls_cert.is_some();
    let host = session::host_of(ctx).unwrap_or_default();
    !is_private && !is_own(host) && !is_tls_proxy(&ctx.api.public_url, host)
}

/// Whether a host is this machine, as its own browser names it.
fn is_own(host: &str) -> bool {
    Url::parse(&format!("http://{host}")).is_ok_and(|url| is_this_machine(&url))
}

/// Whether the public address has TLS and the request came through it.
fn is_tls_proxy(public_url: &str, host: &str) -> bool {
    let asked = Url::parse(&format!("https://{host}"));
    let public = Url::parse(public_url);
    public.is_ok_and(|public| {
        public.scheme() == "https"
            && asked.is_ok_and(|asked| {
                asked.host() == public.host()
                    && asked.port_or_known_default() == public.port_or_known_default()
            })
    })
}
