//! The chat app, which is Telegram (core.telegram.org/bots/api). The token of a bot is part of the path.
//! Each chat gets one request with at most 4,096 characters of text. If the person blocked the bot or was
//! deactivated, or the chat does not exist, the address is permanently invalid. Errors about our token
//! pause the provider.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::uri::Uri;
use notify_core::{Timestamp, chat_with_topic, split_topic};
use secrecy::ExposeSecret;
use serde::Deserialize;
use tokio::time::Instant;

use crate::clock::SharedClock;
use crate::keys::hex;
use crate::outbound::retry_after;
use crate::payload::telegram::{self as payload, BotCall};
use crate::payload::{RenderContext, TooLarge};
use crate::provider_config::{KeyDigest, TelegramConfig};
use crate::providers::registry::WeakMap;
use crate::providers::transport::{Pools, ProviderResponse, Sender, TransportError};
use crate::providers::{
    Address, CredentialCheck, Processing, Provider, ProviderLimit, Reason, RenderedBody,
    RenderedMessage, Scope, SendResult, attempt_deadline, reason_from_status,
};
use crate::reasons;

/// Messages a second of a bot, unless configured otherwise. Telegram allows about 30, and more for paid
/// broadcasts.
const PER_SECOND: u32 = 25;

/// Recently throttled chats of each bot, shared by all applications that use its token.
pub(super) type ChatThrottles = WeakMap<KeyDigest, ChatThrottle>;

/// Telegram for one application.
pub(super) struct Telegram {
    clock: SharedClock,
    /// The URL up to the method. It contains the token, so no error and no log may show it.
    base: String,
    throttle: Arc<ChatThrottle>,
    per_second: u32,
    sender: Sender,
}

impl Telegram {
    pub(super) fn new(
        config: &TelegramConfig,
        clock: SharedClock,
        pools: &Pools,
        throttles: &ChatThrottles,
    ) -> Self {
        let base_url = config.base_url();
        let credential = format!("telegram {}", hex(&config.token_digest));
        Self {
            clock,
            base: format!("{base_url}/bot{}/", config.bot_token.expose_secret()),
            throttle: throttles.get(config.token_digest, |_| ChatThrottle::default()),
            per_second: config.rate_per_second.unwrap_or(PER_SECOND),
            sender: Sender::new(pools, &base_url, credential, config.ca_certificate.clone()),
        }
    }

    /// Makes one call of the Bot API for a chat, or a topic of a group.
    async fn call(
        &self,
        rendered: &RenderedMessage,
        call: &BotCall,
        recipient: &str,
        deadline: Instant,
    ) -> Result<ProviderResponse, TransportError> {
        let uri: Uri = format!("{}{}", self.base, call.method)
            .parse()
            .expect("base url and token are checked, and a method is a word");
        let headers = || rendered.headers.clone();
        self.sender.post(&uri, headers, &call.body_for(recipient), deadline).await
    }
}

#[async_trait::async_trait]
impl Provider for Telegram {
    fn render(&self, context: &RenderContext<'_>) -> Result<RenderedMessage, TooLarge> {
        let body = RenderedBody::Calls(payload::render(context)?);
        let mut headers = HeaderMap::with_capacity(4);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(RenderedMessage { headers, body })
    }

    async fn attempt(&self, rendered: &RenderedMessage, to: &Address) -> SendResult {
        let (Address::Telegram { chat: recipient }, RenderedBody::Calls(calls)) =
            (to, &rendered.body)
        else {
            return SendResult::InvalidMessage {
                reason: reasons::ADDRESS_OF_ANOTHER_PROVIDER.into(),
            };
        };
        let (chat, topic) = split_topic(recipient);
        let deadline = attempt_deadline();
        let (mut has_photo, mut refused_buttons) = (!calls.with_photo.is_empty(), 0);
        loop {
            let forms = if has_photo { &calls.with_photo } else { &calls.as_text };
            let call = &forms[refused_buttons];
            let reply = match self.call(rendered, call, recipient, deadline).await {
                Ok(reply) => reply,
                Err(failure) => return failure.into(),
            };
            let now = self.clock.now();
            let Classification { mut answer, refused } = classify(&reply, self.clock.wall());
            // Telegram refused the photo or the buttons, so the message was certainly not shown. It is sent
            // again without them, which is plainer each time.
            match refused {
                Some(Decoration::Photo) if has_photo => {
                    has_photo = false;
                    continue;
                }
                Some(Decoration::Buttons) if refused_buttons + 1 < forms.len() => {
                    refused_buttons += 1;
                    continue;
                }
                _ => {}
            }
            match (&mut answer, topic) {
                (SendResult::AddressChanged { to }, Some(topic)) => {
                    *to = chat_with_topic(to.to_string(), topic).into();
                }
                (SendResult::Throttle { scope, .. }, _) if self.throttle.record(chat, now) => {
                    *scope = Scope::Provider;
                }
                _ => {}
            }
            return answer;
        }
    }

