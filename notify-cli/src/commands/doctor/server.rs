//! The server: whether it is there, works, tells the time, and keeps what it is given.

use notify_client::{
    Client, Error,
    notify_core::{Diagnostics, StorageDiagnostics, Timestamp},
};

use super::report::{Finding, Report};
use super::said;

/// Largest difference of two clocks that is none, in milliseconds: a `Date` has whole seconds, and
/// the answer is under way for a while.
const SKEW_MS_MAX: i64 = 30_000;
/// Least room on the disk, in bytes: a server that cannot write accepts nothing.
const FREE_BYTES_MIN: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// Whether the server is there, works and has the right time; false when it is not there.
pub(super) async fn reach(notify: &Client, report: &mut Report) -> bool {
    match notify.server().ready().await {
        Ok(ready) => {
            report.add(Finding::good("server", "", "it is ready"));
            if let Some(date) = ready.date {
                report.add(clock(date, now()));
            }
            true
        }
        Err(Error::Server { status: 503, .. }) => {
            let mend = "the checks below and the server's log say what it lacks";
            report.add(Finding::bad("server", "", "it answers, and is not ready").mend(mend));
            true
        }
        Err(error @ (Error::Connect(_) | Error::Timeout(_) | Error::Transport(_))) => {
            let mend = "start the server, or say where it is: NOTIFY_URL, --server or a profile";
            report.add(Finding::bad("server", "", said(&error)).mend(mend));
            false
        }
        Err(error) => {
            let mend = "is this address a Notify server's? NOTIFY_URL, --server or a profile say \
                        where it is";
            report.add(Finding::bad("server", "", said(&error)).mend(mend));
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
            report.add(Finding::bad("admin key", "", said(&error)).mend(mend));
            false
        }
        Err(error @ Error::Unauthorized { .. }) => {
            let mend = "`notify-server admin-key create` on the server makes one";
            report.add(Finding::bad("admin key", "", said(&error)).mend(mend));
            false
        }
        Err(error) => {
            let finding = Finding::bad("diagnostics", "", said(&error));
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
}

fn mend_of(obstacle: &str) -> &'static str {
    if obstacle.contains("storage") {
        "make room on the server's disk and look at its log; it goes on by itself"
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
    let detail = format!("the server is {} s ahead of this machine", ahead_ms / 1_000);
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
    use super::*;

    #[test]
    fn clocks_may_differ_by_half_a_minute() {
        let here = Timestamp(1_795_219_200_000);
        for (ahead_ms, ok) in [(0, true), (30_000, true), (-30_000, true), (31_000, false)] {
            let finding = clock(here.plus_ms(ahead_ms), here);
            assert_eq!(finding.is_ok(), ok, "{ahead_ms}");
        }
        let finding = clock(here.plus_ms(-90_000), here);
        assert_eq!(finding.detail(), "the server is -90 s ahead of this machine");
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
