//! The steps of every request, from its head to its response: [`Pipeline::handle`].

pub(crate) mod audit;
mod auth;
pub(crate) mod head;
mod key_cache;
pub(crate) mod memory;
mod rate_limits;
mod request_body;
pub(crate) mod scopes;
mod site;
mod web_origin;

use std::fmt;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Body;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use warp::Reply;

pub(crate) use self::key_cache::KeyCache;
use self::memory::{BodyMemory, MemoryPermit, Owner, RequestBody, ResponseMemory};
use self::rate_limits::{ClientAddresses, RateLimits};
use self::request_body::{BodyLimits, read_body};
pub(crate) use self::site::Port;
use self::site::Site;
use crate::api::Api;
use crate::api::caller::Caller;
use crate::api::console;
use crate::api::device_calls::DeviceCall;
use crate::api::error::ApiError;
use crate::api::handlers::poll_page;
use crate::api::inbound::{self, InboundWebhooks};
use crate::api::json_reply::NO_STORE;
use crate::api::network::network;
use crate::api::path::is_below;
use crate::api::request_ctx::RequestCtx;
use crate::api::router::RouteMatch;
use crate::api::server::request_stream::RequestStream;
use crate::api::server::transfer::ResponseBody;
use crate::store::audit::{record_next_write, with_audit};
use crate::store::{as_request, set_requester, with_deadline};

/// How long one request waits for storage, over all its operations; then it gets 503. The limit is
/// below the five seconds after which a health check of an unavailable database fails.
const STORAGE_TIMEOUT: Duration = Duration::from_secs(4);
/// Interval between calls of [`Pipeline::prune`].
pub(crate) const PRUNE_INTERVAL: Duration = Duration::from_secs(60);
/// How long an anonymous caller may continue to send a body after the server began to stop.
const ANONYMOUS_STOP_GRACE: Duration = Duration::from_secs(1);
/// How long an authenticated caller may continue to send a body after the server began to stop.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// Handles requests.
pub(crate) struct Pipeline {
    api: Arc<Api>,
    main: Site,
    admin: Site,
    console: Site,
    key_cache: Arc<KeyCache>,
    client_addresses: ClientAddresses,
    rate_limits: RateLimits,
    inbound: InboundWebhooks,
    body_memory: BodyMemory,
    response_memory: ResponseMemory,
    stopping: CancellationToken,
}

impl Pipeline {
    pub(crate) fn new(
        api: Arc<Api>,
        key_cache: Arc<KeyCache>,
        stopping: CancellationToken,
    ) -> Self {
        Self {
            main: Site::new(&api.config, Port::Main),
            admin: Site::new(&api.config, Port::Admin),
            console: Site::new(&api.config, Port::Console),
            key_cache,
            client_addresses: ClientAddresses::new(api.config.trusted_proxies.clone()),
            rate_limits: RateLimits::new(&api.config),
            inbound: InboundWebhooks::new(&api),
            body_memory: BodyMemory::new(api.config.max_body_bytes),
            response_memory: ResponseMemory::new(),
            stopping,
            api,
        }
    }

    /// Handles one request. `peer` is the other end of the connection, and `port` is our end.
    ///
    /// The order of the steps is part of the contract: 401 comes before 404 and 405, and the body
    /// is not read before every check of the head has passed.
    pub(crate) async fn handle(
        &self,
        request: Request<&mut RequestStream>,
        peer: IpAddr,
        port: Port,
    ) -> Response<ResponseBody> {
        let started = Instant::now();
        let request_id = RequestId::from_headers(request.headers());
        let method = request.method().clone();
        let site = self.site(port);
        let route = site.router.find(&method, request.uri().path());
        let from @ (address, untrusted_proxy) = self.client_addresses.find(request.headers(), peer);
        let client = network(address);
        let error_format = ErrorFormat::of(&request, &request_id, site);
        let is_browser_api = site.has_api && is_below(request.uri().path(), web_origin::AREA);
        let mut web_origin = None;
        let mut response_memory = None;

        let steps = async {
            head::check_message(&request)?;
            self.check_not_stopping(request.uri().path())?;
            let caller = self.authenticate(request.headers(), request.uri().path(), site).await?;
            web_origin = caller.web_origin().cloned();
            set_requester(caller.requester());
            self.count_request(&caller, &route, from, request.headers())?;
            if web_origin.is_some() && method == Method::OPTIONS {
                return web_origin::preflight(&route);
            }
            head::check_size(&request)?;
            let endpoint = route.endpoint()?;
            scopes::check(&caller, endpoint)?;
            let (parts, incoming) = request.into_parts();
            let caller = self.inbound.authenticate(&self.api, caller, &parts).await?;
            set_requester(caller.requester());
            let owner = Owner::of(&caller, client);
            response_memory = Some(self.reserve_response(&method, owner).await?);
            let body = self.read_body(&method, incoming, &caller, owner).await?;
            let ctx = RequestCtx {
                api: self.api.clone(),
                caller,
                path_template: endpoint.path,
                parts,
                body,
                received_at: self.api.clock.now(),
                address,
                untrusted_proxy,
                request_id: request_id.to_string(),
            };
            if let Some(entry) = audit::entry_of_admin(&ctx, endpoint) {
                record_next_write(entry);
            }
            endpoint.call(ctx).await
        };
        let steps = with_audit(as_request(with_deadline(STORAGE_TIMEOUT, steps)));
        let handled = AssertUnwindSafe(steps).catch_unwind().await;
        let handled = handled.unwrap_or_else(|panic| Err(ApiError::from_panic(&*panic)));
        let result = self.count_auth_failure(handled, client);

        let route_label = route.path_label();
        if let Some(cause) = result.as_ref().err().and_then(ApiError::cause) {
            tracing::error!(request.id = %request_id, route = route_label, cause, "request failed");
        }
        let response = result.unwrap_or_else(|error| error_format.render(error));
        let mut response = charge_memory(response, response_memory, &error_format);
        let (status, elapsed) = (response.status().as_u16(), started.elapsed());
        self.api.metrics.count_response(route.method_label(), route_label, status, elapsed);
        let took_us = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        tracing::debug!(request.id = %request_id, route = route_label, status, took_us, "request handled");

        set_common_headers(response.headers_mut(), request_id);
        if let Some(origin) = web_origin {
            origin.add_cors_headers(response.headers_mut());
        }
        if is_browser_api {
            // The response is valid for one origin, and no cache may serve it to another.
            response.headers_mut().insert(header::VARY, HeaderValue::from_static("origin"));
        }
        if method == Method::HEAD { without_body(response) } else { response }
    }

