//! Whether deliveries go out: good credentials do not let go what is stopped or held.

use notify_client::notify_core::{App, AppStatus, ChannelDiagnostics, ChannelWord, ServiceView};

use super::{mend, report::Finding};
use crate::output::time;

/// What keeps a whole application back.
pub(super) fn status(app: &App) -> Option<Finding> {
    let mend = format!("if that is not wanted: notify apps update {} --status active", app.id);
    let detail = "it is suspended: its keys are refused; what was accepted still goes out";
    match app.status {
        AppStatus::Active => None,
        AppStatus::Suspended => Some(Finding::bad("status", &app.name, detail).mend(mend)),
    }
}

/// How deliveries through a provider stand.
pub(super) fn standing(app: &str, told: &ChannelDiagnostics) -> Finding {
    let provider = told.provider;
    let about = format!("{app} {provider}");
    if !told.configured {
        let detail = format!(
            "{} devices, and no configuration: every send to them fails with \
             provider_not_configured",
            told.devices
        );
        let mend = format!("notify providers put {provider} FILE --app '{app}'");
        return Finding::bad("channel", &about, detail).mend(mend);
    }
    let resume = format!("`notify providers resume {provider} --app '{app}'`");
    let until = told.channel.until.map(time);
    let at = until.as_deref().unwrap_or("an unknown time");
    match told.channel.state {
        ChannelWord::Open => Finding::good("channel", &about, "deliveries go out"),
        ChannelWord::Throttled => {
            let detail = format!("it asked to slow down: deliveries wait until {at}");
            Finding::warning("channel", &about, detail)
                .mend("nothing is to be done; if it stays so, put a smaller rate_per_second")
        }
        ChannelWord::Unreachable => {
            let detail = format!(
                "it cannot be reached, or fails whatever it is asked: deliveries wait; next probe \
                 at {at}"
            );
            let mend = "they go on by themselves; if it stays so, see that the server's machine \
                        reaches the provider";
            Finding::warning("channel", &about, detail).mend(mend)
        }
        ChannelWord::Held => {
            let reason = told.channel.reason.as_deref().unwrap_or("a probe is out");
            let detail = format!(
                "it refuses the server's credentials ({reason}): deliveries are held; next probe \
                 at {at}"
            );
            let mend = format!("{}; once they are mended {resume}", mend::of_credentials(provider));
            Finding::bad("channel", &about, detail).mend(mend)
        }
        ChannelWord::Stopped => {
            let detail = "so many addresses looked dead at once that nothing is sent; those that \
                          were disabled for it are enabled again";
            let mend = format!(
                "see that topic, key and environment, or project, are those of the app whose \
                 devices these are; then {resume}"
            );
            Finding::bad("channel", &about, detail).mend(mend)
        }
    }
}

/// The push services of a provider that get nothing while the others do.
pub(super) fn services(app: &str, diagnosed: &ChannelDiagnostics) -> Vec<Finding> {
    let provider = diagnosed.provider;
    let about = format!("{app} {provider}");
    let finding = |service: &ServiceView| {
        let name = &service.service;
        let until = service.until.map(time);
        let until = until.as_deref().unwrap_or("an unknown time");
        let resume = format!("`notify providers resume {provider} --app '{app}'`");
        match service.state {
            ChannelWord::Held => {
                let reason = service.reason.as_deref().unwrap_or("a probe is in flight");
                let detail = format!(
                    "{name} refuses the server's credentials ({reason}): its deliveries are held; \
                     next probe at {until}"
                );
                let remedy = format!("{}; then {resume}", mend::of_credentials(provider));
                Finding::bad("service", &about, detail).mend(remedy)
            }
            ChannelWord::Throttled => {
                let detail =
                    format!("{name} asked to slow down: its deliveries wait until {until}");
                Finding::warning("service", &about, detail)
                    .mend("nothing to do; if it stays so, set a smaller rate_per_second")
            }
            ChannelWord::Unreachable | ChannelWord::Stopped | ChannelWord::Open => {
                let detail = format!(
                    "{name} cannot be reached, or every request fails: its deliveries wait; next \
                     probe at {until}"
                );
                Finding::warning("service", &about, detail)
                    .mend("they resume on their own; if not, check that the server reaches it")
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

    fn told(configured: bool, state: ChannelWord, reason: Option<&str>) -> (Status, String) {
        let channel = ChannelView {
            state,
            reason: reason.map(str::to_owned),
            until: Some(Timestamp(1_767_323_045_678)),
            services: vec![],
        };
        let provider = ProviderKind::Apns;
        let told = ChannelDiagnostics { provider, configured, devices: 12, channel };
        let finding = standing("Shop", &told);
        let detail = finding.detail().to_owned();
        assert_eq!(finding.mended().is_some(), state != ChannelWord::Open || !configured);
        (finding.status(), detail)
    }

    #[test]
    fn a_service_that_gets_nothing_has_a_finding_of_its_own() {
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
        let findings = super::services("Shop", &diagnosed);
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
                    "{name} cannot be reached, or every request fails: its deliveries \
                     wait; next probe at {at}"
                ),
            ),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn what_keeps_deliveries_back_is_told_and_what_passes_is_no_failure() {
        let at = "2026-01-02T03:04:05Z";
        for (configured, state, reason, status, detail) in [
            (true, ChannelWord::Open, None, Status::Ok, "deliveries go out".to_owned()),
            (
                false,
                ChannelWord::Open,
                None,
                Status::Failed,
                "12 devices, and no configuration: every send to them fails with \
                 provider_not_configured"
                    .to_owned(),
            ),
            (
                true,
                ChannelWord::Throttled,
                None,
                Status::Warning,
                format!("it asked to slow down: deliveries wait until {at}"),
            ),
            (
                true,
                ChannelWord::Unreachable,
                None,
                Status::Warning,
                format!(
                    "it cannot be reached, or fails whatever it is asked: deliveries \
                     wait; next probe at {at}"
                ),
            ),
            (
                true,
                ChannelWord::Held,
                Some("InvalidProviderToken"),
                Status::Failed,
                format!(
                    "it refuses the server's credentials (InvalidProviderToken): deliveries are \
                     held; next probe at {at}"
                ),
            ),
            (
                true,
                ChannelWord::Stopped,
                None,
                Status::Failed,
                "so many addresses looked dead at once that nothing is sent; those that were \
                 disabled for it are enabled again"
                    .to_owned(),
            ),
        ] {
            assert_eq!(told(configured, state, reason), (status, detail), "{state:?}");
        }
    }
}
