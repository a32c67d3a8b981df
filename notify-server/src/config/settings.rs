//! The list of settings, shared by the command line, the environment, the file and the
//! documentation.

use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The type of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Any text.
    Text,
    /// A whole number of 0 or more.
    Count,
    /// One of a few words, in any case.
    Word,
    /// True or false. A flag without a value means true.
    Switch,
    /// On or off.
    OnOff,
}

/// A setting, with the flag `--name`, the environment variable `NOTIFY_NAME` and the key `name` of
/// the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    /// Name, with dashes.
    pub(crate) name: &'static str,
    /// Placeholder of the value in help texts.
    pub(crate) value: &'static str,
    /// The help text.
    pub(crate) help: &'static str,
    /// Its type.
    pub(crate) kind: Kind,
    /// An earlier name, which is still accepted.
    pub(crate) alias: Option<&'static str>,
    /// Whether its value is secret. Then another variable can name a file with the value.
    pub(crate) is_secret: bool,
}

impl Setting {
    /// Its environment variable.
    pub(crate) fn variable(&self) -> String {
        variable(self.name)
    }

    /// The environment variable of its earlier name.
    pub(crate) fn variable_alias(&self) -> Option<String> {
        self.alias.map(variable)
    }
}

fn variable(name: &str) -> String {
    format!("NOTIFY_{}", name.replace('-', "_").to_uppercase())
}

const fn text(name: &'static str, value: &'static str, help: &'static str) -> Setting {
    Setting { name, value, help, kind: Kind::Text, alias: None, is_secret: false }
}

const fn count(name: &'static str, value: &'static str, help: &'static str) -> Setting {
    Setting { name, value, help, kind: Kind::Count, alias: None, is_secret: false }
}

