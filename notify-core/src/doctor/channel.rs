//! Checks whether deliveries are running. Deliveries that the server stopped or holds do not resume as
//! soon as the credentials are valid, so this is a separate check.

use super::{AppName, Finding, hints};
use crate::{
    App, AppStatus, ChannelDiagnostics, ProviderStatus, ServiceView, Timestamp, UnusableTokens,
    pluralize,
};

/// A finding if the application is suspended.
pub(super) fn check_status(app: &App, label: &str) -> Option<Finding> {
    let hint = format!("`notify apps update {} --status active` activates it", app.id);
    let detail = "the application is suspended: the server refuses its keys, and still delivers what \
                  it accepted before";
    match app.status {
        AppStatus::Active => None,
        AppStatus::Suspended => Some(Finding::failed("status", label, detail).with_hint(hint)),
    }
}

/// Checks the deliveries through a provider.
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
    match &diagnosed.channel.status {
        ProviderStatus::Available => Finding::passed("channel", &about, "deliveries are running"),
        ProviderStatus::Throttled { until } => {
            let until = until.to_rfc3339();
            let detail = format!("the provider asked to slow down: deliveries wait until {until}");
            Finding::warning("channel", &about, detail).with_hint(
                "deliveries resume on their own; if this recurs, set a smaller rate_per_second",
            )
        }
        ProviderStatus::Unreachable { probe_at } => {
            let detail = format!(
                "the provider is unreachable, or every request fails: deliveries wait; next probe at {}",
                probe_at.to_rfc3339()
            );
            let hint = "deliveries resume on their own; if not, check that the server's machine \
                        reaches the provider";
            Finding::warning("channel", &about, detail).with_hint(hint)
        }
        ProviderStatus::AuthRejected { reason, probe_at }
            if reason.as_deref() == Some(ProviderStatus::CREDENTIALS_UNREADABLE) =>
        {
            let detail = format!(
                "a server cannot open the stored credentials with its master key: deliveries are held; \
                 next probe at {}",
                probe_at.to_rfc3339()
            );
            let hint = format!(
                "start all servers with the same master key; if it is lost, run {}; then {resume}",
                hints::put_command(provider, argument)
            );
            Finding::failed("channel", &about, detail).with_hint(hint)
        }
        ProviderStatus::AuthRejected { reason, probe_at } => {
            let reason = reason.as_deref().unwrap_or("a probe is in flight");
            let detail = format!(
                "the provider refuses the server's credentials ({reason}): deliveries are held; next \
                 probe at {}",
                probe_at.to_rfc3339()
            );
            let hint = format!("{}; then {resume}", hints::for_credentials(provider, argument));
            Finding::failed("channel", &about, detail).with_hint(hint)
        }
        ProviderStatus::Tripped => {
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

/// Finds push tokens to which nothing is sent, because they cannot be tokens of the provider.
pub(super) fn check_tokens(label: &str, diagnosed: &ChannelDiagnostics) -> Option<Finding> {
    let UnusableTokens { sampled, devices, looks_like } = diagnosed.unusable_tokens.as_ref()?;
    let provider = diagnosed.provider;
    let detail = format!(
        "{devices} of the newest {} have a push token that cannot be one of {provider}; the newest of \
         these looks like {looks_like}. Nothing is sent to them",
        pluralize(*sampled, "device")
    );
    let hint = "let the app register the token that the platform gives it: on iOS, the bytes of \
                `deviceToken` in hexadecimal";
    Some(Finding::failed("tokens", &format!("{label} {provider}"), detail).with_hint(hint))
}

/// The findings for push services of a provider whose deliveries wait, while those of the provider's
/// other services are not affected.
pub(super) fn check_services(app: &AppName, diagnosed: &ChannelDiagnostics) -> Vec<Finding> {
    let provider = diagnosed.provider;
    let AppName { label, argument } = app;
    let about = format!("{label} {provider}");
    let finding = |service: &ServiceView| {
        let name = &service.service;
        let until = service.status.until().map(Timestamp::to_rfc3339);
        let until = until.as_deref().unwrap_or("an unknown time");
        let resume = format!("`notify providers resume {provider} --app {argument}`");
        match &service.status {
            ProviderStatus::AuthRejected { reason, .. } => {
                let reason = reason.as_deref().unwrap_or("a probe is in flight");
                let detail = format!(
                    "{name} refuses the server's credentials ({reason}): its deliveries are held; \
                     next probe at {until}"
                );
                let remedy =
                    format!("{}; then {resume}", hints::for_credentials(provider, argument));
                Finding::failed("service", &about, detail).with_hint(remedy)
            }
            ProviderStatus::Throttled { .. } => {
                let detail =
                    format!("{name} asked to slow down: its deliveries wait until {until}");
                Finding::warning("service", &about, detail).with_hint(
                    "they resume on their own; if this recurs, set a smaller rate_per_second",
                )
            }
            ProviderStatus::Unreachable { .. }
            | ProviderStatus::Tripped
            | ProviderStatus::Available => {
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
    use super::super::Status;
    use super::*;
    use crate::{ChannelView, ProviderKind};

    fn shop() -> AppName {
        AppName { label: "Shop".to_owned(), argument: "'Shop'".to_owned() }
    }

    const AT: Timestamp = Timestamp(1_767_323_045_678);

    fn rejected(reason: &str) -> ProviderStatus {
        ProviderStatus::AuthRejected { reason: Some(reason.to_owned()), probe_at: AT }
    }

    fn found(configured: bool, status: ProviderStatus) -> (Status, String) {
        let is_available = status == ProviderStatus::Available;
        let channel = ChannelView { status, services: vec![] };
        let provider = ProviderKind::Apns;
        let diagnosed = ChannelDiagnostics {
            provider,
            configured,
            devices: 12,
            channel,
            unusable_tokens: None,
        };
        let finding = check_channel(&shop(), &diagnosed);
        let detail = finding.detail().to_owned();
        assert_eq!(finding.hint().is_some(), !is_available || !configured);
        (finding.status(), detail)
    }

    #[test]
    fn each_failing_service_has_a_finding() {
        let service = |status| ServiceView { service: "https://push.example".to_owned(), status };
        let services = vec![
            service(rejected("http_403")),
            service(ProviderStatus::Throttled { until: AT }),
            service(ProviderStatus::Unreachable { probe_at: AT }),
        ];
        let channel = ChannelView { status: ProviderStatus::Available, services };
        let provider = ProviderKind::WebPush;
        let diagnosed = ChannelDiagnostics {
            provider,
            configured: true,
            devices: 12,
            channel,
            unusable_tokens: None,
        };
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
        for (configured, status, expected, detail) in [
            (true, ProviderStatus::Available, Status::Ok, "deliveries are running".to_owned()),
            (
                false,
                ProviderStatus::Available,
                Status::Failed,
                "the provider is not configured: every send to 12 devices fails with \
                 provider_not_configured"
                    .to_owned(),
            ),
            (
                true,
                ProviderStatus::Throttled { until: AT },
                Status::Warning,
                format!("the provider asked to slow down: deliveries wait until {at}"),
            ),
            (
                true,
                ProviderStatus::Unreachable { probe_at: AT },
                Status::Warning,
                format!(
                    "the provider is unreachable, or every request fails: deliveries wait; next probe \
                     at {at}"
                ),
            ),
            (
                true,
                rejected("InvalidProviderToken"),
                Status::Failed,
                format!(
                    "the provider refuses the server's credentials (InvalidProviderToken): deliveries \
                     are held; next probe at {at}"
                ),
            ),
            (
                true,
                rejected(ProviderStatus::CREDENTIALS_UNREADABLE),
                Status::Failed,
                format!(
                    "a server cannot open the stored credentials with its master key: deliveries are \
                     held; next probe at {at}"
                ),
            ),
            (
                true,
                ProviderStatus::Tripped,
                Status::Failed,
                "the server stopped sending because too many addresses looked dead at once; it \
                 enabled their devices again"
                    .to_owned(),
            ),
        ] {
            let name = format!("{status:?}");
            assert_eq!(found(configured, status), (expected, detail), "{name}");
        }
    }
}
