//! `notify-server restore`: what it refuses, and that a restored installation goes on.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use http::Method;
use notify_client::Client;
use notify_core::{
    CreateNotification, ListDevices, NotificationId, NotificationStatus, PageQuery, Platform,
};
use notify_sandbox::{Provider, Rule, Sandbox, ScriptedResponse};
use notify_tests::{
    Launch, ServerProcess, android, back_up, completed, configure_providers, ios, register,
    start_sandbox, until,
};
use rusqlite::Connection;
use tempfile::TempDir;

/// An installation with a backup, on a sandbox.
struct BackedUp {
    folder: TempDir,
    sandbox: Sandbox,
    keys: [String; 2],
    /// A notification that waited for its provider when the backup was made.
    waiting: NotificationId,
}

impl BackedUp {
    /// Makes a backup of a running server that has one device and a notification that waits. Then another
    /// device is registered, and the server is killed, so that the log of its database has content.
    async fn make() -> Result<Self> {
        let (folder, sandbox) = (tempfile::tempdir()?, start_sandbox().await?);
        let data = folder.path().join("data");
        let server = Launch::on(&data).on_file().start().await?;
        let api_key = server.api_key.clone().context("a first start shows a key")?;
        let admin_key = server.admin_key.clone().context("a first start shows a key")?;
        let keys = [api_key, admin_key];
        let client = client(&server, &keys)?;
        configure_providers(&client, &sandbox).await?;
        register(&client, [ios(1, &ScriptedResponse::ok())]).await?;
        let refused = ScriptedResponse::reason("InvalidProviderToken").first(2);
        sandbox.add_rule(Rule::on(Provider::Apns, refused))?;
        let hello = CreateNotification::to_platforms([Platform::Ios], "hello");
        let waiting = client.notifications().create(&hello).await?.id;
        until("the notification waits", async || {
            let metrics = server.caller().send(&Method::GET, "/metrics", "").await?.text;
            let held = "notify_channel_paused{channel=\"apns\",why=\"credentials\"} 1";
            Ok(metrics.lines().any(|line| line == held).then_some(()))
        })
        .await?;
        back_up(&data, &folder.path().join("backup.db")).await?;
        register(&client, [android(2, &ScriptedResponse::ok())]).await?;
        server.kill().await?;
        Ok(Self { folder, sandbox, keys, waiting })
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn backup(&self) -> PathBuf {
        self.folder.path().join("backup.db")
    }

    /// A new data folder that contains the master key.
    fn folder_with_key(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.path().join(name);
        fs::create_dir(&folder)?;
        fs::copy(self.data().join("master.key"), folder.join("master.key"))?;
        Ok(folder)
    }
}

fn client(server: &ServerProcess, [api_key, admin_key]: &[String; 2]) -> Result<Client> {
    let keys = Client::builder(&server.origin).api_key(api_key.as_str());
    Ok(keys.admin_key(admin_key.as_str()).build()?)
}

/// The command that restores a file to a data folder.
fn restore(data: &Path, file: &Path) -> Launch {
    let file = file.to_str().expect("the path is UTF-8");
    Launch::on(data).on_file().argument("restore").argument(file)
}

async fn devices(client: &Client) -> Result<usize> {
    Ok(client.devices().list(&ListDevices::default()).await?.devices.len())
}

#[tokio::test]
async fn a_restored_installation_goes_on_where_the_backup_was_made() -> Result<()> {
    let made = BackedUp::make().await?;
    let data = made.data();
    let (status, output) = restore(&data, &made.backup()).argument("--replace").answered().await?;
    assert!(status.success(), "{output}");
    for line in ["restored ", "notify.db.replaced-", "have not ended: 1.", "revoke them again"] {
        assert!(output.contains(line), "{line} in {output}");
    }
    let server = Launch::on(&data).on_file().start().await?;
    assert_eq!(server.api_key, None, "the keys of the backup are valid");
    let client = client(&server, &made.keys)?;
    assert_eq!(devices(&client).await?, 1, "the second device came after the backup");
    let app = client.admin().list_apps(&PageQuery::default()).await?.apps[0].id;
    client.admin().resume_provider(app, notify_core::ProviderKind::Apns).await?;
    let record = completed(&client, &made.waiting).await?;
    assert_eq!((record.status, record.counts.sent), (NotificationStatus::Completed, 1));
    server.terminate().await?;
    // The previous database is complete, although its server was killed.
    let mut replaced = fs::read_dir(&data)?.filter_map(|entry| {
        let path = entry.ok()?.path();
        path.to_str()?.contains("notify.db.replaced-").then_some(path)
    });
    let replaced = Connection::open(replaced.next().context("the previous database is kept")?)?;
    let count: i64 = replaced.query_row("select count(*) from devices", [], |row| row.get(0))?;
    assert_eq!(count, 2);
    made.sandbox.stop().await;
    Ok(())
}

#[tokio::test]
async fn open_notifications_can_be_canceled_before_the_start() -> Result<()> {
    let made = BackedUp::make().await?;
    let data = made.folder_with_key("other")?;
    let restored = restore(&data, &made.backup()).argument("--cancel-open").answered().await?;
    assert!(restored.0.success() && restored.1.contains("canceled 1 "), "{}", restored.1);
    let sent_before = made.sandbox.received().len();
    let server = Launch::on(&data).on_file().start().await?;
    let client = client(&server, &made.keys)?;
    let record = completed(&client, &made.waiting).await?;
    assert_eq!((record.status, record.counts.sent), (NotificationStatus::Canceled, 0));
    assert_eq!(made.sandbox.received().len(), sent_before, "nothing was sent");
    server.terminate().await?;
    made.sandbox.stop().await;
    Ok(())
}

#[tokio::test]
async fn without_its_master_key_a_backup_is_restored_only_on_request() -> Result<()> {
    let made = BackedUp::make().await?;
    let data = made.folder.path().join("keyless");
    let (status, words) = restore(&data, &made.backup()).ended().await?;
    assert_eq!(status.code(), Some(1), "{words}");
    assert!(words.contains("it is missing") && words.contains("--forget-credentials"), "{words}");
    assert!(!data.join("notify.db").exists());
    let named = restore(&data, &made.backup())
        .argument("--master-key-file")
        .argument(made.data().join("master.key").to_str().context("UTF-8")?);
    assert!(named.ended().await?.0.success(), "the key may be elsewhere");
    let forgetting =
        restore(&data, &made.backup()).argument("--replace").argument("--forget-credentials");
    assert!(forgetting.ended().await?.0.success());
    let server = Launch::on(&data).on_file().start().await?;
    assert_eq!(devices(&client(&server, &made.keys)?).await?, 1);
    server.terminate().await?;
    made.sandbox.stop().await;
    Ok(())
}

/// The files of a folder with their contents. Lock files are empty and do not count.
fn contents(folder: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "lock") {
            let bytes = if path.is_dir() { Vec::new() } else { fs::read(&path)? };
            found.insert(path, bytes);
        }
    }
    Ok(found)
}

