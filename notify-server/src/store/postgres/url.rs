//! `postgres://` URLs: the address, user and TLS mode of a database.

use std::path::PathBuf;
use std::str::FromStr;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use url::form_urlencoded;

use crate::misspelt::nearest_name;
use crate::pasted::trimmed;

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
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
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
    /// An option is unknown.
    #[error(
        "has the option `{name}`, which is not known{suggestion}: remove it, or correct its name"
    )]
    UnknownOption {
        /// The option.
        name: String,
        /// The known option with the nearest name.
        suggestion: String,
    },
    /// An option that the server does not have.
    #[error("has the option `{name}`: {advice}")]
    OtherOption {
        /// The option.
        name: &'static str,
        /// What to do.
        advice: &'static str,
    },
    /// A known option has a value that it does not take.
    #[error("{name} must be {values}")]
    Value {
        /// The option.
        name: &'static str,
        /// The values that it takes.
        values: &'static str,
    },
    /// The schema is not named as PostgreSQL names it.
    #[error("names a schema in an unknown way: write options=-csearch_path%3DNAME")]
    SchemaOption,
    /// The search path is not one schema.
    #[error(
        "search_path must be the name of one schema, such as options=-csearch_path%3Dnotify_a; set \
         any other search path on the user (alter role … set search_path)"
    )]
    SearchPath,
}

/// The TLS mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TlsMode {
    /// No TLS.
    Disable,
    /// TLS if the server supports it, with any certificate. This protects against eavesdropping,
    /// but not against an active attacker.
    Prefer,
    /// TLS with a certificate of any name, issued by a root certificate of the system or of this file.
    VerifyIssuer(Option<PathBuf>),
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
    // A `?` in a password would begin the options, which errors name.
    if query.contains('@') {
        return Err(UrlError::Reserved);
    }
    // `sslmode` and `sslrootcert` are handled here. The client library parses the other options.
    let (mut mode, mut roots, mut other_options) = (None, None, Vec::new());
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let (name, value) = (trimmed(&name), trimmed(&value));
        match name {
            "sslmode" => mode = Some(value.to_ascii_lowercase()),
            "ssl" => mode = Some(ssl_mode_of(value)?.to_owned()),
            "sslrootcert" => roots = Some(value.to_owned()),
            // Other clients have these; libpq and the client library do not.
            "search_path" | "schema" | "currentSchema" => return Err(UrlError::SchemaOption),
            _ => other_options.extend(checked_option(name, value)?),
        }
    }
    let tls = tls_mode(mode.as_deref(), roots)?;
    let mut options = form_urlencoded::Serializer::new(String::new());
    options.extend_pairs(&other_options);
    // The form encoding writes a space as `+`, which is a literal plus in PostgreSQL's URLs.
    let text = format!("{base}?{}", options.finish().replace('+', "%20"));
    // The options were checked: what is wrong now is before them.
    let mut config = Config::from_str(&text).map_err(|_| UrlError::Form)?;
    config.ssl_mode(match tls {
        TlsMode::Disable => SslMode::Disable,
        TlsMode::Prefer => SslMode::Prefer,
        TlsMode::VerifyIssuer(_) | TlsMode::Verify(_) => SslMode::Require,
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

/// The TLS mode that `sslmode` and `sslrootcert` select. Unlike libpq, `require` verifies the certificate here.
fn tls_mode(mode: Option<&str>, roots: Option<String>) -> Result<TlsMode, UrlError> {
    // As in libpq, `system` means the roots of the system.
    let is_given = roots.is_some();
    let roots = roots.filter(|roots| roots != "system").map(PathBuf::from);
    match mode {
        Some("disable") => Ok(TlsMode::Disable),
        // `allow` would try without TLS first; nothing is gained by that.
        Some("allow" | "prefer") => Ok(TlsMode::Prefer),
        None if !is_given => Ok(TlsMode::Prefer),
        Some("verify-ca") => Ok(TlsMode::VerifyIssuer(roots)),
        Some("require" | "verify-full") | None => Ok(TlsMode::Verify(roots)),
        Some(_) => Err(UrlError::Value {
            name: "sslmode",
            values: "disable, allow, prefer, require, verify-ca or verify-full",
        }),
    }
}

/// The `sslmode` that `ssl`, an option of other clients, means.
fn ssl_mode_of(value: &str) -> Result<&'static str, UrlError> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "1" | "require" | "" => Ok("require"),
        "false" | "0" => Ok("disable"),
        _ => Err(UrlError::Value { name: "ssl", values: "true or false (prefer sslmode)" }),
    }
}

