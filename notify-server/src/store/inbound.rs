//! What people do on Messenger and in chats, as the webhooks of these platforms tell it (B25, B32,
//! B40).

use notify_core::{AnswerId, DeviceId, Endpoint, NotificationId, Platform, Timestamp};

use crate::store::device::inbound;
use crate::store::sql::row::live_app;
use crate::store::{AppNo, Operation, Store, StoreError};

/// How old the kept time of a person's last message gets before a newer one is written, in
/// milliseconds: someone who writes without pause costs one write a minute.
pub const INBOUND_WRITTEN_EVERY_MS: i64 = 60_000;

/// Who is at the other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recipient {
    /// A person on Messenger, by page-scoped id.
    Messenger(String),
    /// A chat of the bot, by its id.
    Chat(String),
}

impl Recipient {
    /// The platform.
    #[must_use]
    pub fn platform(&self) -> Platform {
        match self {
            Self::Messenger(_) => Platform::FbMessenger,
            Self::Chat(_) => Platform::ChatApp,
        }
    }

    /// The address of their device.
    #[must_use]
    pub fn address(&self) -> &str {
        match self {
            Self::Messenger(id) | Self::Chat(id) => id,
        }
    }

    /// The address as a subscription names it.
    #[must_use]
    pub fn into_endpoint(self) -> Endpoint {
        match self {
            Self::Messenger(recipient_id) => Endpoint::FbMessenger { recipient_id },
            Self::Chat(recipient_id) => Endpoint::ChatApp { recipient_id },
        }
    }
}

/// Something that a person did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inbound {
    /// Who.
    pub who: Recipient,
    /// When, by the platform's clock and not in the future. `None` where the platform does not say:
    /// then it proves nothing about when somebody was there.
    pub at: Option<Timestamp>,
    /// What.
    pub act: Act,
}

/// What a person did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Wrote or began: whoever is unknown is registered; a device that was reported dead before
    /// that is alive.
    Wrote(Newcomer),
    /// Let us in again: a device that was reported dead before that is alive. Registers nobody.
    Returned,
    /// Locked us out: the device is disabled as unregistered, unless something newer is known.
    Left,
    /// Pressed the button of an answer: counts once per device and poll (B32).
    Voted {
        /// The poll.
        poll: NotificationId,
        /// The answer.
        answer: AnswerId,
    },
}

/// How someone unknown is registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Newcomer {
    /// The id for a new device.
    pub made: DeviceId,
    /// An id that the person brought along in a link. It is taken for a new device alone, and only
    /// while no device of the application has it: nobody gets what another one's id stands for.
    pub brought: Option<DeviceId>,
    /// Language code.
    pub language: Option<String>,
}

impl Store {
    /// Takes note of what people did, in order, in one transaction; nothing is written when nothing
    /// of it is news. Taking the same again changes nothing. What names an unknown device, poll or
    /// answer is passed over.
    pub async fn take_inbound(
        &self,
        app: AppNo,
        acts: Vec<Inbound>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        // Most of what a chatty person writes is no news, and finding that out costs no commit.
        // What is no news by itself is none after other things that are none.
        let (acts, news) = self
            .read(move |connection| {
                live_app(connection, app)?;
                for act in &acts {
                    if inbound::is_news(connection, app, act)? {
                        return Ok((acts, true));
                    }
                }
                Ok((acts, false))
            })
            .await?;
        if !news {
            return Ok(());
        }
        self.write(Operation::TakeInbound, move |tx| {
            live_app(tx, app)?;
            acts.iter().try_for_each(|act| inbound::take(tx, app, act, now))
        })
        .await
    }
}
