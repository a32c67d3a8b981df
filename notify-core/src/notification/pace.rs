//! How fast a notification goes to its audience: `per_minute`, and `canary`, which sends to a share of the
//! devices first.

use serde::{Deserialize, Serialize};

use crate::field::{Integer, Model, ModelFields, NameOf, Required};
use crate::notification::CreateNotification;
use crate::request::model;
use crate::violations::{Path, Validator};
use crate::wire_enum::wire_enum;

/// Largest `per_minute`.
pub const PER_MINUTE_MAX: u32 = 1_000_000;
/// Largest share of the devices in a canary, in percent.
pub const CANARY_PERCENT_MAX: u32 = 50;
/// Shortest time after the last first attempt of a canary until it is judged, in seconds.
pub const CANARY_WAIT_SECONDS_MIN: u32 = 60;
/// Longest time after the last first attempt of a canary until it is judged, in seconds: a day.
pub const CANARY_WAIT_SECONDS_MAX: u32 = 86_400;
/// `wait_seconds` of a canary when it is absent.
pub const CANARY_WAIT_SECONDS_DEFAULT: u32 = 600;
/// `max_failed_percent` of a canary when it is absent.
pub const CANARY_FAILED_PERCENT_DEFAULT: u32 = 5;

wire_enum! {
    /// What happens after a canary that did not fail.
    #[derive(Default)]
    pub enum CanaryThen {
        /// The other devices get the notification.
        #[default]
        Continue = "continue",
        /// The notification pauses until a request resumes it.
        Pause = "pause",
    }
}

model! {
    /// A share of the devices that gets the notification first. The other devices get it only if few
    /// deliveries to these fail.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct Canary with CanaryFields {
        /// Share of the devices, 1 to 50 percent. Required.
        pub percent: Option<u32> as Required<Integer<1, CANARY_PERCENT_MAX>>,
        /// How long after the last first attempt the canary is judged, 60 to 86,400 seconds; 600 when
        /// absent.
        pub wait_seconds: Option<u32> as Integer<CANARY_WAIT_SECONDS_MIN, CANARY_WAIT_SECONDS_MAX>,
        /// The canary fails if more of its deliveries than this failed or are still pending, 0 to 100
        /// percent; 5 when absent. The notification then pauses.
        pub max_failed_percent: Option<u32> as Integer<0, 100>,
        /// `continue` or `pause`: what happens after a canary that did not fail; `continue` when absent.
        pub then: Option<String> as NameOf<CanaryThen>,
    }
}

/// The validated form of [`Canary`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CanaryPlan {
    /// Share of the devices, 1 to 50 percent.
    pub percent: u32,
    /// How long after the last first attempt the canary is judged, in seconds.
    pub wait_seconds: u32,
    /// Most failed or pending deliveries of a canary that has not failed, in percent.
    pub max_failed_percent: u32,
    /// What happens after a canary that did not fail.
    pub then: CanaryThen,
}

impl Canary {
    /// A canary of this share of the devices, 1 to 50 percent, with the default values.
    #[must_use]
    pub fn percent(percent: u32) -> Self {
        Self { percent: Some(percent), ..Self::default() }
    }
}

impl Model for Canary {
    type Valid = CanaryPlan;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<CanaryPlan> {
        let fields = self.check_fields(at, validator)?;
        Some(CanaryPlan {
            percent: fields.percent?,
            wait_seconds: fields.wait_seconds.unwrap_or(CANARY_WAIT_SECONDS_DEFAULT),
            max_failed_percent: fields.max_failed_percent.unwrap_or(CANARY_FAILED_PERCENT_DEFAULT),
            then: fields.then.unwrap_or_default(),
        })
    }
}

impl CreateNotification {
    /// Most first attempts per minute, over all platforms.
    ///
    /// ```
    /// use notify_core::{CreateNotification, Platform, Request, Timestamp};
    ///
    /// let notification = CreateNotification::to_platforms([Platform::Ios], "The sale begins")
    ///     .per_minute(10_000);
    /// assert!(notification.validate(Timestamp(0)).is_ok());
    /// ```
    #[must_use]
    pub fn per_minute(mut self, deliveries: u32) -> Self {
        self.per_minute = Some(deliveries);
        self
    }

    /// Sends to a share of the devices first, and to the others only if few of these deliveries fail.
    ///
    /// ```
    /// use notify_core::{Canary, CreateNotification, Platform, Request, Timestamp};
    ///
    /// let notification = CreateNotification::to_platforms([Platform::Ios], "The sale begins")
    ///     .canary(Canary::percent(5));
    /// assert!(notification.validate(Timestamp(0)).is_ok());
    /// ```
    #[must_use]
    pub fn canary(mut self, canary: Canary) -> Self {
        self.canary = Some(canary);
        self
    }
}