/// Every setting, in the order of the help text.
pub(crate) const SETTINGS: &[Setting] = &[
    text("listen", "ADDR", "Listening address; port 0 picks a free one"),
    text(
        "admin-listen",
        "ADDR",
        "Another listening address, such as one that only operators reach. It alone has the admin \
         API, the metrics and the console, besides everything that --listen has",
    ),
    count(
        "metrics-apps",
        "N",
        "Maximum number of applications that have metrics of their own, by id; all others count together as \
         `other`. 0 means no metrics by application, and 500 is the maximum",
    ),
    text("data-dir", "DIR", "Folder of the database and the master key, created if missing"),
    Setting {
        name: "database-url",
        value: "URL",
        help: "PostgreSQL database to use instead of the file: \
         postgres://USER:PASSWORD@HOST/DATABASE. Other users of the machine can read \
         arguments, so prefer the environment variable",
        kind: Kind::Text,
        alias: None,
        is_secret: true,
    },
    text(
        "public-url",
        "URL",
        "Url under which clients reach the server, used in the urls of polls; the \
         listening address by default",
    ),
    text(
        "tls-cert",
        "FILE",
        "File of the certificate chain (PEM). With it, the server serves https",
    ),
    text("tls-key", "FILE", "Private key of the certificate (PEM)"),
    Setting {
        name: "allow-private-networks",
        value: "BOOL",
        help: "Allows feeds, webhooks and web push endpoints at loopback and private \
         addresses",
        kind: Kind::Switch,
        alias: None,
        is_secret: false,
    },
    Setting {
        name: "egress-proxy",
        value: "URL",
        help: "HTTP proxy through which the server reaches other hosts, in the form \
         http://USER:PASSWORD@proxy.example:3128; HTTPS_PROXY by default. NO_PROXY lists exceptions. Other \
         users of the machine can read arguments, so prefer the environment variable",
        kind: Kind::Text,
        alias: None,
        is_secret: true,
    },
    count(
        "rate-limit",
        "N",
        "Maximum number of requests per second with one API key; 0 means no limit",
    ),
    count(
        "auth-failures-per-minute",
        "N",
        "Maximum number of failed authentications per minute from one client address; 0 means no \
         limit",
    ),
    count(
        "poll-votes-per-minute",
        "N",
        "Maximum number of votes per minute from one client address, on the pages of all polls; 0 \
         means no limit",
    ),
    count(
        "web-requests-per-minute",
        "N",
        "Maximum number of requests per minute of one browser or app that has the secret of its device; 0 \
         means no limit. One client address may send 100 times as many to one application. It may send as \
         many with a wrong secret as one device with the right one",
    ),
    count(
        "web-address-requests-per-minute",
        "N",
        "Maximum number of subscriptions and other requests of browsers without the secret of a device per \
         minute, from one client address to one application; 0 means no limit. Registrations of apps with a \
         publishable key are counted apart, with the same limit",
    ),
    count(
        "web-subscriptions-per-minute",
        "N",
        "Maximum number of new subscriptions of browsers without an API key, per minute to one \
         application; 0 means no limit. Registrations of apps with a publishable key are counted \
         apart, with the same limit",
    ),
    text(
        "trusted-proxies",
        "NETS",
        "Proxies whose X-Forwarded-For is trusted, as addresses or networks",
    ),
    count("max-body-bytes", "BYTES", "Largest body of a request"),
    text("header-timeout", "SPAN", "Longest time in which the head of a request must arrive"),
    text(
        "body-timeout",
        "SPAN",
        "How long the body of a request may take. A longer body is accepted as long as \
         at least 1 KiB a second arrived in the last period of this length",
    ),
    text("idle-timeout", "SPAN", "How long a connection may be idle between requests"),
    text(
        "write-timeout",
        "SPAN",
        "How long a client may leave a response or a ping unread. A client that reads \
         slowly must read at least 1 KiB a second in each period of this length",
    ),
    count(
        "max-connections",
        "N",
        "Maximum number of connections of clients; fewer if the limit of open files is too low",
    ),
    count(
        "max-connections-per-address",
        "N",
        "Maximum number of connections from one address, at most half of --max-connections; 0 \
         means no limit",
    ),
    text(
        "shutdown-grace",
        "SPAN",
        "How long the server waits after a stop signal for requests and messages in \
         flight",
    ),
    count("reader-threads", "N", "Number of database connections for reads"),
    Setting {
        name: "max-unacked-deliveries",
        value: "N",
        help: "Maximum number of messages that are in flight or whose outcome is not stored yet. A crash \
         repeats at most this many",
        kind: Kind::Count,
        alias: Some("delivery-credit"),
        is_secret: false,
    },
    count(
        "max-unacked-without-dedup",
        "N",
        "Maximum number of messages to Messenger and Telegram and raw data messages that are in flight or whose \
         outcome is not stored yet. A crash shows at most this many twice",
    ),
    Setting {
        name: "keep-message-ids",
        value: "BOOL",
        help: "Stores the providers' ids of accepted messages and shows them in listings of \
         deliveries",
        kind: Kind::Switch,
        alias: None,
        is_secret: false,
    },
    count(
        "keep-notifications-days",
        "DAYS",
        "How many days a notification and its counts are kept after it ended; 0 means \
         forever",
    ),
    count(
        "keep-outcomes-days",
        "DAYS",
        "How many days the outcome for each device is kept after the notification \
         ended. The counts of the notification stay; 0 means forever",
    ),
    count(
        "keep-events-days",
        "DAYS",
        "How many days the events of a notification are kept after it ended. The \
         counts of the notification stay; 0 means forever",
    ),
    count(
        "keep-anonymous-devices-days",
        "DAYS",
        "How many days a device is kept after it was last seen if a browser or an app \
         registered it without an API key and it never accepted a message; 0 means forever",
    ),
    count(
        "max-anonymous-devices",
        "N",
        "The most such devices of an application. Beyond it, the devices that were not \
         seen for the longest time are removed; 0 means any number",
    ),
    count(
        "keep-audit-days",
        "DAYS",
        "How many days an entry of the audit trail is kept; 0 means forever",
    ),
    Setting {
        name: "console",
        value: "on|off",
        help: "Whether the server has the administration console at /console/",
        kind: Kind::OnOff,
        alias: None,
        is_secret: false,
    },
    text(
        "console-listen",
        "ADDR",
        "Another listening address, which has the console and not the API. The console is then \
         not at --listen",
    ),
    text(
        "console-idle-timeout",
        "SPAN",
        "How long a session of the console may be unused before it ends",
    ),
    text("console-session-timeout", "SPAN", "How long a session of the console lasts at most"),
    text("master-key-file", "FILE", "Master key file; master.key in the data folder by default"),
    text("log", "FILTER", "Log filter, such as info or notify_server=debug"),
    Setting {
        name: "log-format",
        value: "text|json",
        help: "Format of the log, which goes to standard error",
        kind: Kind::Word,
        alias: None,
        is_secret: false,
    },
];

