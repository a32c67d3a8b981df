//! Which requests to a control API without a key come from programs of its operator. Any web page that a
//! person opens on the same machine can send requests too: to an address, or under a name of its own that
//! resolves to the machine (DNS rebinding). A browser names the page in `Origin` and the name in `Host`.

use std::net::{IpAddr, SocketAddr};

use http::uri::Authority;
use http::{HeaderMap, Uri, header};
use notify_core::address::is_local_name;

const FOREIGN_HOST: &str = "host: must be localhost or a loopback address";
const PUBLIC_HOST: &str = "host: must be an address or a name that is not public";
const FOREIGN_PAGE: &str = "origin: web pages of other sites may not call";

/// Endings of names that no public name server resolves (RFC 6761, RFC 6762, RFC 9476 and ICANN's `internal`).
const PRIVATE_ENDINGS: [&str; 4] = [".localhost", ".local", ".internal", ".test"];

/// Why a control API that listens on `address` refuses a request; `None` if it may answer. A server on a
/// loopback address has only loopback names. Any other server has the names that its network gives it, such
/// as the name of a service in Docker Compose, but no name of the public internet.
#[must_use]
pub fn refusal(address: SocketAddr, uri: &Uri, headers: &HeaderMap) -> Option<&'static str> {
    let is_loopback = address.ip().is_loopback();
    let named =
        headers.get_all(header::HOST).iter().map(|host| Authority::try_from(host.as_bytes()));
    let hosts: Vec<_> = uri.authority().cloned().map(Ok).into_iter().chain(named).collect();
    let is_own = |host: &Authority| is_own_host(host.host(), is_loopback);
    if !hosts.iter().all(|host| host.as_ref().is_ok_and(is_own)) {
        return Some(if is_loopback { FOREIGN_HOST } else { PUBLIC_HOST });
    }
    let is_own_page = |origin: &[u8]| {
        let authority =
            [&b"http://"[..], b"https://"].iter().find_map(|at| origin.strip_prefix(*at));
        let is_host = |host: &Authority| {
            authority.is_some_and(|own| own.eq_ignore_ascii_case(host.as_str().as_bytes()))
        };
        hosts.iter().flatten().any(is_host)
    };
    let mut origins = headers.get_all(header::ORIGIN).iter();
    (!origins.all(|origin| is_own_page(origin.as_bytes()))).then_some(FOREIGN_PAGE)
}

/// Whether a host, without its port, is the server's own.
fn is_own_host(host: &str, is_loopback: bool) -> bool {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return !is_loopback || address.to_canonical().is_loopback();
    }
    if is_loopback {
        return is_local_name(host);
    }
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    let has_one_label = !name.is_empty() && !name.contains('.');
    has_one_label || PRIVATE_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(listen: &str, uri: &str, fields: &[(&'static str, &str)]) -> Option<&'static str> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, value.parse().unwrap());
        }
        refusal(listen.parse().unwrap(), &uri.parse().unwrap(), &headers)
    }

    #[test]
    fn a_loopback_server_has_only_loopback_names() {
        for listen in ["127.0.0.1:8081", "[::1]:8081", "127.0.0.5:8081"] {
            for host in [
                "localhost",
                "localhost:8081",
                "LOCALHOST.",
                "app.localhost:1",
                "127.0.0.1:8081",
                "127.9.9.9",
                "[::1]:8081",
                "[::ffff:127.0.0.1]",
            ] {
                assert_eq!(refused(listen, "/", &[("host", host)]), None, "{listen} {host}");
                assert_eq!(refused(listen, &format!("http://{host}/"), &[]), None, "{host}");
            }
            for host in [
                "",
                "evil.example",
                "evil.example:8081",
                "127.0.0.1.evil.example",
                "localhost.evil.example",
                "notlocalhost",
                "192.168.0.5",
                "0.0.0.0",
                "[2001:db8::1]:8081",
                "a b",
            ] {
                let expected = Some(FOREIGN_HOST);
                assert_eq!(refused(listen, "/", &[("host", host)]), expected, "{listen} {host}");
            }
        }
        assert_eq!(refused("127.0.0.1:1", "/", &[]), None, "HTTP/1.0, no browser");
        let two = [("host", "localhost"), ("host", "evil.example")];
        assert_eq!(refused("127.0.0.1:1", "/", &two), Some(FOREIGN_HOST));
        let mixed = refused("127.0.0.1:1", "http://evil.example/", &[("host", "localhost")]);
        assert_eq!(mixed, Some(FOREIGN_HOST));
    }

    #[test]
    fn a_server_on_a_network_has_no_public_names() {
        for listen in ["0.0.0.0:8081", "[::]:8081", "172.17.0.2:8081"] {
            for host in [
                "sandbox:8081",
                "notify-sandbox",
                "10.0.0.5",
                "[fd00::1]:1",
                "host.docker.internal",
                "sandbox.ns.svc.cluster.local",
                "localhost",
                "127.0.0.1:8081",
                "ci.test",
            ] {
                assert_eq!(refused(listen, "/", &[("host", host)]), None, "{listen} {host}");
            }
            for host in ["evil.example", "rebind.evil.com:8081", ""] {
                let expected = Some(PUBLIC_HOST);
                assert_eq!(refused(listen, "/", &[("host", host)]), expected, "{listen} {host}");
            }
        }
    }

    #[test]
    fn only_the_own_page_may_call() {
        let rows = [
            ("http://localhost:8081", None),
            ("https://localhost:8081", None),
            ("http://LOCALHOST:8081", None),
            ("http://localhost", Some(FOREIGN_PAGE)),
            ("http://localhost:3000", Some(FOREIGN_PAGE)),
            ("http://127.0.0.1:8081", Some(FOREIGN_PAGE)),
            ("https://evil.example", Some(FOREIGN_PAGE)),
            ("null", Some(FOREIGN_PAGE)),
            ("", Some(FOREIGN_PAGE)),
            ("chrome-extension://abc", Some(FOREIGN_PAGE)),
        ];
        for (origin, expected) in rows {
            let fields = [("host", "localhost:8081"), ("origin", origin)];
            assert_eq!(refused("127.0.0.1:8081", "/", &fields), expected, "{origin}");
        }
    }
}
