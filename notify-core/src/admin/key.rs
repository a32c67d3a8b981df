//! API keys: what a key may do, and its requests and responses.

use serde::{Deserialize, Serialize};

use super::NAME_CHARS_MAX;
use crate::json::BodyPresence;
use crate::request::{model, request};
use crate::time::DAY_MS;
use crate::violations::{Validator, path};
use crate::wire_enum::wire_enum;
use crate::{KeyId, Timestamp};

/// Most API keys of an application. One answer lists all of them.
pub const API_KEYS_MAX: u64 = 1_000;
/// The latest expiry of a new key, in milliseconds from now: ten years, with their leap days.
pub const KEY_LIFETIME_MS_MAX: i64 = 3_653 * DAY_MS;
/// The longest time for which a rotated key stays valid, in seconds: 30 days.
pub const KEY_OVERLAP_SECONDS_MAX: u32 = 2_592_000;
/// The time for which a rotated key stays valid by default, in seconds: one day.
pub const KEY_OVERLAP_SECONDS_DEFAULT: u32 = 86_400;
/// How long before its expiry `notify doctor` names a key, in milliseconds: 14 days.
pub const KEY_EXPIRY_NOTICE_MS: i64 = 14 * DAY_MS;
/// Most scopes in one request; more than there are.
pub const KEY_SCOPES_MAX: usize = 32;

wire_enum! {
    /// A part of `/v1` that an API key may use.
    pub enum KeyScope {
        /// Every `GET`. Addresses of devices read as null without [`Self::Devices`].
        Read = "read",
        /// Create, report, preview and cancel notifications.
        Send = "send",
        /// Change devices, subscriptions, tags, attributes and users; report events and poll answers.
        Devices = "devices",
        /// Change campaigns, feeds and segments.
        Content = "content",
        /// Change webhooks.
        Webhooks = "webhooks",
    }
}

/// The scopes of an API key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum KeyScopes {
    /// All scopes, including those of later versions.
    #[default]
    All,
    /// These scopes, each once; at least one.
    Only(Vec<KeyScope>),
}

impl KeyScopes {
    /// Whether the key has a scope.
    ///
    /// ```
    /// use notify_core::{KeyScope, KeyScopes};
    ///
    /// assert!(KeyScopes::All.contains(KeyScope::Send));
    /// assert!(!KeyScopes::Only(vec![KeyScope::Read]).contains(KeyScope::Send));
    /// ```
    #[must_use]
    pub fn contains(&self, scope: KeyScope) -> bool {
        match self {
            Self::All => true,
            Self::Only(scopes) => scopes.contains(&scope),
        }
    }

    /// The scopes, in the order of [`KeyScope::ALL`].
    #[must_use]
    pub fn to_vec(&self) -> Vec<KeyScope> {
        KeyScope::ALL.into_iter().filter(|scope| self.contains(*scope)).collect()
    }
}

model! {
    /// Body of `POST /admin/v1/apps/:id/keys`; may be empty.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct CreateKey {
        /// What the key is for.
        pub name: Option<String>,
        /// What the key may do; everything when absent, including what later versions add.
        #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<KeyScope>>))]
        pub scopes: Option<Vec<String>> = |object| object.list("scopes", KEY_SCOPES_MAX),
        /// When the key expires, unix ms; in the future, at most ten years ahead. Never when absent.
        pub expires_at: Option<Timestamp>,
    }
}

/// The validated form of [`CreateKey`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewApiKey {
    /// What the key is for.
    pub name: Option<String>,
    /// What the key may do.
    pub terms: KeyTerms,
}

/// What an API key may do, and until when.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyTerms {
    /// The parts of `/v1` that it may use.
    pub scopes: KeyScopes,
    /// From this instant on, the key is unknown. `None` for a key that does not expire.
    pub expires_at: Option<Timestamp>,
}

impl KeyTerms {
    /// Whether the key has expired.
    #[must_use]
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|expires_at| expires_at <= now)
    }
}

request!(CreateKey => NewApiKey, BodyPresence::Optional);

impl CreateKey {
    /// Adds a scope. A key that is created without any has all scopes.
    ///
    /// ```
    /// use notify_core::{CreateKey, KeyScope, Request, Timestamp};
    ///
    /// let key = CreateKey::default().scope(KeyScope::Read).scope(KeyScope::Send);
    /// assert!(key.validate(Timestamp(0)).is_ok());
    /// ```
    #[must_use]
    pub fn scope(mut self, scope: KeyScope) -> Self {
        self.scopes.get_or_insert_default().push(scope.to_string());
        self
    }

