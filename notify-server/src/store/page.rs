//! One page of a listing.

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
    /// Opaque cursor of the next page; `None` on the last page.
    pub next: Option<String>,
}

/// A request for one page of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// Most rows, 1 to 1,000.
    pub limit: u32,
    /// The cursor from [`Page::next`] of the previous page. Any other value is
    /// [`crate::store::StoreError::Refused`] with the path `cursor`.
    pub cursor: Option<String>,
}

// Cursors are opaque to callers. Each begins with a checksum over its listing and application, so that
// a cursor of another listing is refused.

/// A page with this many bytes of JSON is full; the next row begins the next page.
const PAGE_JSON_BYTES_MAX: u64 = 4 * 1_048_576;
/// Bytes of the checksum.
const CHECK_BYTES: usize = 6;

/// Reads and writes the cursors of one listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CursorCodec {
    pub(super) name: &'static str,
    pub(super) of: i64,
}

impl CursorCodec {
    /// Encodes a position as a cursor.
    fn write(self, place: &[u8]) -> String {
        let mut bytes = self.check(place).to_vec();
        bytes.extend_from_slice(place);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Decodes a cursor; `None` if it is not one of this listing.
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

    /// The position of a page whose rows are ordered by a number.
    pub(super) fn number(self, page: &PageRequest) -> Result<Option<i64>, StoreError> {
        let Some(place) = self.place(page)? else { return Ok(None) };
        place.try_into().map(|bytes| Some(i64::from_be_bytes(bytes))).map_err(|_| invalid_cursor())
    }

    /// The position of a page whose rows are ordered by a text.
    pub(super) fn text(self, page: &PageRequest) -> Result<Option<String>, StoreError> {
        let Some(place) = self.place(page)? else { return Ok(None) };
        String::from_utf8(place).map(Some).map_err(|_| invalid_cursor())
    }

    fn place(self, page: &PageRequest) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(cursor) = &page.cursor else { return Ok(None) };
        self.read(cursor).map(Some).ok_or_else(invalid_cursor)
    }

    /// The cursor of a position, for listings that cut their pages themselves.
    pub(super) fn at_number(self, place: i64) -> String {
        self.write(&place.to_be_bytes())
    }

    /// Makes a page of rows that were read with one more than the limit.
    pub(super) fn page<T>(self, mut rows: Vec<(i64, T)>, page: &PageRequest) -> Page<T> {
        let next = split_next(&mut rows, page).map(|place| self.write(&place.to_be_bytes()));
        Page { rows: rows.into_iter().map(|(_, row)| row).collect(), next }
    }

    /// The same for rows in the order of a text.
    pub(super) fn page_by_text<T>(self, mut rows: Vec<(String, T)>, page: &PageRequest) -> Page<T> {
        let next = split_next(&mut rows, page).map(|place| self.write(place.as_bytes()));
        Page { rows: rows.into_iter().map(|(_, row)| row).collect(), next }
    }
}

/// Collects the rows of a page until it is full by number or by bytes.
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

    /// How many more rows to read: one more than the page shows.
    pub(super) fn wanted(&self) -> i64 {
        if self.is_full {
            return 0;
        }
        i64::from(self.limit) + 1 - i64::try_from(self.rows.len()).unwrap_or(i64::MAX)
    }

    /// Whether the rest of the page fits if its rows are as long as those before.
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

    pub(super) fn page(self, listing: CursorCodec) -> Page<T> {
        listing.page(self.rows, &PageRequest { limit: self.limit, cursor: None })
    }
}

/// The length of a row as JSON, without a buffer.
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

/// Removes the surplus row if there is one, and returns the position of the last row that is left.
fn split_next<P: Clone, T>(rows: &mut Vec<(P, T)>, page: &PageRequest) -> Option<P> {
    let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
    if rows.len() <= limit {
        return None;
    }
    rows.truncate(limit);
    rows.last().map(|(place, _)| place.clone())
}

fn invalid_cursor() -> StoreError {
    StoreError::refused("cursor", "is not one that a page of this listing gave")
}
