//! What every request passes before the table: request id, panic guard, key, limits, body. The
//! order is the contract (B3): 401 before 404, 405 and before a byte of the body is read.

mod body;
mod client_address;
mod key_cache;
mod memory;
mod web_origin;

use std::convert::Infallible;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version, header};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub(crate) use self::body::AnswerBody;
use self::body::Reading;
use self::client_address::ClientAddresses;
pub(crate) use self::key_cache::Keyring;
pub(crate) use self::memory::Room;
use self::memory::{Answers, Bodies, KeyRate, Owner, PageRate, Throttle, VoteRate};
pub(crate) use self::web_origin::Page;
use crate::api::Api;
use crate::api::error::{ApiError, Cause};
use crate::api::handlers::event_stream::Rest;
use crate::api::handlers::{poll_page, web};
use crate::api::inbound::{self, Head, Hooks};
use crate::api::json_reply::NO_STORE;
use crate::api::request_ctx::{Caller, Exchange};
use crate::api::router::{Found, Row, Table};
use crate::api::routes::routes;
use crate::config::Config;
use crate::keys::{KeyKind, key_hash};
use crate::store::with_patience;

/// Longest time that one request waits for storage, all its questions together; then it is 503 (T15:
/// within 5 s, whatever happens to a database).
const STORAGE_WAIT: Duration = Duration::from_secs(4);
/// How often [`Front::tidy`] is due.
pub(crate) const TIDY_EVERY: Duration = Duration::from_secs(60);

/// The one way in.
pub(crate) struct Front {
    api: Arc<Api>,
    table: Table,
    keyring: Arc<Keyring>,
    clients: ClientAddresses,
    throttle: Throttle,
    key_rate: KeyRate,
    vote_rate: VoteRate,
    page_rate: PageRate,
    hooks: Hooks,
    bodies: Bodies,
    answers: Answers,
    stopping: CancellationToken,
}

/// What a request comes with beside itself.
struct Arrival<'a> {
    found: &'a Found<'a>,
    client: IpAddr,
    person: &'a Person,
    room: &'a mut Option<Room>,
}

impl Front {
    pub(crate) fn new(api: Arc<Api>, keyring: Arc<Keyring>, stopping: CancellationToken) -> Self {
        let config: &Config = &api.config;
        let throttle = Throttle::new(config.auth_failures_per_minute);
        let key_rate = KeyRate::new(config.rate_limit);
        let vote_rate = VoteRate::new(config.poll_votes_per_minute);
        let page_rate =
            PageRate::new(config.web_requests_per_minute, config.web_subscriptions_per_minute);
        let clients = ClientAddresses::new(config.trusted_proxies.clone());
        let table = Table::new(&routes());
        let (hooks, bodies) = (Hooks::new(&api), Bodies::new(config.max_body_bytes));
        Self {
            table,
            keyring,
            clients,
            throttle,
            key_rate,
            vote_rate,
            page_rate,
            hooks,
            bodies,
            answers: Answers::new(),
            stopping,
            api,
        }
    }

    /// Answers a request, whatever it is. `peer` is who holds the connection.
    pub(crate) async fn answer(
        &self,
        request: Request<Incoming>,
        peer: IpAddr,
    ) -> Result<Response<AnswerBody>, Infallible> {
        let started = Instant::now();
        let id = RequestId::of(request.headers());
        let method = request.method().clone();
        let found = self.table.find(&method, request.uri().path());
        let label = found.label();
        let mut room = None;
        let responding =
            with_patience(STORAGE_WAIT, self.respond(request, &found, peer, &mut room));
        let guarded = AssertUnwindSafe(responding).catch_unwind();
        let mut response = guarded.await.unwrap_or_else(|panic| {
            let cause = format!("panic: {}", panic_text(panic.as_ref()));
            ApiError::Internal(cause.into()).into_response()
        });
        if let Some(Cause(cause)) = response.extensions_mut().remove() {
            let status = response.status().as_u16();
            tracing::error!(request.id = id.as_str(), route = label, status, cause, "not answered");
        }
        if let Some(error) = room.as_mut().and_then(|room| fit(room, response.body()).err()) {
            response = error.into_response();
        }
        let code = response.status().as_u16();
        let took = started.elapsed();
        self.api.metrics.answered((found.method(), label), code, took);
        tracing::debug!(
            request.id = id.as_str(),
            route = label,
            status = code,
            took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
            "answered"
        );
        response.headers_mut().insert(HEADER, id.into_value());
        let mut response = finish(&method, response);
        if let Some(room) = room {
            response.body_mut().occupy(room);
        }
        Ok(response)
    }

