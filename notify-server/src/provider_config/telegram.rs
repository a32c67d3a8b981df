//! Configuration of the chat app: a bot's token (Telegram, "Bot API").

use secrecy::SecretString;
use serde_json::{Value, json};

use super::{BaseUrl, ExtraRoots, KeyDigest, ProviderConfigError, digest, without_nulls};
use crate::provider_config::Fields;

/// Telegram's host.
const TELEGRAM: &str = "https://api.telegram.org";
/// Longest `secret_token` of a webhook, in characters (Telegram, `setWebhook`).
const WEBHOOK_SECRET_CHARS_MAX: usize = 256;

/// How one application reaches chats. Debug output shows no secret.
#[derive(Debug, Clone)]
pub(crate) struct TelegramConfig {
    /// Token of the bot that sends the messages. It is part of every path.
    pub bot_token: SecretString,
    pub(crate) token_digest: KeyDigest,
    /// Secret that Telegram sends in every call of the webhook.
    pub webhook_secret: Option<SecretString>,
    /// Replaces Telegram's host.
    pub endpoint: Option<BaseUrl>,
    /// Roots trusted in addition to the system's.
    pub ca_certificate: Option<ExtraRoots>,
    /// Most messages a second.
    pub rate_per_second: Option<u32>,
}

impl TelegramConfig {
    /// Reads and checks a configuration.
    ///
    /// # Errors
    /// All violations.
    pub(crate) fn parse(body: &Value) -> Result<Self, ProviderConfigError> {
        let mut fields = Fields::of_body(body);
        let bot_token = fields.required_word("bot_token", ":_-");
        let webhook_secret = webhook_secret(&mut fields);
        let endpoint = fields.endpoint("endpoint");
        let ca_certificate = fields.ca_certificate();
        let rate_per_second = fields.rate_per_second();
        fields.finish()?;
        let bot_token = bot_token.expect("a required field that is missing is a broken rule");
        Ok(Self {
            bot_token: bot_token.into(),
            token_digest: digest(bot_token.as_bytes()),
            webhook_secret,
            endpoint,
            ca_certificate,
            rate_per_second,
        })
    }

    /// Where messages go: `endpoint`, or Telegram's host.
    #[must_use]
    pub(crate) fn base_url(&self) -> BaseUrl {
        self.endpoint
            .clone()
            .unwrap_or_else(|| BaseUrl::parse(TELEGRAM).expect("Telegram's host is written right"))
    }

    /// The configuration as `GET` shows it, without the secrets.
    #[must_use]
    pub(crate) fn redacted(&self) -> Value {
        without_nulls(json!({
            "endpoint": self.endpoint.as_ref().map(ToString::to_string),
            "ca_certificate": self.ca_certificate.as_ref().map(ExtraRoots::pem),
            "rate_per_second": self.rate_per_second,
        }))
    }
}

/// Reads the webhook's secret. Only characters that `setWebhook` accepts are allowed, because Telegram
/// cannot send any other.
fn webhook_secret(fields: &mut Fields<'_>) -> Option<SecretString> {
    let text = fields.text("webhook_secret")?;
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if text.len() <= WEBHOOK_SECRET_CHARS_MAX && text.bytes().all(allowed) {
        return Some(text.into());
    }
    let rule = format_args!(
        "must be 1 to {WEBHOOK_SECRET_CHARS_MAX} letters and digits of ASCII or any of `_-`"
    );
    fields.add_violation("webhook_secret", rule);
    None
}
