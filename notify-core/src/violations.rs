//! What is wrong with a request: every broken rule, each with its path (B2).

use serde::Serialize;

/// Most rules that one answer lists; the rest is counted in a last line, so that a body of a
/// million wrong elements cannot make an answer larger than itself.
pub const VIOLATIONS_LISTED_MAX: usize = 100;

/// Broken rules, as `path: what is wrong`; at least one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{}", self.0.join("; "))]
pub struct Violations(Vec<String>);

impl Violations {
    /// One broken rule.
    #[must_use]
    pub fn one(path: &str, what: impl std::fmt::Display) -> Self {
        Self(vec![format!("{path}: {what}")])
    }

    /// The rules, as the API lists them.
    #[must_use]
    pub fn as_slice(&self) -> &[String] {
        &self.0
    }

    /// The rules, as the API lists them.
    #[must_use]
    pub fn into_vec(self) -> Vec<String> {
        self.0
    }

    pub(crate) fn from_list(list: Vec<String>) -> Option<Self> {
        if list.is_empty() { None } else { Some(Self(list)) }
    }
}
