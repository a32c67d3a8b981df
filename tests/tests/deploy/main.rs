//! The files that run Notify (Dockerfile, compose.yaml, `deploy/`) match the server.
//! `scripts/lint-deploy.sh` checks their syntax.

mod metrics;
mod packages;
mod running;
mod system_calls;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify_server::cli;
use notify_server::config::Config;

/// The time that pods wait before they get SIGTERM.
const PRE_STOP: Duration = Duration::from_secs(5);
/// The time that an end takes in addition to the grace period, for closing connections and storage.
const ENDING: Duration = Duration::from_secs(5);
/// The user of the image: `nonroot` of distroless.
const IMAGE_USER: &str = "65532";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package has a parent").to_owned()
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// All files that run Notify, by name.
fn files() -> Vec<(String, String)> {
    let mut found = vec!["Dockerfile".to_owned(), "compose.yaml".to_owned()];
    let mut folders = vec!["deploy".to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).expect("the folder is read") {
            let entry = entry.expect("the entry is read");
            let name = format!("{folder}/{}", entry.file_name().to_str().expect("UTF-8"));
            let is_folder = entry.path().is_dir();
            // A deployment from this checkout may have created secrets, which are not among these files.
            match (is_folder, name.as_str()) {
                (_, "deploy/compose/secrets") => {}
                (true, _) => folders.push(name),
                (false, _) => found.push(name),
            }
        }
    }
    found.sort();
    found.into_iter().map(|name| (name.clone(), read(&name))).collect()
}

/// The texts after a prefix of a line, in all files, without those that Helm computes.
fn values(word: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (name, text) in files() {
        for line in text.lines() {
            let line = line.trim_start().trim_start_matches("- ");
            if let Some(value) = line.strip_prefix(word).filter(|value| !value.contains("{{")) {
                found.push((name.clone(), value.trim().trim_matches('"').to_owned()));
            }
        }
    }
    found
}

/// The names in a text that start with a prefix.
fn names(text: &str, prefix: &str) -> BTreeSet<String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let begin = text.match_indices(prefix).filter(|(at, _)| !text[..*at].ends_with(is_part));
    let whole = begin.map(|(at, _)| text[at..].split(|letter| !is_part(letter)).next());
    whole.flatten().map(str::to_owned).filter(|name| name != prefix).collect()
}

#[test]
fn every_variable_is_a_setting() {
    let document = read("docs/configuration.md");
    let rows = document.lines().filter_map(|line| line.strip_prefix("| `--"));
    let rows = rows.filter_map(|row| row.split(['`', ' ']).next());
    let mut settings: BTreeSet<_> =
        rows.map(|name| format!("NOTIFY_{}", name.replace('-', "_").to_uppercase())).collect();
    settings.extend(["NOTIFY_MASTER_KEY", "NOTIFY_CONFIG"].map(str::to_owned));
    let mut used = BTreeSet::new();
    for (file, text) in files() {
        for name in names(&text, "NOTIFY_") {
            assert!(settings.contains(&name), "{file}: {name} is no setting");
            used.insert(name);
        }
    }
    assert!(used.contains("NOTIFY_LISTEN") && used.contains("NOTIFY_PUBLIC_URL"), "{used:?}");
}

/// Behind a proxy that is not trusted, all phones share the rate limits of one client.
#[test]
fn every_way_to_run_it_names_the_trusted_proxies() {
    const SETTING: &str = "NOTIFY_TRUSTED_PROXIES";
    for file in [
        "compose.yaml",
        "deploy/debian/README.Debian",
        "deploy/debian/notify.env",
        "deploy/helm/notify/templates/NOTES.txt",
        "deploy/helm/notify/values.yaml",
        "docs/self-hosting.md",
    ] {
        assert!(read(file).contains(SETTING), "{file}");
    }
    let document = read("docs/operations.md");
    for way in ["Debian", "systemd", "A container", "Compose", "Kubernetes"] {
        let (_, section) = document.split_once(&format!("\n### {way}\n")).expect("a section");
        let section = section.split("\n## ").next().unwrap_or_default();
        let section = section.split("\n### ").next().unwrap_or_default();
        assert!(section.contains(SETTING), "{way}");
    }
}

