//! The program itself: what it prints, its subcommands, its signals.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio};

use rcgen::{CertifiedKey, KeyPair};
use serde_json::Value;

fn notify_server(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_notify-server"));
    command.args(arguments).env_clear().env("NOTIFY_DATA_DIR", folder);
    command.env("NOTIFY_LISTEN", "127.0.0.1:0");
    command
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    notify_server(folder, arguments).output().unwrap()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A running server; killed when a test ends without stopping it.
struct Server {
    process: Child,
    stdout: BufReader<ChildStdout>,
    stderr: BufReader<ChildStderr>,
    /// What was read of its log.
    log: String,
}

impl Server {
    fn start(folder: &Path) -> Self {
        Self::run(&mut notify_server(folder, &[]))
    }

    fn run(command: &mut Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        let stderr = BufReader::new(process.stderr.take().unwrap());
        Self { process, stdout, stderr, log: String::new() }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Waits until it listens; returns its origin.
    fn origin(&mut self) -> String {
        loop {
            let line = self.line();
            assert_ne!(line, "", "it ended before it listened");
            if let Some(origin) = line.strip_prefix("listening on ") {
                return origin.to_owned();
            }
        }
    }

    fn signal(&self, signal: &str) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    /// Reads the log up to a line with that text.
    fn wait_for_log(&mut self, text: &str) {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            assert_ne!(self.stderr.read_line(&mut line).unwrap(), 0, "{text} in {}", self.log);
            self.log.push_str(&line);
        }
    }

    /// Stops it with a signal; returns its exit status and its log.
    fn stop(&mut self, signal: &str) -> (Option<i32>, String) {
        self.signal(signal);
        self.stderr.read_to_string(&mut self.log).unwrap();
        (self.process.wait().unwrap().code(), self.log.clone())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn the_first_start_prints_its_keys_once_and_signals_stop_it_cleanly() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path());
    let (api_key, admin_key) = (server.line(), server.line());
    assert!(api_key.starts_with("api key: nk_"), "{api_key}");
    assert!(admin_key.starts_with("admin key: na_"), "{admin_key}");
    assert!(server.line().starts_with("listening on http://127.0.0.1:"));
    let (status, log) = server.stop("-TERM");
    assert_eq!(status, Some(0), "{log}");
    assert!(!log.contains(&api_key["api key: ".len()..]), "keys are not logged");
    let said = |log: &str, text: &str| log.lines().filter(|line| line.contains(text)).count();
    assert_eq!(said(&log, "they are not shown again"), 1, "{log}");
    let data = format!("data folder {}: ", folder.path().display());
    assert_eq!(said(&log, &format!("{data}new installation")), 1, "{log}");
    assert!(!log.contains("--public-url"), "it is not what a first start needs: {log}");

    let mut server = Server::start(folder.path());
    assert!(server.line().starts_with("listening on http://127.0.0.1:"), "keys are shown once");
    let (status, log) = server.stop("-INT");
    assert_eq!((status, said(&log, "not shown again")), (Some(0), 0), "{log}");
    assert_eq!(said(&log, &format!("{data}existing installation")), 1, "{log}");
}

#[test]
fn applications_and_keys_can_be_created_while_a_server_runs() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path());
    server.origin();
    let app = json(&run(folder.path(), &["app", "create", "shop", "--json"]));
    assert_eq!(app["name"], "shop");
    assert!(app["api_key"].as_str().unwrap().starts_with("nk_"));
    assert!(app.get("admin_key").is_none());
    let key = json(&run(folder.path(), &["admin-key", "create", "--json"]));
    assert!(key["admin_key"].as_str().unwrap().starts_with("na_") && key["id"].is_string());
    let second = run(folder.path(), &["serve"]);
    assert_eq!(second.status.code(), Some(1));
    let words = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(words.contains("error: ") && words.contains("in use by another"), "{words}");
    let refused = run(folder.path(), &["app", "create", ""]);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!((refused.status.code(), &*words), (Some(1), "error: name: is required\n"));
    assert_eq!(server.stop("-TERM").0, Some(0));
}

