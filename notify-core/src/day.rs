//! Statistics of notifications by day.

use serde::{Deserialize, Serialize};

use crate::query::Parameters;
use crate::statistics::{PERIOD, take_date};
use crate::violations::path;
use crate::{Parameter, Query, Timestamp, Violations};

/// Most days in one answer: a leap year.
pub const STATISTICS_DAYS_MAX: i64 = 366;

/// Length of a day in milliseconds. Days are UTC days, which all have the same length.
const DAY_MS: i64 = 86_400_000;

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
    /// The first day. When absent, the first day with a count among the last [`STATISTICS_DAYS_MAX`].
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
    /// Devices that reported a notification received.
    pub received: u64,
    /// Devices that opened one.
    pub opened: u64,
    /// Devices that clicked one.
    pub clicked: u64,
    /// Devices that dismissed one.
    pub dismissed: u64,
}

impl DayCount {
    /// A day without counts.
    fn zero(day: Day) -> Self {
        Self { day, sent: 0, received: 0, opened: 0, clicked: 0, dismissed: 0 }
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
    /// Notifications that devices reported as received, each device once, on the day of the report.
    pub received: u64,
    /// The same for opened.
    pub opened: u64,
    /// The same for clicked.
    pub clicked: u64,
    /// The same for dismissed.
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
    /// The answer from the days that have a count, which must be in order. Days without a count are
    /// listed with zeros.
    #[must_use]
    pub fn from_counts(period: DayPeriod, counts: &[DayCount]) -> Self {
        let first = period.first.or_else(|| counts.first().map(|count| count.day));
        let mut counts = counts.iter().copied().peekable();
        let mut answer = Self {
            days: Vec::new(),
            total_sent: 0,
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
        let DayCount { day, sent, received, opened, clicked, dismissed } = count;
        self.total_sent += sent;
        self.total_received += received;
        self.total_opened += opened;
        self.total_clicked += clicked;
        self.total_dismissed += dismissed;
        let date = day.start();
        self.days.push(NotificationDay { date, sent, received, opened, clicked, dismissed });
    }
}