/// Parses seconds such as `45` or `45s`.
fn seconds(text: &str) -> Duration {
    let number = text.trim_end_matches('s').parse();
    Duration::from_secs(number.unwrap_or_else(|error| panic!("{text}: {error}")))
}

#[test]
fn the_stop_timeout_exceeds_the_servers_grace() {
    let grace = Config::default().shutdown_grace.0;
    for (file, span) in values("NOTIFY_SHUTDOWN_GRACE:") {
        assert_eq!(seconds(&span), grace, "{file}");
    }
    let pods = values("terminationGracePeriodSeconds:");
    assert!(!pods.is_empty());
    for (file, span) in pods {
        assert!(seconds(&span) >= PRE_STOP + grace + ENDING, "{file}: {span}");
    }
    let containers = values("stop_grace_period:");
    let units = values("TimeoutStopSec=");
    assert!(!containers.is_empty() && !units.is_empty());
    for (file, span) in containers.into_iter().chain(units) {
        assert!(seconds(&span) >= grace + ENDING, "{file}: {span}");
    }
}

/// The number of open files in addition to the clients' connections.
const FILES_RESERVE: usize = 1_024;

#[test]
fn the_open_file_limit_covers_every_connection_and_is_the_same_everywhere() {
    let needed = Config::default().max_connections + FILES_RESERVE;
    let (units, containers) = (values("LimitNOFILE="), values("nofile:"));
    assert!(!units.is_empty() && !containers.is_empty());
    let limit = units[0].1.clone();
    assert!(limit.parse::<usize>().is_ok_and(|limit| limit >= needed), "{limit} of {needed}");
    for (file, other) in units.into_iter().chain(containers) {
        assert_eq!(other, limit, "{file}");
    }
    let operations = read("docs/operations.md");
    let runs = operations.lines().filter(|line| line.starts_with("docker run -d"));
    let flag = format!("--ulimit nofile={limit}:{limit}");
    let limited: Vec<bool> = runs.map(|line| line.contains(&flag)).collect();
    assert!(!limited.is_empty() && limited.iter().all(|limited| *limited), "{flag}");
}

#[test]
fn listen_expose_and_healthcheck_name_one_port() {
    let dockerfile = read("Dockerfile");
    let (_, listen) = dockerfile.split_once("NOTIFY_LISTEN=0.0.0.0:").expect("it listens");
    let port = listen.split(' ').next().expect("a port");
    for (word, expected) in [
        ("EXPOSE ", port.to_owned()),
        ("NOTIFY_LISTEN:", format!("0.0.0.0:{port}")),
        ("containerPort:", port.to_owned()),
        ("prometheus.io/port:", port.to_owned()),
        ("ports: [\"127.0.0.1:", format!("{port}:{port}\"]")),
    ] {
        let found = values(word);
        assert!(!found.is_empty(), "nowhere: {word}");
        for (file, value) in found {
            assert_eq!(value.trim_matches('"'), expected.trim_matches('"'), "{file}: {word}");
        }
    }
}

