//! Reads a configuration object field by field, collecting every broken rule with its path (B1, B2).

use secrecy::SecretString;
use serde_json::{Map, Value};

use super::{BaseUrl, ExtraRoots, ProviderConfigError};

/// Longest text of a configuration, in bytes: room for a bundle of certificates.
pub(super) const TEXT_BYTES_MAX: usize = 65_536;
/// Highest `rate_per_second`.
pub(super) const RATE_PER_SECOND_MAX: u64 = 1_000_000;
/// Longest word of a configuration, in characters.
pub(super) const WORD_CHARS_MAX: usize = 255;
/// Longest secret of a configuration, in characters.
pub(super) const SECRET_CHARS_MAX: usize = 4_096;
/// How many letters may differ between an unknown field and the one that was meant.
const TYPO_LETTERS_MAX: usize = 2;

/// A configuration under inspection.
pub(super) struct Fields<'a> {
    members: Option<&'a Map<String, Value>>,
    prefix: &'static str,
    known: Vec<&'static str>,
    broken: Vec<String>,
}

impl<'a> Fields<'a> {
    /// The body of a request.
    pub(super) fn of_body(body: &'a Value) -> Self {
        let broken = match body {
            Value::Object(_) => Vec::new(),
            _ => vec!["body: expected an object".to_owned()],
        };
        Self { members: body.as_object(), prefix: "", known: Vec::new(), broken }
    }

    /// An object inside the body; its paths begin with `prefix`.
    pub(super) fn of_object(object: &'a Map<String, Value>, prefix: &'static str) -> Self {
        Self { members: Some(object), prefix, known: Vec::new(), broken: Vec::new() }
    }

    /// A field that is set: `null` and `""` equal leaving it out (B1).
    fn set(&mut self, name: &'static str) -> Option<&'a Value> {
        self.known.push(name);
        let value = self.members?.get(name)?;
        let unset = value.is_null() || value.as_str() == Some("");
        (!unset).then_some(value)
    }

    /// Notes a broken rule.
    pub(super) fn broken(&mut self, name: &str, rule: impl std::fmt::Display) {
        self.broken.push(format!("{}{name}: {rule}", self.prefix));
    }

    pub(super) fn text(&mut self, name: &'static str) -> Option<&'a str> {
        let value = self.set(name)?;
        match value.as_str() {
            None => self.broken(name, "expected a string"),
            Some(text) if text.len() > TEXT_BYTES_MAX => {
                self.broken(name, format_args!("must be at most {TEXT_BYTES_MAX} bytes"));
            }
            Some(text) if text.contains('\0') => self.broken(name, "must not contain U+0000"),
            Some(text) => return Some(text),
        }
        None
    }

    /// A text that must be there. `None` after a broken rule was noted.
    pub(super) fn required_text(&mut self, name: &'static str) -> Option<&'a str> {
        if self.set(name).is_none() && self.members.is_some() {
            self.broken(name, "is required");
            return None;
        }
        self.text(name)
    }

    /// A required text of letters, digits and `extra` characters: what goes into headers and paths.
    pub(super) fn required_word(&mut self, name: &'static str, extra: &str) -> Option<&'a str> {
        let text = self.required_text(name)?;
        let allowed = |c: char| c.is_ascii_alphanumeric() || extra.contains(c);
        if text.len() <= WORD_CHARS_MAX && text.chars().all(allowed) {
            return Some(text);
        }
        self.broken(
            name,
            format_args!(
                "must be 1 to {WORD_CHARS_MAX} letters and digits of ASCII or any of `{extra}`"
            ),
        );
        None
    }

    /// A secret that goes into a header: visible ASCII of bounded length.
    pub(super) fn secret(&mut self, name: &'static str) -> Option<SecretString> {
        let text = self.text(name)?;
        if text.len() <= SECRET_CHARS_MAX && text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Some(text.into());
        }
        let rule = format_args!("must be 1 to {SECRET_CHARS_MAX} visible characters of ASCII");
        self.broken(name, rule);
        None
    }

    /// A secret that must be there. `None` after a broken rule was noted.
    pub(super) fn required_secret(&mut self, name: &'static str) -> Option<SecretString> {
        if self.set(name).is_none() && self.members.is_some() {
            self.broken(name, "is required");
            return None;
        }
        self.secret(name)
    }

    pub(super) fn flag(&mut self, name: &'static str) -> Option<bool> {
        let value = self.set(name)?;
        let flag = value.as_bool();
        if flag.is_none() {
            self.broken(name, "expected a boolean");
        }
        flag
    }

    pub(super) fn object(&mut self, name: &'static str) -> Option<&'a Map<String, Value>> {
        let Some(value) = self.set(name) else {
            if self.members.is_some() {
                self.broken(name, "is required");
            }
            return None;
        };
        let object = value.as_object();
        if object.is_none() {
            self.broken(name, "expected an object");
        }
        object
    }

    pub(super) fn endpoint(&mut self, name: &'static str) -> Option<BaseUrl> {
        let text = self.text(name)?;
        BaseUrl::parse(text).map_err(|rule| self.broken(name, rule)).ok()
    }

    pub(super) fn ca_certificate(&mut self) -> Option<ExtraRoots> {
        let text = self.text("ca_certificate")?;
        ExtraRoots::parse(text).map_err(|rule| self.broken("ca_certificate", rule)).ok()
    }

    pub(super) fn rate_per_second(&mut self) -> Option<u32> {
        let value = self.set("rate_per_second")?;
        let rate = value.as_u64().filter(|rate| (1..=RATE_PER_SECOND_MAX).contains(rate));
        if rate.is_none() {
            let rule = format_args!("must be a whole number from 1 to {RATE_PER_SECOND_MAX}");
            self.broken("rate_per_second", rule);
        }
        rate.and_then(|rate| u32::try_from(rate).ok())
    }

    /// Takes over the broken rules of an object inside this one.
    pub(super) fn absorb(&mut self, inner: Fields<'_>) {
        self.broken.extend(inner.broken);
    }

    /// Ends the reading: fields that nobody asked for are broken rules too.
    pub(super) fn finish(mut self) -> Result<(), ProviderConfigError> {
        for name in self.members.into_iter().flat_map(Map::keys) {
            if self.known.contains(&name.as_str()) {
                continue;
            }
            let near = self
                .known
                .iter()
                .map(|known| (strsim::damerau_levenshtein(name, known), *known))
                .min()
                .filter(|(letters, _)| *letters <= TYPO_LETTERS_MAX);
            let rule = match near {
                Some((_, known)) => format!("unknown field, did you mean `{known}`?"),
                None => "unknown field".to_owned(),
            };
            self.broken.push(format!("{}{name}: {rule}", self.prefix));
        }
        if self.broken.is_empty() { Ok(()) } else { Err(ProviderConfigError::Invalid(self.broken)) }
    }
}
