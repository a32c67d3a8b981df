//! The server: whether it is there, works, tells the time, and keeps what it is given.

use std::net::IpAddr;

use notify_client::{
    Client, Error,
    notify_core::{Diagnostics, StorageDiagnostics, Timestamp},
};

use super::report::{Finding, Report};
use crate::output::time;

/// Largest difference of two clocks that is none, in milliseconds: a `Date` has whole seconds, and
/// the answer is under way for a while.
const SKEW_MS_MAX: i64 = 30_000;
/// Least room on the disk, in bytes: a server that cannot write accepts nothing.
const FREE_BYTES_MIN: u64 = 1 << 30;
const MIB: u64 = 1 << 20;
/// How long a certificate has to be valid yet, in milliseconds: 14 days. Renewals by ACME come 30 days
/// before the end or earlier.
const CERTIFICATE_LEFT_MS_MIN: i64 = 14 * 86_400_000;
const DAY_MS: u64 = 86_400_000;

/// Whether the server is there, works and has the right time; false when it is not there.
pub(super) async fn reach(notify: &Client, place: &str, report: &mut Report) -> bool {
    match notify.server().ready().await {
        Ok(ready) => {
            report.add(Finding::good("server", "", format!("{place} is ready")));
            if let Some(date) = ready.date {
                report.add(clock(date, now()));
            }
            true
        }
        Err(Error::Server { status: 503, errors, .. }) => {
            let why = if errors.is_empty() { "no reason given".into() } else { errors.join("; ") };
            let mend = errors.first().map_or("look at the server's log", |error| mend_of(error));
            let detail = format!("{place} answers, and is not ready: {why}");
            report.add(Finding::bad("server", "", detail).mend(mend));
            true
        }
        Err(error @ (Error::Connect { .. } | Error::Timeout { .. } | Error::Transport { .. })) => {
            let mend = "start the server, or say where it is: NOTIFY_URL, --server or a profile";
            report.add(Finding::bad("server", "", error.to_string()).mend(mend));
            false
        }
        Err(error) => {
            let mend = "is this address a Notify server's? NOTIFY_URL, --server or a profile say \
                        where it is";
            report.add(Finding::bad("server", "", format!("{place}: {error}")).mend(mend));
            false
        }
    }
}

/// Whether the server is set up well; false when the admin key opens nothing.
pub(super) async fn look(notify: &Client, report: &mut Report) -> bool {
    match notify.admin().diagnostics().await {
        Ok(diagnostics) => {
            judge(&diagnostics, report);
            true
        }
        Err(error @ Error::NoKey(_)) => {
            let mend = "set NOTIFY_ADMIN_KEY or keep one in a profile; without it only the server \
                        is looked at";
            report.add(Finding::bad("admin key", "", error.to_string()).mend(mend));
            false
        }
        Err(error @ Error::OtherKey(_)) => {
            let mend = "set NOTIFY_ADMIN_KEY, or the admin key of the profile, to one";
            report.add(Finding::bad("admin key", "", error.to_string()).mend(mend));
            false
        }
        Err(error @ Error::Unauthorized { .. }) => {
            let mend = "`notify-server admin-key create` on the server makes one";
            report.add(Finding::bad("admin key", "", error.to_string()).mend(mend));
            false
        }
        Err(error) => {
            let finding = Finding::bad("diagnostics", "", error.to_string());
            report.add(finding.mend("look at the server's log"));
            false
        }
    }
}

fn judge(diagnostics: &Diagnostics, report: &mut Report) {
    for obstacle in &diagnostics.obstacles {
        report.add(Finding::bad("work", "", obstacle.clone()).mend(mend_of(obstacle)));
    }
    if diagnostics.obstacles.is_empty() {
        let detail = format!("version {} reads, writes and delivers", diagnostics.version);
        report.add(Finding::good("work", "", detail));
    }
    report.add(settings(&diagnostics.storage));
    report.extend(room(&diagnostics.storage));
    report.add(reachable(&diagnostics.public_url));
    report.extend(certificate(diagnostics.certificate_not_after, diagnostics.at));
    report.extend(leap(diagnostics.clock_leap_ms));
}

