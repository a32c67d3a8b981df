//! What the doctor found.

use serde::Serialize;

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    check: &'static str,
    /// Which application and provider; empty for the server.
    about: String,
    ok: bool,
    detail: String,
    mend: Option<String>,
}

impl Finding {
    /// It is well.
    pub(super) fn good(check: &'static str, about: &str, detail: impl Into<String>) -> Self {
        Self { check, about: about.to_owned(), ok: true, detail: detail.into(), mend: None }
    }

    /// It is not.
    pub(super) fn bad(check: &'static str, about: &str, detail: impl Into<String>) -> Self {
        Self { ok: false, ..Self::good(check, about, detail) }
    }

    /// It is not, and passes by itself: no reason to fail.
    pub(super) fn warning(check: &'static str, about: &str, detail: impl AsRef<str>) -> Self {
        Self::good(check, about, format!("warning: {}", detail.as_ref()))
    }

    #[cfg(test)]
    pub(super) fn is_ok(&self) -> bool {
        self.ok
    }

    #[cfg(test)]
    pub(super) fn detail(&self) -> &str {
        &self.detail
    }

    #[cfg(test)]
    pub(super) fn mended(&self) -> Option<&str> {
        self.mend.as_deref()
    }

    /// How to mend it.
    pub(super) fn mend(self, mend: impl Into<String>) -> Self {
        Self { mend: Some(mend.into()), ..self }
    }
}

/// Everything that was looked at.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    checks: Vec<Finding>,
}

impl Report {
    pub(super) fn add(&mut self, finding: Finding) {
        self.checks.push(finding);
    }

    /// Adds what was found, if something was.
    pub(super) fn extend(&mut self, findings: impl IntoIterator<Item = Finding>) {
        self.checks.extend(findings);
    }

    pub(super) fn failed(&self) -> usize {
        self.checks.iter().filter(|finding| !finding.ok).count()
    }
}
