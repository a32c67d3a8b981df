//! The chat app: Telegram (core.telegram.org/bots/api): a bot's token in the path, one request a
//! chat, 4,096 characters of text. Permanent are a block, a deactivated person and a chat that is
//! not there; what names our token holds the provider.

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

use self::classify::{Verdict, classify};
use crate::clock::SharedClock;
use crate::keys::hex;
use crate::payload::telegram::{self as payload, Form};
use crate::payload::{Outgoing, TooLarge};
use crate::provider_config::{KeyDigest, TelegramConfig};
use crate::providers::registry::Shared;
use crate::providers::transport::{Failure, Pools, Reply, Sender};
use crate::providers::{
    Address, Allowance, Answer, Checked, Prepared, PreparedBody, Provider, Scope, deadline,
};
use crate::reasons;

/// Messages a second of a bot, unless an administrator wants others (paid broadcasts allow more):
/// Telegram allows about 30.
const PER_SECOND: u32 = 25;

/// Which chats of each bot were asked to slow down, shared by all that send with its token.
pub(super) type Floods = Shared<KeyDigest, Flood>;

/// Telegram for one application.
pub(super) struct Telegram {
    clock: SharedClock,
    /// Up to the method. It holds the token: no error and no log may show it.
    base: String,
    flood: Arc<Flood>,
    per_second: u32,
    sender: Sender,
}

impl Telegram {
    pub(super) fn new(
        config: &TelegramConfig,
        clock: SharedClock,
        pools: &Pools,
        floods: &Floods,
    ) -> Self {
        let base_url = config.base_url();
        let credential = format!("telegram {}", hex(&config.token_digest));
        Self {
            clock,
            base: format!("{base_url}/bot{}/", config.bot_token.expose_secret()),
            flood: floods.get(config.token_digest, |_| Flood::default()),
            per_second: config.rate_per_second.unwrap_or(PER_SECOND),
            sender: Sender::new(pools, &base_url, credential, config.ca_certificate.clone()),
        }
    }

    async fn call(
        &self,
        prepared: &Prepared,
        form: &Form,
        chat: &str,
        deadline: Instant,
    ) -> Result<Reply, Failure> {
        let uri: Uri = format!("{}{}", self.base, form.method)
            .parse()
            .expect("base url and token are checked, and a method is a word");
        let headers = || prepared.headers.clone();
        self.sender.post(&uri, headers, &form.body.put(chat), deadline).await
    }
}

#[async_trait::async_trait]
impl Provider for Telegram {
    fn prepare(&self, message: &Outgoing<'_>) -> Result<Prepared, TooLarge> {
        let body = PreparedBody::Forms(payload::render(message)?);
        let mut headers = HeaderMap::with_capacity(4);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(Prepared { headers, body })
    }

    async fn attempt(&self, prepared: &Prepared, to: &Address) -> Answer {
        let (Address::Telegram { chat }, PreparedBody::Forms(forms)) = (to, &prepared.body) else {
            return Answer::BadMessage { reason: reasons::ADDRESS_OF_ANOTHER_PROVIDER.into() };
        };
        let deadline = deadline();
        let mut form = &forms.first;
        loop {
            let reply = match self.call(prepared, form, chat, deadline).await {
                Ok(reply) => reply,
                Err(failure) => return failure.into(),
            };
            let now = self.clock.now();
            let Verdict { mut answer, is_about_looks } = classify(&reply, self.clock.wall());
            // Refused for its photo or its markup, and so certainly not shown: as a plain text,
            // once.
            if let Some(plainer) = forms.plainer.as_ref().filter(|_| is_about_looks)
                && !std::ptr::eq(form, plainer)
            {
                form = plainer;
                continue;
            }
            if let Answer::Throttle { scope, .. } = &mut answer
                && self.flood.is_the_bot_s(chat, now)
            {
                *scope = Scope::Provider;
            }
            return answer;
        }
    }

    /// `getMe` names the bot, and sends nothing.
    async fn check(&self) -> Checked {
        let deadline = deadline();
        let uri: Uri =
            format!("{}getMe", self.base).parse().expect("base url and token are checked");
        let headers =
            || HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
        match self.sender.post(&uri, headers, &Bytes::from_static(b"{}"), deadline).await {
            Ok(reply) if reply.status == StatusCode::OK => {
                Checked::good("the bot's token is accepted")
            }
            Ok(reply) => Checked::of_answer(&classify(&reply, self.clock.wall()).answer),
            Err(failure) => Checked::of_answer(&failure.into()),
        }
    }

    fn slots(&self) -> usize {
        self.sender.slots()
    }

    fn allowance(&self, _now: Timestamp) -> Allowance {
        Allowance::PerSecond(self.per_second)
    }
}

// Whether a 429 is about one chat or about the whole bot: Telegram does not say.

/// Within that time, in milliseconds, …
const WITHIN_MS: i64 = 1_000;
/// … so many chats are the whole bot.
const CHATS: usize = 3;
/// Most answers remembered; the oldest go first.
const REMEMBERED_MAX: usize = 64;

/// The chats that were asked to slow down lately.
#[derive(Debug, Default)]
pub(super) struct Flood(Mutex<VecDeque<(Timestamp, Box<str>)>>);

impl Flood {
    /// Takes note of a 429 for a chat; tells whether it is about the whole bot.
    fn is_the_bot_s(&self, chat: &str, now: Timestamp) -> bool {
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
mod flood_tests {
    use super::*;

    #[test]
    fn three_chats_within_a_second_are_the_bot() {
        let flood = Flood::default();
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
            assert_eq!(flood.is_the_bot_s(chat, Timestamp(at)), expected, "{chat} at {at}");
        }
    }
}
