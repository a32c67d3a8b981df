//! Storage settings and sizes of the file.

use std::path::Path;

use rusqlite::Connection;

use crate::store::{StorageReport, sql};

/// Words of `synchronous`, by number (<https://sqlite.org/pragma.html#pragma_synchronous>).
const SYNCHRONOUS: [&str; 4] = ["off", "normal", "full", "extra"];

/// Settings of the connection, size and free space of its file.
pub(in crate::store) fn report(connection: &Connection) -> sql::Result<StorageReport> {
    let journal_mode: String = connection.query_row("pragma journal_mode", [], |row| row.get(0))?;
    let synchronous: u8 = connection.query_row("pragma synchronous", [], |row| row.get(0))?;
    let pages: i64 = connection.query_row("pragma page_count", [], |row| row.get(0))?;
    let page_bytes: i64 = connection.query_row("pragma page_size", [], |row| row.get(0))?;
    let path = connection.path().unwrap_or_default();
    let log = std::fs::metadata(format!("{path}-wal"));
    Ok(StorageReport {
        backend: "sqlite",
        journal_mode,
        synchronous: (*SYNCHRONOUS.get(usize::from(synchronous)).unwrap_or(&"unknown")).to_owned(),
        database_bytes: pages.unsigned_abs() * page_bytes.unsigned_abs(),
        log_bytes: log.map_or(0, |log| log.len()),
        free_bytes: free_bytes(Path::new(path)),
    })
}

#[cfg(unix)]
fn free_bytes(path: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(path).ok()?;
    disk.f_bavail.checked_mul(disk.f_frsize)
}

#[cfg(not(unix))]
fn free_bytes(_: &Path) -> Option<u64> {
    None
}
