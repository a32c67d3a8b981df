//! Reasons as labels: a closed list, since providers may say anything.

use crate::reasons;

/// The words that are labels beside ours: the providers' own that the answer tables of `providers/`
/// name. What is in neither counts as [`OTHER`], and is spelt out by the notification's `failures`.
const REASONS: &[&str] = &[
    // APNs.
    "BadCollapseId",
    "BadDeviceToken",
    "BadPath",
    "DeviceTokenNotForTopic",
    "ExpiredToken",
    "InternalServerError",
    "PayloadTooLarge",
    "ServiceUnavailable",
    "Shutdown",
    "TooManyRequests",
    "Unregistered",
    // FCM.
    "INTERNAL",
    "INVALID_ARGUMENT",
    "QUOTA_EXCEEDED",
    "SENDER_ID_MISMATCH",
    "UNAVAILABLE",
    "UNREGISTERED",
    // Web Push and what answers in HTTP alone.
    "http_400",
    "http_403",
    "http_404",
    "http_410",
    "http_413",
    "http_429",
    "http_500",
    "http_502",
    "http_503",
];

/// Every reason that is not in the list.
pub(super) const OTHER: &str = "other";

/// The label of a reason; none where nothing went wrong.
pub(super) fn label(reason: Option<&str>) -> &'static str {
    let Some(reason) = reason else { return "" };
    reasons::ALL.iter().chain(REASONS).find(|known| **known == reason).unwrap_or(&OTHER)
}

/// How many labels there can be.
#[cfg(test)]
pub(super) const LABELS_MAX: usize = reasons::ALL.len() + REASONS.len() + 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_reason_is_another() {
        assert_eq!(label(Some("BadDeviceToken")), "BadDeviceToken");
        assert_eq!(label(Some("overtaken")), "overtaken");
        assert_eq!(label(Some("http_418 token-of-somebody")), "other");
        assert_eq!(label(None), "");
    }
}
