//! Addresses of devices as other systems store them.

/// The fewest and the most hexadecimal digits of an APNs token. Apple has announced up to 100 bytes.
const APNS_DIGITS: std::ops::RangeInclusive<usize> = 64..=200;

/// Texts that programs store in place of a missing token.
const PLACEHOLDERS: [&str; 6] = ["null", "(null)", "nil", "none", "undefined", "nan"];

/// Whether the text is an address, and not a placeholder.
pub(super) fn is_present(text: &str) -> bool {
    let text = text.trim();
    !text.is_empty()
        && !PLACEHOLDERS.iter().any(|placeholder| text.eq_ignore_ascii_case(placeholder))
}

/// An APNs token in the form that APNs takes. Older apps stored the description of the token's data:
/// `<0123abcd 4567…>`.
pub(super) fn apns_token(text: &str) -> Result<String, &'static str> {
    let is_ignored = |letter: char| matches!(letter, '<' | '>' | '-') || letter.is_whitespace();
    let token: String = text.chars().filter(|letter| !is_ignored(*letter)).collect();
    let is_hexadecimal = token.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hexadecimal || !APNS_DIGITS.contains(&token.len()) || token.len() % 2 == 1 {
        return Err("must be an APNs device token: 64 to 200 hexadecimal digits");
    }
    Ok(token.to_ascii_lowercase())
}

/// A registration token of FCM.
pub(super) fn fcm_token(text: &str) -> Result<String, &'static str> {
    let token = text.trim();
    if token.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
        return Err("must be an FCM registration token, without spaces");
    }
    Ok(token.to_owned())
}

/// A key of a browser in base64url. Several systems store it in base64.
pub(super) fn base64url(key: &str) -> String {
    let key = key.trim().trim_end_matches('=');
    key.replace('+', "-").replace('/', "_")
}
