//! Settings: a flag beats the environment, which beats the file of `--config`, which beats the
//! default. The only place that reads the environment.

mod document;
mod settings;
mod values;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};
use url::Url;

use crate::delivery::CREDIT_DEFAULT;
pub use document::configuration_document;
pub(crate) use settings::{Kind, SETTINGS, Setting};
pub use values::{LogFormat, Networks, Span};

/// Name of the database file in the data directory.
pub const DATABASE_FILE: &str = "notify.db";
/// Name of the master key file in the data directory.
pub const MASTER_KEY_FILE: &str = "master.key";
/// Longest configuration file, in bytes.
const FILE_BYTES_MAX: u64 = 1_048_576;
/// Variable of the environment that holds the master key itself.
pub(crate) const MASTER_KEY_VARIABLE: &str = "NOTIFY_MASTER_KEY";
const CONFIG_VARIABLE: &str = "NOTIFY_CONFIG";

/// Every setting, with its default.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// Listening address.
    pub listen: String,
    /// Folder of the database and the master key.
    pub data_dir: PathBuf,
    /// What poll urls begin with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub public_url: Option<Url>,
    /// Certificate chain, PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_cert: Option<PathBuf>,
    /// Private key, PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_key: Option<PathBuf>,
    /// Whether feeds and web push endpoints may point to private addresses.
    pub allow_private_networks: bool,
    /// Requests a second and key; 0 is no limit.
    pub rate_limit: u32,
    /// Failed authentications a minute and client address; 0 is no limit.
    pub auth_failures_per_minute: u32,
    /// Whose `X-Forwarded-For` counts.
    pub trusted_proxies: Networks,
    /// Largest body of a request, in bytes.
    pub max_body_bytes: usize,
    /// Time for a request's head.
    pub header_timeout: Span,
    /// Time for a request's body, unless it comes at 1 KiB a second or faster.
    pub body_timeout: Span,
    /// How long a kept connection may be without a request.
    pub idle_timeout: Span,
    /// How long a client may not take its answer.
    pub write_timeout: Span,
    /// Most connections.
    pub max_connections: usize,
    /// Most connections of one address; 0 is no limit.
    pub max_connections_per_address: usize,
    /// How long requests and messages in flight may take to end after a signal.
    pub shutdown_grace: Span,
    /// Connections that read the database.
    pub reader_threads: usize,
    /// Most messages in flight, or answered but not noted down yet.
    pub delivery_credit: usize,
    /// File of the master key; `master.key` in the data directory by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub master_key_file: Option<PathBuf>,
    /// Filter of the log.
    pub log: String,
    /// Form of the log.
    pub log_format: LogFormat,
    /// The master key itself, from `NOTIFY_MASTER_KEY` alone: it has no place in a file or in the
    /// arguments, which others can read.
    #[serde(skip)]
    pub master_key: Option<SecretString>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:8080".to_owned(),
            data_dir: "./notify-data".into(),
            public_url: None,
            tls_cert: None,
            tls_key: None,
            allow_private_networks: false,
            rate_limit: 0,
            auth_failures_per_minute: 300,
            trusted_proxies: Networks::default(),
            max_body_bytes: 1_048_576,
            header_timeout: Span::from_secs(10),
            body_timeout: Span::from_secs(15),
            idle_timeout: Span::from_secs(60),
            write_timeout: Span::from_secs(15),
            max_connections: 16_384,
            max_connections_per_address: 8_192,
            shutdown_grace: Span::from_secs(30),
            reader_threads: 4,
            delivery_credit: CREDIT_DEFAULT,
            master_key_file: None,
            log: "info".to_owned(),
            log_format: LogFormat::Text,
            master_key: None,
        }
    }
}

/// Why the settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("config: cannot read {}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is no TOML, or holds what is no setting.
    #[error("config: {}: {message}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What is wrong, and where.
        message: String,
    },
    /// A flag or variable has no use.
    #[error("{name}: {message}")]
    Value {
        /// The flag or variable, as it was given.
        name: String,
        /// What is wrong.
        message: String,
    },
}

