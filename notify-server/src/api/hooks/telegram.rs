//! The webhook of the chat app. Telegram sends the secret of `setWebhook` with each update.

mod update;

use bytes::Bytes;
use http::{HeaderMap, header};
use notify_core::{ProviderKind, Success};
use serde::Serialize;

use super::{make_id, respond, signature};
use crate::api::ctx::Ctx;
use crate::api::error::ApiError;
use crate::api::reply::Reply;
use crate::provider_config::TelegramConfig;

const SECRET: header::HeaderName =
    header::HeaderName::from_static("x-telegram-bot-api-secret-token");

/// A call of the Bot API, made in the answer to an update: it needs no connection of ours.
#[derive(Serialize)]
struct AnswerCallbackQuery {
    method: &'static str,
    callback_query_id: String,
}

/// `POST /hooks/telegram/{app_id}`: what a person did.
pub(in crate::api) async fn receive(ctx: Ctx) -> http::Response<Bytes> {
    respond(take(&ctx).await)
}

/// Whether the head has the secret of the webhook. Without either, the work is the same.
pub(super) fn is_head_right(config: &TelegramConfig, headers: &HeaderMap) -> bool {
    let given = headers.get(&SECRET);
    let given_bytes = given.map_or(&[][..], http::HeaderValue::as_bytes);
    signature::is_secret(given_bytes, config.webhook_secret.as_ref()) && given.is_some()
}

async fn take(ctx: &Ctx) -> Result<http::Response<Bytes>, ApiError> {
    let hook = ctx.hook();
    let mut pressed = None;
    if let Some(brought) = hook.json(ctx, ProviderKind::Telegram) {
        hook.take(ctx, update::read(&brought, ctx.at(), make_id)).await?;
        pressed = update::callback_query_id(&brought);
    }
    // The button that was pressed turns until it is answered, whatever it stood for.
    Ok(match pressed {
        Some(callback_query_id) => {
            let method = "answerCallbackQuery";
            Reply::now(AnswerCallbackQuery { method, callback_query_id }).into_response()
        }
        None => Reply::now(Success { success: true }).into_response(),
    })
}
