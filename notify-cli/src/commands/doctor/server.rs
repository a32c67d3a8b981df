//! Checks of the server that only a client can make: whether it is reachable and accepts the key, and
//! whether its clock is right.

use notify_client::{
    Client, Error,
    notify_core::{
        Timestamp,
        doctor::{Finding, ServerFacts, Unavailable, check_server, hint_for_obstacle},
    },
};

use super::report::Report;

/// Tolerated difference of the clocks, in milliseconds. The measured difference is not exact: the `Date`
/// header has whole seconds, and the response takes some time.
const SKEW_MS_MAX: i64 = 30_000;

/// Checks that the server is reachable and ready, and that its clock is right. Returns whether the server
/// is reachable.
pub(super) async fn check_reachable(notify: &Client, server: &str, report: &mut Report) -> bool {
    match notify.server().ready().await {
        Ok(ready) => {
            report.add(Finding::passed("server", "", format!("{server} is ready")));
            if let Some(date) = ready.date {
                report.add(check_clock(date, now()));
            }
            true
        }
        Err(Error::Server { status: 503, errors, .. }) => {
            let why = if errors.is_empty() { "no reason given".into() } else { errors.join("; ") };
            let hint =
                errors.first().map_or("read the server's log", |error| hint_for_obstacle(error));
            let detail = format!("{server} responds, but is not ready: {why}");
            report.add(Finding::failed("server", "", detail).with_hint(hint));
            true
        }
        Err(error @ (Error::Connect { .. } | Error::Timeout { .. } | Error::Transport { .. })) => {
            let hint =
                "start the server, or set its address with NOTIFY_URL, --server or a profile";
            report.add(Finding::failed("server", "", error.to_string()).with_hint(hint));
            false
        }
        Err(error) => {
            let hint = "check the address: NOTIFY_URL, --server or a profile sets it";
            report.add(Finding::failed("server", "", format!("{server}: {error}")).with_hint(hint));
            false
        }
    }
}

/// Checks the configuration of the server. Returns false if the server did not return it, for example
/// because the admin key is wrong.
pub(super) async fn check_configuration(notify: &Client, report: &mut Report) -> bool {
    let diagnostics = notify.admin().diagnostics().await;
    if let Err(error) = &diagnostics
        && let Some(hint) = hint_for_key(error)
    {
        report.add(Finding::failed("admin key", "", error.to_string()).with_hint(hint));
        return false;
    }
    if let Err(error @ Error::NotFound { .. }) = &diagnostics {
        let hint = "if the admin API has an address of its own (--admin-listen), use that address";
        report.add(Finding::failed("server", "", error.to_string()).with_hint(hint));
        return false;
    }
    let facts = ServerFacts { diagnostics: diagnostics.map_err(Unavailable::new) };
    report.extend(check_server(&facts));
    facts.diagnostics.is_ok()
}

/// The remedy for a missing or refused admin key.
fn hint_for_key(error: &Error) -> Option<&'static str> {
    match error {
        Error::MissingKey(_) => Some(
            "set NOTIFY_ADMIN_KEY or store the key in a profile; without it, doctor checks only the \
             server",
        ),
        Error::WrongKey(_) => {
            Some("set NOTIFY_ADMIN_KEY, or the admin key of the profile, to an admin key")
        }
        Error::Unauthorized { .. } => {
            Some("`notify-server admin-key create` on the server's machine creates an admin key")
        }
        _ => None,
    }
}

/// Compares the clock of the server with that of this machine.
fn check_clock(server: Timestamp, here: Timestamp) -> Finding {
    let ahead_ms = server.ms_since(here);
    let (seconds, side) =
        (ahead_ms.abs() / 1_000, if ahead_ms < 0 { "behind" } else { "ahead of" });
    let detail = format!("the server is {seconds} s {side} this machine");
    if ahead_ms.abs() <= SKEW_MS_MAX {
        return Finding::passed("clock", "", "the server and this machine agree");
    }
    let hint = "synchronise both clocks (NTP): Apple and Google refuse tokens of a wrong clock";
    Finding::failed("clock", "", detail).with_hint(hint)
}

fn now() -> Timestamp {
    Timestamp::from_ms(jiff::Timestamp::now().as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_may_differ_by_half_a_minute() {
        let here = Timestamp(1_795_219_200_000);
        for (ahead_ms, ok) in [(0, true), (30_000, true), (-30_000, true), (31_000, false)] {
            let finding = check_clock(here.plus_ms(ahead_ms), here);
            assert_eq!(finding.is_ok(), ok, "{ahead_ms}");
        }
        let finding = check_clock(here.plus_ms(-90_000), here);
        assert_eq!(finding.detail(), "the server is 90 s behind this machine");
        let finding = check_clock(here.plus_ms(90_000), here);
        assert_eq!(finding.detail(), "the server is 90 s ahead of this machine");
    }
}
