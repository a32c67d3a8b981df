//! A running server has the paths that the deployment files use.

use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result, ensure};
use http::Method;
use notify_server::config::{Config, Sources};
use notify_tests::{Launch, TestServer, binary};

use super::{names, read, root, values};

#[tokio::test]
async fn probes_and_metrics_respond() -> Result<()> {
    let server = TestServer::start().await;
    let caller = server.caller();
    let mut asked: Vec<_> = values("path: /").into_iter().map(|(_, path)| path).collect();
    // Volume mounts also have paths, but the manifests write them differently. This search finds only HTTP
    // paths.
    ensure!(asked.len() >= 3, "{asked:?}");
    asked.extend(values("prometheus.io/path: /").into_iter().map(|(_, path)| path));
    for path in &asked {
        let reply = caller.send(&Method::GET, &format!("/{path}"), "").await?;
        ensure!(reply.status == 200, "/{path}: {}", reply.status);
    }
    let metrics = caller.send(&Method::GET, "/metrics", "").await?.text;
    let mut wanted = names(&read("deploy/prometheus/prometheus-adapter.yaml"), "notify_");
    let chart = "deploy/helm/notify/templates/horizontalpodautoscaler.yaml";
    wanted.extend(names(&read(chart), "notify_"));
    ensure!(wanted.len() == 1, "{wanted:?}");
    for name in wanted {
        ensure!(metrics.contains(&format!("# TYPE {name} gauge\n")), "{name} is no gauge");
    }
    server.stop().await;
    Ok(())
}

fn make_secrets(folder: &Path) -> Result<()> {
    let status = Command::new("sh").arg(folder.join("secrets.sh")).status()?;
    ensure!(status.success(), "{status}");
    Ok(())
}

#[tokio::test]
async fn the_secrets_of_compose_are_created_once_and_used() -> Result<()> {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir()?;
    std::fs::copy(root().join("deploy/compose/secrets.sh"), folder.path().join("secrets.sh"))?;
    make_secrets(folder.path())?;
    let secrets = folder.path().join("secrets");
    let mode = |path: &Path| anyhow::Ok(std::fs::metadata(path)?.permissions().mode() & 0o777);
    ensure!(mode(&secrets)? == 0o700, "others get in");
    let mut before = Vec::new();
    for (_, file) in values("file: deploy/compose/secrets/") {
        let path = secrets.join(&file);
        ensure!(mode(&path)? == 0o444, "{file}");
        before.push((path.clone(), std::fs::read(&path)?));
    }
    ensure!(before.len() == 3, "{before:?}");
    make_secrets(folder.path())?;
    for (path, text) in &before {
        ensure!(std::fs::read(path)? == *text, "{} was made again", path.display());
    }

    let password = std::fs::read_to_string(secrets.join("postgres.password"))?;
    ensure!(password.len() == 64, "256 bits in hexadecimal");
    let settings = std::fs::read_to_string(secrets.join("notify.toml"))?;
    let url = format!("database-url = \"postgres://notify:{password}@postgres:5432/notify\"\n");
    ensure!(settings == url, "the same password");
    let file = secrets.join("notify.toml").display().to_string();
    let variable = |name: &str| (name == "NOTIFY_CONFIG").then(|| file.clone());
    let config = Config::load(&Sources { flag: &|_| None, variable: &variable })?;
    ensure!(config.database_url.is_some(), "it is the database's url");
    let key = secrets.join("master.key");
    let key = key.to_str().context("UTF-8")?;
    let launch = Launch::on(&folder.path().join("data")).argument("--master-key-file");
    let server = launch.argument(key).start().await?;
    ensure!(server.terminate().await?.success());
    Ok(())
}

/// Runs a command of a unit, as systemd would, on other folders.
fn run_as_unit(command: &str, folder: &Path) -> Result<()> {
    let program = binary("notify-server")?.display().to_string();
    let backups = folder.join("backups").display().to_string();
    let command = command
        .replace("/usr/bin/notify-server", &program)
        .replace("/var/lib/notify-backups", &backups)
        .replace("$$", "$")
        .replace("%%", "%");
    let data = folder.join("data");
    let run = Command::new("sh").args(["-c", &command]).env("NOTIFY_DATA_DIR", data).output()?;
    ensure!(run.status.success(), "{command}: {}", String::from_utf8_lossy(&run.stderr));
    Ok(())
}

#[tokio::test]
async fn the_backup_unit_copies_the_database_and_deletes_old_copies() -> Result<()> {
    let unit = read("deploy/systemd/notify-backup.service");
    let lines = |key: &str| unit.lines().find_map(|line| line.strip_prefix(key));
    let copy = lines("ExecStart=").context("a command")?;
    let delete = lines("ExecStartPost=").context("a second command")?;
    let folder = tempfile::tempdir()?;
    let backups = folder.path().join("backups");
    std::fs::create_dir(&backups)?;
    let server = Launch::on(&folder.path().join("data")).start().await?;
    run_as_unit(copy, folder.path())?;
    let copies = || -> Result<Vec<_>> {
        std::fs::read_dir(&backups)?.map(|entry| Ok(entry?.path())).collect()
    };
    let [made] = <[_; 1]>::try_from(copies()?).ok().context("one copy")?;

    let old = backups.join("notify-20260101T030000.db");
    std::fs::copy(&made, &old)?;
    std::fs::File::options().write(true).open(&old)?.set_modified(SystemTime::UNIX_EPOCH)?;
    run_as_unit(delete, folder.path())?;
    ensure!(copies()? == [made], "only the new copy is left");
    ensure!(server.terminate().await?.success());
    Ok(())
}

#[test]
fn the_page_about_hosting_names_every_host_that_the_server_calls() {
    let page = read("docs/self-hosting.md");
    let mut hosts = notify_core::WEB_PUSH_SERVICES_DEFAULT.map(str::to_owned).to_vec();
    // Google's JSON names it.
    hosts.push("oauth2.googleapis.com".to_owned());
    for provider in ["apns", "fcm", "messenger", "telegram"] {
        let code = read(&format!("notify-server/src/provider_config/{provider}.rs"));
        let urls = code.lines().filter_map(|line| line.split_once(": &str = \"https://"));
        let found: Vec<_> =
            urls.filter_map(|(_, rest)| Some(rest.split_once('"')?.0.to_owned())).collect();
        assert!(!found.is_empty(), "{provider}");
        hosts.extend(found);
    }
    for host in hosts {
        assert!(page.contains(&format!("`{host}`")), "missing: {host}");
    }
}