/// Files that are no backups, each with a part of the error.
fn unusable_files(made: &BackedUp) -> Result<Vec<(PathBuf, &'static str)>> {
    let folder = made.folder.path();
    let whole = fs::read(made.backup())?;
    let write = |name: &str, bytes: &[u8]| -> Result<PathBuf> {
        let path = folder.join(name);
        fs::write(&path, bytes)?;
        Ok(path)
    };
    let with_sql = |name: &str, sql: &str| -> Result<PathBuf> {
        let path = write(name, &whole)?;
        let connection = Connection::open(&path)?;
        connection.execute_batch(sql)?;
        connection.close().map_err(|(_, error)| error)?;
        Ok(path)
    };
    let half = whole.len() / 4_096 / 2 * 4_096;
    let mut garbled = whole.clone();
    garbled[half..].fill(0x5a);
    let other = folder.join("other.db");
    Connection::open(&other)?.execute_batch("create table t (a integer)")?;
    let logged = write("logged.db", &whole)?;
    write("logged.db-wal", b"the newest changes")?;
    let newer = "insert into refinery_schema_history (version, name, applied_on, checksum)
        select 9001, 'later', applied_on, checksum from refinery_schema_history limit 1";
    let moved = "insert into moves (no, state, id, place, at)
        values (1, 'left', zeroblob(16), 'postgres://there', 0)";
    let trigger = "create trigger spy after insert on admin_keys
        begin delete from apps; end";
    Ok(vec![
        (folder.join("absent.db"), "cannot be read"),
        (folder.to_owned(), "is not a file"),
        (write("empty.db", b"")?, "is empty: its backup was interrupted"),
        (write("text.db", b"not a database")?, "is damaged, or not a database"),
        (write("half.db", &whole[..half])?, "is damaged, or not a database"),
        (write("garbled.db", &garbled)?, "is damaged, or not a database"),
        (other, "is a database, but not one of Notify"),
        (logged, "make a backup with `notify-server backup`"),
        (with_sql("newer.db", newer)?, "written by a newer notify-server (schema 9001;"),
        (with_sql("moved.db", moved)?, "this database was moved to postgres://there"),
        (with_sql("trigger.db", trigger)?, "foreign trigger spy"),
        (with_sql("view.db", "create view spy as select 1")?, "foreign view spy"),
        (with_sql("table.db", "create table spy (a integer)")?, "foreign table spy"),
        (with_sql("index.db", "create index spy on apps (name)")?, "foreign index spy"),
        (with_sql("missing.db", "drop table audit")?, "missing table audit"),
        (with_sql("changed.db", "alter table apps add column spy integer")?, "changed table apps"),
        (made.data().join("notify.db"), "make a backup with `notify-server backup`"),
    ])
}

