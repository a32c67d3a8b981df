//! Endpoints and the router. An [`Endpoint`] is a method, a path, a handler, and what OpenAPI
//! documents about it. The [`Router`] finds the endpoint of a request by path and method.

use std::future::Future;

use futures_util::future::BoxFuture;
use http::Method;
use notify_core::{NoQuery, Parameter, Query, Request};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use warp::Reply;
use warp::reply::Response;

use crate::api::error::ApiError;
use crate::api::json_reply::JsonReply;
use crate::api::openapi::shape::{OtherResponse, Shape};
use crate::api::path::{placeholder, segments};
use crate::api::request_ctx::RequestCtx;

type Handler = Box<dyn Fn(RequestCtx) -> BoxFuture<'static, HandlerResult> + Send + Sync>;
type HandlerResult = Result<Response, ApiError>;

/// One endpoint of the API.
pub(crate) struct Endpoint {
    /// Method.
    pub(crate) method: Method,
    /// Path template with `{placeholders}`.
    pub(crate) path: &'static str,
    /// The documentation of the endpoint.
    pub(crate) docs: Docs,
    handler: Handler,
}

/// What OpenAPI documents about an endpoint.
#[derive(Default)]
pub(crate) struct Docs {
    /// The operation's name in generated clients: a verb and its object, in snake case.
    pub(crate) operation_id: &'static str,
    /// What the endpoint does, in one line.
    pub(crate) summary: &'static str,
    /// Query parameters.
    pub(crate) query: &'static [Parameter],
    /// The request body.
    pub(crate) request: Option<RequestBody>,
    /// The JSON model of a successful response, if it is one.
    pub(crate) response: Option<Shape>,
    /// Successful responses that are not JSON of a model.
    pub(crate) other_responses: &'static [OtherResponse],
}

impl Docs {
    /// The JSON model of the request body, if it has one.
    pub(crate) fn json_request(&self) -> Option<Shape> {
        match self.request {
            Some(RequestBody::Json { shape, .. }) => Some(shape),
            Some(RequestBody::Raw { .. }) | None => None,
        }
    }
}

/// The documentation of a request body.
#[derive(Clone, Copy)]
pub(crate) enum RequestBody {
    /// JSON of a model.
    Json {
        /// The model.
        shape: Shape,
        /// Whether an empty body is refused.
        required: bool,
    },
    /// A body that the handler parses itself.
    Raw {
        /// Its media type.
        media_type: &'static str,
        /// Makes the schema of the body.
        schema: fn() -> Value,
    },
}

/// An async function from a request and its validated input to a JSON response.
pub(crate) trait JsonHandler<In, Out>: Clone + Send + Sync + 'static {
    /// Calls the function.
    fn call(
        &self,
        ctx: RequestCtx,
        input: In,
    ) -> impl Future<Output = Result<JsonReply<Out>, ApiError>> + Send;
}

impl<F, Fut, In, Out> JsonHandler<In, Out> for F
where
    F: Fn(RequestCtx, In) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Result<JsonReply<Out>, ApiError>> + Send,
{
    fn call(
        &self,
        ctx: RequestCtx,
        input: In,
    ) -> impl Future<Output = Result<JsonReply<Out>, ApiError>> + Send {
        self(ctx, input)
    }
}

