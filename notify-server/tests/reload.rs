//! SIGHUP to the program itself: it never ends the process, and has the TLS certificate read again.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use rcgen::{CertifiedKey, KeyPair};

/// A running server; killed when a test ends.
struct Server {
    process: Child,
    origin: String,
    log: BufReader<ChildStderr>,
    /// What was logged so far.
    said: String,
}

impl Server {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_notify-server"));
        command.args(["--listen", "127.0.0.1:0", "--data-dir"]).arg(folder).args(arguments);
        command.env_clear().stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut origins = lines
            .map_while(|line| Some(line.ok()?.strip_prefix("listening on ").map(str::to_owned)));
        let origin = origins.by_ref().flatten().next().unwrap();
        let log = BufReader::new(process.stderr.take().unwrap());
        Self { process, origin, log, said: String::new() }
    }

    fn signal(&self, signal: &str) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    /// Reads the log until a line says so; a log that ends before fails.
    fn says(&mut self, text: &str) {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            assert_ne!(self.log.read_line(&mut line).unwrap(), 0, "{text} in {}", self.said);
            self.said.push_str(&line);
        }
    }

    async fn is_ready(&self, trusted: Option<&CertifiedKey<KeyPair>>) -> bool {
        let mut client = reqwest::Client::builder();
        if let Some(trusted) = trusted {
            let root = reqwest::Certificate::from_pem(trusted.cert.pem().as_bytes()).unwrap();
            client = client.tls_certs_only([root]);
        }
        let url = format!("{}/readyz", self.origin);
        let answer = client.build().unwrap().get(url).send().await;
        answer.is_ok_and(|answer| answer.status() == 200)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn made() -> CertifiedKey<KeyPair> {
    rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap()
}

#[tokio::test]
async fn a_hangup_has_the_certificate_read_again_and_a_bad_one_changes_nothing() {
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
    let mut server = Server::start(&data, &["--tls-cert", paths[0], "--tls-key", paths[1]]);
    assert!(server.is_ready(Some(&first)).await);
    std::fs::write(&certificate, "no certificate").unwrap();
    server.signal("-HUP");
    server.says("the TLS certificate was not reloaded; the server keeps the previous one");
    assert!(server.said.contains("holds no certificate"), "the cause: {}", server.said);
    assert!(server.said.contains("a secret file: chmod 600 it"), "{}", server.said);
    assert!(server.is_ready(Some(&first)).await);
    write(&second);
    server.signal("-HUP");
    server.says("the TLS certificate was reloaded");
    assert!(server.is_ready(Some(&second)).await);
    assert!(!server.is_ready(Some(&first)).await, "the one before is gone");
    server.signal("-TERM");
    assert_eq!(server.process.wait().unwrap().code(), Some(0));
}

#[tokio::test]
async fn a_hangup_without_tls_is_logged_and_harmless() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("master.key");
    let mut server = Server::start(folder.path(), &[]);
    for _ in 0..3 {
        server.signal("-HUP");
        server.says("nothing to reload: this server has no TLS certificate");
    }
    assert!(server.is_ready(None).await);
    assert!(!server.said.contains("chmod 600"), "its own key is private: {}", server.said);
    drop(server);
    std::fs::set_permissions(&key, PermissionsExt::from_mode(0o644)).unwrap();
    let mut server = Server::start(folder.path(), &[]);
    server.signal("-HUP");
    server.says("nothing to reload");
    assert!(server.said.contains("a secret file: chmod 600 it"), "{}", server.said);
    assert!(server.said.contains("master.key"), "{}", server.said);
}
