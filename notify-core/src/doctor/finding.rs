//! The result of a check.

use std::fmt::Display;

use serde::Serialize;

/// The status of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// A problem that prevents delivery.
    Failed,
    /// A temporary or minor problem, which does not make `notify doctor` fail.
    Warning,
    /// No problem.
    Ok,
}

/// Why a fact is not known: the call that reads it failed. It contains the text of the error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable(pub String);

impl Unavailable {
    /// The failure of a call.
    pub fn new(error: impl Display) -> Self {
        Self(error.to_string())
    }
}

/// The result of one check. Its JSON is an entry of `checks` in the output of `notify doctor -o json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    check: &'static str,
    about: String,
    ok: bool,
    detail: String,
    hint: Option<String>,
    status: Status,
}

impl Finding {
    fn new(status: Status, check: &'static str, about: &str, detail: impl Into<String>) -> Self {
        Self {
            check,
            about: about.to_owned(),
            ok: status != Status::Failed,
            detail: detail.into(),
            hint: None,
            status,
        }
    }

    /// The check found no problem.
    pub fn passed(check: &'static str, about: &str, detail: impl Into<String>) -> Self {
        Self::new(Status::Ok, check, about, detail)
    }

    /// The check found a problem that prevents delivery.
    pub fn failed(check: &'static str, about: &str, detail: impl Into<String>) -> Self {
        Self::new(Status::Failed, check, about, detail)
    }

    /// The check found a temporary or minor problem.
    pub fn warning(check: &'static str, about: &str, detail: impl Into<String>) -> Self {
        Self::new(Status::Warning, check, about, detail)
    }

    /// The check was not possible, because a fact is not known.
    #[must_use]
    pub fn unavailable(check: &'static str, about: &str, unavailable: &Unavailable) -> Self {
        Self::failed(check, about, &unavailable.0).with_hint("read the server's log")
    }

    /// Adds the remedy.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The name of the check.
    #[must_use]
    pub fn check(&self) -> &'static str {
        self.check
    }

    /// The application and the provider that were checked; empty for a check of the server.
    #[must_use]
    pub fn about(&self) -> &str {
        &self.about
    }

    /// Whether the status is not `Failed`.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.ok
    }

    /// The status of the check.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status
    }

    /// The state that the check found.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The remedy.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_warning_is_not_a_failure() {
        let warning = Finding::warning("channel", "Shop fcm", "it asked to slow down");
        let expected = json!({"check": "channel", "about": "Shop fcm", "ok": true,
            "detail": "it asked to slow down", "hint": null, "status": "warning"});
        assert_eq!(serde_json::to_value(&warning).unwrap(), expected);
        for (finding, ok, status) in [
            (Finding::passed("a", "", ""), true, "ok"),
            (Finding::failed("a", "", ""), false, "failed"),
        ] {
            let json = serde_json::to_value(&finding).unwrap();
            assert_eq!((&json["ok"], &json["status"]), (&json!(ok), &json!(status)));
        }
    }
}
