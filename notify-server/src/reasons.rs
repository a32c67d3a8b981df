//! Our own words for why a delivery waits or ended; providers have theirs. They are kept with
//! outcomes (B20), told by `explain` (B38) and labels of metrics, and are never renamed.

/// The address is one of another provider: a defect of ours.
pub(crate) const ADDRESS_OF_ANOTHER_PROVIDER: &str = "address_of_another_provider";
/// The notification was canceled.
pub(crate) const CANCELED: &str = "canceled";
/// The provider refuses our credentials, and a notification with one try does not wait for that.
pub(crate) const CREDENTIALS_REFUSED: &str = "credentials_refused";
/// The sealed credentials cannot be opened with this master key.
pub(crate) const CREDENTIALS_UNREADABLE: &str = "credentials_cannot_be_opened";
/// The device was erased.
pub(crate) const DEVICE_DELETED: &str = "device_deleted";
/// The device was disabled before its next try.
pub(crate) const DEVICE_DISABLED: &str = "device_disabled";
/// `ttl_seconds` are over.
pub(crate) const EXPIRED: &str = "expired";
/// A defect of ours.
pub(crate) const INTERNAL_ERROR: &str = "internal_error";
/// The provider named another address.
pub(crate) const MOVED: &str = "moved";
/// The device has no address that this provider takes.
pub(crate) const NO_ADDRESS: &str = "no_address";
/// Every id that the notification names is unknown (B64); of its event, never of a delivery.
pub(crate) const NO_SUCH_DEVICE: &str = "no_such_device";
/// A newer notification of the same collapse key is shown in its place.
pub(crate) const OVERTAKEN: &str = "overtaken";
/// The chat was written to so lately that the platform would refuse another message.
pub(crate) const PACED: &str = "paced";
/// The message is larger than the provider takes (B16).
pub(crate) const PAYLOAD_TOO_LARGE: &str = "payload_too_large";
/// No provider is configured for the platform.
pub(crate) const PROVIDER_NOT_CONFIGURED: &str = "provider_not_configured";
/// The kept request cannot be read: a defect of ours, or of the disk.
pub(crate) const REQUEST_UNREADABLE: &str = "request_unreadable";
/// Another device that had this address got it.
pub(crate) const SENT_UNDER_ANOTHER_DEVICE: &str = "sent_under_another_device";
/// Our key does not sign.
pub(crate) const SIGNING_FAILED: &str = "signing_failed";
/// The provider asked to slow down.
pub(crate) const THROTTLED: &str = "throttled";
/// The provider gave no answer in time.
pub(crate) const TIMEOUT: &str = "timeout";

/// All of them.
pub(crate) const ALL: &[&str] = &[
    ADDRESS_OF_ANOTHER_PROVIDER,
    CANCELED,
    CREDENTIALS_REFUSED,
    CREDENTIALS_UNREADABLE,
    DEVICE_DELETED,
    DEVICE_DISABLED,
    EXPIRED,
    INTERNAL_ERROR,
    MOVED,
    NO_ADDRESS,
    OVERTAKEN,
    PACED,
    PAYLOAD_TOO_LARGE,
    PROVIDER_NOT_CONFIGURED,
    REQUEST_UNREADABLE,
    SENT_UNDER_ANOTHER_DEVICE,
    SIGNING_FAILED,
    THROTTLED,
    TIMEOUT,
];
