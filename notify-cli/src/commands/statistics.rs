//! `notify statistics` (spec 4.5, B26).

use clap::Subcommand;
use notify_client::notify_core::{DeviceStatisticsQuery, Timestamp};

use crate::{failure::Failure, input, output::view, session::Session};

/// `notify statistics`.
#[derive(Debug, Subcommand)]
pub(crate) enum Statistics {
    /// Count the devices registered in a period, by platform and state.
    Devices {
        /// Start: unix milliseconds or a time like 2026-05-01T09:00:00Z; without it, from the
        /// beginning.
        #[arg(long, value_name = "TIME", value_parser = input::instant)]
        from: Option<Timestamp>,
        /// End; now unless given.
        #[arg(long, value_name = "TIME", value_parser = input::instant)]
        to: Option<Timestamp>,
    },
}

/// Runs the command.
pub(crate) async fn run(command: Statistics, session: &mut Session) -> Result<(), Failure> {
    let Statistics::Devices { from, to } = command;
    let period = DeviceStatisticsQuery { date_from: from, date_to: to };
    let statistics = session.notify()?.statistics().devices(&period).await?;
    session.out.show(&statistics, &view::DEVICE_STATISTICS)
}
