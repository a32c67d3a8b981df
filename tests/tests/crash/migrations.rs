//! T24: a start that creates or upgrades the tables is killed at each of its flushes, and runs on full disks
//! of all sizes. The next start works, no row is lost, and the operator gets the keys.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use notify_server::store::sqlite::{self, SqliteOptions, latest_version, make_earlier};
use notify_tests::{Caller, Launch, TightDisk};
use rusqlite::Connection;
use rusqlite::types::Value;

use crate::launch;
use crate::points::killed_at_founding;

/// SIGKILL, which ends a process at once.
const KILLED: i32 = 9;
/// A number of flushes that no start reaches on one thread.
const FLUSHES_MAX: u32 = 64;
/// The bytes of a page of the database and of the disk.
const PAGE_BYTES: u64 = 4_096;
/// The number of pages of the disk that is filled.
const DISK_PAGES: u64 = 512;
/// The tables that each start changes, so they are not compared.
const BY_RUN: [&str; 2] = ["refinery_schema_history", "admin_keys"];

/// Runs the server under a tracer that kills the server at the `nth` flush of a thread. The tracer is a
/// grandchild, so the test's child is the server itself.
fn killed_at_flush(launch: &Launch, nth: u32) -> Launch {
    let calls = "fsync,fdatasync";
    let (trace, inject) =
        (format!("trace={calls}"), format!("inject={calls}:signal=KILL:when={nth}"));
    launch.clone().within([
        "strace",
        "-D",
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        &trace,
        "-e",
        &inject,
    ])
}

/// A command that opens the database and does little else.
fn opening(data_dir: &Path) -> Launch {
    launch(data_dir).on_file().argument("admin-key").argument("create")
}

fn copy_files(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}

/// The rows of a file by table.
type Rows = BTreeMap<String, Vec<Vec<Value>>>;

/// Opens a file as a start does and returns its rows.
async fn rows_after_start(file: PathBuf) -> Result<Rows> {
    let opened = file.clone();
    let opening =
        tokio::task::spawn_blocking(move || sqlite::open(&opened, SqliteOptions::default()));
    opening.await??.close().await;
    let connection = Connection::open(file)?;
    let sound: String = connection.query_row("pragma integrity_check", [], |row| row.get(0))?;
    ensure!(sound == "ok", "{sound}");
    let mut names = connection.prepare("select name from sqlite_schema where type = 'table'")?;
    let names =
        names.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?;
    let kept = names.into_iter().filter(|name| !BY_RUN.contains(&name.as_str()));
    kept.map(|name| Ok((name.clone(), rows_of(&connection, &name)?))).collect()
}

fn rows_of(connection: &Connection, table: &str) -> Result<Vec<Vec<Value>>> {
    let mut statement = connection.prepare(&format!("select * from {table}"))?;
    let columns = statement.column_count();
    let row = |row: &rusqlite::Row<'_>| (0..columns).map(|column| row.get(column)).collect();
    let rows = statement.query_map([], row)?.collect::<rusqlite::Result<Vec<Vec<Value>>>>()?;
    let is_by_run = |row: &Vec<Value>| {
        BY_RUN.into_iter().any(|name| row.first() == Some(&Value::Text(name.to_owned())))
    };
    Ok(rows.into_iter().filter(|row| !is_by_run(row)).collect())
}

/// A file of an earlier version in a new folder (an empty file for version 0), and the rows that it has after an undisturbed upgrade.
async fn earlier(version: i32) -> Result<(tempfile::TempDir, Rows)> {
    let (folder, whole) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let file = folder.path().join("notify.db");
    if version == 0 {
        // `admin-key create` refuses a folder without a database. This one is empty, as at a first start.
        fs::write(file, "")?;
    } else {
        tokio::task::spawn_blocking(move || make_earlier(&file, version)).await?;
        copy_files(folder.path(), whole.path())?;
    }
    Ok((folder, rows_after_start(whole.path().join("notify.db")).await?))
}

/// Prepares a folder whose database has tables but no application, with or without the master key.
async fn without_application(folder: &Path, has_master_key: bool) -> Result<()> {
    killed_at_founding(folder).await?;
    if !has_master_key {
        fs::remove_file(folder.join("master.key"))?;
    }
    Ok(())
}