/// What the server does with an option.
enum Handling {
    /// The client library takes it, with these values.
    Taken(&'static str),
    /// It changes nothing, since the server does the same without it, or has a setting of its own. The server
    /// takes only these values; none means any.
    Needless(&'static [&'static str], &'static str),
    /// The server does not have it.
    Refused(&'static str),
}

const PASSWORD: Handling = Handling::Refused("write user and password into the url");
const NO_CLIENT_CERTIFICATE: Handling = Handling::Refused(
    "client certificates are not supported; remove it, and let the user sign in with a password",
);
const NO_REVOCATION: Handling =
    Handling::Refused("lists of revoked certificates are not read; remove it");
const NO_GSS: Handling = Handling::Refused("GSSAPI is not supported; remove it");
const OTHER_CLIENT: Handling = Handling::Refused(
    "it is an option of another client; remove it. --reader-threads sets the number of connections",
);
const ANY: Handling = Handling::Needless(&[], "");
const NUMBER: Handling = Handling::Taken("a whole number");

/// The options of libpq, and those of other clients that hosts print.
const OPTIONS: &[(&str, Handling)] = &[
    ("application_name", Handling::Taken("a name")),
    ("channel_binding", Handling::Taken("disable, prefer or require")),
    ("client_encoding", Handling::Needless(&["utf8", "utf-8", "unicode", "auto"], "UTF8 or auto")),
    ("connect_timeout", NUMBER),
    ("connection_limit", OTHER_CLIENT),
    ("dbname", Handling::Taken("a name")),
    ("fallback_application_name", ANY),
    ("gssdelegation", Handling::Needless(&["0"], "0")),
    ("gssencmode", Handling::Needless(&["disable", "prefer"], "disable or prefer")),
    ("gsslib", NO_GSS),
    ("host", Handling::Taken("the names of hosts")),
    ("hostaddr", Handling::Taken("IP addresses")),
    ("keepalives", ANY),
    ("keepalives_count", ANY),
    ("keepalives_idle", ANY),
    ("keepalives_interval", ANY),
    ("keepalives_retries", ANY),
    ("krbsrvname", NO_GSS),
    ("load_balance_hosts", Handling::Taken("disable or random")),
    ("max_protocol_version", ANY),
    ("min_protocol_version", Handling::Needless(&["3.0"], "3.0")),
    ("options", Handling::Taken("arguments such as -csearch_path%3DNAME")),
    ("passfile", PASSWORD),
    ("password", Handling::Taken("a password")),
    ("pgbouncer", ANY),
    ("pool_timeout", OTHER_CLIENT),
    ("port", Handling::Taken("a port number")),
    ("replication", Handling::Needless(&["false", "off", "no", "0"], "false")),
    ("require_auth", Handling::Refused("it is not supported; use channel_binding=require")),
    ("requirepeer", Handling::Refused("it is not supported; remove it")),
    ("requiressl", Handling::Refused("it is obsolete; use sslmode=require")),
    ("service", PASSWORD),
    ("servicefile", PASSWORD),
    ("socket_timeout", OTHER_CLIENT),
    ("ssl_max_protocol_version", Handling::Needless(&["tlsv1.3", ""], "TLSv1.3")),
    (
        "ssl_min_protocol_version",
        Handling::Needless(&["tlsv1", "tlsv1.1", "tlsv1.2", ""], "at most TLSv1.2"),
    ),
    ("sslaccept", Handling::Refused("it is an option of another client; use sslmode")),
    ("sslcert", NO_CLIENT_CERTIFICATE),
    ("sslcertmode", Handling::Needless(&["disable", "allow"], "disable or allow")),
    ("sslcompression", ANY),
    ("sslcrl", NO_REVOCATION),
    ("sslcrldir", NO_REVOCATION),
    ("sslidentity", NO_CLIENT_CERTIFICATE),
    ("sslkey", NO_CLIENT_CERTIFICATE),
    ("sslmode", ANY),
    ("sslnegotiation", Handling::Needless(&["postgres"], "postgres")),
    ("sslpassword", NO_CLIENT_CERTIFICATE),
    ("sslrootcert", ANY),
    ("sslsni", Handling::Needless(&["1"], "1")),
    ("statement_cache_size", OTHER_CLIENT),
    (SESSION_ATTRS, Handling::Taken("any or read-write: the server writes")),
    ("tcp_user_timeout", ANY),
    ("user", Handling::Taken("a name")),
    ("uselibpqcompat", ANY),
];

/// Checks an option. Returns it if the client library takes it.
fn checked_option(name: &str, value: &str) -> Result<Option<(String, String)>, UrlError> {
    let Some((name, handling)) = OPTIONS.iter().find(|(known, _)| *known == name) else {
        return Err(unknown_option(name));
    };
    match handling {
        Handling::Refused(advice) => Err(UrlError::OtherOption { name, advice }),
        Handling::Needless(values, described) => {
            let lower = value.to_ascii_lowercase();
            if values.is_empty() || values.contains(&lower.as_str()) {
                Ok(None)
            } else {
                Err(UrlError::Value { name, values: described })
            }
        }
        Handling::Taken(values) => {
            let value = match (*name, value) {
                // Another name of the same, which the client library does not know.
                (SESSION_ATTRS, "primary") => "read-write",
                (SESSION_ATTRS, "read-only") => return Err(UrlError::Value { name, values }),
                (_, value) => value,
            };
            let pair = [(*name, value)];
            let mut alone = form_urlencoded::Serializer::new(String::new());
            let alone = alone.extend_pairs(&pair).finish().replace('+', "%20");
            Config::from_str(&format!("postgres://?{alone}"))
                .map_err(|_| UrlError::Value { name, values })?;
            Ok(Some(((*name).to_owned(), value.to_owned())))
        }
    }
}

/// Longest name of an unknown option that the error repeats, in characters.
const OPTION_CHARS_MAX: usize = 40;

fn unknown_option(name: &str) -> UrlError {
    let nearest = nearest_name(name, OPTIONS.iter().map(|(known, _)| *known));
    let suggestion =
        nearest.map_or_else(String::new, |known| format!(" (did you mean `{known}`?)"));
    let name = name.chars().filter(|c| c.is_ascii_graphic()).take(OPTION_CHARS_MAX).collect();
    UrlError::UnknownOption { name, suggestion }
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
            ("postgres://u:geheim@db/n?sslmode=allow", "db:5432/n", TlsMode::Prefer),
            (
                "postgres://u:geheim@db/n?sslmode=verify-ca",
                "db:5432/n",
                TlsMode::VerifyIssuer(None),
            ),
            (
                "postgres://u:geheim@db/n?sslmode=verify-ca&sslrootcert=/ca.pem",
                "db:5432/n",
                TlsMode::VerifyIssuer(Some("/ca.pem".into())),
            ),
            (
                "postgres://u:geheim@db/n?sslmode=verify-full&sslrootcert=system",
                "db:5432/n",
                TlsMode::Verify(None),
            ),
            ("postgres://u:geheim@db/n?sslrootcert=system", "db:5432/n", TlsMode::Verify(None)),
            ("postgres://u:geheim@db/n?ssl=true", "db:5432/n", TlsMode::Verify(None)),
        ] {
            let read: DatabaseUrl = url.parse().unwrap_or_else(|error| panic!("{url}: {error}"));
            let parsed = read.parsed();
            assert_eq!((parsed.place.as_str(), parsed.tls), (place, tls), "{url}");
            assert!(!format!("{read:?}").contains("geheim"));
            assert!(!read.place().contains("geheim"));
        }
    }

