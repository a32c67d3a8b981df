//! Combines the sources of settings, and refuses invalid ones.

use std::fmt::Write;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use secrecy::SecretString;
use serde::Deserialize;
use toml::{Table, Value};

use super::environment::FILE_SUFFIX;
use super::settings::parse_switch;
use crate::config::{Config, Kind, MASTER_KEY_VARIABLE, SETTINGS, Setting, Switch};
use crate::outbound::{NoProxy, ProxyUrl, ProxyUrlError};
use crate::pasted::trimmed;
use crate::telemetry::METRICS_APPS_MAX;

/// Longest configuration file, in bytes.
const FILE_BYTES_MAX: u64 = 1_048_576;
pub(super) const CONFIG_VARIABLE: &str = "NOTIFY_CONFIG";
/// Longest file with the value of one setting, in bytes.
const SECRET_FILE_BYTES_MAX: u64 = 65_536;
/// The variables that other programs read for the proxy of `https` requests, and for the exceptions. The first one
/// that is set counts.
const PROXY_VARIABLES: [&str; 2] = ["HTTPS_PROXY", "https_proxy"];
const NO_PROXY_VARIABLES: [&str; 2] = ["NO_PROXY", "no_proxy"];
/// The shortest `--console-idle-timeout`.
const IDLE_TIMEOUT_MIN: Duration = Duration::from_secs(120);

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("config: cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why it cannot be read.
        #[source]
        source: std::io::Error,
    },
    /// The file is not TOML, or contains a key that is not a setting.
    #[error("config: {}: {message}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        message: String,
    },
    /// The file that has the value of a variable cannot be read.
    #[error("{variable}: cannot read {}", path.display())]
    SecretFile {
        /// The variable that names the file.
        variable: String,
        /// The file.
        path: PathBuf,
        /// Why it cannot be read.
        #[source]
        source: std::io::Error,
    },
    /// A flag or variable has an invalid value.
    #[error("{name}: {message}")]
    Value {
        /// The flag or variable, as it was given.
        name: String,
        /// What is wrong.
        message: String,
    },
}

/// Sources of settings other than the file.
pub struct Sources<'s> {
    /// The value of a flag, by the flag's name without the leading dashes.
    pub flag: &'s dyn Fn(&str) -> Option<String>,
    /// The value of an environment variable.
    pub variable: &'s dyn Fn(&str) -> Option<String>,
}

impl Config {
    /// Combines the settings.
    ///
    /// # Errors
    /// The first invalid setting, with its source.
    pub fn load(sources: &Sources<'_>) -> Result<Self, ConfigError> {
        let variable = |name: &str| set_variable(sources.variable, name);
        let mut table = match (sources.flag)("config").or_else(|| variable(CONFIG_VARIABLE)) {
            Some(path) => read_file(Path::new(trimmed(&path)))?,
            None => Table::new(),
        };
        for setting in SETTINGS {
            let variables = std::iter::once(setting.variable()).chain(setting.variable_alias());
            let name_and_text = match (sources.flag)(setting.name) {
                Some(text) => Some((format!("--{}", setting.name), text)),
                None if setting.is_secret => {
                    secret_variable(sources.variable, &setting.variable())?
                }
                None => variables.into_iter().find_map(|name| {
                    let text = variable(&name)?;
                    Some((name, text))
                }),
            };
            if let Some((name, text)) = name_and_text {
                let value = parse_value(setting, &text)
                    .map_err(|message| ConfigError::Value { name, message })?;
                table.insert(setting.name.to_owned(), value);
            }
        }
        let mut config: Self = table.try_into().map_err(|error: toml::de::Error| {
            ConfigError::Value { name: "config".into(), message: error.message().to_owned() }
        })?;
        config.master_key = variable(MASTER_KEY_VARIABLE).map(SecretString::from);
        config.set_proxy(&variable)?;
        config.check()?;
        Ok(config)
    }

