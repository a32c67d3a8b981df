//! What goes on the wire to each provider (B15, B34 to B36), as pure functions: from a validated
//! notification to payload, headers and their size (B16). No I/O and no credentials.

pub mod apns;
pub(crate) mod fcm;
pub(crate) mod messenger;
pub(crate) mod telegram;
pub(crate) mod web_push;

mod around;
mod buttons;
mod collapse;
pub(crate) mod left_out;
pub(crate) mod poll_button;
mod preview;
mod shown;
mod size;
#[cfg(test)]
mod tests;

pub(crate) use around::Around;
pub(crate) use preview::{Preview, PreviewSettings, preview};
pub(crate) use size::check_size;

use notify_core::{AnswerId, Content, NotificationId, Platform, Priority, Timestamp};
use uuid::Uuid;

/// The public address of a poll (B32). `public_url` may end in a slash.
#[must_use]
pub(crate) fn poll_url(public_url: &str, public_id: Uuid) -> String {
    format!("{}/polls/{public_id}", public_url.trim_end_matches('/'))
}

/// What every payload is made from: one notification, as the engine or the API sees it.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    /// Id of the notification; a poll has the same (B14).
    pub id: &'a NotificationId,
    /// Name of the application: the title where the request names none (B34).
    pub app_name: &'a str,
    /// What is shown.
    pub content: &'a Content,
    /// Public page of the poll, when the content is one (B34).
    pub poll_url: Option<&'a str>,
    /// Ids of the poll's answers, in their order; empty unless the content is a poll.
    pub poll_answers: &'a [AnswerId],
    /// How soon to deliver.
    pub priority: Priority,
    /// The caller's own key of replacement (B36).
    pub collapse_key: Option<&'a str>,
    /// When the last try is worth making; `None` means one try (B19: `ttl_seconds` 0).
    pub expires_at: Option<Timestamp>,
    /// What is left of `ttl_seconds`.
    pub ttl_seconds: u32,
}

/// A payload that no provider would take (B16).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the payload for {platform} would be {bytes} {}, {limit} are allowed",
    size::unit(*.platform)
)]
pub struct TooLarge {
    /// The platform whose limit is broken.
    pub platform: Platform,
    /// Size of the payload; of the text in characters on Messenger and the chat app.
    pub bytes: usize,
    /// What the provider allows.
    pub limit: usize,
}
