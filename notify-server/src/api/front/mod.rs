//! What every request passes before the table: request id, panic guard, key, limits, body. The
//! order is the contract (B3): 401 before 404, 405 and before a byte of the body is read.

mod answer;
mod body;
mod client;
mod entry;
mod head;
mod keyring;
mod limits;
mod page;
mod reading;
mod request_id;
mod room;

use std::convert::Infallible;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::FutureExt;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio_util::sync::CancellationToken;

pub(crate) use answer::AnswerBody;
pub(crate) use head::{HEADER_BYTES_MAX, HEADERS_MAX};
pub(crate) use keyring::Keyring;
pub(crate) use page::Page;
pub(crate) use room::Room;

use self::client::ClientAddresses;
use self::head::{check_bounds, check_message};
use self::limits::{KeyRate, PageRate, Throttle, VoteRate};
use self::reading::owner;
use self::request_id::RequestId;
use self::room::{Answers, Bodies};
use super::Api;
use super::ctx::{Caller, Exchange};
use super::error::{ApiError, Cause};
use super::hooks::{Head, Hooks};
use super::poll_page;
use super::reply::NO_STORE;
use super::routes::routes;
use super::stream::Rest;
use super::table::{Found, Row, Table};
use super::web;
use crate::config::Config;
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
        response.headers_mut().insert(request_id::HEADER, id.into_value());
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
        let is_for_pages = is_under(request.uri().path(), page::AREA);
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
            return page::preflight(found);
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