impl Endpoint {
    fn new<F, Fut>(method: Method, path: &'static str, handler: F) -> Self
    where
        F: Fn(RequestCtx) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = HandlerResult> + Send + 'static,
    {
        let handler: Handler = Box::new(move |ctx| Box::pin(handler(ctx)));
        Self { method, path, docs: Docs::default(), handler }
    }

    /// Runs the handler.
    ///
    /// # Errors
    /// Whatever the handler fails with.
    pub(crate) async fn call(&self, ctx: RequestCtx) -> HandlerResult {
        (self.handler)(ctx).await
    }

    /// Sets the operation id.
    pub(crate) fn id(mut self, operation_id: &'static str) -> Self {
        self.docs.operation_id = operation_id;
        self
    }

    /// Sets the summary.
    pub(crate) fn summary(mut self, summary: &'static str) -> Self {
        self.docs.summary = summary;
        self
    }

    /// Sets the documented query parameters, for a handler that takes fewer than its query model
    /// has or parses them itself.
    pub(crate) fn query(mut self, query: &'static [Parameter]) -> Self {
        self.docs.query = query;
        self
    }

    /// Sets the JSON model of the successful response of a handler that builds the response itself.
    pub(crate) fn response<T: ToSchema>(mut self) -> Self {
        self.docs.response = Some(Shape::of::<T>());
        self
    }

    /// Sets the successful responses that are not JSON of a model.
    pub(crate) fn responses(mut self, responses: &'static [OtherResponse]) -> Self {
        self.docs.other_responses = responses;
        self
    }

    /// Documents a body that the handler parses itself.
    pub(crate) fn raw_body(mut self, media_type: &'static str, schema: fn() -> Value) -> Self {
        self.docs.request = Some(RequestBody::Raw { media_type, schema });
        self
    }
}

/// A `GET` of JSON.
pub(crate) fn get<Q, Res>(path: &'static str, handler: impl JsonHandler<Q::Valid, Res>) -> Endpoint
where
    Q: Query<Valid: Send> + 'static,
    Res: Serialize + ToSchema + 'static,
{
    without_body::<Q, Res>(Method::GET, path, handler)
}

/// A `DELETE`.
pub(crate) fn delete<Q, Res>(
    path: &'static str,
    handler: impl JsonHandler<Q::Valid, Res>,
) -> Endpoint
where
    Q: Query<Valid: Send> + 'static,
    Res: Serialize + ToSchema + 'static,
{
    without_body::<Q, Res>(Method::DELETE, path, handler)
}

/// A `POST` of JSON; under `/v1` with `Idempotency-Key`.
pub(crate) fn post<R, Res>(path: &'static str, handler: impl JsonHandler<R::Valid, Res>) -> Endpoint
where
    R: Request<Valid: Send> + 'static,
    Res: Serialize + ToSchema + 'static,
{
    with_body::<R, Res>(Method::POST, path, handler, Replay::Stored)
}

/// A `POST` of JSON with a query; under `/v1` with `Idempotency-Key`.
pub(crate) fn post_with_query<R, Q, Res>(
    path: &'static str,
    handler: impl JsonHandler<Queried<R::Valid, Q::Valid>, Res>,
) -> Endpoint
where
    R: Request<Valid: Send> + 'static,
    Q: Query<Valid: Send> + 'static,
    Res: Serialize + ToSchema + 'static,
{
    with_body_and_query::<R, Q, Res>(Method::POST, path, handler, Replay::Stored)
}

/// A `POST` of JSON whose handler builds the response to a repeated request itself, because the
/// stored value is not the response.
pub(crate) fn post_without_replay<R, Res>(
    path: &'static str,
    handler: impl JsonHandler<R::Valid, Res>,
) -> Endpoint
where
    R: Request<Valid: Send> + 'static,
    Res: Serialize + ToSchema + 'static,
{
    with_body::<R, Res>(Method::POST, path, handler, Replay::ByHandler)
}

/// A `PUT` of JSON.
pub(crate) fn put<R, Res>(path: &'static str, handler: impl JsonHandler<R::Valid, Res>) -> Endpoint
where
    R: Request<Valid: Send> + 'static,
    Res: Serialize + ToSchema + 'static,
{
    with_body::<R, Res>(Method::PUT, path, handler, Replay::Stored)
}

/// A `PATCH` of JSON.
pub(crate) fn patch<R, Res>(
    path: &'static str,
    handler: impl JsonHandler<R::Valid, Res>,
) -> Endpoint
where
    R: Request<Valid: Send> + 'static,
    Res: Serialize + ToSchema + 'static,
{
    with_body::<R, Res>(Method::PATCH, path, handler, Replay::Stored)
}

/// A `GET` whose response is not the JSON of a model, such as a page or a script.
pub(crate) fn get_raw<Fut>(
    path: &'static str,
    handler: impl Fn(RequestCtx) -> Fut + Send + Sync + 'static,
) -> Endpoint
where
    Fut: Future<Output = HandlerResult> + Send + 'static,
{
    Endpoint::new(Method::GET, path, handler)
}

/// A `POST` whose handler reads the body itself: a form is not JSON, and a signature covers the
/// bytes of a platform's webhook call.
pub(crate) fn post_raw<Fut>(
    path: &'static str,
    handler: impl Fn(RequestCtx) -> Fut + Send + Sync + 'static,
) -> Endpoint
where
    Fut: Future<Output = HandlerResult> + Send + 'static,
{
    Endpoint::new(Method::POST, path, handler)
}

fn without_body<Q, Res>(
    method: Method,
    path: &'static str,
    handler: impl JsonHandler<Q::Valid, Res>,
) -> Endpoint
where
    Q: Query<Valid: Send> + 'static,
    Res: Serialize + ToSchema + 'static,
{
    let mut endpoint = Endpoint::new(method, path, move |ctx: RequestCtx| {
        let handler = handler.clone();
        async move {
            let query = Q::parse(&ctx.query()?, ctx.received_at)?;
            handler.call(ctx, query).await.map(Reply::into_response)
        }
    });
    endpoint.docs.query = Q::PARAMETERS;
    endpoint.docs.response = Some(Shape::of::<Res>());
    endpoint
}

/// What responds to a repeated request, which has the `Idempotency-Key` of an earlier one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Replay {
    /// The stored response is sent again.
    Stored,
    /// The handler builds the response.
    ByHandler,
}

/// The validated body and query of a request.
pub(crate) struct Queried<B, Q> {
    pub(crate) body: B,
    pub(crate) query: Q,
}

fn with_body<R, Res>(
    method: Method,
    path: &'static str,
    handler: impl JsonHandler<R::Valid, Res>,
    replay: Replay,
) -> Endpoint
where
    R: Request<Valid: Send> + 'static,
    Res: Serialize + ToSchema + 'static,
{
    let of_body = move |ctx: RequestCtx, queried: Queried<R::Valid, NoQuery>| {
        let handler = handler.clone();
        async move { handler.call(ctx, queried.body).await }
    };
    with_body_and_query::<R, NoQuery, Res>(method, path, of_body, replay)
}

fn with_body_and_query<R, Q, Res>(
    method: Method,
    path: &'static str,
    handler: impl JsonHandler<Queried<R::Valid, Q::Valid>, Res>,
    replay: Replay,
) -> Endpoint
where
    R: Request<Valid: Send> + 'static,
    Q: Query<Valid: Send> + 'static,
    Res: Serialize + ToSchema + 'static,
{
    let mut endpoint = Endpoint::new(method, path, move |ctx: RequestCtx| {
        let handler = handler.clone();
        async move {
            // The stored response is looked up before validation: a repeated request gets the same
            // response even if its instants have passed and are no longer valid.
            if replay == Replay::Stored
                && let Some(stored) = stored_response(&ctx).await?
            {
                return Ok(stored);
            }
            let query = Q::parse(&ctx.query()?, ctx.received_at)?;
            let body = R::parse(&ctx.body.bytes, ctx.received_at)?;
            handler.call(ctx, Queried { body, query }).await.map(Reply::into_response)
        }
    });
    endpoint.docs.query = Q::PARAMETERS;
    endpoint.docs.request =
        Some(RequestBody::Json { shape: Shape::of_request::<R>(), required: R::NEEDS_BODY });
    endpoint.docs.response = Some(Shape::of::<Res>());
    endpoint
}

/// The response to an earlier request with the same `Idempotency-Key`.
async fn stored_response(ctx: &RequestCtx) -> Result<Option<Response>, ApiError> {
    let Some(key) = ctx.idempotency_key()? else { return Ok(None) };
    let json = ctx.api.store.replay(ctx.app_no(), &key).await?;
    Ok(json.map(|json| JsonReply::<Value>::replayed(json).into_response()))
}

/// Every endpoint, grouped by path.
pub(crate) struct Router {
    paths: Vec<Path>,
}

struct Path {
    template: Vec<&'static str>,
    endpoints: Vec<Endpoint>,
}

/// The result of routing a request.
pub(crate) enum RouteMatch<'r> {
    /// The endpoint of the path and method.
    Endpoint(&'r Endpoint),
    /// The path exists, but not with this method.
    MethodNotAllowed {
        /// Template of the path.
        path: &'static str,
        /// The methods of the path, in the form of the header `Allow`.
        allow: String,
    },
    /// There is no such path.
    NotFound,
}

impl Router {
    /// Makes a router that finds these endpoints.
    pub(crate) fn new(endpoints: Vec<Endpoint>) -> Self {
        let mut paths: Vec<Path> = Vec::new();
        for endpoint in endpoints {
            let template: Vec<_> = segments(endpoint.path).collect();
            match paths.iter_mut().find(|path| path.template == template) {
                Some(path) => path.endpoints.push(endpoint),
                None => paths.push(Path { template, endpoints: vec![endpoint] }),
            }
        }
        // Literal paths come first: `notify` in `/v1/notifications/notify` is not the id of a
        // notification.
        paths.sort_by_key(|path| path.template.iter().any(|part| placeholder(part).is_some()));
        Self { paths }
    }

    /// Finds the endpoint of a method and path. `HEAD` finds the endpoint of `GET`.
    pub(crate) fn find(&self, method: &Method, path: &str) -> RouteMatch<'_> {
        let Some(matched) = self.paths.iter().find(|candidate| candidate.matches(path)) else {
            return RouteMatch::NotFound;
        };
        let endpoint_method = if method == Method::HEAD { &Method::GET } else { method };
        match matched.endpoints.iter().find(|endpoint| endpoint.method == *endpoint_method) {
            Some(endpoint) => RouteMatch::Endpoint(endpoint),
            None => RouteMatch::MethodNotAllowed {
                path: matched.endpoints[0].path,
                allow: matched.allow(),
            },
        }
    }
}

impl Path {
    fn matches(&self, path: &str) -> bool {
        let mut given_segments = segments(path);
        let matches_template =
            self.template.iter().all(|part| match (placeholder(part), given_segments.next()) {
                (Some(_), Some(text)) => !text.is_empty(),
                (None, Some(text)) => text == *part,
                (_, None) => false,
            });
        // A trailing slash leaves an empty segment, so a path with a trailing slash is another
        // path.
        matches_template && given_segments.next().is_none()
    }

    /// The methods of the path, in the form of the header `Allow`.
    fn allow(&self) -> String {
        let mut methods: Vec<&str> =
            self.endpoints.iter().map(|endpoint| endpoint.method.as_str()).collect();
        if methods.contains(&"GET") {
            methods.push("HEAD");
        }
        methods.sort_unstable();
        methods.join(", ")
    }
}

impl<'r> RouteMatch<'r> {
    /// The matched endpoint.
    ///
    /// # Errors
    /// 404 or 405.
    pub(crate) fn endpoint(&self) -> Result<&'r Endpoint, ApiError> {
        match self {
            Self::Endpoint(endpoint) => Ok(endpoint),
            Self::MethodNotAllowed { allow, .. } => {
                Err(ApiError::MethodNotAllowed { allow: allow.clone() })
            }
            Self::NotFound => Err(ApiError::NotFound),
        }
    }

    /// Whether this is the endpoint of that method and path template.
    pub(crate) fn is_endpoint(&self, method: &Method, path: &str) -> bool {
        match self {
            Self::Endpoint(endpoint) => endpoint.method == *method && endpoint.path == path,
            Self::MethodNotAllowed { .. } | Self::NotFound => false,
        }
    }

    /// The path template, as metrics label.
    pub(crate) fn path_label(&self) -> &'static str {
        match self {
            Self::Endpoint(endpoint) => endpoint.path,
            Self::MethodNotAllowed { path, .. } => path,
            Self::NotFound => "unknown",
        }
    }