#[test]
fn the_first_application_of_an_empty_database_comes_with_an_admin_key() {
    let folder = tempfile::tempdir().unwrap();
    let first = json(&run(folder.path(), &["app", "create", "shop", "--json"]));
    assert!(first["admin_key"].as_str().unwrap().starts_with("na_"));
    let mut server = Server::start(folder.path());
    assert!(server.line().starts_with("listening on"), "it stood in for the first start");
    assert_eq!(server.stop("-TERM").0, Some(0));
    let text = run(folder.path(), &["app", "create", "other"]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("name: other\n") && text.contains("api key: nk_"), "{text}");
}

#[test]
fn of_two_concurrent_first_starts_one_serves_with_the_only_key() {
    let folder = tempfile::tempdir().unwrap();
    let mut servers = [Server::start(folder.path()), Server::start(folder.path())];
    let first = servers.each_mut().map(Server::line);
    let winner = first.iter().position(|line| line.starts_with("api key: nk_")).unwrap();
    assert_eq!(first[1 - winner], "", "the other one shows no key");
    let (status, log) = servers[1 - winner].stop("-TERM");
    assert!(status == Some(1) && log.contains("in use by another notify-server"), "{log}");
    assert_eq!(servers[winner].stop("-TERM").0, Some(0));
    let key = std::fs::read(folder.path().join("master.key")).unwrap();
    assert_eq!(key.len(), 45, "32 bytes in base64 and the end of the line");
}

#[test]
fn a_duplicate_application_name_gives_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let create = ["app", "create", "shop"];
    run(folder.path(), &create);
    let second = run(folder.path(), &create);
    let warning = "warning: another application is named `shop`: commands need the id of the one that \
        is meant\n";
    assert_eq!(String::from_utf8_lossy(&second.stderr), warning);
    assert!(second.status.success());
}

#[test]
fn a_subcommand_that_creates_an_installation_prints_its_folder() {
    let app = |name| ["app", "create", name];
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let first = run(&data, &app("shop"));
    let words = String::from_utf8_lossy(&first.stderr).into_owned();
    assert_eq!(words, format!("created an installation in {}\n", data.display()));
    assert!(first.status.success());
    assert_eq!(run(&data, &app("other")).stderr, b"", "this once");
    let folder = tempfile::tempdir().unwrap();
    let mut relative = notify_server(Path::new("here"), &["app", "create", "shop"]);
    let output = relative.current_dir(folder.path()).output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    let absolute = folder.path().canonicalize().unwrap().join("here");
    assert_eq!(words, format!("created an installation in {}\n", absolute.display()));
}

#[test]
fn an_admin_key_is_not_created_without_an_installation() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let refused = run(&data, &["admin-key", "create"]);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    let said = format!("error: there is no installation in {}: give --data-dir\n", data.display());
    assert_eq!((refused.status.code(), words), (Some(1), said));
    assert!(!data.exists());
}

#[test]
fn a_failed_listen_does_not_use_up_the_first_start() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for address in ["nowhere", "8080", ":8080", "127.0.0.1:99999"] {
        for arguments in [["--listen", address].as_slice(), &["sandbox", "--listen", address]] {
            let refused = run(folder.path(), arguments);
            let words = String::from_utf8_lossy(&refused.stderr).into_owned();
            let said =
                format!("error: listen: `{address}` is not HOST:PORT, such as 127.0.0.1:8080\n");
            assert_eq!((refused.status.code(), words), (Some(1), said));
        }
    }
    let sandbox = run(folder.path(), &["sandbox", "--listen", &taken]);
    let words = String::from_utf8_lossy(&sandbox.stderr).into_owned();
    let said = format!("error: cannot listen on {taken}; choose another address with --listen: ");
    assert!(sandbox.status.code() == Some(1) && words.starts_with(&said), "{words}");
    for address in ["localhost.invalid:80", &taken] {
        let refused = run(folder.path(), &["--listen", address]);
        let words = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!((refused.status.code(), &*refused.stdout), (Some(1), &b""[..]), "{words}");
        let said =
            format!("error: cannot listen on {address}; choose another address with --listen: ");
        assert!(words.starts_with(&said), "{words}");
        assert!(!folder.path().join("master.key").exists());
    }
    let mut server = Server::start(folder.path());
    assert!(server.line().starts_with("api key: nk_"), "the first start is still to come");
    assert_eq!(server.stop("-TERM").0, Some(0));
}

