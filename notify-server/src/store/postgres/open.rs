//! Opening a database: its tables brought up to date by one server at a time, and refused where
//! a newer one wrote them.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::change_codec;
use super::connect_config::ConnectConfig;
use super::listener::CHANNEL;
use super::session::Session;
use crate::store::Change;
use crate::store::sql::{self, Connection, Moved, WriterBackend};

mod migrations {
    #![allow(missing_docs, unreachable_pub, reason = "generated")]
    refinery::embed_migrations!("src/store/postgres/migrations");
}

/// The lock of whoever brings tables up to date; refinery takes none.
const MIGRATION_LOCK: i64 = 0x6e6f_7469_6679_0002;
/// Longest wait for a migration, another server's before it included.
const MIGRATION_WAIT: Duration = Duration::from_secs(3_600);

/// Longest wait for servers of an older version to be gone: one that was killed counts as alive until
/// the end of its lease, which is 15 s.
pub(super) const OLDER_WAIT: Duration = Duration::from_secs(20);
/// How often they are looked at.
const OLDER_LOOKED_AT: Duration = Duration::from_millis(250);

/// Reader connections unless told otherwise.
pub const READERS_DEFAULT: usize = 4;

/// How to open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PostgresOptions {
    /// Whether this process is a server, one of several perhaps: it hears what the others commit.
    /// The subcommands that work beside a server go without.
    pub serves: bool,
    /// Connections that read.
    pub readers: usize,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self { serves: true, readers: READERS_DEFAULT }
    }
}

/// Why the database was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
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
    /// Servers that know its tables as they are would go on with them while they change.
    #[error(
        "{place} is served by {servers} notify-server of an older version: stop them before this one \
         brings the tables up to date"
    )]
    OlderServe {
        /// Host, port and name.
        place: String,
        /// How many.
        servers: i64,
    },
    /// A move keeps it from being used.
    #[error("{place} cannot be used")]
    Moved {
        /// Host, port and name.
        place: String,
        /// Why.
        #[source]
        source: Moved,
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

/// What is in a database before its tables are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) enum SchemaState {
    /// Our tables, of any version.
    Notify,
    /// No table.
    Empty,
    /// Tables of somebody else, such as this one.
    Foreign(String),
}

/// Whether tables of ours were ever made.
fn has_history(session: &Session) -> sql::Result<bool> {
    let is_there = "select 1 where to_regclass('refinery_schema_history') is not null";
    Ok(session.number(is_there)?.is_some())
}

/// Looks, and changes nothing.
pub(super) fn look(session: &Session) -> sql::Result<SchemaState> {
    if has_history(session)? {
        return Ok(SchemaState::Notify);
    }
    let other = session.query(
        session.text(
            "select tablename::text from pg_tables where schemaname = current_schema() limit 1",
        ),
        &[],
    )?;
    match other.first() {
        None => Ok(SchemaState::Empty),
        Some(row) => Ok(SchemaState::Foreign(sql::Row::Postgres(row).get(0)?)),
    }
}

/// Brings the tables up to date, once no server of an older version lives; waits so long for that.
pub(super) fn migrate(target: &ConnectConfig, older_wait: Duration) -> Result<(), OpenError> {
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
    let servers =
        wait_for_old_servers(&session, older_wait).map_err(|error| database_error(error.into()))?;
    if servers > 0 {
        return Err(OpenError::OlderServe { place: target.place.clone(), servers });
    }
    let (runtime, client) = session.client();
    runtime
        .block_on(migrations::migrations::runner().run_async(client))
        .map_err(|error| database_error(error.into()))?;
    Ok(())
}

/// Waits for the servers that live, which are of the version of the tables, since none opens tables of
/// another; how many there are in the end.
fn wait_for_old_servers(session: &Session, wait: Duration) -> sql::Result<i64> {
    // There was no such table in the first versions, nor more than one server.
    if session.number("select 1 where to_regclass('servers') is not null")?.is_none() {
        return Ok(0);
    }
    let began = Instant::now();
    loop {
        let alive = "select count(*) from servers
            where alive_until > (extract(epoch from clock_timestamp()) * 1000)::bigint";
        let servers = session.number(alive)?.unwrap_or(0);
        if servers == 0 || began.elapsed() >= wait {
            return Ok(servers);
        }
        thread::sleep(OLDER_LOOKED_AT);
    }
}

/// Makes the tables as a version had them. Blocks; not to be called on a thread of a runtime.
#[cfg(test)]
pub(in crate::store) fn make_version(target: &ConnectConfig, version: i32) {
    let mut session = target.connect().unwrap();
    let runner = migrations::migrations::runner();
    let runner = runner.set_target(refinery::Target::Version(version));
    let (runtime, client) = session.client();
    runtime.block_on(runner.run_async(client)).unwrap();
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
    if !has_history(session)? {
        return Ok((0, known));
    }
    let found = session.number("select max(version)::bigint from refinery_schema_history")?;
    Ok((found.unwrap_or(0), known))
}

/// Where the writer's connections come from, and how other servers hear of its commits.
pub(super) struct WriterSource {
    target: Arc<ConnectConfig>,
    /// Who tells.
    server: u64,
}

impl WriterSource {
    pub(super) fn new(target: Arc<ConnectConfig>, server: u64) -> Self {
        Self { target, server }
    }
}

impl WriterBackend for WriterSource {
    fn open(&mut self) -> sql::Result<Connection> {
        Ok(Connection::Postgres(Box::new(self.target.connect()?)))
    }

    fn after_commit(&mut self, connection: &Connection, changes: &[Change]) -> bool {
        let Some(text) = change_codec::encode(self.server, changes) else { return true };
        let Connection::Postgres(session) = connection else { return true };
        // Outside the transaction: a commit that tells waits for every other one that does.
        session.execute_batch(&format!("select pg_notify('{CHANNEL}', '{text}')")).is_ok()
    }
}
