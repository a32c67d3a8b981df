//! The list of settings, shared by the command line, the environment, the file and the documentation.

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
    /// True or false; a flag without a value is true.
    Switch,
}

/// A setting: flag `--name`, variable `NOTIFY_NAME`, key `name` of the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    /// Name, with dashes.
    pub(crate) name: &'static str,
    /// Placeholder of the value in help texts.
    pub(crate) value: &'static str,
    /// What it does.
    pub(crate) help: &'static str,
    /// Its type.
    pub(crate) kind: Kind,
    /// An earlier name, which is still accepted.
    pub(crate) alias: Option<&'static str>,
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
    Setting { name, value, help, kind: Kind::Text, alias: None }
}

const fn count(name: &'static str, value: &'static str, help: &'static str) -> Setting {
    Setting { name, value, help, kind: Kind::Count, alias: None }
}

/// Every setting, in the order of the help text.
pub(crate) const SETTINGS: &[Setting] = &[
    text("listen", "ADDR", "Listening address; port 0 picks a free one"),
    text("data-dir", "DIR", "Folder of the database and the master key, created if missing"),
    text(
        "database-url",
        "URL",
        "PostgreSQL instead of the file: postgres://USER:PASSWORD@HOST/DATABASE. Other users can \
         read arguments: prefer the variable",
    ),
    text("public-url", "URL", "Base of poll urls; the listening address by default"),
    text("tls-cert", "FILE", "Certificate chain (PEM); serves https"),
    text("tls-key", "FILE", "Private key of the certificate (PEM)"),
    Setting {
        name: "allow-private-networks",
        value: "BOOL",
        help: "Lets feeds, webhooks and web push endpoints point to loopback and private addresses",
        kind: Kind::Switch,
        alias: None,
    },
    count("rate-limit", "N", "Requests per second and API key; 0 is no limit"),
    count(
        "auth-failures-per-minute",
        "N",
        "Failed authentications per minute and client address; 0 is no limit",
    ),
    count(
        "poll-votes-per-minute",
        "N",
        "Votes on the pages of polls per minute and client address; 0 is no limit",
    ),
    count(
        "web-requests-per-minute",
        "N",
        "Requests of web pages per minute, application and client address; 0 is no limit",
    ),
    count(
        "web-subscriptions-per-minute",
        "N",
        "Browsers that subscribe without an API key, per minute and application; 0 is no limit",
    ),
    text("trusted-proxies", "NETS", "Addresses or networks whose X-Forwarded-For is trusted"),
    count("max-body-bytes", "BYTES", "Largest body of a request"),
    text("header-timeout", "SPAN", "Time for the head of a request"),
    text(
        "body-timeout",
        "SPAN",
        "Time for the body of a request, and the window over which it has to come at 1 KiB a second",
    ),
    text("idle-timeout", "SPAN", "How long a connection may be idle between requests"),
    text(
        "write-timeout",
        "SPAN",
        "How long a client may leave its answer or a ping unread, and the window over which it has to \
         read 1 KiB a second",
    ),
    count("max-connections", "N", "Most connections; fewer if the limit of open files is too low"),
    count(
        "max-connections-per-address",
        "N",
        "Most connections of one address, at most half of --max-connections; 0 is no limit",
    ),
    text(
        "shutdown-grace",
        "SPAN",
        "How long requests and messages in flight may take to finish after a signal",
    ),
    count("reader-threads", "N", "Connections that read the database"),
    Setting {
        name: "max-unacked-deliveries",
        value: "N",
        help: "Most messages in flight or not yet recorded; after a crash at most this many are sent twice",
        kind: Kind::Count,
        alias: Some("delivery-credit"),
    },
    Setting {
        name: "keep-message-ids",
        value: "BOOL",
        help: "Keeps the providers' ids of delivered messages, for listings of deliveries",
        kind: Kind::Switch,
        alias: None,
    },
    count(
        "keep-notifications-days",
        "DAYS",
        "How long a notification is kept after its end, with its counts; 0 is forever",
    ),
    count(
        "keep-outcomes-days",
        "DAYS",
        "How long the outcome for each device is kept; the counts stay; 0 is forever",
    ),
    count(
        "keep-events-days",
        "DAYS",
        "How long the events of each device are kept; the counts stay; 0 is forever",
    ),
    count(
        "keep-anonymous-devices-days",
        "DAYS",
        "How long a browser that subscribed without an API key is kept before it has accepted a message, \
         counted from its last visit; 0 is forever",
    ),
    text("master-key-file", "FILE", "Master key file; master.key in the data folder by default"),
    text("log", "FILTER", "Log filter, such as info or notify_server=debug"),
    text("log-format", "text|json", "Format of the log, which goes to standard error"),
];

// Values of settings that are neither text nor number.

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

/// A span of time: `30s`, `500ms`, `2m`, `1h`, or a plain number of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub Duration);

impl Span {
    /// A span of seconds.
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// A span of milliseconds.
    #[must_use]
    pub const fn from_millis(milliseconds: u64) -> Self {
        Self(Duration::from_millis(milliseconds))
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
        let wrong = || format!("`{text}` is not a span of time, such as 30s, 500ms or 2m");
        let count: u64 = digits.trim().parse().map_err(|_| wrong())?;
        let unit_ms = match &text[digits.len()..] {
            "ms" => 1,
            "" | "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return Err(wrong()),
        };
        count.checked_mul(unit_ms).map(Self::from_millis).ok_or_else(wrong)
    }
}

impl std::fmt::Display for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let milliseconds = self.0.as_millis();
        if milliseconds.is_multiple_of(1_000) {
            write!(f, "{}s", milliseconds / 1_000)
        } else {
            write!(f, "{milliseconds}ms")
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
                f.write_str("a span of time, such as \"30s\", or a number of seconds")
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

/// Addresses and networks: `10.0.0.0/8, 192.168.1.1`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks(Vec<IpNet>);

impl Networks {
    /// Whether one of them contains the address.
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
        enum Given {
            Text(String),
            List(Vec<String>),
        }
        match Given::deserialize(deserializer)? {
            Given::Text(text) => text.parse(),
            Given::List(list) => Self::from_texts(list.iter().map(String::as_str)),
        }
        .map_err(de::Error::custom)
    }
}
