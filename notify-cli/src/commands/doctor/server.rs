//! Checks of the server: reachability, health, clock and storage.

use notify_client::{
    Client, Error,
    notify_core::{Diagnostics, StorageDiagnostics, Timestamp},
};

use super::report::{Finding, Report};
use crate::{
    address,
    output::{pluralize, time},
};

/// Tolerated difference of the clocks, in milliseconds. The measured difference is not exact: the `Date`
/// header has whole seconds, and the response takes some time.
const SKEW_MS_MAX: i64 = 30_000;
/// Minimum free disk space, in bytes. A server that cannot write accepts no notifications.
const FREE_BYTES_MIN: u64 = 1 << 30;
const MIB: u64 = 1 << 20;
/// Minimum remaining validity of a certificate, in milliseconds: 14 days. ACME renews certificates at
/// least 30 days before they expire.
const CERTIFICATE_LEFT_MS_MIN: i64 = 14 * 86_400_000;
const DAY_MS: u64 = 86_400_000;

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
    match notify.admin().diagnostics().await {
        Ok(diagnostics) => {
            check_diagnostics(&diagnostics, report);
            true
        }
        Err(error @ Error::MissingKey(_)) => {
            let hint = "set NOTIFY_ADMIN_KEY or store the key in a profile; without it, doctor checks \
                        only the server";
            report.add(Finding::failed("admin key", "", error.to_string()).with_hint(hint));
            false
        }
        Err(error @ Error::WrongKey(_)) => {
            let hint = "set NOTIFY_ADMIN_KEY, or the admin key of the profile, to an admin key";
            report.add(Finding::failed("admin key", "", error.to_string()).with_hint(hint));
            false
        }
        Err(error @ Error::Unauthorized { .. }) => {
            let hint =
                "`notify-server admin-key create` on the server's machine creates an admin key";
            report.add(Finding::failed("admin key", "", error.to_string()).with_hint(hint));
            false
        }
        Err(error) => {
            let finding = Finding::failed("diagnostics", "", error.to_string());
            report.add(finding.with_hint("read the server's log"));
            false
        }
    }
}

/// Adds the findings about the server's configuration and health.
fn check_diagnostics(diagnostics: &Diagnostics, report: &mut Report) {
    for obstacle in &diagnostics.obstacles {
        report.add(
            Finding::failed("work", "", obstacle.clone()).with_hint(hint_for_obstacle(obstacle)),
        );
    }
    if diagnostics.obstacles.is_empty() {
        let detail = format!("version {} reads, writes and delivers", diagnostics.version);
        report.add(Finding::passed("work", "", detail));
    }
    report.add(check_durability(&diagnostics.storage));
    report.extend(check_disk_space(&diagnostics.storage));
    report.add(check_public_url(&diagnostics.public_url));
    report.extend(check_certificate(diagnostics.certificate_not_after, diagnostics.at));
    report.extend(check_clock_jump(diagnostics.clock_leap_ms));
}

/// Checks that phones can reach the public url, because users open poll pages on their phones.
fn check_public_url(public_url: &str) -> Finding {
    if address::is_public(public_url) {
        return Finding::passed("public url", "", public_url);
    }
    let detail = format!("poll links begin with {public_url}, which phones cannot reach");
    let hint = "set the server's --public-url (NOTIFY_PUBLIC_URL) to the address that phones use";
    Finding::warning("public url", "", detail).with_hint(hint)
}

/// Checks the validity of the TLS certificate, if the server has one.
fn check_certificate(not_after: Option<Timestamp>, now: Timestamp) -> Option<Finding> {
    let not_after = not_after?;
    let end = time(not_after);
    let left_ms = not_after.ms_since(now);
    let renew =
        "renew it and replace the files of --tls-cert and --tls-key; the server reloads them";
    Some(if left_ms < 0 {
        let detail = format!("the certificate expired at {end}: clients refuse to connect");
        Finding::failed("certificate", "", detail).with_hint(renew)
    } else if left_ms < CERTIFICATE_LEFT_MS_MIN {
        Finding::warning("certificate", "", format!("the certificate expires at {end}"))
            .with_hint(renew)
    } else {
        Finding::passed("certificate", "", format!("the certificate is valid until {end}"))
    })
}

/// A finding if the server's clock jumped ahead.
fn check_clock_jump(ahead_ms: u64) -> Option<Finding> {
    if ahead_ms == 0 {
        return None;
    }
    let days = ahead_ms / DAY_MS;
    let detail = format!(
        "the server's clock jumped ahead by {}: the server deletes nothing by age until an operator \
         confirms the clock",
        pluralize(days, "day")
    );
    let hint = "if the clock is right, run `notify-server confirm-clock` on the server's machine; if \
                not, set it and restart the server";
    Some(Finding::failed("clock leap", "", detail).with_hint(hint))
}

/// The remedy for an obstacle that the server reports.
fn hint_for_obstacle(obstacle: &str) -> &'static str {
    if obstacle.contains("storage") {
        "check that the database is up and its disk has room; the server recovers on its own"
    } else {
        "restart the server, and keep its log: it shows the cause"
    }
}

