//! Calls of the API's own handlers. A page calls an endpoint by method and path, as a client would, but
//! without a connection: routing, validation, the handler, the store and the audit trail are the same.

use std::sync::LazyLock;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Uri};
use http_body_util::BodyExt;
use notify_core::{App, AppId, AppStatus, AuditSource, KeyTerms};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::visit::Visit;
use crate::api::caller::Caller;
use crate::api::error::ApiError;
use crate::api::pipeline::audit::{self, Operator};
use crate::api::pipeline::memory::RequestBody;
use crate::api::request_ctx::RequestCtx;
use crate::api::router::Router;
use crate::api::routes::routes;
use crate::store::audit::{discard_pending, record_next_write};
use crate::store::{AppAccess, AppNo, set_requester};

/// The endpoints of the API.
static API: LazyLock<Router> = LazyLock::new(|| Router::new(routes()));
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The characters of a path segment or a query value that are percent-encoded.
const ENCODED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'&')
    .add(b'+')
    .add(b'/')
    .add(b'<')
    .add(b'=')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// A text as a segment of a path or a value of a query.
pub(super) fn encoded(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

/// A path with a query. Empty values are left out: the API refuses an empty filter.
pub(super) fn with_query(path: &str, query: &[(&str, &str)]) -> String {
    let given = query.iter().filter(|(_, value)| !value.is_empty());
    let pairs: Vec<_> = given.map(|(name, value)| format!("{name}={}", encoded(value))).collect();
    if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) }
}

/// An application whose resources a page reads or changes.
#[derive(Clone)]
pub(super) struct AppScope {
    /// The application.
    pub(super) app: App,
    /// Its internal id.
    pub(super) no: AppNo,
    caller: Caller,
}

/// A request to an endpoint of the API.
struct Call<'c> {
    caller: Caller,
    /// The application that the request changes; `None` for `/admin/v1`, whose paths name it.
    app: Option<AppId>,
    method: Method,
    path: &'c str,
    body: Bytes,
    idempotency_key: Option<&'c str>,
}

impl Visit {
    /// The application with the id in the page's path.
    ///
    /// # Errors
    /// 404 if it does not exist.
    pub(super) async fn app_scope(&self) -> Result<AppScope, ApiError> {
        self.scope_of(self.ctx.id("app")?).await
    }

    /// An application by its id.
    ///
    /// # Errors
    /// 404 if it does not exist.
    pub(super) async fn scope_of(&self, id: AppId) -> Result<AppScope, ApiError> {
        let (no, app) = self.ctx.api.store.app(id).await?;
        let key = self.session.access.key.id;
        let access = AppAccess { no, app: app.clone(), key, terms: KeyTerms::default() };
        Ok(AppScope { app, no, caller: Caller::App(access.into()) })
    }

    /// `GET` under `/admin/v1`.
    pub(super) async fn admin<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        self.call(self.as_admin(Method::GET, path, Bytes::new())).await
    }

    /// `GET` under `/v1` of an application.
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        scope: &AppScope,
        path: &str,
    ) -> Result<T, ApiError> {
        self.call(Call {
            caller: scope.caller.clone(),
            app: Some(scope.app.id),
            method: Method::GET,
            path,
            body: Bytes::new(),
            idempotency_key: None,
        })
        .await
    }

    /// A write under `/admin/v1`.
    pub(super) async fn change_admin<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ApiError> {
        self.call(self.as_admin(method, path, json(body)?)).await
    }

    /// `POST` of a preview under `/v1` of an application, which may be suspended: a preview changes nothing.
    pub(super) async fn preview<T: DeserializeOwned>(
        &self,
        scope: &AppScope,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, ApiError> {
        self.call(Call {
            caller: scope.caller.clone(),
            app: Some(scope.app.id),
            method: Method::POST,
            path,
            body: json(body)?,
            idempotency_key: None,
        })
        .await
    }

    /// A write under `/v1` of an application, which must not be suspended. `idempotency_key` is that of the form, so that a form that is
    /// submitted twice takes effect once.
    pub(super) async fn change<T: DeserializeOwned>(
        &self,
        scope: &AppScope,
        method: Method,
        path: &str,
        body: &impl Serialize,
        idempotency_key: Option<&str>,
    ) -> Result<T, ApiError> {
        self.change_as_written(scope, method, path, json(body)?, idempotency_key).await
    }

    /// As [`Self::change`], with a body that is sent byte by byte as it is.
    pub(super) async fn change_as_written<T: DeserializeOwned>(
        &self,
        scope: &AppScope,
        method: Method,
        path: &str,
        body: Bytes,
        idempotency_key: Option<&str>,
    ) -> Result<T, ApiError> {
        // The API refuses the keys of a suspended application. The console only reads its data.
        if scope.app.status == AppStatus::Suspended {
            let what = "is suspended: activate it in its settings first";
            return Err(ApiError::invalid("application", what));
        }
        let (caller, app) = (scope.caller.clone(), Some(scope.app.id));
        self.call(Call { caller, app, method, path, body, idempotency_key }).await
    }

    fn as_admin<'c>(&self, method: Method, path: &'c str, body: Bytes) -> Call<'c> {
        let caller = Caller::Admin(self.session.access.key.clone().into());
        Call { caller, app: None, method, path, body, idempotency_key: None }
    }

    async fn call<T: DeserializeOwned>(&self, call: Call<'_>) -> Result<T, ApiError> {
        let uri: Uri = call.path.parse().map_err(|_| ApiError::NotFound)?;
        let route = API.find(&call.method, uri.path());
        let endpoint = route.endpoint()?;
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.method = call.method;
        parts.uri = uri;
        if let Some(key) = call.idempotency_key {
            let key = HeaderValue::from_str(key)
                .map_err(|_| ApiError::invalid("form", "has an invalid idempotency key"))?;
            parts.headers.insert(IDEMPOTENCY_KEY, key);
        }
        let ctx = RequestCtx {
            api: self.ctx.api.clone(),
            caller: call.caller,
            path_template: endpoint.path,
            parts,
            body: RequestBody::of(call.body),
            received_at: self.ctx.received_at,
            address: self.ctx.address,
            untrusted_proxy: self.ctx.untrusted_proxy,
            request_id: self.ctx.request_id.clone(),
        };
        let of_page = set_requester(ctx.caller.requester());
        if !matches!(ctx.parts.method, Method::GET | Method::HEAD) {
            let operator = Operator {
                key: &self.session.access.key,
                source: AuditSource::Console,
                app: call.app,
            };
            record_next_write(audit::entry(&ctx, endpoint, operator));
        }
        let result = endpoint.call(ctx).await;
        set_requester(of_page);
        // A refused change leaves no entry for a later write of the page.
        discard_pending();
        let response = result?;
        let body = response.into_body().collect().await.map_err(|error| {
            ApiError::Internal(format!("the body of a response in memory: {error}").into())
        })?;
        serde_json::from_slice(&body.to_bytes()).map_err(|error| {
            ApiError::Internal(format!("a response of the API is not its model: {error}").into())
        })
    }
}

fn json(body: &impl Serialize) -> Result<Bytes, ApiError> {
    match serde_json::to_vec(body) {
        // `()` is the empty body.
        Ok(json) if json == b"null" => Ok(Bytes::new()),
        Ok(json) => Ok(json.into()),
        Err(error) => Err(ApiError::Internal(Box::new(error))),
    }
}
