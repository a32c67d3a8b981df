//! The messages that the sandbox received.

use std::collections::{BTreeMap, HashSet};

use notify_sandbox::{Provider, ReceivedRequest};
use serde_json::Value;

/// All messages of one notification by token, in the order of arrival.
#[derive(Debug)]
pub struct ReceivedByToken {
    by_token: BTreeMap<String, Vec<ReceivedRequest>>,
}

impl ReceivedByToken {
    /// Groups received messages by token.
    #[must_use]
    pub fn of(journal: Vec<ReceivedRequest>) -> Self {
        let mut by_token: BTreeMap<String, Vec<ReceivedRequest>> = BTreeMap::new();
        for message in journal {
            let token = message.token.clone().unwrap_or_default();
            by_token.entry(token).or_default().push(message);
        }
        Self { by_token }
    }

    /// The number of devices whose provider accepted a message.
    #[must_use]
    pub fn reached(&self) -> usize {
        self.by_token.values().filter(|messages| messages.iter().any(is_accepted)).count()
    }

    /// The accepted messages after which the same device got another message, although it needed none.
    #[must_use]
    pub fn accepted_and_sent_again(&self) -> Vec<&ReceivedRequest> {
        let mut repeated = Vec::new();
        for messages in self.by_token.values() {
            let Some((_, earlier)) = messages.split_last() else { continue };
            repeated.extend(earlier.iter().filter(|message| is_accepted(message)));
        }
        repeated
    }

    /// All collapse identities of the messages.
    #[must_use]
    pub fn identities(&self) -> HashSet<String> {
        self.by_token
            .values()
            .flatten()
            .map(|message| identity(message).unwrap_or_default())
            .collect()
    }
}

/// The parts of a message that the checker needs, for any provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// The text, which is the key of the request. No other field arrives on all five platforms.
    pub text: String,
    /// The token, the last segment of the endpoint, the person or the chat.
    pub address: String,
    /// The provider that received it.
    pub provider: Provider,
    /// The value by which a device recognises a repeat; `None` on platforms that have no such value.
    pub identity: Option<String>,
    /// The status of the response; 0 for a fault.
    pub status: u16,
    /// The number of the connection.
    pub connection: u64,
    /// The time of arrival, in unix milliseconds.
    pub at_ms: i64,
}

impl Arrival {
    /// Takes the relevant parts of a message.
    #[must_use]
    pub fn of(message: &ReceivedRequest) -> Self {
        Self {
            text: text(message).unwrap_or_default().to_owned(),
            address: message.token.clone().unwrap_or_default(),
            provider: message.provider,
            identity: identity(message),
            status: message.status,
            connection: message.connection,
            at_ms: message.at_ms,
        }
    }

    /// Whether the provider accepted the message.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        is_success(self.status)
    }

    /// Whether the provider refused the message permanently. After any other error or a fault, the server
    /// tries again. The rule covers only the errors that the tests select, not all errors of the providers.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(self.status, 400 | 404 | 410)
            || (self.status == 403 && self.provider == Provider::Telegram)
    }
}

fn is_success(status: u16) -> bool {
    (200..300).contains(&status)
}

/// Whether the provider accepted the message.
fn is_accepted(message: &ReceivedRequest) -> bool {
    is_success(message.status)
}

/// The visible text of a message.
fn text(message: &ReceivedRequest) -> Option<&str> {
    let payload = &message.payload;
    let text = match message.provider {
        Provider::Apns => &payload["aps"]["alert"]["body"],
        Provider::Fcm | Provider::Oauth => &payload["message"]["notification"]["body"],
        Provider::WebPush => &payload["body"],
        Provider::Messenger => &payload["message"]["text"],
        Provider::Telegram => &payload["text"],
    };
    text.as_str()
}

/// The value by which a device recognises a repeat of the message.
fn identity(message: &ReceivedRequest) -> Option<String> {
    match message.provider {
        Provider::Apns => message.headers.get("apns-collapse-id").cloned(),
        Provider::WebPush => message.headers.get("topic").cloned(),
        // Chat messages have no collapse identity.
        Provider::Messenger | Provider::Telegram => None,
        Provider::Fcm | Provider::Oauth => {
            let tag = &message.payload["message"]["android"]["notification"]["tag"];
            Some(tag.as_str().map_or_else(|| Value::to_string(tag), str::to_owned))
        }
    }
}
