//! `postgres://` URLs: the address, user and TLS mode of a database.

use std::path::PathBuf;
use std::str::FromStr;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use url::form_urlencoded;

/// The option that selects one of several hosts by its kind. By default, read-only hosts are
/// skipped.
const SESSION_ATTRS: &str = "target_session_attrs";
/// The schema of an installation whose URL names no schema, unless the user has a search path.
const SCHEMA_DEFAULT: &str = "public";
/// The default port.
const PORT_DEFAULT: u16 = 5_432;

/// The URL of a database. It contains the password, so the URL is never displayed.
#[derive(Debug, Clone)]
pub struct DatabaseUrl(SecretString);

/// Why a URL is invalid. The URL is not quoted, since it may contain a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// It is not the URL of a PostgreSQL database.
    #[error("must be a url like postgres://user:password@host:5432/database")]
    Form,
    /// A name or password contains a character that has a meaning in URLs.
    #[error(
        "has more than one `@`: in a name or password, `@` is written %40, `/` %2F, `#` %23, `?` %3F"
    )]
    Reserved,
    /// It names no database.
    #[error("must name a database, like postgres://user:password@host:5432/database")]
    NoDatabase,
    /// An option or its value is unknown.
    #[error("has an option that is not known, or a value that its option does not take")]
    Option,
    /// The schema is not named as PostgreSQL names it.
    #[error("names a schema in an unknown way: write options=-csearch_path%3DNAME")]
    SchemaOption,
    /// The search path is not one schema.
    #[error(
        "search_path must be the name of one schema, such as options=-csearch_path%3Dnotify_a; set \
         any other search path on the user (alter role … set search_path)"
    )]
    SearchPath,
    /// An unknown `sslmode`.
    #[error("sslmode must be disable, prefer, require or verify-full")]
    SslMode,
}

/// The TLS mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TlsMode {
    /// No TLS.
    Disable,
    /// TLS if the server supports it, with any certificate. This protects against eavesdropping,
    /// but not against an active attacker.
    Prefer,
    /// TLS with a certificate for the host name, issued by a root certificate of the system or of
    /// this file.
    Verify(Option<PathBuf>),
}

/// A parsed URL.
pub(super) struct Parsed {
    pub(super) config: Config,
    pub(super) tls: TlsMode,
    /// The host, port, name and schema of the database, for display.
    pub(super) place: String,
}

impl FromStr for DatabaseUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        parse(text)?;
        Ok(Self(text.into()))
    }
}

impl DatabaseUrl {
    /// The parts of the URL.
    pub(super) fn parsed(&self) -> Parsed {
        parse(self.0.expose_secret()).expect("the URL was parsed before")
    }

    /// Host, port, name and schema of the database, without user and password.
    #[must_use]
    pub fn place(&self) -> String {
        self.parsed().place
    }
}

impl Serialize for DatabaseUrl {
    /// The URL without user and password; it cannot be parsed again.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.place())
    }
}

impl<'de> Deserialize<'de> for DatabaseUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

fn parse(text: &str) -> Result<Parsed, UrlError> {
    // The URL is not parsed with a URL parser: it may contain several hosts, which URL parsers
    // reject.
    let (base, query) = text.split_once('?').unwrap_or((text, ""));
    if !["postgres://", "postgresql://"].iter().any(|scheme| base.starts_with(scheme)) {
        return Err(UrlError::Form);
    }
    // With a second `@`, a part of the password would be taken as the host and displayed.
    if base.matches('@').count() > 1 {
        return Err(UrlError::Reserved);
    }
    // `sslmode` and `sslrootcert` are handled here. The client library parses the other options.
    let (mut mode, mut roots, mut other_options) = (None, None, Vec::new());
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "sslmode" => mode = Some(value.into_owned()),
            "sslrootcert" => roots = Some(PathBuf::from(value.into_owned())),
            // Other clients have these; libpq and the client library do not.
            "search_path" | "schema" | "currentSchema" => return Err(UrlError::SchemaOption),
            _ => other_options.push((name.into_owned(), value.into_owned())),
        }
    }
    // Unlike libpq, `require` verifies the certificate here.
    let tls = match mode.as_deref() {
        Some("disable") => TlsMode::Disable,
        Some("prefer") => TlsMode::Prefer,
        None if roots.is_none() => TlsMode::Prefer,
        Some("require" | "verify-full") | None => TlsMode::Verify(roots),
        Some(_) => return Err(UrlError::SslMode),
    };
    let mut options = form_urlencoded::Serializer::new(String::new());
    options.extend_pairs(&other_options);
    // The form encoding writes a space as `+`, which is a literal plus in PostgreSQL's URLs.
    let text = format!("{base}?{}", options.finish().replace('+', "%20"));
    let mut config = Config::from_str(&text).map_err(|_| UrlError::Option)?;
    config.ssl_mode(match tls {
        TlsMode::Disable => SslMode::Disable,
        TlsMode::Prefer => SslMode::Prefer,
        TlsMode::Verify(_) => SslMode::Require,
    });
    let name = config.get_dbname().ok_or(UrlError::NoDatabase)?;
    let mut place = format!("{}/{name}", hosts(&config).ok_or(UrlError::Form)?);
    let schema = schema_of(config.get_options().unwrap_or_default())?;
    if let Some(schema) = schema.filter(|schema| schema != SCHEMA_DEFAULT) {
        place = format!("{place} (schema {schema})");
    }
    let selects_hosts = other_options.iter().any(|(name, _)| name == SESSION_ATTRS);
    if config.get_hosts().len() > 1 && !selects_hosts {
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
    Ok(Parsed { config, tls, place })
}

