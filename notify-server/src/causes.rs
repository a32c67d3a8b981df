//! An error with what caused it, as one line for the log: a field of the log in JSON shows the error
//! alone, without its sources.

use std::error::Error;

/// The error and everything below it.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
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
}
