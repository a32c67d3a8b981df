//! One route: a handler with what it reads and what it answers. The only place that knows warp.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use notify_core::{Parameter, Query, Request};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use warp::Filter;
use warp::filters::BoxedFilter;

use super::error::ApiError;
use super::json_reply::{self, Reply};
use super::openapi::{Answer, Shape};
use super::request_ctx::{Ctx, Exchange, Params, path_text};

type Answering = Pin<Box<dyn Future<Output = http::Response<Bytes>> + Send>>;
type Run = Arc<dyn Fn(Ctx) -> Answering + Send + Sync>;
type Outcome<Res> = Result<Reply<Res>, ApiError>;

/// An async function from a request to an answer.
pub(crate) trait Handler<In, Res>: Clone + Send + Sync + 'static {
    /// Runs it.
    fn run(&self, ctx: Ctx, input: In) -> impl Future<Output = Outcome<Res>> + Send;
}

impl<F, Fut, In, Res> Handler<In, Res> for F
where
    F: Fn(Ctx, In) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Outcome<Res>> + Send,
{
    fn run(&self, ctx: Ctx, input: In) -> impl Future<Output = Outcome<Res>> + Send {
        self(ctx, input)
    }
}

/// A row of the table: method, path template, handler, and what OpenAPI tells about it.
pub(crate) struct Route {
    /// Method.
    pub(crate) method: Method,
    /// Path with `{placeholders}`.
    pub(crate) template: &'static str,
    /// Its name in programs that are made from the document: a verb and what it is done to.
    pub(crate) id: &'static str,
    /// What it does, in one line.
    pub(crate) summary: &'static str,
    /// The rows that fix it, such as `spec 4.1, B12`; empty where none does.
    pub(crate) rows: &'static str,
    /// Query parameters.
    pub(crate) query: &'static [Parameter],
    /// Body, where one is read.
    pub(crate) request: Option<Shape>,
    /// Whether it refuses an empty body.
    pub(crate) needs_body: bool,
    /// A body that it reads itself.
    pub(crate) reads: Option<RawBody>,
    /// Answer; `None` where it is not JSON of a model.
    pub(crate) response: Option<Shape>,
    /// Successes that are not JSON of a model.
    pub(crate) answers: &'static [Answer],
    run: Run,
}

/// A body that is no JSON of a model.
#[derive(Clone, Copy)]
pub(crate) struct RawBody {
    /// Its media type.
    pub(crate) media_type: &'static str,
    /// Its schema.
    pub(crate) schema: fn() -> Value,
}

impl Route {
    /// Names it.
    pub(crate) fn id(mut self, id: &'static str) -> Self {
        self.id = id;
        self
    }

    /// Says what it does and which rows fix it.
    pub(crate) fn about(mut self, summary: &'static str, rows: &'static str) -> Self {
        self.summary = summary;
        self.rows = rows;
        self
    }

    /// Names its query parameters, where it takes fewer than its query knows, or reads them itself.
    pub(crate) fn query(mut self, query: &'static [Parameter]) -> Self {
        self.query = query;
        self
    }

    /// Names the successes that are not JSON of a model.
    pub(crate) fn answers(mut self, answers: &'static [Answer]) -> Self {
        self.answers = answers;
        self
    }

    /// Describes a body that it reads itself.
    pub(crate) fn reads(mut self, media_type: &'static str, schema: fn() -> Value) -> Self {
        self.reads = Some(RawBody { media_type, schema });
        self
    }

    /// The route as a warp filter: path, method, then the exchange that the front attached.
    pub(crate) fn filter(&self) -> BoxedFilter<(warp::reply::Response,)> {
        let run = self.run.clone();
        path(self.template)
            .and(method(&self.method))
            .and(warp::ext::get::<Arc<Exchange>>())
            .then(move |params, exchange| {
                let answer = run(Ctx::new(exchange, params));
                async move { answer.await.map(Into::into) }
            })
            .boxed()
    }

    fn new(method: Method, template: &'static str, run: Run) -> Self {
        Self {
            method,
            template,
            id: "",
            summary: "",
            rows: "",
            query: &[],
            request: None,
            needs_body: false,
            reads: None,
            response: None,
            answers: &[],
            run,
        }
    }
}

/// A query that a route reads.
pub(crate) trait Asked: Query<Valid: Send> + 'static {}
impl<Q: Query<Valid: Send> + 'static> Asked for Q {}

/// A body that a route reads.
pub(crate) trait Body: Request<Valid: Send> + ToSchema + 'static {}
impl<R: Request<Valid: Send> + ToSchema + 'static> Body for R {}

/// What a route answers.
pub(crate) trait Answered: Serialize + ToSchema + 'static {}
impl<Res: Serialize + ToSchema + 'static> Answered for Res {}

/// A route that reads its query alone.
pub(crate) fn get<Q: Asked, Res: Answered>(
    template: &'static str,
    handler: impl Handler<Q::Valid, Res>,
) -> Route {
    without_body::<Q, Res>(Method::GET, template, handler)
}

/// A route that deletes what its path names.
pub(crate) fn delete<Q: Asked, Res: Answered>(
    template: &'static str,
    handler: impl Handler<Q::Valid, Res>,
) -> Route {
    without_body::<Q, Res>(Method::DELETE, template, handler)
}