    /// The method of the endpoint, as metrics label. Methods that no endpoint has share one label,
    /// since clients can send any text as a method.
    pub(crate) fn method_label(&self) -> &'static str {
        const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
        let name = match self {
            Self::Endpoint(endpoint) => {
                METHODS.into_iter().find(|method| endpoint.method == *method)
            }
            Self::MethodNotAllowed { .. } | Self::NotFound => None,
        };
        name.unwrap_or("other")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::routes::routes;

    #[test]
    fn matches_paths_and_methods() {
        let router = Router::new(routes());
        let route = |method: &Method, path: &str| match router.find(method, path) {
            RouteMatch::Endpoint(endpoint) => endpoint.path.to_owned(),
            RouteMatch::MethodNotAllowed { allow, .. } => allow,
            RouteMatch::NotFound => "unknown".to_owned(),
        };
        let (get, post, delete) = (Method::GET, Method::POST, Method::DELETE);
        let cases = [
            (&post, "/v1/notifications/notify", "/v1/notifications/notify"),
            (&get, "/v1/notifications/notify", "POST"),
            (&get, "/v1/notifications/abc", "/v1/notifications/{id}"),
            (&Method::HEAD, "/v1/notifications/abc", "/v1/notifications/{id}"),
            (&get, "/v1/notifications/", "unknown"),
            (&get, "/v1/devices/", "unknown"),
            (&get, "//v1/devices", "unknown"),
            (&get, "/v1//devices", "unknown"),
            (&get, "/v1/devices/a%2Fb", "/v1/devices/{device_id}"),
            (&delete, "/v1/devices/a/tags/b", "/v1/devices/{device_id}/tags/{name}"),
            (&Method::OPTIONS, "/v1/devices", "GET, HEAD, POST"),
            (&Method::PATCH, "/v1/campaigns/x", "DELETE, GET, HEAD, PUT"),
            (&get, "/v1", "unknown"),
            (&get, "/", "/"),
            (&get, "/docs/", "/docs/"),
            (&get, "//", "unknown"),
            (&get, "/docs//", "unknown"),
            (&get, "/healthz", "/healthz"),
        ];
        for (method, path, expected) in cases {
            assert_eq!(route(method, path), expected, "{method} {path}");
        }
    }
}
