//! The proxy between a client and its server.

use hyper_util::client::proxy::matcher::Matcher;
use notify_core::address::is_this_machine;
use url::Url;

/// The proxy through which clients reach a server, as `host:port`; `None` if they reach it directly.
///
/// The environment names the proxy: `HTTPS_PROXY`, `HTTP_PROXY` or `ALL_PROXY`, and `NO_PROXY` with the exceptions.
/// A server on this machine (`localhost`, a loopback address) is always reached directly. A `base_url` that is not
/// the url of a server has no proxy.
#[must_use]
pub fn proxy_of(base_url: &str) -> Option<String> {
    proxy_to(&Url::parse(base_url).ok()?)
}

/// The proxy to a server. reqwest decides with the same code.
pub(crate) fn proxy_to(base_url: &Url) -> Option<String> {
    through(&Matcher::from_system(), base_url)
}

fn through(matcher: &Matcher, base_url: &Url) -> Option<String> {
    // A proxy would take this machine for its own.
    if is_this_machine(base_url) {
        return None;
    }
    let proxy = matcher.intercept(&base_url.as_str().parse().ok()?)?;
    let uri = proxy.uri();
    let port = uri.port_u16().map_or_else(String::new, |port| format!(":{port}"));
    Some(format!("{}{port}", uri.host()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proxy_is_named_without_credentials_and_never_used_for_this_machine() {
        let matcher = Matcher::builder()
            .https("http://user:geheim@proxy.example:3128")
            .http("plain.example:8080")
            .no("direct.example,10.0.0.0/8")
            .build();
        for (server, expected) in [
            ("https://push.example", Some("proxy.example:3128")),
            ("https://push.example:8443/path/", Some("proxy.example:3128")),
            ("http://push.example", Some("plain.example:8080")),
            ("https://direct.example", None),
            ("https://a.direct.example", None),
            ("https://10.1.2.3", None),
            ("https://localhost:8080", None),
            ("http://a.localhost", None),
            ("http://127.0.0.1:8080", None),
            ("http://127.8.0.1", None),
            ("http://[::1]:8080", None),
            ("http://[::ffff:127.0.0.1]", None),
        ] {
            let found = through(&matcher, &Url::parse(server).unwrap());
            assert_eq!(found.as_deref(), expected, "{server}");
        }
        assert_eq!(proxy_of("nonsense"), None);
    }
}