    /// Calls `getMe`, which returns the bot's name and sends no message.
    async fn check(&self) -> CredentialCheck {
        let deadline = attempt_deadline();
        let uri: Uri =
            format!("{}getMe", self.base).parse().expect("base url and token are checked");
        let headers =
            || HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        match self.sender.post(&uri, headers, &Bytes::from_static(b"{}"), deadline).await {
            Ok(reply) if reply.status == StatusCode::OK => {
                CredentialCheck::passed("the bot's token is accepted")
            }
            Ok(reply) => CredentialCheck::from_result(&classify(&reply, self.clock.wall()).answer),
            Err(failure) => CredentialCheck::from_result(&failure.into()),
        }
    }

    fn max_concurrency(&self) -> usize {
        self.sender.max_concurrency()
    }

    fn limit(&self, _now: Timestamp) -> ProviderLimit {
        ProviderLimit::PerSecond(self.per_second)
    }
}

// Telegram sends the same 429 whether one chat or the whole bot is throttled. If several chats are
// throttled within a short time, the whole bot is.

/// The period in which throttled chats are counted, in milliseconds.
const WITHIN_MS: i64 = 1_000;
/// How many chats must be throttled within [`WITHIN_MS`] for the whole bot to count as throttled.
const THROTTLED_CHATS_MIN: usize = 3;
/// Most chats remembered. The oldest ones are dropped first.
const REMEMBERED_MAX: usize = 64;

/// Recently throttled chats.
#[derive(Debug, Default)]
pub(super) struct ChatThrottle(Mutex<VecDeque<(Timestamp, Box<str>)>>);

impl ChatThrottle {
    /// Records a 429 for a chat. Returns whether it applies to the whole bot.
    fn record(&self, chat: &str, now: Timestamp) -> bool {
        let mut recent = self.0.lock().expect("nothing panics under this lock");
        recent.retain(|(at, other)| now.ms_since(*at) < WITHIN_MS && **other != *chat);
        if recent.len() == REMEMBERED_MAX {
            recent.pop_front();
        }
        recent.push_back((now, chat.into()));
        recent.len() >= THROTTLED_CHATS_MIN
    }
}

#[cfg(test)]
mod throttle_tests {
    use super::*;

    #[test]
    fn three_throttled_chats_within_a_second_throttle_the_bot() {
        let throttle = ChatThrottle::default();
        let rows = [
            ("1", 0, false),
            ("2", 100, false),
            ("2", 200, false),
            ("1", 900, false),
            ("3", 1_100, true),
            ("4", 1_150, true),
            ("5", 2_150, false),
            ("5", 2_200, false),
        ];
        for (chat, at, expected) in rows {
            assert_eq!(throttle.record(chat, Timestamp(at)), expected, "{chat} at {at}");
        }
    }
}

// Classification of the Bot API's responses (Telegram, "Making requests"; deviations are noted below).
// Its errors have no codes beyond the HTTP status, so the descriptions are matched.

/// Added to the wait that Telegram requests, because Telegram counts whole seconds.
const WAIT_MORE: Duration = Duration::from_secs(1);
/// Longest wait requested by Telegram that is honoured, in seconds.
const WAIT_SECONDS_MAX: u64 = 86_400;

/// The classification of a response.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Classification {
    /// The classified result.
    pub(super) answer: SendResult,
    /// What was refused, if the message may be accepted without it.
    pub(super) refused: Option<Decoration>,
}

