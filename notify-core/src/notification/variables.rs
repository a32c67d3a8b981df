//! Variables in the texts of a notification: `{{name|default}}` becomes the attribute of the device.

use std::collections::BTreeSet;

use super::{Content, Message};
use crate::AttributeValue;
use crate::attribute::{is_attribute_name, number_text};
use crate::text::beginning;
use crate::violations::{Path, Validator, path};

/// Most variables in one text.
pub const VARIABLES_MAX: usize = 8;
/// Longest value that a text shows, in characters. A longer one is cut.
pub const VALUE_CHARS_MAX: usize = 64;

const OPEN: &str = "{{";
const CLOSE: &str = "}}";

/// Why a text is no template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum TemplateError {
    #[error("has `{{{{` without `}}}}`")]
    Unclosed,
    #[error(
        "has a variable without a default: write `{{{{name|default}}}}`, the default may be empty"
    )]
    NoDefault,
    #[error("has a variable whose name is not a valid name of an attribute")]
    NotAName,
    #[error("has a default with a brace")]
    BraceInDefault,
    #[error("must hold at most 8 variables")]
    TooMany,
}

/// A part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part<'t> {
    Literal(&'t str),
    Variable(Variable<'t>),
}

/// A variable in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable<'t> {
    /// Name of the attribute.
    pub name: &'t str,
    /// The text for devices without the attribute.
    pub default: &'t str,
}

/// Splits a text at its variables.
fn parts(text: &str) -> Result<Vec<Part<'_>>, TemplateError> {
    let (mut parts, mut rest, mut variables) = (Vec::new(), text, 0);
    while let Some((before, after)) = rest.split_once(OPEN) {
        let (inside, after) = after.split_once(CLOSE).ok_or(TemplateError::Unclosed)?;
        let (name, default) = inside.split_once('|').ok_or(TemplateError::NoDefault)?;
        if !is_attribute_name(name) {
            return Err(TemplateError::NotAName);
        }
        if default.contains(['{', '}']) {
            return Err(TemplateError::BraceInDefault);
        }
        variables += 1;
        if variables > VARIABLES_MAX {
            return Err(TemplateError::TooMany);
        }
        parts.extend([Part::Literal(before), Part::Variable(Variable { name, default })]);
        rest = after;
    }
    parts.push(Part::Literal(rest));
    Ok(parts)
}

