//! An error with what caused it, as one line for the log: a field of the log in JSON shows the error
//! alone, without its sources.

use std::error::Error;

/// The error and everything below it. A cause that says what stands above it, whole or behind a
/// code of its own, is left out.
pub fn with_causes(error: &dyn Error) -> String {
    let mut last = error.to_string();
    let mut text = last.clone();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        if !last.ends_with(&said) && !said.ends_with(&last) {
            text = format!("{text}: {said}");
            last = said;
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
    fn every_cause_is_told_once() {
        let error = StoreError::Unavailable("disk full".into());
        assert_eq!(with_causes(&error), "storage is not available: disk full");
        assert_eq!(with_causes(&StoreError::NotFound), "not found");
    }

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Says(&'static str, #[source] Option<Box<Self>>);

    #[test]
    fn what_is_said_already_is_left_out() {
        for (texts, told) in [
            (["is no database", "code 26: is no database"], "is no database"),
            (["failed: disk full", "disk full"], "failed: disk full"),
            (
                ["reading page 1", "code 26: is no database"],
                "reading page 1: code 26: is no database",
            ),
        ] {
            let [text, cause] = texts;
            let error = Says(text, Some(Box::new(Says(cause, None))));
            assert_eq!(with_causes(&error), told);
        }
    }
}
