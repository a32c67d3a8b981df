//! The push service behind a Web Push subscription.

use std::borrow::Cow;

/// The push service behind a subscription: the origin of its endpoint, normalized.
pub(crate) fn service_of(endpoint: &str) -> Cow<'_, str> {
    let host = endpoint.find("://").map_or(0, |at| at + 3);
    let end = endpoint[host..].find(['/', '?', '#']).map_or(endpoint.len(), |at| host + at);
    let origin = &endpoint[..end];
    // Browsers write the origin in lower case and without the default port. Such an origin is
    // returned as it is, without parsing the url.
    let is_plain = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b':');
    let has_default_port = origin.ends_with(":443") || origin.ends_with(":80");
    if origin.bytes().skip(host).all(is_plain) && !has_default_port {
        return origin.into();
    }
    url::Url::parse(origin).map_or(origin.into(), |url| url.origin().ascii_serialization().into())
}
