//! The providers' limits (B16), checked for every targeted platform before anything is accepted.

use notify_core::Platform;

use super::shown::Shown;
use super::{Outgoing, TooLarge, apns, fcm, web_push};

/// Most bytes of JSON on APNs.
pub(super) const APNS_BYTES_MAX: usize = 4_096;
/// Most bytes of keys and values together on FCM; what counts is said at [`fcm::render`].
pub(super) const FCM_BYTES_MAX: usize = 4_096;
/// Most bytes of JSON on Web Push: 4,096 less what encryption adds (RFC 8291 section 4).
pub(super) const WEB_PUSH_BYTES_MAX: usize = 3_993;
/// Most Unicode characters of text on Messenger.
pub(super) const MESSENGER_CHARS_MAX: usize = 2_000;
/// Most Unicode characters of text on Telegram.
pub(super) const TELEGRAM_CHARS_MAX: usize = 4_096;

/// Checks that every platform's provider would take the notification (B16).
///
/// # Errors
/// Every platform whose limit it would exceed, with size and limit.
pub(crate) fn check_size(
    outgoing: &Outgoing<'_>,
    platforms: &[Platform],
    fcm_enriched_as_data: bool,
) -> Result<(), Vec<TooLarge>> {
    let broken: Vec<TooLarge> = platforms
        .iter()
        .filter_map(|platform| check_platform(outgoing, *platform, fcm_enriched_as_data).err())
        .collect();
    if broken.is_empty() { Ok(()) } else { Err(broken) }
}

pub(super) fn check_platform(
    outgoing: &Outgoing<'_>,
    platform: Platform,
    fcm_enriched_as_data: bool,
) -> Result<(), TooLarge> {
    match platform {
        Platform::Ios => apns::render(outgoing).map(drop),
        Platform::Android => fcm::render(outgoing, fcm_enriched_as_data).map(drop),
        Platform::Web => web_push::render(outgoing).map(drop),
        Platform::FbMessenger => check_text(outgoing, platform, MESSENGER_CHARS_MAX),
        Platform::ChatApp => check_text(outgoing, platform, TELEGRAM_CHARS_MAX),
    }
}

/// Checks a limit that is one of the text, in Unicode characters.
pub(super) fn check_text(
    outgoing: &Outgoing<'_>,
    platform: Platform,
    limit: usize,
) -> Result<(), TooLarge> {
    let chars = Shown::of(outgoing).text.chars().count();
    if chars <= limit { Ok(()) } else { Err(TooLarge { platform, bytes: chars, limit }) }
}

/// What the limit of a platform counts.
pub(super) fn unit(platform: Platform) -> &'static str {
    match platform {
        Platform::Android | Platform::Ios | Platform::Web => "bytes",
        Platform::FbMessenger | Platform::ChatApp => "characters",
    }
}
