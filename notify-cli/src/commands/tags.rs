//! `notify tags`.

use clap::Subcommand;

use super::paging::{self, PageArgs};
use crate::{failure::Failure, output::view, session::Session};

/// `notify tags`.
#[derive(Debug, Subcommand)]
pub(crate) enum Tags {
    /// List the tags, and how many devices have each of them set to true.
    List(PageArgs),
}

/// Runs the command.
pub(crate) async fn run(command: Tags, session: &mut Session) -> Result<(), Failure> {
    let notify = session.client()?;
    match command {
        Tags::List(page) => {
            let (tags, query) = (notify.tags(), page.query());
            let (first, all) = (tags.list(&query), tags.all(&query));
            paging::show(page.all, first, all, session, &view::TAGS).await
        }
    }
}
