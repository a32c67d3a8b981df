//! The chat app: Telegram (core.telegram.org/bots/api): a bot's token in the path, one request a
//! chat, 4,096 characters of text. A block, a deactivated person and a missing chat are permanent;
//! errors about our token pause the provider.

mod classify;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::uri::Uri;
use notify_core::Timestamp;
use secrecy::ExposeSecret;
use tokio::time::Instant;

use self::classify::{Classification, classify};
use crate::clock::SharedClock;
use crate::keys::hex;
use crate::payload::telegram::{self as payload, BotCall};
use crate::payload::{RenderContext, TooLarge};
use crate::provider_config::{KeyDigest, TelegramConfig};
use crate::providers::registry::WeakMap;
use crate::providers::transport::{Pools, ProviderResponse, Sender, TransportError};
use crate::providers::{
    Address, CredentialCheck, Provider, ProviderLimit, RenderedBody, RenderedMessage, Scope,
    SendResult, deadline,
};
use crate::reasons;

/// Messages a second of a bot, unless configured otherwise (paid broadcasts allow more):
/// Telegram allows about 30.
const PER_SECOND: u32 = 25;

/// Recently throttled chats of each bot, shared by all applications that use its token.
pub(super) type ChatThrottles = WeakMap<KeyDigest, ChatThrottle>;

/// Telegram for one application.
pub(super) struct Telegram {
    clock: SharedClock,
    /// The URL up to the method. It contains the token: no error and no log may show it.
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

    async fn call(
        &self,
        rendered: &RenderedMessage,
        form: &BotCall,
        chat: &str,
        deadline: Instant,
    ) -> Result<ProviderResponse, TransportError> {
        let uri: Uri = format!("{}{}", self.base, form.method)
            .parse()
            .expect("base url and token are checked, and a method is a word");
        let headers = || rendered.headers.clone();
        self.sender.post(&uri, headers, &form.body.put(chat), deadline).await
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
        let (Address::Telegram { chat }, RenderedBody::Calls(calls)) = (to, &rendered.body) else {
            return SendResult::InvalidMessage {
                reason: reasons::ADDRESS_OF_ANOTHER_PROVIDER.into(),
            };
        };
        let deadline = deadline();
        let mut form = &calls.first;
        loop {
            let reply = match self.call(rendered, form, chat, deadline).await {
                Ok(reply) => reply,
                Err(failure) => return failure.into(),
            };
            let now = self.clock.now();
            let Classification { mut answer, is_formatting } = classify(&reply, self.clock.wall());
            // Refused for its photo or its markup, so certainly not shown: retried as a plain text,
            // once.
            if let Some(fallback) = calls.fallback.as_ref().filter(|_| is_formatting)
                && !std::ptr::eq(form, fallback)
            {
                form = fallback;
                continue;
            }
            if let SendResult::Throttle { scope, .. } = &mut answer
                && self.throttle.is_bot_wide(chat, now)
            {
                *scope = Scope::Provider;
            }
            return answer;
        }
    }

    /// `getMe` names the bot, and sends nothing.
    async fn check(&self) -> CredentialCheck {
        let deadline = deadline();
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

// Distinguishes a 429 for one chat from one for the whole bot; Telegram's response is the same.

/// If within this time, in milliseconds, …
const WITHIN_MS: i64 = 1_000;
/// … this many chats are throttled, the whole bot is.
const CHATS: usize = 3;
/// Most chats remembered; the oldest are dropped first.
const REMEMBERED_MAX: usize = 64;

/// Recently throttled chats.
#[derive(Debug, Default)]
pub(super) struct ChatThrottle(Mutex<VecDeque<(Timestamp, Box<str>)>>);

impl ChatThrottle {
    /// Records a 429 for a chat; returns whether it applies to the whole bot.
    fn is_bot_wide(&self, chat: &str, now: Timestamp) -> bool {
        let mut recent = self.0.lock().expect("nothing panics under this lock");
        recent.retain(|(at, of)| now.ms_since(*at) < WITHIN_MS && **of != *chat);
        if recent.len() == REMEMBERED_MAX {
            recent.pop_front();
        }
        recent.push_back((now, chat.into()));
        recent.len() >= CHATS
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
            assert_eq!(throttle.is_bot_wide(chat, Timestamp(at)), expected, "{chat} at {at}");
        }
    }
}
