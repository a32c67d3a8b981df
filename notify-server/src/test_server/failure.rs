//! How providers fail in tests.

use notify_sandbox::{Provider, Rule, ScriptedResponse};
use serde::Deserialize;

use crate::playground::unregistered;

/// How a provider fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Failure {
    /// The provider fails with 503. The server sends the message again later.
    Unavailable,
    /// The provider answers 429. The server sends the message again later.
    Throttled,
    /// The address is not registered any more: the app was removed, or the chat is closed. The server disables
    /// the device.
    Unregistered,
    /// The provider ends the request without a response, so the result is unknown. The server retries. On
    /// Messenger and Telegram it retries only once, because these platforms do not recognise a repeat.
    Disconnected,
}

impl Failure {
    /// The rule that makes all messages fail.
    pub(super) fn rule(self, provider: Provider) -> Rule {
        let response = match self {
            Self::Unavailable => ScriptedResponse::status(503),
            Self::Throttled => ScriptedResponse::status(429),
            Self::Unregistered => unregistered(provider),
            Self::Disconnected => ScriptedResponse::fault(notify_sandbox::Fault::Reset),
        };
        Rule::on(provider, response)
    }
}
