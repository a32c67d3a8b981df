//! Statistics of devices, and of notifications by day.

use serde::{Deserialize, Serialize};

use crate::request::Parameters;
use crate::violations::path;
use crate::{
    Day, Parameter, ParameterForm, Platform, Query, TIMESTAMP_MS_MAX, Timestamp, Violations,
};

/// Query of `GET /v1/statistics/devices`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeviceStatisticsQuery {
    /// Start of the period, included; the beginning of time when absent.
    pub date_from: Option<Timestamp>,
    /// End of the period, included; now when absent.
    pub date_to: Option<Timestamp>,
}

/// How many devices of a platform are enabled and disabled. The percentages are computed from these
/// numbers.
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
const PERIOD: [Parameter; 2] = [
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

/// Takes an end of a period; `None` if it is absent, invalid or `now`.
fn take_date(parameters: &mut Parameters<'_>, name: &'static str) -> Option<Timestamp> {
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
    /// Builds the answer from the counts of each platform. The platforms of the answer have the order of
    /// [`Platform::ALL`].
    #[must_use]
    pub fn from_counts(counts: &[PlatformCount]) -> Self {
        let total_enabled: u64 = counts.iter().map(|count| count.enabled).sum();
        let total_disabled: u64 = counts.iter().map(|count| count.disabled).sum();
        let platforms = Platform::ALL.into_iter().filter_map(|platform| {
            let of_platform = || counts.iter().filter(|count| count.platform == platform);
            let enabled_count: u64 = of_platform().map(|count| count.enabled).sum();
            let disabled_count: u64 = of_platform().map(|count| count.disabled).sum();
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

/// Most days in one answer: a leap year.
pub const STATISTICS_DAYS_MAX: i64 = 366;

/// Query of `GET /v1/statistics/notifications`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NotificationStatisticsQuery {
    /// Start of the period; its day is included. When absent, the period starts with the first day that
    /// has a count.
    pub date_from: Option<Timestamp>,
    /// End of the period; its day is included. Now when absent.
    pub date_to: Option<Timestamp>,
}

/// A period of at most [`STATISTICS_DAYS_MAX`] days: the validated form of
/// [`NotificationStatisticsQuery`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DayPeriod {
    /// The first day. When absent, the answer begins with the first day that has a count, among the last
    /// [`STATISTICS_DAYS_MAX`] days.
    pub first: Option<Day>,
    /// The last day.
    pub last: Day,
}

impl DayPeriod {
    /// The earliest possible day of the answer.
    #[must_use]
    pub fn earliest(self) -> Day {
        self.first.unwrap_or(Day(self.last.0 - (STATISTICS_DAYS_MAX - 1)))
    }
}

/// The counts of one day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DayCount {
    /// The day.
    pub day: Day,
    /// Deliveries that a provider accepted.
    pub sent: u64,
    /// Deliveries that failed for good.
    pub failed: u64,
    /// Deliveries whose address the provider reported as unregistered.
    pub unregistered: u64,
    /// Deliveries that no provider accepted before their notification expired.
    pub expired: u64,
    /// Devices that reported a notification received.
    pub received: u64,
    /// Devices that opened a notification.
    pub opened: u64,
    /// Devices that clicked a notification.
    pub clicked: u64,
    /// Devices that dismissed a notification.
    pub dismissed: u64,
}

impl DayCount {
    /// A day without counts.
    fn zero(day: Day) -> Self {
        Self {
            day,
            sent: 0,
            failed: 0,
            unregistered: 0,
            expired: 0,
            received: 0,
            opened: 0,
            clicked: 0,
            dismissed: 0,
        }
    }
}

/// Answer of `GET /v1/statistics/notifications`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NotificationStatistics {
    /// Every day of the period, oldest first.
    pub days: Vec<NotificationDay>,
    /// Deliveries that a provider accepted.
    pub total_sent: u64,
    /// Deliveries that failed for good.
    pub total_failed: u64,
    /// Deliveries whose address the provider reported as unregistered.
    pub total_unregistered: u64,
    /// Deliveries that no provider accepted before their notification expired.
    pub total_expired: u64,
    /// Notifications that devices reported as received, each device once.
    pub total_received: u64,
    /// Notifications that devices reported as opened, each device once.
    pub total_opened: u64,
    /// Notifications that devices reported as clicked, each device once.
    pub total_clicked: u64,
    /// Notifications that devices reported as dismissed, each device once.
    pub total_dismissed: u64,
}

/// One day (UTC) of [`NotificationStatistics`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NotificationDay {
    /// Start of the day, unix ms.
    pub date: Timestamp,
    /// Deliveries that a provider accepted.
    pub sent: u64,
    /// Deliveries that failed for good.
    pub failed: u64,
    /// Deliveries whose address the provider reported as unregistered.
    pub unregistered: u64,
    /// Deliveries that no provider accepted before their notification expired.
    pub expired: u64,
    /// Notifications that devices reported as received, each device once, on the day of the report.
    pub received: u64,
    /// Notifications that devices reported as opened, each device once, on the day of the report.
    pub opened: u64,
    /// Notifications that devices reported as clicked, each device once, on the day of the report.
    pub clicked: u64,
    /// Notifications that devices reported as dismissed, each device once, on the day of the report.
    pub dismissed: u64,
}