#[test]
fn an_address_of_the_console_is_printed_or_reported() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    let refused = run(folder.path(), &["--console-listen", &taken]);
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!((refused.status.code(), &*refused.stdout), (Some(1), &b""[..]), "{words}");
    let said = format!("cannot listen on {taken}; choose another address with --console-listen: ");
    assert!(words.contains(&said), "{words}");
    // The first start is still to come, and its link is for terminals only.
    let mut server =
        Server::run(&mut notify_server(folder.path(), &["--console-listen", "127.0.0.1:0"]));
    assert!(server.line().starts_with("api key: nk_"));
    assert!(server.line().starts_with("admin key: na_"));
    let line = server.line();
    assert!(line.starts_with("console: http://127.0.0.1:") && line.ends_with("/console/"));
    assert!(server.line().starts_with("listening on http://127.0.0.1:"));
    let (status, log) = server.stop("-TERM");
    assert!(status == Some(0) && !log.contains("first?code="), "{log}");
    let off = ["--console", "off", "--console-listen", &taken];
    let mut server = Server::run(&mut notify_server(folder.path(), &off));
    assert!(server.line().starts_with("listening on"), "an address without a console is not used");
    assert_eq!(server.stop("-TERM").0, Some(0));
}

#[test]
fn an_invalid_data_folder_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "no folder").unwrap();
    let words = String::from_utf8(run(&file, &[]).stderr).unwrap();
    let said = "is not a folder: --data-dir takes the folder of the database";
    assert_eq!(words, format!("error: {} {said}\n", file.display()));

    let garbage = "no database, and longer than the head of one. ".repeat(100);
    std::fs::write(folder.path().join("notify.db"), garbage).unwrap();
    let words = String::from_utf8(run(folder.path(), &[]).stderr).unwrap();
    assert_eq!(words.matches("file is not a database").count(), 1, "{words}");
    assert_eq!(words.lines().count(), 1, "{words}");
}

#[test]
fn the_help_of_a_subcommand_lists_only_its_own_flags() {
    let folder = tempfile::tempdir().unwrap();
    let help = |arguments: &[&str]| {
        let output = run(folder.path(), &[arguments, &["--help"]].concat());
        let help = String::from_utf8(output.stdout).unwrap();
        let flags = help.split_whitespace().filter_map(|word| word.strip_prefix("--"));
        flags.map(|flag| flag.split('[').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let database = ["data-dir", "master-key-file", "log", "log-format", "config", "help"];
    assert_eq!(help(&["backup"]), database);
    assert_eq!(help(&["forget-credentials"]), database);
    assert_eq!(help(&["openapi"]), ["help"]);
    let health = ["url", "listen", "tls-cert", "tls-key", "log", "log-format", "config", "help"];
    let mut shown = help(&["healthcheck"]);
    shown.sort_by_key(|flag| health.iter().position(|known| known == flag));
    assert_eq!(shown, health);
    assert!(help(&["serve"]).len() > 20 && help(&[]).len() > 20);
}

/// Answers one request with that status line; returns its address.
fn answering(status: &'static str) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let head = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
        head.take_while(|line| !line.is_empty()).for_each(drop);
        let answer = format!("HTTP/1.1 {status}\r\nlocation: /\r\ncontent-length: 0\r\n\r\n");
        stream.write_all(answer.as_bytes()).unwrap();
    });
    address.to_string()
}

