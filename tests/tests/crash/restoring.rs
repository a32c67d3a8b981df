//! A restore that is killed between its steps leaves either the previous database or that of the backup.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use notify_tests::{Launch, back_up};
use rusqlite::Connection;

use crate::launch;

/// The points at which a restore is killed, and whether the database of the backup is in place then.
const KILLED_AT: [(&str, bool); 3] = [
    // The copy is complete.
    ("restore written 1", false),
    // The previous database has its second name.
    ("restore written 2", false),
    ("restore committed 1", true),
];

/// The number of applications in a database.
fn apps_in(file: &Path) -> Result<i64> {
    let connection = Connection::open(file)?;
    let sound: String = connection.query_row("pragma integrity_check", [], |row| row.get(0))?;
    ensure!(sound == "ok", "{sound}");
    Ok(connection.query_row("select count(*) from apps", [], |row| row.get(0))?)
}

/// The replaced databases in a folder, each with its number of applications.
fn replaced_in(folder: &Path) -> Result<Vec<i64>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().context("a name")?.to_string_lossy().into_owned();
        if name.starts_with("notify.db.replaced-") {
            found.push(apps_in(&path)?);
        }
    }
    Ok(found)
}

async fn run(launch: Launch) -> Result<()> {
    let (status, output) = launch.ended().await?;
    ensure!(status.success(), "{output}");
    Ok(())
}

/// Creates an installation with one application, and a backup of it. Then another application is created.
async fn prepare(data: &Path, backup: &Path) -> Result<()> {
    let create =
        |name: &str| launch(data).on_file().argument("app").argument("create").argument(name);
    run(create("first")).await?;
    back_up(data, backup).await?;
    run(create("second")).await
}

#[tokio::test]
async fn a_killed_restore_leaves_the_previous_database_or_the_backup() -> Result<()> {
    for (point, is_replaced) in KILLED_AT {
        let folder = tempfile::tempdir()?;
        let (data, backup) = (folder.path().join("data"), folder.path().join("backup.db"));
        prepare(&data, &backup).await?;
        let file = data.join("notify.db");
        let restore = launch(&data)
            .on_file()
            .argument("restore")
            .argument("--replace")
            .argument(backup.to_str().context("the path is UTF-8")?);
        let dying = restore.clone().program("dying-server").variable("NOTIFY_DIES_AT", point);
        let (status, output) = dying.ended().await?;
        ensure!(status.code().is_none(), "{point}: it was to be killed: {status} {output}");
        let apps = if is_replaced { 1 } else { 2 };
        ensure!(apps_in(&file)? == apps, "{point}");
        // A server uses what is there.
        launch(&data).on_file().start().await?.terminate().await?;
        ensure!(apps_in(&file)? == apps, "{point}");

        run(restore).await?;
        ensure!(apps_in(&file)? == 1 && !data.join("restoring").exists(), "{point}");
        let replaced = replaced_in(&data)?;
        let expected = if is_replaced { 2 } else { 1 };
        ensure!(replaced.len() == expected && replaced.contains(&2), "{point}: {replaced:?}");
        launch(&data).on_file().start().await?.terminate().await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_killed_restore_into_an_empty_folder_can_be_repeated() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (data, backup) = (folder.path().join("data"), folder.path().join("backup.db"));
    prepare(&data, &backup).await?;
    for (point, is_in_place) in KILLED_AT {
        let empty = folder.path().join(point);
        let restore = launch(&empty)
            .on_file()
            .argument("restore")
            .argument(backup.to_str().context("UTF-8")?);
        let dying = restore.clone().program("dying-server").variable("NOTIFY_DIES_AT", point);
        ensure!(dying.ended().await?.0.code().is_none(), "{point}");
        ensure!(empty.join("notify.db").exists() == is_in_place, "{point}");
        let again = restore.ended().await?;
        ensure!(again.0.success() != is_in_place, "{point}: {}", again.1);
        ensure!(apps_in(&empty.join("notify.db"))? == 1, "{point}");
        ensure!(replaced_in(&empty)?.is_empty(), "{point}");
    }
    Ok(())
}
