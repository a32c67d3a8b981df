//! Idempotency (B8): a key, and an answer committed with the effect.

use notify_core::Timestamp;

/// How long an answer is kept for replay, in milliseconds (B8: 24 hours).
pub const REPLAY_KEPT_MS: i64 = 24 * 3_600_000;

/// A POST that may be sent again.
#[derive(Debug, Clone)]
pub struct Once {
    /// Path of the request; with the application the scope of the key.
    pub path: String,
    /// The `Idempotency-Key`.
    pub key: String,
    /// SHA-256 of the body's bytes.
    pub digest: [u8; 32],
    /// When the request came in.
    pub at: Timestamp,
}

/// What a write that may be repeated came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done<T> {
    /// It happened now; with a [`Once`], the JSON of this answer is committed beside the effect.
    Now(T),
    /// It happened before: the JSON of the answer then. Nothing was written.
    Before(String),
}
