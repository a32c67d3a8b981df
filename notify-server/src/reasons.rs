//! The reasons that Notify itself gives for a delivery that waits or has ended. Providers add their own
//! codes. Reasons are stored with outcomes, shown by `explain` and used as metric labels, so they are
//! never renamed.

use notify_core::{ProviderStatus, TokenProblem};

/// The address belongs to another provider: a bug in Notify.
pub(crate) const ADDRESS_OF_ANOTHER_PROVIDER: &str = "address_of_another_provider";
/// The notification was canceled.
pub(crate) const CANCELED: &str = "canceled";
/// The provider refuses our credentials, and the notification does not wait for better ones because it
/// has a single attempt.
pub(crate) const CREDENTIALS_REFUSED: &str = "credentials_refused";
/// The sealed credentials cannot be opened with this master key.
pub(crate) const CREDENTIALS_UNREADABLE: &str = ProviderStatus::CREDENTIALS_UNREADABLE;
/// The device was erased.
pub(crate) const DEVICE_DELETED: &str = "device_deleted";
/// The device was disabled before its next attempt.
pub(crate) const DEVICE_DISABLED: &str = "device_disabled";
/// The endpoint of the browser is below `.invalid`: the subscription was removed.
pub(crate) const ENDPOINT_REMOVED: &str = "endpoint_removed";
/// `ttl_seconds` have passed.
pub(crate) const EXPIRED: &str = "expired";
/// At the next attempt, the device no longer met the condition of the audience.
pub(crate) const FAILS_AUDIENCE: &str = "fails_audience";
/// A bug in Notify.
pub(crate) const INTERNAL_ERROR: &str = "internal_error";
/// The provider reported that the device has another address.
pub(crate) const MOVED: &str = "moved";
/// The device has no address for this provider.
pub(crate) const NO_ADDRESS: &str = "no_address";
/// The push token of an iOS device cannot be one of APNs, so nothing was sent.
pub(crate) const NOT_AN_APNS_TOKEN: &str = "not_an_apns_token";
/// The push token of an Android device cannot be one of FCM, so nothing was sent.
pub(crate) const NOT_AN_FCM_TOKEN: &str = "not_an_fcm_token";
/// Every device id in the notification is unknown. This reason appears in the notification's event, and
/// never at a delivery.
pub(crate) const NO_SUCH_DEVICE: &str = "no_such_device";
/// The server ended while it sent the message, and its application does not want messages repeated
/// (`on_crash`).
pub(crate) const OUTCOME_UNKNOWN: &str = "outcome_unknown";
/// A notification with the same collapse key that became due later was sent already.
pub(crate) const OVERTAKEN: &str = "overtaken";
/// The chat got its last message so recently that the platform would refuse another one.
pub(crate) const PACED: &str = "paced";
/// The message is larger than the provider accepts.
pub(crate) const PAYLOAD_TOO_LARGE: &str = "payload_too_large";
/// No provider is configured for the platform.
pub(crate) const PROVIDER_NOT_CONFIGURED: &str = "provider_not_configured";
/// The stored request cannot be read: a bug in Notify, or a damaged disk.
pub(crate) const REQUEST_UNREADABLE: &str = "request_unreadable";
/// The address received the notification already, when it belonged to another device.
pub(crate) const SENT_UNDER_ANOTHER_DEVICE: &str = "sent_under_another_device";
/// Signing with our key failed.
pub(crate) const SIGNING_FAILED: &str = "signing_failed";
/// The notification is silent, which the platform does not support.
pub(crate) const SILENT_NOT_SUPPORTED: &str = "silent_not_supported";
/// The provider asked to slow down.
pub(crate) const THROTTLED: &str = "throttled";
/// The provider did not respond in time.
pub(crate) const TIMEOUT: &str = "timeout";
/// At the next attempt, the device was no longer logged in as the named user.
pub(crate) const USER_CHANGED: &str = "user_changed";

/// All reasons that a delivery can have.
pub(crate) const ALL: &[&str] = &[
    ADDRESS_OF_ANOTHER_PROVIDER,
    CANCELED,
    CREDENTIALS_REFUSED,
    CREDENTIALS_UNREADABLE,
    DEVICE_DELETED,
    DEVICE_DISABLED,
    ENDPOINT_REMOVED,
    EXPIRED,
    FAILS_AUDIENCE,
    INTERNAL_ERROR,
    MOVED,
    NOT_AN_APNS_TOKEN,
    NOT_AN_FCM_TOKEN,
    NO_ADDRESS,
    OUTCOME_UNKNOWN,
    OVERTAKEN,
    PACED,
    PAYLOAD_TOO_LARGE,
    PROVIDER_NOT_CONFIGURED,
    REQUEST_UNREADABLE,
    SENT_UNDER_ANOTHER_DEVICE,
    SIGNING_FAILED,
    SILENT_NOT_SUPPORTED,
    THROTTLED,
    TIMEOUT,
    USER_CHANGED,
];

/// Why a server cannot use its credentials for `name`, a provider or a push service. `reason` is that of
/// [`ProviderStatus::AuthRejected`].
pub(crate) fn credentials_problem(name: &str, reason: Option<&str>) -> String {
    match reason {
        Some(CREDENTIALS_UNREADABLE) => {
            format!("a server cannot open the stored credentials for {name} with its master key")
        }
        Some(reason) => format!("{name} refuses the server's credentials ({reason})"),
        None => format!("{name} refuses the server's credentials"),
    }
}

/// The reason for a push token that cannot be one of its provider.
pub(crate) fn of_token(problem: TokenProblem) -> &'static str {
    match problem {
        TokenProblem::NotApns(_) => NOT_AN_APNS_TOKEN,
        TokenProblem::NotFcm(_) => NOT_AN_FCM_TOKEN,
    }
}
