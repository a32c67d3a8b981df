//! The request log: the last messages in full, and counts of all messages. The log never holds a
//! credential. It keeps only the scheme of an `authorization` header.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use serde::Serialize;
use tokio::sync::watch;

use crate::script::{Environment, Provider};
use crate::state::lock;

/// A message and its response.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReceivedRequest {
    /// The time of receipt, in unix milliseconds.
    pub at_ms: i64,
    /// The provider that received it.
    pub provider: Provider,
    /// The environment; only for APNs.
    pub environment: Option<Environment>,
    /// The device token, topic or condition. For Web Push, the last segment of the endpoint.
    pub token: Option<String>,
    /// The headers of the request by name. Several values of one name are joined by `, `.
    pub headers: BTreeMap<String, String>,
    /// The decrypted body as JSON, or as a string when it is not JSON.
    pub payload: serde_json::Value,
    /// The status of the response; 0 for a fault.
    pub status: u16,
    /// The reason of the response, or the name of the fault.
    pub reason: Option<String>,
    /// Whether the ending of the token selected the response.
    pub is_by_ending: bool,
    /// `apns-id`, FCM's `name`, a push service's `Location`, or the message id of a chat.
    pub message_id: Option<String>,
    /// The number of the connection, from 1.
    pub connection: u64,
    /// The HTTP/2 stream. On HTTP/1.1, the number of the request on its connection.
    pub stream: u32,
}

impl ReceivedRequest {
    /// Whether the message only checks a server's credentials, as `notify providers test` and
    /// `notify doctor` do. The token of such a message belongs to no device, or the message is a dry
    /// run.
    #[must_use]
    pub fn is_credential_check(&self) -> bool {
        match self.provider {
            Provider::Apns => {
                let token = self.token.as_deref().unwrap_or_default();
                !token.is_empty() && token.bytes().all(|digit| digit == b'0')
            }
            Provider::Fcm => self.payload["validate_only"] == true,
            Provider::WebPush | Provider::Messenger | Provider::Telegram | Provider::Oauth => false,
        }
    }

    /// The title that the recipient sees, or that an app gets to show. Chats have no titles.
    #[must_use]
    pub fn title(&self) -> Option<&str> {
        self.first_text(match self.provider {
            Provider::Apns => &["/aps/alert/title"],
            Provider::Fcm => &["/message/notification/title", "/message/data/title"],
            Provider::WebPush => &["/title"],
            Provider::Messenger | Provider::Telegram | Provider::Oauth => &[],
        })
    }

    /// The text that the recipient sees, or that an app gets to show.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.first_text(match self.provider {
            Provider::Apns => &["/aps/alert/body", "/aps/alert"],
            Provider::Fcm => &["/message/notification/body", "/message/data/body"],
            Provider::WebPush => &["/body"],
            Provider::Messenger => &[
                "/message/text",
                "/message/attachment/payload/text",
                "/message/attachment/payload/elements/0/title",
            ],
            Provider::Telegram => &["/text", "/caption"],
            Provider::Oauth => &[],
        })
    }

    /// The url that a tap opens; only of apps and browsers.
    #[must_use]
    pub fn url(&self) -> Option<&str> {
        self.first_text(match self.provider {
            Provider::Apns | Provider::WebPush => &["/url"],
            Provider::Fcm => &["/message/data/url"],
            Provider::Messenger | Provider::Telegram | Provider::Oauth => &[],
        })
    }

    /// The id of the notification; only of apps and browsers.
    #[must_use]
    pub fn notification_id(&self) -> Option<&str> {
        self.first_text(match self.provider {
            Provider::Apns => &["/notification_id"],
            Provider::Fcm => &["/message/data/notification_id"],
            Provider::WebPush => &["/data/notification_id"],
            Provider::Messenger | Provider::Telegram | Provider::Oauth => &[],
        })
    }

    fn first_text(&self, pointers: &[&str]) -> Option<&str> {
        pointers.iter().find_map(|pointer| self.payload.pointer(pointer)?.as_str())
    }

    /// Whether the system shows nothing of the message and only wakes the app: a background push of APNs,
    /// or a message of FCM with data alone.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        match self.provider {
            Provider::Apns => {
                self.headers.get("apns-push-type").is_some_and(|kind| kind == "background")
            }
            Provider::Fcm => {
                let message = &self.payload["message"];
                message.is_object() && message.get("notification").is_none()
            }
            Provider::WebPush | Provider::Messenger | Provider::Telegram | Provider::Oauth => false,
        }
    }
}

/// How often a provider gave one response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Count {
    /// The provider.
    pub provider: Provider,
    /// The status; 0 for a fault.
    pub status: u16,
    /// The reason; absent on success.
    pub reason: Option<String>,
    /// The number of times.
    pub count: u64,
}

/// All counts since the start or the last clear.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Messages received, with any response.
    pub received: u64,
    /// Messages that are no longer in the log.
    pub dropped: u64,
    /// Messages answered with success.
    pub accepted: u64,
    /// Distinct tokens of the accepted messages. `accepted` is higher when a token got several messages.
    pub accepted_tokens: u64,
    /// Connections opened.
    pub connections: u64,
    /// TLS handshakes that failed.
    pub failed_handshakes: u64,
    /// Streams refused because of the stream limit.
    pub refused_streams: u64,
    /// The number of times that each response was given.
    pub answers: Vec<Count>,
}