/// Poll urls lead to the server: people open them on their phones.
fn reachable(public_url: &str) -> Finding {
    if is_public(host_of(public_url)) {
        return Finding::good("public url", "", public_url);
    }
    let detail = format!("links of polls begin with {public_url}, which phones cannot reach");
    let mend = "set --public-url (NOTIFY_PUBLIC_URL) of the server to its address as phones see it";
    Finding::warning("public url", "", detail).mend(mend)
}

fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    match authority.strip_prefix('[').and_then(|literal| literal.split_once(']')) {
        Some((literal, _)) => literal,
        None => authority.split(':').next().unwrap_or_default(),
    }
}

/// Whether a phone anywhere may find it, as far as a name or an address tells.
fn is_public(host: &str) -> bool {
    match host.parse::<IpAddr>().map(|address| address.to_canonical()) {
        Ok(IpAddr::V4(address)) => {
            !(address.is_loopback()
                || address.is_unspecified()
                || address.is_private()
                || address.is_link_local())
        }
        Ok(IpAddr::V6(address)) => {
            !(address.is_loopback()
                || address.is_unspecified()
                || address.is_unique_local()
                || address.is_unicast_link_local())
        }
        Err(_) => {
            let host = host.trim_end_matches('.');
            let ends = [".localhost", ".local", ".internal", ".home.arpa"];
            host.contains('.') && !ends.iter().any(|end| host.ends_with(end))
        }
    }
}

/// The TLS certificate, where the server has one whose end is known.
fn certificate(not_after: Option<Timestamp>, now: Timestamp) -> Option<Finding> {
    let not_after = not_after?;
    let end = time(not_after);
    let left_ms = not_after.ms_since(now);
    let renew = "renew it, and put the new files where --tls-cert and --tls-key name them: the \
                 server reads them by itself";
    Some(if left_ms < 0 {
        let detail = format!("it expired at {end}: clients refuse to connect");
        Finding::bad("certificate", "", detail).mend(renew)
    } else if left_ms < CERTIFICATE_LEFT_MS_MIN {
        Finding::warning("certificate", "", format!("it expires at {end}")).mend(renew)
    } else {
        Finding::good("certificate", "", format!("it is valid until {end}"))
    })
}

/// A clock that went further than time can have passed.
fn leap(ahead_ms: u64) -> Option<Finding> {
    if ahead_ms == 0 {
        return None;
    }
    let days = ahead_ms / DAY_MS;
    let detail = format!(
        "the server's clock leapt ahead by {days} days: nothing is deleted for its age until that is \
         confirmed"
    );
    let mend = "if it is right, run `notify-server confirm-clock` on the server; if it is wrong, set \
                it and restart the server";
    Some(Finding::bad("clock leap", "", detail).mend(mend))
}

fn mend_of(obstacle: &str) -> &'static str {
    if obstacle.contains("storage") {
        "check that the database is up and its disk has room; the server recovers by itself"
    } else {
        "start the server again, and keep its log: it says what broke"
    }
}

/// What was accepted has to be on disk (B9).
fn settings(storage: &StorageDiagnostics) -> Finding {
    let StorageDiagnostics { backend, journal_mode, synchronous, .. } = storage;
    let is_durable = journal_mode == "wal" && matches!(synchronous.as_str(), "full" | "extra");
    let (detail, mend) = if backend == "sqlite" {
        let detail = format!("sqlite, journal_mode {journal_mode}, synchronous {synchronous}");
        let mend = "the data folder lies on a file system without shared memory or locks (a \
                    network share): move it to a local disk";
        (detail, mend)
    } else {
        let synced = if is_durable { "is" } else { "may not be" };
        let detail = format!("{backend}, what was committed {synced} on its disk");
        let mend = "set fsync, full_page_writes and synchronous_commit to on in PostgreSQL: what \
                    was accepted can be lost otherwise when its machine fails";
        (detail, mend)
    };
    if is_durable {
        Finding::good("storage", "", detail)
    } else {
        Finding::bad("storage", "", detail).mend(mend)
    }
}