#[tokio::test]
async fn restore_refuses_what_is_no_backup_and_changes_nothing() -> Result<()> {
    let made = BackedUp::make().await?;
    let data = made.data();
    let before = contents(&data)?;
    for (file, expected) in unusable_files(&made)? {
        let (status, words) = restore(&data, &file).argument("--replace").ended().await?;
        assert_eq!(status.code(), Some(1), "{}: {words}", file.display());
        assert!(words.contains(expected), "{}: {words}", file.display());
        assert!(contents(&data)? == before, "{}: the folder changed", file.display());
    }
    made.sandbox.stop().await;
    Ok(())
}

#[tokio::test]
async fn restore_refuses_a_folder_that_is_in_use_or_has_another_key() -> Result<()> {
    let made = BackedUp::make().await?;
    let data = made.data();
    let plain = restore(&data, &made.backup());
    let replacing = || restore(&data, &made.backup()).argument("--replace");
    let elsewhere = replacing().variable("NOTIFY_DATABASE_URL", "postgres://nowhere.invalid/x");
    let before = contents(&data)?;
    for (case, launch, expected) in
        [("an existing database", plain, "give --replace"), ("PostgreSQL", elsewhere, "pg_restore")]
    {
        let (status, words) = launch.ended().await?;
        assert!(status.code() == Some(1) && words.contains(expected), "{case}: {words}");
        assert!(contents(&data)? == before, "{case}: the folder changed");
    }
    let server = Launch::on(&data).on_file().start().await?;
    let (status, words) = replacing().ended().await?;
    assert_eq!(status.code(), Some(1), "{words}");
    assert!(words.contains("in use by another notify-server"), "{words}");
    server.terminate().await?;
    // A database that was closed has no log.
    let (status, words) =
        restore(&data, &data.join("notify.db")).argument("--replace").ended().await?;
    assert!(status.code() == Some(1) && words.contains("is the database itself"), "{words}");

    let before = contents(&data)?;
    let other = made.folder.path().join("other");
    Launch::on(&other).on_file().start().await?.terminate().await?;
    let key = other.join("master.key");
    let key = ["--master-key-file", key.to_str().context("UTF-8")?];
    let (status, words) = replacing().argument(key[0]).argument(key[1]).ended().await?;
    assert!(status.code() == Some(1) && words.contains("sealed with another one"), "{words}");
    assert!(contents(&data)? == before, "the folder changed");
    made.sandbox.stop().await;
    Ok(())
}
