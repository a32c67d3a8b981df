//! What is known of one device and one notification (B38): facts, from which an explanation is made.

use notify_core::{NotificationStatus, Platform, Timestamp};

use super::Settled;

/// Everything that is known of one device and one notification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryFacts {
    /// The notification.
    pub notification: NotificationFacts,
    /// The device as it is now.
    pub device: DeviceFacts,
    /// How far the notification has come with the device.
    pub progress: Progress,
}

/// A notification, as far as it decides who gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotificationFacts {
    /// Where it stands.
    pub status: NotificationStatus,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When it is or was due; `None` for a report, and with a wall-clock time of each device.
    pub due_at: Option<Timestamp>,
    /// When sending began.
    pub started_at: Option<Timestamp>,
    /// When canceling was asked for.
    pub cancel_requested_at: Option<Timestamp>,
    /// Platforms of its target.
    pub platforms: Vec<Platform>,
    /// Whether it names devices.
    pub names_devices: bool,
    /// The tag that narrows its target.
    pub tag: Option<String>,
    /// The wall-clock time at which each device gets it, as if it were UTC (B19).
    pub local_time: Option<Timestamp>,
}

/// A device as it is now, as far as that decides what it gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceFacts {
    /// Platform.
    pub platform: Platform,
    /// Whether the notification names it, where it names devices.
    pub is_named: bool,
    /// Whether it has the tag of the notification set to true.
    pub has_tag: bool,
    /// Whether the user turned push off.
    pub push_disabled: bool,
    /// The provider's word that the address is dead, and when it came.
    pub dead: Option<(String, Timestamp)>,
    /// Whether it has an address.
    pub has_address: bool,
    /// The push service of its address, by origin; `None` on other platforms.
    pub service: Option<String>,
    /// Since when it has the address of another device, if it took one over.
    pub moved_at: Option<Timestamp>,
    /// First registration.
    pub created_at: Timestamp,
    /// Its offset from UTC, by which wall-clock times are meant.
    pub utc_offset_minutes: i32,
}

/// How far a notification has come with a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// It is not being sent on the device's platform, or not to this device.
    None,
    /// The device got its place after the audience was fixed.
    RegisteredLater,
    /// Its turn has not come: no page holds it yet.
    Ahead,
    /// A page that is being worked on holds it, without an outcome.
    InOpenPage,
    /// Its turn came and it has neither outcome nor retry: it was none to send to.
    PassedOver,
    /// It is tried again.
    Retrying {
        /// Attempts made.
        attempts: u16,
        /// When the first was made.
        first_attempt_at: Timestamp,
        /// Why the last one failed.
        reason: Option<String>,
        /// When the next is due.
        due_at: Timestamp,
    },
    /// It has its outcome.
    Settled {
        /// How it ended.
        settled: Settled,
        /// Why, unless it was sent.
        reason: Option<String>,
        /// Attempts made.
        attempts: u16,
        /// When the first was made, where that is kept.
        first_attempt_at: Option<Timestamp>,
        /// When the outcome was committed.
        at: Timestamp,
    },
}
