//! The texts of a notification in several languages.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Content, Message};
use crate::field::{HttpUrl, InMessage, Kind, Model, ModelFields, Nested, Uri, Visible};
use crate::json::Value;
use crate::language::spelled;
use crate::request::model;
#[cfg(feature = "openapi")]
use crate::schema::Schemas;
use crate::violations::{Path, Validator};

/// Longest title, in characters.
pub const TITLE_CHARS_MAX: usize = 255;
/// Most languages in `translations`.
pub const TRANSLATIONS_MAX: usize = 50;
/// Longest language tag in `translations`, in characters (RFC 5646, section 4.4.1).
pub const LANGUAGE_TAG_CHARS_MAX: usize = 35;
/// Longest part of a language tag, in characters (RFC 5646, section 2.1).
const SUBTAG_CHARS_MAX: usize = 8;

model! {
    /// What a notification says in one language. A field that is absent is that of the notification.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct Translation with TranslationFields {
        /// Main text.
        pub text: Option<String> as Visible,
        /// Title.
        pub title: Option<String> as Visible<TITLE_CHARS_MAX>,
        /// What a click opens: any absolute url, including custom schemes.
        pub url: Option<String> as InMessage<Uri>,
        /// Url of the image shown in the notification.
        pub image_url: Option<String> as InMessage<HttpUrl>,
    }
}

impl Translation {
    /// A translation of the text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), ..Self::default() }
    }

    /// Sets the title.
    #[must_use]
    pub fn titled(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }
}

/// The translations of a notification, by language tag.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct NotificationTranslations(pub BTreeMap<String, Option<Translation>>);

impl Model for Translation {
    type Valid = TranslationFields;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<TranslationFields> {
        self.check_fields(at, validator)
    }
}

/// Translations of at least one language. No language is given twice.
pub(crate) struct TranslationsByLanguage;

impl Kind for TranslationsByLanguage {
    type Raw = NotificationTranslations;
    type Valid = Vec<Localized>;

    fn read(value: Value<'_, '_>) -> Option<NotificationTranslations> {
        let read = Nested::<Translation>::read;
        value.object(|object| NotificationTranslations(object.map(read)))
    }

    fn check(
        raw: &NotificationTranslations,
        at: &Path<'_>,
        validator: &mut Validator,
    ) -> Option<Vec<Localized>> {
        let given = || raw.0.iter().filter_map(|(tag, one)| Some((tag, one.as_ref()?)));
        if given().next().is_none() {
            validator.violation(at, "must hold at least 1 language");
        }
        validator.max_len(at, raw.0.len(), TRANSLATIONS_MAX, "languages");
        let mut valid: Vec<Localized> = Vec::with_capacity(raw.0.len());
        for (language, translation) in given() {
            let at = at.field(language);
            if !is_language_tag(language) {
                validator.violation(&at, "must be a language tag, such as `de` or `pt-BR`");
            }
            // Another tag of the same language is accepted, because many programs send both `iw` and `he`.
            let is_same = |other: &&Localized| spelled(&other.language) == spelled(language);
            if let Some(other) = valid.iter().find(is_same) {
                let what = format_args!("is the same language as `{}`", other.language);
                validator.violation(&at, what);
            }
            if let Some(fields) = translation.check(&at, validator) {
                let TranslationFields { text, title, url, image_url } = fields;
                let language = language.clone();
                valid.push(Localized { language, text, title, url, image_url });
            }
        }
        Some(valid)
    }

    #[cfg(feature = "openapi")]
    fn schema(schemas: &mut Schemas) -> serde_json::Value {
        let translation = schemas.add::<Translation>();
        let schema = serde_json::json!({
            "type": "object",
            "description": "1 to 50 translations, by language tag such as `pt-BR`.",
            "propertyNames": {
                "type": "string",
                "pattern": LANGUAGE_TAG,
                "maxLength": LANGUAGE_TAG_CHARS_MAX,
            },
            "maxProperties": TRANSLATIONS_MAX,
            "additionalProperties": { "oneOf": [{ "type": "null" }, translation] },
            // At least one language that is not null.
            "not": { "additionalProperties": { "type": "null" } },
        });
        schemas.add_schema("NotificationTranslations", schema)
    }
}

/// A language tag (RFC 5646, section 2.1), in which underscores can take the place of hyphens.
#[cfg(feature = "openapi")]
const LANGUAGE_TAG: &str = "^[A-Za-z][A-Za-z0-9]{0,7}(?:[-_][A-Za-z0-9]{1,8})*$";

/// The validated form of a [`Translation`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Localized {
    /// The language tag as the caller wrote it.
    pub language: String,
    /// Main text.
    pub text: Option<String>,
    /// Title.
    pub title: Option<String>,
    /// What a click opens.
    pub url: Option<String>,
    /// Url of the image.
    pub image_url: Option<String>,
}

/// Whether a text has the form of a language tag (RFC 5646, section 2.1). Underscores are accepted in place
/// of hyphens.
fn is_language_tag(text: &str) -> bool {
    let is_subtag = |part: &str| {
        (1..=SUBTAG_CHARS_MAX).contains(&part.len())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    text.len() <= LANGUAGE_TAG_CHARS_MAX
        && text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.split(['-', '_']).all(is_subtag)
}

impl Message {
    /// The message in the language of a translation.
    #[must_use]
    pub fn in_language(&self, translation: &Localized) -> Self {
        let Localized { language: _, text, title, url, image_url } = translation;
        let or_own = |own: &Option<String>, translated: &Option<String>| {
            translated.as_ref().or(own.as_ref()).cloned()
        };
        Self {
            text: text.clone().unwrap_or_else(|| self.text.clone()),
            title: or_own(&self.title, title),
            url: or_own(&self.url, url),
            image_url: or_own(&self.image_url, image_url),
            translations: Vec::new(),
            ..self.clone()
        }
    }
}

impl Content {
    /// The languages of the translations, as the caller wrote them. A poll has none.
    #[must_use]
    pub fn languages(&self) -> Vec<&str> {
        match self {
            Self::Message(message) => message
                .translations
                .iter()
                .map(|translation| translation.language.as_str())
                .collect(),
            Self::Poll(_) => Vec::new(),
        }
    }

    /// The content in each of its [languages](Self::languages).
    #[must_use]
    pub fn translated(&self) -> Vec<Self> {
        match self {
            Self::Message(message) => message
                .translations
                .iter()
                .map(|translation| Self::Message(Box::new(message.in_language(translation))))
                .collect(),
            Self::Poll(_) => Vec::new(),
        }
    }
}
