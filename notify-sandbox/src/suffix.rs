//! Tokens that say how they are answered by what follows their last `-`: a word, then `:N` for
//! `Retry-After` and `xN` for the first N attempts alone.

use super::answer::{Action, Answer};

/// What a token asks for, if it does; `named` knows the provider's words.
pub(super) fn read(token: &str, named: impl Fn(&str) -> Option<Answer>) -> Option<Answer> {
    let (_, script) = token.rsplit_once('-')?;
    let (script, attempts) = number_after(script, 'x');
    let (script, retry_after) = number_after(script, ':');
    let fault = Action::FAULTS.into_iter().find(|fault| fault.as_str() == script);
    let answer = match fault {
        Some(fault) => Answer::fault(fault),
        None => named(script)?,
    };
    let attempts = attempts.and_then(|attempts| u32::try_from(attempts).ok());
    Some(Answer { attempts, retry_after, ..answer })
}

/// The ending that asks for an answer; `word` knows what the provider calls it.
pub(super) fn write(
    answer: &Answer,
    word: impl FnOnce(&Answer) -> Option<String>,
) -> Option<String> {
    let mut script = match answer.action {
        Action::Answer => word(answer)?,
        fault => fault.as_str().to_owned(),
    };
    if let Some(seconds) = answer.retry_after {
        script.push_str(&format!(":{seconds}"));
    }
    if let Some(attempts) = answer.attempts {
        script.push_str(&format!("x{attempts}"));
    }
    Some(script)
}

/// Splits `mark` and a number off the end.
pub(super) fn number_after(script: &str, mark: char) -> (&str, Option<u64>) {
    let split = script.rsplit_once(mark);
    let number = split.and_then(|(rest, digits)| Some((rest, digits.parse().ok()?)));
    number.map_or((script, None), |(rest, number)| (rest, Some(number)))
}
