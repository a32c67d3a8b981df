//! The push service behind a Web Push subscription.

use std::borrow::Cow;

/// The push service behind a subscription: the normalized origin of its endpoint. An endpoint that is
/// not a valid URL is returned without its path.
pub(crate) fn service_of(endpoint: &str) -> Cow<'_, str> {
    let host_start = endpoint.find("://").map_or(0, |at| at + 3);
    let origin_end =
        endpoint[host_start..].find(['/', '?', '#']).map_or(endpoint.len(), |at| host_start + at);
    let origin = &endpoint[..origin_end];
    // Browsers write the origin in lower case and without the default port. It is then normalized
    // already, which saves parsing the URL for every delivery.
    let is_plain = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b':');
    let has_default_port = origin.ends_with(":443") || origin.ends_with(":80");
    if origin.bytes().skip(host_start).all(is_plain) && !has_default_port {
        return origin.into();
    }
    url::Url::parse(origin).map_or(origin.into(), |url| url.origin().ascii_serialization().into())
}
