//! Authentication: applications by API key, apps by publishable key, administrators by admin key, pages in
//! browsers by origin.

use std::sync::Arc;

use http::{HeaderMap, header};
use notify_core::KeyGrant;

use crate::api::caller::{Caller, WebOrigin};
use crate::api::console;
use crate::api::error::ApiError;
use crate::api::path::is_below;
use crate::api::pipeline::Pipeline;
use crate::api::pipeline::key_cache::KeyCheck;
use crate::api::pipeline::site::Site;
use crate::api::pipeline::web_origin;
use crate::keys::{KeyKind, key_hash};

/// Path below which apps call for their own device.
const APP_DEVICES: &str = "/device/v1";
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
        site: &Site,
    ) -> Result<Caller, ApiError> {
        if site.is_console(path) {
            let session = console::session_of(&self.api, &self.key_cache, headers).await?;
            Ok(Caller::Console(session.map(Arc::new)))
        } else if !site.has_api {
            Ok(Caller::Anonymous)
        } else if is_below(path, "/v1") {
            self.authenticate_app(headers).await
        } else if is_below(path, APP_DEVICES) {
            self.authenticate_device_app(headers).await
        } else if site.is_admin(path) {
            self.authenticate_admin(headers).await
        } else if is_below(path, web_origin::AREA) {
            self.authorize_origin(headers, path).await
        } else {
            Ok(Caller::Anonymous)
        }
    }

    async fn authenticate_app(&self, headers: &HeaderMap) -> Result<Caller, ApiError> {
        let hash = single_value(headers, &API_KEY).and_then(|key| key_hash(KeyKind::Api, key));
        let Some(hash) = hash else { return Err(missing_api_key(headers)) };
        match self.key_cache.app(hash, self.api.clock.now()).await? {
            KeyCheck::Valid(access) if matches!(access.terms.grant, KeyGrant::Api(_)) => {
                Ok(Caller::App(access))
            }
            KeyCheck::Expired => Err(ApiError::KeyExpired),
            KeyCheck::Valid(_) | KeyCheck::Unknown => Err(ApiError::Unauthorized),
        }
    }

    /// An app. Its publishable key is no secret: it says which application is meant, and what apps of the
    /// application may do.
    async fn authenticate_device_app(&self, headers: &HeaderMap) -> Result<Caller, ApiError> {
        let key = single_value(headers, &API_KEY);
        let Some(hash) = key.and_then(|key| key_hash(KeyKind::Publishable, key)) else {
            let is_misplaced = key.is_some_and(|key| key.starts_with(KeyKind::Api.prefix()));
            let error = if is_misplaced {
                ApiError::ApiKeyInApp
            } else {
                ApiError::PublishableUnauthorized
            };
            return Err(error);
        };
        match self.key_cache.app(hash, self.api.clock.now()).await? {
            KeyCheck::Valid(access) if matches!(access.terms.grant, KeyGrant::Devices(_)) => {
                Ok(Caller::DeviceApp(access))
            }
            KeyCheck::Expired => Err(ApiError::PublishableKeyExpired),
            KeyCheck::Valid(_) | KeyCheck::Unknown => Err(ApiError::PublishableUnauthorized),
        }
    }

    async fn authenticate_admin(&self, headers: &HeaderMap) -> Result<Caller, ApiError> {
        let hash = admin_key_hash(headers).ok_or(ApiError::AdminUnauthorized)?;
        let key = self.key_cache.admin_key(hash, self.api.clock.now()).await?;
        key.map(Caller::Admin).ok_or(ApiError::AdminUnauthorized)
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

/// The hash of the admin key of a request: the bearer token, or else the key in `X-API-Key`. Behind a proxy
/// with its own authentication, `Authorization` has the credentials of the proxy.
fn admin_key_hash(headers: &HeaderMap) -> Option<[u8; 32]> {
    let token = single_value(headers, &header::AUTHORIZATION).and_then(bearer_token);
    let keys = [token, single_value(headers, &API_KEY)];
    let key = keys.into_iter().flatten().find(|key| key.starts_with(KeyKind::Admin.prefix()))?;
    key_hash(KeyKind::Admin, key)
}

/// The error of a request without an API key in the header `X-API-Key`. Its text differs if the
/// caller sent an API key as a bearer token, or a key of another kind.
fn missing_api_key(headers: &HeaderMap) -> ApiError {
    let key = single_value(headers, &API_KEY);
    let token = single_value(headers, &header::AUTHORIZATION).and_then(bearer_token);
    let is_of = |kind: KeyKind| key.or(token).is_some_and(|key| key.starts_with(kind.prefix()));
    if is_of(KeyKind::Publishable) {
        return ApiError::PublishableKeyMisplaced;
    }
    if is_of(KeyKind::Admin) {
        return ApiError::AdminKeyMisplaced;
    }
    let is_misplaced = !headers.contains_key(&API_KEY)
        && token.is_some_and(|token| token.starts_with(KeyKind::Api.prefix()));
    if is_misplaced { ApiError::ApiKeyAsBearer } else { ApiError::Unauthorized }
}

/// The value of a header, if the request has the header exactly once and the value is visible
/// ASCII.
fn single_value<'h>(headers: &'h HeaderMap, name: &header::HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

fn bearer_token(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
