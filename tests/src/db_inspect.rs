//! Reads and changes the database of a server that has stopped or was killed: the SQLite file, or the
//! PostgreSQL database that belongs to the data folder.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rusqlite::{Connection, OpenFlags};

use crate::backend::with_database_of;

/// The tables and conditions of rows that must not exist when all work is done.
const UNFINISHED: [(&str, &str); 4] = [
    ("notifications", "status in ('queued', 'sending')"),
    ("dispatches", "completed_at is null or open_pages > 0 or open_retries > 0"),
    ("pages", "finished = 0 or retrying > 0"),
    ("retries", "outcome is null"),
];

/// The database of a server that does not run.
#[derive(Debug)]
pub enum DatabaseInspector {
    /// A SQLite file.
    File(Connection),
    /// The PostgreSQL database of this data folder.
    Database(PathBuf),
}

impl DatabaseInspector {
    /// Opens the database of a data folder.
    ///
    /// # Errors
    /// When the file is damaged.
    pub fn of(data_dir: &Path) -> Result<Self> {
        let file = data_dir.join("notify.db");
        if file.exists() { Self::file(&file) } else { Ok(Self::Database(data_dir.to_owned())) }
    }

    /// Opens a SQLite file and checks its integrity.
    ///
    /// # Errors
    /// When the file is damaged.
    pub fn file(path: &Path) -> Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection =
            Connection::open_with_flags(path, flags).with_context(|| path.display().to_string())?;
        let result: String =
            connection.query_row("pragma integrity_check", [], |row| row.get(0))?;
        ensure!(result == "ok", "{}: {result}", path.display());
        Ok(Self::File(connection))
    }

    /// Runs a query that returns one number.
    ///
    /// # Errors
    /// When the file cannot be read.
    ///
    /// # Panics
    /// When the database cannot be read.
    pub fn number(&self, sql: &str) -> Result<i64> {
        match self {
            Self::File(connection) => Ok(connection.query_row(sql, [], |row| row.get(0))?),
            Self::Database(data_dir) => {
                let numbers = with_database_of(data_dir, |database| database.numbers(sql))?;
                numbers.first().copied().context("a row")
            }
        }
    }

    /// Executes a statement that changes rows.
    ///
    /// # Errors
    /// When the file cannot be written.
    ///
    /// # Panics
    /// When the database cannot be written.
    pub fn change(&self, sql: &str) -> Result<()> {
        match self {
            Self::File(connection) => Ok(connection.execute_batch(sql)?),
            Self::Database(data_dir) => {
                with_database_of(data_dir, |database| database.execute(sql))
            }
        }
    }

    /// Checks that no work in the database is unfinished.
    ///
    /// # Errors
    /// When a table has unfinished rows.
    pub fn ensure_settled(&self) -> Result<()> {
        for (table, condition) in UNFINISHED {
            let stuck = self.number(&format!("select count(*) from {table} where {condition}"))?;
            ensure!(stuck == 0, "{stuck} rows of {table} are stuck: {condition}");
        }
        Ok(())
    }
}