#[derive(Debug, Default)]
struct Inner {
    entries: VecDeque<ReceivedRequest>,
    dropped: u64,
    received: u64,
    accepted: u64,
    connections: u64,
    failed_handshakes: u64,
    refused_streams: u64,
    accepted_tokens: HashSet<(Provider, u64)>,
    answers: BTreeMap<(Provider, u16), BTreeMap<String, u64>>,
}

/// The log of the sandbox.
#[derive(Debug)]
pub(crate) struct RequestLog {
    entries_max: usize,
    inner: Mutex<Inner>,
    received: watch::Sender<u64>,
}

/// The provider, the token and the response by which a request is counted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CountKey<'a> {
    pub(crate) provider: Provider,
    pub(crate) token: Option<&'a str>,
    pub(crate) status: u16,
    pub(crate) reason: Option<&'a str>,
}

impl RequestLog {
    pub(crate) fn new(entries_max: usize) -> Self {
        Self { entries_max, inner: Mutex::default(), received: watch::Sender::new(0) }
    }

    /// Counts a message. Calls `entry` and keeps its result, unless the log keeps no entries.
    pub(crate) fn record(&self, key: CountKey<'_>, entry: impl FnOnce() -> ReceivedRequest) {
        let entry = (self.entries_max > 0).then(entry);
        let received = {
            let mut inner = self.inner();
            inner.count(key);
            inner.received += 1;
            match (key.status, key.token) {
                (200..300, Some(token)) => inner.accept(key.provider, token),
                (200..300, None) => inner.accepted += 1,
                _ => {}
            }
            if inner.entries.len() >= self.entries_max {
                inner.dropped += 1;
                inner.entries.pop_front();
            }
            inner.entries.extend(entry);
            inner.received
        };
        // Another thread with a higher count may have come first, and the published count must not fall.
        self.received.send_if_modified(|published| {
            let is_higher = *published < received;
            *published = (*published).max(received);
            is_higher
        });
    }

    /// Counts a request that is not a message.
    pub(crate) fn count(&self, key: CountKey<'_>) {
        self.inner().count(key);
    }

    pub(crate) fn connection_opened(&self) {
        self.inner().connections += 1;
    }

    pub(crate) fn handshake_failed(&self) {
        self.inner().failed_handshakes += 1;
    }

    pub(crate) fn stream_refused(&self) {
        self.inner().refused_streams += 1;
    }

    pub(crate) fn entries(&self) -> Vec<ReceivedRequest> {
        self.inner().entries.iter().cloned().collect()
    }

    /// The last `max` entries, oldest first, and the number of the newest entry, counted from 1.
    pub(crate) fn latest(&self, max: usize) -> (Vec<ReceivedRequest>, u64) {
        let inner = self.inner();
        let older = inner.entries.len().saturating_sub(max);
        (inner.entries.iter().skip(older).cloned().collect(), inner.received)
    }

    pub(crate) fn counts(&self) -> Counts {
        let inner = self.inner();
        let answers = inner.answers.iter().flat_map(|(&(provider, status), reasons)| {
            reasons.iter().map(move |(reason, &count)| Count {
                provider,
                status,
                reason: (!reason.is_empty()).then(|| reason.clone()),
                count,
            })
        });
        Counts {
            received: inner.received,
            dropped: inner.dropped,
            accepted: inner.accepted,
            accepted_tokens: inner.accepted_tokens.len() as u64,
            connections: inner.connections,
            failed_handshakes: inner.failed_handshakes,
            refused_streams: inner.refused_streams,
            answers: answers.collect(),
        }
    }

    /// Returns when `count` messages have arrived, or after `within`.
    pub(crate) async fn wait_for(&self, count: usize, within: Duration) {
        let mut received = self.received.subscribe();
        let enough = received.wait_for(|received| *received >= count as u64);
        // The caller sees by the length of the log whether the time ran out.
        let _ = tokio::time::timeout(within, enough).await;
    }

    pub(crate) fn clear(&self) {
        *self.inner() = Inner::default();
        self.received.send_replace(0);
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }
}

impl Inner {
    fn count(&mut self, key: CountKey<'_>) {
        let reasons = self.answers.entry((key.provider, key.status)).or_default();
        let reason = key.reason.unwrap_or_default();
        match reasons.get_mut(reason) {
            Some(count) => *count += 1,
            None => drop(reasons.insert(reason.to_owned(), 1)),
        }
    }

    /// Counts an accepted message and stores a 64-bit hash of its token. A million hashes take 32 MB. Two
    /// of a million tokens have the same hash in one of forty million runs.
    fn accept(&mut self, provider: Provider, token: &str) {
        let mut hasher = DefaultHasher::new();
        token.hash(&mut hasher);
        self.accepted_tokens.insert((provider, hasher.finish()));
        self.accepted += 1;
    }
}

/// The headers as the log keeps them: without credentials.
pub(crate) fn logged_headers(headers: &HeaderMap) -> BTreeMap<String, String> {
    let mut logged = BTreeMap::<String, String>::new();
    for (name, value) in headers {
        let text = String::from_utf8_lossy(value.as_bytes());
        let text = if name == AUTHORIZATION {
            format!("{} ***", text.split(' ').next().unwrap_or_default())
        } else {
            text.into_owned()
        };
        logged
            .entry(name.as_str().to_owned())
            .and_modify(|joined| {
                joined.push_str(", ");
                joined.push_str(&text);
            })
            .or_insert(text);
    }
    logged
}
