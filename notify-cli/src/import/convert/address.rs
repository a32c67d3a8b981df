//! Addresses of devices as other systems store them.

use notify_client::notify_core::{
    DevicePlatform, Platform, TokenProblem, canonical_push_token, is_missing_address,
};

/// Whether the text is an address, and not a placeholder.
pub(super) fn is_present(text: &str) -> bool {
    !is_missing_address(text)
}

/// An APNs token in the form that APNs takes.
pub(super) fn apns_token(text: &str) -> Result<String, String> {
    push_token(DevicePlatform::Ios, Platform::Ios, text)
}

/// A registration token of FCM.
pub(super) fn fcm_token(text: &str) -> Result<String, String> {
    push_token(DevicePlatform::Android, Platform::Android, text)
}

/// A token in the spelling that the server stores. A token to which nothing would be sent is refused.
fn push_token(platform: DevicePlatform, of: Platform, text: &str) -> Result<String, String> {
    let token = canonical_push_token(platform, text).unwrap_or_default();
    match TokenProblem::of(of, &token) {
        None => Ok(token),
        Some(problem) => Err(problem.to_string()),
    }
}
