//! Diagnostics for operators: the server's settings and problems, and those of an application.

use notify_core::{
    AnonymousDevices, ApiKey, AppDiagnostics, AppId, ChannelDiagnostics, Diagnostics, Feed,
    FeedStatus, IdentifierCount, IosDiagnostics, KEY_EXPIRY_NOTICE_MS, NoQuery, Platform,
    ProviderKind, RefusedCalls, StorageDiagnostics, UnusableTokens, Webhook,
};

use super::apps::keys_of;
use super::providers::ProviderStatuses;
use crate::api::error::ApiError;
use crate::api::json_reply::JsonReply;
use crate::api::request_ctx::RequestCtx;
use crate::provider_config::ProviderConfig;
use crate::store::{AppNo, FEEDS_MAX, PageRequest, ProviderRow, StoreError, WEBHOOKS_MAX};
use crate::telemetry::RefusedBy;

/// The most devices that are counted if an application may have any number.
const ANONYMOUS_DEVICES_COUNTED_MAX: u64 = 1_000_000;
/// The most applications whose refused calls are shown. The names of all are read for one answer.
const REFUSED_APPS_MAX: usize = 50;

/// `GET /admin/v1/diagnostics`.
pub(crate) async fn server(
    ctx: RequestCtx,
    _: NoQuery,
) -> Result<JsonReply<Diagnostics>, ApiError> {
    let api = &ctx.api;
    let storage = api.store.storage().await?;
    let mut obstacles = api.operations.readiness_problems().await;
    match api.store.keeps_sessions().await {
        Ok(true) => {}
        Ok(false) => {
            obstacles.push("storage: its connection pooler does not keep sessions".to_owned());
        }
        Err(_) => obstacles.push("storage: it accepts no new connection".to_owned()),
    }
    Ok(JsonReply::ok(Diagnostics {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        at: ctx.received_at,
        public_url: api.public_url.clone(),
        obstacles,
        storage: StorageDiagnostics {
            backend: storage.backend.to_owned(),
            journal_mode: storage.journal_mode,
            synchronous: storage.synchronous,
            database_bytes: storage.database_bytes,
            log_bytes: storage.log_bytes,
            free_bytes: storage.free_bytes,
            foreign_roles: storage.foreign_roles,
        },
        certificate_not_after: api.operations.certificate_not_after(),
        clock_leap_ms: api.operations.clock_leap_ms(),
        clock_ahead_ms: api.operations.clock_ahead_ms(),
        egress_proxy: api.outbound.proxy_diagnostics(),
        started_at: Some(api.operations.started_at),
        servers: Some(api.operations.servers()),
        pending_erasures: Some(api.store.pending_erasures().await?),
        refused_calls: refused_calls(&ctx).await?,
    }))
}

/// The calls of apps and browsers that were refused, by application. An application that was deleted is left
/// out.
async fn refused_calls(ctx: &RequestCtx) -> Result<Vec<RefusedCalls>, ApiError> {
    let mut refused_calls = Vec::new();
    for (app_id, refused) in ctx.api.device_calls.refused().into_iter().take(REFUSED_APPS_MAX) {
        let app = match ctx.api.store.app(app_id).await {
            Ok((_, app)) => app,
            Err(StoreError::NotFound) => continue,
            Err(error) => return Err(error.into()),
        };
        refused_calls.push(RefusedCalls {
            app_id,
            app_name: app.name,
            device: refused.by(RefusedBy::Device),
            address: refused.by(RefusedBy::Address),
            application: refused.by(RefusedBy::Application),
            last_at: refused.last_at,
            untrusted_proxy: refused.untrusted_proxy.map(|proxy| proxy.to_string()),
        });
    }
    Ok(refused_calls)
}

/// `GET /admin/v1/apps/{id}/devices/diagnostics`.
pub(crate) async fn app(
    ctx: RequestCtx,
    _: NoQuery,
) -> Result<JsonReply<AppDiagnostics>, ApiError> {
    let (api, app) = (&ctx.api, ctx.id("id")?);
    let (app_no, _) = api.store.app(app).await?;
    let devices = api.store.ios_devices(app).await?;
    let rows = api.store.providers(app).await?;
    let apns = rows.iter().find(|row| row.provider == ProviderKind::Apns);
    let config = apns.and_then(|row| ProviderConfig::open(&api.master_key, app, row).ok());
    let topic = config.and_then(|config| config.apns_topic().map(str::to_owned));
    let to_count = |(store_identifier, devices)| IdentifierCount { store_identifier, devices };
    Ok(JsonReply::ok(AppDiagnostics {
        ios: IosDiagnostics {
            topic,
            sampled: devices.sampled,
            sandbox: devices.sandbox,
            store_identifiers: devices.store_identifiers.into_iter().map(to_count).collect(),
        },
        channels: channels(&ctx, app_no, &rows).await?,
        webhooks: webhooks(&ctx, app_no).await?,
        feeds: feeds(&ctx, app_no).await?,
        expiring_keys: expiring_keys(&ctx, app).await?,
        anonymous_devices: Some(anonymous_devices(&ctx, app_no).await?),
    }))
}

