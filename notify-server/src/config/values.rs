//! Values of settings that are neither text nor number.

use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Form of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// A JSON object a line.
    Json,
}

/// A span of time: `30s`, `500ms`, `2m`, `1h`, or a plain number of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub Duration);

impl Span {
    /// That many seconds.
    #[must_use]
    pub const fn from_secs(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// That many milliseconds.
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
    /// Whether one of them holds the address.
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
