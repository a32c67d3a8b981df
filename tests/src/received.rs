//! What the sandbox received, by device.

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

    /// Devices whose message the provider accepted.
    #[must_use]
    pub fn reached(&self) -> usize {
        let took = |messages: &&Vec<ReceivedRequest>| messages.iter().any(is_accepted);
        self.by_token.values().filter(took).count()
    }

    /// For each message that was accepted, and still followed by another to the same device, the first
    /// of the two.
    #[must_use]
    pub fn repeated(&self) -> Vec<&ReceivedRequest> {
        let accepted_places = |messages: &'_ [ReceivedRequest]| -> Vec<usize> {
            let numbered = messages.iter().enumerate();
            numbered.filter(|(_, message)| is_accepted(message)).map(|(place, _)| place).collect()
        };
        let mut repeated = Vec::new();
        for messages in self.by_token.values() {
            let places = accepted_places(messages);
            let last = messages.len() - 1;
            repeated.extend(places.iter().filter(|at| **at < last).map(|at| &messages[*at]));
        }
        repeated
    }

    /// Every collapse identity that arrived.
    #[must_use]
    pub fn identities(&self) -> HashSet<String> {
        self.by_token
            .values()
            .flatten()
            .map(|message| identity(message).unwrap_or_default())
            .collect()
    }
}

/// One message as the checker needs it, of any provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// Its text, which is the key of its request: the only mark that all five platforms carry.
    pub text: String,
    /// Token, end of the endpoint, person or chat.
    pub address: String,
    /// The provider that received it.
    pub provider: Provider,
    /// What lets a device recognise a repeat; `None` on the platforms without such a thing.
    pub identity: Option<String>,
    /// The status of the response; 0 for a fault.
    pub status: u16,
    /// The number of its connection.
    pub connection: u64,
    /// Time of arrival, in unix milliseconds.
    pub at_ms: i64,
}

impl Arrival {
    /// The relevant part of a message.
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

    /// Whether the provider accepted it.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        is_success(self.status)
    }

    /// Whether the provider refused it for good. Any other answer, and a fault, asks for another
    /// attempt. True to the errors that these suites ask the sandbox for, not to all there are.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(self.status, 400 | 404 | 410)
            || (self.status == 403 && self.provider == Provider::Telegram)
    }
}

fn is_success(status: u16) -> bool {
    (200..300).contains(&status)
}

/// Whether the provider accepted it; push services respond with 201.
fn is_accepted(message: &ReceivedRequest) -> bool {
    is_success(message.status)
}

/// Its visible text.
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

/// What lets a device recognise a repeat.
fn identity(message: &ReceivedRequest) -> Option<String> {
    match message.provider {
        Provider::Apns => message.headers.get("apns-collapse-id").cloned(),
        Provider::WebPush => message.headers.get("topic").cloned(),
        // Nothing by which a chat would know a repeat.
        Provider::Messenger | Provider::Telegram => None,
        Provider::Fcm | Provider::Oauth => {
            let tag = &message.payload["message"]["android"]["notification"]["tag"];
            Some(tag.as_str().map_or_else(|| Value::to_string(tag), str::to_owned))
        }
    }
}