/// Devices that registered without an API key and have not accepted a message yet.
async fn anonymous_devices(ctx: &RequestCtx, app: AppNo) -> Result<AnonymousDevices, ApiError> {
    let max = ctx.api.config.max_anonymous_devices;
    let max = (max > 0).then_some(u64::from(max));
    let counted = max.unwrap_or(ANONYMOUS_DEVICES_COUNTED_MAX);
    let devices = ctx.api.store.count_anonymous_devices(app, counted).await?;
    Ok(AnonymousDevices { devices, max })
}

/// Webhooks that are disabled, or whose last attempt failed.
async fn webhooks(ctx: &RequestCtx, app: AppNo) -> Result<Vec<Webhook>, ApiError> {
    let all = ctx.api.store.list_webhooks(app, page_of_all(WEBHOOKS_MAX), ctx.received_at).await?;
    let is_broken = |webhook: &Webhook| !webhook.enabled || webhook.failing_since.is_some();
    Ok(all.rows.into_iter().filter(is_broken).collect())
}

/// API keys that expire soon, have not expired yet, and have no successor that is used in their place.
async fn expiring_keys(ctx: &RequestCtx, app: AppId) -> Result<Vec<ApiKey>, ApiError> {
    let is_expiring = |key: &ApiKey| {
        key.expires_at.is_some_and(|expires_at| {
            (1..=KEY_EXPIRY_NOTICE_MS).contains(&expires_at.ms_since(ctx.received_at))
        })
    };
    let is_lasting = |key: &&ApiKey| {
        let at = key.expires_at;
        at.is_none_or(|at| at.ms_since(ctx.received_at) > KEY_EXPIRY_NOTICE_MS)
    };
    let mut keys = keys_of(ctx, app).await?;
    let lasting: Vec<ApiKey> = keys.iter().filter(is_lasting).cloned().collect();
    keys.retain(|key| is_expiring(key) && !lasting.iter().any(|other| replaces(other, key)));
    Ok(keys)
}

/// Whether a key is the successor of another one, which was not used since the successor exists.
fn replaces(successor: &ApiKey, key: &ApiKey) -> bool {
    successor.created_at >= key.created_at
        && (&successor.name, successor.kind) == (&key.name, key.kind)
        && successor.scopes == key.scopes
        && key.last_used_at.is_none_or(|at| at <= successor.created_at)
}

/// Feeds whose last fetches failed.
async fn feeds(ctx: &RequestCtx, app: AppNo) -> Result<Vec<Feed>, ApiError> {
    let all = ctx.api.store.list_feeds(app, page_of_all(FEEDS_MAX)).await?;
    Ok(all.rows.into_iter().filter(|feed| feed.status == FeedStatus::Failing).collect())
}

/// A page that contains all items of an application, which has at most `count_max` of them.
fn page_of_all(count_max: u64) -> PageRequest {
    PageRequest { limit: u32::try_from(count_max).unwrap_or(u32::MAX), cursor: None }
}

/// The provider status of each platform, except for platforms that have neither devices nor a
/// provider.
async fn channels(
    ctx: &RequestCtx,
    app_no: AppNo,
    rows: &[ProviderRow],
) -> Result<Vec<ChannelDiagnostics>, ApiError> {
    let counts =
        ctx.api.store.count_devices(app_no, None, ctx.received_at, ctx.received_at).await?;
    let statuses = ProviderStatuses::of(&ctx.api, app_no).await?;
    let mut channels = Vec::new();
    for platform in Platform::ALL {
        let provider = platform.provider();
        let configured = rows.iter().any(|row| row.provider == provider);
        let count = counts.iter().find(|count| count.platform == platform);
        let devices = count.map_or(0, |count| count.enabled);
        if configured || devices > 0 {
            let channel = statuses.on(platform);
            let sample = ctx.api.store.token_sample(app_no, platform, None).await?;
            let unusable_tokens = sample.problem.map(|problem| UnusableTokens {
                sampled: sample.sampled,
                devices: sample.unusable,
                looks_like: problem.looks_like().to_owned(),
            });
            channels.push(ChannelDiagnostics {
                provider,
                configured,
                devices,
                channel,
                unusable_tokens,
            });
        }
    }
    Ok(channels)
}
