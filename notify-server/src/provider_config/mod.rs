//! The configuration of each provider, which an administrator sets over the admin API. This module parses
//! it, checks it, and shows it without its secrets. It makes no connections, so that request handlers can
//! use it. Debug output and errors never show a key.

mod apns;
mod fcm;
mod messenger;
mod pasted_key;
mod telegram;
#[cfg(test)]
pub(crate) mod test_keys;
#[cfg(test)]
mod tests;
mod urls;
mod webpush;

use notify_core::{AppId, ProviderKind};
use secrecy::SecretString;
use serde_json::{Map, Value, json};

pub(crate) use self::apns::ApnsConfig;
pub(crate) use self::fcm::{FcmConfig, ServiceAccount};
pub(crate) use self::messenger::MessengerConfig;
use self::pasted_key::Looks;
pub(crate) use self::telegram::TelegramConfig;
pub(crate) use self::urls::{BaseUrl, ExtraRoots};
pub(crate) use self::webpush::{VapidKey, WebPushConfig};
use crate::misspelt::nearest_name;
use crate::pasted::{EDGES, QUOTES, trimmed};
use crate::secrets::{MasterKey, SecretError};
use crate::store::ProviderRow;

/// Why a configuration is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProviderConfigError {
    /// The violations, each as `path: rule`.
    #[error("{}", .0.join("; "))]
    Invalid(Vec<String>),
}

impl ProviderConfigError {
    /// The lines that the API lists.
    #[must_use]
    pub(crate) fn into_lines(self) -> Vec<String> {
        match self {
            Self::Invalid(lines) => lines,
        }
    }
}

