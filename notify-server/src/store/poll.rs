//! Polls and their answers (B14, B32).

use async_trait::async_trait;
use notify_core::{AnswerId, NotificationId, PollLayout, PollVote, Success, Timestamp};

use super::{AppNo, Done, Once, StoreError};

/// A poll as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PollRow {
    /// Id, that of its notification.
    pub id: NotificationId,
    /// Secret part of its public address.
    pub public_id: uuid::Uuid,
    /// The question.
    pub text: String,
    /// Layout.
    pub layout_id: PollLayout,
    /// Image.
    pub image_url: Option<String>,
    /// Language of the application when the poll was made.
    pub lang: String,
    /// Creation.
    pub created_at: Timestamp,
    /// Answers in order.
    pub answers: Vec<AnswerRow>,
}

/// An answer of a poll as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerRow {
    /// Id.
    pub id: AnswerId,
    /// Text.
    pub text: String,
    /// Image.
    pub image_url: Option<String>,
    /// How often it was chosen.
    pub clicks: u64,
}

/// Who answers on the page of a poll: half of the SHA-256 of a random id, which is not kept itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visitor(pub [u8; 16]);

impl Visitor {
    /// The visitor of that hash.
    #[must_use]
    pub fn of(hash: &[u8; 32]) -> Self {
        let mut half = [0; 16];
        half.copy_from_slice(&hash[..16]);
        Self(half)
    }
}

/// Polls.
#[async_trait]
pub trait PollStore {
    /// Reads a poll.
    async fn poll(&self, app: AppNo, id: NotificationId) -> Result<PollRow, StoreError>;

    /// Records an answer (B32): a device answers a poll once, a repeat changes nothing. An unknown
    /// poll or answer is [`StoreError::NotFound`], an unknown device is refused with its path.
    async fn answer_poll(
        &self,
        app: AppNo,
        poll: NotificationId,
        answer: AnswerId,
        vote: PollVote,
        at: (Timestamp, Option<Once>),
    ) -> Result<Done<Success>, StoreError>;

    /// Reads a poll by its public address, and which answer that visitor gave on its page. A poll of
    /// an application that is not active is unknown.
    async fn public_poll(
        &self,
        public_id: uuid::Uuid,
        visitor: Option<Visitor>,
    ) -> Result<(PollRow, Option<AnswerId>), StoreError>;

    /// Records the answer of a visitor: each answers a poll once, a repeat changes and writes
    /// nothing. One that counts is told as an event that names no device: a visitor is none, and is
    /// followed nowhere. An unknown poll is [`StoreError::NotFound`], an answer that is not its own is
    /// refused.
    async fn answer_public_poll(
        &self,
        public_id: uuid::Uuid,
        answer: AnswerId,
        visitor: Visitor,
        at: Timestamp,
    ) -> Result<(), StoreError>;
}
