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
}
