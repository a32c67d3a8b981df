//! API keys: what a key may do, and its requests and responses.

use serde::{Deserialize, Serialize};

use super::NAME_CHARS_MAX;
use crate::attribute::ATTRIBUTE_NAME_RULE;
use crate::json::BodyPresence;
use crate::request::{model, request};
use crate::time::DAY_MS;
use crate::violations::{Validator, path};
use crate::wire_enum::wire_enum;
use crate::{
    ATTRIBUTES_MAX, KeyId, TAG_NAME_CHARS_MAX, Timestamp, WEB_TAGS_MAX, is_attribute_name,
};

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
    /// Where an API key is used.
    pub enum ApiKeyKind {
        /// In a backend, under `/v1`. The key begins with `nk_`.
        Secret = "secret",
        /// In an app, under `/device/v1`. The key begins with `np_`, and everyone who has the app can
        /// read it.
        Publishable = "publishable",
    }
}

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
        /// `secret` (default) for backends, or `publishable` for apps.
        #[cfg_attr(feature = "openapi", schema(value_type = Option<ApiKeyKind>))]
        pub kind: Option<String>,
        /// For a publishable key: names of the tags that an app may set on its device; none when absent.
        pub allowed_tags: Option<Vec<String>> = |object| object.list("allowed_tags", WEB_TAGS_MAX),
        /// For a publishable key: names of the attributes that an app may set on its device; none when
        /// absent.
        pub allowed_attributes: Option<Vec<String>> =
            |object| object.list("allowed_attributes", ATTRIBUTES_MAX),
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
    /// What it gives access to.
    pub grant: KeyGrant,
    /// From this instant on, the key is unknown. `None` for a key that does not expire.
    pub expires_at: Option<Timestamp>,
}

/// What an API key gives access to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyGrant {
    /// A secret key: these parts of `/v1`.
    Api(KeyScopes),
    /// A publishable key: `/device/v1`, within these limits.
    Devices(DeviceLimits),
}

impl Default for KeyGrant {
    fn default() -> Self {
        Self::Api(KeyScopes::All)
    }
}

impl KeyGrant {
    /// Where the key is used.
    #[must_use]
    pub fn kind(&self) -> ApiKeyKind {
        match self {
            Self::Api(_) => ApiKeyKind::Secret,
            Self::Devices(_) => ApiKeyKind::Publishable,
        }
    }
}

/// What an app with a publishable key may set on its device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceLimits {
    /// Names of tags.
    pub allowed_tags: Vec<String>,
    /// Names of attributes.
    pub allowed_attributes: Vec<String>,
}

impl KeyTerms {
    /// Whether the key has a scope. A publishable key has none.
    #[must_use]
    pub fn has_scope(&self, scope: KeyScope) -> bool {
        match &self.grant {
            KeyGrant::Api(scopes) => scopes.contains(scope),
            KeyGrant::Devices(_) => false,
        }
    }

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

    /// A publishable key, with which apps register their devices. They may set these tags and attributes.
    ///
    /// ```
    /// use notify_core::{CreateKey, Request, Timestamp};
    ///
    /// assert!(CreateKey::publishable(["news"], ["plan"]).validate(Timestamp(0)).is_ok());
    /// ```
    #[must_use]
    pub fn publishable<T: Into<String>, A: Into<String>>(
        allowed_tags: impl IntoIterator<Item = T>,
        allowed_attributes: impl IntoIterator<Item = A>,
    ) -> Self {
        Self {
            kind: Some(ApiKeyKind::Publishable.to_string()),
            allowed_tags: Some(allowed_tags.into_iter().map(Into::into).collect()),
            allowed_attributes: Some(allowed_attributes.into_iter().map(Into::into).collect()),
            ..Self::default()
        }
    }

    fn check(self, now: Timestamp, validator: &mut Validator) -> Option<NewApiKey> {
        let name = validator.text_up_to(&path("name"), self.name, NAME_CHARS_MAX);
        let kind = validator.optional_one_of(&path("kind"), self.kind.as_deref());
        let is_kind_known = kind.is_some() || self.kind.as_deref().unwrap_or_default().is_empty();
        let expires_at = check_expiry(self.expires_at, now, validator);
        let (has_scopes, has_tags, has_attributes) =
            (self.scopes.is_some(), self.allowed_tags.is_some(), self.allowed_attributes.is_some());
        let scopes = check_scopes(self.scopes, validator);
        let limits = check_limits(self.allowed_tags, self.allowed_attributes, validator);
        let grant = match kind.unwrap_or(ApiKeyKind::Secret) {
            ApiKeyKind::Secret => {
                if is_kind_known {
                    for (field, is_given) in
                        [("allowed_tags", has_tags), ("allowed_attributes", has_attributes)]
                    {
                        if is_given {
                            let what = "must be absent unless kind is publishable";
                            validator.violation(&path(field), what);
                        }
                    }
                }
                KeyGrant::Api(scopes)
            }
            ApiKeyKind::Publishable => {
                if has_scopes {
                    validator.violation(&path("scopes"), "must be absent for a publishable key");
                }
                KeyGrant::Devices(limits)
            }
        };
        Some(NewApiKey { name, terms: KeyTerms { grant, expires_at } })
    }
}

fn check_limits(
    tags: Option<Vec<String>>,
    attributes: Option<Vec<String>>,
    validator: &mut Validator,
) -> DeviceLimits {
    let at = path("allowed_tags");
    let allowed_tags = tags.unwrap_or_default();
    validator.max_len(&at, allowed_tags.len(), WEB_TAGS_MAX, "tags");
    for (index, name) in allowed_tags.iter().enumerate() {
        validator.required_up_to(&at.index(index), name.clone(), TAG_NAME_CHARS_MAX);
    }
    let at = path("allowed_attributes");
    let allowed_attributes = attributes.unwrap_or_default();
    validator.max_len(&at, allowed_attributes.len(), ATTRIBUTES_MAX, "attributes");
    for (index, name) in allowed_attributes.iter().enumerate() {
        if !is_attribute_name(name) {
            validator.violation(&at.index(index), ATTRIBUTE_NAME_RULE);
        }
    }
    DeviceLimits { allowed_tags, allowed_attributes }
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
    /// Where the key is used. `secret` in answers of older servers.
    #[serde(default = "secret_kind")]
    pub kind: ApiKeyKind,
    /// What a secret key may do; empty for a publishable key. All scopes in answers of older servers.
    #[serde(default = "all_scopes")]
    pub scopes: Vec<KeyScope>,
    /// Names of the tags that an app with this publishable key may set; empty for a secret key.
    #[serde(default)]
    pub allowed_tags: Vec<String>,
    /// Names of the attributes that an app with this publishable key may set; empty for a secret key.
    #[serde(default)]
    pub allowed_attributes: Vec<String>,
    /// From when on the key is unknown, unix ms; null if it does not expire.
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
    /// Time of creation, unix ms.
    pub created_at: Timestamp,
    /// Time of the last use, unix ms; accurate to the minute.
    pub last_used_at: Option<Timestamp>,
}

fn secret_kind() -> ApiKeyKind {
    ApiKeyKind::Secret
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
