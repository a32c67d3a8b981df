//! `notify events` (B33).

use std::path::PathBuf;

use clap::{Args, Subcommand};
use notify_client::notify_core::{ReportEvent, ReportEvents, Timestamp};

use crate::{failure::Failure, input, output::view, session::Session};

/// `notify events`.
#[derive(Debug, Subcommand)]
pub(crate) enum Events {
    /// Report one event, or many by `--file`.
    Report(Report),
}

/// Arguments of `notify events report`.
#[derive(Debug, Args)]
pub(crate) struct Report {
    /// The whole request as JSON, in place of everything else; `-` for standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kind", "notification", "device", "at"])]
    file: Option<PathBuf>,
    /// What happened.
    #[arg(
        long = "type", value_name = "TYPE", required_unless_present = "file",
        value_parser = ["received", "opened", "clicked", "dismissed"],
    )]
    kind: Option<String>,
    /// With which notification.
    #[arg(long, value_name = "ID", required_unless_present = "file")]
    notification: Option<String>,
    /// On which device.
    #[arg(long, value_name = "DEVICE_ID", required_unless_present = "file")]
    device: Option<String>,
    /// When: unix milliseconds or a time like 2026-05-01T09:00:00Z; now unless given.
    #[arg(long, value_name = "TIME", value_parser = input::instant)]
    at: Option<Timestamp>,
}

/// Runs the command.
pub(crate) async fn run(command: Events, session: &mut Session) -> Result<(), Failure> {
    let Events::Report(args) = command;
    let events = match &args.file {
        Some(path) => input::request(path)?,
        None => ReportEvents {
            events: vec![ReportEvent {
                kind: args.kind.unwrap_or_default(),
                notification_id: args.notification.unwrap_or_default(),
                device_id: args.device.unwrap_or_default(),
                at: args.at,
            }],
        },
    };
    let accepted = session.notify()?.events().report(&events).await?;
    session.out.show(&accepted, &view::EVENTS_ACCEPTED)
}
