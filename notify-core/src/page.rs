//! Paging of listings (B10): page sizes, and cursors, which only the server can read.

use crate::{Query, Timestamp, Violations, query::Parameters};

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

impl PageQuery {
    pub(crate) fn take(parameters: &mut Parameters<'_>) -> Self {
        Self { limit: take_limit(parameters), cursor: parameters.text("cursor").map(str::to_owned) }
    }
}

impl Query for PageQuery {
    type Valid = Self;

    fn parse(parameters: &[(String, String)], _now: Timestamp) -> Result<Self, Violations> {
        let mut parameters = Parameters::new(parameters);
        let page = Self::take(&mut parameters);
        parameters.finish(Some(page))
    }
}

pub(crate) fn take_limit(parameters: &mut Parameters<'_>) -> Option<u32> {
    let limit = parameters.whole("limit", 1, u64::from(LIMIT_MAX));
    limit.and_then(|limit| u32::try_from(limit).ok())
}
