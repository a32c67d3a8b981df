//! Device statistics (spec 4.5, B26).

use serde::{Deserialize, Serialize};

use crate::{Platform, Timestamp};

/// Query of `GET /v1/statistics/devices` (spec 4.5).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceStatisticsQuery {
    /// Start of the period, inclusive; the beginning when absent.
    pub date_from: Option<Timestamp>,
    /// End of the period, inclusive; now when absent.
    pub date_to: Option<Timestamp>,
}

/// How many devices of a platform are in which state; what the percentages are made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlatformCount {
    /// Platform.
    pub platform: Platform,
    /// Enabled devices (B22).
    pub enabled: u64,
    /// Disabled devices.
    pub disabled: u64,
}

/// Answer of `GET /v1/statistics/devices` (spec 4.5).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeviceStatistics {
    /// One object per platform (B26).
    pub platforms: Vec<PlatformStatistics>,
    /// Enabled devices.
    pub total_enabled: u64,
    /// Disabled devices.
    pub total_disabled: u64,
    /// All devices.
    pub total: u64,
}

/// The devices of one platform (spec 4.5, B26).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlatformStatistics {
    /// Platform.
    pub platform: Platform,
    /// Enabled devices.
    pub enabled_count: u64,
    /// Disabled devices.
    pub disabled_count: u64,
    /// All devices of the platform.
    pub total_count: u64,
    /// The platform's share of `total_enabled`, in percent.
    pub total_enabled_percentage: f64,
    /// The platform's share of `total_disabled`, in percent.
    pub total_disabled_percentage: f64,
    /// Share of enabled devices in the platform's `total_count`, in percent.
    pub enabled_percentage: f64,
    /// Share of disabled devices in the platform's `total_count`, in percent.
    pub disabled_percentage: f64,
}
