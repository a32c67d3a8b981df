//! The webhook of Messenger. Meta asks once whether it is ours, then signs what it sends.

mod events;

use bytes::Bytes;
use http::{HeaderValue, Method, header};
use notify_core::{ProviderKind, Success};

use super::{Head, make_id, respond, signature};
use crate::api::ctx::{Ctx, form_pairs};
use crate::api::error::ApiError;
use crate::api::reply::Reply;
use crate::provider_config::{MessengerConfig, ProviderConfig};

const SIGNATURE: header::HeaderName = header::HeaderName::from_static("x-hub-signature-256");

/// `GET /hooks/messenger/{app_id}`: whoever knows the `verify_token` gets the challenge back.
pub(in crate::api) async fn verify(ctx: Ctx) -> http::Response<Bytes> {
    respond(challenge(&ctx))
}

/// `POST /hooks/messenger/{app_id}`: what people did.
pub(in crate::api) async fn receive(ctx: Ctx) -> http::Response<Bytes> {
    respond(take(&ctx).await)
}

/// Whether a head is right: of a `GET` the `verify_token`, of a `POST` a signature that can be
/// checked once the body is there.
pub(super) fn is_head_right(config: &MessengerConfig, head: Head<'_>) -> bool {
    if *head.method != Method::POST {
        let query = form_pairs(head.uri.query().unwrap_or_default()).unwrap_or_default();
        let given = |name| value(&query, name).unwrap_or_default();
        let token = given("hub.verify_token").as_bytes();
        let is_known = signature::is_secret(token, config.verify_token.as_ref());
        return is_known && given("hub.mode") == "subscribe";
    }
    let given = head.headers.get(&SIGNATURE);
    let is_well_formed = given.is_some_and(|given| signature::is_well_formed(given.as_bytes()));
    is_well_formed && config.app_secret.is_some()
}

fn value<'q>(query: &'q [(String, String)], name: &str) -> Option<&'q str> {
    let mut values = query.iter().filter(|(known, _)| known == name);
    values.next().map(|(_, value)| value.as_str())
}

fn challenge(ctx: &Ctx) -> Result<http::Response<Bytes>, ApiError> {
    let query = ctx.query().map_err(|_| ApiError::HookUnauthorized)?;
    let challenge = value(&query, "hub.challenge").ok_or(ApiError::HookUnauthorized)?;
    let mut response = http::Response::new(Bytes::from(challenge.to_owned()));
    // Text, whatever it holds: it must not become a page.
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, text);
    Ok(response)
}

async fn take(ctx: &Ctx) -> Result<http::Response<Bytes>, ApiError> {
    let hook = ctx.hook();
    let ProviderConfig::Messenger(config) = &hook.config else {
        return Err(ApiError::HookUnauthorized);
    };
    let secret = config.app_secret.as_ref().ok_or(ApiError::HookUnauthorized)?;
    let given = ctx.header(&SIGNATURE).ok_or(ApiError::HookUnauthorized)?;
    if !signature::is_signed(ctx.body(), given.as_bytes(), secret) {
        return Err(ApiError::HookUnauthorized);
    }
    if let Some(call) = hook.json(ctx, ProviderKind::Messenger) {
        hook.take(ctx, events::read(&call, ctx.at(), make_id)).await?;
    }
    Ok(Reply::now(Success { success: true }).into_response())
}