/// The text with each variable replaced. What is inserted is not read again.
fn fill(text: &str, value: &mut impl FnMut(Variable<'_>) -> String) -> String {
    // Validation accepts only templates.
    let Ok(parts) = parts(text) else { return text.to_owned() };
    parts
        .into_iter()
        .map(|part| match part {
            Part::Literal(literal) => literal.to_owned(),
            Part::Variable(variable) => value(variable),
        })
        .collect()
}

/// Checks a text with variables.
fn check_text(at: &Path<'_>, text: Option<&str>, validator: &mut Validator) {
    if let Some(Err(error)) = text.map(parts) {
        validator.violation(at, error);
    }
}

/// Checks the texts and titles of a personalized message.
pub(super) fn check(message: &Message, validator: &mut Validator) {
    check_text(&path("text"), Some(&message.text), validator);
    let shows_nothing = |text: &str| {
        !text.is_empty() && fill(text, &mut |variable| variable.default.to_owned()).is_empty()
    };
    const EMPTY: &str = "must not be empty with its defaults";
    if shows_nothing(&message.text) {
        validator.violation(&path("text"), EMPTY);
    }
    check_text(&path("title"), message.title.as_deref(), validator);
    let android = path("android_settings");
    check_text(&android.field("title"), message.android_title.as_deref(), validator);
    let translations = path("translations");
    for translation in &message.translations {
        let at = translations.field(&translation.language);
        check_text(&at.field("text"), translation.text.as_deref(), validator);
        if translation.text.as_deref().is_some_and(shows_nothing) {
            validator.violation(&at.field("text"), EMPTY);
        }
        check_text(&at.field("title"), translation.title.as_deref(), validator);
    }
}

/// The text that stands for a value of an attribute: at most [`VALUE_CHARS_MAX`] characters that end between two
/// grapheme clusters, with spaces in place of control characters.
///
/// ```
/// use notify_core::{AttributeValue, shown_value};
///
/// assert_eq!(shown_value(&AttributeValue::from("Ada\nLovelace")), "Ada Lovelace");
/// assert_eq!(shown_value(&AttributeValue::from(3.0)), "3");
/// assert_eq!(shown_value(&AttributeValue::from(true)), "true");
/// ```
#[must_use]
pub fn shown_value(value: &AttributeValue) -> String {
    let plain = |character: char| if character.is_control() { ' ' } else { character };
    match value {
        AttributeValue::Bool(value) => value.to_string(),
        AttributeValue::Number(number) => number_text(*number),
        AttributeValue::Text(text) => beginning(text, VALUE_CHARS_MAX).chars().map(plain).collect(),
    }
}

impl Message {
    /// The texts and titles that can have variables.
    fn templates(&self) -> impl Iterator<Item = &str> {
        [Some(&self.text), self.title.as_ref(), self.android_title.as_ref()]
            .into_iter()
            .chain(self.translations.iter().flat_map(|one| [one.text.as_ref(), one.title.as_ref()]))
            .flatten()
            .map(String::as_str)
    }
}

/// The first variable of a text, with or without a default, as it stands there.
fn first_variable(text: &str) -> Option<&str> {
    let mut from = 0;
    text.match_indices(CLOSE).find_map(|(close, _)| {
        let before = &text[from..close];
        let open = before.rfind(OPEN).map(|open| from + open);
        from = close + CLOSE.len();
        let open = open?;
        let inside = &text[open + OPEN.len()..close];
        let name = inside.split_once('|').map_or(inside, |(name, _)| name);
        is_attribute_name(name.trim()).then(|| &text[open..from])
    })
}

impl Content {
    /// A variable that people will read as it stands, because the content is not personalized.
    ///
    /// ```
    /// use notify_core::{CreateNotification, Platform, Request, Timestamp};
    ///
    /// let sale = CreateNotification::to_platforms([Platform::Ios], "Hello {{first_name}}");
    /// let sale = sale.validate(Timestamp(0)).unwrap();
    /// assert_eq!(sale.content.literal_variable(), Some("{{first_name}}"));
    /// ```
    #[must_use]
    pub fn literal_variable(&self) -> Option<&str> {
        match self {
            Self::Message(message) if !message.is_personal => {
                message.templates().find_map(first_variable)
            }
            Self::Message(_) | Self::Poll(_) => None,
        }
    }

    /// Whether its texts and titles are templates with variables.
    #[must_use]
    pub fn is_personal(&self) -> bool {
        match self {
            Self::Message(message) => message.is_personal,
            Self::Poll(_) => false,
        }
    }

    /// The names of the attributes that its texts show, in order. Empty unless it is personalized.
    #[must_use]
    pub fn variables(&self) -> Vec<String> {
        let Self::Message(message) = self else { return Vec::new() };
        if !message.is_personal {
            return Vec::new();
        }
        let parts = message.templates().filter_map(|text| parts(text).ok()).flatten();
        let names = parts.filter_map(|part| match part {
            Part::Variable(variable) => Some(variable.name.to_owned()),
            Part::Literal(_) => None,
        });
        names.collect::<BTreeSet<String>>().into_iter().collect()
    }

    /// The content with each variable replaced, in the order in which they stand. A title that becomes empty
    /// is absent. The content is unchanged unless it is personalized.
    #[must_use]
    pub fn filled(&self, mut value: impl FnMut(Variable<'_>) -> String) -> Self {
        let Self::Message(message) = self else { return self.clone() };
        if !message.is_personal {
            return self.clone();
        }
        let mut filled = (**message).clone();
        filled.is_personal = false;
        let mut title = |title: Option<String>| {
            title.map(|title| fill(&title, &mut value)).filter(|title| !title.is_empty())
        };
        filled.title = title(filled.title);
        filled.android_title = title(filled.android_title);
        filled.text = fill(&filled.text, &mut value);
        for translation in &mut filled.translations {
            let mut one = |text: &mut Option<String>| {
                *text =
                    text.take().map(|text| fill(&text, &mut value)).filter(|text| !text.is_empty());
            };
            one(&mut translation.title);
            one(&mut translation.text);
        }
        Self::Message(Box::new(filled))
    }

    /// The content without its translations.
    #[must_use]
    pub fn untranslated(&self) -> Self {
        let mut content = self.clone();
        if let Self::Message(message) = &mut content {
            message.translations.clear();
        }
        content
    }

    /// The content for a device without attributes.
    #[must_use]
    pub fn with_defaults(&self) -> Self {
        self.filled(|variable| variable.default.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_of_a_text_is_found() {
        for (text, variable) in [
            ("Hello {{first_name}}", Some("{{first_name}}")),
            ("Hello {{ first_name }}!", Some("{{ first_name }}")),
            ("{{plan|free}} and {{seats|0}}", Some("{{plan|free}}")),
            ("{{ }} {{plan}}", Some("{{plan}}")),
            ("{{{plan}}}", Some("{{plan}}")),
            ("{{", None),
            ("{{plan", None),
            ("}} {{plan", None),
            ("a {plan} b", None),
            ("{{}}", None),
            ("{{First Name}}", None),
            ("", None),
        ] {
            assert_eq!(first_variable(text), variable, "{text}");
        }
    }
}