/// What a message can be sent without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decoration {
    /// The photo. The text then has a link to it.
    Photo,
    /// The buttons.
    Buttons,
}

#[derive(Deserialize)]
struct Body {
    ok: bool,
    result: Option<Sent>,
    error_code: Option<u16>,
    #[serde(default)]
    description: String,
    #[serde(default)]
    parameters: Parameters,
}

#[derive(Deserialize)]
struct Sent {
    message_id: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Parameters {
    retry_after: Option<u64>,
    migrate_to_chat_id: Option<i64>,
}

/// The class of a description.
#[derive(Clone, Copy)]
enum ErrorClass {
    Unregistered,
    /// The chat does not exist for this bot. If the token belongs to another bot, that is so for all of
    /// our chats, and the address may be valid.
    UnregisteredOrOtherBot,
    InvalidMessage,
    /// The photo is invalid.
    InvalidPhoto,
    /// A button is invalid.
    InvalidButtons,
}

/// Status, a part of the description in lower case, class and reason. The first matching row decides.
const ROWS: &[(u16, &str, ErrorClass, &str)] = &[
    (403, "bot was blocked by the user", ErrorClass::Unregistered, "bot_was_blocked"),
    (403, "user is deactivated", ErrorClass::Unregistered, "user_is_deactivated"),
    (403, "bot was kicked", ErrorClass::Unregistered, "bot_was_kicked"),
    (403, "bot is not a member", ErrorClass::Unregistered, "bot_is_not_a_member"),
    (403, "group chat was deleted", ErrorClass::Unregistered, "chat_was_deleted"),
    (
        403,
        "bot can't initiate conversation",
        ErrorClass::UnregisteredOrOtherBot,
        "chat_was_never_started",
    ),
    (400, "message thread not found", ErrorClass::Unregistered, "topic_not_found"),
    (400, "topic_deleted", ErrorClass::Unregistered, "topic_not_found"),
    (400, "topic_closed", ErrorClass::InvalidMessage, "topic_is_closed"),
    (400, "chat not found", ErrorClass::UnregisteredOrOtherBot, "chat_not_found"),
    (400, "message text is empty", ErrorClass::InvalidMessage, "text_is_empty"),
    (400, "message is too long", ErrorClass::InvalidMessage, "text_is_too_long"),
    (400, "caption is too long", ErrorClass::InvalidPhoto, "caption_is_too_long"),
    (400, "button_url_invalid", ErrorClass::InvalidButtons, "button_url_is_invalid"),
    (400, "keyboard button url", ErrorClass::InvalidButtons, "button_url_is_invalid"),
    (400, "reply markup is too long", ErrorClass::InvalidButtons, "reply_markup_is_too_long"),
    (400, "reply_markup_too_long", ErrorClass::InvalidButtons, "reply_markup_is_too_long"),
    (400, "reply_markup_invalid", ErrorClass::InvalidButtons, "button_is_invalid"),
    (400, "reply keyboard markup", ErrorClass::InvalidButtons, "button_is_invalid"),
    (400, "keyboard button", ErrorClass::InvalidButtons, "button_is_invalid"),
    (400, "button_data_invalid", ErrorClass::InvalidButtons, "button_is_invalid"),
    (400, "button_type_invalid", ErrorClass::InvalidButtons, "button_is_invalid"),
    (400, "button_invalid", ErrorClass::InvalidButtons, "button_is_invalid"),
    (400, "can't parse", ErrorClass::InvalidPhoto, "cannot_parse"),
    (400, "wrong type of the web page content", ErrorClass::InvalidPhoto, "photo_is_no_image"),
    (400, "failed to get http url content", ErrorClass::InvalidPhoto, "photo_cannot_be_fetched"),
    (400, "wrong file identifier/http url", ErrorClass::InvalidPhoto, "photo_cannot_be_fetched"),
    (400, "webpage_curl_failed", ErrorClass::InvalidPhoto, "photo_cannot_be_fetched"),
    (400, "webpage_media_empty", ErrorClass::InvalidPhoto, "photo_is_no_image"),
    (400, "image_process_failed", ErrorClass::InvalidPhoto, "photo_is_no_image"),
    (400, "photo_invalid_dimensions", ErrorClass::InvalidPhoto, "photo_has_wrong_dimensions"),
];

/// Classifies a response.
pub(super) fn classify(reply: &ProviderResponse, wall: Timestamp) -> Classification {
    let Ok(body) = serde_json::from_slice::<Body>(&reply.body) else {
        return plain(
            by_http_status(reply.status).with_retry_after(retry_after(&reply.headers, wall)),
        );
    };
    // Telegram never combines the two. Another program may do so in front of it, when it fails.
    if body.ok && reply.status.is_success() {
        let id = body.result.and_then(|sent| sent.message_id);
        return plain(SendResult::Delivered { message_id: id.map(|id| id.to_string().into()) });
    }
    if let Some(to) = body.parameters.migrate_to_chat_id {
        return plain(SendResult::AddressChanged { to: to.to_string().into() });
    }
    let code = body.error_code.unwrap_or(reply.status.as_u16());
    if let Some(classification) = by_description(code, &body.description) {
        return classification;
    }
    let status = StatusCode::from_u16(code).unwrap_or(reply.status);
    let requested_wait = match body.parameters.retry_after {
        Some(seconds) => Some(Duration::from_secs(seconds.min(WAIT_SECONDS_MAX))),
        None => retry_after(&reply.headers, wall),
    };
    let answer = by_status(status);
    let is_throttle = matches!(answer, SendResult::Throttle { .. });
    let wait = requested_wait.map(|wait| if is_throttle { wait + WAIT_MORE } else { wait });
    plain(answer.with_retry_after(wait))
}

/// The classification of a response that is not about the photo or the buttons.
fn plain(answer: SendResult) -> Classification {
    Classification { answer, refused: None }
}

/// Classifies an error by its description; `None` if no row of the table matches.
fn by_description(code: u16, description: &str) -> Option<Classification> {
    let description = description.to_ascii_lowercase();
    let (_, _, class, word) =
        ROWS.iter().find(|(status, part, _, _)| *status == code && description.contains(part))?;
    let reason = Reason::Borrowed(word);
    let unregistered =
        |ambiguous| SendResult::Unregistered { reason: reason.clone(), ambiguous, since: None };
    let answer = match class {
        ErrorClass::Unregistered => unregistered(false),
        ErrorClass::UnregisteredOrOtherBot => unregistered(true),
        ErrorClass::InvalidMessage | ErrorClass::InvalidPhoto | ErrorClass::InvalidButtons => {
            SendResult::InvalidMessage { reason }
        }
    };
    let refused = match class {
        ErrorClass::InvalidPhoto => Some(Decoration::Photo),
        ErrorClass::InvalidButtons => Some(Decoration::Buttons),
        ErrorClass::Unregistered
        | ErrorClass::UnregisteredOrOtherBot
        | ErrorClass::InvalidMessage => None,
    };
    Some(Classification { answer, refused })
}

/// Classifies a response of Telegram by its status.
fn by_status(status: StatusCode) -> SendResult {
    let reason = reason_from_status(status, "");
    match status.as_u16() {
        // The token was revoked or is malformed, or the endpoint is not Telegram's.
        401 | 404 => SendResult::AuthRejected { reason },
        413 => SendResult::InvalidMessage { reason },
        429 => SendResult::Throttle { reason, after: None, scope: Scope::Address },
        // 409 means that two programs read the bot's updates, which does not affect sending.
        408 | 409 | 500..=599 => SendResult::failed(reason),
        _ => SendResult::Unknown { reason },
    }
}

/// Classifies a response without Telegram's JSON: an edge server sent it, or the endpoint is not
/// Telegram's.
fn by_http_status(status: StatusCode) -> SendResult {
    let reason = reason_from_status(status, "");
    match status.as_u16() {
        // The body is incomplete. Telegram may have accepted the message, and it would not recognise a
        // repeated message.
        200 => SendResult::Retry { reason, after: None, outcome: Processing::Unknown },
        429 => SendResult::Throttle { reason, after: None, scope: Scope::Provider },
        _ => by_status(status),
    }
}
