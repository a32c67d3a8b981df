//! Providers of an application. A configuration is sealed before it reaches the store, and shown
//! without its secrets.

use bytes::Bytes;
use notify_core::{
    AppId, NoBody, NoQuery, ProviderKind, ProviderList, ProviderTestResult, ProviderView, Request,
    Success, Timestamp, Violations, json,
};
use utoipa::openapi::{RefOr, Schema};
use zeroize::Zeroizing;

use super::channels::Standings;
use crate::api::Api;
use crate::api::ctx::Ctx;
use crate::api::error::ApiError;
use crate::api::openapi::any_object;
use crate::api::reply::Reply;
use crate::provider_config;
use crate::store::{ProviderRow, StoreError, patiently};

/// Body of `PUT`: any JSON object; what is in it depends on the provider.
pub(crate) struct ProviderConfig(Bytes);

impl Request for ProviderConfig {
    type Valid = Self;
    const NEEDS_BODY: bool = true;

    fn from_json(body: &[u8]) -> Result<Self, Violations> {
        json::check(body).map(|text| Self(Bytes::copy_from_slice(text.as_bytes())))
    }

    fn validate(self, _now: Timestamp) -> Result<Self, Violations> {
        Ok(self)
    }

    fn parse(body: &[u8], _now: Timestamp) -> Result<Self, Violations> {
        Self::from_json(body)
    }
}

impl utoipa::PartialSchema for ProviderConfig {
    fn schema() -> RefOr<Schema> {
        any_object()
    }
}

impl utoipa::ToSchema for ProviderConfig {}

/// `PUT /admin/v1/apps/{id}/providers/{provider}`.
pub(crate) async fn put(ctx: Ctx, body: ProviderConfig) -> Result<Reply<Success>, ApiError> {
    let app: AppId = ctx.id("id")?;
    let provider = provider(&ctx)?;
    let mut config = serde_json::from_slice(&body.0).expect("json::check let nothing else through");
    let _alone = patiently(ctx.api().provider_changes.lock()).await?;
    let earlier = earlier(ctx.api(), app, provider).await?;
    provider_config::ProviderConfig::complete(provider, &mut config, earlier.as_ref());
    provider_config::ProviderConfig::parse(provider, &config)
        .map_err(|error| ApiError::Invalid(error.into_lines()))?;
    let plain = Zeroizing::new(config.to_string());
    let sealed = ctx.api().master_key.seal(app, provider, plain.as_bytes());
    let row = ProviderRow { provider, sealed, updated_at: ctx.at() };
    ctx.api().store.put_provider(app, row).await?;
    Ok(Reply::now(Success { success: true }))
}

/// What was put before, where it can still be opened.
async fn earlier(
    api: &Api,
    app: AppId,
    provider: ProviderKind,
) -> Result<Option<serde_json::Value>, ApiError> {
    let mut rows = api.store.providers(app).await?.into_iter();
    let row = rows.find(|row| row.provider == provider);
    Ok(row.and_then(|row| provider_config::stored(&api.master_key, app, &row).ok()))
}

/// `GET /admin/v1/apps/{id}/providers/{provider}`.
pub(crate) async fn get(ctx: Ctx, _: NoQuery) -> Result<Reply<ProviderView>, ApiError> {
    let app: AppId = ctx.id("id")?;
    let wanted = provider(&ctx)?;
    let mut rows = ctx.api().store.providers(app).await?.into_iter();
    let row = rows.find(|row| row.provider == wanted).ok_or(ApiError::NotFound)?;
    Ok(Reply::now(view(&standings(ctx.api(), app).await?, app, &row)))
}

/// `GET /admin/v1/apps/{id}/providers`.
pub(crate) async fn list(ctx: Ctx, _: NoQuery) -> Result<Reply<ProviderList>, ApiError> {
    let app: AppId = ctx.id("id")?;
    let rows = ctx.api().store.providers(app).await?;
    let standings = standings(ctx.api(), app).await?;
    let providers = rows.iter().map(|row| view(&standings, app, row)).collect();
    Ok(Reply::now(ProviderList { providers }))
}

/// `DELETE /admin/v1/apps/{id}/providers/{provider}`.
pub(crate) async fn delete(ctx: Ctx, _: NoQuery) -> Result<Reply<Success>, ApiError> {
    ctx.api().store.delete_provider(ctx.id("id")?, provider(&ctx)?).await?;
    Ok(Reply::now(Success { success: true }))
}

/// `POST /admin/v1/apps/{id}/providers/{provider}/test`.
pub(crate) async fn test(ctx: Ctx, _: NoBody) -> Result<Reply<ProviderTestResult>, ApiError> {
    let (api, app, provider) = (ctx.api(), ctx.id("id")?, provider(&ctx)?);
    let checked = api.operations.check(app, provider).await?;
    let channel = Some(standings(api, app).await?.on(provider.platform()));
    Ok(Reply::now(ProviderTestResult { ok: checked.ok, detail: checked.detail, channel }))
}

/// `POST /admin/v1/apps/{id}/providers/{provider}/resume`.
pub(crate) async fn resume(ctx: Ctx, _: NoBody) -> Result<Reply<Success>, ApiError> {
    ctx.api().store.release_provider(ctx.id("id")?, provider(&ctx)?).await?;
    Ok(Reply::now(Success { success: true }))
}

/// A provider without its secrets, or without its whole configuration when that cannot be opened.
fn view(standings: &Standings<'_>, app: AppId, row: &ProviderRow) -> ProviderView {
    let config = provider_config::ProviderConfig::open(&standings.api.master_key, app, row);
    let config = config.map_or(serde_json::Value::Null, |config| config.redacted());
    let channel = Some(standings.on(row.provider.platform()));
    ProviderView { provider: row.provider, config, updated_at: row.updated_at, channel }
}

async fn standings(api: &Api, app: AppId) -> Result<Standings<'_>, StoreError> {
    let (no, _) = api.store.app(app).await?;
    Standings::of(api, no).await
}

fn provider(ctx: &Ctx) -> Result<ProviderKind, ApiError> {
    ctx.text("provider")?.parse().map_err(|_| ApiError::NotFound)
}
