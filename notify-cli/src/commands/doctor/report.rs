//! What the doctor found.

use serde::Serialize;

use crate::output::{counted, wrapped};

/// What stands before what is said of a finding.
const INDENT: &str = "  ";

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    /// It is not well.
    Failed,
    /// It is not, and passes by itself or harms little: no reason to fail.
    Warning,
    /// It is well.
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

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    check: &'static str,
    /// Which application and provider; empty for the server.
    about: String,
    /// Whether it has not failed.
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

    /// It is well.
    pub(super) fn good(check: &'static str, about: &str, detail: impl Into<String>) -> Self {
        Self::new(Status::Ok, check, about, detail)
    }

    /// It is not.
    pub(super) fn bad(check: &'static str, about: &str, detail: impl Into<String>) -> Self {
        Self::new(Status::Failed, check, about, detail)
    }

    /// It is not, and passes by itself or harms little: no reason to fail.
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
    pub(super) fn hinted(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// What to do about it.
    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    fn lines(&self, said: &mut Vec<(String, String)>, columns: usize) -> Vec<String> {
        let room = columns.saturating_sub(INDENT.len());
        let about = if self.about.is_empty() { "" } else { "  " };
        let mut lines = vec![format!("{} {}{about}{}", self.status.mark(), self.check, self.about)];
        let detail = wrapped(&self.detail, room);
        if let (Status::Ok, [detail]) = (self.status, &*detail) {
            let line = format!("{}{INDENT}{detail}", lines[0]);
            if line.chars().count() <= columns {
                return vec![line];
            }
        }
        lines.extend(detail.into_iter().map(|line| format!("{INDENT}{line}")));
        let Some(hint) = &self.hint else { return lines };
        // Refused credentials are seen by the channel and by the check of them: one remedy.
        let is_said = said.iter().any(|(about, before)| {
            *about == self.about && (before.contains(hint) || hint.contains(before))
        });
        if !is_said {
            let hint = wrapped(hint, room.saturating_sub(INDENT.len()));
            let arrow = std::iter::once("→ ").chain(std::iter::repeat(INDENT));
            lines.extend(arrow.zip(hint).map(|(before, line)| format!("{INDENT}{before}{line}")));
        }
        said.push((self.about.clone(), hint.clone()));
        lines
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

    /// What failed, of how many checks; `None` when nothing did.
    pub(super) fn failure(&self) -> Option<String> {
        let failed = self.count(Status::Failed);
        let checks = counted(self.checks.len(), "check");
        (failed > 0).then(|| format!("{failed} of {checks} failed"))
    }

    fn count(&self, status: Status) -> usize {
        self.checks.iter().filter(|finding| finding.status == status).count()
    }

    /// For people: the worst first, and what is well as a number, unless they want all of it.
    pub(super) fn lines(&self, all: bool, columns: usize) -> Vec<String> {
        let mut said = Vec::new();
        let mut lines = Vec::new();
        let mut shown: Vec<&Finding> = self.checks.iter().collect();
        shown.sort_by_key(|finding| finding.status);
        for finding in shown.iter().filter(|finding| all || finding.status != Status::Ok) {
            lines.extend(finding.lines(&mut said, columns));
        }
        let well = self.count(Status::Ok);
        if !all && well > 0 {
            lines.push(format!("{} {} passed", Status::Ok.mark(), counted(well, "check")));
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
        report.add(Finding::good("server", "", "it is ready"));
        report.add(Finding::warning("public url", "", "links lead nowhere").hint("set it"));
        report.add(
            Finding::bad("channel", "Shop apns", "deliveries are held")
                .hint(format!("{keys}; then run `resume`")),
        );
        report.add(Finding::bad("credentials", "Shop apns", "they are refused").hint(keys));
        report.add(Finding::good("disk", "", "there is room"));
        report
    }

    #[test]
    fn the_worst_comes_first_and_what_is_well_is_a_number() {
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
    fn a_warning_is_no_failure_and_says_so() {
        let warning = Finding::warning("channel", "Shop fcm", "it asked to slow down");
        let expected = json!({"check": "channel", "about": "Shop fcm", "ok": true,
            "detail": "it asked to slow down", "hint": null, "status": "warning"});
        assert_eq!(serde_json::to_value(&warning).unwrap(), expected);
        for (finding, ok, status) in
            [(Finding::good("a", "", ""), true, "ok"), (Finding::bad("a", "", ""), false, "failed")]
        {
            let told = serde_json::to_value(&finding).unwrap();
            assert_eq!((&told["ok"], &told["status"]), (&json!(ok), &json!(status)));
        }
    }
}
