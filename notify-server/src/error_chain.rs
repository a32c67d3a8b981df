//! Formats an error with its causes as one line for the log. Without it, the log would show only
//! the error itself, without its sources.

use std::error::Error;

/// An error and its causes, separated by colons. A cause is left out if it only repeats the text of
/// the error above it, for example with a code before it.
pub fn error_chain(error: &dyn Error) -> String {
    let mut last = error.to_string();
    let mut text = last.clone();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !last.ends_with(&cause_text) && !cause_text.ends_with(&last) {
            text = format!("{text}: {cause_text}");
            last = cause_text;
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::StoreError;

    #[test]
    fn each_cause_appears_once() {
        let error = StoreError::Unavailable("disk full".into());
        assert_eq!(error_chain(&error), "storage is not available: disk full");
        assert_eq!(error_chain(&StoreError::NotFound), "not found");
    }

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct TestError(&'static str, #[source] Option<Box<Self>>);

    #[test]
    fn repeated_causes_are_left_out() {
        for (texts, expected) in [
            (["is no database", "code 26: is no database"], "is no database"),
            (["failed: disk full", "disk full"], "failed: disk full"),
            (
                ["reading page 1", "code 26: is no database"],
                "reading page 1: code 26: is no database",
            ),
        ] {
            let [text, cause] = texts;
            let error = TestError(text, Some(Box::new(TestError(cause, None))));
            assert_eq!(error_chain(&error), expected);
        }
    }
}
