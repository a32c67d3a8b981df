//! Judges urls by their host and port: whether they look reachable from the internet, or can never be. Hides the
//! secrets in a url.

use core::net::Ipv4Addr;

use url::{Host, Url};

/// Whether the host of a url may be public. The result depends only on the name or address in the url:
/// names are not resolved.
#[must_use]
pub fn is_public(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else { return false };
    match url.host() {
        Some(Host::Ipv4(address)) => is_public_v4(address),
        Some(Host::Ipv6(address)) => match address.to_ipv4_mapped() {
            Some(mapped) => is_public_v4(mapped),
            None => {
                !(address.is_loopback()
                    || address.is_unspecified()
                    || address.is_unique_local()
                    || address.is_unicast_link_local())
            }
        },
        Some(Host::Domain(host)) => {
            let host = host.trim_end_matches('.');
            let private_suffixes = [".localhost", ".local", ".internal", ".home.arpa"];
            host.contains('.') && !private_suffixes.iter().any(|suffix| host.ends_with(suffix))
        }
        None => false,
    }
}

/// Whether the host of a url is `invalid`, or below it. No such name exists (RFC 6761, section 6.4). A browser
/// uses one as the endpoint of a push subscription that was removed for good.
#[must_use]
pub fn is_below_invalid(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else { return false };
    let Some(Host::Domain(host)) = url.host() else { return false };
    let host = host.strip_suffix('.').unwrap_or(host);
    host.rsplit('.').next() == Some("invalid")
}

/// Whether a name means this machine, whatever a resolver returns for it: `localhost`, or a name below it
/// (RFC 6761, section 6.3).
#[must_use]
pub fn is_local_name(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

/// Whether the host of a url is this machine: a name that means it, or a loopback address.
#[must_use]
pub fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => is_local_name(name),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.to_canonical().is_loopback(),
        None => false,
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !(address.is_loopback()
        || address.is_unspecified()
        || address.is_private()
        || address.is_link_local())
}

/// Whether a url has a port other than 80 and 443.
#[must_use]
pub fn has_unusual_port(url: &str) -> bool {
    let port = Url::parse(url).ok().and_then(|url| url.port());
    port.is_some_and(|port| !matches!(port, 80 | 443))
}

/// What replaces a secret in a url.
const HIDDEN: &str = "hidden";

/// The url without the parts that often are secrets: the user and the password, the values of the query, and
/// the fragment. A url without these parts is unchanged.
#[must_use]
pub fn without_secrets(url: &str) -> String {
    let Ok(mut parsed) = Url::parse(url) else { return HIDDEN.to_owned() };
    let has_user = !parsed.username().is_empty() || parsed.password().is_some();
    let (query, fragment) = (parsed.query().map(str::to_owned), parsed.fragment());
    if !has_user && fragment.is_none() && query.as_deref().is_none_or(str::is_empty) {
        return url.to_owned();
    }
    if has_user {
        // Only a url without a host has no place for them.
        let _ = parsed.set_password(None).and_then(|()| parsed.set_username(HIDDEN));
    }
    let without_value = |pair: &str| match pair.split_once('=') {
        Some((name, _)) => format!("{name}={HIDDEN}"),
        None => HIDDEN.to_owned(),
    };
    let query =
        query.map(|query| query.split('&').map(without_value).collect::<Vec<_>>().join("&"));
    parsed.set_query(query.as_deref());
    parsed.set_fragment(None);
    parsed.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_recognized() {
        for (url, expected) in [
            ("http://localhost:8080", true),
            ("http://LOCALHOST./path", true),
            ("http://a.localhost", true),
            ("http://127.8.0.1", true),
            ("http://0x7f.1", true),
            ("http://[::1]:8080", true),
            ("http://[::ffff:127.0.0.1]", true),
            ("http://localhost.example", false),
            ("http://10.0.0.1", false),
            ("http://[fd00::1]", false),
            ("mailto:a@localhost", false),
        ] {
            assert_eq!(is_this_machine(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }

    #[test]
    fn names_that_cannot_exist_are_recognised() {
        for (url, expected) in [
            ("https://permanently-removed.invalid/fcm/send/x", true),
            ("https://PERMANENTLY-REMOVED.INVALID/", true),
            ("https://a.b.invalid.:8443/x", true),
            ("https://invalid/x", true),
            ("https://invalid.example/x", false),
            ("https://notinvalid/x", false),
            ("https://push.example/x.invalid", false),
            ("https://user@push.example/.invalid", false),
            ("no url", false),
        ] {
            assert_eq!(is_below_invalid(url), expected, "{url}");
        }
    }

    #[test]
    fn secrets_of_a_url_are_hidden() {
        let rows = [
            ("https://a.example/rss", "https://a.example/rss"),
            ("https://a.example", "https://a.example"),
            ("https://a.example/rss?", "https://a.example/rss?"),
            ("https://a.example/rss?key=s3cret", "https://a.example/rss?key=hidden"),
            ("https://a.example/?a=1&b=&c=x=y", "https://a.example/?a=hidden&b=hidden&c=hidden"),
            ("https://a.example/?s3cret", "https://a.example/?hidden"),
            ("https://a.example/rss#s3cret", "https://a.example/rss"),
            ("https://user:s3cret@a.example/rss", "https://hidden@a.example/rss"),
            ("https://:s3cret@a.example:8443/", "https://hidden@a.example:8443/"),
            ("https://s3cret@a.example/?k=s3cret#s3cret", "https://hidden@a.example/?k=hidden"),
            ("no url: s3cret", "hidden"),
        ];
        for (url, expected) in rows {
            assert_eq!(without_secrets(url), expected, "{url}");
        }
    }

    #[test]
    fn unusual_ports_are_recognised() {
        for (url, is_unusual) in [
            ("https://a.example/rss", false),
            ("https://a.example:443/rss", false),
            ("http://a.example:80", false),
            ("https://a.example/rss?at=9:00", false),
            ("https://a.example:8443/rss", true),
            ("http://[2001:db8::1]/rss", false),
            ("http://[2001:db8::1]:8080/rss", true),
        ] {
            assert_eq!(has_unusual_port(url), is_unusual, "{url}");
        }
    }
}
