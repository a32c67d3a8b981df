//! What servers tell each other of their channels: that one is held, paused or fails, and that it is
//! open again.

use async_trait::async_trait;
use notify_core::{Platform, Timestamp};

use super::{AppNo, Epoch, StoreError};

/// How long a channel that is open again is remembered, in milliseconds: a day, far longer than any
/// server goes without looking.
pub(crate) const OPEN_REMEMBERED_MS: i64 = 86_400_000;

/// What a word is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelPlace {
    /// Whose channel.
    pub app: AppNo,
    /// On which platform.
    pub platform: Platform,
    /// The push service, or the host, behind it; empty for the provider as a whole.
    pub service: Box<str>,
}

/// How a channel stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChannelWord {
    /// Deliveries go out.
    Open,
    /// The provider asked to slow down.
    Paused {
        /// Until when.
        until: Timestamp,
    },
    /// The provider refuses our credentials.
    Held {
        /// Its word.
        reason: Box<str>,
        /// When one delivery is tried as a probe.
        probe_at: Timestamp,
    },
    /// The provider cannot be reached, or fails.
    Failing {
        /// When one delivery is tried as a probe.
        probe_at: Timestamp,
    },
    /// Released by an administrator alone (B40).
    Stopped,
}

/// The latest word about a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelTold {
    /// Grows with each word about any channel.
    pub no: i64,
    /// What it is about.
    pub place: ChannelPlace,
    /// The word.
    pub word: ChannelWord,
    /// Whose; nobody's where an administrator released it, or the guard stopped it.
    pub by: Option<Epoch>,
}

/// A word that a server has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewWord {
    /// What it is about.
    pub place: ChannelPlace,
    /// The word.
    pub word: ChannelWord,
    /// Whose.
    pub by: Epoch,
    /// Number of the latest word that the server knows; 0 when it knows none.
    pub known: i64,
    /// When it is said.
    pub at: Timestamp,
}

/// What servers tell each other of their channels.
#[async_trait]
pub trait ChannelStore {
    /// Tells the others a word, unless there is a later one than the server knows: answers the latest
    /// word now. [`StoreError::NotFound`] when the application is gone.
    async fn tell_channel(&self, new: NewWord) -> Result<ChannelTold, StoreError>;

    /// Words after that number, of one application's platform or of all, the oldest first, at most
    /// `limit`.
    async fn channels_told(
        &self,
        of: Option<(AppNo, Platform)>,
        after: i64,
        limit: u32,
    ) -> Result<Vec<ChannelTold>, StoreError>;
}
