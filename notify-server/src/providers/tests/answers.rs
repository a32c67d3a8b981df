//! Answers as the tables of the providers' tests write them.

use crate::providers::{Answer, Certainty, Scope};

pub(in crate::providers) fn config(reason: &str) -> Answer {
    Answer::Config { reason: reason.to_owned().into() }
}

pub(in crate::providers) fn bad(reason: &str) -> Answer {
    Answer::BadMessage { reason: reason.to_owned().into() }
}

pub(in crate::providers) fn retry(reason: &str) -> Answer {
    Answer::Retry { reason: reason.to_owned().into(), after: None, outcome: Certainty::Failed }
}

pub(in crate::providers) fn throttle(reason: &str, scope: Scope) -> Answer {
    Answer::Throttle { reason: reason.to_owned().into(), after: None, scope }
}

pub(in crate::providers) fn unknown(reason: &str) -> Answer {
    Answer::Unknown { reason: reason.to_owned().into() }
}
