//! The state of deliveries: valid credentials alone do not resume stopped or held deliveries.

use notify_client::notify_core::{App, AppStatus, ChannelDiagnostics, ChannelWord, ServiceView};

use super::{AppName, hints, report::Finding};
use crate::output::{pluralize, time};

/// Whether the application is suspended.
pub(super) fn check_status(app: &App, label: &str) -> Option<Finding> {
    let hint = format!("`notify apps update {} --status active` activates it", app.id);
    let detail = "the application is suspended: the server refuses its keys, and still delivers what \
                  it accepted before";
    match app.status {
        AppStatus::Active => None,
        AppStatus::Suspended => Some(Finding::failed("status", label, detail).with_hint(hint)),
    }
}

/// The state of deliveries through a provider.
pub(super) fn check_channel(app: &AppName, diagnosed: &ChannelDiagnostics) -> Finding {
    let provider = diagnosed.provider;
    let AppName { label, argument } = app;
    let about = format!("{label} {provider}");
    if !diagnosed.configured {
        let detail = format!(
            "the provider is not configured: every send to {} fails with provider_not_configured",
            pluralize(diagnosed.devices, "device")
        );
        let hint = hints::put_command(provider, argument);
        return Finding::failed("channel", &about, detail).with_hint(hint);
    }
    let resume = format!("`notify providers resume {provider} --app {argument}`");
    let until = diagnosed.channel.until.map(time);
    let at = until.as_deref().unwrap_or("an unknown time");
    match diagnosed.channel.state {
        ChannelWord::Open => Finding::passed("channel", &about, "deliveries are running"),
        ChannelWord::Throttled => {
            let detail = format!("the provider asked to slow down: deliveries wait until {at}");
            Finding::warning("channel", &about, detail).with_hint(
                "deliveries resume on their own; if this recurs, set a smaller rate_per_second",
            )
        }
        ChannelWord::Unreachable => {
            let detail = format!(
                "the provider is unreachable, or every request fails: deliveries wait; next probe at {at}"
            );
            let hint = "deliveries resume on their own; if not, check that the server's machine \
                        reaches the provider";
            Finding::warning("channel", &about, detail).with_hint(hint)
        }
        ChannelWord::Held => {
            let reason = diagnosed.channel.reason.as_deref().unwrap_or("a probe is in flight");
            let detail = format!(
                "the provider refuses the server's credentials ({reason}): deliveries are held; next \
                 probe at {at}"
            );
            let hint = format!("{}; then {resume}", hints::for_credentials(provider, argument));
            Finding::failed("channel", &about, detail).with_hint(hint)
        }
        ChannelWord::Stopped => {
            let detail = "the server stopped sending because too many addresses looked dead at once; \
                          it enabled their devices again";
            let hint = format!(
                "check that topic, key and environment, or project, belong to the app of these \
                 devices; then {resume}"
            );
            Finding::failed("channel", &about, detail).with_hint(hint)
        }
    }
}

