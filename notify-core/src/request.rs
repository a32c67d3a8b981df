//! The way from bytes to a request model to its validated form.

use crate::{Timestamp, Violations};

/// A request model: what a caller builds or sends.
///
/// ```text
/// bytes --from_json--> model --validate--> validated form
///       (shape: B1)          (rules)
/// ```
pub trait Request: Sized {
    /// What is left after every rule held.
    type Valid;

    /// Reads a body strictly (B1): JSON, types, known fields.
    ///
    /// # Errors
    /// Everything that is wrong with the body's shape.
    fn from_json(body: &[u8]) -> Result<Self, Violations>;

    /// Checks every rule; `now` is what instants are compared with.
    ///
    /// # Errors
    /// Every broken rule.
    fn validate(self, now: Timestamp) -> Result<Self::Valid, Violations>;

    /// Reads and checks in one go, so that an answer lists unknown fields beside broken rules (B2).
    ///
    /// # Errors
    /// Everything that is wrong.
    fn parse(body: &[u8], now: Timestamp) -> Result<Self::Valid, Violations>;
}

/// The query of an endpoint, read as strictly as a body (B1).
pub trait Query: Sized {
    /// What is left after every rule held.
    type Valid;

    /// Reads percent-decoded names and values.
    ///
    /// # Errors
    /// Everything that is wrong, each with the parameter's name.
    fn parse(parameters: &[(String, String)], now: Timestamp) -> Result<Self::Valid, Violations>;
}
