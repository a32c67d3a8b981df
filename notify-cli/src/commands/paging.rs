//! Listings: their arguments, and printing them.

use clap::Args;
use notify_client::{Error, Page, Pages, notify_core::PageQuery};
use serde::Serialize;

use crate::{
    failure::Failure,
    output::view::View,
    session::{LARGE_PAGE, Session},
};

/// Options of a listing.
#[derive(Debug, Args)]
pub(crate) struct PageArgs {
    /// Page size, 1 to 1,000 (default: 50).
    #[arg(long, value_name = "N")]
    limit: Option<u32>,
    /// Cursor of the next page, which the previous page printed.
    #[arg(long)]
    cursor: Option<String>,
    /// Print all pages from there on.
    #[arg(long)]
    pub(crate) all: bool,
}

impl PageArgs {
    /// The query of the first page.
    pub(crate) fn query(&self) -> PageQuery {
        let limit = self.limit.or(self.all.then_some(LARGE_PAGE));
        PageQuery { limit, cursor: self.cursor.clone() }
    }
}

/// Prints one page, or the items of all pages as they arrive. The caller passes both `page` and `all`, and
/// only the one that is used sends requests.
pub(crate) async fn show<P: Page + Serialize>(
    shows_all: bool,
    page: impl Future<Output = Result<P, Error>>,
    mut all: Pages<'_, P>,
    session: &mut Session,
    view: &View,
) -> Result<(), Failure>
where
    P::Item: Serialize,
{
    if !shows_all {
        return session.out.show(&page.await?, view);
    }
    let mut rows = session.out.rows(view)?;
    while let Some(item) = all.next().await {
        rows.push(&item?)?;
    }
    rows.end()
}

/// Finds the first item of a listing that satisfies a condition. It is used for resources that the API can
/// only list.
pub(crate) async fn find<P: Page>(
    mut pages: Pages<'_, P>,
    matches: impl Fn(&P::Item) -> bool,
) -> Result<Option<P::Item>, Error> {
    while let Some(item) = pages.next().await {
        let item = item?;
        if matches(&item) {
            return Ok(Some(item));
        }
    }
    Ok(None)
}
