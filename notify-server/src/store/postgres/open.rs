//! Opening a database: its tables brought up to date by one server at a time, and refused where
//! a newer one wrote them or another server works on them.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::error::SqlState;

use super::session::Session;
use super::target::Target;
use crate::store::sql::{self, Connection, Error, Source};

mod migrations {
    #![allow(missing_docs, unreachable_pub, reason = "generated")]
    refinery::embed_migrations!("src/store/postgres/migrations");
}

/// The lock of whoever brings tables up to date; refinery takes none.
const MIGRATION_LOCK: i64 = 0x6e6f_7469_6679_0002;
/// The lock of the server of the database.
const SERVER_LOCK: i64 = 0x6e6f_7469_6679_0003;
/// Longest wait for a migration, another server's before it included.
const MIGRATION_WAIT: Duration = Duration::from_secs(3_600);

/// Reader connections unless told otherwise.
pub const READERS_DEFAULT: usize = 4;

/// How to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PostgresOptions {
    /// Whether this process is the server of the database: refused when another one is. The
    /// subcommands that work beside a server go without.
    pub lock: bool,
    /// Connections that read.
    pub readers: usize,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self { lock: true, readers: READERS_DEFAULT }
    }
}

/// Why the database was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another server works on it.
    #[error("{0} is in use by another notify-server: stop that one first")]
    InUse(String),
    /// Its tables are of a later version.
    #[error(
        "{place} was written by a newer notify-server (schema {found}; this one knows {known}): \
         update this server, or restore a backup"
    )]
    Newer {
        /// Host, port and name.
        place: String,
        /// Version of its tables.
        found: i64,
        /// Latest version that this server knows.
        known: i64,
    },
    /// What the url names beside the database cannot be read.
    #[error("the certificates of sslrootcert cannot be read")]
    Certificates(#[source] std::io::Error),
    /// It cannot be connected to, or does not do what is asked.
    #[error("{place} cannot be used as a database")]
    Database {
        /// Host, port and name.
        place: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Brings the tables up to date.
pub(super) fn migrate(target: &Target) -> Result<(), OpenError> {
    let database_error = |source: Box<dyn std::error::Error + Send + Sync>| OpenError::Database {
        place: target.place.clone(),
        source,
    };
    let mut session = target.connect().map_err(|error| database_error(error.into()))?;
    let (found, known) = lock_and_look(&session).map_err(|error| database_error(error.into()))?;
    if found > known {
        return Err(OpenError::Newer { place: target.place.clone(), found, known });
    }
    if found == known {
        return Ok(());
    }
    let (runtime, client) = session.client();
    runtime
        .block_on(migrations::migrations::runner().run_async(client))
        .map_err(|error| database_error(error.into()))?;
    Ok(())
}

/// Waits for whoever else migrates, and tells the version of the tables and the latest one. The lock
/// goes with the session.
fn lock_and_look(session: &Session) -> sql::Result<(i64, i64)> {
    session.execute_batch(
        "set statement_timeout = 0; set lock_timeout = 0;
         set idle_in_transaction_session_timeout = 0",
    )?;
    let lock = format!("select pg_advisory_lock({MIGRATION_LOCK})");
    session.batch_within(MIGRATION_WAIT, &lock)?;
    let known = migrations::migrations::runner()
        .get_migrations()
        .iter()
        .map(|migration| i64::from(migration.version()))
        .max()
        .unwrap_or(0);
    let is_there = "select 1 where to_regclass('refinery_schema_history') is not null";
    if session.number(is_there)?.is_none() {
        return Ok((0, known));
    }
    let found = session.number("select max(version)::bigint from refinery_schema_history")?;
    Ok((found.unwrap_or(0), known))
}

/// Where the writer's connections come from.
pub(super) struct WriterSource {
    target: Arc<Target>,
    lock: bool,
    /// The server's process behind the last connection, while that may still have our lock.
    last: Option<i64>,
}

impl WriterSource {
    pub(super) fn new(target: Arc<Target>, lock: bool) -> Self {
        Self { target, lock, last: None }
    }

    /// Whether an error means that another server has the database.
    pub(super) fn is_taken(error: &Error) -> bool {
        matches!(error, Error::Postgres(failure)
            if failure.state() == Some(&SqlState::LOCK_NOT_AVAILABLE))
    }

    /// Makes the connection the one of the database's server. A connection of ours that broke may
    /// still stand on the other side, with the lock: it is ended there.
    fn take_lock(&mut self, session: &Session) -> sql::Result<()> {
        if let Some(last) = self.last {
            session.number(&format!(
                "select count(pg_terminate_backend(pid)) from pg_locks
                 where locktype = 'advisory' and granted and pid = {last}
                 and (classid::bigint << 32 | objid::bigint) = {SERVER_LOCK}"
            ))?;
        }
        session.execute_batch(&format!("select pg_advisory_lock({SERVER_LOCK})"))?;
        self.last = session.number("select pg_backend_pid()")?;
        Ok(())
    }
}

impl Source for WriterSource {
    fn open(&mut self) -> sql::Result<Connection> {
        let session = self.target.connect()?;
        if self.lock {
            self.take_lock(&session)?;
        }
        Ok(Connection::Postgres(Box::new(session)))
    }
}
