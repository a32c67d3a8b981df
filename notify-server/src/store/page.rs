//! One page of a listing (B10).

use aws_lc_rs::digest::{Context, SHA256};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;

use crate::store::StoreError;

/// Rows of one page and where the next begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// Rows.
    pub rows: Vec<T>,
    /// Opaque place of the next page; `None` at the end.
    pub next: Option<String>,
}

/// Which part of a listing is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// Most rows, 1 to 1,000.
    pub limit: u32,
    /// Where the page before ended, as [`Page::next`] said. One that no page gave is
    /// [`crate::store::StoreError::Refused`] with the path `cursor`.
    pub cursor: Option<String>,
}

// Places in listings, opaque to callers. Each ends in a check over its listing and application,
// so that one which no page of that listing gave is refused.

/// From so many bytes of JSON on a page is full, and the next row begins the next one.
const PAGE_JSON_BYTES_MAX: u64 = 4 * 1_048_576;
/// Bytes of the check.
const CHECK_BYTES: usize = 6;

/// A listing, and the application, or the notification, whose rows it lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Listing {
    pub(super) name: &'static str,
    pub(super) of: i64,
}

impl Listing {
    /// The place after a row, as callers carry it.
    fn write(self, place: &[u8]) -> String {
        let mut bytes = self.check(place).to_vec();
        bytes.extend_from_slice(place);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The place that a caller brought back.
    fn read(self, cursor: &str) -> Option<Vec<u8>> {
        let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
        let (check, place) = bytes.split_at_checked(CHECK_BYTES)?;
        (check == self.check(place)).then(|| place.to_vec())
    }

    fn check(self, place: &[u8]) -> [u8; CHECK_BYTES] {
        let mut digest = Context::new(&SHA256);
        digest.update(self.name.as_bytes());
        digest.update(&self.of.to_be_bytes());
        digest.update(place);
        let digest = digest.finish();
        std::array::from_fn(|at| digest.as_ref()[at])
    }

    /// Where a page begins when its rows are in the order of a number.
    pub(super) fn number(self, page: &PageRequest) -> Result<Option<i64>, StoreError> {
        let Some(place) = self.place(page)? else { return Ok(None) };
        place.try_into().map(|bytes| Some(i64::from_be_bytes(bytes))).map_err(|_| refused())
    }

    /// Where a page begins when its rows are in the order of a text.
    pub(super) fn text(self, page: &PageRequest) -> Result<Option<String>, StoreError> {
        let Some(place) = self.place(page)? else { return Ok(None) };
        String::from_utf8(place).map(Some).map_err(|_| refused())
    }

    fn place(self, page: &PageRequest) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(cursor) = &page.cursor else { return Ok(None) };
        self.read(cursor).map(Some).ok_or_else(refused)
    }

    /// The place that a number says, for a listing that finds its own pages.
    pub(super) fn at_number(self, place: i64) -> String {
        self.write(&place.to_be_bytes())
    }

    /// Makes a page of rows that were read with one more than asked for.
    pub(super) fn page<T>(self, mut rows: Vec<(i64, T)>, page: &PageRequest) -> Page<T> {
        let next = more(&mut rows, page).map(|place| self.write(&place.to_be_bytes()));
        Page { rows: rows.into_iter().map(|(_, row)| row).collect(), next }
    }

    /// The same for rows in the order of a text.
    pub(super) fn page_by_text<T>(self, mut rows: Vec<(String, T)>, page: &PageRequest) -> Page<T> {
        let next = more(&mut rows, page).map(|place| self.write(place.as_bytes()));
        Page { rows: rows.into_iter().map(|(_, row)| row).collect(), next }
    }
}

/// The rows of a page as they are read, until it is full by their number or by their bytes.
pub(super) struct Filling<T> {
    rows: Vec<(i64, T)>,
    json_bytes: u64,
    limit: u32,
    is_full: bool,
}

impl<T: Serialize> Filling<T> {
    pub(super) fn new(page: &PageRequest) -> Self {
        Self { rows: Vec::new(), json_bytes: 0, limit: page.limit, is_full: false }
    }

    /// How many more rows the page can use: one more than it shows.
    pub(super) fn wanted(&self) -> i64 {
        if self.is_full {
            return 0;
        }
        i64::from(self.limit) + 1 - i64::try_from(self.rows.len()).unwrap_or(i64::MAX)
    }

    /// Whether as many rows as the page can use still fit, if they are as long as those before.
    pub(super) fn has_room_for_all(&self) -> bool {
        let rows = u64::try_from(self.rows.len()).unwrap_or(u64::MAX);
        let wanted = u64::try_from(self.wanted()).unwrap_or(0);
        let Some(of_one) = self.json_bytes.checked_div(rows) else { return false };
        of_one.saturating_mul(wanted) < PAGE_JSON_BYTES_MAX.saturating_sub(self.json_bytes)
    }

    /// Adds the next row. One that comes after the page is full begins the next page.
    pub(super) fn add(&mut self, place: i64, row: T) -> Result<(), StoreError> {
        if self.json_bytes >= PAGE_JSON_BYTES_MAX {
            self.limit = u32::try_from(self.rows.len()).unwrap_or(self.limit).min(self.limit);
            self.is_full = true;
        }
        self.json_bytes += json_bytes(&row)?;
        self.rows.push((place, row));
        Ok(())
    }

    pub(super) fn page(self, listing: Listing) -> Page<T> {
        listing.page(self.rows, &PageRequest { limit: self.limit, cursor: None })
    }
}

/// How long a row is as JSON, without writing it anywhere.
fn json_bytes(row: &impl Serialize) -> Result<u64, StoreError> {
    struct Counter(u64);
    impl std::io::Write for Counter {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len() as u64;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut counter = Counter(0);
    serde_json::to_writer(&mut counter, row)?;
    Ok(counter.0)
}

/// How many rows to read for a page: one more than it shows.
pub(super) fn rows_wanted(page: &PageRequest) -> i64 {
    i64::from(page.limit) + 1
}

/// Cuts the row too many off; the place of the last one left, when there was one.
fn more<P: Clone, T>(rows: &mut Vec<(P, T)>, page: &PageRequest) -> Option<P> {
    let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
    if rows.len() <= limit {
        return None;
    }
    rows.truncate(limit);
    rows.last().map(|(place, _)| place.clone())
}

fn refused() -> StoreError {
    StoreError::refused("cursor", "is not one that a page of this listing gave")
}