    /// Reads the usual variables of a proxy. The setting comes before `HTTPS_PROXY`.
    fn set_proxy(&mut self, variable: &dyn Fn(&str) -> Option<String>) -> Result<(), ConfigError> {
        let first = |names: [&'static str; 2]| {
            names.into_iter().find_map(|name| Some((name, variable(name)?)))
        };
        let exceptions = first(NO_PROXY_VARIABLES).map(|(_, list)| list).unwrap_or_default();
        let Ok(no_proxy) = exceptions.parse::<NoProxy>();
        self.no_proxy = no_proxy;
        if self.no_proxy.is_everything() {
            self.egress_proxy = None;
        } else if self.egress_proxy.is_none()
            && let Some((name, url)) = first(PROXY_VARIABLES)
        {
            let invalid = |error: ProxyUrlError| ConfigError::Value {
                name: name.to_owned(),
                message: error.to_string(),
            };
            self.egress_proxy = Some(url.parse::<ProxyUrl>().map_err(invalid)?);
        }
        Ok(())
    }

    fn check(&self) -> Result<(), ConfigError> {
        let invalid = |name: &str, message: &str| {
            Err(ConfigError::Value { name: name.to_owned(), message: message.to_owned() })
        };
        let has_port = |(host, port): (&str, &str)| !host.is_empty() && port.parse::<u16>().is_ok();
        let console_listen = self.console_listen.as_ref();
        let addresses = [
            ("listen", Some(&self.listen)),
            ("admin-listen", self.admin_listen.as_ref()),
            ("console-listen", console_listen),
        ];
        for (name, address) in addresses {
            if let Some(address) = address
                && !address.rsplit_once(':').is_some_and(has_port)
            {
                let message = format!("`{address}` is not HOST:PORT, such as 127.0.0.1:8080");
                return invalid(name, &message);
            }
        }
        for (name, is_set) in
            [("console", self.console == Switch::On), ("console-listen", console_listen.is_some())]
        {
            if is_set && cfg!(not(feature = "console")) {
                let message =
                    "this server was built without the console (the cargo feature `console`)";
                return invalid(name, message);
            }
        }
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            return invalid("tls-cert", "comes together with tls-key");
        }
        if let Some(url) = &self.public_url
            && (!matches!(url.scheme(), "http" | "https") || url.query().is_some())
        {
            return invalid("public-url", "must be an http or https url without a query");
        }
        if self.master_key.is_some() && self.master_key_file.is_some() {
            return invalid("master-key-file", "cannot be used together with NOTIFY_MASTER_KEY");
        }
        let at_least_one = [
            ("max-body-bytes", self.max_body_bytes),
            ("max-connections", self.max_connections),
            ("reader-threads", self.reader_threads),
            ("max-unacked-deliveries", self.max_unacked_deliveries),
            ("max-unacked-without-dedup", self.max_unacked_without_dedup),
        ];
        for (name, value) in at_least_one {
            if value == 0 {
                return invalid(name, "must be at least 1");
            }
        }
        if self.metrics_apps > METRICS_APPS_MAX {
            return invalid("metrics-apps", &format!("must be at most {METRICS_APPS_MAX}"));
        }
        for (name, span) in [
            ("header-timeout", self.header_timeout),
            ("body-timeout", self.body_timeout),
            ("idle-timeout", self.idle_timeout),
            ("write-timeout", self.write_timeout),
            ("console-session-timeout", self.console_session_timeout),
        ] {
            if span.0.is_zero() {
                return invalid(name, "must be more than 0");
            }
        }
        // The uses of a session are written once a minute. Other servers see them only then.
        if self.console_idle_timeout.0 < IDLE_TIMEOUT_MIN {
            return invalid("console-idle-timeout", "must be at least 2 minutes");
        }
        Ok(())
    }
}

/// The value of a variable, without what surrounds it; `None` if it is blank.
pub(super) fn set_variable(
    variable: &dyn Fn(&str) -> Option<String>,
    name: &str,
) -> Option<String> {
    variable(name).map(|text| trimmed(&text).to_owned()).filter(|text| !text.is_empty())
}

