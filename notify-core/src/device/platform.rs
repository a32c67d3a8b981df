//! Which platforms come in by which route.

use crate::{Platform, path::path, rules::REQUIRED, violations::Findings};

/// The other route, and the platforms that it takes.
#[derive(Clone, Copy)]
pub(super) struct Elsewhere {
    pub(super) route: &'static str,
    pub(super) platforms: &'static [Platform],
}

/// A platform that this route takes. Whoever names another learns of the other route.
pub(super) fn check_platform(
    word: &str,
    taken: &[Platform],
    elsewhere: Elsewhere,
    findings: &mut Findings,
) -> Option<Platform> {
    if word.is_empty() {
        findings.broken(&path("platform"), REQUIRED);
        return None;
    }
    let found = taken.iter().copied().find(|platform| platform.as_str() == word);
    if found.is_none() {
        let Elsewhere { route, platforms } = elsewhere;
        let (taken, others) = (listed(taken), listed(platforms));
        let what = format_args!("must be one of {taken} ({route} takes {others})");
        findings.broken(&path("platform"), what);
    }
    found
}

fn listed(platforms: &[Platform]) -> String {
    platforms.iter().map(|platform| platform.as_str()).collect::<Vec<_>>().join(", ")
}
