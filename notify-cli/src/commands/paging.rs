//! The arguments of listings (B10).

use clap::Args;
use notify_client::{Error, Page, Pages, notify_core::PageQuery};
use serde::Serialize;

use crate::{failure::Failure, output::view::View, session::Session};

/// Page size of a listing that is read to its end.
pub(crate) const PAGE_OF_ALL: u32 = 500;

/// Which part of a listing is asked for.
#[derive(Debug, Args)]
pub(crate) struct PageArgs {
    /// Page size, 1 to 1,000; 50 unless given.
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// Cursor that the previous page printed.
    #[arg(long)]
    cursor: Option<String>,
    /// Read every page from there on.
    #[arg(long)]
    pub(crate) all: bool,
}

impl PageArgs {
    /// The page asked for.
    pub(crate) fn query(self) -> PageQuery {
        let limit = self.limit.or(self.all.then_some(PAGE_OF_ALL));
        PageQuery { limit, cursor: self.cursor }
    }
}

/// Shows a listing to its end without holding it.
pub(crate) async fn show_all<P>(
    mut pages: Pages<'_, P>,
    session: &mut Session,
    view: &View,
) -> Result<(), Failure>
where
    P: Page,
    P::Item: Serialize,
{
    let mut rows = session.out.rows(view)?;
    while let Some(item) = pages.next().await {
        rows.push(&item?)?;
    }
    rows.end()
}

/// The first item of a listing that is wanted, for what has no call of its own.
pub(crate) async fn find<P: Page>(
    mut pages: Pages<'_, P>,
    is_wanted: impl Fn(&P::Item) -> bool,
) -> Result<Option<P::Item>, Error> {
    while let Some(item) = pages.next().await {
        let item = item?;
        if is_wanted(&item) {
            return Ok(Some(item));
        }
    }
    Ok(None)
}
