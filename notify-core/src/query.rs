//! Reads the query of an endpoint: each parameter at most once, none that is not known. What a
//! parameter may hold is declared once; the reader and the API's description both go by it.

use crate::rules::NUL_REFUSED;
use crate::violations::{Findings, path};
use crate::{Query, Timestamp, Violations};

/// A query parameter of an endpoint.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// What it means, for readers of the API's description.
    pub about: &'static str,
    /// What it may hold.
    pub form: ParameterForm,
}

/// What a query parameter may hold. Empty equals absent, but for ids.
#[derive(Debug, Clone, Copy)]
pub enum ParameterForm {
    /// Any text.
    Text,
    /// An id, which must not be empty.
    Id,
    /// A whole number within both bounds, or the other word where there is one.
    Whole {
        /// Smallest.
        min: u64,
        /// Largest.
        max: u64,
        /// A word that is allowed too.
        or: Option<&'static str>,
    },
    /// One of these words.
    Word(fn() -> Vec<&'static str>),
    /// Some of these words, with commas between.
    Words {
        /// The words.
        of: fn() -> Vec<&'static str>,
        /// Most words of one list.
        max: usize,
    },
}

impl Parameter {
    /// A parameter.
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

/// Parameters that are taken by name; what is not declared is unknown.
pub(crate) struct Parameters<'q> {
    given: &'q [(String, String)],
    declared: &'static [Parameter],
    pub(crate) findings: Findings,
}

impl<'q> Parameters<'q> {
    pub(crate) fn new(given: &'q [(String, String)], declared: &'static [Parameter]) -> Self {
        Self { given, declared, findings: Findings::default() }
    }

    fn form(&self, name: &'static str) -> ParameterForm {
        let declared = self.declared.iter().find(|parameter| parameter.name == name);
        declared.expect("a query takes parameters that it declares").form
    }

    fn take(&mut self, name: &'static str) -> Option<&'q str> {
        let mut values = self.given.iter().filter(|(given, _)| given == name);
        let (_, value) = values.next()?;
        if values.next().is_some() {
            self.findings.broken(&path(name), "is given twice");
        }
        if value.contains('\0') {
            self.findings.broken(&path(name), NUL_REFUSED);
            return None;
        }
        Some(value)
    }

    /// A text; empty equals absent.
    pub(crate) fn text(&mut self, name: &'static str) -> Option<&'q str> {
        self.take(name).filter(|value| !value.is_empty())
    }

    /// An id; must not be empty.
    pub(crate) fn id(&mut self, name: &'static str) -> Option<&'q str> {
        let value = self.take(name)?;
        if value.is_empty() {
            self.findings.broken(&path(name), "must not be empty");
        }
        Some(value)
    }

    /// A whole number within its bounds; absent where the other word stands.
    pub(crate) fn whole(&mut self, name: &'static str) -> Option<u64> {
        let ParameterForm::Whole { min, max, or } = self.form(name) else {
            unreachable!("{name} is declared as a whole number")
        };
        let value = self.text(name).filter(|value| or != Some(*value))?;
        let is_whole = value.bytes().all(|byte| byte.is_ascii_digit());
        let number = is_whole.then(|| value.parse().unwrap_or(u64::MAX));
        let number = number.filter(|number| (min..=max).contains(number));
        if number.is_none() {
            let what = format_args!("must be a whole number from {min} to {max}");
            self.findings.broken(&path(name), what);
        }
        number
    }

    /// Notes the parameters that are not declared.
    pub(crate) fn finish<T>(mut self, valid: Option<T>) -> Result<T, Violations> {
        let known: Vec<&str> = self.declared.iter().map(|parameter| parameter.name).collect();
        for (name, _) in self.given {
            if !known.contains(&name.as_str()) {
                self.findings.unknown(&path(name), "parameter", name, &known);
            }
        }
        self.findings.into_result(valid)
    }
}

// Paging of listings: page sizes, and cursors, which only the server can read.

/// Page size of a listing when none is asked for.
pub const LIMIT_DEFAULT: u32 = 50;
/// Largest page of a listing.
pub const LIMIT_MAX: u32 = 1_000;

pub(crate) const LIMIT: Parameter = Parameter::new(
    "limit",
    ParameterForm::Whole { min: 1, max: LIMIT_MAX as u64, or: None },
    "Page size; 50 when absent",
);
pub(crate) const CURSOR: Parameter =
    Parameter::new("cursor", ParameterForm::Text, "The `next_cursor` of the page before");

/// Query of a listing that pages with a cursor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageQuery {
    /// Page size; 50 when absent.
    pub limit: Option<u32>,
    /// Where the page before ended.
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
    let limit = parameters.whole("limit");
    limit.and_then(|limit| u32::try_from(limit).ok())
}