    #[test]
    fn urls_are_taken_as_hosts_print_them() {
        for (url, place, tls) in [
            (
                "postgresql://u:geheim@ep-a.aws.neon.tech/n?sslmode=require&channel_binding=require",
                "ep-a.aws.neon.tech:5432/n",
                TlsMode::Verify(None),
            ),
            (
                "postgres://u:geheim@db/n?options=endpoint%3Dep-a&connect_timeout=10\
                 &keepalives=1&keepalives_idle=30&keepalives_interval=10&keepalives_count=5\
                 &tcp_user_timeout=1000&gssencmode=disable&sslnegotiation=postgres\
                 &sslcompression=0&sslsni=1&client_encoding=UTF8&pgbouncer=true\
                 &target_session_attrs=primary&load_balance_hosts=disable\
                 &ssl_min_protocol_version=TLSv1.2&fallback_application_name=x&sslcertmode=allow\
                 &uselibpqcompat=true&application_name=notify",
                "db:5432/n",
                TlsMode::Prefer,
            ),
        ] {
            let read: DatabaseUrl = url.parse().unwrap_or_else(|error| panic!("{url}: {error}"));
            let parsed = read.parsed();
            assert_eq!((parsed.place.as_str(), parsed.tls), (place, tls), "{url}");
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
            ("postgres://u:geheim@a:geheim,b/n", UrlError::Form),
            ("postgres://u:gehei?m=1@db/n", UrlError::Reserved),
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

    #[test]
    fn an_option_that_is_refused_is_named_with_what_to_do() {
        for (option, error) in [
            (
                "sslmode=no-verify",
                "sslmode must be disable, allow, prefer, require, verify-ca or verify-full",
            ),
            ("sslcert=/c.pem", "has the option `sslcert`: client certificates are not supported"),
            ("sslkey=/k.pem", "has the option `sslkey`: client certificates are not supported"),
            ("sslcrl=/c.pem", "has the option `sslcrl`: lists of revoked certificates"),
            ("sslaccept=strict", "has the option `sslaccept`: it is an option of another client"),
            ("pool_timeout=5", "has the option `pool_timeout`: it is an option of another client"),
            ("connection_limit=5", "has the option `connection_limit`: it is an option of another"),
            ("service=x", "has the option `service`: write user and password into the url"),
            ("require_auth=scram-sha-256", "has the option `require_auth`: it is not supported"),
            ("gssencmode=require", "gssencmode must be disable or prefer"),
            ("krbsrvname=x", "has the option `krbsrvname`: GSSAPI is not supported"),
            ("sslnegotiation=direct", "sslnegotiation must be postgres"),
            (
                "ssl_min_protocol_version=TLSv1.3",
                "ssl_min_protocol_version must be at most TLSv1.2",
            ),
            ("channel_binding=geheim", "channel_binding must be disable, prefer or require"),
            ("connect_timeout=geheim", "connect_timeout must be a whole number"),
            ("target_session_attrs=standby", "target_session_attrs must be any or read-write"),
            ("target_session_attrs=read-only", "target_session_attrs must be any or read-write"),
            ("port=geheim", "port must be a port number"),
            ("client_encoding=LATIN1", "client_encoding must be UTF8 or auto"),
            ("ssl=maybe", "ssl must be true or false (prefer sslmode)"),
            ("ssl_mode=require", "`ssl_mode`, which is not known (did you mean `sslmode`?)"),
            ("whatever=geheim", "`whatever`, which is not known: remove it, or correct its name"),
        ] {
            let refused = format!("postgres://u:geheim@db/n?{option}").parse::<DatabaseUrl>();
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains(error), "{option}: {refused}");
            assert!(!refused.contains("geheim"), "{refused}");
        }
    }
}
