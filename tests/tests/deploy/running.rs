//! A running server has the paths that the deployment files use.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use http::Method;
use notify_server::config::{Config, Sources};
use notify_tests::{Launch, TestServer};

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
    let mut wanted = names(&read("deploy/kubernetes/several/prometheus-adapter.yaml"), "notify_");
    wanted
        .extend(names(&read("deploy/kubernetes/several/horizontalpodautoscaler.yaml"), "notify_"));
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
