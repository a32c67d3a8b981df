//! Encoding of API values in columns. Stored codes never change.

use notify_core::{EventType, IosEnv, Platform, PollLayout};
use uuid::Uuid;

use crate::store::sql::{self, Connection, OptionalExtension, Row, Type};
use crate::store::{AppNo, StoreError, platform_code};

/// Reads a UUID column.
pub(in crate::store) fn uuid_at(row: &Row<'_>, column: usize) -> sql::Result<Uuid> {
    row.get::<[u8; 16]>(column).map(Uuid::from_bytes)
}

/// Reads a count column. A negative count is read as 0.
pub(in crate::store) fn count_at(row: &Row<'_>, column: usize) -> sql::Result<u64> {
    row.get::<i64>(column).map(|count| u64::try_from(count).unwrap_or(0))
}

/// A count as a column value.
pub(in crate::store) fn count(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The error of a column value that a `CHECK` should have prevented.
pub(in crate::store) fn unexpected_value(column: usize, kind: Type) -> sql::Error {
    sql::Error::UnexpectedValue(column, kind)
}

pub(in crate::store) fn layout_code(layout: PollLayout) -> i64 {
    match layout {
        PollLayout::PollImages => 0,
        PollLayout::PollText => 1,
        PollLayout::PollTextWideImage => 2,
    }
}

pub(in crate::store) fn layout_of(code: i64) -> Option<PollLayout> {
    PollLayout::ALL.into_iter().find(|layout| layout_code(*layout) == code)
}

pub(in crate::store) fn event_code(kind: EventType) -> i64 {
    match kind {
        EventType::Received => 0,
        EventType::Opened => 1,
        EventType::Clicked => 2,
        EventType::Dismissed => 3,
    }
}

pub(in crate::store) fn env_code(env: IosEnv) -> i64 {
    match env {
        IosEnv::Production => 0,
        IosEnv::Sandbox => 1,
    }
}

pub(in crate::store) fn env_of(code: i64) -> Option<IosEnv> {
    [IosEnv::Production, IosEnv::Sandbox].into_iter().find(|env| env_code(*env) == code)
}

/// A set of platforms as bits.
pub(in crate::store) fn platform_bits(platforms: &[Platform]) -> i64 {
    platforms.iter().fold(0, |bits, platform| bits | 1 << platform_code(*platform))
}

/// The platforms of a set of bits, in their fixed order.
pub(in crate::store) fn platforms_of(bits: i64) -> Vec<Platform> {
    Platform::ALL.into_iter().filter(|platform| bits >> platform_code(*platform) & 1 == 1).collect()
}

/// Folds the letter case of a text, character by character: if a text contains another text, its
/// folded form contains the folded form of that text.
pub(in crate::store) fn case_fold(text: &str) -> String {
    text.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

/// Returns the device sequence of an application.
///
/// # Errors
/// `NotFound` when the application does not exist or is being erased.
pub(in crate::store) fn require_app(tx: &Connection, app: AppNo) -> Result<i64, StoreError> {
    tx.prepare_cached("select device_sequence from apps where no = ?1 and status <> 'erasing'")?
        .query_row([app.0], |row| row.get(0))
        .optional()?
        .ok_or(StoreError::NotFound)
}
