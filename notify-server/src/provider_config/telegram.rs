//! Configuration of the chat app: the bot that speaks, and how its webhook is recognised.

use secrecy::SecretString;
use serde_json::{Map, Value, json};

use super::fields::Fields;
use super::{BaseUrl, ExtraRoots, ProviderConfigError};

/// Longest secret that Telegram takes for a webhook (Bot API, `setWebhook`).
const WEBHOOK_SECRET_CHARS_MAX: usize = 256;

/// How one application reaches the chats of its bot, and hears of them.
#[derive(Debug, Clone)]
pub(crate) struct TelegramConfig {
    /// Token of the bot.
    #[expect(dead_code, reason = "what sends comes with the provider")]
    pub bot_token: SecretString,
    /// What Telegram sends with each update. Without it none is taken.
    pub webhook_secret: Option<SecretString>,
    /// In place of Telegram's host.
    pub endpoint: Option<BaseUrl>,
    /// Roots trusted beside the system's.
    pub ca_certificate: Option<ExtraRoots>,
    /// Most messages a second.
    pub rate_per_second: Option<u32>,
}

impl TelegramConfig {
    /// Reads and checks a configuration.
    ///
    /// # Errors
    /// Every broken rule.
    pub(crate) fn parse(body: &Value) -> Result<Self, ProviderConfigError> {
        let mut fields = Fields::of_body(body);
        let bot_token = fields.required_word("bot_token", ":_-");
        let webhook_secret = fields.text("webhook_secret");
        if webhook_secret.is_some_and(|secret| !is_webhook_secret(secret)) {
            let rule = format_args!(
                "must be 1 to {WEBHOOK_SECRET_CHARS_MAX} letters and digits of ASCII or any of `_-`"
            );
            fields.broken("webhook_secret", rule);
        }
        let endpoint = fields.endpoint("endpoint");
        let ca_certificate = fields.ca_certificate();
        let rate_per_second = fields.rate_per_second();
        fields.finish()?;
        Ok(Self {
            bot_token: bot_token.expect("a required field that is missing is a broken rule").into(),
            webhook_secret: webhook_secret.map(SecretString::from),
            endpoint,
            ca_certificate,
            rate_per_second,
        })
    }

    /// Without the secrets.
    #[must_use]
    pub(crate) fn redacted(&self) -> Value {
        let mut shown = Map::new();
        if let Some(endpoint) = &self.endpoint {
            shown.insert("endpoint".to_owned(), json!(endpoint.to_string()));
        }
        if let Some(roots) = &self.ca_certificate {
            shown.insert("ca_certificate".to_owned(), json!(roots.pem()));
        }
        if let Some(rate) = self.rate_per_second {
            shown.insert("rate_per_second".to_owned(), json!(rate));
        }
        Value::Object(shown)
    }
}

/// Whether `setWebhook` would take it.
fn is_webhook_secret(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    text.len() <= WEBHOOK_SECRET_CHARS_MAX && text.bytes().all(allowed)
}
