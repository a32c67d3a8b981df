//! Checks of webhooks, feeds and API keys.

use super::{AppName, Finding};
use crate::{ApiKey, Feed, Timestamp, Webhook, pluralize};

/// Most feeds of an application that have separate findings. Further feeds are counted in one finding.
const FEEDS_SHOWN_MAX: usize = 5;

/// Findings for disabled and failing webhooks; `broken` contains no other ones.
pub(super) fn webhooks(app: &str, broken: &[Webhook]) -> Vec<Finding> {
    broken.iter().map(|webhook| webhook_finding(app, webhook)).collect()
}

fn webhook_finding(app: &str, webhook: &Webhook) -> Finding {
    let Webhook { id, url, .. } = webhook;
    if webhook.enabled {
        let since = webhook.failing_since.map(Timestamp::to_rfc3339).unwrap_or_default();
        let detail = format!(
            "{url} has accepted nothing since {since}: {} pending",
            pluralize(webhook.pending, "message")
        );
        let hint = format!("`notify webhooks attempts {id}` shows why; the server keeps trying");
        return Finding::warning("webhook", app, detail).with_hint(hint);
    }
    let Some(reason) = webhook.disabled_reason.as_deref() else {
        let detail = format!("the webhook to {url} was disabled by request: it receives nothing");
        let hint = format!("`notify webhooks update {id} --enable` sends events again");
        return Finding::warning("webhook", app, detail).with_hint(hint);
    };
    let why = match reason {
        "gone" => "its endpoint answered 410",
        "failing" => "its endpoint accepted nothing for 120 hours",
        other => other,
    };
    let detail = format!("the webhook to {url} is disabled: {why}");
    let hint = format!(
        "repair the endpoint, run `notify webhooks update {id} --enable`, then `notify webhooks recover \
         {id} --since TIME` to send the messages that failed; events while it is disabled are not kept"
    );
    Finding::failed("webhook", app, detail).with_hint(hint)
}

/// Findings for feeds whose last fetch failed.
pub(super) fn feeds(app: &str, failing: &[Feed]) -> Vec<Finding> {
    let finding = |feed: &Feed| {
        let why = feed.last_error.as_deref().unwrap_or("its last fetch failed");
        let detail = format!("`{}` at {}: {why}", feed.name, feed.url);
        let hint = "`notify feeds check` with this address shows more; the server keeps trying";
        Finding::warning("feed", app, detail).with_hint(hint)
    };
    let mut findings: Vec<Finding> = failing.iter().take(FEEDS_SHOWN_MAX).map(finding).collect();
    let others = failing.len().saturating_sub(FEEDS_SHOWN_MAX);
    if others > 0 {
        let detail = format!("{} cannot be fetched", pluralize(others, "more feed"));
        findings.push(
            Finding::warning("feed", app, detail).with_hint("`notify feeds list` shows them"),
        );
    }
    findings
}

