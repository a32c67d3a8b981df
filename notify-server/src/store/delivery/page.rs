//! Pages: how they are claimed, and what is committed of them.

use std::borrow::Cow;

use notify_core::{IosEnv, Timestamp};

use super::{Epoch, NewRetry};
use crate::store::{DeviceKey, DeviceOutcome, DispatchNo, PageNo};

/// A claim of the next page of a dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageClaim {
    /// The dispatch.
    pub dispatch: DispatchNo,
    /// Where its cursor was when the slice was read.
    pub from: DeviceKey,
    /// Last key of the slice.
    pub to: DeviceKey,
    /// Whether the audience ends there.
    pub end: bool,
    /// Eligible devices with an address that the slice showed.
    pub targeted: u64,
    /// Named devices of the slice that are left out.
    pub excluded: u64,
    /// Who claims.
    pub epoch: Epoch,
    /// Until when.
    pub lease_until: Timestamp,
    /// Now.
    pub at: Timestamp,
}

/// A page: the keys in `(from, to]` of a dispatch, worked on by one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenPage {
    /// Number.
    pub no: PageNo,
    /// Its dispatch.
    pub dispatch: DispatchNo,
    /// The key before its first.
    pub from: DeviceKey,
    /// Its last key.
    pub to: DeviceKey,
    /// Who works on it.
    pub epoch: Epoch,
    /// How many checkpoints it has; the next one carries this number.
    pub checkpoint_no: i64,
    /// Until when the process may work on it without renewing.
    pub lease_until: Timestamp,
}

/// A provider's report that an address is dead.
#[derive(Clone, PartialEq, Eq)]
pub struct DeadAddress {
    /// The device.
    pub key: DeviceKey,
    /// The address that was sent to: a device that has another one now is spared.
    pub address: Box<str>,
    /// The APNs host that it was sent to: a device that has another one now is spared too (B22).
    pub ios_env: IosEnv,
    /// The provider's word.
    pub reason: Cow<'static, str>,
    /// Since when; a device registered later is spared (B22).
    pub since: Option<Timestamp>,
    /// When the report came.
    pub at: Timestamp,
    /// For a report that a wrong key or host looks the same as: answers since the last such one. Many
    /// of them within a thousand answers stop disabling (B40).
    pub ambiguous: Option<u32>,
}

/// An address that took its first message.
#[derive(Clone, PartialEq, Eq)]
pub struct VerifiedAddress {
    /// The device.
    pub key: DeviceKey,
    /// The address that was sent to: a device that has another one now stays unverified.
    pub address: Box<str>,
}

impl std::fmt::Debug for VerifiedAddress {
    /// Never shows the address.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VerifiedAddress").field("key", &self.key).finish_non_exhaustive()
    }
}

/// A provider's report that an address is another one now.
#[derive(Clone, PartialEq, Eq)]
pub struct MovedAddress {
    /// The device.
    pub key: DeviceKey,
    /// The address that was sent to: a device that has another one now keeps it.
    pub from: Box<str>,
    /// The new one.
    pub to: Box<str>,
    /// When the report came.
    pub at: Timestamp,
}

impl std::fmt::Debug for MovedAddress {
    /// Never shows the addresses.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MovedAddress").field("key", &self.key).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for DeadAddress {
    /// Never shows the address.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeadAddress").field("key", &self.key).finish_non_exhaustive()
    }
}

/// What happened on a page since its last checkpoint; committed as one.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// The page, as the worker knows it. Compared with the row's epoch and checkpoint number.
    pub page: OpenPage,
    /// Deliveries that ended.
    pub settled: Vec<DeviceOutcome>,
    /// Deliveries that become rows of their own.
    pub retries: Vec<NewRetry>,
    /// Addresses to disable.
    pub dead: Vec<DeadAddress>,
    /// Addresses to replace.
    pub moved: Vec<MovedAddress>,
    /// Addresses that took their first message.
    pub verified: Vec<VerifiedAddress>,
    /// Devices known now to be targeted on this page, settled and retried ones included.
    pub targeted: u64,
    /// Named devices of this page that were left out (B20).
    pub excluded: u64,
    /// When this happened.
    pub at: Timestamp,
    /// The new end of the lease.
    pub lease_until: Timestamp,
    /// Whether nothing of the page is left.
    pub finished: bool,
}