// The types of settings that are neither texts nor numbers.

/// Whether a part of the server is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Switch {
    /// It is used.
    #[default]
    On,
    /// It is not used.
    Off,
}

/// Format of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Readable lines.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Reads true or false, or one of the usual words for them, in any case.
pub(super) fn parse_switch(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" | "y" | "t" | "enabled" => Some(true),
        "false" | "0" | "no" | "off" | "n" | "f" | "disabled" => Some(false),
        _ => None,
    }
}

/// A duration, written as `30s`, `500ms`, `2m`, `1h`, or a plain number of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub Duration);

impl Span {
    /// A duration in seconds.
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// A duration in milliseconds.
    #[must_use]
    pub const fn from_millis(milliseconds: u64) -> Self {
        Self(Duration::from_millis(milliseconds))
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        let invalid = || format!("`{text}` is not a duration, such as 30s, 500ms or 2m");
        let count: u64 = digits.trim().parse().map_err(|_| invalid())?;
        let unit_ms = match &*text[digits.len()..].to_ascii_lowercase() {
            "ms" => 1,
            "" | "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return Err(invalid()),
        };
        count.checked_mul(unit_ms).map(Self::from_millis).ok_or_else(invalid)
    }
}

impl std::fmt::Display for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let milliseconds = self.0.as_millis();
        let units = [("h", 3_600_000), ("m", 60_000), ("s", 1_000)];
        // The largest unit in which the duration is a whole number.
        let unit = units.into_iter().find(|(_, unit_ms)| milliseconds.is_multiple_of(*unit_ms));
        match unit {
            _ if milliseconds == 0 => f.write_str("0s"),
            Some((unit, unit_ms)) => write!(f, "{}{unit}", milliseconds / unit_ms),
            None => write!(f, "{milliseconds}ms"),
        }
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;
        impl de::Visitor<'_> for Visit {
            type Value = Span;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a duration, such as \"30s\", or a number of seconds")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Span, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Span, E> {
                let seconds = u64::try_from(seconds).map_err(|_| E::custom("must not be negative"));
                seconds.map(Span::from_secs)
            }
        }
        deserializer.deserialize_any(Visit)
    }
}

/// A list of addresses and networks, such as `10.0.0.0/8, 192.168.1.1`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks(Vec<IpNet>);

impl Networks {
    /// Whether the list contains an address.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }

    fn from_texts<'t>(texts: impl Iterator<Item = &'t str>) -> Result<Self, String> {
        let texts = texts.map(str::trim).filter(|text| !text.is_empty());
        let networks = texts.map(|text| {
            let address = text.parse::<IpAddr>().map(IpNet::from);
            address
                .or_else(|_| text.parse::<IpNet>().map_err(drop))
                .map_err(|()| format!("`{text}` is neither an address nor a network"))
        });
        networks.collect::<Result<_, _>>().map(Self)
    }
}

impl FromStr for Networks {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::from_texts(text.split(','))
    }
}

impl Serialize for Networks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(ToString::to_string))
    }
}

impl<'de> Deserialize<'de> for Networks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum TextOrList {
            Text(String),
            List(Vec<String>),
        }
        match TextOrList::deserialize(deserializer)? {
            TextOrList::Text(text) => text.parse(),
            TextOrList::List(list) => Self::from_texts(list.iter().map(String::as_str)),
        }
        .map_err(de::Error::custom)
    }
}
