//! Lists as parameters: one statement for any number of rows, since each statement is a round trip if
//! the database is on another machine. A list is one parameter, a JSON array.

use serde::Serialize;

/// The numbers of the list that is the first parameter, as in `where no in {NUMBERS}`.
pub(in crate::store) const NUMBERS: &str =
    "(select cast(value as bigint) from json_each(json(?1)))";
/// The texts of the list that is the first parameter.
pub(in crate::store) const TEXTS: &str = "(select value from json_each(json(?1)))";

/// A list as [`NUMBERS`] and [`TEXTS`] take it.
pub(in crate::store) fn list_of<T: Serialize>(items: &[T]) -> String {
    serde_json::to_string(items).expect("numbers and texts are JSON")
}