    async fn respond(
        &self,
        request: Request<Incoming>,
        found: &Found<'_>,
        peer: IpAddr,
        room: &mut Option<Room>,
    ) -> Response<Bytes> {
        let client = self.clients.of(request.headers(), peer);
        let person = Person::of(&request);
        let arrival = Arrival { found, client, person: &person, room };
        let is_for_pages = is_under(request.uri().path(), web_origin::AREA);
        let mut response = match self.enter(&request, client).await {
            Ok(Caller::Page(page)) => {
                let mut response = self.answer_page(request, arrival, &page).await;
                page.may_read(&mut response);
                response
            }
            Ok(caller) => self.serve(request, arrival, caller).await,
            Err(error) => person.refused(error),
        };
        if is_for_pages {
            // The answer is one page's; whoever keeps it must not give it to another.
            response.headers_mut().insert(header::VARY, HeaderValue::from_static("origin"));
        }
        response
    }

    /// Answers a page that was let in.
    async fn answer_page(
        &self,
        request: Request<Incoming>,
        arrival: Arrival<'_>,
        page: &Arc<Page>,
    ) -> Response<Bytes> {
        let Arrival { found, client, .. } = arrival;
        let makes_device = found.label() == web::SUBSCRIBE && request.method() == Method::POST;
        if let Err(error) = self.page_rate.take(page.web.no, client, makes_device) {
            return error.into_response();
        }
        if request.method() == Method::OPTIONS {
            return web_origin::preflight(found);
        }
        self.serve(request, arrival, Caller::Page(page.clone())).await
    }

    /// Answers a caller who is known.
    async fn serve(
        &self,
        request: Request<Incoming>,
        arrival: Arrival<'_>,
        caller: Caller,
    ) -> Response<Bytes> {
        let Arrival { client, person, .. } = arrival;
        let response = match self.admit(request, arrival, caller).await {
            Ok((exchange, row)) => {
                let (parts, body) = row.call(exchange).await.into_parts();
                match body.collect().await {
                    Ok(body) => Response::from_parts(parts, body.to_bytes()),
                    Err(error) => ApiError::Internal(error.into()).into_response(),
                }
            }
            Err(error) => person.refused(error),
        };
        // Past the table a 401 is a webhook's or a device's: what it proves itself with stands in
        // head and body.
        if response.status() == StatusCode::UNAUTHORIZED
            && let Err(error) = self.throttle.failed(client)
        {
            return error.into_response();
        }
        response
    }

    /// Who calls, if the server takes the call.
    async fn enter(&self, request: &Request<Incoming>, client: IpAddr) -> Result<Caller, ApiError> {
        check_message(request)?;
        let path = request.uri().path();
        if self.stopping.is_cancelled() && path != "/healthz" {
            return Err(ApiError::Stopping);
        }
        self.authenticate(request.headers(), path, client).await
    }

