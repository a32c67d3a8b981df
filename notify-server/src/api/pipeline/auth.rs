//! Authentication: applications by API key, administrators by admin key, pages in browsers by
//! origin.

use std::sync::Arc;

use http::{HeaderMap, header};

use crate::api::error::ApiError;
use crate::api::pipeline::web_origin::{self, WebOrigin};
use crate::api::pipeline::{Pipeline, is_below};
use crate::api::request_ctx::Caller;
use crate::keys::{KeyKind, key_hash};

const API_KEY: header::HeaderName = header::HeaderName::from_static("x-api-key");

impl Pipeline {
    /// Authenticates the caller of a path. Platforms that call inbound webhooks are authenticated
    /// after routing, since their secrets belong to the path.
    ///
    /// # Errors
    /// 401, or 503 when storage is not available.
    pub(super) async fn authenticate(
        &self,
        headers: &HeaderMap,
        path: &str,
    ) -> Result<Caller, ApiError> {
        if is_below(path, "/v1") {
            self.authenticate_app(headers).await
        } else if is_below(path, "/admin/v1") {
            self.authenticate_admin(headers).await
        } else if is_below(path, web_origin::AREA) {
            self.authorize_origin(headers, path).await
        } else {
            Ok(Caller::Anonymous)
        }
    }

    async fn authenticate_app(&self, headers: &HeaderMap) -> Result<Caller, ApiError> {
        let hash = single(headers, &API_KEY).and_then(|key| key_hash(KeyKind::Api, key));
        let Some(hash) = hash else { return Err(missing_api_key(headers)) };
        let access = self.key_cache.app(hash, self.api.clock.now()).await?;
        access.map(Caller::App).ok_or(ApiError::Unauthorized)
    }

    async fn authenticate_admin(&self, headers: &HeaderMap) -> Result<Caller, ApiError> {
        let key = single(headers, &header::AUTHORIZATION).and_then(bearer_token);
        let hash = key.and_then(|key| key_hash(KeyKind::Admin, key));
        let hash = hash.ok_or(ApiError::AdminUnauthorized)?;
        match self.key_cache.is_admin_key(hash).await? {
            true => Ok(Caller::Admin),
            false => Err(ApiError::AdminUnauthorized),
        }
    }

    async fn authorize_origin(&self, headers: &HeaderMap, path: &str) -> Result<Caller, ApiError> {
        let app = web_origin::app_in_path(path).ok_or(ApiError::OriginNotAllowed)?;
        let origin = web_origin::request_origin(headers, &self.api.public_url);
        let origin = origin.ok_or(ApiError::OriginNotAllowed)?;
        let web = self.key_cache.web_app(app).await?.ok_or(ApiError::OriginNotAllowed)?;
        let origin = WebOrigin::authorize(app, &web, origin).ok_or(ApiError::OriginNotAllowed)?;
        Ok(Caller::Browser(Arc::new(origin)))
    }
}

/// The error of a request without an API key in its header. The key may be in the header for admin
/// keys.
fn missing_api_key(headers: &HeaderMap) -> ApiError {
    let token = single(headers, &header::AUTHORIZATION).and_then(bearer_token);
    let is_misplaced = !headers.contains_key(&API_KEY)
        && token.is_some_and(|token| token.starts_with(KeyKind::Api.prefix()));
    if is_misplaced { ApiError::ApiKeyAsBearer } else { ApiError::Unauthorized }
}

/// The value of a header that is given once and is visible ASCII.
fn single<'h>(headers: &'h HeaderMap, name: &header::HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

fn bearer_token(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
