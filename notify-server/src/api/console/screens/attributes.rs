//! Attributes: the part of the pages of users and devices that shows and changes them.

use notify_core::{
    AttributeValue, Attributes, ParseNumberError, PatchAttributes, is_attribute_name,
};

use crate::api::console::form::Form;
use crate::api::console::problems::Problems;
use crate::api::console::visit::Visit;
use crate::api::error::ApiError;

/// The types of values, as the form names them.
const KINDS: [&str; 3] = ["text", "number", "boolean"];

/// What `attributes.html` shows.
pub(super) struct AttributesPart {
    /// The address of the page of the user or the device.
    pub(super) page: String,
    pub(super) rows: Vec<AttributeRow>,
    /// The input of the form.
    pub(super) input: AttributeRow,
    /// The problems of `name` and `value`.
    pub(super) problems: Problems,
}

/// An attribute as texts.
#[derive(Default)]
pub(super) struct AttributeRow {
    pub(super) name: String,
    /// One of [`KINDS`].
    pub(super) kind: String,
    pub(super) value: String,
}

/// A form that was refused.
pub(super) struct Refused {
    input: AttributeRow,
    problems: Problems,
}

impl AttributeRow {
    fn of(name: &str, value: &AttributeValue) -> Self {
        let (kind, value) = match value {
            AttributeValue::Text(text) => ("text", text.clone()),
            AttributeValue::Number(_) => {
                ("number", serde_json::to_string(value).unwrap_or_default())
            }
            AttributeValue::Bool(value) => ("boolean", value.to_string()),
        };
        Self { name: name.to_owned(), kind: kind.to_owned(), value }
    }

    fn of_form(form: &Form) -> Self {
        let kind = KINDS.into_iter().find(|kind| *kind == form.text("kind")).unwrap_or(KINDS[0]);
        Self {
            name: form.text("name").to_owned(),
            kind: kind.to_owned(),
            value: form.exact("value").to_owned(),
        }
    }

    /// The value that the form sets.
    fn parse(&self) -> Result<AttributeValue, String> {
        let text = self.value.trim();
        match self.kind.as_str() {
            "number" => number(text),
            "boolean" if text.eq_ignore_ascii_case("true") => Ok(true.into()),
            "boolean" if text.eq_ignore_ascii_case("false") => Ok(false.into()),
            "boolean" => Err("must be true or false".to_owned()),
            _ => Ok(self.value.as_str().into()),
        }
    }
}

/// A number as JSON writes it.
fn number(text: &str) -> Result<AttributeValue, String> {
    AttributeValue::parse_number(text).map_err(|error| match error {
        ParseNumberError::Malformed => error.to_string(),
        ParseNumberError::TooManyDigits => format!("{error}: choose the type text"),
    })
}

impl AttributesPart {
    /// The attributes of the user or the device that the page shows. A link can fill the form with one of
    /// them.
    pub(super) fn of(
        visit: &Visit,
        page: String,
        attributes: &Attributes,
    ) -> Result<Self, ApiError> {
        let chosen = visit.query("attribute")?;
        let input = attributes.get(&chosen);
        Ok(Self {
            page,
            rows: attributes.iter().map(|(name, value)| AttributeRow::of(name, value)).collect(),
            input: input.map(|value| AttributeRow::of(&chosen, value)).unwrap_or_default(),
            problems: Problems::default(),
        })
    }

    /// The same with a form that was refused.
    pub(super) fn with(self, refused: Refused) -> Self {
        let Refused { input, problems } = refused;
        Self { input, problems, ..self }
    }

    /// The types to choose from.
    #[expect(clippy::unused_self, reason = "the template calls it")]
    pub(super) fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }
}

/// The change that a form makes.
pub(super) fn change_of(form: &Form) -> Result<PatchAttributes, Refused> {
    if form.text("do") == "remove" {
        return Ok(PatchAttributes::default().remove(form.exact("name")));
    }
    let input = AttributeRow::of_form(form);
    match input.parse() {
        Ok(value) => Ok(PatchAttributes::default().set(input.name, value)),
        Err(rule) => {
            Err(Refused { problems: Problems::new(vec![format!("value: {rule}")]), input })
        }
    }
}

/// The form with the reason why the API refused its change.
///
/// # Errors
/// Any error that is not an invalid request.
pub(super) fn refused(form: &Form, error: ApiError) -> Result<Refused, ApiError> {
    let input = AttributeRow::of_form(form);
    let field = if is_attribute_name(&input.name) { "value" } else { "name" };
    let problems = Problems::of(error)?;
    let rules = problems.all().iter().map(|rule| {
        // The path of a rule ends with the name, which can be any text.
        let what = rule.rsplit_once(": ").map_or(rule.as_str(), |(_, what)| what);
        format!("{field}: {what}")
    });
    Ok(Refused { problems: Problems::new(rules.collect()), input })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: &str, value: &str) -> AttributeRow {
        AttributeRow { name: "a".to_owned(), kind: kind.to_owned(), value: value.to_owned() }
    }

    #[test]
    fn a_value_is_of_the_chosen_type() {
        for (kind, text, value) in [
            ("text", "3", AttributeValue::from("3")),
            ("text", " a ", " a ".into()),
            ("number", " 3 ", 3.into()),
            ("number", "-2.5e3", (-2_500.0).into()),
            ("boolean", "True", true.into()),
            ("boolean", "false", false.into()),
        ] {
            assert_eq!(row(kind, text).parse(), Ok(value), "{kind} {text}");
        }
        for (kind, text) in [
            ("number", ""),
            ("number", "three"),
            ("number", "NaN"),
            ("number", "1e999"),
            ("number", "12345678901234567890"),
            ("boolean", "yes"),
        ] {
            assert!(row(kind, text).parse().is_err(), "{kind} {text}");
        }
    }

    #[test]
    fn an_attribute_fills_the_form_with_which_it_can_be_set() {
        for value in [3.into(), 2.5.into(), true.into(), "x".into(), AttributeValue::from("3")] {
            assert_eq!(AttributeRow::of("a", &value).parse(), Ok(value));
        }
    }
}
