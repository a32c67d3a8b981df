//! Checks of the server: health, storage, public url, certificate and clock.

use super::clock::check_provider_clock;
use super::hints::PROXY_HINT;
use super::{Finding, Unavailable};
use crate::{
    Diagnostics, EgressProxyDiagnostics, PendingErasures, RefusedCalls, StorageDiagnostics,
    Timestamp, address, pluralize, time::DAY_MS,
};

/// Minimum free disk space, in bytes. A server that cannot write accepts no notifications.
const FREE_BYTES_MIN: u64 = 1 << 30;
const MIB: u64 = 1 << 20;
/// Minimum remaining validity of a certificate, in milliseconds: 14 days. ACME renews certificates at
/// least 30 days before they expire.
const CERTIFICATE_LEFT_MS_MIN: i64 = 14 * DAY_MS;

/// How long the removal of erased ids from stored requests takes at most, in milliseconds: one day.
const ERASURE_MS_MAX: i64 = DAY_MS;

/// How long a refused call remains a warning, in milliseconds: one day.
const REFUSED_MS_MAX: i64 = DAY_MS;

/// What is known about the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFacts {
    /// Answer of `GET /admin/v1/diagnostics`.
    pub diagnostics: Result<Diagnostics, Unavailable>,
}

/// Checks whether the server works and can store data, its public url, its certificate and its clock.
#[must_use]
pub fn check_server(facts: &ServerFacts) -> Vec<Finding> {
    match &facts.diagnostics {
        Ok(diagnostics) => check_diagnostics(diagnostics),
        Err(unavailable) => vec![Finding::unavailable("diagnostics", "", unavailable)],
    }
}

/// The findings about the server's configuration and health.
fn check_diagnostics(diagnostics: &Diagnostics) -> Vec<Finding> {
    let Diagnostics { obstacles, storage, .. } = diagnostics;
    let mut findings: Vec<Finding> = obstacles
        .iter()
        .map(|obstacle| {
            Finding::failed("work", "", obstacle).with_hint(hint_for_obstacle(obstacle))
        })
        .collect();
    if obstacles.is_empty() {
        let detail = format!("version {} reads, writes and delivers", diagnostics.version);
        findings.push(Finding::passed("work", "", detail));
    }
    findings.push(check_durability(storage));
    findings.extend(check_disk_space(storage));
    findings.extend(storage.foreign_roles.and_then(check_roles));
    findings.push(check_public_url(&diagnostics.public_url));
    findings.extend(check_certificate(diagnostics.certificate_not_after, diagnostics.at));
    findings.extend(check_clock_jump(diagnostics.clock_leap_ms));
    findings.extend(check_provider_clock(diagnostics.clock_ahead_ms));
    findings.extend(diagnostics.egress_proxy.as_ref().map(check_egress_proxy));
    findings.extend(
        diagnostics.pending_erasures.and_then(|pending| check_erasures(pending, diagnostics.at)),
    );
    let refused = diagnostics.refused_calls.iter();
    findings.extend(refused.map(|refused| check_refused(refused, diagnostics.at)));
    findings
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
    let end = not_after.to_rfc3339();
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
    let days = ahead_ms / DAY_MS.unsigned_abs();
    let detail = format!(
        "the server's clock jumped ahead by {}: the server deletes nothing by age until an operator \
         confirms the clock",
        pluralize(days, "day")
    );
    let hint = "if the clock is right, run `notify-server confirm-clock` on the server's machine; if \
                not, set it and restart the server";
    Some(Finding::failed("clock leap", "", detail).with_hint(hint))
}

/// Checks that the last connection did not fail because of the proxy.
fn check_egress_proxy(proxy: &EgressProxyDiagnostics) -> Finding {
    const CHECK: &str = "egress proxy";
    match &proxy.failure {
        Some(failure) => Finding::failed(CHECK, "", failure).with_hint(PROXY_HINT),
        None => {
            let detail = format!("outgoing connections use the proxy {}", proxy.address);
            Finding::passed(CHECK, "", detail)
        }
    }
}

/// A finding if ids of erased devices and users are still being removed from stored requests.
fn check_erasures(pending: PendingErasures, now: Timestamp) -> Option<Finding> {
    let PendingErasures { ids, oldest_at, requests_left } = pending;
    let oldest_at = oldest_at.filter(|_| ids > 0)?;
    let detail = format!(
        "{} of erased devices and users {} still being removed from stored requests; {} left to search",
        pluralize(ids, "id"),
        if ids == 1 { "is" } else { "are" },
        pluralize(requests_left, "request"),
    );
    Some(if now.ms_since(oldest_at) <= ERASURE_MS_MAX {
        Finding::passed("erasures", "", detail)
    } else {
        let hint = "look for warnings about erased ids in the server's log; the server continues on its own";
        let detail = format!("{detail}; the oldest erasure was at {}", oldest_at.to_rfc3339());
        Finding::warning("erasures", "", detail).with_hint(hint)
    })
}

