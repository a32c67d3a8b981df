//! Device statistics.

use serde::{Deserialize, Serialize};

use crate::TIMESTAMP_MS_MAX;
use crate::query::Parameters;
use crate::violations::path;
use crate::{Parameter, ParameterForm, Platform, Query, Timestamp, Violations};

/// Query of `GET /v1/statistics/devices`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceStatisticsQuery {
    /// Start of the period, included; the beginning of time when absent.
    pub date_from: Option<Timestamp>,
    /// End of the period, included; now when absent.
    pub date_to: Option<Timestamp>,
}

/// How many devices of a platform are enabled and disabled: the input of the percentages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlatformCount {
    /// Platform.
    pub platform: Platform,
    /// Enabled devices.
    pub enabled: u64,
    /// Disabled devices.
    pub disabled: u64,
}

/// Answer of `GET /v1/statistics/devices`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeviceStatistics {
    /// `android` and `ios` always, the other platforms when they have a device.
    pub platforms: Vec<PlatformStatistics>,
    /// Enabled devices.
    pub total_enabled: u64,
    /// Disabled devices.
    pub total_disabled: u64,
    /// All devices.
    pub total: u64,
}

/// The devices of one platform.
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

/// The parameters of a period.
pub(crate) const PERIOD: [Parameter; 2] = [
    Parameter::new(
        "date_from",
        ParameterForm::Integer { min: 0, max: TIMESTAMP_MS_MAX.unsigned_abs(), or: None },
        "Start of the period, unix ms; the beginning when absent",
    ),
    Parameter::new(
        "date_to",
        ParameterForm::Integer { min: 0, max: TIMESTAMP_MS_MAX.unsigned_abs(), or: Some("now") },
        "End of the period, unix ms or `now`; `now` when absent",
    ),
];

impl Query for DeviceStatisticsQuery {
    type Valid = Self;
    const PARAMETERS: &'static [Parameter] = &PERIOD;

    fn parse(parameters: &[(String, String)], now: Timestamp) -> Result<Self, Violations> {
        let mut parameters = Parameters::new(parameters, Self::PARAMETERS);
        let date_from = take_date(&mut parameters, "date_from");
        let date_to = take_date(&mut parameters, "date_to");
        if date_from.is_some_and(|from| from > date_to.unwrap_or(now)) {
            parameters.validator.violation(&path("date_from"), "must not be after date_to");
        }
        parameters.finish(Some(Self { date_from, date_to }))
    }
}

pub(crate) fn take_date(parameters: &mut Parameters<'_>, name: &'static str) -> Option<Timestamp> {
    let ms = parameters.integer(name)?;
    i64::try_from(ms).ok().map(Timestamp)
}

/// `part` of `whole` in percent, rounded to two decimals; 0 when `whole` is 0.
///
/// ```
/// use notify_core::percentage;
///
/// assert_eq!(percentage(1, 3), 33.33);
/// assert_eq!(percentage(0, 0), 0.0);
/// ```
#[must_use]
pub fn percentage(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    let (part, whole) = (u128::from(part), u128::from(whole));
    let hundredths = (part * 20_000 + whole) / (2 * whole);
    #[expect(clippy::cast_precision_loss, reason = "the value is at most 10,000")]
    let percent = hundredths as f64 / 100.0;
    percent
}

impl DeviceStatistics {
    /// The answer from the counts of each platform, in the order of [`Platform::ALL`].
    #[must_use]
    pub fn from_counts(counts: &[PlatformCount]) -> Self {
        let sum = |of: fn(&PlatformCount) -> u64, platform: Option<Platform>| -> u64 {
            let wanted = |count: &&PlatformCount| platform.is_none_or(|one| count.platform == one);
            counts.iter().filter(wanted).map(of).sum()
        };
        let total_enabled = sum(|count| count.enabled, None);
        let total_disabled = sum(|count| count.disabled, None);
        let platforms = Platform::ALL.into_iter().filter_map(|platform| {
            let enabled_count = sum(|count| count.enabled, Some(platform));
            let disabled_count = sum(|count| count.disabled, Some(platform));
            let total_count = enabled_count + disabled_count;
            let is_always_listed = matches!(platform, Platform::Android | Platform::Ios);
            (is_always_listed || total_count > 0).then(|| PlatformStatistics {
                platform,
                enabled_count,
                disabled_count,
                total_count,
                total_enabled_percentage: percentage(enabled_count, total_enabled),
                total_disabled_percentage: percentage(disabled_count, total_disabled),
                enabled_percentage: percentage(enabled_count, total_count),
                disabled_percentage: percentage(disabled_count, total_count),
            })
        });
        Self {
            platforms: platforms.collect(),
            total_enabled,
            total_disabled,
            total: total_enabled + total_disabled,
        }
    }
}
