//! `PgBouncer` between the server and PostgreSQL.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use url::Url;

use super::super::testing::{as_ordinary_user, free_port};
use super::*;

/// A running `PgBouncer`, which ends when this is dropped.
struct Pooler {
    running: Child,
    url: String,
    _folder: tempfile::TempDir,
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.running.kill();
        let _ = self.running.wait();
    }
}

/// Starts `PgBouncer` before a database, with these settings.
fn start(database: &str, settings: &str) -> Pooler {
    let mut url = Url::parse(database).unwrap();
    let (host, port, user) =
        (url.host_str().unwrap(), url.port().unwrap_or(5_432), url.username().to_owned());
    let folder = tempfile::tempdir().unwrap();
    let listen = free_port();
    let password = url.password().map_or_else(String::new, |word| format!("password={word}"));
    let text = format!(
        "[databases]\n* = host={host} port={port} user={user} {password}\n[pgbouncer]\n\
         listen_addr = 127.0.0.1\nlisten_port = {listen}\nauth_type = any\nunix_socket_dir =\n\
         ignore_startup_parameters = options\n{settings}\n"
    );
    let file = folder.path().join("pgbouncer.ini");
    std::fs::write(&file, text).unwrap();
    let on_path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("pgbouncer");
    // Debian puts it into a folder that the path of an ordinary user does not have.
    command.arg(&file).env("PATH", format!("{on_path}:/usr/sbin"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    as_ordinary_user(&mut command, &[folder.path()]);
    let mut running = command.spawn().expect("PgBouncer is installed (Debian: pgbouncer)");
    let mut log = BufReader::new(running.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(log.any(|line| line.contains("process up")), "PgBouncer does not start");
    std::thread::spawn(move || log.for_each(drop));
    url.set_port(Some(listen)).unwrap();
    Pooler { running, url: url.into(), _folder: folder }
}

#[tokio::test]
async fn a_pooler_must_keep_sessions() {
    let database = TestCluster::shared().database();
    for (settings, is_kept) in [
        ("pool_mode = session", true),
        ("pool_mode = session\nserver_round_robin = 1", true),
        ("pool_mode = transaction", false),
        ("pool_mode = transaction\nmin_pool_size = 5", false),
        ("pool_mode = transaction\nserver_round_robin = 1", false),
        ("pool_mode = transaction\ndefault_pool_size = 1", false),
    ] {
        let pooler = start(&database.url(), settings);
        let url: DatabaseUrl = pooler.url.parse().unwrap();
        let opened = postgres::open(&url, PostgresOptions::default());
        if !is_kept {
            let refused = opened.err().unwrap_or_else(|| panic!("{settings}: it was opened"));
            assert!(matches!(refused, OpenError::NoSessions { .. }), "{settings}: {refused:?}");
            assert!(refused.to_string().contains("pool_mode = session"), "{refused}");
            continue;
        }
        let store = opened.unwrap_or_else(|error| panic!("{settings}: {error:?}"));
        assert!(store.keeps_sessions().await.unwrap(), "{settings}");
        let app = fixtures::app(&store).await;
        let listening = store.list_apps(fixtures::page(10)).await.unwrap();
        assert!(!listening.rows.is_empty(), "{app:?}");
        store.close().await;
    }
}

/// A pooler can be reconfigured while the server runs.
#[tokio::test]
async fn a_running_server_notices_that_sessions_are_not_kept() {
    let database = TestCluster::shared().database();
    let store = postgres::open(&database.url().parse().unwrap(), PostgresOptions::default());
    assert!(store.unwrap().keeps_sessions().await.unwrap());
    let pooler = start(&database.url(), "pool_mode = transaction");
    let check = || {
        let target = ConnectConfig::of(&pooler.url.parse().unwrap()).unwrap();
        postgres::pooler::keeps_sessions(&target).unwrap()
    };
    assert!(!std::thread::scope(|scope| scope.spawn(check).join()).unwrap());
}
