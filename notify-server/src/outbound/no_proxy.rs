//! The hosts that are reached without the proxy (`NO_PROXY`). The variable has no standard. The rules here are
//! those that curl, Go and Python share, and ports as in Go.

use std::convert::Infallible;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

/// A list of hosts, separated by commas or blanks:
///
/// - `*` is every host.
/// - `push.example` is the name and every name below it, as are `.push.example` and `*.push.example`.
/// - `10.0.0.7` and `10.0.0.0/8` are addresses. They match urls that contain an address; a name is not resolved.
/// - Behind each of them, `:8443` limits the entry to a port. An IPv6 address with a port is in brackets.
///
/// An entry that is none of these matches nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NoProxy {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    hosts: Hosts,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Hosts {
    All,
    Network(IpNet),
    /// A name and the names below it, in lower case and without a dot at its start or end.
    Domain(String),
}

impl FromStr for NoProxy {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        let entries = text.split(|c: char| c == ',' || c.is_whitespace());
        Ok(Self { entries: entries.filter_map(Entry::parse).collect() })
    }
}

impl NoProxy {
    /// Whether a host, a name or an address without brackets, is reached without the proxy.
    pub(super) fn contains(&self, host: &str, port: u16) -> bool {
        self.entries
            .iter()
            .any(|entry| entry.port.is_none_or(|only| only == port) && entry.hosts.contains(host))
    }

    /// Whether no host at all is reached over the proxy.
    pub(crate) fn is_everything(&self) -> bool {
        let all = Entry { hosts: Hosts::All, port: None };
        self.entries.contains(&all)
    }
}

impl Entry {
    fn parse(text: &str) -> Option<Self> {
        if let Some(hosts) = network(text) {
            return Some(Self { hosts, port: None });
        }
        let with_port =
            text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let (host, port) = with_port.map_or((text, None), |(host, port)| (host, Some(port)));
        let hosts =
            if host == "*" { Some(Hosts::All) } else { network(host).or_else(|| domain(host)) };
        hosts.map(|hosts| Self { hosts, port })
    }
}

fn network(text: &str) -> Option<Hosts> {
    let text = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = text.parse::<IpAddr>().map(IpNet::from).ok();
    address.or_else(|| text.parse().ok()).map(Hosts::Network)
}

fn domain(text: &str) -> Option<Hosts> {
    let name = text.strip_prefix('*').unwrap_or(text).trim_matches('.').to_ascii_lowercase();
    (!name.is_empty()).then_some(Hosts::Domain(name))
}

impl Hosts {
    fn contains(&self, host: &str) -> bool {
        match self {
            Self::All => true,
            Self::Network(network) => host
                .parse::<IpAddr>()
                .is_ok_and(|address| network.contains(&address.to_canonical())),
            Self::Domain(domain) => {
                let host = host.trim_end_matches('.').to_ascii_lowercase();
                host.strip_suffix(domain.as_str())
                    .is_some_and(|before| before.is_empty() || before.ends_with('.'))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::NoProxy;

    #[test]
    fn hosts_are_matched_by_name_network_and_port() {
        // The list, hosts that it contains, hosts that it does not contain; the port is 443 unless it is named.
        let rows: [(&str, &[&str], &[&str]); 13] = [
            ("", &[], &["a.example", "10.0.0.1"]),
            ("*", &["a.example", "10.0.0.1", "::1"], &[]),
            (
                "push.example",
                &["push.example", "PUSH.example.", "a.push.example"],
                &["xpush.example"],
            ),
            (".push.example", &["push.example", "a.push.example"], &["xpush.example", "example"]),
            ("*.push.example", &["push.example", "a.b.push.example"], &["xpush.example"]),
            ("Push.Example.", &["push.example"], &["push.example.net"]),
            (
                "a.example, b.example c.example",
                &["a.example", "b.example", "c.example"],
                &["d.example"],
            ),
            ("10.1.2.3", &["10.1.2.3", "::ffff:10.1.2.3"], &["10.1.2.4", "10.1.2.3.example"]),
            (
                "10.0.0.0/8,fd00::/8",
                &["10.255.0.1", "fd00::1"],
                &["11.0.0.1", "fe80::1", "a.example"],
            ),
            ("a.example:8443", &["a.example:8443"], &["a.example", "b.example:8443"]),
            ("10.0.0.1:80,[fd00::1]:80", &["10.0.0.1:80", "fd00::1 80"], &["10.0.0.1", "fd00::1"]),
            ("*:8080", &["a.example:8080"], &["a.example"]),
            ("fd00::1,,;/", &["fd00::1"], &["a.example"]),
        ];
        for (list, inside, outside) in rows {
            let no_proxy: NoProxy = list.parse().unwrap();
            for (hosts, expected) in [(inside, true), (outside, false)] {
                for text in hosts {
                    let (host, port) = match text.split_once(' ') {
                        Some(parts) => parts,
                        None if text.contains("::") => (*text, "443"),
                        None => text.split_once(':').unwrap_or((text, "443")),
                    };
                    let found = no_proxy.contains(host, port.parse().unwrap());
                    assert_eq!(found, expected, "`{list}`: {text}");
                }
            }
        }
        for (list, expected) in [("a.example, *", true), ("*:80", false), ("", false)] {
            assert_eq!(list.parse::<NoProxy>().unwrap().is_everything(), expected, "{list}");
        }
    }
}
