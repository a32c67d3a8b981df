//! The control API of `notify-server sandbox --with-server`, by which tests in any language see what was
//! delivered, make providers fail and advance the clock.
//!
//! | call | effect or response |
//! |---|---|
//! | `GET /delivered?device_id=ID` | waits until nothing is due; `{"messages": […]}` |
//! | `DELETE /delivered` | forgets the messages |
//! | `POST /failures` | `{failure, device_id, times}` or `{failure, platform}` |
//! | `DELETE /failures` | ends all failures |
//! | `POST /advance` | `{seconds}`; `{"now": unix ms}` |
//!
//! Like the control API of the sandbox, it refuses requests of web pages.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use http::uri::Authority;
use http::{HeaderMap, StatusCode, Uri};
use notify_core::Platform;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use warp::{Filter, Reply};

use super::{Failure, TestServer, TestServerError};
use crate::error_chain::error_chain;

/// The largest body of a request, in bytes.
const BODY_BYTES_MAX: u64 = 16_384;

/// The control API of a test server. Dropping it stops it.
#[derive(Debug)]
pub struct Control {
    address: SocketAddr,
    serving: JoinHandle<()>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Advance {
    seconds: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewFailure {
    failure: Failure,
    device_id: Option<String>,
    platform: Option<String>,
    times: Option<u32>,
}

/// Why a request is refused.
enum ControlError {
    Invalid(String),
    Stopped,
    Server(TestServerError),
}

impl From<TestServerError> for ControlError {
    fn from(error: TestServerError) -> Self {
        Self::Server(error)
    }
}

type ControlResult = Result<Value, ControlError>;

impl Control {
    /// Serves the control API of `server` on `listener`.
    ///
    /// # Errors
    /// When the listener has no address.
    pub fn start(listener: TcpListener, server: &Arc<TestServer>) -> std::io::Result<Self> {
        let address = listener.local_addr()?;
        // Open connections keep the routes, and must not keep the server.
        let routes = routes(address, Arc::downgrade(server));
        let serving = tokio::spawn(warp::serve(routes).incoming(listener).run());
        Ok(Self { address, serving })
    }

    /// The address on which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn routes(
    address: SocketAddr,
    server: Weak<TestServer>,
) -> impl Filter<Extract = (impl Reply,), Error = Infallible> + Clone + Send + Sync + 'static {
    let server = warp::any().map(move || Weak::clone(&server));
    let delivered =
        warp::path!("delivered").and(warp::get()).and(query()).and(server.clone()).then(
            |query: String, server| {
                with_server(server, async move |server| {
                    let device_id = device_id(&query)?;
                    let messages = server.delivered_to(&device_id).await?;
                    Ok(json!({ "messages": messages }))
                })
            },
        );
    let forget = warp::path!("delivered").and(warp::delete()).and(server.clone()).then(|server| {
        with_server(server, async move |server| {
            server.forget_messages();
            Ok(json!({}))
        })
    });
    let advance = warp::path!("advance").and(warp::post()).and(body()).and(server.clone()).then(
        |body: Bytes, server| {
            with_server(server, async move |server| {
                let body: Advance = parse(&body)?;
                server.advance(Duration::from_secs(body.seconds)).await?;
                Ok(json!({ "now": server.now() }))
            })
        },
    );
    let fail = warp::path!("failures").and(warp::post()).and(body()).and(server.clone()).then(
        |body: Bytes, server| with_server(server, async move |server| fail(&body, &server).await),
    );
    let recover = warp::path!("failures").and(warp::delete()).and(server).then(|server| {
        with_server(server, async move |server| {
            server.recover();
            Ok(json!({}))
        })
    });
    let calls = delivered.or(forget).or(advance).or(fail).or(recover);
    own_caller(address).and(calls).recover(rejected)
}

/// A request that [`notify_sandbox::refusal`] refuses.
#[derive(Debug)]
struct Foreign(&'static str);

impl warp::reject::Reject for Foreign {}

/// Rejects the requests of web pages.
fn own_caller(
    address: SocketAddr,
) -> impl Filter<Extract = (), Error = warp::Rejection> + Clone + Send + Sync + 'static {
    let authority = warp::host::optional();
    authority
        .and(warp::header::headers_cloned())
        .and_then(move |authority: Option<Authority>, headers: HeaderMap| async move {
            let uri = authority.map_or_else(Uri::default, |authority| {
                Uri::builder()
                    .scheme("http")
                    .authority(authority)
                    .path_and_query("/")
                    .build()
                    .unwrap_or_default()
            });
            match notify_sandbox::refusal(address, &uri, &headers) {
                Some(error) => Err(warp::reject::custom(Foreign(error))),
                None => Ok(()),
            }
        })
        .untuple_one()
}

/// The body. Its content type is ignored.
fn body() -> impl Filter<Extract = (Bytes,), Error = warp::Rejection> + Copy {
    warp::body::content_length_limit(BODY_BYTES_MAX).and(warp::body::bytes())
}

/// The query; empty if the request has none.
fn query() -> impl Filter<Extract = (String,), Error = Infallible> + Copy {
    warp::query::raw().or(warp::any().map(String::new)).unify()
}

fn device_id(query: &str) -> Result<String, ControlError> {
    let mut parameters = url::form_urlencoded::parse(query.as_bytes());
    match (parameters.next(), parameters.next()) {
        (Some((name, id)), None) if name == "device_id" => Ok(id.into_owned()),
        (_, _) => {
            Err(ControlError::Invalid("device_id: is required, and no other parameter".to_owned()))
        }
    }
}

fn parse<T: DeserializeOwned>(body: &Bytes) -> Result<T, ControlError> {
    serde_json::from_slice(body).map_err(|error| ControlError::Invalid(error.to_string()))
}

async fn fail(body: &Bytes, server: &TestServer) -> ControlResult {
    let body: NewFailure = parse(body)?;
    match (body.device_id, body.platform) {
        (Some(device), None) => {
            server.fail_next(&device, body.failure, body.times.unwrap_or(1)).await?;
        }
        (None, Some(platform)) if body.times.is_none() => {
            let platform: Platform = platform
                .parse()
                .map_err(|_| ControlError::Invalid("platform: is not a platform".to_owned()))?;
            server.fail(platform, body.failure)?;
        }
        (_, _) => {
            let rule = "device_id, platform: one of them is required; times needs device_id";
            return Err(ControlError::Invalid(rule.to_owned()));
        }
    }
    Ok(json!({}))
}

/// Responds with the result of a call, unless the server stops.
async fn with_server<F>(
    server: Weak<TestServer>,
    call: impl FnOnce(Arc<TestServer>) -> F,
) -> impl Reply
where
    F: Future<Output = ControlResult>,
{
    let result = match server.upgrade() {
        Some(server) => call(server).await,
        None => Err(ControlError::Stopped),
    };
    let (status, body) = match result {
        Ok(body) => (StatusCode::OK, body),
        Err(ControlError::Invalid(error)) => (StatusCode::BAD_REQUEST, errors(&error)),
        Err(ControlError::Stopped) => (StatusCode::SERVICE_UNAVAILABLE, errors("the server stops")),
        Err(ControlError::Server(error)) => {
            let status = match &error {
                TestServerError::UnknownDevice(_) => StatusCode::NOT_FOUND,
                TestServerError::NoAddress(_)
                | TestServerError::Failure(_)
                | TestServerError::TooFar => StatusCode::BAD_REQUEST,
                TestServerError::Unsettled | TestServerError::TooManyStops => {
                    StatusCode::GATEWAY_TIMEOUT
                }
                TestServerError::Folder(_)
                | TestServerError::Listen(_)
                | TestServerError::Sandbox(_)
                | TestServerError::Server(_)
                | TestServerError::Store(_) => StatusCode::INTERNAL_SERVER_ERROR,
            };
            (status, errors(&error_chain(&error)))
        }
    };
    warp::reply::with_status(warp::reply::json(&body), status)
}

fn errors(error: &str) -> Value {
    json!({ "errors": [error] })
}

async fn rejected(rejection: warp::Rejection) -> Result<impl Reply, Infallible> {
    let (status, error) = if let Some(Foreign(error)) = rejection.find() {
        (StatusCode::FORBIDDEN, (*error).to_owned())
    } else if rejection.is_not_found() {
        (StatusCode::NOT_FOUND, "no such path".to_owned())
    } else if rejection.find::<warp::reject::MethodNotAllowed>().is_some() {
        (StatusCode::METHOD_NOT_ALLOWED, "no such method on this path".to_owned())
    } else {
        (StatusCode::BAD_REQUEST, "the body cannot be read".to_owned())
    };
    Ok(warp::reply::with_status(warp::reply::json(&errors(&error)), status))
}
