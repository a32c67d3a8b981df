//! What a check of credentials came to.

use super::{Answer, Reason};

/// What a check of credentials came to. The detail is for an administrator: the provider's own
/// word, and never a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Whether messages can go out with these credentials, as far as can be told.
    pub ok: bool,
    /// What the provider said, or why it was not heard.
    pub detail: String,
}

impl Checked {
    /// The credentials are good.
    pub(crate) fn good(detail: impl Into<String>) -> Self {
        Self { ok: true, detail: detail.into() }
    }

    /// They are not, or that could not be found out.
    pub(crate) fn bad(detail: impl Into<String>) -> Self {
        Self { ok: false, detail: detail.into() }
    }

    /// What the answer to a message says that nobody can get: that its address is refused means
    /// that everything before it was taken.
    pub(crate) fn of_answer(answer: &Answer) -> Self {
        let refused = |reason: &Reason| Self::bad(format!("the credentials are refused: {reason}"));
        match answer {
            Answer::Delivered { .. } | Answer::TokenDead { .. } | Answer::Moved { .. } => {
                Self::good("the credentials are accepted")
            }
            Answer::Config { reason } | Answer::ServiceRefused { reason } => refused(reason),
            Answer::Throttle { reason, .. } => {
                Self::bad(format!("the provider asks to wait: {reason}"))
            }
            Answer::Retry { reason, .. } => {
                Self::bad(format!("the provider gave no answer that counts: {reason}"))
            }
            Answer::BadMessage { reason }
            | Answer::Policy { reason }
            | Answer::Unknown { reason } => {
                Self::bad(format!("the provider did not take the check: {reason}"))
            }
        }
    }
}
