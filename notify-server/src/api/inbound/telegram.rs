//! The webhook of the chat app. Telegram sends the secret of `setWebhook` with each update.

#[cfg(test)]
mod tests;

use bytes::Bytes;
use http::{HeaderMap, header};
use notify_core::{DeviceId, ProviderKind, Success, Timestamp};
use serde::Serialize;
use serde_json::Value;

use crate::api::error::ApiError;
use crate::api::inbound::{device_id, make_id, respond, signature};
use crate::api::json_reply::Reply;
use crate::api::request_ctx::Ctx;
use crate::payload::buttons;
use crate::provider_config::TelegramConfig;
use crate::store::{Act, Inbound, Newcomer, Recipient};

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
        hook.take(ctx, read(&brought, ctx.at(), make_id)).await?;
        pressed = callback_query_id(&brought);
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

// Reads an update of a Telegram bot: `message`, `callback_query` and `my_chat_member`. Pure. What is
// not understood is passed over.

/// Last millisecond of a second. Telegram tells whole seconds: what happened within one may have
/// come after anything else within it.
const SECOND_END_MS: i64 = 999;
/// Longest language code, in bytes (RFC 5646 section 4.4.1).
const LANGUAGE_BYTES_MAX: usize = 35;

/// What a person did, in order. `make_id` gives an id to whoever turns out to be new.
fn read(update: &Value, now: Timestamp, make_id: fn() -> DeviceId) -> Vec<Inbound> {
    if update["message"].is_object() {
        return read_message(&update["message"], now, make_id).into_iter().collect();
    }
    if update["callback_query"].is_object() {
        return read_press(&update["callback_query"], make_id);
    }
    read_member(&update["my_chat_member"], now).into_iter().collect()
}

/// The press of a button that waits for an answer.
fn callback_query_id(update: &Value) -> Option<String> {
    update["callback_query"]["id"].as_str().map(str::to_owned)
}

/// A message. Whoever speaks to a bot in private has started it; a group is meant only when it is
/// told `/start`, since a bot is put into groups by anybody and hears of much there.
fn read_message(message: &Value, now: Timestamp, make_id: fn() -> DeviceId) -> Option<Inbound> {
    let (who, is_private) = chat(&message["chat"])?;
    if message["from"]["is_bot"] == true {
        return None;
    }
    let started = start(message["text"].as_str().unwrap_or_default());
    if !is_private && started.is_none() {
        return None;
    }
    let language = is_private.then(|| language(&message["from"])).flatten();
    let brought = started.flatten().and_then(device_id);
    let act = Act::Wrote(Newcomer { made: make_id(), brought, language });
    Some(Inbound { who, at: instant(&message["date"], now), act })
}

/// The press of a button: it counts for the chat in which it stands. An update does not say when it
/// was pressed; the date of its message is older.
fn read_press(query: &Value, make_id: fn() -> DeviceId) -> Vec<Inbound> {
    let Some((who, is_private)) = chat(&query["message"]["chat"]) else { return Vec::new() };
    let began = is_private.then(|| {
        let language = language(&query["from"]);
        Act::Wrote(Newcomer { made: make_id(), brought: None, language })
    });
    let voted = query["data"].as_str().and_then(buttons::read);
    let voted = voted.map(|(poll, answer)| Act::Voted { poll, answer });
    let acts = [began, voted].into_iter().flatten();
    acts.map(|act| Inbound { who: who.clone(), at: None, act }).collect()
}

/// A change of what the bot may do in a chat: in a private one, that it was blocked or let in again.
fn read_member(change: &Value, now: Timestamp) -> Option<Inbound> {
    let (who, _) = chat(&change["chat"])?;
    let member = &change["new_chat_member"];
    let act = match member["status"].as_str()? {
        "kicked" | "left" => Act::Left,
        "restricted" if member["is_member"] == false => Act::Left,
        "member" | "administrator" | "restricted" => Act::Returned,
        _ => return None,
    };
    Some(Inbound { who, at: instant(&change["date"], now), act })
}

/// A chat, and whether it is that of one person.
fn chat(chat: &Value) -> Option<(Recipient, bool)> {
    let id = chat["id"].as_i64()?;
    Some((Recipient::Chat(id.to_string()), chat["type"] == "private"))
}

/// Whether a text is `/start`, and what its link brought: `/start`, `/start abc`, in groups also
/// `/start@the_bot abc`.
fn start(text: &str) -> Option<Option<&str>> {
    let mut words = text.split_whitespace();
    let command = words.next()?;
    let command = command.split_once('@').map_or(command, |(command, _)| command);
    (command == "/start").then(|| words.next())
}

fn instant(date: &Value, now: Timestamp) -> Option<Timestamp> {
    let ms = date.as_i64().filter(|seconds| *seconds > 0)?.checked_mul(1_000)?;
    Some(Timestamp(ms.checked_add(SECOND_END_MS)?).min(now))
}

fn language(person: &Value) -> Option<String> {
    let code = person["language_code"].as_str()?;
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let is_code = (1..=LANGUAGE_BYTES_MAX).contains(&code.len()) && code.bytes().all(allowed);
    is_code.then(|| code.to_owned())
}
