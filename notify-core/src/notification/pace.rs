//! How fast a notification goes to its audience: `per_minute`, and `canary`, which sends to a share of the
//! devices first.

use serde::{Deserialize, Serialize};

use crate::notification::CreateNotification;
use crate::request::model;
use crate::violations::{Path, REQUIRED, Validator, path};
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
    pub struct Canary {
        /// Share of the devices, 1 to 50 percent. Required.
        #[cfg_attr(feature = "openapi", schema(value_type = u32, required = true))]
        pub percent: Option<u32> = |object| object.u32("percent", u32::MAX),
        /// How long after the last first attempt the canary is judged, 60 to 86,400 seconds; 600 when
        /// absent.
        pub wait_seconds: Option<u32> = |object| object.u32("wait_seconds", u32::MAX),
        /// The canary fails if more of its deliveries than this failed or are still pending, 0 to 100
        /// percent; 5 when absent. The notification then pauses.
        pub max_failed_percent: Option<u32> = |object| object.u32("max_failed_percent", u32::MAX),
        /// `continue` or `pause`: what happens after a canary that did not fail; `continue` when absent.
        #[cfg_attr(feature = "openapi", schema(value_type = Option<CanaryThen>))]
        pub then: Option<String>,
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

    pub(super) fn check(self, validator: &mut Validator) -> CanaryPlan {
        let at = path("canary");
        let percent_at = at.field("percent");
        let percent = self.percent.unwrap_or_else(|| {
            validator.violation(&percent_at, REQUIRED);
            1
        });
        check_range(&percent_at, percent, 1, CANARY_PERCENT_MAX, validator);
        let wait_seconds = self.wait_seconds.unwrap_or(CANARY_WAIT_SECONDS_DEFAULT);
        let (wait_min, wait_max) = (CANARY_WAIT_SECONDS_MIN, CANARY_WAIT_SECONDS_MAX);
        check_range(&at.field("wait_seconds"), wait_seconds, wait_min, wait_max, validator);
        let failed = self.max_failed_percent.unwrap_or(CANARY_FAILED_PERCENT_DEFAULT);
        check_range(&at.field("max_failed_percent"), failed, 0, 100, validator);
        let then = validator.optional_one_of(&at.field("then"), self.then.as_deref());
        CanaryPlan {
            percent,
            wait_seconds,
            max_failed_percent: failed,
            then: then.unwrap_or_default(),
        }
    }
}

/// Checks `per_minute`.
pub(super) fn check_per_minute(per_minute: Option<u32>, validator: &mut Validator) {
    if let Some(rate) = per_minute {
        check_range(&path("per_minute"), rate, 1, PER_MINUTE_MAX, validator);
    }
}

fn check_range(at: &Path<'_>, number: u32, min: u32, max: u32, validator: &mut Validator) {
    if !(min..=max).contains(&number) {
        validator.violation(at, format_args!("must be from {min} to {max}"));
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