/// A route that reads a body; under `/v1` with `Idempotency-Key` (B8).
pub(crate) fn post<R: Body, Res: Answered>(
    template: &'static str,
    handler: impl Handler<R::Valid, Res>,
) -> Route {
    with_body::<R, Res>(Method::POST, template, handler)
}

/// The same where the answer is not what is kept for a repeat: the handler makes it anew.
pub(crate) fn post_anew<R: Body, Res: Answered>(
    template: &'static str,
    handler: impl Handler<R::Valid, Res>,
) -> Route {
    reading_body::<R, Res>((Method::POST, template), handler, false)
}

/// A route that replaces what its path names.
pub(crate) fn put<R: Body, Res: Answered>(
    template: &'static str,
    handler: impl Handler<R::Valid, Res>,
) -> Route {
    with_body::<R, Res>(Method::PUT, template, handler)
}

/// A route that changes what its path names.
pub(crate) fn patch<R: Body, Res: Answered>(
    template: &'static str,
    handler: impl Handler<R::Valid, Res>,
) -> Route {
    with_body::<R, Res>(Method::PATCH, template, handler)
}

/// A page or text for people and machines beside the API.
pub(crate) fn raw<Fut>(template: &'static str, handler: fn(Ctx) -> Fut) -> Route
where
    Fut: Future<Output = http::Response<Bytes>> + Send + 'static,
{
    Route::new(Method::GET, template, Arc::new(move |ctx| Box::pin(handler(ctx))))
}

/// What is posted without being ours to define: it reads its body itself. A signature counts the bytes
/// of a platform's call, and a form is no JSON.
pub(crate) fn hook<Fut>(template: &'static str, handler: fn(Ctx) -> Fut) -> Route
where
    Fut: Future<Output = http::Response<Bytes>> + Send + 'static,
{
    Route::new(Method::POST, template, Arc::new(move |ctx| Box::pin(handler(ctx))))
}

fn without_body<Q: Asked, Res: Answered>(
    method: Method,
    template: &'static str,
    handler: impl Handler<Q::Valid, Res>,
) -> Route {
    let run: Run = Arc::new(move |ctx| {
        let handler = handler.clone();
        Box::pin(async move {
            let outcome = async {
                let query = Q::parse(&ctx.query()?, ctx.at())?;
                handler.run(ctx, query).await
            };
            outcome.await.map_or_else(ApiError::into_response, Reply::into_response)
        })
    });
    let mut route = Route::new(method, template, run);
    route.query = Q::PARAMETERS;
    route.response = Some(Shape::of::<Res>());
    route
}

fn with_body<R: Body, Res: Answered>(
    method: Method,
    template: &'static str,
    handler: impl Handler<R::Valid, Res>,
) -> Route {
    reading_body::<R, Res>((method, template), handler, true)
}

fn reading_body<R: Body, Res: Answered>(
    (method, template): (Method, &'static str),
    handler: impl Handler<R::Valid, Res>,
    replays: bool,
) -> Route {
    let run: Run = Arc::new(move |ctx| {
        let handler = handler.clone();
        Box::pin(async move {
            let outcome = async {
                // Before validation: what was accepted once is answered the same way, whatever
                // the clock says of its instants now.
                if replays
                    && let Some(once) = ctx.once()?
                    && let Some(json) = ctx.api().store.replay(ctx.app_no(), &once).await?
                {
                    return Ok(json_reply::replayed(json));
                }
                notify_core::NoQuery::parse(&ctx.query()?, ctx.at())?;
                let request = R::parse(ctx.body(), ctx.at())?;
                handler.run(ctx, request).await.map(Reply::into_response)
            };
            outcome.await.unwrap_or_else(ApiError::into_response)
        })
    });
    let mut route = Route::new(method, template, run);
    route.request = Some(Shape::of::<R>());
    route.needs_body = R::NEEDS_BODY;
    route.response = Some(Shape::of::<Res>());
    route
}

/// The name of a placeholder, if the segment of a template is one.
pub(crate) fn placeholder(segment: &'static str) -> Option<&'static str> {
    segment.strip_prefix('{')?.strip_suffix('}')
}

/// The segments of a template or path.
pub(crate) fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.strip_prefix('/').unwrap_or(path).split('/')
}

fn path(template: &'static str) -> BoxedFilter<(Params,)> {
    let start = warp::any().map(Params::new).boxed();
    // A slash at the end leaves an empty one over, which is nothing to match.
    let segments = segments(template).filter(|segment| !segment.is_empty());
    let segments = segments.fold(start, |filter, segment| match placeholder(segment) {
        None => filter.and(warp::path(segment)).boxed(),
        Some(name) => filter
            .and(warp::path::param::<String>())
            .map(move |mut params: Params, text: String| {
                params.push((name, path_text(&text)));
                params
            })
            .boxed(),
    });
    segments.and(warp::path::end()).boxed()
}

fn method(method: &Method) -> BoxedFilter<()> {
    match *method {
        Method::POST => warp::post().boxed(),
        Method::PUT => warp::put().boxed(),
        Method::PATCH => warp::patch().boxed(),
        Method::DELETE => warp::delete().boxed(),
        _ => warp::get().boxed(),
    }
}
