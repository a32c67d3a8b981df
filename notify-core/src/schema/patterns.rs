//! Regular expressions (ECMA-262) of what validation reads by hand. Those of urls hold what can be told
//! without reading the whole: what they refuse is refused, what they let through may be.

/// An id that a caller makes: no control characters, not `.` or `..`.
pub const CALLER_ID: &str = r"^(?!\.{1,2}$)[^\u0000-\u001f\u007f-\u009f]+$";
/// The same for the id of a report: not a path of its own either.
pub(super) const REPORT_ID: &str =
    r"^(?!(?:\.{1,2}|notify|preview)$)[^\u0000-\u001f\u007f-\u009f]+$";
/// An id that the server makes.
pub const SERVER_ID: &str = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";
/// A campaign: its id, or the default one.
pub const CAMPAIGN_REF: &str =
    "^(?:default|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$";
/// The `Idempotency-Key` header.
pub const IDEMPOTENCY_KEY: &str = "^[!-~]+$";

/// An absolute `http` or `https` url.
pub(super) const HTTP_URL: &str =
    r"^[Hh][Tt][Tt][Pp][Ss]?://[^\u0000-\u0020\u007f-\u009f/\\][^\u0000-\u001f\u007f-\u009f]*$";
/// The same with TLS alone.
pub(super) const HTTPS_URL: &str =
    r"^[Hh][Tt][Tt][Pp][Ss]://[^\u0000-\u0020\u007f-\u009f/\\][^\u0000-\u001f\u007f-\u009f]*$";
/// An absolute url of any scheme but those that are refused.
pub(super) const URI: &str = r"^(?![Jj][Aa][Vv][Aa][Ss][Cc][Rr][Ii][Pp][Tt]:|[Dd][Aa][Tt][Aa]:)[A-Za-z][A-Za-z0-9+.-]*:[^\u0000-\u001f\u007f-\u009f]*$";

/// `GMT` or `GMT±HH:MM` within ±14:00, or nothing.
pub(super) const TIMEZONE: &str = "^(?:GMT(?:[+-](?:(?:0[0-9]|1[0-3]):[0-5][0-9]|14:00))?)?$";
/// Whole minutes within ±840 as Rust reads a number, or nothing.
pub(super) const UTC_OFFSET: &str = "^(?:[+-]?0*(?:[0-9]{1,2}|[1-7][0-9]{2}|8[0-3][0-9]|840))?$";
/// The form of a language tag, or nothing.
pub(super) const LANGUAGE: &str = "^[A-Za-z0-9_-]*$";
/// An address of a person on Messenger or the chat app.
pub(super) const RECIPIENT_ID: &str = r"^[^\u0000-\u001f\u007f-\u009f]+$";
/// An uncompressed P-256 point: 65 bytes that begin with 4, in base64url with or without padding.
pub(super) const P256DH: &str = "^B[A-P][A-Za-z0-9_-]{84}[AEIMQUYcgkosw048]=?$";
/// 16 bytes in base64url, with or without padding.
pub(super) const AUTH: &str = "^[A-Za-z0-9_-]{21}[AQgw]={0,2}$";
/// `YYYY-MM-DDTHH:MM`, or nothing. The calendar decides which days exist.
pub(super) const LOCAL_TIME: &str =
    "^(?:[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])T(?:[01][0-9]|2[0-3]):[0-5][0-9])?$";
/// Visible ASCII, or nothing.
pub(super) const VISIBLE_ASCII: &str = "^[!-~]*$";
/// A key that FCM does not reserve.
pub(super) const FCM_KEY: &str = r"^(?!google|gcm\.|(?:from|gcm|message_type)$)";
/// A key that neither FCM reserves nor our payloads use, or nothing.
pub(super) const EXTRA_KEY: &str = r"^(?!google|gcm\.|(?:from|gcm|message_type|aps|notification_id|campaign_id|url|image_url|poll_id)$)";
