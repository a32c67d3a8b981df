//! Inbound events: what people do on Messenger and in chats, as these platforms report it to the
//! webhooks of the server.

use notify_core::{AnswerId, DeviceId, Endpoint, NotificationId, Platform, Timestamp};

use crate::store::device::inbound;
use crate::store::sql::WriteScope;
use crate::store::sql::row::require_app;
use crate::store::{AppNo, Operation, Store, StoreError};

/// The shortest interval at which the time of a person's last message is stored, in milliseconds. A
/// person who writes continuously causes one write a minute.
pub const INBOUND_WRITTEN_EVERY_MS: i64 = 60_000;

/// The sender of an inbound event: a person or a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recipient {
    /// A person on Messenger, by their page-scoped id.
    Messenger(String),
    /// A chat with the bot, or a topic of a group, as [`notify_core::chat_id`] spells it.
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

    /// The address of the device that stands for the person or chat.
    #[must_use]
    pub fn address(&self) -> &str {
        match self {
            Self::Messenger(id) | Self::Chat(id) => id,
        }
    }

    /// The endpoint of a subscription with this address.
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
    /// The person or chat.
    pub who: Recipient,
    /// When it happened, by the clock of the platform, and never in the future. `None` if the
    /// platform does not report the time. The event then does not count as activity of the person.
    pub at: Option<Timestamp>,
    /// The action.
    pub act: InboundAction,
}

/// The action of an inbound event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InboundAction {
    /// The person wrote or started the chat. An unknown person is registered. A device that was
    /// disabled as unregistered before the event is enabled again.
    Wrote(NewContact),
    /// The person unblocked the application. A device that was disabled as unregistered before the
    /// event is enabled again. An unknown person is not registered.
    Returned,
    /// The person blocked the application. The device is disabled as unregistered, unless the
    /// person was active later.
    Left,
    /// The person pressed the button of a poll answer. A device votes once in each poll.
    Voted {
        /// The poll.
        poll: NotificationId,
        /// The answer.
        answer: AnswerId,
    },
}

/// The data with which an unknown person is registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewContact {
    /// The generated id, for a device that has no requested id.
    pub generated_id: DeviceId,
    /// The id from the link that the person followed. It is used only for a new device, and only if
    /// no device of the application has it, so that a chat cannot take over another device's id.
    pub requested_id: Option<DeviceId>,
    /// The language code, if the platform reports it.
    pub language: Option<String>,
}

impl Store {
    /// Applies inbound events in order, in one transaction. If none of them changes anything,
    /// nothing is written. A repeated event changes nothing. Events about an unknown device, poll
    /// or answer are ignored.
    pub async fn take_inbound(
        &self,
        app: AppNo,
        events: Vec<Inbound>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        // Most events change nothing. A read finds that out and saves the commit. The read checks
        // each event alone against the current state. This is enough: if no event changes the
        // state, each event still meets the same state when all are applied in order.
        let (events, has_changes) = self
            .read(move |connection| {
                require_app(connection, app)?;
                for event in &events {
                    if inbound::changes_anything(connection, app, event)? {
                        return Ok((events, true));
                    }
                }
                Ok((events, false))
            })
            .await?;
        if !has_changes {
            return Ok(());
        }
        self.write_to(WriteScope::app(app), Operation::TakeInbound, move |tx| {
            require_app(tx, app)?;
            events.iter().try_for_each(|event| inbound::apply(tx, app, event, now))
        })
        .await
    }
}
