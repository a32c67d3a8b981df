//! Tokens that say how they are answered: what follows their last `-`.

use super::errors::{status_of, usual_reason};
use crate::sandbox::answer::Answer;
use crate::sandbox::suffix;

/// The words and the failures they stand for.
const WORDS: [(&str, &str); 13] = [
    ("unregistered", "UNREGISTERED"),
    ("invalid", "INVALID_ARGUMENT"),
    ("badrequest", "BAD_REQUEST"),
    ("mismatch", "SENDER_ID_MISMATCH"),
    ("denied", "PERMISSION_DENIED"),
    ("unauthenticated", "UNAUTHENTICATED"),
    ("thirdparty", "THIRD_PARTY_AUTH_ERROR"),
    ("notfound", "NOT_FOUND"),
    ("quota", "QUOTA_EXCEEDED"),
    ("internal", "INTERNAL"),
    ("unavailable", "UNAVAILABLE"),
    ("unspecified", "UNSPECIFIED_ERROR"),
    ("empty", "EMPTY"),
];

/// A registration token, distinct for each `seed`, that is answered like `answer` (the module's
/// documentation has the scheme).
///
/// # Panics
/// When a token cannot say it: a reason without a word. That takes a
/// [`Rule`](crate::sandbox::Rule).
#[must_use]
pub fn fcm_token(seed: u64, answer: &Answer) -> String {
    if answer.is_success() {
        return format!("fcm{seed:012}:sandbox");
    }
    let script = script(answer).expect("the answer can be said in a token");
    format!("fcm{seed:012}:sandbox-{script}")
}

fn script(answer: &Answer) -> Option<String> {
    suffix::write(answer, |answer| match (&answer.reason, answer.status) {
        (Some(reason), _) => Some(WORDS.iter().find(|(_, known)| known == reason)?.0.to_owned()),
        (None, status) => {
            usual_reason(status?)?;
            Some(status?.to_string())
        }
    })
}

/// What a token asks for, if it does.
pub(super) fn in_token(token: &str) -> Option<Answer> {
    suffix::read(token, |script| {
        if let Some((_, reason)) = WORDS.iter().find(|(word, _)| *word == script) {
            return Some(Answer { status: status_of(reason), ..Answer::reason(reason) });
        }
        let status = script.parse().ok()?;
        Some(Answer { status: Some(status), ..Answer::reason(usual_reason(status)?) })
    })
}
