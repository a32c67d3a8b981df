//! API keys: what a key may do, and its requests and responses.

use serde::{Deserialize, Serialize};

#[cfg(feature = "openapi")]
use serde_json::json;

use super::NAME_CHARS_MAX;
use crate::attribute::AttributeName;
use crate::field::{Instant, Integer, Kind, List, Model, ModelFields, NameOf, Text};
use crate::json::{BodyPresence, Value};
use crate::request::{model, request};
#[cfg(feature = "openapi")]
use crate::schema::{Schemas, Together};
use crate::tag::TagName;
use crate::time::DAY_MS;
use crate::violations::{Path, Validator};
use crate::wire_enum::wire_enum;
use crate::{ATTRIBUTES_MAX, KeyId, Timestamp, WEB_TAGS_MAX};

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
    pub struct CreateKey with CreateKeyFields {
        /// What the key is for.
        pub name: Option<String> as Text<NAME_CHARS_MAX>,
        /// What the key may do, at least one scope. When absent, everything, including what later versions add.
        pub scopes: Option<Vec<String>> as List<NameOf<KeyScope>, 1, KEY_SCOPES_MAX>,
        /// `secret` (default) for backends, or `publishable` for apps.
        pub kind: Option<String> as NameOf<ApiKeyKind>,
        /// For a publishable key: names of the tags that an app may set on its device; none when absent.
        pub allowed_tags: Option<Vec<String>> as List<TagName, 0, WEB_TAGS_MAX>,
        /// For a publishable key: names of the attributes that an app may set on its device; none when
        /// absent.
        pub allowed_attributes: Option<Vec<String>> as List<AttributeName, 0, ATTRIBUTES_MAX>,
        /// When the key expires, unix ms; in the future, at most ten years ahead. Never when absent.
        pub expires_at: Option<Timestamp> as Expiry,
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
}

impl Model for CreateKey {
    type Valid = NewApiKey;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<NewApiKey> {
        let fields = self.check_fields(at, validator);
        let given = [
            ("scopes", self.scopes.is_some(), ApiKeyKind::Secret),
            ("allowed_tags", self.allowed_tags.is_some(), ApiKeyKind::Publishable),
            ("allowed_attributes", self.allowed_attributes.is_some(), ApiKeyKind::Publishable),
        ];
        let kind = self.kind.as_deref().filter(|kind| !kind.is_empty());
        if let Ok(kind) = kind.map_or(Ok(ApiKeyKind::Secret), str::parse) {
            for (field, _, of) in given.iter().filter(|(_, is_given, of)| *is_given && *of != kind)
            {
                let what = format_args!("must be absent unless kind is {of}");
                validator.violation(&at.field(field), what);
            }
        }
        let fields = fields?;
        let grant = match fields.kind.unwrap_or(ApiKeyKind::Secret) {
            ApiKeyKind::Secret => KeyGrant::Api(match fields.scopes {
                None => KeyScopes::All,
                Some(mut scopes) => {
                    scopes.sort_unstable();
                    scopes.dedup();
                    KeyScopes::Only(scopes)
                }
            }),
            ApiKeyKind::Publishable => KeyGrant::Devices(DeviceLimits {
                allowed_tags: fields.allowed_tags.unwrap_or_default(),
                allowed_attributes: fields.allowed_attributes.unwrap_or_default(),
            }),
        };
        let terms = KeyTerms { grant, expires_at: fields.expires_at };
        Some(NewApiKey { name: fields.name, terms })
    }

    #[cfg(feature = "openapi")]
    fn together() -> Together {
        Together {
            about: "Only a secret key can have `scopes`. Only a publishable key can have `allowed_tags` \
                and `allowed_attributes`.",
            keywords: json!({ "anyOf": [
                {
                    "properties": {
                        "kind": { "enum": [null, "", "secret"] },
                        "allowed_tags": { "type": "null" },
                        "allowed_attributes": { "type": "null" },
                    },
                },
                {
                    "required": ["kind"],
                    "properties": {
                        "kind": { "const": "publishable" },
                        "scopes": { "type": "null" },
                    },
                },
            ] }),
        }
    }
}

/// An instant in the future, within [`KEY_LIFETIME_MS_MAX`].
pub(crate) struct Expiry;

impl Kind for Expiry {
    type Raw = Timestamp;
    type Valid = Timestamp;

    fn read(value: Value<'_, '_>) -> Option<Timestamp> {
        Instant::read(value)
    }

    fn check(raw: &Timestamp, at: &Path<'_>, validator: &mut Validator) -> Option<Timestamp> {
        let expires_at = Instant::check(raw, at, validator)?;
        let now = validator.now();
        if expires_at <= now {
            validator.violation(at, "must be in the future");
        }
        if expires_at.ms_since(now) > KEY_LIFETIME_MS_MAX {
            validator.violation(at, "must be at most ten years ahead");
        }
        Some(expires_at)
    }

    #[cfg(feature = "openapi")]
    fn schema(schemas: &mut Schemas) -> serde_json::Value {
        Instant::schema(schemas)
    }
}

model! {
    /// Body of `POST /admin/v1/apps/:id/keys/:key_id/rotate`; may be empty.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct RotateKey with RotateKeyFields {
        /// How long the rotated key stays valid, in seconds; 86,400 when absent. An earlier expiry of the
        /// key stays.
        pub overlap_seconds: Option<u32> as Integer<0, KEY_OVERLAP_SECONDS_MAX>,
    }
}

/// The validated form of [`RotateKey`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyRotation {
    /// How long the rotated key stays valid, in milliseconds.
    pub overlap_ms: i64,
}

request!(RotateKey => KeyRotation, BodyPresence::Optional);

impl Model for RotateKey {
    type Valid = KeyRotation;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<KeyRotation> {
        let seconds = self.check_fields(at, validator)?.overlap_seconds;
        let seconds = seconds.unwrap_or(KEY_OVERLAP_SECONDS_DEFAULT);
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