/// The tracer counts flushes by thread, and the first thread that reaches its nth flush ends the process.
/// Therefore the test divides a start into three parts: the tables, the master key and the first application.
/// Each part begins where the thread of the part before has finished.
#[tokio::test]
async fn a_first_start_killed_at_any_flush_is_completed_by_the_next() -> Result<()> {
    let mut ended = 0;
    for part in 0..3 {
        let base = tempfile::tempdir()?;
        if part > 0 {
            without_application(base.path(), part == 2).await?;
        }
        for nth in 1..=FLUSHES_MAX {
            let name = || format!("part {part}, flush {nth}");
            let folder = tempfile::tempdir()?;
            copy_files(base.path(), folder.path())?;
            let normal = launch(folder.path()).on_file();
            let killed = killed_at_flush(&normal, nth).kill_when_listening().await;
            let (printed, listened) = killed.with_context(name)?;
            let server = normal.start().await.with_context(name)?;
            let key = printed.or(server.admin_key.clone()).with_context(name)?;
            let apps = Caller::admin(&server.origin, &key).get("/admin/v1/apps").await.ok();
            ensure!(apps["apps"].as_array().map(Vec::len) == Some(1), "{}: {apps}", name());
            server.kill().await?;
            if listened {
                ensure!(nth > 1, "part {part} has flushes");
                break;
            }
            ended += 1;
        }
    }
    println!("T24: a first start, ended at {ended} flushes");
    Ok(())
}

#[tokio::test]
async fn an_upgrade_killed_at_any_flush_loses_nothing() -> Result<()> {
    let mut ended = 0;
    for version in 1..latest_version() {
        let (base, expected) = earlier(version).await?;
        for nth in 1..=FLUSHES_MAX {
            let name = || format!("version {version}, flush {nth}");
            let folder = tempfile::tempdir()?;
            copy_files(base.path(), folder.path())?;
            let (status, output) = killed_at_flush(&opening(folder.path()), nth).ended().await?;
            let rows =
                rows_after_start(folder.path().join("notify.db")).await.with_context(name)?;
            ensure!(rows == expected, "{}: other rows", name());
            if status.success() {
                ensure!(nth > 1, "version {version} has flushes");
                break;
            }
            ensure!(status.signal() == Some(KILLED), "{}: {status}: {output}", name());
            ended += 1;
        }
    }
    println!("T24: upgrades of {} versions, ended at {ended} flushes", latest_version() - 1);
    Ok(())
}

/// Runs the first start, the longest upgrade and the shortest upgrade on disks with room for one page, two
/// pages and so on, until there is enough room.
#[tokio::test]
async fn a_disk_full_at_any_page_of_a_start_loses_nothing() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let disk = TightDisk::mount(folder.path(), DISK_PAGES * PAGE_BYTES).await?;
    let data_dir = folder.path().join("data");
    let (inside, within) = (disk.path("data")?, disk.within()?);
    let command = opening(&data_dir).within(within.iter().map(String::as_str));
    let mut full = 0;
    for version in [0, 1, latest_version() - 1] {
        let (base, expected) = earlier(version).await?;
        for pages in 0..DISK_PAGES {
            let name = || format!("version {version}, {pages} pages");
            if inside.exists() {
                fs::remove_dir_all(&inside)?;
            }
            copy_files(base.path(), &inside)?;
            disk.fill_but(pages * PAGE_BYTES)?;
            let (status, output) = command.ended().await?;
            disk.free()?;
            let copy = tempfile::tempdir()?;
            copy_files(&inside, copy.path())?;
            let rows = rows_after_start(copy.path().join("notify.db")).await.with_context(name)?;
            ensure!(rows == expected, "{}: other rows", name());
            if status.success() {
                ensure!(pages > 0, "version {version} takes room");
                break;
            }
            ensure!(status.code() == Some(1), "{}: {status}: {output}", name());
            full += 1;
        }
    }
    println!("T24: {full} disks were full");
    Ok(())
}
