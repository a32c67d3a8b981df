//! `notify events`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use notify_client::notify_core::{ReportEvent, ReportEvents, Timestamp};

use crate::{failure::Failure, input, output::view, session::Session};

/// `notify events`.
#[derive(Debug, Subcommand)]
pub(crate) enum Events {
    /// Report one event, or with `--file` up to 1,000.
    Report(Report),
}

/// Arguments of `notify events report`.
#[derive(Debug, Args)]
pub(crate) struct Report {
    /// The request as JSON; excludes the other options. `-` for standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kind", "notification", "device", "at"])]
    file: Option<PathBuf>,
    /// Type of the event.
    #[arg(
        long = "type", value_name = "TYPE", required_unless_present = "file",
        value_parser = ["received", "opened", "clicked", "dismissed"],
    )]
    kind: Option<String>,
    /// Id of the notification.
    #[arg(long, value_name = "ID", required_unless_present = "file")]
    notification: Option<String>,
    /// Id of the device.
    #[arg(long, value_name = "DEVICE_ID", required_unless_present = "file")]
    device: Option<String>,
    /// Time of the event, like 2026-05-01T09:00:00Z or unix milliseconds (default: now).
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
    let accepted = session.client()?.events().report(&events).await?;
    session.out.show(&accepted, &view::EVENTS_ACCEPTED)
}