/// Where settings come from beside the file.
pub struct Sources<'s> {
    /// A flag's text, by its name without dashes.
    pub flag: &'s dyn Fn(&str) -> Option<String>,
    /// A variable of the environment.
    pub variable: &'s dyn Fn(&str) -> Option<String>,
}

impl Config {
    /// Puts the settings together.
    ///
    /// # Errors
    /// The first setting that cannot be used, with the place it came from.
    pub fn load(sources: &Sources<'_>) -> Result<Self, ConfigError> {
        let variable = |name: &str| (sources.variable)(name).filter(|text| !text.is_empty());
        let mut table = match (sources.flag)("config").or_else(|| variable(CONFIG_VARIABLE)) {
            Some(path) => read_file(Path::new(&path))?,
            None => Table::new(),
        };
        for setting in SETTINGS {
            let given = match (sources.flag)(setting.name) {
                Some(text) => Some((format!("--{}", setting.name), text)),
                None => variable(&setting.variable()).map(|text| (setting.variable(), text)),
            };
            if let Some((name, text)) = given {
                let value = checked(setting, &text)
                    .map_err(|message| ConfigError::Value { name, message })?;
                table.insert(setting.name.to_owned(), value);
            }
        }
        let mut config: Self = table.try_into().map_err(|error: toml::de::Error| {
            ConfigError::Value { name: "config".into(), message: error.message().to_owned() }
        })?;
        config.master_key = variable(MASTER_KEY_VARIABLE).map(SecretString::from);
        config.check()?;
        Ok(config)
    }

    /// The database file.
    #[must_use]
    pub fn database(&self) -> PathBuf {
        self.data_dir.join(DATABASE_FILE)
    }

    fn check(&self) -> Result<(), ConfigError> {
        let wrong = |name: &str, message: &str| {
            Err(ConfigError::Value { name: name.to_owned(), message: message.to_owned() })
        };
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            return wrong("tls-cert", "comes together with tls-key");
        }
        if let Some(url) = &self.public_url
            && (!matches!(url.scheme(), "http" | "https") || url.query().is_some())
        {
            return wrong("public-url", "must be an http or https url without a query");
        }
        if self.master_key.is_some() && self.master_key_file.is_some() {
            return wrong("master-key-file", "cannot be used beside NOTIFY_MASTER_KEY");
        }
        let at_least_one = [
            ("max-body-bytes", self.max_body_bytes),
            ("max-connections", self.max_connections),
            ("reader-threads", self.reader_threads),
            ("delivery-credit", self.delivery_credit),
        ];
        for (name, value) in at_least_one {
            if value == 0 {
                return wrong(name, "must be at least 1");
            }
        }
        for (name, span) in [
            ("header-timeout", self.header_timeout),
            ("body-timeout", self.body_timeout),
            ("idle-timeout", self.idle_timeout),
            ("write-timeout", self.write_timeout),
        ] {
            if span.0.is_zero() {
                return wrong(name, "must be more than 0");
            }
        }
        Ok(())
    }
}

/// The value of a flag or variable, tried on its own so that the error names its source.
fn checked(setting: &Setting, text: &str) -> Result<Value, String> {
    let value = match setting.kind {
        Kind::Text => Value::String(text.to_owned()),
        Kind::Count => text
            .parse()
            .ok()
            .filter(|count: &i64| *count >= 0)
            .map(Value::Integer)
            .ok_or_else(|| format!("`{text}` is not a whole number of 0 or more"))?,
        Kind::Switch => match text {
            "true" | "1" => Value::Boolean(true),
            "false" | "0" => Value::Boolean(false),
            _ => return Err(format!("`{text}` is neither true nor false")),
        },
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
    let broken = |message: String| ConfigError::File { path: path.to_owned(), message };
    if size > FILE_BYTES_MAX {
        return Err(broken(format!("is larger than {FILE_BYTES_MAX} bytes")));
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    // Read as a whole first, since only then do errors name their line.
    toml::from_str::<Config>(&text).map_err(|error| broken(error.to_string()))?;
    toml::from_str(&text).map_err(|error| broken(error.to_string()))
}