/// A finding about calls of apps and browsers that a rate limit refused.
fn check_refused(refused: &RefusedCalls, now: Timestamp) -> Finding {
    const CHECK: &str = "refused calls";
    let RefusedCalls { app_name, device, address, application, last_at, untrusted_proxy, .. } =
        refused;
    let limits = [
        (*device, "one device"),
        (*address, "one client address"),
        (*application, "registrations of the application"),
    ];
    let counts = limits.into_iter().filter(|(calls, _)| *calls > 0);
    let counts: Vec<String> =
        counts.map(|(calls, limit)| format!("{calls} by the limit of {limit}")).collect();
    let detail = format!(
        "{} of apps and browsers got 429 since the server started, the last one at {}; refused: {}",
        pluralize(device + address + application, "call"),
        last_at.to_rfc3339(),
        counts.join(", ")
    );
    if now.ms_since(*last_at) > REFUSED_MS_MAX {
        return Finding::passed(CHECK, app_name, detail);
    }
    let most = *device.max(address).max(application);
    let hint = if *address == most {
        match untrusted_proxy {
            Some(proxy) => format!(
                "all clients of the proxy {proxy} count as one address: if the proxy is yours, add it to \
                 --trusted-proxies"
            ),
            None => {
                "if many phones share an address, raise --web-address-requests-per-minute; a proxy in front \
                 of the server must send X-Forwarded-For and be in --trusted-proxies"
                    .to_owned()
            }
        }
    } else if *application == most {
        "raise --web-subscriptions-per-minute; if strangers registered devices, see `docs/apps.md`"
            .to_owned()
    } else {
        "find out why one device calls so often, or raise --web-requests-per-minute".to_owned()
    };
    Finding::warning(CHECK, app_name, detail).with_hint(hint)
}

