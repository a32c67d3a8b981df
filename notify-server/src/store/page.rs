//! One page of a listing (B10).

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
    /// [`super::StoreError::Refused`] with the path `cursor`.
    pub cursor: Option<String>,
}