/// Checks that a commit is on the disk before the server reports it as done.
fn check_durability(storage: &StorageDiagnostics) -> Finding {
    let StorageDiagnostics { backend, journal_mode, synchronous, .. } = storage;
    let is_durable = journal_mode == "wal" && matches!(synchronous.as_str(), "full" | "extra");
    let (detail, hint) = if backend == "sqlite" {
        let detail = format!("sqlite, journal_mode {journal_mode}, synchronous {synchronous}");
        let hint = "move the data folder to a local disk: its file system has no shared memory or \
                    locks (a network share?)";
        (detail, hint)
    } else {
        let synced = if is_durable { "are" } else { "may not be" };
        let detail = format!("{backend}, commits {synced} on its disk");
        let hint = "set fsync, full_page_writes and synchronous_commit to on in PostgreSQL; otherwise \
                    accepted notifications can be lost when its machine fails";
        (detail, hint)
    };
    if is_durable {
        Finding::passed("storage", "", detail)
    } else {
        Finding::failed("storage", "", detail).with_hint(hint)
    }
}

/// Checks the free space on the disk of the database, if it is known.
fn check_disk_space(storage: &StorageDiagnostics) -> Option<Finding> {
    let free = storage.free_bytes?;
    let used = storage.database_bytes + storage.log_bytes;
    let detail = format!("{} MiB are free; the database takes {} MiB", free / MIB, used / MIB);
    Some(if free >= FREE_BYTES_MIN {
        Finding::passed("disk", "", detail)
    } else {
        let hint = "free disk space, or lower --keep-outcomes-days and --keep-notifications-days";
        Finding::failed("disk", "", detail).with_hint(hint)
    })
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
    use super::super::report::Status;
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

    #[test]
    fn a_private_public_url_is_a_warning() {
        for (url, status) in [
            ("https://push.shop.io", Status::Ok),
            ("https://push.shop.io:8443/notify", Status::Ok),
            ("http://203.0.113.7:8080", Status::Ok),
            ("http://[2001:db8::1]:8080", Status::Ok),
            ("http://127.0.0.1:8080", Status::Warning),
            ("http://[::1]:8080", Status::Warning),
            ("http://0.0.0.0:8080", Status::Warning),
            ("https://10.1.2.3", Status::Warning),
            ("https://192.168.1.2", Status::Warning),
            ("http://localhost:8080", Status::Warning),
            ("http://notify:8080", Status::Warning),
            ("http://notify.local", Status::Warning),
            ("http://notify.svc.internal", Status::Warning),
        ] {
            assert_eq!(check_public_url(url).status(), status, "{url}");
        }
    }

    #[test]
    fn a_certificate_near_its_end_is_a_warning() {
        let now = Timestamp(1_795_219_200_000);
        assert!(check_certificate(None, now).is_none());
        for (left_ms, status) in [
            (CERTIFICATE_LEFT_MS_MIN, Status::Ok),
            (CERTIFICATE_LEFT_MS_MIN - 1, Status::Warning),
            (-1, Status::Failed),
        ] {
            let finding = check_certificate(Some(now.plus_ms(left_ms)), now).unwrap();
            assert_eq!(finding.status(), status, "{left_ms}");
        }
    }

    #[test]
    fn a_clock_that_jumped_ahead_is_a_failure() {
        assert!(check_clock_jump(0).is_none());
        let finding = check_clock_jump(20 * 365 * DAY_MS).unwrap();
        assert!(!finding.is_ok());
        assert!(finding.detail().contains("by 7300 days"), "{}", finding.detail());
    }

    #[test]
    fn storage_must_be_durable_and_have_free_space() {
        let storage = |backend: &str, journal: &str, synchronous: &str, free_bytes: Option<u64>| {
            let (journal_mode, synchronous) = (journal.to_owned(), synchronous.to_owned());
            StorageDiagnostics {
                backend: backend.to_owned(),
                journal_mode,
                synchronous,
                database_bytes: 5 * MIB,
                log_bytes: MIB,
                free_bytes,
            }
        };
        for (backend, journal, synchronous, ok, detail) in [
            ("sqlite", "wal", "full", true, "sqlite, journal_mode wal, synchronous full"),
            ("sqlite", "wal", "extra", true, "sqlite, journal_mode wal, synchronous extra"),
            ("sqlite", "wal", "normal", false, "sqlite, journal_mode wal, synchronous normal"),
            ("sqlite", "delete", "full", false, "sqlite, journal_mode delete, synchronous full"),
            ("postgres", "wal", "full", true, "postgres, commits are on its disk"),
            ("postgres", "wal", "off", false, "postgres, commits may not be on its disk"),
            (
                "postgres",
                "wal without fsync",
                "full",
                false,
                "postgres, commits may not be on its disk",
            ),
        ] {
            let found = check_durability(&storage(backend, journal, synchronous, None));
            assert_eq!((found.is_ok(), found.detail()), (ok, detail));
        }
        let space = |free_bytes| check_disk_space(&storage("sqlite", "wal", "full", free_bytes));
        assert!(space(None).is_none(), "the system does not report it");
        assert!(space(Some(FREE_BYTES_MIN)).unwrap().is_ok());
        let full = space(Some(3 * MIB)).unwrap();
        assert!(!full.is_ok());
        assert_eq!(full.detail(), "3 MiB are free; the database takes 6 MiB");
    }
}