    fn site(&self, port: Port) -> &Site {
        match port {
            Port::Main => &self.main,
            Port::Admin => &self.admin,
            Port::Console => &self.console,
        }
    }

    /// While the server stops, only the liveness probe is answered.
    fn check_not_stopping(&self, path: &str) -> Result<(), ApiError> {
        if self.stopping.is_cancelled() && path != "/healthz" {
            return Err(ApiError::Stopping);
        }
        Ok(())
    }

    /// Counts a request for the rate limits. `from` is the client, and the proxy if it is not trusted.
    fn count_request(
        &self,
        caller: &Caller,
        route: &RouteMatch<'_>,
        from: (IpAddr, Option<IpAddr>),
        headers: &HeaderMap,
    ) -> Result<(), ApiError> {
        self.rate_limits.check(caller, route, network(from.0))?;
        let (calls, now) = (&self.api.device_calls, self.api.clock.now());
        let call = DeviceCall::by(calls, caller, from, headers, now);
        call.map_or(Ok(()), |call| call.count())
    }

    /// Counts a failed authentication, regardless of which step refused the caller. The error
    /// becomes 429 if the client has had too many failed authentications.
    fn count_auth_failure<T>(
        &self,
        result: Result<T, ApiError>,
        client: IpAddr,
    ) -> Result<T, ApiError> {
        match result {
            Err(error @ ApiError::WrongSignInKey { .. }) => {
                self.rate_limits.count_sign_in_failure(client)?;
                Err(error)
            }
            Err(error) if error.status() == StatusCode::UNAUTHORIZED => {
                self.rate_limits.count_auth_failure(client)?;
                Err(error)
            }
            result => result,
        }
    }

    /// Reserves memory for the response before it is made.
    async fn reserve_response(
        &self,
        method: &Method,
        owner: Owner,
    ) -> Result<MemoryPermit, ApiError> {
        match *method {
            Method::POST | Method::PUT | Method::PATCH => self.response_memory.reserve_write(owner),
            // A `DELETE` reserves as much as a read; its response is smaller.
            _ => self.response_memory.reserve_read(owner).await,
        }
    }

    /// Reads the whole body, if the method has one.
    async fn read_body(
        &self,
        method: &Method,
        incoming: &mut RequestStream,
        caller: &Caller,
        owner: Owner,
    ) -> Result<RequestBody, ApiError> {
        if !has_body(method) {
            return Ok(RequestBody::default());
        }
        let config = &self.api.config;
        let limit = config.max_body_bytes;
        let bytes_max = match caller {
            Caller::App(_) | Caller::Admin(_) => limit,
            Caller::Browser(_) | Caller::DeviceApp(_) => limit.min(web_origin::BODY_BYTES_MAX),
            Caller::Platform(_) => limit.min(inbound::BODY_BYTES_MAX),
            Caller::Console(Some(_)) => limit,
            Caller::Console(None) => limit.min(console::FORM_BYTES_MAX),
            Caller::Anonymous => limit.min(poll_page::FORM_BYTES_MAX),
        };
        let stop_grace = match owner {
            Owner::Client(_) | Owner::Messenger(_) => ANONYMOUS_STOP_GRACE,
            Owner::Key(_) | Owner::Admin | Owner::TelegramWebhook(_) => STOP_GRACE,
        };
        // A declared length above the limit counts as the limit here: such a body must be refused
        // as too large, and not for lack of memory.
        let declared = incoming.size_hint().lower().min(bytes_max as u64);
        let mut memory = self.body_memory.admit(owner, declared)?;
        let limits = BodyLimits {
            bytes_max,
            timeout: config.body_timeout.0,
            memory: &mut memory,
            stopping: &self.stopping,
            stop_grace,
        };
        let bytes = read_body(incoming, limits).await?;
        Ok(RequestBody { bytes, _memory: Some(memory) })
    }

