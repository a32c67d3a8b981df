//! Instants, which are unix milliseconds in JSON and lie within the years 1970 to 9999; and UTC days.

use serde::{Deserialize, Serialize};

/// An instant in unix milliseconds.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct Timestamp(pub i64);

/// The last instant of the year 9999, in unix milliseconds.
pub const TIMESTAMP_MS_MAX: i64 = 253_402_300_799_999;

impl Timestamp {
    /// The instant at the given unix milliseconds.
    #[must_use]
    pub const fn from_ms(ms: i64) -> Self {
        Self(ms)
    }

    /// Unix milliseconds.
    #[must_use]
    pub const fn as_ms(self) -> i64 {
        self.0
    }

    /// Whole unix seconds, rounded down.
    #[must_use]
    pub const fn as_seconds(self) -> i64 {
        self.0.div_euclid(1_000)
    }

    /// This instant plus a number of milliseconds; saturates at the bounds of `i64`.
    #[must_use]
    pub const fn plus_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to this instant; negative when this instant comes first.
    #[must_use]
    pub const fn ms_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The instant in RFC 3339, in UTC and to the second. An instant that RFC 3339 cannot express is
    /// shown in unix milliseconds.
    ///
    /// ```
    /// use notify_core::Timestamp;
    ///
    /// assert_eq!(Timestamp(1_767_323_045_678).to_rfc3339(), "2026-01-02T03:04:05Z");
    /// ```
    #[must_use]
    pub fn to_rfc3339(self) -> String {
        jiff::Timestamp::from_millisecond(self.0)
            .map_or_else(|_| self.to_string(), |at| format!("{at:.0}"))
    }
}

impl std::fmt::Display for Timestamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Length of a day in milliseconds. Days are UTC days, which all have the same length.
pub(crate) const DAY_MS: i64 = 86_400_000;

/// A UTC day, as days since 1970-01-01.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Day(pub i64);

impl Day {
    /// The day that contains an instant.
    #[must_use]
    pub fn of(at: Timestamp) -> Self {
        Self(at.as_ms().div_euclid(DAY_MS))
    }

    /// The first instant of the day.
    #[must_use]
    pub fn start(self) -> Timestamp {
        Timestamp(self.0.saturating_mul(DAY_MS))
    }
}