/// Findings for API keys that expire soon; `expiring` contains no other ones.
pub(super) fn keys(app: &AppName, expiring: &[ApiKey]) -> Vec<Finding> {
    let finding = |key: &ApiKey| {
        let name = key.name.as_ref().map_or_else(String::new, |name| format!("`{name}` "));
        let expiry = key.expires_at.map(Timestamp::to_rfc3339).unwrap_or_default();
        let used = match key.last_used_at {
            Some(at) => format!("it was last used at {}", at.to_rfc3339()),
            None => "it was never used".to_owned(),
        };
        let detail = format!("the key {name}({}) expires at {expiry}; {used}", key.hint);
        let hint = format!(
            "use its successor, or create one with `notify keys rotate {} --app {}`",
            key.id, app.argument
        );
        Finding::warning("key", &app.label, detail).with_hint(hint)
    };
    expiring.iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;
    use crate::{ApiKeyKind, FeedStatus, KeyScope};

    const ID: &str = "0190a3b2-7f00-7000-8000-000000000001";
    const AT: Timestamp = Timestamp(1_767_323_045_678);

    #[test]
    fn a_key_that_expires_soon_is_a_warning_with_its_successor() {
        let key = |name: Option<&str>, last_used_at| ApiKey {
            id: ID.parse().unwrap(),
            name: name.map(str::to_owned),
            hint: "nk_…abcd".to_owned(),
            kind: ApiKeyKind::Secret,
            scopes: vec![KeyScope::Read],
            allowed_tags: vec![],
            allowed_attributes: vec![],
            expires_at: Some(AT),
            created_at: AT,
            last_used_at,
        };
        let app = AppName { label: "Shop".to_owned(), argument: "'Shop'".to_owned() };
        let findings = keys(&app, &[key(Some("till"), Some(AT)), key(None, None)]);
        let details: Vec<&str> = findings.iter().map(Finding::detail).collect();
        let expiry = "expires at 2026-01-02T03:04:05Z";
        assert_eq!(
            details,
            [
                format!(
                    "the key `till` (nk_…abcd) {expiry}; it was last used at 2026-01-02T03:04:05Z"
                ),
                format!("the key (nk_…abcd) {expiry}; it was never used"),
            ]
        );
        for finding in findings {
            assert_eq!((finding.status(), finding.check()), (Status::Warning, "key"));
            let hint = format!(
                "use its successor, or create one with `notify keys rotate {ID} --app 'Shop'`"
            );
            assert_eq!(finding.hint(), Some(&*hint));
        }
    }

    #[test]
    fn a_disabled_webhook_is_a_failure_and_a_failing_one_a_warning() {
        let webhook = |enabled: bool, disabled: Option<&str>| Webhook {
            id: ID.parse().unwrap(),
            url: "https://a.example/hook".to_owned(),
            events: vec![],
            description: None,
            enabled,
            disabled_reason: disabled.map(str::to_owned),
            failing_since: Some(AT),
            pending: 7,
            dropped: 0,
            previous_secret_until: None,
            created_at: AT,
            updated_at: AT,
        };
        for (enabled, disabled, status, detail) in [
            (
                true,
                None,
                Status::Warning,
                "https://a.example/hook has accepted nothing since 2026-01-02T03:04:05Z: 7 messages \
                 pending",
            ),
            (
                false,
                None,
                Status::Warning,
                "the webhook to https://a.example/hook was disabled by request: it receives nothing",
            ),
            (
                false,
                Some("gone"),
                Status::Failed,
                "the webhook to https://a.example/hook is disabled: its endpoint answered 410",
            ),
            (
                false,
                Some("failing"),
                Status::Failed,
                "the webhook to https://a.example/hook is disabled: its endpoint accepted nothing for \
                 120 hours",
            ),
        ] {
            let findings = webhooks("Shop", &[webhook(enabled, disabled)]);
            assert_eq!((findings[0].status(), findings[0].detail()), (status, detail));
            let hint = findings[0].hint().expect("a failing webhook has a hint");
            assert!(hint.contains(ID), "{hint}");
            let recovers = hint.contains(&format!("`notify webhooks recover {ID} --since TIME`"));
            assert_eq!(recovers, disabled.is_some(), "{hint}");
        }
    }

    #[test]
    fn the_number_of_findings_for_feeds_is_limited() {
        let feed = |nth: usize| Feed {
            id: ID.parse().unwrap(),
            name: format!("feed {nth}"),
            url: "https://a.example/rss".to_owned(),
            status: FeedStatus::Failing,
            items: 0,
            last_fetched_at: None,
            last_error: Some("it answered with status 404".to_owned()),
            created_at: AT,
        };
        let failing: Vec<Feed> = (1..=7).map(feed).collect();
        assert!(feeds("Shop", &[]).is_empty());
        let findings = feeds("Shop", &failing);
        assert_eq!(findings.len(), FEEDS_SHOWN_MAX + 1);
        let detail = "`feed 1` at https://a.example/rss: it answered with status 404";
        assert_eq!((findings[0].status(), findings[0].detail()), (Status::Warning, detail));
        assert_eq!(findings[FEEDS_SHOWN_MAX].detail(), "2 more feeds cannot be fetched");
    }
}
