//! Tokens that say how they are answered: what follows their last `-`.

use super::errors::{status_of, usual_reason};
use crate::sandbox::answer::{Action, Answer};

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
    let mut script = match (answer.action, &answer.reason, answer.status) {
        (Action::Answer, Some(reason), _) => {
            WORDS.iter().find(|(_, known)| known == reason)?.0.to_owned()
        }
        (Action::Answer, None, status) => {
            let status = status?;
            usual_reason(status)?;
            status.to_string()
        }
        (fault, _, _) => fault.as_str().to_owned(),
    };
    if let Some(seconds) = answer.retry_after {
        script.push_str(&format!(":{seconds}"));
    }
    if let Some(attempts) = answer.attempts {
        script.push_str(&format!("x{attempts}"));
    }
    Some(script)
}

/// What a token asks for, if it does.
pub(super) fn in_token(token: &str) -> Option<Answer> {
    let (_, script) = token.rsplit_once('-')?;
    let (script, attempts) = number_after(script, 'x');
    let (script, retry_after) = number_after(script, ':');
    let fault = Action::FAULTS.into_iter().find(|fault| fault.as_str() == script);
    let word = WORDS.iter().find(|(word, _)| *word == script);
    let answer = match (fault, word) {
        (Some(fault), _) => Answer::fault(fault),
        (None, Some((_, reason))) => Answer { status: status_of(reason), ..Answer::reason(reason) },
        (None, None) => {
            let status = script.parse().ok()?;
            Answer { status: Some(status), ..Answer::reason(usual_reason(status)?) }
        }
    };
    let attempts = attempts.and_then(|attempts| u32::try_from(attempts).ok());
    Some(Answer { attempts, retry_after, ..answer })
}

/// Splits `mark` and a number off the end.
pub(in crate::sandbox) fn number_after(script: &str, mark: char) -> (&str, Option<u64>) {
    let split = script.rsplit_once(mark);
    let number = split.and_then(|(rest, digits)| Some((rest, digits.parse().ok()?)));
    number.map_or((script, None), |(rest, number)| (rest, Some(number)))
}