fn room(storage: &StorageDiagnostics) -> Option<Finding> {
    let free = storage.free_bytes?;
    let used = storage.database_bytes + storage.log_bytes;
    let detail = format!("{} MiB free, the database has {} MiB", free / MIB, used / MIB);
    Some(if free >= FREE_BYTES_MIN {
        Finding::good("disk", "", detail)
    } else {
        let mend = "make room, or keep less: --keep-outcomes-days, --keep-notifications-days";
        Finding::bad("disk", "", detail).mend(mend)
    })
}

fn clock(server: Timestamp, here: Timestamp) -> Finding {
    let ahead_ms = server.ms_since(here);
    let (seconds, side) =
        (ahead_ms.abs() / 1_000, if ahead_ms < 0 { "behind" } else { "ahead of" });
    let detail = format!("the server is {seconds} s {side} this machine");
    if ahead_ms.abs() <= SKEW_MS_MAX {
        return Finding::good("clock", "", "server and this machine agree");
    }
    let mend = "let both take their time from the network (NTP): Apple and Google refuse tokens \
                of a wrong clock";
    Finding::bad("clock", "", detail).mend(mend)
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
            let finding = clock(here.plus_ms(ahead_ms), here);
            assert_eq!(finding.is_ok(), ok, "{ahead_ms}");
        }
        let finding = clock(here.plus_ms(-90_000), here);
        assert_eq!(finding.detail(), "the server is 90 s behind this machine");
        let finding = clock(here.plus_ms(90_000), here);
        assert_eq!(finding.detail(), "the server is 90 s ahead of this machine");
    }

    #[test]
    fn an_address_that_phones_cannot_reach_is_a_warning() {
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
            assert_eq!(reachable(url).status(), status, "{url}");
        }
    }

    #[test]
    fn a_certificate_is_looked_at_14_days_before_its_end() {
        let now = Timestamp(1_795_219_200_000);
        assert!(certificate(None, now).is_none());
        for (left_ms, status) in [
            (CERTIFICATE_LEFT_MS_MIN, Status::Ok),
            (CERTIFICATE_LEFT_MS_MIN - 1, Status::Warning),
            (-1, Status::Failed),
        ] {
            let finding = certificate(Some(now.plus_ms(left_ms)), now).unwrap();
            assert_eq!(finding.status(), status, "{left_ms}");
        }
    }

    #[test]
    fn a_clock_that_leapt_is_a_failure() {
        assert!(leap(0).is_none());
        let finding = leap(20 * 365 * DAY_MS).unwrap();
        assert!(!finding.is_ok());
        assert!(finding.detail().contains("by 7300 days"), "{}", finding.detail());
    }

    #[test]
    fn storage_is_well_that_waits_for_a_disk_with_room() {
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
            ("postgres", "wal", "full", true, "postgres, what was committed is on its disk"),
            (
                "postgres",
                "wal",
                "off",
                false,
                "postgres, what was committed may not be on its disk",
            ),
            (
                "postgres",
                "wal without fsync",
                "full",
                false,
                "postgres, what was committed may not be on its disk",
            ),
        ] {
            let found = settings(&storage(backend, journal, synchronous, None));
            assert_eq!((found.is_ok(), found.detail()), (ok, detail));
        }
        let room = |free_bytes| room(&storage("sqlite", "wal", "full", free_bytes));
        assert!(room(None).is_none(), "the system does not tell");
        assert!(room(Some(FREE_BYTES_MIN)).unwrap().is_ok());
        let full = room(Some(3 * MIB)).unwrap();
        assert!(!full.is_ok());
        assert_eq!(full.detail(), "3 MiB free, the database has 6 MiB");
    }
}
