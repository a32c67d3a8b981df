//! Paging of listings (B10): page sizes, and cursors that only the server can read.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

use crate::{Query, Timestamp, Violations, query::Parameters};

/// Page size of a listing when none is asked for (spec 8).
pub const LIMIT_DEFAULT: u32 = 50;
/// Largest page of a listing (B10).
pub const LIMIT_MAX: u32 = 1_000;
/// What the text of every cursor begins with before it is encoded; other texts are not ours.
const CURSOR_MARK: &str = "n1.";

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

/// Writes the key that a page ended with as a cursor.
#[must_use]
pub fn encode_cursor(key: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!("{CURSOR_MARK}{key}"))
}

/// Reads the key that a page ended with.
///
/// # Errors
/// When the text is not a cursor that [`encode_cursor`] wrote.
///
/// ```
/// use notify_core::{decode_cursor, encode_cursor};
///
/// assert_eq!(decode_cursor(&encode_cursor("42")).unwrap(), "42");
/// let refused = decode_cursor("42").unwrap_err();
/// assert_eq!(refused.as_slice(), ["cursor: is not one that this server made"]);
/// ```
pub fn decode_cursor(cursor: &str) -> Result<String, Violations> {
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    let key = text.as_deref().and_then(|text| text.strip_prefix(CURSOR_MARK));
    key.map(str::to_owned).ok_or_else(unknown_cursor)
}

/// What a cursor gets whose key the store cannot read.
#[must_use]
pub fn unknown_cursor() -> Violations {
    Violations::one("cursor", "is not one that this server made")
}