#[test]
fn healthcheck_calls_the_configured_server() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path());
    let origin = server.origin();
    let address = origin.trim_start_matches("http://");
    // Nothing is made or read where it runs.
    let none = folder.path().join("none");
    let check = |arguments: &[&str]| run(&none, &[&["healthcheck"], arguments].concat());
    let said = |output: &Output| String::from_utf8(output.stderr.clone()).unwrap();
    let health = format!("{origin}/healthz");
    for arguments in [["--listen", address], ["--url", &health]] {
        let healthy = check(&arguments);
        assert!(healthy.status.success(), "{arguments:?}: {}", said(&healthy));
        assert!(healthy.stdout.is_empty() && healthy.stderr.is_empty(), "{healthy:?}");
    }
    assert_eq!(server.stop("-TERM").0, Some(0));
    let gone = check(&["--listen", address]);
    assert_eq!(gone.status.code(), Some(1));
    let said_of_gone = said(&gone);
    let expected = format!("error: no answer from http://{address}/readyz: ");
    assert!(said_of_gone.starts_with(&expected), "{said_of_gone}");
    assert!(!none.exists(), "a check leaves nothing behind");

    for status in ["503 Service Unavailable", "302 Found", "204 No Content"] {
        let address = answering(status);
        let unhealthy = check(&["--listen", &address]);
        assert_eq!(unhealthy.status.code(), Some(1), "{status}");
        let expected = format!("error: http://{address}/readyz answered {status}\n");
        assert_eq!(said(&unhealthy), expected);
    }
    // No server has the address of the environment, port 0.
    let unknown = check(&[]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(said(&unknown).contains("give --url"), "{}", said(&unknown));
}

#[test]
fn healthcheck_accepts_the_servers_own_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["push.example.com".into()]).unwrap();
    let certificate = certificate.self_signed(&key).unwrap();
    let (chain, private) = (folder.path().join("tls.pem"), folder.path().join("tls.key"));
    std::fs::write(&chain, certificate.pem()).unwrap();
    std::fs::write(&private, key.serialize_pem()).unwrap();
    let tls = ["--tls-cert", chain.to_str().unwrap(), "--tls-key", private.to_str().unwrap()];
    let mut server = Server::run(&mut notify_server(folder.path(), &tls));
    let origin = server.origin();
    let address = origin.trim_start_matches("https://");
    let own = run(folder.path(), &[&["healthcheck", "--listen", address], &tls[..]].concat());
    assert!(own.status.success(), "{own:?}");
    // With `--url`, the certificate must match the name.
    let url = format!("https://{address}/readyz");
    let named = run(folder.path(), &["healthcheck", "--url", &url]);
    assert_eq!(named.status.code(), Some(1), "{named:?}");
    assert_eq!(server.stop("-TERM").0, Some(0));
}

#[test]
fn a_backup_is_a_complete_database() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path());
    server.origin();
    let copies = tempfile::tempdir().unwrap();
    let copy = copies.path().join("notify.db");
    let copied = run(folder.path(), &["backup", copy.to_str().unwrap()]);
    let words = String::from_utf8_lossy(&copied.stdout).into_owned();
    assert!(copied.status.success() && words.contains("master key"), "{copied:?}");
    let again = run(folder.path(), &["backup", copy.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(1), "nothing is written over");
    assert_eq!(server.stop("-TERM").0, Some(0));
    std::fs::copy(folder.path().join("master.key"), copies.path().join("master.key")).unwrap();
    let mut server = Server::start(copies.path());
    assert!(server.line().starts_with("listening on"), "the copy has the application");
    assert_eq!(server.stop("-TERM").0, Some(0));
}

#[test]
fn openapi_is_printed_and_invalid_settings_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(json(&run(folder.path(), &["openapi"]))["openapi"], "3.1.0");
    let wrong = run(folder.path(), &["--rate-limit", "many"]);
    assert_eq!(wrong.status.code(), Some(1));
    let words = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert_eq!(words, "error: --rate-limit: `many` is not a whole number of 0 or more\n");
}

