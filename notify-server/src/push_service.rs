//! The push service behind a Web Push subscription.

use std::borrow::Cow;

/// The push service behind a subscription: the origin of its endpoint, normalized.
pub(crate) fn service_of(endpoint: &str) -> Cow<'_, str> {
    let host = endpoint.find("://").map_or(0, |at| at + 3);
    let end = endpoint[host..].find(['/', '?', '#']).map_or(endpoint.len(), |at| host + at);
    let written = &endpoint[..end];
    // Browsers write it in lower case, without the default port: no need to parse the URL.
    let is_plain = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b':');
    let has_own_port = written.ends_with(":443") || written.ends_with(":80");
    if written.bytes().skip(host).all(is_plain) && !has_own_port {
        return written.into();
    }
    url::Url::parse(written).map_or(written.into(), |url| url.origin().ascii_serialization().into())
}
