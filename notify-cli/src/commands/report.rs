//! `notify report`.

use std::path::PathBuf;

use clap::Args;
use notify_client::notify_core::{Platform, ReportNotification};

use super::content::ContentArgs;
use crate::{failure::Failure, input, output::view, session::Session};

/// Arguments of `notify report`.
#[derive(Debug, Args)]
pub(crate) struct Report {
    /// The request as JSON; excludes the other options. `-` for standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["id", "platforms", "ContentArgs"])]
    file: Option<PathBuf>,
    /// Id of the notification, of your choice.
    #[arg(long, required_unless_present = "file")]
    id: Option<String>,
    /// Platform of the recipients, such as fb-messenger (Facebook Messenger) or chatapp (Telegram);
    /// repeatable.
    #[arg(
        long = "platform", value_name = "PLATFORM", value_parser = input::platform(),
        required_unless_present = "file",
    )]
    platforms: Vec<Platform>,
    #[command(flatten)]
    content: ContentArgs,
}

/// Runs the command.
pub(crate) async fn run(args: Report, session: &mut Session) -> Result<(), Failure> {
    let report = match &args.file {
        Some(path) => input::request(path)?,
        None => report(args),
    };
    let created = session.client()?.notifications().report(&report).await?;
    session.out.show(&created, &view::CREATED)
}

fn report(args: Report) -> ReportNotification {
    let (text, content) = args.content.into_parts();
    ReportNotification {
        id: args.id.unwrap_or_default(),
        text,
        platforms: Some(args.platforms.iter().map(ToString::to_string).collect()),
        content,
    }
}
