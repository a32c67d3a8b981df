//! The findings of all checks, and how they are printed.

use serde::Serialize;

use crate::output::{pluralize, wrap};

/// The indentation of the lines below a finding.
const INDENT: &str = "  ";

/// The status of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    /// A problem that prevents delivery.
    Failed,
    /// A temporary or minor problem, which does not make the command fail.
    Warning,
    /// No problem.
    Ok,
}

impl Status {
    fn mark(self) -> char {
        match self {
            Self::Failed => '✗',
            Self::Warning => '!',
            Self::Ok => '✓',
        }
    }
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    check: &'static str,
    /// The application and the provider that were checked; empty for a check of the server.
    about: String,
    /// Whether the status is not `Failed`.
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

    pub(super) fn passed(check: &'static str, about: &str, detail: impl Into<String>) -> Self {
        Self::new(Status::Ok, check, about, detail)
    }

    pub(super) fn failed(check: &'static str, about: &str, detail: impl Into<String>) -> Self {
        Self::new(Status::Failed, check, about, detail)
    }

    pub(super) fn warning(check: &'static str, about: &str, detail: impl Into<String>) -> Self {
        Self::new(Status::Warning, check, about, detail)
    }

    #[cfg(test)]
    pub(super) fn is_ok(&self) -> bool {
        self.ok
    }

    #[cfg(test)]
    pub(super) fn status(&self) -> Status {
        self.status
    }

    #[cfg(test)]
    pub(super) fn detail(&self) -> &str {
        &self.detail
    }

    #[cfg(test)]
    pub(super) fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Adds the remedy.
    pub(super) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The finding as text: its check, the detail, and the remedy. The remedy is omitted if `printed_hints`
    /// contains it, and is added to `printed_hints`. These are pairs of what was checked and its remedy.
    fn lines(&self, printed_hints: &mut Vec<(String, String)>, columns: usize) -> Vec<String> {
        let detail_columns = columns.saturating_sub(INDENT.len());
        let gap = if self.about.is_empty() { "" } else { "  " };
        let title = format!("{} {}{gap}{}", self.status.mark(), self.check, self.about);
        let detail_lines = wrap(&self.detail, detail_columns);
        // A passed check has one line, if its detail fits on that line.
        if self.status == Status::Ok
            && let [detail] = &*detail_lines
        {
            let line = format!("{title}{INDENT}{detail}");
            if line.chars().count() <= columns {
                return vec![line];
            }
        }
        let mut lines = vec![title];
        lines.extend(detail_lines.into_iter().map(|line| format!("{INDENT}{line}")));
        let Some(hint) = &self.hint else { return lines };
        // Two checks can fail with the same remedy, such as those of refused credentials. The remedy is
        // printed once.
        let is_printed = printed_hints.iter().any(|(about, printed)| {
            *about == self.about && (printed.contains(hint) || hint.contains(printed))
        });
        if !is_printed {
            let hint_lines = wrap(hint, detail_columns.saturating_sub(INDENT.len()));
            let prefixes = std::iter::once("→ ").chain(std::iter::repeat(INDENT));
            let hint_lines = prefixes.zip(hint_lines);
            lines.extend(hint_lines.map(|(prefix, line)| format!("{INDENT}{prefix}{line}")));
        }
        printed_hints.push((self.about.clone(), hint.clone()));
        lines
    }
}

/// The results of all checks.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    checks: Vec<Finding>,
}

impl Report {
    pub(super) fn add(&mut self, finding: Finding) {
        self.checks.push(finding);
    }

    /// Adds findings.
    pub(super) fn extend(&mut self, findings: impl IntoIterator<Item = Finding>) {
        self.checks.extend(findings);
    }

    /// The number of failed checks as a message; `None` if none failed.
    pub(super) fn failure(&self) -> Option<String> {
        let failed = self.count(Status::Failed);
        let checks = pluralize(self.checks.len(), "check");
        (failed > 0).then(|| format!("{failed} of {checks} failed"))
    }

    fn count(&self, status: Status) -> usize {
        self.checks.iter().filter(|finding| finding.status == status).count()
    }

    /// The findings as text, failures first. Unless `all` is set, passed checks are only counted.
    pub(super) fn lines(&self, all: bool, columns: usize) -> Vec<String> {
        let mut printed_hints = Vec::new();
        let mut lines = Vec::new();
        let mut shown: Vec<&Finding> = self.checks.iter().collect();
        shown.sort_by_key(|finding| finding.status);
        for finding in shown.iter().filter(|finding| all || finding.status != Status::Ok) {
            lines.extend(finding.lines(&mut printed_hints, columns));
        }
        let passed = self.count(Status::Ok);
        if !all && passed > 0 {
            lines.push(format!("{} {} passed", Status::Ok.mark(), pluralize(passed, "check")));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report() -> Report {
        let keys = "compare team_id, key_id, topic and the .p8 file with Apple's developer account";
        let mut report = Report::default();
        report.add(Finding::passed("server", "", "it is ready"));
        report.add(Finding::warning("public url", "", "links lead nowhere").with_hint("set it"));
        report.add(
            Finding::failed("channel", "Shop apns", "deliveries are held")
                .with_hint(format!("{keys}; then run `resume`")),
        );
        report.add(Finding::failed("credentials", "Shop apns", "they are refused").with_hint(keys));
        report.add(Finding::passed("disk", "", "there is room"));
        report
    }

    #[test]
    fn failures_come_first_and_passed_checks_are_counted() {
        assert_eq!(
            report().lines(false, 60).join("\n"),
            "\
✗ channel  Shop apns
  deliveries are held
  → compare team_id, key_id, topic and the .p8 file with
    Apple's developer account; then run `resume`
✗ credentials  Shop apns
  they are refused
! public url
  links lead nowhere
  → set it
✓ 2 checks passed"
        );
        let all = report().lines(true, 60);
        let last = ["✓ server  it is ready", "✓ disk  there is room"];
        assert_eq!(all[all.len() - last.len()..], last);
        assert_eq!(report().failure().unwrap(), "2 of 5 checks failed");
        assert_eq!(Report::default().failure(), None);
    }

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
