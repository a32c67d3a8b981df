//! The errors of a form, at its fields.

use crate::api::error::ApiError;

/// The violated rules of a form, as the API reports them: `path: what`.
#[derive(Debug, Default)]
pub(super) struct Problems(Vec<String>);

impl Problems {
    /// These rules, each as `path: what`.
    pub(super) fn new(rules: Vec<String>) -> Self {
        Self(rules)
    }

    /// The violated rules of an error.
    ///
    /// # Errors
    /// Any error that is not an invalid request: the form cannot be corrected.
    pub(super) fn of(error: ApiError) -> Result<Self, ApiError> {
        match error {
            ApiError::Invalid(errors) => Ok(Self(errors)),
            other => Err(other),
        }
    }

    /// Whether no rule is violated.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of violated rules.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// All violated rules.
    pub(super) fn all(&self) -> &[String] {
        &self.0
    }

    /// The violated rules of a field.
    pub(super) fn of_field(&self, field: &str) -> Vec<&str> {
        let rules = self.0.iter().filter_map(|rule| rule.split_once(": "));
        rules.filter(|(path, _)| is_below(path, field)).map(|(_, what)| what).collect()
    }
}

/// Whether a path names the field or a part of it, such as `tags[0]` of `tags`.
fn is_below(path: &str, field: &str) -> bool {
    let rest = path.strip_prefix(field);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_belongs_to_its_field() {
        let rules = ["name: is required", "names: is unknown", "tags[0].name: is too long"];
        let problems = Problems(rules.map(str::to_owned).to_vec());
        assert_eq!(problems.of_field("name"), ["is required"]);
        assert_eq!(problems.of_field("tags"), ["is too long"]);
        assert_eq!(problems.of_field("text"), [""; 0]);
    }
}
