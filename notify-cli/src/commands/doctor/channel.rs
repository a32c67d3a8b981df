//! Whether deliveries go out: good credentials do not let go what is stopped or held.

use notify_client::notify_core::{App, AppStatus, ChannelDiagnostics, ChannelWord, Timestamp};

use super::{mend, report::Finding};

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

fn time(at: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(at.as_ms())
        .map_or_else(|_| at.to_string(), |at| format!("{at:.0}"))
}

#[cfg(test)]
mod tests {
    use notify_client::notify_core::{ChannelView, ProviderKind};

    use super::*;

    fn told(configured: bool, state: ChannelWord, reason: Option<&str>) -> (bool, String) {
        let channel = ChannelView {
            state,
            reason: reason.map(str::to_owned),
            until: Some(Timestamp(1_767_323_045_678)),
        };
        let provider = ProviderKind::Apns;
        let told = ChannelDiagnostics { provider, configured, devices: 12, channel };
        let finding = standing("Shop", &told);
        let detail = finding.detail().to_owned();
        assert_eq!(finding.mended().is_some(), state != ChannelWord::Open || !configured);
        (finding.is_ok(), detail)
    }

    #[test]
    fn what_keeps_deliveries_back_is_told_and_what_passes_is_no_failure() {
        let at = "2026-01-02T03:04:05Z";
        for (configured, state, reason, ok, detail) in [
            (true, ChannelWord::Open, None, true, "deliveries go out".to_owned()),
            (
                false,
                ChannelWord::Open,
                None,
                false,
                "12 devices, and no configuration: every send to them fails with \
                 provider_not_configured"
                    .to_owned(),
            ),
            (
                true,
                ChannelWord::Throttled,
                None,
                true,
                format!("warning: it asked to slow down: deliveries wait until {at}"),
            ),
            (
                true,
                ChannelWord::Unreachable,
                None,
                true,
                format!(
                    "warning: it cannot be reached, or fails whatever it is asked: deliveries \
                     wait; next probe at {at}"
                ),
            ),
            (
                true,
                ChannelWord::Held,
                Some("InvalidProviderToken"),
                false,
                format!(
                    "it refuses the server's credentials (InvalidProviderToken): deliveries are \
                     held; next probe at {at}"
                ),
            ),
            (
                true,
                ChannelWord::Stopped,
                None,
                false,
                "so many addresses looked dead at once that nothing is sent; those that were \
                 disabled for it are enabled again"
                    .to_owned(),
            ),
        ] {
            assert_eq!(told(configured, state, reason), (ok, detail), "{state:?}");
        }
    }
}
