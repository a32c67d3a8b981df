//! The webhook of Messenger. Meta asks once whether it is ours, then signs what it sends.

mod events;

use bytes::Bytes;
use http::{HeaderValue, header};
use notify_core::{ProviderKind, Success};

use super::{Hook, make_id, respond, signature};
use crate::api::ctx::Ctx;
use crate::api::error::ApiError;
use crate::api::reply::Reply;
use crate::provider_config::{MessengerConfig, ProviderConfig};

const SIGNATURE: header::HeaderName = header::HeaderName::from_static("x-hub-signature-256");

/// `GET /hooks/messenger/{app_id}`: whoever knows the `verify_token` gets the challenge back.
pub(in crate::api) async fn verify(ctx: Ctx) -> http::Response<Bytes> {
    respond(challenge(&ctx).await)
}

/// `POST /hooks/messenger/{app_id}`: what people did.
pub(in crate::api) async fn receive(ctx: Ctx) -> http::Response<Bytes> {
    respond(take(&ctx).await)
}

async fn challenge(ctx: &Ctx) -> Result<http::Response<Bytes>, ApiError> {
    let hook = Hook::of(ctx, ProviderKind::Messenger).await?;
    let config = configuration(&hook)?;
    let query = ctx.query().map_err(|_| ApiError::HookUnauthorized)?;
    let given = |name: &str| {
        let mut values = query.iter().filter(|(known, _)| known == name);
        values.next().map(|(_, value)| value.as_str()).ok_or(ApiError::HookUnauthorized)
    };
    let (mode, token) = (given("hub.mode")?, given("hub.verify_token")?);
    let known = config.verify_token.as_ref().ok_or(ApiError::HookUnauthorized)?;
    if mode != "subscribe" || !signature::is_secret(token.as_bytes(), known) {
        return Err(ApiError::HookUnauthorized);
    }
    let mut response = http::Response::new(Bytes::from(given("hub.challenge")?.to_owned()));
    // Text, whatever it holds: it must not become a page.
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, text);
    Ok(response)
}

async fn take(ctx: &Ctx) -> Result<http::Response<Bytes>, ApiError> {
    let hook = Hook::of(ctx, ProviderKind::Messenger).await?;
    let secret = configuration(&hook)?.app_secret.as_ref().ok_or(ApiError::HookUnauthorized)?;
    let given = ctx.header(&SIGNATURE).ok_or(ApiError::HookUnauthorized)?;
    if !signature::is_signed(ctx.body(), given.as_bytes(), secret) {
        return Err(ApiError::HookUnauthorized);
    }
    if let Some(call) = hook.json(ctx, ProviderKind::Messenger) {
        hook.take(ctx, events::read(&call, ctx.at(), make_id)).await?;
    }
    Ok(Reply::now(Success { success: true }).into_response())
}

fn configuration(hook: &Hook) -> Result<&MessengerConfig, ApiError> {
    let ProviderConfig::Messenger(config) = &hook.config else {
        return Err(ApiError::HookUnauthorized);
    };
    Ok(config)
}
