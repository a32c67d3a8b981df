//! `notify statistics`.

use clap::{Subcommand, ValueEnum};
use notify_client::notify_core::{
    DeviceStatisticsQuery, NotificationDay, NotificationStatisticsQuery, Timestamp,
};

use crate::{
    failure::Failure,
    input,
    output::{Bar, day, view},
    session::Session,
};

/// `notify statistics`.
#[derive(Debug, Subcommand)]
pub(crate) enum Statistics {
    /// Count the devices registered in a period, by platform and state.
    Devices {
        /// Start: a span before now like `7d`, a day like 2026-05-01 (UTC), a time like
        /// 2026-05-01T09:00:00Z, or unix milliseconds (default: the beginning).
        #[arg(long, value_name = "TIME", value_parser = input::past_instant)]
        from: Option<Timestamp>,
        /// End (default: now).
        #[arg(long, value_name = "TIME", value_parser = input::past_instant)]
        to: Option<Timestamp>,
    },
    /// Count deliveries by outcome and engagement events by day (UTC), for at most 366 days.
    Notifications {
        /// Start: a span before now like `7d`, a day like 2026-05-01 (UTC), a time like
        /// 2026-05-01T09:00:00Z, or unix milliseconds (default: the first day with a count).
        #[arg(long, value_name = "TIME", value_parser = input::past_instant)]
        from: Option<Timestamp>,
        /// End (default: now).
        #[arg(long, value_name = "TIME", value_parser = input::past_instant)]
        to: Option<Timestamp>,
        /// Draw a bar chart of one of the counts (default: `sent`).
        #[arg(long, value_name = "COUNT", num_args = 0..=1, default_missing_value = "sent")]
        chart: Option<DailyCount>,
    },
}

/// A count by day.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum DailyCount {
    /// Deliveries that a provider accepted.
    Sent,
    /// Deliveries that failed for good.
    Failed,
    /// Deliveries whose address the provider reported as unregistered.
    Unregistered,
    /// Deliveries that no provider accepted before their notification expired.
    Expired,
    /// Notifications received by devices.
    Received,
    /// Opened notifications.
    Opened,
    /// Notifications with a clicked button or link.
    Clicked,
    /// Dismissed notifications.
    Dismissed,
}

impl DailyCount {
    fn of(self, day: &NotificationDay) -> u64 {
        match self {
            Self::Sent => day.sent,
            Self::Failed => day.failed,
            Self::Unregistered => day.unregistered,
            Self::Expired => day.expired,
            Self::Received => day.received,
            Self::Opened => day.opened,
            Self::Clicked => day.clicked,
            Self::Dismissed => day.dismissed,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Failed => "failed",
            Self::Unregistered => "unregistered",
            Self::Expired => "expired",
            Self::Received => "received",
            Self::Opened => "opened",
            Self::Clicked => "clicked",
            Self::Dismissed => "dismissed",
        }
    }
}

/// Runs the command.
pub(crate) async fn run(command: Statistics, session: &mut Session) -> Result<(), Failure> {
    match command {
        Statistics::Devices { from, to } => {
            let period = DeviceStatisticsQuery { date_from: from, date_to: to };
            let statistics = session.client()?.statistics().devices(&period).await?;
            session.out.show(&statistics, &view::DEVICE_STATISTICS)
        }
        Statistics::Notifications { from, to, chart } => {
            let period = NotificationStatisticsQuery { date_from: from, date_to: to };
            let statistics = session.client()?.statistics().notifications(&period).await?;
            let Some(count) = chart else {
                return session.out.show(&statistics, &view::NOTIFICATION_STATISTICS);
            };
            let bar = |counts: &NotificationDay| Bar {
                name: day(counts.date.as_ms()),
                count: count.of(counts),
            };
            let bars: Vec<Bar> = statistics.days.iter().map(bar).collect();
            let total: u64 = bars.iter().map(|bar| bar.count).sum();
            let heading = format!("{} by day (UTC), {total} in all", count.as_str());
            session.out.chart(&heading, &bars)
        }
    }
}
