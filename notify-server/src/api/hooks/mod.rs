//! The webhooks of Messenger and the chat app: what people do there comes in, recognised by its
//! signature instead of a key. Whatever is wrong with a call, it gets the same 401: a stranger must
//! not learn which application there is, nor what it has configured. What is signed right gets 200
//! whatever it holds, since the platform would repeat it for hours; 503 alone asks for that.

pub(super) mod messenger;
pub(super) mod telegram;

mod link;
mod signature;

use bytes::Bytes;
use notify_core::{AppId, AppStatus, DeviceId, ProviderKind};
use serde_json::Value;
use uuid::Uuid;

use super::ctx::Ctx;
use super::error::ApiError;
use crate::provider_config::ProviderConfig;
use crate::store::{AppNo, Inbound, StoreError};

/// Most acts of one write. Meta puts up to 1,000 events into one call.
const ACTS_PER_WRITE_MAX: usize = 512;

/// The schema of a call: the platform's own.
pub(super) fn any_call() -> Value {
    serde_json::json!({ "type": "object" })
}

/// The application that a webhook belongs to, and how its provider is configured.
struct Hook {
    app: AppNo,
    app_id: AppId,
    config: ProviderConfig,
}

impl Hook {
    /// The webhook that the path names.
    async fn of(ctx: &Ctx, provider: ProviderKind) -> Result<Self, ApiError> {
        let store = &ctx.api().store;
        let id: AppId = ctx.id("app_id").map_err(|_| ApiError::HookUnauthorized)?;
        let (app, known) = store.app(id).await.map_err(unknown)?;
        if known.status != AppStatus::Active {
            return Err(ApiError::HookUnauthorized);
        }
        let row = store.provider(app, provider).await.map_err(unknown)?;
        let (app_id, row) = row.ok_or(ApiError::HookUnauthorized)?;
        // That it does not open is told where it is used to send.
        let config = ProviderConfig::open(&ctx.api().master_key, app_id, &row)
            .map_err(|_| ApiError::HookUnauthorized)?;
        Ok(Self { app, app_id, config })
    }

    /// The body as JSON. `None` for what is none: it is logged, without what it holds, and taken all
    /// the same.
    fn json(&self, ctx: &Ctx, provider: ProviderKind) -> Option<Value> {
        let json = serde_json::from_slice(ctx.body()).ok();
        if json.is_none() {
            let (app, provider, bytes) = (self.app_id, provider.as_str(), ctx.body().len());
            tracing::warn!(%app, provider, bytes, "what a webhook brought is no JSON");
        }
        json
    }

    /// Takes note of what people did. Several writes where it is much: what was written before one
    /// fails changes nothing when it comes again.
    async fn take(&self, ctx: &Ctx, mut acts: Vec<Inbound>) -> Result<(), ApiError> {
        while !acts.is_empty() {
            let rest = acts.split_off(acts.len().min(ACTS_PER_WRITE_MAX));
            let part = std::mem::replace(&mut acts, rest);
            ctx.api().store.take_inbound(self.app, part, ctx.at()).await.map_err(unknown)?;
        }
        Ok(())
    }
}

/// An application that is gone is one that never was.
fn unknown(error: StoreError) -> ApiError {
    match error {
        StoreError::NotFound => ApiError::HookUnauthorized,
        StoreError::Refused(_)
        | StoreError::KeyReused
        | StoreError::Fenced
        | StoreError::Unavailable(_)
        | StoreError::Backend(_) => error.into(),
    }
}

/// An id for a new device.
fn make_id() -> DeviceId {
    DeviceId::from(Uuid::now_v7())
}

fn respond(outcome: Result<http::Response<Bytes>, ApiError>) -> http::Response<Bytes> {
    outcome.unwrap_or_else(ApiError::into_response)
}