/// The schema that the option `options` names, which contains settings as command line arguments:
/// `-c search_path=NAME` or `--search_path=NAME`.
fn schema_of(options: &str) -> Result<Option<String>, UrlError> {
    let mut words = options.split_ascii_whitespace();
    let mut schema = None;
    while let Some(word) = words.next() {
        let setting = match word.strip_prefix("--").or_else(|| word.strip_prefix("-c")) {
            Some("") => words.next().unwrap_or_default(),
            Some(setting) => setting,
            None => continue,
        };
        let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
        if name.replace('-', "_").eq_ignore_ascii_case("search_path") {
            schema = Some(schema_name(value).ok_or(UrlError::SearchPath)?);
        }
    }
    Ok(schema)
}

/// The schema of a search path that is one name; `None` for other search paths. PostgreSQL changes
/// names without quotes to lower case.
fn schema_name(search_path: &str) -> Option<String> {
    let quoted = search_path.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let name = quoted.map_or_else(|| search_path.to_ascii_lowercase(), str::to_owned);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_name = match quoted {
        // A backslash is an escape in `options`, and `$user` is the name of the user.
        Some(name) => !name.is_empty() && !name.starts_with('$') && !name.contains(['"', '\\']),
        None => name.chars().all(is_plain) && !name.starts_with(|c: char| c.is_ascii_digit()),
    };
    (is_name && !name.is_empty()).then_some(name)
}

