//! `notify tags` (B24).

use clap::Subcommand;

use super::paging::{PageArgs, show_all};
use crate::{failure::Failure, output::view, session::Session};

/// `notify tags`.
#[derive(Debug, Subcommand)]
pub(crate) enum Tags {
    /// List the tags, and how many devices have each set to true.
    List(PageArgs),
}

/// Runs the command.
pub(crate) async fn run(command: Tags, session: &mut Session) -> Result<(), Failure> {
    let notify = session.notify()?;
    match command {
        Tags::List(page) if page.all => {
            show_all(notify.tags().all(&page.query()), session, &view::TAGS).await
        }
        Tags::List(page) => {
            let page = notify.tags().list(&page.query()).await?;
            session.out.show(&page, &view::TAGS)
        }
    }
}
