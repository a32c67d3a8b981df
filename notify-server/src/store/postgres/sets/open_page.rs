//! Sets of claims of pages.

use std::collections::{HashMap, HashSet};

use super::{Gather, SetKind, SetTx, WriteSet, column, place_of};
use crate::store::delivery::open_page;
use crate::store::sql::WriteScope;
use crate::store::sql::row::count;
use crate::store::sql::writer::WriteTx;
use crate::store::{OpenPage, Operation, PageClaim, PageNo, StoreError};

/// A claim of the next page of a dispatch.
pub(in crate::store) struct ClaimPage(pub(in crate::store) PageClaim);

impl WriteSet for ClaimPage {
    /// `None` if the cursor of the dispatch is elsewhere, or the dispatch is paused. Servers compete for the pages of a dispatch,
    /// so this is as frequent as a page, and does not need a write of its own.
    type Answer = Option<OpenPage>;
    const KIND: SetKind = SetKind::OpenPage;
    const OPERATION: Operation = Operation::OpenPage;
    const GATHER: Gather = Gather::NONE;

    fn scope(&self) -> WriteScope {
        WriteScope::key(self.0.dispatch.0)
    }

    fn write_alone(&self, tx: &mut WriteTx<'_>) -> Result<Option<OpenPage>, StoreError> {
        match open_page(tx, &self.0) {
            Ok(page) => Ok(Some(page)),
            // Nothing was written.
            Err(StoreError::Fenced) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn write_set(
        tx: &mut SetTx<'_>,
        rows: &[&Self],
    ) -> Result<Vec<Option<Option<OpenPage>>>, StoreError> {
        // A statement updates a row once. Another claim of the same dispatch is written alone.
        let mut dispatches = HashSet::new();
        let claims: Vec<(usize, &PageClaim)> = rows
            .iter()
            .map(|row| &row.0)
            .enumerate()
            .filter(|(_, claim)| dispatches.insert(claim.dispatch))
            .collect();
        let found = insert(tx, &claims)?;
        tx.is_read_only = found.values().all(Option::is_none);
        let mut answers: Vec<_> = rows.iter().map(|_| None).collect();
        for (place, claim) in claims {
            answers[place] = match found.get(&place) {
                None => Some(None),
                Some(no) => no.map(|no| Some(claim.opened(no))),
            };
        }
        Ok(answers)
    }
}

/// Moves the cursors and inserts the pages. Returns the claims whose cursor was in place, by their
/// position, each with the number of the page. A claim that ends a dispatch without an open page and
/// retry has no number: it is written alone.
fn insert(
    tx: &SetTx<'_>,
    claims: &[(usize, &PageClaim)],
) -> Result<HashMap<usize, Option<PageNo>>, StoreError> {
    let inserted = tx.query(
        "with given as materialized (
           select * from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[],
             $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[],
             $11::bigint[])
             g (place, dispatch_no, app_no, from_key, to_key, scan_done, targeted, excluded, epoch,
             lease_until, at)),
         locked as materialized (
           select g.*, g.scan_done = 0 or g.targeted > 0 or d.open_pages + d.open_retries > 0
             as stays_open
           from given g join dispatches d on d.no = g.dispatch_no and d.cursor = g.from_key
             and d.scan_done = 0 and d.completed_at is null and coalesce(d.paused_until, 0) <= g.at
           order by d.no for no key update of d),
         moved as (
           update dispatches d set cursor = l.to_key, scan_done = l.scan_done,
             open_pages = d.open_pages + case when l.targeted > 0 then 1 else 0 end
           from locked l where d.no = l.dispatch_no and l.stays_open returning d.no),
         made as (
           insert into pages (no, dispatch_no, from_key, to_key, epoch, lease_until, finished,
             targeted, excluded)
           select l.app_no << 43 | nextval('pages_no_seq'), l.dispatch_no, l.from_key, l.to_key,
             l.epoch, l.lease_until, case when l.targeted > 0 then 0 else 1 end, l.targeted,
             l.excluded
           from locked l join moved m on m.no = l.dispatch_no
           returning no, dispatch_no)
         select l.place, p.no from locked l left join made p on p.dispatch_no = l.dispatch_no",
        &[
            column!(claims, claim => claim.0 as i64),
            column!(claims, claim => claim.1.dispatch.0),
            column!(claims, claim => claim.1.to.app().0),
            column!(claims, claim => claim.1.from.0),
            column!(claims, claim => claim.1.to.0),
            column!(claims, claim => i64::from(claim.1.end)),
            column!(claims, claim => count(claim.1.targeted)),
            column!(claims, claim => count(claim.1.excluded)),
            column!(claims, claim => claim.1.instance.0),
            column!(claims, claim => claim.1.lease_until.as_ms()),
            column!(claims, claim => claim.1.at.as_ms()),
        ],
    )?;
    let place_and_page = |row: &tokio_postgres::Row| {
        (place_of(row.get(0)), row.get::<_, Option<i64>>(1).map(PageNo))
    };
    Ok(inserted.iter().map(place_and_page).collect())
}
