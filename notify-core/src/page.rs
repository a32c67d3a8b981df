//! Paging of listings (B10).

/// Page size of a listing when none is asked for (spec 8).
pub const LIMIT_DEFAULT: u32 = 50;
/// Largest page of a listing (B10).
pub const LIMIT_MAX: u32 = 1_000;

/// Query of a listing that pages with a cursor (B10).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageQuery {
    /// Page size; 50 when absent.
    pub limit: Option<u32>,
    /// Where the page before ended.
    pub cursor: Option<String>,
}