    /// Removes expired state of rate limits; called periodically.
    pub(crate) fn prune(&self) {
        self.rate_limits.prune();
        self.api.device_calls.prune();
    }
}

/// The format of an error response: HTML below the paths of poll pages and of the console, which people
/// open in a browser, JSON everywhere else.
enum ErrorFormat {
    Json,
    Console { path: String, request_id: String },
    Page { accept_language: String },
}

impl ErrorFormat {
    fn of<B>(request: &Request<B>, request_id: &RequestId, site: &Site) -> Self {
        let path = request.uri().path();
        if site.is_console(path) {
            return Self::Console { path: path.to_owned(), request_id: request_id.to_string() };
        }
        if !is_below(path, poll_page::AREA) {
            return Self::Json;
        }
        Self::Page { accept_language: poll_page::accept_language(request.headers()).to_owned() }
    }

    fn render(&self, error: ApiError) -> warp::reply::Response {
        match self {
            Self::Json => error.into_response(),
            Self::Console { path, request_id } => console::error_page(error, path, request_id),
            Self::Page { accept_language } => poll_page::error_page(error, accept_language),
        }
    }
}

/// Adjusts the reserved memory to the size of a response. The memory stays reserved until the
/// client has read the response. A response that does not fit is replaced by an error.
fn charge_memory(
    response: warp::reply::Response,
    permit: Option<MemoryPermit>,
    error_format: &ErrorFormat,
) -> Response<ResponseBody> {
    let mut response = response.map(ResponseBody::new);
    if let Some(mut permit) = permit {
        if let Err(error) = permit.resize(response.body().owned_bytes()) {
            response = error_format.render(error).map(ResponseBody::new);
        }
        response.body_mut().hold_memory(permit);
    }
    response
}

fn set_common_headers(headers: &mut HeaderMap, request_id: RequestId) {
    headers.insert(REQUEST_ID, request_id.into_value());
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // RFC 9111 section 3.5 keeps shared caches from storing responses to requests with
    // `Authorization`. It does not apply here, because the API key is in another header. Handlers
    // whose responses may be stored set `Cache-Control` themselves.
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static(NO_STORE));
}

/// The response to `HEAD`: the head of `GET` with the length of its body.
fn without_body(mut response: Response<ResponseBody>) -> Response<ResponseBody> {
    if response.status() == StatusCode::NOT_MODIFIED {
        return response;
    }
    let length = response.body().len();
    response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
    response.body_mut().clear();
    response
}

/// Whether requests with this method have a body.
fn has_body(method: &Method) -> bool {
    matches!(*method, Method::POST | Method::PUT | Method::PATCH)
}

/// `X-Request-Id`.
pub(super) const REQUEST_ID: header::HeaderName = header::HeaderName::from_static("x-request-id");
/// Longest id that is accepted from a client, in characters.
const CLIENT_ID_CHARS_MAX: usize = 64;

/// The id of one request, which the response and the log contain.
pub(super) struct RequestId(HeaderValue);

impl RequestId {
    /// The id that the client sent, if it is short and safe to log; otherwise a new id.
    pub(super) fn from_headers(headers: &HeaderMap) -> Self {
        let given = headers.get(REQUEST_ID).filter(|value| is_safe(value.as_bytes()));
        Self(given.cloned().unwrap_or_else(|| {
            let id = Uuid::now_v7().hyphenated().to_string();
            id.try_into().expect("a UUID is visible ASCII")
        }))
    }

    pub(super) fn into_value(self) -> HeaderValue {
        self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0.to_str().unwrap_or_default())
    }
}

fn is_safe(id: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=CLIENT_ID_CHARS_MAX).contains(&id.len()) && id.iter().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_short_and_plain_ids_from_clients() {
        let long = "a".repeat(65);
        let cases =
            [("abc-1_2.3", true), ("", false), ("a b", false), ("a\u{9}", false), (&long, false)];
        for (given, is_accepted) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(REQUEST_ID, HeaderValue::from_str(given).unwrap());
            assert_eq!(
                RequestId::from_headers(&headers).to_string() == given,
                is_accepted,
                "{given}"
            );
        }
    }
}
