//! What the sandbox saw, told by device: who got it, who got it twice, and who was left out.

use std::collections::{BTreeMap, HashSet};

use notify_server::sandbox::{Provider, Received};
use serde_json::Value;

/// All messages of one notification, by token, each list in the order it came.
#[derive(Debug)]
pub struct Ledger {
    by_token: BTreeMap<String, Vec<Received>>,
}

impl Ledger {
    /// Sorts a journal by token.
    #[must_use]
    pub fn of(journal: Vec<Received>) -> Self {
        let mut by_token: BTreeMap<String, Vec<Received>> = BTreeMap::new();
        for message in journal {
            let token = message.token.clone().unwrap_or_default();
            by_token.entry(token).or_default().push(message);
        }
        Self { by_token }
    }

    /// Devices whose message the provider took.
    #[must_use]
    pub fn reached(&self) -> usize {
        let took = |messages: &&Vec<Received>| messages.iter().any(taken);
        self.by_token.values().filter(took).count()
    }

    /// For each message that was taken and yet followed by another to the same device: the first
    /// of the two.
    #[must_use]
    pub fn repeated(&self) -> Vec<&Received> {
        let taken = |messages: &'_ [Received]| -> Vec<usize> {
            let numbered = messages.iter().enumerate();
            numbered.filter(|(_, one)| taken(one)).map(|(place, _)| place).collect()
        };
        let mut repeated = Vec::new();
        for messages in self.by_token.values() {
            let places = taken(messages);
            let last = messages.len() - 1;
            repeated.extend(places.iter().filter(|at| **at < last).map(|at| &messages[*at]));
        }
        repeated
    }

    /// Every collapse identity that came (B36).
    #[must_use]
    pub fn identities(&self) -> HashSet<String> {
        self.by_token.values().flatten().map(identity).collect()
    }
}

/// Whether the provider took it; push services answer 201.
fn taken(message: &Received) -> bool {
    (200..300).contains(&message.status)
}

/// By what a device recognises a repeat (B36).
fn identity(message: &Received) -> String {
    match message.provider {
        Provider::Apns => message.headers.get("apns-collapse-id").cloned().unwrap_or_default(),
        Provider::WebPush => message.headers.get("topic").cloned().unwrap_or_default(),
        // Nothing by which a chat would know a repeat.
        Provider::Messenger | Provider::Telegram => String::new(),
        Provider::Fcm | Provider::Oauth => {
            let tag = &message.payload["message"]["android"]["notification"]["tag"];
            tag.as_str().map_or_else(|| Value::to_string(tag), str::to_owned)
        }
    }
}