/// `--database-url` for every subcommand: it works on PostgreSQL, or says why not.
#[cfg(feature = "testing")]
#[test]
fn the_program_works_on_postgresql() {
    let folder = tempfile::tempdir().unwrap();
    let database = notify_server::store::postgres::testing::TestCluster::shared().database();
    let on_postgres = |arguments: &[&str]| {
        let mut command = notify_server(folder.path(), arguments);
        command.env("NOTIFY_DATABASE_URL", database.url());
        command
    };
    let refused = |arguments: &[&str], why: &str| {
        let output = on_postgres(arguments).output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && words.contains(why), "{arguments:?}: {words}");
    };
    refused(&["serve"], "needs a master key of your own");
    refused(&["forget-credentials"], "needs a master key of your own");
    refused(&["backup", "copy.db"], "pg_dump");
    let first = json(&on_postgres(&["app", "create", "shop", "--json"]).output().unwrap());
    assert!(first["admin_key"].as_str().unwrap().starts_with("na_"));

    let serve = || {
        let mut command = on_postgres(&["serve"]);
        command.env("NOTIFY_MASTER_KEY", "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=");
        command
    };
    let mut server = Server::run(&mut serve());
    assert!(server.line().starts_with("listening on"), "the subcommand stood in");
    let mut second = Server::run(&mut serve());
    assert!(second.line().starts_with("listening on"), "several servers share a database");
    let (status, log) = second.stop("-TERM");
    assert_eq!(status, Some(0), "{log}");
    let key = json(&on_postgres(&["admin-key", "create", "--json"]).output().unwrap());
    assert!(key["admin_key"].as_str().unwrap().starts_with("na_"));
    let (status, log) = server.stop("-TERM");
    assert_eq!(status, Some(0), "{log}");
    assert!(log.contains("existing installation"), "{log}");
    assert!(!folder.path().join("notify.db").exists());
}

/// Whether `/readyz` responds with 200 to a client that trusts this certificate.
async fn is_ready(origin: &str, trusted: Option<&CertifiedKey<KeyPair>>) -> bool {
    let mut client = reqwest::Client::builder();
    if let Some(trusted) = trusted {
        let root = reqwest::Certificate::from_pem(trusted.cert.pem().as_bytes()).unwrap();
        client = client.tls_certs_only([root]);
    }
    let response = client.build().unwrap().get(format!("{origin}/readyz")).send().await;
    response.is_ok_and(|response| response.status() == 200)
}

fn made() -> CertifiedKey<KeyPair> {
    rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap()
}

#[tokio::test]
async fn sighup_reloads_the_certificate_and_keeps_the_old_one_when_it_is_invalid() {
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let write = |pair: &CertifiedKey<KeyPair>| {
        std::fs::write(&certificate, pair.cert.pem()).unwrap();
        std::fs::write(&key, pair.signing_key.serialize_pem()).unwrap();
    };
    let (first, second) = (made(), made());
    write(&first);
    std::fs::set_permissions(&key, PermissionsExt::from_mode(0o644)).unwrap();
    let paths = [&certificate, &key].map(|path| path.to_str().unwrap());
    let data = folder.path().join("data");
    let tls = ["--tls-cert", paths[0], "--tls-key", paths[1]];
    let mut server = Server::run(&mut notify_server(&data, &tls));
    let origin = server.origin();
    assert!(is_ready(&origin, Some(&first)).await);
    std::fs::write(&certificate, "no certificate").unwrap();
    server.signal("-HUP");
    server.wait_for_log("the TLS certificate was not reloaded; the server keeps the previous one");
    assert!(server.log.contains("holds no certificate"), "the cause: {}", server.log);
    assert!(server.log.contains("a secret file: chmod 600 it"), "{}", server.log);
    assert!(is_ready(&origin, Some(&first)).await);
    write(&second);
    server.signal("-HUP");
    server.wait_for_log("the TLS certificate was reloaded");
    assert!(is_ready(&origin, Some(&second)).await);
    assert!(!is_ready(&origin, Some(&first)).await, "the first one is gone");
    assert_eq!(server.stop("-TERM").0, Some(0));
}

#[tokio::test]
async fn sighup_without_tls_is_logged_and_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("master.key");
    let mut server = Server::start(folder.path());
    let origin = server.origin();
    for _ in 0..3 {
        server.signal("-HUP");
        server.wait_for_log("nothing to reload: this server has no TLS certificate");
    }
    assert!(is_ready(&origin, None).await);
    assert!(!server.log.contains("chmod 600"), "its own key is private: {}", server.log);
    drop(server);
    std::fs::set_permissions(&key, PermissionsExt::from_mode(0o644)).unwrap();
    let mut server = Server::start(folder.path());
    server.origin();
    server.signal("-HUP");
    server.wait_for_log("nothing to reload");
    assert!(server.log.contains("a secret file: chmod 600 it"), "{}", server.log);
    assert!(server.log.contains("master.key"), "{}", server.log);
}