impl Query for NotificationStatisticsQuery {
    type Valid = DayPeriod;
    const PARAMETERS: &'static [Parameter] = &PERIOD;

    fn parse(parameters: &[(String, String)], now: Timestamp) -> Result<DayPeriod, Violations> {
        let mut parameters = Parameters::new(parameters, Self::PARAMETERS);
        let from = take_date(&mut parameters, "date_from");
        let to = take_date(&mut parameters, "date_to").unwrap_or(now);
        let (first, last) = (from.map(Day::of), Day::of(to));
        if from.is_some_and(|from| from > to) {
            parameters.validator.violation(&path("date_from"), "must not be after date_to");
        } else if first.is_some_and(|first| last.0 - first.0 >= STATISTICS_DAYS_MAX) {
            let what = format_args!("must leave at most {STATISTICS_DAYS_MAX} days to date_to");
            parameters.validator.violation(&path("date_from"), what);
        }
        parameters.finish(Some(DayPeriod { first, last }))
    }
}

impl NotificationStatistics {
    /// Builds the answer from the days that have a count, which must be in ascending order. The answer
    /// also lists the days without a count, with zeros.
    #[must_use]
    pub fn from_counts(period: DayPeriod, counts: &[DayCount]) -> Self {
        let first = period.first.or_else(|| counts.first().map(|count| count.day));
        let mut counts = counts.iter().copied().peekable();
        let mut answer = Self {
            days: Vec::new(),
            total_sent: 0,
            total_failed: 0,
            total_unregistered: 0,
            total_expired: 0,
            total_received: 0,
            total_opened: 0,
            total_clicked: 0,
            total_dismissed: 0,
        };
        let Some(first) = first else { return answer };
        for day in (first.0..=period.last.0).map(Day) {
            let count = counts.next_if(|count| count.day == day);
            answer.add(count.unwrap_or_else(|| DayCount::zero(day)));
        }
        answer
    }

    fn add(&mut self, count: DayCount) {
        let DayCount {
            day,
            sent,
            failed,
            unregistered,
            expired,
            received,
            opened,
            clicked,
            dismissed,
        } = count;
        self.total_sent += sent;
        self.total_failed += failed;
        self.total_unregistered += unregistered;
        self.total_expired += expired;
        self.total_received += received;
        self.total_opened += opened;
        self.total_clicked += clicked;
        self.total_dismissed += dismissed;
        let date = day.start();
        self.days.push(NotificationDay {
            date,
            sent,
            failed,
            unregistered,
            expired,
            received,
            opened,
            clicked,
            dismissed,
        });
    }
}
