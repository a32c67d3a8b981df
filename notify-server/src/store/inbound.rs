//! What people do on Messenger and in chats, as these platforms report it to their webhooks.

use notify_core::{AnswerId, DeviceId, Endpoint, NotificationId, Platform, Timestamp};

use crate::store::device::inbound;
use crate::store::sql::row::require_app;
use crate::store::{AppNo, Operation, Store, StoreError};

/// The time of a person's last message is written at most this often, in milliseconds: a person who
/// writes continuously causes one write a minute.
pub const INBOUND_WRITTEN_EVERY_MS: i64 = 60_000;

/// A person or chat.
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

/// An inbound event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inbound {
    /// Who.
    pub who: Recipient,
    /// When, by the platform's clock and never in the future. `None` if the platform does not report
    /// it; the event then does not count as a sign of life.
    pub at: Option<Timestamp>,
    /// What.
    pub act: InboundAction,
}

/// The action of an inbound event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InboundAction {
    /// The person wrote or started the chat. An unknown person is registered; a device that was
    /// reported as unregistered before that is enabled again.
    Wrote(NewContact),
    /// The person unblocked us. A device that was reported as unregistered before that is enabled
    /// again. An unknown person is not registered.
    Returned,
    /// The person blocked us. The device is disabled as unregistered unless a newer event is known.
    Left,
    /// The person pressed the button of a poll answer. It counts once per device and poll.
    Voted {
        /// The poll.
        poll: NotificationId,
        /// The answer.
        answer: AnswerId,
    },
}

/// How an unknown person is registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewContact {
    /// The generated id for a new device.
    pub generated_id: DeviceId,
    /// The id from the link that the person followed. It is used only for a new device, and only if no
    /// device of the application has it, so that a chat cannot take over another device's id.
    pub requested_id: Option<DeviceId>,
    /// Language code.
    pub language: Option<String>,
}

impl Store {
    /// Applies inbound events in order, in one transaction. Nothing is written if none of them changes
    /// anything. Repeats change nothing. Events that name an unknown device, poll or answer are
    /// ignored.
    pub async fn take_inbound(
        &self,
        app: AppNo,
        acts: Vec<Inbound>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        // Most messages change nothing, and finding that out costs no commit. An event that changes
        // nothing by itself changes nothing after others that change nothing.
        let (acts, has_changes) = self
            .read(move |connection| {
                require_app(connection, app)?;
                for act in &acts {
                    if inbound::changes_anything(connection, app, act)? {
                        return Ok((acts, true));
                    }
                }
                Ok((acts, false))
            })
            .await?;
        if !has_changes {
            return Ok(());
        }
        self.write(Operation::TakeInbound, move |tx| {
            require_app(tx, app)?;
            acts.iter().try_for_each(|act| inbound::take(tx, app, act, now))
        })
        .await
    }
}
