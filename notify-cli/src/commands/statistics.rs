//! `notify statistics` (spec 4.5, B26, B33).

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
        /// 2026-05-01T09:00:00Z, or unix milliseconds; without it, from the beginning.
        #[arg(long, value_name = "TIME", value_parser = input::instant_past)]
        from: Option<Timestamp>,
        /// End; now unless given.
        #[arg(long, value_name = "TIME", value_parser = input::instant_past)]
        to: Option<Timestamp>,
    },
    /// Count what was sent and what devices did with it, by day (UTC), at most 366 days.
    Notifications {
        /// Start: a span before now like `7d`, a day like 2026-05-01 (UTC), a time like
        /// 2026-05-01T09:00:00Z, or unix milliseconds; without it, from the first day that has a
        /// count.
        #[arg(long, value_name = "TIME", value_parser = input::instant_past)]
        from: Option<Timestamp>,
        /// End; now unless given.
        #[arg(long, value_name = "TIME", value_parser = input::instant_past)]
        to: Option<Timestamp>,
        /// Draw one of the counts as bars, `sent` unless another one is named.
        #[arg(long, value_name = "COUNT", num_args = 0..=1, default_missing_value = "sent")]
        chart: Option<Counted>,
    },
}

/// What is counted by day.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Counted {
    /// Deliveries that a provider took.
    Sent,
    /// Notifications that arrived.
    Received,
    /// That were opened.
    Opened,
    /// That were clicked in.
    Clicked,
    /// That were swiped away.
    Dismissed,
}

impl Counted {
    fn of(self, day: &NotificationDay) -> u64 {
        match self {
            Self::Sent => day.sent,
            Self::Received => day.received,
            Self::Opened => day.opened,
            Self::Clicked => day.clicked,
            Self::Dismissed => day.dismissed,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Sent => "sent",
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
            let statistics = session.notify()?.statistics().devices(&period).await?;
            session.out.show(&statistics, &view::DEVICE_STATISTICS)
        }
        Statistics::Notifications { from, to, chart } => {
            let period = NotificationStatisticsQuery { date_from: from, date_to: to };
            let statistics = session.notify()?.statistics().notifications(&period).await?;
            let Some(counted) = chart else {
                return session.out.show(&statistics, &view::NOTIFICATION_STATISTICS);
            };
            let bar =
                |of: &NotificationDay| Bar { name: day(of.date.as_ms()), count: counted.of(of) };
            let bars: Vec<Bar> = statistics.days.iter().map(bar).collect();
            let total: u64 = bars.iter().map(|bar| bar.count).sum();
            let heading = format!("{} by day (UTC), {total} in all", counted.as_str());
            session.out.chart(&heading, &bars)
        }
    }
}
