//! The storage boundary: traits by resource, each operation named after what the product does and
//! each one transaction. SQL stores and selects, Rust decides: ids, times, percentages and retry
//! times come in as values. No other part of the server knows a backend.
//!
//! To add an operation: declare it in the trait of its resource here, write it in the file of the
//! same name in `sql/`, and state its promises in `contract/`.

mod app;
mod campaign;
mod change;
mod channel;
#[cfg(any(test, feature = "testing"))]
pub mod contract;
mod delivery;
mod device;
mod engagement;
mod error;
mod event;
mod facts;
mod feed;
mod inbound;
mod key;
#[cfg(test)]
mod leading;
pub mod moving;
mod notification;
mod once;
mod outcome;
mod page;
mod patience;
mod poll;
pub mod postgres;
mod provider;
pub mod sql;
pub mod sqlite;
mod upkeep;
mod web;
mod webhook;

pub use app::*;
pub use campaign::*;
pub use change::*;
pub use channel::*;
pub use delivery::*;
pub use device::*;
pub use engagement::*;
pub use error::*;
pub use event::*;
pub use facts::*;
pub use feed::*;
pub use inbound::*;
pub use key::*;
pub use notification::*;
pub use once::*;
pub use outcome::*;
pub use page::*;
pub(crate) use patience::{patiently, with_patience};
pub use poll::*;
pub use provider::*;
pub use upkeep::*;
pub use web::*;
pub use webhook::*;

use std::sync::Arc;

use notify_core::Timestamp;

/// Everything that is kept.
#[async_trait::async_trait]
pub trait Store:
    AppStore
    + ProviderStore
    + DeviceStore
    + NotificationStore
    + DeliveryStore
    + ChannelStore
    + CampaignStore
    + FeedStore
    + PollStore
    + InboundStore
    + EngagementStore
    + UpkeepStore
    + EventStore
    + WebhookStore
    + WebStore
    + Send
    + Sync
    + 'static
{
    /// Answers once storage can be read and written; `readyz` asks this.
    ///
    /// # Errors
    /// When it cannot.
    async fn check(&self) -> Result<(), StoreError>;

    /// Whether the files of the storage are those that were opened. Looks at each call.
    ///
    /// # Errors
    /// When one was deleted or replaced: writes fail from then on.
    fn in_place(&self) -> Result<(), sql::Gone>;

    /// What the clock of the storage says, where several servers share it; `None` where they do not.
    ///
    /// # Errors
    /// When it cannot be asked.
    async fn time(&self) -> Result<Option<Timestamp>, StoreError>;

    /// Tells `listener` of every change, after its commit and before its caller is answered.
    fn subscribe(&self, listener: Arc<dyn ChangeListener>);

    /// Writes what is still held back, and lets go of the storage. Later calls fail.
    async fn close(&self);
}

/// The store, as everything holds it.
pub type SharedStore = Arc<dyn Store>;