    fn check(self, now: Timestamp, validator: &mut Validator) -> Option<NewApiKey> {
        let name = validator.text_up_to(&path("name"), self.name, NAME_CHARS_MAX);
        let scopes = check_scopes(self.scopes, validator);
        let expires_at = check_expiry(self.expires_at, now, validator);
        Some(NewApiKey { name, terms: KeyTerms { scopes, expires_at } })
    }
}

fn check_expiry(
    expires_at: Option<Timestamp>,
    now: Timestamp,
    validator: &mut Validator,
) -> Option<Timestamp> {
    let at = path("expires_at");
    let expires_at = validator.instant(&at, expires_at.map(Timestamp::as_ms))?;
    if expires_at <= now {
        validator.violation(&at, "must be in the future");
    }
    if expires_at.ms_since(now) > KEY_LIFETIME_MS_MAX {
        validator.violation(&at, "must be at most ten years ahead");
    }
    Some(expires_at)
}

/// Checks a list of scopes. An empty list is an error, because a caller whose list came out empty would
/// get a key for everything.
fn check_scopes(names: Option<Vec<String>>, validator: &mut Validator) -> KeyScopes {
    let Some(names) = names else { return KeyScopes::All };
    let at = path("scopes");
    if names.is_empty() {
        validator.violation(&at, "must hold at least 1 scope; leave it out for all");
    }
    validator.max_len(&at, names.len(), KEY_SCOPES_MAX, "scopes");
    let mut scopes = Vec::new();
    for (index, name) in names.iter().enumerate() {
        if let Some(scope) = validator.one_of(&at.index(index), name)
            && !scopes.contains(&scope)
        {
            scopes.push(scope);
        }
    }
    scopes.sort_unstable();
    KeyScopes::Only(scopes)
}

model! {
    /// Body of `POST /admin/v1/apps/:id/keys/:key_id/rotate`; may be empty.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct RotateKey {
        /// How long the rotated key stays valid, in seconds; 86,400 when absent. An earlier expiry of the
        /// key stays.
        pub overlap_seconds: Option<u32> =
            |object| object.u32("overlap_seconds", KEY_OVERLAP_SECONDS_MAX),
    }
}

/// The validated form of [`RotateKey`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyRotation {
    /// How long the rotated key stays valid, in milliseconds.
    pub overlap_ms: i64,
}

request!(RotateKey => KeyRotation, BodyPresence::Optional);

impl RotateKey {
    #[expect(clippy::unnecessary_wraps, reason = "the signature of every `check`")]
    fn check(self, _now: Timestamp, validator: &mut Validator) -> Option<KeyRotation> {
        let seconds = self.overlap_seconds.unwrap_or(KEY_OVERLAP_SECONDS_DEFAULT);
        if seconds > KEY_OVERLAP_SECONDS_MAX {
            let what = format_args!("must be at most {KEY_OVERLAP_SECONDS_MAX}");
            validator.violation(&path("overlap_seconds"), what);
        }
        Some(KeyRotation { overlap_ms: i64::from(seconds) * 1_000 })
    }
}

/// Answer of `POST /admin/v1/apps/:id/keys` and `POST /admin/v1/apps/:id/keys/:key_id/rotate`. The key is
/// shown only here.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KeyCreated {
    /// Id of the key.
    pub id: KeyId,
    /// The key.
    pub api_key: String,
}

impl std::fmt::Debug for KeyCreated {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyCreated").field("id", &self.id).finish_non_exhaustive()
    }
}

/// An API key without its secret, in a response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ApiKey {
    /// Id.
    pub id: KeyId,
    /// What the key is for.
    pub name: Option<String>,
    /// Prefix and last four characters of the key.
    pub hint: String,
    /// What the key may do. All scopes in answers of older servers.
    #[serde(default = "all_scopes")]
    pub scopes: Vec<KeyScope>,
    /// From when on the key is unknown, unix ms; null if it does not expire.
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
    /// Time of creation, unix ms.
    pub created_at: Timestamp,
    /// Time of the last use, unix ms; accurate to the minute.
    pub last_used_at: Option<Timestamp>,
}

fn all_scopes() -> Vec<KeyScope> {
    KeyScope::ALL.into()
}

/// Answer of `GET /admin/v1/apps/:id/keys`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct KeyList {
    /// Keys that are not revoked, oldest first. A key that expired stays for 30 days or longer.
    pub keys: Vec<ApiKey>,
}