/// The value of a variable with a secret, or of the file that the variable with `_FILE` behind its name names.
/// Returns the name of the variable too.
///
/// # Errors
/// When both variables are set, or the file cannot be read or is blank.
pub(crate) fn secret_variable(
    variable: &dyn Fn(&str) -> Option<String>,
    name: &str,
) -> Result<Option<(String, String)>, ConfigError> {
    let name_of_file = format!("{name}{FILE_SUFFIX}");
    let (text, path) = (set_variable(variable, name), set_variable(variable, &name_of_file));
    let invalid = |message: String| Err(ConfigError::Value { name: name_of_file.clone(), message });
    match (text, path) {
        (Some(_), Some(_)) => invalid(format!("cannot be used together with {name}")),
        (Some(text), None) => Ok(Some((name.to_owned(), text))),
        (None, None) => Ok(None),
        (None, Some(path)) => {
            let path = PathBuf::from(path);
            let read = || {
                let mut text = String::new();
                std::fs::File::open(&path)?
                    .take(SECRET_FILE_BYTES_MAX + 1)
                    .read_to_string(&mut text)?;
                if text.len() as u64 > SECRET_FILE_BYTES_MAX {
                    let rule = format!("it has more than {SECRET_FILE_BYTES_MAX} bytes");
                    return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, rule));
                }
                Ok(text)
            };
            let text = read().map_err(|source| ConfigError::SecretFile {
                variable: name_of_file.clone(),
                path: path.clone(),
                source,
            })?;
            let text = trimmed(&text);
            if text.is_empty() {
                return invalid(format!("{} is empty", path.display()));
            }
            Ok(Some((name_of_file, text.to_owned())))
        }
    }
}

/// Parses the value of a flag, a variable or a text of the file, without what surrounds it. Each value is
/// checked alone, so that an error can name where it came from.
fn parse_value(setting: &Setting, text: &str) -> Result<Value, String> {
    let text = trimmed(text);
    let value = match setting.kind {
        Kind::Text => Value::String(text.to_owned()),
        Kind::Count => text
            .parse()
            .ok()
            .filter(|count: &i64| *count >= 0)
            .map(Value::Integer)
            .ok_or_else(|| format!("`{text}` is not a whole number of 0 or more"))?,
        Kind::Switch => match parse_switch(text) {
            Some(is_on) => Value::Boolean(is_on),
            None => return Err(format!("`{text}` is neither true nor false")),
        },
        Kind::OnOff => match parse_switch(text) {
            Some(is_on) => Value::String(if is_on { "on" } else { "off" }.to_owned()),
            None => return Err(format!("`{text}` is neither on nor off")),
        },
        Kind::Word => Value::String(text.to_ascii_lowercase()),
    };
    let alone: Table = [(setting.name.to_owned(), value.clone())].into_iter().collect();
    match Config::deserialize(alone) {
        Ok(_) => Ok(value),
        Err(error) => Err(error.message().to_owned()),
    }
}

