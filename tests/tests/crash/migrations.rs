//! T24: a start that creates or upgrades the tables is killed at each of its flushes, and runs on full disks
//! of all sizes. The next start works, no row is lost, and the operator gets the keys.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use notify_server::store::sqlite;
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

/// What the server that starts has before it.
#[derive(Clone, Copy, Debug)]
enum Before {
    /// An empty file: `admin-key create` refuses a folder without a database.
    Nothing,
    /// A file of the version before, with rows in every table.
    Tables,
}

/// A command that opens the database and does little else.
fn opening(data_dir: &Path, before: Before) -> Launch {
    let command = launch(data_dir).on_file().argument("admin-key").argument("create");
    match before {
        Before::Nothing => command,
        Before::Tables => {
            command.program("dying-server").variable("NOTIFY_HAS_MADE_UP_MIGRATION", "1")
        }
    }
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

/// Starts once more without a disturbance, and returns the rows.
async fn rows_after_start(data_dir: &Path, before: Before) -> Result<Rows> {
    let (status, output) = opening(data_dir, before).ended().await?;
    ensure!(status.success(), "{status}: {output}");
    let connection = Connection::open(data_dir.join("notify.db"))?;
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

/// A new folder with what a start has before it, and the rows after an undisturbed start.
async fn prepared(before: Before) -> Result<(tempfile::TempDir, Rows)> {
    let (folder, whole) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let file = folder.path().join("notify.db");
    match before {
        Before::Nothing => fs::write(file, "")?,
        Before::Tables => tokio::task::spawn_blocking(move || sqlite::make_file(&file)).await?,
    }
    copy_files(folder.path(), whole.path())?;
    Ok((folder, rows_after_start(whole.path(), before).await?))
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
    let (base, expected) = prepared(Before::Tables).await?;
    ensure!(expected.contains_key("regions"), "the migration was run: {:?}", expected.keys());
    let mut ended = 0;
    for nth in 1..=FLUSHES_MAX {
        let name = || format!("flush {nth}");
        let folder = tempfile::tempdir()?;
        copy_files(base.path(), folder.path())?;
        let command = opening(folder.path(), Before::Tables);
        let (status, output) = killed_at_flush(&command, nth).ended().await?;
        let rows = rows_after_start(folder.path(), Before::Tables).await.with_context(name)?;
        ensure!(rows == expected, "{}: other rows", name());
        if status.success() {
            break;
        }
        ensure!(status.signal() == Some(KILLED), "{}: {status}: {output}", name());
        ended += 1;
    }
    ensure!((1..FLUSHES_MAX).contains(&ended), "{ended} flushes");
    println!("T24: an upgrade, ended at {ended} flushes");
    Ok(())
}

/// Runs the first start and an upgrade on disks with room for one page, two pages and so on, until there is
/// enough room.
#[tokio::test]
async fn a_disk_full_at_any_page_of_a_start_loses_nothing() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let disk = TightDisk::mount(folder.path(), DISK_PAGES * PAGE_BYTES).await?;
    let data_dir = folder.path().join("data");
    let (inside, within) = (disk.path("data")?, disk.within()?);
    let mut full = 0;
    for before in [Before::Nothing, Before::Tables] {
        let command = opening(&data_dir, before).within(within.iter().map(String::as_str));
        let (base, expected) = prepared(before).await?;
        for pages in 0..DISK_PAGES {
            let name = || format!("{before:?}, {pages} pages");
            if inside.exists() {
                fs::remove_dir_all(&inside)?;
            }
            copy_files(base.path(), &inside)?;
            disk.fill_but(pages * PAGE_BYTES)?;
            let (status, output) = command.ended().await?;
            disk.free()?;
            let copy = tempfile::tempdir()?;
            copy_files(&inside, copy.path())?;
            let rows = rows_after_start(copy.path(), before).await.with_context(name)?;
            ensure!(rows == expected, "{}: other rows", name());
            if status.success() {
                ensure!(pages > 0, "{before:?} takes room");
                break;
            }
            ensure!(status.code() == Some(1), "{}: {status}: {output}", name());
            full += 1;
        }
    }
    println!("T24: {full} disks were full");
    Ok(())
}
