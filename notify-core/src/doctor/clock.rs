//! The server's clock, compared with that of the providers. Providers refuse the tokens of a server whose clock is
//! wrong, and do not always say why.

use super::Finding;
use crate::pluralize;

/// Smallest difference that is reported, in milliseconds. Providers tolerate more.
const DIFFERENCE_MS_MIN: u64 = 120_000;

/// The part of a text by which the server reports that its clock differs from a provider's.
pub(super) const WRONG_CLOCK: &str = "this server's clock is";

/// The remedy.
pub(super) const HINT: &str = "set the clock of the server's machine (NTP; `timedatectl` shows its state): the \
    provider refuses tokens of a wrong clock, and the keys may be right";

/// How the server's clock differs from a provider's, which it is `ahead_ms` milliseconds ahead of; `None` if it
/// agrees.
#[must_use]
pub fn clock_difference(ahead_ms: i64) -> Option<String> {
    let difference_ms = ahead_ms.unsigned_abs();
    if difference_ms < DIFFERENCE_MS_MIN {
        return None;
    }
    let minutes = pluralize(difference_ms / 60_000, "minute");
    let side = if ahead_ms > 0 { "ahead of" } else { "behind" };
    Some(format!("{WRONG_CLOCK} {minutes} {side} the provider's"))
}

/// A finding if the server has compared its clock with a provider's, which it is `ahead_ms` milliseconds ahead of.
pub(super) fn check_provider_clock(ahead_ms: Option<i64>) -> Option<Finding> {
    const CHECK: &str = "provider clock";
    Some(match clock_difference(ahead_ms?) {
        Some(difference) => Finding::failed(CHECK, "", difference).with_hint(HINT),
        None => Finding::passed(CHECK, "", "the server and the providers agree"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_differs_by_minutes_is_reported() {
        for (ahead_ms, expected) in [
            (0, None),
            (119_999, None),
            (-119_999, None),
            (120_000, Some("this server's clock is 2 minutes ahead of the provider's")),
            (7_200_000, Some("this server's clock is 120 minutes ahead of the provider's")),
            (-180_000, Some("this server's clock is 3 minutes behind the provider's")),
        ] {
            assert_eq!(clock_difference(ahead_ms).as_deref(), expected, "{ahead_ms}");
            let finding = check_provider_clock(Some(ahead_ms)).unwrap();
            assert_eq!(finding.is_ok(), expected.is_none(), "{ahead_ms}");
        }
        assert!(check_provider_clock(None).is_none());
    }
}