    /// Lets a request through to its route, or says why not.
    async fn admit<'t>(
        &self,
        request: Request<Incoming>,
        arrival: Arrival<'t>,
        caller: Caller,
    ) -> Result<(Exchange, &'t Row), ApiError> {
        check_bounds(&request)?;
        let Arrival { found, client, room, .. } = arrival;
        let row = found.row()?;
        let (parts, incoming) = request.into_parts();
        if parts.method == Method::POST && is_under(parts.uri.path(), poll_page::AREA) {
            self.vote_rate.take(client)?;
        }
        let head = Head { method: &parts.method, uri: &parts.uri, headers: &parts.headers };
        let caller = match self.hooks.admitted(&self.api, head).await? {
            Some(hook) => Caller::Platform(hook),
            None => caller,
        };
        let owner = owner(&caller, client);
        let has_body = matches!(parts.method, Method::POST | Method::PUT | Method::PATCH);
        *room = Some(match has_body {
            true => self.answers.enter_change(owner)?,
            false => self.answers.enter_read(owner).await?,
        });
        let (body, body_room) = match has_body {
            true => {
                let (body, room) = self.read_body(incoming, &caller, owner).await?;
                (body, Some(room))
            }
            false => (Bytes::new(), None),
        };
        let method = if parts.method == Method::HEAD { Method::GET } else { parts.method };
        let exchange = Exchange {
            api: self.api.clone(),
            caller,
            method,
            uri: parts.uri,
            headers: parts.headers,
            body,
            _room: body_room,
            at: self.api.clock.now(),
        };
        Ok((exchange, row))
    }

    /// Forgets clients that have not failed for a while; called now and then.
    pub(crate) fn tidy(&self) {
        self.throttle.tidy();
        self.key_rate.tidy();
        self.vote_rate.tidy();
        self.page_rate.tidy();
    }
}

/// Who reads what is wrong: a person at a poll gets a page, whatever it is (B3), everybody else JSON.
struct Person(Option<String>);

impl Person {
    fn of(request: &Request<Incoming>) -> Self {
        let is_person = is_under(request.uri().path(), poll_page::AREA);
        Self(is_person.then(|| poll_page::accept_language(request.headers()).to_owned()))
    }

    fn refused(&self, error: ApiError) -> Response<Bytes> {
        match &self.0 {
            Some(languages) => poll_page::refusal(error, languages),
            None => error.into_response(),
        }
    }
}

/// Makes the room as large as an answer. What all answers share, such as a page of the
/// documentation, takes none.
fn fit(room: &mut Room, answer: &Bytes) -> Result<(), ApiError> {
    room.fit(if answer.is_unique() { answer.len() } else { 0 })
}

fn is_under(path: &str, area: &str) -> bool {
    path.strip_prefix(area).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("not a text")
}

/// `HEAD` has the head of `GET`, the length included, and no body.
fn finish(method: &Method, mut response: Response<Bytes>) -> Response<AnswerBody> {
    let rest: Option<Rest> = response.extensions_mut().remove();
    let headers = response.headers_mut();
    let policy = HeaderValue::from_static("nosniff");
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, policy);
    // The key is no `Authorization`, so that RFC 9111 section 3.5 keeps no shared cache from
    // storing an answer. What may be kept says so itself.
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static(NO_STORE));
    if *method != Method::HEAD || response.status() == StatusCode::NOT_MODIFIED {
        return match rest.and_then(|rest| rest.take()) {
            Some(pieces) => response.map(|_| AnswerBody::pieces(pieces)),
            None => response.map(AnswerBody::whole),
        };
    }
    let length = response.body().len();
    response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
    response.map(|_| AnswerBody::whole(Bytes::new()))
}

// Who calls: by the key, or by the page's origin.

const API_KEY: header::HeaderName = header::HeaderName::from_static("x-api-key");

impl Front {
    /// Who calls, where the path is for those who prove it.
    async fn authenticate(
        &self,
        headers: &HeaderMap,
        path: &str,
        client: IpAddr,
    ) -> Result<Caller, ApiError> {
        let outcome = if is_under(path, "/v1") {
            self.application(headers).await
        } else if is_under(path, "/admin/v1") {
            self.administrator(headers).await
        } else if is_under(path, web_origin::AREA) {
            self.page(headers, path).await
        } else {
            return Ok(Caller::Anyone);
        };
        match outcome {
            Err(
                error @ (ApiError::Unauthorized
                | ApiError::ApiKeyAsBearer
                | ApiError::AdminUnauthorized
                | ApiError::PageUnauthorized),
            ) => {
                self.throttle.failed(client)?;
                Err(error)
            }
            outcome => outcome,
        }
    }

