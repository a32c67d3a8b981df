//! Strict JSON: what the standard leaves open is refused, and what is refused has a path.
//!
//! A body is read twice: [`check()`] walks over all of it and builds nothing; then the typed reader
//! takes what it knows by name. Both are linear in the body, whatever it holds.

mod check;
mod key;
mod object;
mod read;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod tests;
mod value;

pub use check::{MEMBERS_MAX, NESTING_MAX, check};
pub use object::JsonObject;
pub(crate) use read::{Body, Object, read_body};
pub(crate) use value::Value;

/// Counts the bytes that a step looks at, for the test that the whole stays linear.
#[cfg(test)]
pub(crate) fn scanned(bytes: usize) {
    steps::add(bytes);
}

#[cfg(not(test))]
pub(crate) fn scanned(_bytes: usize) {}