#[test]
fn no_service_runs_as_root_or_writes_outside_the_data_folder() {
    assert_eq!(values("USER "), [("Dockerfile".to_owned(), format!("{IMAGE_USER}:{IMAGE_USER}"))]);
    assert!(read("Dockerfile").contains(&format!("--chown={IMAGE_USER}:{IMAGE_USER}")));
    let only = |value: &str| {
        [("deploy/helm/notify/templates/deployment.yaml".to_owned(), value.to_owned())]
    };
    for word in ["runAsUser:", "runAsGroup:", "fsGroup:"] {
        assert_eq!(values(word), only(IMAGE_USER), "{word}");
    }
    for (word, value) in [
        ("runAsNonRoot:", "true"),
        ("readOnlyRootFilesystem:", "true"),
        ("allowPrivilegeEscalation:", "false"),
        ("drop:", "[ALL]"),
    ] {
        assert_eq!(values(word), only(value), "{word}");
    }
    let compose = read("compose.yaml");
    let (server, database) = compose.split_once("\n  postgres:\n").expect("two services");
    for line in ["read_only: true", "cap_drop: [ALL]"] {
        assert!(server.contains(line), "{line}");
    }
    let (_, service) = server.split_once("\n  notify:\n").expect("the server's");
    for part in [service, database] {
        assert!(part.contains("no-new-privileges:true"));
    }
    let user = read("deploy/systemd/notify.service");
    let user = user.lines().find_map(|line| line.strip_prefix("User=")).expect("a user");
    let made = read("deploy/systemd/notify.sysusers");
    assert!(made.lines().any(|line| line.starts_with(&format!("u {user} - "))), "{user}");
}

#[test]
fn the_binary_accepts_the_commands() {
    let mut commands = Vec::new();
    for (file, value) in values("ExecStart=").into_iter().chain(values("ENTRYPOINT ")) {
        commands.push((file, value));
    }
    let healthcheck = values("CMD ");
    assert_eq!(healthcheck.len(), 1, "{healthcheck:?}");
    commands.extend(healthcheck);
    for (file, command) in commands {
        // The unit of the backup needs a shell for the time in the name of the file.
        let command = command.strip_prefix("/bin/sh -c 'exec ").unwrap_or(&command);
        let words = command.replace(['[', ']', '"', ',', '\''], " ");
        // Without the command that prints the time, which contains a blank.
        let words = words.replace("$$(date -u ", "");
        let words: Vec<_> = words.split_whitespace().collect();
        assert_eq!(words.first(), Some(&"/usr/bin/notify-server"), "{file}");
        let parsed = cli::command().try_get_matches_from(words);
        assert!(parsed.is_ok(), "{file}: {command}: {parsed:?}");
    }
}

#[test]
fn images_have_known_names_and_a_recent_toolchain() {
    let mut images: Vec<_> = values("FROM ").into_iter().map(|(_, image)| image).collect();
    images.extend(values("image:").into_iter().map(|(_, image)| image));
    // A chart has a section of that name.
    images.retain(|image| !image.is_empty());
    assert!(images.len() >= 4, "{images:?}");
    for image in &images {
        let name = image.split([':', ' ']).next().unwrap_or_default();
        let is_usual = matches!(name, "notify" | "postgres" | "rust" | "debian")
            || name.starts_with("gcr.io/distroless/");
        assert!(is_usual, "{image}");
        assert!(name == "notify" || image.contains(':'), "{image}: which one?");
    }
    let minor = |text: &str| -> u32 {
        let minor = text.split('.').nth(1).and_then(|rest| rest.split(['-', '"']).next());
        minor.and_then(|minor| minor.parse().ok()).unwrap_or_else(|| panic!("{text}"))
    };
    let builds = images.iter().find_map(|image| image.strip_prefix("rust:")).expect("it builds");
    let manifest = read("Cargo.toml");
    let needs = manifest.lines().find_map(|line| line.strip_prefix("rust-version = "));
    assert!(minor(builds) >= minor(needs.expect("the least version")), "{builds}");
}

#[test]
fn everything_that_operations_names_exists() {
    let document = read("docs/operations.md");
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "/.-_".contains(letter);
    let mut paths = BTreeSet::new();
    for (at, _) in document.match_indices("deploy/") {
        let path = document[at..].split(|letter| !is_part(letter)).next().unwrap_or_default();
        assert!(root().join(path).exists(), "{path}");
        paths.insert(path);
    }
    assert!(paths.len() >= 5, "{paths:?}");
    // The grace period of a container that is started by hand.
    let (_, rest) =
        document.split_once("--stop-timeout ").expect("the command sets a stop timeout");
    let grace = rest.split(' ').next().expect("seconds");
    assert!(seconds(grace) >= Config::default().shutdown_grace.0 + ENDING, "{grace}");
}