    async fn application(&self, headers: &HeaderMap) -> Result<Caller, ApiError> {
        let hash = only(headers, &API_KEY).and_then(|key| key_hash(KeyKind::Api, key));
        let Some(hash) = hash else { return Err(without_key(headers)) };
        let access = self.keyring.application(hash, self.api.clock.now()).await?;
        let access = access.ok_or(ApiError::Unauthorized)?;
        self.key_rate.take(access.key)?;
        Ok(Caller::App(access))
    }

    async fn page(&self, headers: &HeaderMap, path: &str) -> Result<Caller, ApiError> {
        let app = web_origin::app_of(path).ok_or(ApiError::PageUnauthorized)?;
        let origin = web_origin::origin_of(headers, &self.api.public_url);
        let origin = origin.ok_or(ApiError::PageUnauthorized)?;
        let web = self.keyring.web(app).await?.ok_or(ApiError::PageUnauthorized)?;
        let page = Page::admitted(app, &web, origin).ok_or(ApiError::PageUnauthorized)?;
        Ok(Caller::Page(Arc::new(page)))
    }

    async fn administrator(&self, headers: &HeaderMap) -> Result<Caller, ApiError> {
        let key = only(headers, &header::AUTHORIZATION).and_then(bearer);
        let hash = key.and_then(|key| key_hash(KeyKind::Admin, key));
        let hash = hash.ok_or(ApiError::AdminUnauthorized)?;
        match self.keyring.administrator(hash).await? {
            true => Ok(Caller::Admin),
            false => Err(ApiError::AdminUnauthorized),
        }
    }
}

/// What to say where no API key came: it may stand in the header that holds admin keys.
fn without_key(headers: &HeaderMap) -> ApiError {
    let token = only(headers, &header::AUTHORIZATION).and_then(bearer);
    let is_misplaced = !headers.contains_key(&API_KEY)
        && token.is_some_and(|token| token.starts_with(KeyKind::Api.prefix()));
    if is_misplaced { ApiError::ApiKeyAsBearer } else { ApiError::Unauthorized }
}

/// The value of a header that stands there once and is visible ASCII.
fn only<'h>(headers: &'h HeaderMap, name: &header::HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

fn bearer(authorization: &str) -> Option<&str> {
    let (scheme, key) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}

// What a request's head has to be before anything else is looked at: one that two readers take in
// one way, and within the limits.

/// Longest path and query, in bytes.
const URI_BYTES_MAX: usize = 8_192;
/// Largest header block, in bytes, counted as HTTP/1 writes it.
pub(crate) const HEADER_BYTES_MAX: usize = 16_384;
/// Most header fields.
pub(crate) const HEADERS_MAX: usize = 100;

/// Refuses heads over the limits. The parser's own limits lie above these, so that an answer in
/// our form can be given.
fn check_bounds<B>(request: &Request<B>) -> Result<(), ApiError> {
    let uri = request.uri();
    let uri_bytes = uri.path().len() + uri.query().map_or(0, |query| query.len() + 1);
    if uri_bytes > URI_BYTES_MAX {
        let what = format!("must be at most {URI_BYTES_MAX} bytes");
        return Err(ApiError::invalid("url", &what));
    }
    let headers = request.headers();
    // Name, colon, space, value, end of line.
    let bytes: usize =
        headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    if bytes > HEADER_BYTES_MAX || headers.len() > HEADERS_MAX {
        let what =
            format!("must be at most {HEADERS_MAX} fields and {HEADER_BYTES_MAX} bytes together");
        return Err(ApiError::invalid("headers", &what));
    }
    Ok(())
}

/// Refuses what a proxy before the server may read as another request: no host or two (RFC 9112
/// section 3.2), an authority that denies the host (RFC 9113 section 8.3.1), and a coding of the
/// body that is not undone here (RFC 9112 section 6.1; B4 knows no 501).
fn check_message<B>(request: &Request<B>) -> Result<(), ApiError> {
    check_host(request)?;
    let mut codings = request.headers().get_all(header::TRANSFER_ENCODING).iter();
    if let Some(coding) = codings.next() {
        let is_chunked = coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked");
        if !is_chunked || codings.next().is_some() {
            return Err(ApiError::NotHttp("transfer-encoding: must be chunked alone"));
        }
    }
    Ok(())
}