/// The remedy for an obstacle that the server reports: a line of [`Diagnostics::obstacles`], or of the
/// answer of `/readyz`.
#[must_use]
pub fn hint_for_obstacle(obstacle: &str) -> &'static str {
    if obstacle.contains("pooler") {
        "set pool_mode = session in PgBouncer for this database, or connect to PostgreSQL itself, and \
         restart the server; until then, requests fail"
    } else if obstacle.contains("storage") {
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

/// A finding if roles of PostgreSQL other than the server's may connect to the database.
fn check_roles(foreign_roles: u64) -> Option<Finding> {
    if foreign_roles == 0 {
        return None;
    }
    let detail = format!(
        "{} of PostgreSQL other than the server's may connect to the database, and can stop all writes",
        pluralize(foreign_roles, "role")
    );
    let hint = "as the owner of the database, run `revoke connect on database … from public`, and grant it to \
                the roles that need it; roles that you grant it to remain in this warning";
    Some(Finding::warning("roles", "", detail).with_hint(hint))
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

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

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
    fn erased_ids_are_shown_and_a_warning_after_a_day() {
        let now = Timestamp(10 * DAY_MS);
        let check = |ids, oldest_at| {
            let pending = PendingErasures { ids, oldest_at, requests_left: 2_000 };
            check_erasures(pending, now)
        };
        assert!(check(0, None).is_none());
        let recent = check(1, Some(now.plus_ms(-DAY_MS))).unwrap();
        assert!(recent.is_ok());
        assert_eq!(
            recent.detail(),
            "1 id of erased devices and users is still being removed from stored requests; \
             2000 requests left to search"
        );
        let old = check(2, Some(now.plus_ms(-DAY_MS - 1))).unwrap();
        assert_eq!(old.status(), Status::Warning);
        assert!(old.detail().contains("2 ids") && old.hint().is_some(), "{old:?}");
    }

    #[test]
    fn refused_calls_are_a_warning_for_a_day() {
        let now = Timestamp(10 * DAY_MS);
        let refused = RefusedCalls {
            app_id: "0190a7c0-0000-7000-8000-00000000ffff".parse().unwrap(),
            app_name: "Shop".to_owned(),
            device: 0,
            address: 2,
            application: 0,
            last_at: now,
            untrusted_proxy: None,
        };
        let found = check_refused(&refused, now.plus_ms(REFUSED_MS_MAX));
        assert_eq!((found.status(), found.about()), (Status::Warning, "Shop"));
        assert_eq!(
            found.detail(),
            "2 calls of apps and browsers got 429 since the server started, the last one at \
             1970-01-11T00:00:00Z; refused: 2 by the limit of one client address"
        );
        assert!(check_refused(&refused, now.plus_ms(REFUSED_MS_MAX + 1)).hint().is_none());
        let mixed = RefusedCalls { device: 4, application: 3, ..refused.clone() };
        assert!(check_refused(&mixed, now).detail().ends_with(
            "refused: 4 by the limit of one device, 2 by the limit of one client address, \
             3 by the limit of registrations of the application"
        ));
        let hint = |refused: RefusedCalls| check_refused(&refused, now).hint().unwrap().to_owned();
        let proxied =
            RefusedCalls { untrusted_proxy: Some("10.0.0.7".to_owned()), ..refused.clone() };
        for (refused, word) in [
            (refused.clone(), "--web-address-requests-per-minute"),
            (RefusedCalls { device: 3, ..refused.clone() }, "--web-requests-per-minute"),
            (RefusedCalls { application: 3, ..refused }, "--web-subscriptions-per-minute"),
            (mixed, "--web-requests-per-minute"),
            (proxied.clone(), "10.0.0.7"),
            (RefusedCalls { device: 3, ..proxied.clone() }, "--web-requests-per-minute"),
            (RefusedCalls { application: 3, ..proxied }, "--web-subscriptions-per-minute"),
        ] {
            assert!(hint(refused.clone()).contains(word), "{refused:?}");
        }
    }

    #[test]
    fn a_clock_that_jumped_ahead_is_a_failure() {
        assert!(check_clock_jump(0).is_none());
        let finding = check_clock_jump(20 * 365 * DAY_MS.unsigned_abs()).unwrap();
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
                foreign_roles: None,
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

    #[test]
    fn roles_other_than_the_servers_are_a_warning() {
        assert!(check_roles(0).is_none());
        let finding = check_roles(1).unwrap();
        assert_eq!(finding.status(), Status::Warning);
        assert_eq!(
            finding.detail(),
            "1 role of PostgreSQL other than the server's may connect to the database, and can stop \
             all writes"
        );
        assert!(check_roles(2).unwrap().detail().starts_with("2 roles of PostgreSQL other than"));
        assert!(finding.hint().unwrap().contains("revoke connect on database"));
    }

    #[test]
    fn an_obstacle_is_a_failure_and_replaces_the_confirmation() {
        let checks = |diagnostics| {
            let findings = check_server(&ServerFacts { diagnostics });
            let found = findings.iter().map(|finding| (finding.check(), finding.is_ok()));
            found.collect::<Vec<_>>()
        };
        let mut diagnostics = Diagnostics {
            version: "1.0.0".to_owned(),
            at: Timestamp(1_795_219_200_000),
            public_url: "https://push.shop.io".to_owned(),
            obstacles: vec![],
            storage: StorageDiagnostics {
                backend: "sqlite".to_owned(),
                journal_mode: "wal".to_owned(),
                synchronous: "full".to_owned(),
                database_bytes: 0,
                log_bytes: 0,
                free_bytes: None,
                foreign_roles: None,
            },
            certificate_not_after: None,
            clock_leap_ms: 0,
            clock_ahead_ms: None,
            egress_proxy: None,
            started_at: None,
            servers: None,
            pending_erasures: None,
            refused_calls: vec![],
        };
        let (storage, url) = (("storage", true), ("public url", true));
        assert_eq!(checks(Ok(diagnostics.clone())), [("work", true), storage, url]);
        for (failure, is_ok) in
            [(None, true), (Some("the proxy a.example:3128 fails".to_owned()), false)]
        {
            let proxy = EgressProxyDiagnostics { address: "a.example:3128".to_owned(), failure };
            let with_proxy = Diagnostics {
                egress_proxy: Some(proxy),
                clock_ahead_ms: Some(1_000),
                ..diagnostics.clone()
            };
            let expected =
                [("work", true), storage, url, ("provider clock", true), ("egress proxy", is_ok)];
            assert_eq!(checks(Ok(with_proxy)), expected);
        }
        diagnostics.obstacles = vec!["storage: it is full".to_owned(), "delivery".to_owned()];
        let expected = [("work", false), ("work", false), storage, url];
        assert_eq!(checks(Ok(diagnostics)), expected);
        assert_eq!(checks(Err(Unavailable::new("http_500"))), [("diagnostics", false)]);
    }
}
