//! Reads the query of an endpoint: each parameter at most once, none that is not known (B1).

use crate::{Query, Timestamp, Violations, path::path, rules::NUL_REFUSED, violations::Findings};

/// The query of an endpoint that takes no parameters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NoQuery;

impl Query for NoQuery {
    type Valid = Self;

    fn parse(parameters: &[(String, String)], _now: Timestamp) -> Result<Self, Violations> {
        Parameters::new(parameters).finish(Some(Self))
    }
}

/// Parameters that are taken by name; what is left over is unknown.
pub(crate) struct Parameters<'q> {
    given: &'q [(String, String)],
    known: Vec<&'static str>,
    pub(crate) findings: Findings,
}

impl<'q> Parameters<'q> {
    pub(crate) fn new(given: &'q [(String, String)]) -> Self {
        Self { given, known: Vec::new(), findings: Findings::default() }
    }

    fn take(&mut self, name: &'static str) -> Option<&'q str> {
        self.known.push(name);
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

    /// A whole number within `min` and `max`.
    pub(crate) fn whole(&mut self, name: &'static str, min: u64, max: u64) -> Option<u64> {
        let value = self.text(name)?;
        let is_whole = value.bytes().all(|byte| byte.is_ascii_digit());
        let number = is_whole.then(|| value.parse().unwrap_or(u64::MAX));
        let number = number.filter(|number| (min..=max).contains(number));
        if number.is_none() {
            let what = format_args!("must be a whole number from {min} to {max}");
            self.findings.broken(&path(name), what);
        }
        number
    }

    /// Notes the parameters that nobody asked for.
    pub(crate) fn finish<T>(mut self, valid: Option<T>) -> Result<T, Violations> {
        for (name, _) in self.given {
            if !self.known.contains(&name.as_str()) {
                self.findings.unknown(&path(name), "parameter", name, &self.known);
            }
        }
        self.findings.into_result(valid)
    }
}