fn check_host<B>(request: &Request<B>) -> Result<(), ApiError> {
    let host = the_host(request.headers())?;
    let authority = request.uri().authority();
    match (request.version(), host, authority) {
        // HTTP/1.0 knows no such field.
        (Version::HTTP_09 | Version::HTTP_10, ..) | (Version::HTTP_11, Some(_), _) => Ok(()),
        (Version::HTTP_11, None, _) | (_, None, None) => {
            Err(ApiError::NotHttp("host: is required"))
        }
        (_, Some(host), Some(authority))
            if !host.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes()) =>
        {
            Err(ApiError::NotHttp("host: is not the authority of the request"))
        }
        (_, Some(_), _) | (_, None, Some(_)) => Ok(()),
    }
}

/// The one `Host`, if there is one. An empty one is valid where the target has no authority.
fn the_host(headers: &HeaderMap) -> Result<Option<&HeaderValue>, ApiError> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(ApiError::NotHttp("host: must be given once"));
    }
    let is_name = |host: &HeaderValue| {
        let authority = Authority::try_from(host.as_bytes());
        host.is_empty() || authority.is_ok_and(|authority| !authority.as_str().contains('@'))
    };
    match host {
        Some(host) if !is_name(host) => Err(ApiError::NotHttp("host: is not a host")),
        host => Ok(host),
    }
}

// How the body of a request is read: within the bounds of who sends it.

/// What is left to a body once the server stops: a stranger's, and one of a caller with a key.
const STRANGER_STOPPING_WAIT: Duration = Duration::from_secs(1);
const STOPPING_WAIT: Duration = Duration::from_secs(5);

impl Front {
    /// The whole body, with its room among all bodies.
    async fn read_body(
        &self,
        incoming: Incoming,
        caller: &Caller,
        owner: Owner,
    ) -> Result<(Bytes, Room), ApiError> {
        let config = &self.api.config;
        let limit = config.max_body_bytes;
        let bytes_max = match caller {
            Caller::App(_) | Caller::Admin => limit,
            Caller::Page(_) => limit.min(web_origin::BODY_BYTES_MAX),
            Caller::Platform(_) => limit.min(inbound::BODY_BYTES_MAX),
            Caller::Anyone => limit.min(poll_page::FORM_BYTES_MAX),
        };
        let stopping_wait = match owner {
            Owner::Client(_) | Owner::Messenger(_) => STRANGER_STOPPING_WAIT,
            Owner::Key(_) | Owner::Admin | Owner::ChatApp(_) => STOPPING_WAIT,
        };
        // What is too large is too large however much room there is.
        let declared = incoming.size_hint().lower().min(bytes_max as u64);
        let mut room = self.bodies.enter(owner, declared)?;
        let reading = Reading {
            bytes_max,
            timeout: config.body_timeout.0,
            room: &mut room,
            stopping: &self.stopping,
            stopping_wait,
        };
        let body = body::collect(incoming, reading).await?;
        Ok((body, room))
    }
}

/// Who the body and the answer of a request belong to.
fn owner(caller: &Caller, client: IpAddr) -> Owner {
    match caller {
        Caller::App(access) => Owner::Key(access.key),
        Caller::Admin => Owner::Admin,
        Caller::Platform(hook) => match hook.proven_by_head() {
            Some(app) => Owner::ChatApp(app),
            None => Owner::Messenger(client),
        },
        Caller::Page(_) | Caller::Anyone => Owner::Client(client),
    }
}

// The id of a request, on its answer and in the log (B3). One that comes in is taken over only
// when it can do no harm in a log.

/// `X-Request-Id`.
const HEADER: header::HeaderName = header::HeaderName::from_static("x-request-id");
/// Longest id that is taken over, in characters.
const TAKEN_OVER_CHARS_MAX: usize = 64;

/// The id of one request.
struct RequestId(HeaderValue);