fn read_file(path: &Path) -> Result<Table, ConfigError> {
    let unreadable = |source| ConfigError::Unreadable { path: path.to_owned(), source };
    let size = std::fs::metadata(path).map_err(unreadable)?.len();
    let invalid_file = |message: String| ConfigError::File { path: path.to_owned(), message };
    if size > FILE_BYTES_MAX {
        return Err(invalid_file(format!("is larger than {FILE_BYTES_MAX} bytes")));
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let mut table: Table =
        toml::from_str(&text).map_err(|error| invalid_file(describe(&error, &text)))?;
    for setting in SETTINGS {
        for name in std::iter::once(setting.name).chain(setting.alias) {
            if let Some(Value::String(text)) = table.get(name)
                && let Ok(value) = parse_value(setting, text)
            {
                table.insert(name.to_owned(), value);
            }
        }
    }
    if let Err(error) = Config::deserialize(table.clone()) {
        // Only the errors of the text contain the line.
        return Err(match toml::from_str::<Config>(&text) {
            Err(error) => invalid_file(describe(&error, &text)),
            Ok(_) => invalid_file(error.message().to_owned()),
        });
    }
    for setting in SETTINGS {
        if let Some(value) = setting.alias.and_then(|alias| table.remove(alias)) {
            table.insert(setting.name.to_owned(), value);
        }
    }
    Ok(table)
}

/// A description of an error with its line number. The line itself is not shown, because a secret
/// that was put there by mistake would appear in the log.
fn describe(error: &toml::de::Error, text: &str) -> String {
    let message = error.message();
    let before = error.span().and_then(|span| text.get(..span.start));
    match before {
        Some(before) => format!("line {}: {message}", before.matches('\n').count() + 1),
        None => message.to_owned(),
    }
}

// `docs/configuration.md` is generated from the list of settings. A test compares the two.

const HEAD: &str = "\
# Configuration

Every setting has a flag (`--listen`), an environment variable (`NOTIFY_LISTEN`) and a key
(`listen = \"…\"`) in the TOML file that `--config` or `NOTIFY_CONFIG` names. A flag overrides the
environment, which overrides the file. Unknown keys are refused. All subcommands take the same
settings.

The server ignores blanks, line ends and a pair of quotes around a value. A switch is `true` or `false`,
`1` or `0`, `yes` or `no`, `on` or `off`, in capitals or not. `NOTIFY_DATABASE_URL_FILE` and
`NOTIFY_EGRESS_PROXY_FILE` name a file that contains the url of the database or of the proxy, such as a mounted
secret, in the place of `NOTIFY_DATABASE_URL` and `NOTIFY_EGRESS_PROXY`. At its start, the server warns about
variables that begin with `NOTIFY_` and are not settings.

Without `--egress-proxy`, the server uses the proxy in `HTTPS_PROXY` (or `https_proxy`). `NO_PROXY` (or
`no_proxy`) lists the hosts that it reaches without the proxy; `NO_PROXY=*` means that it uses no proxy. The form
of the list is in [operations](operations.md#egress-proxy).

A duration is written as `30s`, `500ms`, `2m` or `1h`; a plain number means seconds. A list of
networks is written as `10.0.0.0/8, 192.168.1.1`. In the file, it can also be a TOML array.

| setting | default | meaning |
|---|---|---|
";

const FOOT: &str = "
`NOTIFY_MASTER_KEY` contains the master key itself (32 bytes in base64) and replaces the file. There
is no flag and no key in the file for it, because other users could read them. Without
`NOTIFY_MASTER_KEY` and `--master-key-file`, the server uses `master.key` in the data folder. It
creates a missing file (mode 0600) unless the database contains sealed data. A backup of the database
needs the master key too: without the right key the server does not start, because it cannot open the
providers' credentials. If the key is lost permanently, `notify-server forget-credentials` deletes
these credentials. Messages then wait until the providers are configured again.
";

/// The default of a setting, as it is written in the file without quotes; `None` if it has none.
pub(crate) fn default_of(setting: &Setting) -> Option<String> {
    static DEFAULTS: LazyLock<Value> =
        LazyLock::new(|| Value::try_from(Config::default()).expect("the defaults are TOML values"));
    match DEFAULTS.get(setting.name)? {
        Value::Array(list) if list.is_empty() => None,
        Value::String(default) => Some(default.clone()),
        Value::Integer(default) => Some(default.to_string()),
        Value::Boolean(default) => Some(default.to_string()),
        default => unreachable!("no setting is {}", default.type_str()),
    }
}

/// The text of `docs/configuration.md`.
///
/// # Panics
/// Never: the defaults are TOML values.
#[must_use]
pub fn configuration_document() -> String {
    let mut text = HEAD.to_owned();
    for setting in SETTINGS {
        let default =
            default_of(setting).map_or_else(String::new, |default| format!("`{default}`"));
        let value = match setting.kind {
            Kind::Switch => String::new(),
            Kind::Text | Kind::Word | Kind::OnOff | Kind::Count => {
                format!(" {}", setting.value.replace('|', "\\|"))
            }
        };
        let (name, help) = (setting.name, setting.help);
        let alias = setting.alias.map_or_else(String::new, |alias| {
            format!(". `--{alias}` is an older name of this setting")
        });
        writeln!(text, "| `--{name}{value}` | {default} | {help}{alias} |")
            .expect("writing to a String cannot fail");
    }
    text.push_str(FOOT);
    text
}