/// The push services of a provider that receive nothing, while the others do.
pub(super) fn check_services(app: &AppName, diagnosed: &ChannelDiagnostics) -> Vec<Finding> {
    let provider = diagnosed.provider;
    let AppName { label, argument } = app;
    let about = format!("{label} {provider}");
    let finding = |service: &ServiceView| {
        let name = &service.service;
        let until = service.until.map(time);
        let until = until.as_deref().unwrap_or("an unknown time");
        let resume = format!("`notify providers resume {provider} --app {argument}`");
        match service.state {
            ChannelWord::Held => {
                let reason = service.reason.as_deref().unwrap_or("a probe is in flight");
                let detail = format!(
                    "{name} refuses the server's credentials ({reason}): its deliveries are held; \
                     next probe at {until}"
                );
                let remedy =
                    format!("{}; then {resume}", hints::for_credentials(provider, argument));
                Finding::failed("service", &about, detail).with_hint(remedy)
            }
            ChannelWord::Throttled => {
                let detail =
                    format!("{name} asked to slow down: its deliveries wait until {until}");
                Finding::warning("service", &about, detail).with_hint(
                    "they resume on their own; if this recurs, set a smaller rate_per_second",
                )
            }
            ChannelWord::Unreachable | ChannelWord::Stopped | ChannelWord::Open => {
                let detail = format!(
                    "{name} is unreachable, or every request fails: its deliveries wait; next \
                     probe at {until}"
                );
                Finding::warning("service", &about, detail)
                    .with_hint("they resume on their own; if not, check that the server reaches it")
            }
        }
    };
    diagnosed.channel.services.iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use notify_client::notify_core::{ChannelView, ProviderKind, Timestamp};

    use super::super::report::Status;
    use super::*;

    fn shop() -> AppName {
        AppName { label: "Shop".to_owned(), argument: "'Shop'".to_owned() }
    }

    fn found(configured: bool, state: ChannelWord, reason: Option<&str>) -> (Status, String) {
        let channel = ChannelView {
            state,
            reason: reason.map(str::to_owned),
            until: Some(Timestamp(1_767_323_045_678)),
            services: vec![],
        };
        let provider = ProviderKind::Apns;
        let diagnosed = ChannelDiagnostics { provider, configured, devices: 12, channel };
        let finding = check_channel(&shop(), &diagnosed);
        let detail = finding.detail().to_owned();
        assert_eq!(finding.hint().is_some(), state != ChannelWord::Open || !configured);
        (finding.status(), detail)
    }

    #[test]
    fn each_failing_service_has_a_finding() {
        let until = Some(Timestamp(1_767_323_045_678));
        let service = |state, reason: Option<&str>| ServiceView {
            service: "https://push.example".to_owned(),
            state,
            reason: reason.map(str::to_owned),
            until,
        };
        let services = vec![
            service(ChannelWord::Held, Some("http_403")),
            service(ChannelWord::Throttled, None),
            service(ChannelWord::Unreachable, None),
        ];
        let channel = ChannelView { state: ChannelWord::Open, reason: None, until: None, services };
        let provider = ProviderKind::WebPush;
        let diagnosed = ChannelDiagnostics { provider, configured: true, devices: 12, channel };
        let findings = check_services(&shop(), &diagnosed);
        let shown: Vec<_> = findings
            .iter()
            .map(|finding| (finding.status(), finding.detail().to_owned()))
            .collect();
        let (name, at) = ("https://push.example", "2026-01-02T03:04:05Z");
        let expected = [
            (
                Status::Failed,
                format!(
                    "{name} refuses the server's credentials (http_403): its deliveries are held; \
                     next probe at {at}"
                ),
            ),
            (Status::Warning, format!("{name} asked to slow down: its deliveries wait until {at}")),
            (
                Status::Warning,
                format!(
                    "{name} is unreachable, or every request fails: its deliveries \
                     wait; next probe at {at}"
                ),
            ),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn held_deliveries_are_a_failure_and_temporary_problems_a_warning() {
        let at = "2026-01-02T03:04:05Z";
        for (configured, state, reason, status, detail) in [
            (true, ChannelWord::Open, None, Status::Ok, "deliveries are running".to_owned()),
            (
                false,
                ChannelWord::Open,
                None,
                Status::Failed,
                "the provider is not configured: every send to 12 devices fails with \
                 provider_not_configured"
                    .to_owned(),
            ),
            (
                true,
                ChannelWord::Throttled,
                None,
                Status::Warning,
                format!("the provider asked to slow down: deliveries wait until {at}"),
            ),
            (
                true,
                ChannelWord::Unreachable,
                None,
                Status::Warning,
                format!(
                    "the provider is unreachable, or every request fails: deliveries wait; next probe \
                     at {at}"
                ),
            ),
            (
                true,
                ChannelWord::Held,
                Some("InvalidProviderToken"),
                Status::Failed,
                format!(
                    "the provider refuses the server's credentials (InvalidProviderToken): deliveries \
                     are held; next probe at {at}"
                ),
            ),
            (
                true,
                ChannelWord::Stopped,
                None,
                Status::Failed,
                "the server stopped sending because too many addresses looked dead at once; it \
                 enabled their devices again"
                    .to_owned(),
            ),
        ] {
            assert_eq!(found(configured, state, reason), (status, detail), "{state:?}");
        }
    }
}