/// The hosts and ports for display; `None` if there is no host, or the numbers of hosts, ports and
/// addresses do not match.
fn hosts(config: &Config) -> Option<String> {
    let (hosts, ports) = (config.get_hosts(), config.get_ports());
    let addresses = config.get_hostaddrs().len();
    if hosts.is_empty()
        || (ports.len() > 1 && ports.len() != hosts.len())
        || (addresses > 0 && addresses != hosts.len())
    {
        return None;
    }
    let hosts_with_ports = hosts.iter().enumerate().map(|(nth, host)| {
        let name = match host {
            Host::Tcp(name) => name.clone(),
            #[cfg(unix)]
            Host::Unix(folder) => folder.display().to_string(),
        };
        let port = ports.get(nth).or(ports.first()).copied().unwrap_or(PORT_DEFAULT);
        format!("{name}:{port}")
    });
    Some(hosts_with_ports.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed_and_never_displayed() {
        let roots = |path: &str| TlsMode::Verify(Some(path.into()));
        for (url, place, tls) in [
            ("postgres://u:geheim@db/notify", "db:5432/notify", TlsMode::Prefer),
            (
                "postgresql://u:geheim@db:6432/notify?sslmode=disable",
                "db:6432/notify",
                TlsMode::Disable,
            ),
            ("postgres://u:geheim@db/n?sslmode=require", "db:5432/n", TlsMode::Verify(None)),
            (
                "postgres://u:geheim@db/n?sslmode=verify-full&sslrootcert=/ca.pem",
                "db:5432/n",
                roots("/ca.pem"),
            ),
            (
                "postgres://u:geheim@db/n?sslrootcert=/ca.pem&application_name=a%20b",
                "db:5432/n",
                roots("/ca.pem"),
            ),
            (
                "postgres:///n?host=/run/postgresql&user=geheim",
                "/run/postgresql:5432/n",
                TlsMode::Prefer,
            ),
            ("postgres://u:geheim@a,b:6432/n", "a:5432,b:6432/n", TlsMode::Prefer),
            (
                "postgres://u:geheim@db/n?options=-csearch_path%3DNotify_A",
                "db:5432/n (schema notify_a)",
                TlsMode::Prefer,
            ),
            (
                "postgres://db/n?options=-c%20jit=off+--search-path%3D%22Notify-A%22&user=geheim",
                "db:5432/n (schema Notify-A)",
                TlsMode::Prefer,
            ),
            (
                "postgres://u:geheim@db/n?options=-c+search_path%3Dpublic",
                "db:5432/n",
                TlsMode::Prefer,
            ),
            ("postgres://u:geheim@db/n?options=-cjit%3Doff", "db:5432/n", TlsMode::Prefer),
        ] {
            let read: DatabaseUrl = url.parse().unwrap_or_else(|error| panic!("{url}: {error}"));
            let parsed = read.parsed();
            assert_eq!((parsed.place.as_str(), parsed.tls), (place, tls), "{url}");
            assert!(!format!("{read:?}").contains("geheim"));
            assert!(!read.place().contains("geheim"));
        }
    }

    #[test]
    fn several_hosts_default_to_the_writable_one() {
        for (url, attrs) in [
            ("postgres://a/n", TargetSessionAttrs::Any),
            ("postgres://a,b/n", TargetSessionAttrs::ReadWrite),
            ("postgres://a,b/n?target_session_attrs=any", TargetSessionAttrs::Any),
            ("postgres://a,b/n?target_session_attrs=read-write", TargetSessionAttrs::ReadWrite),
        ] {
            let read: DatabaseUrl = url.parse().unwrap_or_else(|error| panic!("{url}: {error}"));
            assert_eq!(read.parsed().config.get_target_session_attrs(), attrs, "{url}");
        }
    }

    #[test]
    fn a_plus_is_literal_in_a_password_and_a_space_in_an_option() {
        let url = "postgres://u:a+b%2Bc@db/n?application_name=a+b";
        let config = url.parse::<DatabaseUrl>().unwrap().parsed().config;
        assert_eq!(config.get_password(), Some(&b"a+b+c"[..]));
        assert_eq!(config.get_application_name(), Some("a b"));
    }

    #[test]
    fn invalid_urls_are_refused_without_being_quoted() {
        for (url, error) in [
            ("", UrlError::Form),
            ("notify.db", UrlError::Form),
            ("mysql://u:geheim@db/n", UrlError::Form),
            ("postgres:geheim", UrlError::Form),
            ("postgres://u:p@geheim/w#rd@db:5432/n", UrlError::Reserved),
            ("postgres://u:geheim@db", UrlError::NoDatabase),
            ("postgres://u:geheim@a:1,b:2,c/n?port=1,2", UrlError::Form),
            ("postgres://u:geheim@a,b/n?hostaddr=10.0.0.1", UrlError::Form),
            ("postgres://u:geheim@a:geheim,b/n", UrlError::Option),
            ("postgres://u:geheim@db/n?sslmode=allow", UrlError::SslMode),
            ("postgres://u:geheim@db/n?geheim=1", UrlError::Option),
            ("postgres://u:geheim@db/n?connect_timeout=geheim", UrlError::Option),
            ("postgres://u:geheim@db/n?search_path=geheim", UrlError::SchemaOption),
            ("postgres://u:geheim@db/n?currentSchema=geheim", UrlError::SchemaOption),
            (
                "postgres://u:geheim@db/n?options=-csearch_path%3Dgeheim,public",
                UrlError::SearchPath,
            ),
            ("postgres://u:geheim@db/n?options=-csearch_path%3D", UrlError::SearchPath),
            ("postgres://u:geheim@db/n?options=-csearch_path", UrlError::SearchPath),
            ("postgres://u:geheim@db/n?options=-csearch_path%3D$user", UrlError::SearchPath),
            ("postgres://u:geheim@db/n?options=-csearch_path%3D%22$user%22", UrlError::SearchPath),
            ("postgres://u:geheim@db/n?options=-csearch_path%3D%22a\\%22", UrlError::SearchPath),
            ("postgres://u:geheim@db/n?options=-csearch_path%3D1a", UrlError::SearchPath),
        ] {
            let refused = url.parse::<DatabaseUrl>().unwrap_err();
            assert_eq!(refused, error, "{url}");
            assert!(!refused.to_string().contains("geheim"));
        }
    }
}
