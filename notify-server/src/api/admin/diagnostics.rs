//! What an operator's tools ask: how the server is set up and whether it works, how the devices of
//! an application fit its provider.

use notify_core::{
    AppDiagnostics, ChannelDiagnostics, Diagnostics, IdentifierCount, IosDiagnostics, NoQuery,
    Platform, ProviderKind, StorageDiagnostics,
};

use super::channels::Standings;
use crate::api::ctx::Ctx;
use crate::api::error::ApiError;
use crate::api::reply::Reply;
use crate::provider_config::ProviderConfig;
use crate::store::ProviderRow;

/// `GET /admin/v1/diagnostics`.
pub(crate) async fn server(ctx: Ctx, _: NoQuery) -> Result<Reply<Diagnostics>, ApiError> {
    let api = ctx.api();
    let storage = api.store.storage().await?;
    Ok(Reply::now(Diagnostics {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        at: ctx.at(),
        public_url: api.public_url.clone(),
        obstacles: api.operations.obstacles().await,
        storage: StorageDiagnostics {
            backend: storage.backend.to_owned(),
            journal_mode: storage.journal_mode,
            synchronous: storage.synchronous,
            database_bytes: storage.database_bytes,
            log_bytes: storage.log_bytes,
            free_bytes: storage.free_bytes,
        },
    }))
}

/// `GET /admin/v1/apps/{id}/devices/diagnostics`.
pub(crate) async fn app(ctx: Ctx, _: NoQuery) -> Result<Reply<AppDiagnostics>, ApiError> {
    let (api, app) = (ctx.api(), ctx.id("id")?);
    let devices = api.store.ios_devices(app).await?;
    let rows = api.store.providers(app).await?;
    let apns = rows.iter().find(|row| row.provider == ProviderKind::Apns);
    let topic = apns.and_then(|row| {
        match ProviderConfig::open(&api.master_key, app, row).ok()?.redacted().get("topic")? {
            serde_json::Value::String(topic) => Some(topic.clone()),
            _ => None,
        }
    });
    let counted = |(store_identifier, devices)| IdentifierCount { store_identifier, devices };
    Ok(Reply::now(AppDiagnostics {
        ios: IosDiagnostics {
            topic,
            sampled: devices.sampled,
            sandbox: devices.sandbox,
            store_identifiers: devices.store_identifiers.into_iter().map(counted).collect(),
        },
        channels: channels(&ctx, &rows).await?,
    }))
}

/// Whether devices can be delivered to, by platform; those without devices and provider are left
/// out.
async fn channels(ctx: &Ctx, rows: &[ProviderRow]) -> Result<Vec<ChannelDiagnostics>, ApiError> {
    let (no, _) = ctx.api().store.app(ctx.id("id")?).await?;
    let counts = ctx.api().store.count_devices(no, None, ctx.at(), ctx.at()).await?;
    let standings = Standings::of(ctx.api(), no).await?;
    let mut channels = Vec::new();
    for platform in Platform::ALL {
        let provider = platform.provider();
        let configured = rows.iter().any(|row| row.provider == provider);
        let counted = counts.iter().find(|count| count.platform == platform);
        let devices = counted.map_or(0, |count| count.enabled);
        if configured || devices > 0 {
            let channel = standings.on(platform);
            channels.push(ChannelDiagnostics { provider, configured, devices, channel });
        }
    }
    Ok(channels)
}
