//! The master key of an installation. A server does not start if it cannot decrypt the stored credentials,
//! and a lost key loses no message.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use http::Method;
use notify_client::Client;
use notify_core::{CreateNotification, Platform, ProviderKind};
use notify_sandbox::{Sandbox, ScriptedResponse};
use notify_tests::{
    Caller, Launch, ServerProcess, android, completed, configure_providers, register,
    start_sandbox, until,
};
use serde_json::{Value, json};

fn client(server: &ServerProcess, api_key: &str, admin_key: &str) -> Result<Client> {
    Ok(Client::builder(&server.origin).api_key(api_key).admin_key(admin_key).build()?)
}

/// The error of a server that does not start on this folder.
async fn refusal(data_dir: &Path) -> Result<String> {
    let (status, words) = Launch::on(data_dir).ended().await?;
    assert_eq!(status.code(), Some(1), "{words}");
    assert_eq!(words.lines().count(), 1, "{words}");
    Ok(words)
}

/// Creates an installation that sends to a sandbox, and stops it. Returns its API key and admin key.
async fn installation(data_dir: &Path, sandbox: &Sandbox) -> Result<[String; 2]> {
    let server = ServerProcess::start(data_dir).await?;
    let api_key = server.api_key.clone().context("a first start shows a key")?;
    let admin_key = server.admin_key.clone().context("a first start shows a key")?;
    let client = client(&server, &api_key, &admin_key)?;
    configure_providers(&client, sandbox).await?;
    register(&client, [android(1, &ScriptedResponse::ok())]).await?;
    server.terminate().await?;
    Ok([api_key, admin_key])
}

#[tokio::test]
async fn a_server_with_sealed_data_does_not_start_without_its_key() -> Result<()> {
    let (folder, sandbox) = (tempfile::tempdir()?, start_sandbox().await?);
    installation(folder.path(), &sandbox).await?;
    let file = folder.path().join("master.key");
    let right = fs::read(&file)?;
    let begin = format!("error: cannot use the master key in {}: ", file.display());

    fs::remove_file(&file)?;
    let words = refusal(folder.path()).await?;
    assert!(words.starts_with(&format!("{begin}it is missing, and the provider cr")), "{words}");
    assert!(words.contains("put the kept copy of the key there"), "{words}");
    assert!(words.contains("`notify-server forget-credentials`"), "{words}");
    assert!(!file.exists(), "no other key is made in its place");

    let other = tempfile::tempdir()?;
    ServerProcess::start(other.path()).await?.terminate().await?;
    fs::copy(other.path().join("master.key"), &file)?;
    let words = refusal(folder.path()).await?;
    let sealed = "the provider credentials in the database are sealed with another one";
    assert!(words.starts_with(&format!("{begin}{sealed}; put the kept copy")), "{words}");

    fs::write(&file, "half a k")?;
    let words = refusal(folder.path()).await?;
    assert_eq!(words, format!("{begin}the master key must be 32 bytes in base64\n"));

    fs::write(&file, right)?;
    ServerProcess::start(folder.path()).await?.terminate().await?;
    Ok(())
}

#[tokio::test]
async fn a_lost_key_is_regenerated_when_nothing_is_sealed() -> Result<()> {
    let folder = tempfile::tempdir()?;
    ServerProcess::start(folder.path()).await?.terminate().await?;
    fs::remove_file(folder.path().join("master.key"))?;
    ServerProcess::start(folder.path()).await?.terminate().await?;
    Ok(())
}

/// When the credentials of a lost key are deleted, messages do not fail. They wait for new credentials.
#[tokio::test]
async fn a_lost_key_loses_no_message() -> Result<()> {
    let (folder, sandbox) = (tempfile::tempdir()?, start_sandbox().await?);
    let [api_key, admin_key] = installation(folder.path(), &sandbox).await?;
    fs::remove_file(folder.path().join("master.key"))?;
    let forget = Launch::on(folder.path()).argument("forget-credentials");
    let (status, words) = forget.ended().await?;
    assert!(status.success(), "{words}");

    let log = folder.path().join("log");
    let server = Launch::on(folder.path()).log("warn", &log).start().await?;
    let admin = Caller::admin(&server.origin, &admin_key);
    let apps = admin.get("/admin/v1/apps").await.ok();
    let app = apps["apps"][0]["id"].as_str().context("an app")?;
    let providers = format!("/admin/v1/apps/{app}/providers");
    let listed = admin.get(&providers).await.ok();
    let shown = |place: usize| {
        let row = &listed["providers"][place];
        (row["provider"].clone(), row["config"].clone())
    };
    assert_eq!([shown(0), shown(1)], [(json!("apns"), Value::Null), (json!("fcm"), Value::Null)]);
    let one = admin.send(&Method::GET, &format!("{providers}/fcm"), "").await?;
    assert_eq!((one.status, one.json()["config"].clone()), (200, Value::Null));

    let client = client(&server, &api_key, &admin_key)?;
    let hello = CreateNotification::to_platforms([Platform::Android], "hello");
    let id = client.notifications().create(&hello).await?.id;
    until("the lane meets a provider without credentials", async || {
        let log = fs::read_to_string(&log)?;
        Ok(log.contains("were forgotten with a lost master key").then_some(()))
    })
    .await?;
    let fcm = sandbox.fcm_config();
    client.admin().put_provider(app.parse()?, ProviderKind::Fcm, &fcm).await?;
    let record = completed(&client, &id).await?;
    let counts = record.counts;
    assert_eq!((counts.sent, counts.failed), (1, 0), "{counts:?}");
    server.terminate().await?;

    let (status, words) = forget.ended().await?;
    assert!(status.success(), "{words}");
    let server = ServerProcess::start(folder.path()).await?;
    let admin = Caller::admin(&server.origin, &admin_key);
    let kept = admin.get(&format!("{providers}/fcm")).await.ok();
    assert!(kept["config"].is_object(), "what the key opens is kept: {kept}");
    server.terminate().await?;
    Ok(())
}
