//! Providers of an application, and their status. A configuration is sealed before it is stored,
//! and shown without its secrets.

use bytes::Bytes;
use notify_core::schema::Schemas;
use notify_core::{
    AppId, ChannelView, NoBody, NoQuery, Platform, ProviderKind, ProviderList, ProviderStatus,
    ProviderTestResult, ProviderView, Request, Success, Timestamp, Violations, json,
};
use zeroize::Zeroizing;

use crate::api::Api;
use crate::api::error::ApiError;
use crate::api::json_reply::JsonReply;
use crate::api::request_ctx::RequestCtx;
use crate::provider_config;
use crate::store::{AppNo, ProviderRow, StoreError, before_deadline};

/// The body of `PUT`: a JSON object whose fields depend on the provider.
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

    fn add_schema(schemas: &mut Schemas) -> serde_json::Value {
        schemas.add_schema("ProviderConfig", provider_config::schema())
    }
}

/// `PUT /admin/v1/apps/{id}/providers/{provider}`.
pub(crate) async fn put(
    ctx: RequestCtx,
    body: ProviderConfig,
) -> Result<JsonReply<Success>, ApiError> {
    let app: AppId = ctx.id("id")?;
    let provider = provider(&ctx)?;
    let mut config = serde_json::from_slice(&body.0).expect("json::check accepts only JSON");
    let _lock = before_deadline(ctx.api.provider_changes.lock()).await?;
    let previous = previous_config(&ctx.api, app, provider).await?;
    provider_config::ProviderConfig::fill_defaults(provider, &mut config, previous.as_ref());
    provider_config::ProviderConfig::parse(provider, &config)
        .map_err(|error| ApiError::Invalid(error.into_lines()))?;
    let plain = Zeroizing::new(config.to_string());
    let sealed = ctx.api.master_key.seal(app, provider, plain.as_bytes());
    let row = ProviderRow { provider, sealed, updated_at: ctx.received_at };
    ctx.api.store.put_provider(app, row).await?;
    Ok(JsonReply::success())
}

/// The previous configuration, if it can be opened.
async fn previous_config(
    api: &Api,
    app: AppId,
    provider: ProviderKind,
) -> Result<Option<serde_json::Value>, ApiError> {
    let mut rows = api.store.providers(app).await?.into_iter();
    let row = rows.find(|row| row.provider == provider);
    Ok(row.and_then(|row| provider_config::decrypt_stored(&api.master_key, app, &row).ok()))
}

/// `GET /admin/v1/apps/{id}/providers/{provider}`.
pub(crate) async fn get(ctx: RequestCtx, _: NoQuery) -> Result<JsonReply<ProviderView>, ApiError> {
    let app: AppId = ctx.id("id")?;
    let kind = provider(&ctx)?;
    let mut rows = ctx.api.store.providers(app).await?.into_iter();
    let row = rows.find(|row| row.provider == kind).ok_or(ApiError::NotFound)?;
    Ok(JsonReply::ok(view(&statuses(&ctx.api, app).await?, app, &row)))
}

/// `GET /admin/v1/apps/{id}/providers`.
pub(crate) async fn list(ctx: RequestCtx, _: NoQuery) -> Result<JsonReply<ProviderList>, ApiError> {
    let app: AppId = ctx.id("id")?;
    let rows = ctx.api.store.providers(app).await?;
    let statuses = statuses(&ctx.api, app).await?;
    let providers = rows.iter().map(|row| view(&statuses, app, row)).collect();
    Ok(JsonReply::ok(ProviderList { providers }))
}

/// `DELETE /admin/v1/apps/{id}/providers/{provider}`.
pub(crate) async fn delete(ctx: RequestCtx, _: NoQuery) -> Result<JsonReply<Success>, ApiError> {
    ctx.api.store.delete_provider(ctx.id("id")?, provider(&ctx)?).await?;
    Ok(JsonReply::success())
}

/// `POST /admin/v1/apps/{id}/providers/{provider}/test`.
pub(crate) async fn test(
    ctx: RequestCtx,
    _: NoBody,
) -> Result<JsonReply<ProviderTestResult>, ApiError> {
    let (api, app, provider) = (&ctx.api, ctx.id("id")?, provider(&ctx)?);
    let checked = api.operations.check(app, provider).await?;
    let channel = Some(statuses(api, app).await?.on(provider.platform()));
    Ok(JsonReply::ok(ProviderTestResult { ok: checked.ok, detail: checked.detail, channel }))
}

/// `POST /admin/v1/apps/{id}/providers/{provider}/resume`.
pub(crate) async fn resume(ctx: RequestCtx, _: NoBody) -> Result<JsonReply<Success>, ApiError> {
    ctx.api.store.release_provider(ctx.id("id")?, provider(&ctx)?).await?;
    Ok(JsonReply::success())
}

/// The provider as the API shows it: without secrets, and without its configuration if the
/// configuration cannot be opened.
fn view(statuses: &ProviderStatuses<'_>, app: AppId, row: &ProviderRow) -> ProviderView {
    let config = provider_config::ProviderConfig::open(&statuses.api.master_key, app, row);
    let config = config.map_or(serde_json::Value::Null, |config| config.redacted());
    let channel = Some(statuses.on(row.provider.platform()));
    ProviderView { provider: row.provider, config, updated_at: row.updated_at, channel }
}

async fn statuses(api: &Api, app: AppId) -> Result<ProviderStatuses<'_>, StoreError> {
    let (no, _) = api.store.app(app).await?;
    ProviderStatuses::of(api, no).await
}

fn provider(ctx: &RequestCtx) -> Result<ProviderKind, ApiError> {
    ctx.path_param("provider")?.parse().map_err(|_| ApiError::NotFound)
}

/// The status of the providers of an application.
pub(super) struct ProviderStatuses<'a> {
    pub(super) api: &'a Api,
    app: AppNo,
    /// The platforms whose guard tripped, read from the store. The engine of a server that has just
    /// started knows this only after the first delivery to the platform.
    tripped: Vec<Platform>,
}

impl<'a> ProviderStatuses<'a> {
    /// Reads from the store which guards have tripped.
    pub(super) async fn of(api: &'a Api, app: AppNo) -> Result<Self, StoreError> {
        Ok(Self { api, app, tripped: api.store.guard_tripped_platforms(app).await? })
    }

    /// The status of the provider of a platform, and of its push services.
    pub(super) fn on(&self, platform: Platform) -> ChannelView {
        let mut channel = self.api.operations.engine.channel(self.app, platform);
        if channel.status == ProviderStatus::Available && self.tripped.contains(&platform) {
            channel.status = ProviderStatus::Tripped;
        }
        channel
    }
}