impl RequestId {
    /// The caller's, when it is short and harmless, else a new one.
    fn of(headers: &HeaderMap) -> Self {
        let given = headers.get(HEADER).filter(|value| is_harmless(value.as_bytes()));
        Self(given.cloned().unwrap_or_else(|| {
            let id = Uuid::now_v7().hyphenated().to_string();
            id.try_into().expect("a UUID is visible ASCII")
        }))
    }

    fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }

    fn into_value(self) -> HeaderValue {
        self.0
    }
}

fn is_harmless(id: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=TAKEN_OVER_CHARS_MAX).contains(&id.len()) && id.iter().all(plain)
}

#[cfg(test)]
mod head_tests {
    use super::*;

    fn refused(version: Version, uri: &str, headers: &[(&str, &str)]) -> Option<String> {
        let mut request = Request::builder().version(version).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        check_message(&request.body(()).unwrap()).err().map(|error| error.to_string())
    }

    #[test]
    fn a_request_names_its_host_once() {
        let (one, two) = (Version::HTTP_11, Version::HTTP_2);
        let (required, once) = (Some("host: is required"), Some("host: must be given once"));
        let (no_host, other) =
            (Some("host: is not a host"), Some("host: is not the authority of the request"));
        type Fields = &'static [(&'static str, &'static str)];
        let cases: [(Version, &str, Fields, Option<&str>); 20] = [
            (one, "/", &[("host", "a")], None),
            (one, "/", &[("host", "a.example:8080")], None),
            (one, "/", &[("host", "[::1]:8080")], None),
            (one, "/", &[("host", "")], None),
            (one, "http://b/", &[("host", "a")], None),
            (one, "/", &[], required),
            (one, "http://a/", &[], required),
            (one, "/", &[("host", "a"), ("host", "a")], once),
            (one, "/", &[("host", "a"), ("host", "b")], once),
            (one, "/", &[("host", "a b")], no_host),
            (one, "/", &[("host", "a/b")], no_host),
            (one, "/", &[("host", "a, b")], no_host),
            (one, "/", &[("host", "user@a")], no_host),
            (Version::HTTP_10, "/", &[], None),
            (Version::HTTP_10, "/", &[("host", "a"), ("host", "b")], once),
            (two, "https://a/", &[], None),
            (two, "https://a/", &[("host", "A")], None),
            (two, "/", &[("host", "a")], None),
            (two, "https://a/", &[("host", "b")], other),
            (two, "/", &[], required),
        ];
        for (version, uri, headers, expected) in cases {
            let found = refused(version, uri, headers);
            assert_eq!(found.as_deref(), expected, "{version:?} {uri} {headers:?}");
        }
    }

    #[test]
    fn a_body_is_chunked_or_has_no_transfer_coding() {
        let wrong = Some("transfer-encoding: must be chunked alone");
        let cases: [(&[&str], Option<&str>); 9] = [
            (&[], None),
            (&["chunked"], None),
            (&["Chunked"], None),
            (&["gzip, chunked"], wrong),
            (&["gzip", "chunked"], wrong),
            (&["chunked, chunked"], wrong),
            (&["identity"], wrong),
            (&["chunked;q=1"], wrong),
            (&[""], wrong),
        ];
        for (codings, expected) in cases {
            let mut headers = vec![("host", "a")];
            headers.extend(codings.iter().map(|coding| ("transfer-encoding", *coding)));
            let found = refused(Version::HTTP_11, "/", &headers);
            assert_eq!(found.as_deref(), expected, "{codings:?}");
        }
    }
}

#[cfg(test)]
mod request_id_tests {
    use super::*;

    #[test]
    fn only_short_and_plain_ids_are_taken_over() {
        let long = "a".repeat(65);
        let cases =
            [("abc-1_2.3", true), ("", false), ("a b", false), ("a\u{9}", false), (&long, false)];
        for (given, taken) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(HEADER, HeaderValue::from_str(given).unwrap());
            assert_eq!(RequestId::of(&headers).as_str() == given, taken, "{given}");
        }
    }
}