/// Why a stored configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnreadableConfig {
    /// The configuration cannot be decrypted with the master key.
    #[error("a provider's configuration cannot be opened")]
    Sealed(#[from] SecretError),
    /// The decrypted configuration is not JSON.
    #[error("a provider's configuration is damaged")]
    Json(#[from] serde_json::Error),
    /// The configuration breaks a rule that did not exist when it was stored.
    #[error("a provider's configuration is not valid any more")]
    Rules(#[from] ProviderConfigError),
}

/// A checked configuration of one provider. A `PUT` replaces the whole configuration.
#[derive(Debug, Clone)]
pub(crate) enum ProviderConfig {
    /// Apple Push Notification service.
    Apns(ApnsConfig),
    /// Firebase Cloud Messaging.
    Fcm(FcmConfig),
    /// Facebook Messenger Send API.
    Messenger(MessengerConfig),
    /// Telegram Bot API.
    Telegram(TelegramConfig),
    /// Browsers' push services.
    WebPush(WebPushConfig),
}

impl ProviderConfig {
    /// Fills in fields that a `PUT` left out: the server takes them from the earlier configuration, or
    /// generates them.
    pub(crate) fn fill_defaults(kind: ProviderKind, body: &mut Value, earlier: Option<&Value>) {
        match kind {
            ProviderKind::WebPush => webpush::fill_defaults(body, earlier),
            ProviderKind::Apns
            | ProviderKind::Fcm
            | ProviderKind::Messenger
            | ProviderKind::Telegram => {}
        }
    }

    /// Parses the body of a `PUT` after [`Self::fill_defaults`], or a stored configuration.
    ///
    /// # Errors
    /// All violations.
    pub(crate) fn parse(kind: ProviderKind, body: &Value) -> Result<Self, ProviderConfigError> {
        match kind {
            ProviderKind::Apns => ApnsConfig::parse(body).map(Self::Apns),
            ProviderKind::Fcm => FcmConfig::parse(body).map(Self::Fcm),
            ProviderKind::Messenger => MessengerConfig::parse(body).map(Self::Messenger),
            ProviderKind::Telegram => TelegramConfig::parse(body).map(Self::Telegram),
            ProviderKind::WebPush => WebPushConfig::parse(body).map(Self::WebPush),
        }
    }

    /// Decrypts and parses a stored configuration.
    ///
    /// # Errors
    /// When the configuration cannot be decrypted or is not valid.
    pub(crate) fn open(
        key: &MasterKey,
        app: AppId,
        row: &ProviderRow,
    ) -> Result<Self, UnreadableConfig> {
        Ok(Self::parse(row.provider, &decrypt_stored(key, app, row)?)?)
    }

    /// The configuration as `GET` shows it, without secrets.
    #[must_use]
    pub(crate) fn redacted(&self) -> Value {
        match self {
            Self::Apns(config) => config.redacted(),
            Self::Fcm(config) => config.redacted(),
            Self::Messenger(config) => config.redacted(),
            Self::Telegram(config) => config.redacted(),
            Self::WebPush(config) => config.redacted(),
        }
    }

    /// Most messages a second, if the administrator set a limit.
    #[must_use]
    pub(crate) fn rate_per_second(&self) -> Option<u32> {
        match self {
            Self::Apns(config) => config.rate_per_second,
            Self::Fcm(config) => config.rate_per_second,
            Self::Messenger(config) => config.rate_per_second,
            Self::Telegram(config) => config.rate_per_second,
            Self::WebPush(config) => config.rate_per_second,
        }
    }

    /// Topic of every message; `None` unless the provider is APNs.
    #[must_use]
    pub(crate) fn apns_topic(&self) -> Option<&str> {
        match self {
            Self::Apns(config) => Some(&config.topic),
            Self::Fcm(_) | Self::Messenger(_) | Self::Telegram(_) | Self::WebPush(_) => None,
        }
    }

    /// Whether enriched notifications are sent to FCM as data only.
    #[must_use]
    pub(crate) fn enriched_as_data(&self) -> bool {
        match self {
            Self::Apns(_) | Self::Messenger(_) | Self::Telegram(_) | Self::WebPush(_) => false,
            Self::Fcm(config) => config.enriched_as_data,
        }
    }
}

/// Decrypts the stored body of a `PUT`, as [`ProviderConfig::fill_defaults`] completed it.
///
/// # Errors
/// When it cannot be decrypted or is not JSON.
pub(crate) fn decrypt_stored(
    key: &MasterKey,
    app: AppId,
    row: &ProviderRow,
) -> Result<Value, UnreadableConfig> {
    let plain = key.open(app, row.provider, &row.sealed)?;
    Ok(serde_json::from_slice(&plain)?)
}

/// The digest of a secret. It identifies the secret without containing it.
pub(crate) type KeyDigest = [u8; 32];

fn digest(secret: &[u8]) -> KeyDigest {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, secret);
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// An object without its `null` members.
fn without_nulls(mut object: Value) -> Value {
    if let Some(members) = object.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    object
}

// The reader of a configuration. It reads an object field by field, and collects all violations with
// their paths.

/// Longest text of a configuration, in bytes. A bundle of certificates fits.
const TEXT_BYTES_MAX: usize = 65_536;
/// Highest `rate_per_second`.
const RATE_PER_SECOND_MAX: u64 = 1_000_000;
/// Longest word of a configuration, in characters.
const WORD_CHARS_MAX: usize = 255;
/// Longest secret of a configuration, in characters.
const SECRET_CHARS_MAX: usize = 4_096;

/// A configuration that is being read.
struct Fields<'a> {
    /// The members of the object; `None` if the body is not an object.
    members: Option<&'a Map<String, Value>>,
    /// The beginning of each path in a violation.
    prefix: &'static str,
    /// The names that were read so far. All other names are unknown fields.
    read_names: Vec<&'static str>,
    violations: Vec<String>,
}

impl<'a> Fields<'a> {
    /// The body of a request.
    fn of_body(body: &'a Value) -> Self {
        let members = body.as_object();
        let violations = match members {
            Some(_) => Vec::new(),
            None => vec!["body: expected an object".to_owned()],
        };
        Self { members, prefix: "", read_names: Vec::new(), violations }
    }

    /// An object inside the body; its paths begin with `prefix`.
    fn of_object(object: &'a Map<String, Value>, prefix: &'static str) -> Self {
        Self { members: Some(object), prefix, read_names: Vec::new(), violations: Vec::new() }
    }

    /// Reads the value of a field; `None` if it is not set. `null` and a blank text mean that a field is not set.
    fn value(&mut self, name: &'static str) -> Option<&'a Value> {
        self.read_names.push(name);
        let value = self.members?.get(name)?;
        let is_unset =
            value.is_null() || value.as_str().is_some_and(|text| trimmed(text).is_empty());
        (!is_unset).then_some(value)
    }

    /// Adds a violation.
    fn add_violation(&mut self, name: &str, rule: impl std::fmt::Display) {
        self.violations.push(format!("{}{name}: {rule}", self.prefix));
    }

    /// Adds the violation of a key or certificate that is not what it must be.
    fn add_unlike(&mut self, name: &str, rule: &str, looks: Looks) {
        self.add_violation(name, format_args!("{rule}; this looks like {looks}"));
    }

    /// A text, without what surrounded it where it was copied. Adds a violation and returns `None` if it is
    /// invalid.
    fn text(&mut self, name: &'static str) -> Option<&'a str> {
        let value = self.value(name)?;
        match value.as_str() {
            None => self.add_violation(name, "expected a string"),
            Some(text) if text.len() > TEXT_BYTES_MAX => {
                self.add_violation(name, format_args!("must be at most {TEXT_BYTES_MAX} bytes"));
            }
            Some(text) if text.contains('\0') => {
                self.add_violation(name, "must not contain U+0000")
            }
            Some(text) => return Some(trimmed(text)),
        }
        None
    }

    /// A required text. Adds a violation and returns `None` if it is missing or invalid.
    fn required_text(&mut self, name: &'static str) -> Option<&'a str> {
        self.required_value(name)?;
        self.text(name)
    }

    /// A required text of letters, digits and the characters in `extra`, which is safe in headers and paths.
    fn required_word(&mut self, name: &'static str, extra: &str) -> Option<&'a str> {
        let text = self.required_text(name)?;
        let allowed = |c: char| c.is_ascii_alphanumeric() || extra.contains(c);
        if text.len() <= WORD_CHARS_MAX && text.chars().all(allowed) {
            return Some(text);
        }
        self.add_violation(
            name,
            format_args!(
                "must be 1 to {WORD_CHARS_MAX} letters and digits of ASCII or any of `{extra}`"
            ),
        );
        None
    }

    /// A secret that is safe in a header: visible ASCII of limited length.
    fn secret(&mut self, name: &'static str) -> Option<SecretString> {
        let text = self.text(name)?;
        if text.len() <= SECRET_CHARS_MAX && text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Some(text.into());
        }
        let rule = format_args!("must be 1 to {SECRET_CHARS_MAX} visible characters of ASCII");
        self.add_violation(name, rule);
        None
    }

    /// A required secret. Adds a violation and returns `None` if it is missing or invalid.
    fn required_secret(&mut self, name: &'static str) -> Option<SecretString> {
        self.required_value(name)?;
        self.secret(name)
    }

    /// A boolean. Adds a violation and returns `None` if it is invalid.
    fn flag(&mut self, name: &'static str) -> Option<bool> {
        let value = self.value(name)?;
        let flag = value.as_bool();
        if flag.is_none() {
            self.add_violation(name, "expected a boolean");
        }
        flag
    }

    /// A required value. Adds a violation and returns `None` if it is missing.
    fn required_value(&mut self, name: &'static str) -> Option<&'a Value> {
        let value = self.value(name);
        // A body that is not an object is one violation already. Its fields are not reported as missing.
        if value.is_none() && self.members.is_some() {
            self.add_violation(name, "is required");
        }
        value
    }

    /// A base URL. Adds a violation and returns `None` if it is invalid.
    fn endpoint(&mut self, name: &'static str) -> Option<BaseUrl> {
        let text = self.text(name)?;
        BaseUrl::parse(text).map_err(|rule| self.add_violation(name, rule)).ok()
    }

    /// The field `ca_certificate`. Adds a violation and returns `None` if it is invalid.
    fn ca_certificate(&mut self) -> Option<ExtraRoots> {
        let text = self.text("ca_certificate")?;
        ExtraRoots::parse(text).map_err(|rule| self.add_violation("ca_certificate", rule)).ok()
    }

    /// The field `rate_per_second`. Adds a violation and returns `None` if it is invalid.
    fn rate_per_second(&mut self) -> Option<u32> {
        let value = self.value("rate_per_second")?;
        let rate = value.as_u64().filter(|rate| (1..=RATE_PER_SECOND_MAX).contains(rate));
        if rate.is_none() {
            let rule = format_args!("must be a whole number from 1 to {RATE_PER_SECOND_MAX}");
            self.add_violation("rate_per_second", rule);
        }
        rate.and_then(|rate| u32::try_from(rate).ok())
    }

    /// Adds the violations of an object inside this one.
    fn add_violations_of(&mut self, inner: Fields<'_>) {
        self.violations.extend(inner.violations);
    }

    /// Ends the reading. Each unknown field is a violation.
    ///
    /// # Errors
    /// All violations.
    fn finish(mut self) -> Result<(), ProviderConfigError> {
        for name in self.members.into_iter().flat_map(Map::keys) {
            if self.read_names.contains(&name.as_str()) {
                continue;
            }
            let rule = match nearest_name(name, self.read_names.iter().copied()) {
                Some(known_name) => format!("unknown field, did you mean `{known_name}`?"),
                None => "unknown field".to_owned(),
            };
            self.violations.push(format!("{}{name}: {rule}", self.prefix));
        }
        if self.violations.is_empty() {
            Ok(())
        } else {
            Err(ProviderConfigError::Invalid(self.violations))
        }
    }
}

// The JSON schema of a provider's configuration, as the readers of this folder accept it. The path of the
// request decides which form applies.

/// The configuration of any provider.
pub(crate) fn schema() -> Value {
    let endpoint = ["endpoint"];
    let forms = [
        form(
            "APNs",
            &["endpoint", "sandbox_endpoint"],
            &[
                ("team_id", word("_-")),
                ("key_id", word("_-")),
                ("private_key", required_text()),
                ("topic", word("._-")),
            ],
            &[],
        ),
        form(
            "FCM",
            &endpoint,
            &[("service_account", service_account())],
            &[("enriched_as_data", or_unset(&json!({ "type": "boolean" })))],
        ),
        form(
            "Messenger",
            &endpoint,
            &[("page_access_token", secret())],
            &[("app_secret", or_unset(&secret())), ("verify_token", or_unset(&secret()))],
        ),
        form("Telegram", &endpoint, &[("bot_token", word(":_-"))], &[("webhook_secret", text())]),
        form(
            "Web Push",
            &[],
            &[("subject", required_text())],
            &[("vapid_private_key", text()), ("vapid_public_key", text())],
        ),
    ];
    let required = forms.each_ref().map(|form| {
        let names = form["required"].as_array().into_iter().flatten();
        let names: Vec<String> =
            names.filter_map(Value::as_str).map(|name| format!("`{name}`")).collect();
        format!("{}: {}", form["title"].as_str().unwrap_or_default(), names.join(", "))
    });
    let required = required.join("; ");
    json!({
        "description":
            format!("Configuration of the provider that the path names. Required: {required}."),
        "anyOf": forms,
    })
}

/// The schema of one provider's configuration: its own fields, and those that all providers have.
/// `endpoints` are the names of the fields that replace the provider's hosts.
fn form(
    title: &str,
    endpoints: &[&'static str],
    required: &[(&'static str, Value)],
    optional: &[(&'static str, Value)],
) -> Value {
    let mut properties: Map<String, Value> = required
        .iter()
        .chain(optional)
        .map(|(name, schema)| ((*name).to_owned(), schema.clone()))
        .collect();
    properties.extend(endpoints.iter().map(|name| ((*name).to_owned(), text())));
    properties.insert("ca_certificate".to_owned(), text());
    let rate = json!({
        "type": "integer",
        "format": "int64",
        "minimum": 1,
        "maximum": RATE_PER_SECOND_MAX,
    });
    properties.insert("rate_per_second".to_owned(), or_unset(&rate));
    json!({
        "title": title,
        "type": "object",
        "required": required.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        "properties": properties,
        "additionalProperties": false,
    })
}

/// The service account file of Google. Its other members are allowed and ignored.
fn service_account() -> Value {
    let file = json!({
        "type": "object",
        "required": ["project_id", "private_key", "client_email", "token_uri"],
        "properties": {
            "type": or_unset(&json!({
                "type": "string",
                "pattern": pasted("service_account"),
            })),
            "project_id": word(".:_-"),
            "private_key_id": text(),
            "private_key": required_text(),
            "client_email": required_text(),
            "token_uri": required_text(),
        },
        "additionalProperties": true,
    });
    json!({ "anyOf": [file, required_text()] })
}

/// A schema that also accepts `null` and a blank text, which mean that a field is not set.
fn or_unset(schema: &Value) -> Value {
    let blank = json!({ "type": ["string", "null"], "pattern": format!("^[{}]*$", edges()) });
    json!({ "anyOf": [schema, blank] })
}

/// The characters around a pasted text, for a class of a pattern.
fn edges() -> String {
    EDGES.iter().map(|edge| format!("\\u{:04x}", u32::from(*edge))).collect()
}

/// The pattern of a text with what may surround it. `inside` is a pattern itself.
fn pasted(inside: &str) -> String {
    let edge = format!("[{}]*", edges());
    let quoted = QUOTES.iter().map(|quote| format!("|{quote}{edge}{inside}{edge}{quote}"));
    format!("^{edge}({inside}{}){edge}$", quoted.collect::<String>())
}

/// A text that need not be set. The server limits bytes and `maxLength` counts characters. A character has
/// at least one byte, so this limit is never too strict.
fn text() -> Value {
    json!({ "type": ["string", "null"], "maxLength": TEXT_BYTES_MAX })
}

fn required_text() -> Value {
    json!({
        "type": "string",
        "minLength": 1,
        "maxLength": TEXT_BYTES_MAX,
        "pattern": format!("[^{}]", edges()),
    })
}

fn secret() -> Value {
    json!({
        "type": "string",
        "minLength": 1,
        "maxLength": TEXT_BYTES_MAX,
        "pattern": pasted(&format!("[!-~]{{1,{SECRET_CHARS_MAX}}}")),
    })
}

/// Letters, digits and these characters.
fn word(extra: &str) -> Value {
    json!({
        "type": "string",
        "minLength": 1,
        "maxLength": TEXT_BYTES_MAX,
        "pattern": pasted(&format!("[A-Za-z0-9{extra}]{{1,{WORD_CHARS_MAX}}}")),
    })
}
