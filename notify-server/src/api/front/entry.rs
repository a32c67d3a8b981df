//! Who calls: by the key, or by the page's origin.

use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderMap, header};

use super::page::{self, Page};
use super::{Front, is_under};
use crate::api::ctx::Caller;
use crate::api::error::ApiError;
use crate::keys::{KeyKind, key_hash};

const API_KEY: header::HeaderName = header::HeaderName::from_static("x-api-key");

impl Front {
    /// Who calls, where the path is for those who prove it.
    pub(super) async fn authenticate(
        &self,
        headers: &HeaderMap,
        path: &str,
        client: IpAddr,
    ) -> Result<Caller, ApiError> {
        let outcome = if is_under(path, "/v1") {
            self.application(headers).await
        } else if is_under(path, "/admin/v1") {
            self.administrator(headers).await
        } else if is_under(path, page::AREA) {
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
        let app = page::app_of(path).ok_or(ApiError::PageUnauthorized)?;
        let origin = page::origin_of(headers, &self.api.public_url);
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
