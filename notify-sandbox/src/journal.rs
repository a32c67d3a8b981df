//! What was received: the last messages in full, and counts that are never dropped. Never holds
//! a credential: of `authorization` only its kind is kept.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use serde::Serialize;
use tokio::sync::watch;

use super::answer::{Environment, Provider};

/// One message, and what it was answered.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Received {
    /// When, in unix milliseconds.
    pub at_ms: i64,
    /// By whom.
    pub provider: Provider,
    /// APNs: by which host.
    pub environment: Option<Environment>,
    /// The device token, topic or condition that was named; of a browser the end of its endpoint.
    pub token: Option<String>,
    /// Its headers by name; several of one name are joined by `, `.
    pub headers: BTreeMap<String, String>,
    /// The body, decrypted: as JSON where it is that, else as text.
    pub payload: serde_json::Value,
    /// The answer's status; 0 where a fault stood in its place.
    pub status: u16,
    /// The answer's reason, or the fault's name.
    pub reason: Option<String>,
    /// `apns-id`, the `name` of FCM's success, or the `Location` of a push service's.
    pub message_id: Option<String>,
    /// The number of its connection, from 1.
    pub connection: u64,
    /// Its HTTP/2 stream, or the count of requests before it and itself on HTTP/1.1.
    pub stream: u32,
}

/// How often one answer was given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Count {
    /// By whom.
    pub provider: Provider,
    /// The status; 0 for a fault.
    pub status: u16,
    /// The reason; absent for a success.
    pub reason: Option<String>,
    /// How often.
    pub count: u64,
}

/// All counts since the start or the last clearing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Messages received, whatever they were answered.
    pub received: u64,
    /// How many of these the journal dropped again.
    pub dropped: u64,
    /// Messages answered with success.
    pub accepted: u64,
    /// Distinct tokens among the accepted: the difference is what some phone got twice.
    pub accepted_tokens: u64,
    /// Connections opened.
    pub connections: u64,
    /// TLS handshakes that came to nothing.
    pub failed_handshakes: u64,
    /// Streams refused for want of room.
    pub refused_streams: u64,
    /// By answer.
    pub answers: Vec<Count>,
}

#[derive(Debug, Default)]
struct Inner {
    entries: VecDeque<Received>,
    dropped: u64,
    received: u64,
    accepted: u64,
    connections: u64,
    failed_handshakes: u64,
    refused_streams: u64,
    accepted_tokens: HashSet<(Provider, u64)>,
    answers: BTreeMap<(Provider, u16), BTreeMap<String, u64>>,
}

/// The journal.
#[derive(Debug)]
pub(super) struct Journal {
    entries_max: usize,
    inner: Mutex<Inner>,
    received: watch::Sender<u64>,
}

/// The few words about a message that the counts need.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tally<'a> {
    pub(super) provider: Provider,
    pub(super) token: Option<&'a str>,
    pub(super) status: u16,
    pub(super) reason: Option<&'a str>,
}

impl Journal {
    pub(super) fn new(entries_max: usize) -> Self {
        Self { entries_max, inner: Mutex::default(), received: watch::Sender::new(0) }
    }

    /// Counts a message and, where entries are kept, keeps the one that `entry` makes.
    pub(super) fn record(&self, tally: Tally<'_>, entry: impl FnOnce() -> Received) {
        let entry = (self.entries_max > 0).then(entry);
        let received = {
            let mut inner = self.inner();
            inner.count(tally);
            inner.received += 1;
            match (tally.status, tally.token) {
                (200..300, Some(token)) => inner.accept(tally.provider, token),
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
        // Two recorders may get here in the other order; the count must not go back.
        self.received.send_if_modified(|seen| {
            let grows = *seen < received;
            *seen = (*seen).max(received);
            grows
        });
    }

    /// Counts a request that is no message.
    pub(super) fn count(&self, tally: Tally<'_>) {
        self.inner().count(tally);
    }

    pub(super) fn connection_opened(&self) {
        self.inner().connections += 1;
    }

    pub(super) fn handshake_failed(&self) {
        self.inner().failed_handshakes += 1;
    }

    pub(super) fn stream_refused(&self) {
        self.inner().refused_streams += 1;
    }

    pub(super) fn entries(&self) -> Vec<Received> {
        self.inner().entries.iter().cloned().collect()
    }

    /// The last entries, and the number of the newest, from 1.
    pub(super) fn latest(&self, max: usize) -> (Vec<Received>, u64) {
        let inner = self.inner();
        let older = inner.entries.len().saturating_sub(max);
        (inner.entries.iter().skip(older).cloned().collect(), inner.received)
    }

    pub(super) fn counts(&self) -> Counts {
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

    pub(super) async fn wait_for(&self, count: usize, within: Duration) {
        let mut received = self.received.subscribe();
        let enough = received.wait_for(|seen| *seen >= count as u64);
        // The caller sees by the journal's length whether time ran out.
        let _ = tokio::time::timeout(within, enough).await;
    }

    pub(super) fn clear(&self) {
        *self.inner() = Inner::default();
        self.received.send_replace(0);
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().expect("no holder of the journal panics")
    }
}

impl Inner {
    fn count(&mut self, tally: Tally<'_>) {
        let reasons = self.answers.entry((tally.provider, tally.status)).or_default();
        let reason = tally.reason.unwrap_or_default();
        match reasons.get_mut(reason) {
            Some(count) => *count += 1,
            None => drop(reasons.insert(reason.to_owned(), 1)),
        }
    }

    /// Tokens are remembered by a 64-bit hash: a million cost 32 MB, and two of them meet once in
    /// forty million runs.
    fn accept(&mut self, provider: Provider, token: &str) {
        let mut hasher = DefaultHasher::new();
        token.hash(&mut hasher);
        self.accepted_tokens.insert((provider, hasher.finish()));
        self.accepted += 1;
    }
}

/// The headers as the journal shows them.
pub(super) fn shown_headers(headers: &HeaderMap) -> BTreeMap<String, String> {
    let mut shown = BTreeMap::<String, String>::new();
    for (name, value) in headers {
        let text = String::from_utf8_lossy(value.as_bytes());
        let text = if name == AUTHORIZATION {
            format!("{} ***", text.split(' ').next().unwrap_or_default())
        } else {
            text.into_owned()
        };
        shown
            .entry(name.as_str().to_owned())
            .and_modify(|joined| {
                joined.push_str(", ");
                joined.push_str(&text);
            })
            .or_insert(text);
    }
    shown
}
