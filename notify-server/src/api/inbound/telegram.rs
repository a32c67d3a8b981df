//! The webhook of Telegram, which sends the secret of `setWebhook` with each update.

#[cfg(test)]
mod tests;

use http::{HeaderMap, header};
use notify_core::{DeviceId, ProviderKind, Timestamp, chat_with_topic};
use serde::Serialize;
use serde_json::Value;
use warp::Reply;
use warp::reply::Response;

use crate::api::error::ApiError;
use crate::api::inbound::linked_device_id;
use crate::api::inbound::{make_id, signature};
use crate::api::json_reply::JsonReply;
use crate::api::request_ctx::RequestCtx;
use crate::payload::buttons;
use crate::provider_config::TelegramConfig;
use crate::store::{Inbound, InboundAction, NewContact, Recipient};

const SECRET_HEADER: header::HeaderName =
    header::HeaderName::from_static("x-telegram-bot-api-secret-token");

/// A call of the Bot API in the response to an update, which saves a request.
#[derive(Serialize)]
struct AnswerCallbackQuery {
    method: &'static str,
    callback_query_id: String,
}

/// `POST /hooks/telegram/{app_id}`: records what a person did.
pub(in crate::api) async fn receive(ctx: RequestCtx) -> Result<Response, ApiError> {
    let webhook = ctx.webhook();
    let mut query_id = None;
    if let Some(update) = webhook.json(&ctx, ProviderKind::Telegram) {
        webhook.record(&ctx, parse_update(&update, ctx.received_at, make_id)).await?;
        query_id = callback_query_id(&update);
    }
    // A pressed button shows a spinner until the server answers the query, whichever button it was.
    Ok(match query_id {
        Some(callback_query_id) => {
            let method = "answerCallbackQuery";
            JsonReply::ok(AnswerCallbackQuery { method, callback_query_id }).into_response()
        }
        None => JsonReply::success().into_response(),
    })
}

/// Whether the head has the secret of the webhook. The work is the same if the header or the secret
/// is missing.
pub(super) fn is_head_valid(config: &TelegramConfig, headers: &HeaderMap) -> bool {
    let header = headers.get(&SECRET_HEADER);
    let header_bytes = header.map_or(&[][..], http::HeaderValue::as_bytes);
    signature::matches_secret(header_bytes, config.webhook_secret.as_ref()) && header.is_some()
}

// Parses an update of a bot: `message`, `callback_query` and `my_chat_member`. Other updates are
// skipped.

/// Last millisecond of a second. Telegram's times are whole seconds. An act counts as the last
/// event of its second, because its exact time is unknown.
const SECOND_END_MS: i64 = 999;
/// Longest language code, in bytes (RFC 5646 section 4.4.1).
const LANGUAGE_BYTES_MAX: usize = 35;

/// What a person did, in order. `make_id` makes the id of a new device.
fn parse_update(update: &Value, now: Timestamp, make_id: fn() -> DeviceId) -> Vec<Inbound> {
    if update["message"].is_object() {
        return parse_message(&update["message"], now, make_id).into_iter().collect();
    }
    if update["callback_query"].is_object() {
        return parse_callback_query(&update["callback_query"], make_id);
    }
    parse_member_change(&update["my_chat_member"], now).into_iter().collect()
}

/// The id of a callback query, which has to be answered.
fn callback_query_id(update: &Value) -> Option<String> {
    update["callback_query"]["id"].as_str().map(str::to_owned)
}

/// A message. Any message in a private chat starts the bot. A group has to send `/start`, since
/// anyone can add a bot to a group, where the bot then receives many messages.
fn parse_message(message: &Value, now: Timestamp, make_id: fn() -> DeviceId) -> Option<Inbound> {
    let (who, is_private) = chat_or_topic(message)?;
    if message["from"]["is_bot"] == true {
        return None;
    }
    let start_command = parse_start_command(message["text"].as_str().unwrap_or_default());
    if !is_private && start_command.is_none() {
        return None;
    }
    let language = is_private.then(|| language(&message["from"])).flatten();
    let link_payload = start_command.and_then(|command| command.payload);
    let requested_id = link_payload.and_then(linked_device_id);
    let act = InboundAction::Wrote(NewContact { generated_id: make_id(), requested_id, language });
    Some(Inbound { who, at: instant(&message["date"], now), act })
}

/// A pressed button, which counts for the chat or the topic of its message. An old message has no topic, so
/// the button then counts for the group. The act gets no time: the update does not contain the time of the
/// press, and the time of the message is when the button was sent.
fn parse_callback_query(query: &Value, make_id: fn() -> DeviceId) -> Vec<Inbound> {
    let Some((who, is_private)) = chat_or_topic(&query["message"]) else { return Vec::new() };
    let contact = is_private.then(|| {
        let language = language(&query["from"]);
        InboundAction::Wrote(NewContact { generated_id: make_id(), requested_id: None, language })
    });
    let payload = query["data"].as_str().and_then(buttons::parse_payload);
    let vote = payload.map(|(poll, answer)| InboundAction::Voted { poll, answer });
    let acts = [contact, vote].into_iter().flatten();
    acts.map(|act| Inbound { who: who.clone(), at: None, act }).collect()
}

/// A change of the bot's membership in a chat; in a private chat, it was blocked or unblocked.
fn parse_member_change(change: &Value, now: Timestamp) -> Option<Inbound> {
    let (who, _) = chat(&change["chat"])?;
    let member = &change["new_chat_member"];
    let act = match member["status"].as_str()? {
        "kicked" | "left" => InboundAction::Left,
        "restricted" if member["is_member"] == false => InboundAction::Left,
        "member" | "administrator" | "restricted" => InboundAction::Returned,
        _ => return None,
    };
    Some(Inbound { who, at: instant(&change["date"], now), act })
}

/// The chat of a message, or its topic in a group, and whether it is a private chat. A private chat is one
/// recipient, whatever topics the person has there. A reply in a group without topics has the id of a thread
/// too.
fn chat_or_topic(message: &Value) -> Option<(Recipient, bool)> {
    let (who, is_private) = chat(&message["chat"])?;
    let topic = message["message_thread_id"].as_i64().and_then(|id| i32::try_from(id).ok());
    let topic = topic.filter(|_| !is_private && message["is_topic_message"] == true);
    Some(match topic {
        Some(topic) => (Recipient::Chat(chat_with_topic(who.address().to_owned(), topic)), false),
        None => (who, is_private),
    })
}

/// A chat, and whether it is a private one.
fn chat(chat: &Value) -> Option<(Recipient, bool)> {
    let id = chat["id"].as_i64()?;
    Some((Recipient::Chat(id.to_string()), chat["type"] == "private"))
}

/// The command `/start`.
struct StartCommand<'t> {
    /// The payload of the deep link that the person followed, if there was one.
    payload: Option<&'t str>,
}

/// Parses the command `/start`; `None` for any other text. The command is `/start` or `/start abc`,
/// in groups also `/start@the_bot abc`.
fn parse_start_command(text: &str) -> Option<StartCommand<'_>> {
    let mut words = text.split_whitespace();
    let first_word = words.next()?;
    let command = first_word.split_once('@').map_or(first_word, |(command, _)| command);
    (command == "/start").then(|| StartCommand { payload: words.next() })
}

/// The time of an update, from its unix seconds. A time in the future becomes `now`.
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
