//! Reads the query of an endpoint: each parameter at most once, and no unknown ones. The form of a
//! parameter is declared once, for the reader and for the OpenAPI document.

use crate::rules::NUL_FORBIDDEN;
use crate::violations::{Validator, path};
use crate::{Query, Timestamp, Violations};

/// A query parameter of an endpoint.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// Name in the query.
    pub name: &'static str,
    /// Description in the OpenAPI document.
    pub about: &'static str,
    /// The values that it accepts.
    pub form: ParameterForm,
}

/// The values that a query parameter accepts. An empty value equals an absent one, except for ids.
#[derive(Debug, Clone, Copy)]
pub enum ParameterForm {
    /// Any text.
    Text,
    /// An id, which must not be empty.
    Id,
    /// An integer from `min` to `max`, both included, or the text `or`.
    Integer {
        /// Smallest value.
        min: u64,
        /// Largest value.
        max: u64,
        /// A text that is accepted too.
        or: Option<&'static str>,
    },
    /// One of these names.
    OneOf(&'static [&'static str]),
    /// Some of these names, separated by commas.
    ListOf {
        /// The names.
        names: &'static [&'static str],
        /// Most names in one list.
        max: usize,
    },
}

impl Parameter {
    /// Declares a parameter.
    #[must_use]
    pub const fn new(name: &'static str, form: ParameterForm, about: &'static str) -> Self {
        Self { name, about, form }
    }
}

/// The query of an endpoint that takes no parameters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NoQuery;

impl Query for NoQuery {
    type Valid = Self;
    const PARAMETERS: &'static [Parameter] = &[];

    fn parse(parameters: &[(String, String)], _now: Timestamp) -> Result<Self, Violations> {
        Parameters::new(parameters, Self::PARAMETERS).finish(Some(Self))
    }
}

/// Parameters that are taken by name. Parameters that are not declared are unknown.
pub(crate) struct Parameters<'q> {
    given: &'q [(String, String)],
    declared: &'static [Parameter],
    pub(crate) validator: Validator,
}

impl<'q> Parameters<'q> {
    pub(crate) fn new(given: &'q [(String, String)], declared: &'static [Parameter]) -> Self {
        Self { given, declared, validator: Validator::default() }
    }

    fn form(&self, name: &'static str) -> ParameterForm {
        let declared = self.declared.iter().find(|parameter| parameter.name == name);
        declared.expect("a query takes parameters that it declares").form
    }

    fn take(&mut self, name: &'static str) -> Option<&'q str> {
        let mut values = self.given.iter().filter(|(given, _)| given == name);
        let (_, value) = values.next()?;
        if values.next().is_some() {
            self.validator.violation(&path(name), "is given twice");
        }
        if value.contains('\0') {
            self.validator.violation(&path(name), NUL_FORBIDDEN);
            return None;
        }
        Some(value)
    }

    /// A text; an empty one equals an absent one.
    pub(crate) fn text(&mut self, name: &'static str) -> Option<&'q str> {
        self.take(name).filter(|value| !value.is_empty())
    }

    /// An id; must not be empty.
    pub(crate) fn id(&mut self, name: &'static str) -> Option<&'q str> {
        let value = self.take(name)?;
        if value.is_empty() {
            self.validator.violation(&path(name), "must not be empty");
        }
        Some(value)
    }

    /// An integer within its range; `None` also for the text that is accepted in its place.
    pub(crate) fn integer(&mut self, name: &'static str) -> Option<u64> {
        let ParameterForm::Integer { min, max, or } = self.form(name) else {
            unreachable!("{name} is declared as an integer")
        };
        let value = self.text(name).filter(|value| or != Some(*value))?;
        let is_integer = value.bytes().all(|byte| byte.is_ascii_digit());
        let number = is_integer.then(|| value.parse().unwrap_or(u64::MAX));
        let number = number.filter(|number| (min..=max).contains(number));
        if number.is_none() {
            let what = format_args!("must be a whole number from {min} to {max}");
            self.validator.violation(&path(name), what);
        }
        number
    }

    /// Reports the parameters that are not declared, and ends the reading.
    pub(crate) fn finish<T>(mut self, valid: Option<T>) -> Result<T, Violations> {
        let known: Vec<&str> = self.declared.iter().map(|parameter| parameter.name).collect();
        for (name, _) in self.given {
            if !known.contains(&name.as_str()) {
                self.validator.unknown(&path(name), "parameter", name, &known);
            }
        }
        self.validator.into_result(valid)
    }
}

/// Default page size of a listing.
pub const LIMIT_DEFAULT: u32 = 50;
/// Largest page of a listing.
pub const LIMIT_MAX: u32 = 1_000;

pub(crate) const LIMIT: Parameter = Parameter::new(
    "limit",
    ParameterForm::Integer { min: 1, max: LIMIT_MAX as u64, or: None },
    "Page size; 50 when absent",
);
pub(crate) const CURSOR: Parameter =
    Parameter::new("cursor", ParameterForm::Text, "The `next_cursor` of the previous page");

/// Query of a listing that is paged with a cursor. Only the server can read a cursor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageQuery {
    /// Page size; 50 when absent.
    pub limit: Option<u32>,
    /// `next_cursor` of the previous page; the first page when absent.
    pub cursor: Option<String>,
}

impl PageQuery {
    pub(crate) fn take(parameters: &mut Parameters<'_>) -> Self {
        Self { limit: take_limit(parameters), cursor: parameters.text("cursor").map(str::to_owned) }
    }
}

impl Query for PageQuery {
    type Valid = Self;
    const PARAMETERS: &'static [Parameter] = &[LIMIT, CURSOR];

    fn parse(parameters: &[(String, String)], _now: Timestamp) -> Result<Self, Violations> {
        let mut parameters = Parameters::new(parameters, Self::PARAMETERS);
        let page = Self::take(&mut parameters);
        parameters.finish(Some(page))
    }
}

pub(crate) fn take_limit(parameters: &mut Parameters<'_>) -> Option<u32> {
    let limit = parameters.integer("limit");
    limit.and_then(|limit| u32::try_from(limit).ok())
}
