//! Paging of listings: page sizes, and cursors, which only the server can read.

use crate::{Parameter, ParameterForm, Query, Timestamp, Violations, query::Parameters};

/// Page size of a listing when none is asked for.
pub const LIMIT_DEFAULT: u32 = 50;
/// Largest page of a listing.
pub const LIMIT_MAX: u32 = 1_000;

pub(crate) const LIMIT: Parameter = Parameter::new(
    "limit",
    ParameterForm::Whole { min: 1, max: LIMIT_MAX as u64, or: None },
    "Page size; 50 when absent",
);
pub(crate) const CURSOR: Parameter =
    Parameter::new("cursor", ParameterForm::Text, "The `next_cursor` of the page before");

/// Query of a listing that pages with a cursor.
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
    const PARAMETERS: &'static [Parameter] = &[LIMIT, CURSOR];

    fn parse(parameters: &[(String, String)], _now: Timestamp) -> Result<Self, Violations> {
        let mut parameters = Parameters::new(parameters, Self::PARAMETERS);
        let page = Self::take(&mut parameters);
        parameters.finish(Some(page))
    }
}

pub(crate) fn take_limit(parameters: &mut Parameters<'_>) -> Option<u32> {
    let limit = parameters.whole("limit");
    limit.and_then(|limit| u32::try_from(limit).ok())
}
