//! The findings of all checks, and how they are printed.

use notify_client::notify_core::doctor::{Finding, Status};
use notify_client::notify_core::pluralize;
use serde::Serialize;

use crate::output::wrap;

/// The indentation of the lines below a finding.
const INDENT: &str = "  ";

/// The character before a finding.
fn mark(status: Status) -> char {
    match status {
        Status::Failed => '✗',
        Status::Warning => '!',
        Status::Ok => '✓',
    }
}

/// The finding as text: its check, detail and remedy. A remedy is printed once: it is omitted if
/// `printed_hints` has it for the same subject, also as part of a longer remedy. `printed_hints` has a pair
/// of subject and remedy for each earlier finding with a remedy; this function adds its own.
fn finding_lines(
    finding: &Finding,
    printed_hints: &mut Vec<(String, String)>,
    columns: usize,
) -> Vec<String> {
    let about = finding.about();
    let detail_columns = columns.saturating_sub(INDENT.len());
    let gap = if about.is_empty() { "" } else { "  " };
    let title = format!("{} {}{gap}{about}", mark(finding.status()), finding.check());
    let detail_lines = wrap(finding.detail(), detail_columns);
    // A passed check has one line, if its detail fits on that line.
    if finding.status() == Status::Ok
        && let [detail] = &*detail_lines
    {
        let line = format!("{title}{INDENT}{detail}");
        if line.chars().count() <= columns {
            return vec![line];
        }
    }
    let mut lines = vec![title];
    lines.extend(detail_lines.into_iter().map(|line| format!("{INDENT}{line}")));
    let Some(hint) = finding.hint() else { return lines };
    // Two checks can fail with the same remedy, such as those of refused credentials. The remedy is
    // printed once.
    let is_printed = printed_hints.iter().any(|(printed_about, printed)| {
        printed_about == about && (printed.contains(hint) || hint.contains(printed.as_str()))
    });
    if !is_printed {
        let hint_lines = wrap(hint, detail_columns.saturating_sub(INDENT.len()));
        let prefixes = std::iter::once("→ ").chain(std::iter::repeat(INDENT));
        let hint_lines = prefixes.zip(hint_lines);
        lines.extend(hint_lines.map(|(prefix, line)| format!("{INDENT}{prefix}{line}")));
    }
    printed_hints.push((about.to_owned(), hint.to_owned()));
    lines
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
        self.checks.iter().filter(|finding| finding.status() == status).count()
    }

    /// The findings as text, failures first. Unless `all` is set, passed checks are only counted.
    pub(super) fn lines(&self, all: bool, columns: usize) -> Vec<String> {
        let mut printed_hints = Vec::new();
        let mut lines = Vec::new();
        let mut shown: Vec<&Finding> = self.checks.iter().collect();
        shown.sort_by_key(|finding| finding.status());
        for finding in shown.iter().filter(|finding| all || finding.status() != Status::Ok) {
            lines.extend(finding_lines(finding, &mut printed_hints, columns));
        }
        let passed = self.count(Status::Ok);
        if !all && passed > 0 {
            lines.push(format!("{} {} passed", mark(Status::Ok), pluralize(passed, "check")));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
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
}
