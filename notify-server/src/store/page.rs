//! One page of a listing.

use aws_lc_rs::digest::{Context, SHA256};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;

use crate::store::StoreError;

/// The rows of one page, and where the next page begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The rows, at most [`PageRequest::limit`].
    pub rows: Vec<T>,
    /// Opaque cursor of the next page; `None` on the last page.
    pub next: Option<String>,
}

/// A request for one page of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRequest {
    /// The most rows of the page, 1 to 1,000.
    pub limit: u32,
    /// The cursor from [`Page::next`] of the previous page; `None` for the first page. Any other
    /// text is refused ([`crate::store::StoreError::Refused`]) with the path `cursor`.
    pub cursor: Option<String>,
}

// Cursors are opaque to callers. A cursor begins with a checksum over the list and the owner of the
// list. The checksum shows whether a caller sends the cursor of another list or of another
// application.

/// A page is full once its rows have this many bytes of JSON. The next row begins the next page.
const PAGE_JSON_BYTES_MAX: u64 = 4 * 1_048_576;
/// The length of the checksum, in bytes.
const CHECKSUM_BYTES: usize = 6;

/// Encodes and decodes the cursors of one list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CursorCodec {
    /// The kind of list, such as `devices`.
    pub(super) list: &'static str,
    /// The number of what the list belongs to, usually an application.
    pub(super) owner: i64,
}

impl CursorCodec {
    /// Encodes a position as a cursor.
    fn encode(self, position: &[u8]) -> String {
        let mut bytes = self.checksum(position).to_vec();
        bytes.extend_from_slice(position);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Decodes a cursor into a position; `None` if the cursor does not belong to this list.
    fn decode(self, cursor: &str) -> Option<Vec<u8>> {
        let bytes = URL_SAFE_NO_PAD.decode(cursor).ok()?;
        let (checksum, position) = bytes.split_at_checked(CHECKSUM_BYTES)?;
        (checksum == self.checksum(position)).then(|| position.to_vec())
    }

    fn checksum(self, position: &[u8]) -> [u8; CHECKSUM_BYTES] {
        let mut digest = Context::new(&SHA256);
        digest.update(self.list.as_bytes());
        digest.update(&self.owner.to_be_bytes());
        digest.update(position);
        let digest = digest.finish();
        std::array::from_fn(|at| digest.as_ref()[at])
    }

    /// Decodes the cursor of a list that is sorted by a number; `None` for the first page.
    pub(super) fn decode_number(self, page: &PageRequest) -> Result<Option<i64>, StoreError> {
        let Some(cursor) = &page.cursor else { return Ok(None) };
        self.number_of(cursor).map(Some).ok_or_else(invalid_cursor)
    }

    /// The number that a cursor contains; `None` if it does not belong to this list.
    pub(super) fn number_of(self, cursor: &str) -> Option<i64> {
        let bytes = self.decode(cursor)?.try_into().ok()?;
        Some(i64::from_be_bytes(bytes))
    }

    /// Decodes the cursor of a list that is sorted by a text; `None` for the first page. The checksum is
    /// not secret, so a caller can invent a position: PostgreSQL has no text with U+0000.
    pub(super) fn decode_text(self, page: &PageRequest) -> Result<Option<String>, StoreError> {
        let Some(position) = self.decode_request(page)? else { return Ok(None) };
        let text = String::from_utf8(position).ok().filter(|text| !text.contains('\0'));
        text.map(Some).ok_or_else(invalid_cursor)
    }

    fn decode_request(self, page: &PageRequest) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(cursor) = &page.cursor else { return Ok(None) };
        self.decode(cursor).map(Some).ok_or_else(invalid_cursor)
    }

    /// Encodes a position as a cursor, for lists that divide their rows into pages themselves.
    pub(super) fn encode_number(self, position: i64) -> String {
        self.encode(&position.to_be_bytes())
    }

    /// Makes a page of rows with their positions. `rows` has one row more than the limit if another
    /// page follows.
    pub(super) fn page<T>(self, mut rows: Vec<(i64, T)>, page: &PageRequest) -> Page<T> {
        let next = split_next(&mut rows, page).map(|position| self.encode(&position.to_be_bytes()));
        Page { rows: rows.into_iter().map(|(_, row)| row).collect(), next }
    }

    /// As [`CursorCodec::page`], for a list that is sorted by a text.
    pub(super) fn page_by_text<T>(self, mut rows: Vec<(String, T)>, page: &PageRequest) -> Page<T> {
        let next = split_next(&mut rows, page).map(|position| self.encode(position.as_bytes()));
        Page { rows: rows.into_iter().map(|(_, row)| row).collect(), next }
    }
}

/// Collects the rows of a page until the page is full, by the number of its rows or by their bytes.
pub(super) struct PageBuilder<T> {
    rows: Vec<(i64, T)>,
    json_bytes: u64,
    limit: u32,
    is_full: bool,
}

impl<T: Serialize> PageBuilder<T> {
    pub(super) fn new(page: &PageRequest) -> Self {
        Self { rows: Vec::new(), json_bytes: 0, limit: page.limit, is_full: false }
    }

    /// The number of rows still to read: one more than the page can show, to find out whether
    /// another page follows.
    pub(super) fn rows_wanted(&self) -> i64 {
        if self.is_full {
            return 0;
        }
        i64::from(self.limit) + 1 - i64::try_from(self.rows.len()).unwrap_or(i64::MAX)
    }

    /// Whether the rest of the page fits, if the remaining rows are as long as the rows so far.
    pub(super) fn has_room_for_all(&self) -> bool {
        let rows = u64::try_from(self.rows.len()).unwrap_or(u64::MAX);
        let wanted = u64::try_from(self.rows_wanted()).unwrap_or(0);
        let Some(bytes_per_row) = self.json_bytes.checked_div(rows) else { return false };
        bytes_per_row.saturating_mul(wanted) < PAGE_JSON_BYTES_MAX.saturating_sub(self.json_bytes)
    }

    /// Adds the next row with its position. A row that is added to a full page begins the next
    /// page.
    pub(super) fn add(&mut self, position: i64, row: T) -> Result<(), StoreError> {
        if self.json_bytes >= PAGE_JSON_BYTES_MAX {
            self.limit = u32::try_from(self.rows.len()).unwrap_or(self.limit).min(self.limit);
            self.is_full = true;
        }
        self.json_bytes += json_bytes(&row)?;
        self.rows.push((position, row));
        Ok(())
    }

    pub(super) fn page(self, cursors: CursorCodec) -> Page<T> {
        cursors.page(self.rows, &PageRequest { limit: self.limit, cursor: None })
    }
}

/// The length of a row as JSON, in bytes. Counts the bytes without storing them.
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

/// The number of rows to read for a page: one more than the limit, to find out whether another page
/// follows.
pub(super) fn rows_wanted(page: &PageRequest) -> i64 {
    i64::from(page.limit) + 1
}

/// Removes the row beyond the limit, if there is one, and returns the position of the last
/// remaining row. Returns `None` on the last page.
fn split_next<P: Clone, T>(rows: &mut Vec<(P, T)>, page: &PageRequest) -> Option<P> {
    let limit = usize::try_from(page.limit).unwrap_or(usize::MAX);
    if rows.len() <= limit {
        return None;
    }
    rows.truncate(limit);
    rows.last().map(|(position, _)| position.clone())
}

fn invalid_cursor() -> StoreError {
    StoreError::refused("cursor", "is not a cursor of this list")
}
