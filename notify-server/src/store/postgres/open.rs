//! Opening a database. Only one server at a time runs migrations. Tables that a newer server has
//! migrated are refused.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use refinery::Migration;

use super::connect_config::ConnectConfig;
use super::schema::{CHANNEL, MIGRATION_LOCK, use_first_schema};
use super::session::Session;
use super::sets::SetMode;
use super::{change_codec, migrations};
use crate::store::Change;
use crate::store::sql::{self, Connection, Moved, WriterBackend};

/// The longest wait for a migration, including the migration of another server.
const MIGRATION_WAIT: Duration = Duration::from_secs(3_600);

/// The longest wait for servers of an older version to stop. A killed server counts as alive until
/// the end of its lease, which is 15 seconds.
pub(super) const OLDER_WAIT: Duration = Duration::from_secs(20);
/// How often the migration checks whether such servers are still alive.
const OLDER_CHECKED_EVERY: Duration = Duration::from_millis(250);

/// The default number of connections that read.
pub const READERS_DEFAULT: usize = 4;

/// Options of [`super::open()`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PostgresOptions {
    /// Whether this process is a server, which listens for the changes of other servers. False for
    /// a subcommand.
    pub serves: bool,
    /// The number of connections that read.
    pub readers: usize,
    /// How the process uses sets, if it serves.
    pub sets: SetMode,
    /// Whether each statement waits a random moment before it runs.
    #[cfg(test)]
    pub has_pauses: bool,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            serves: true,
            readers: READERS_DEFAULT,
            sets: SetMode::On,
            #[cfg(test)]
            has_pauses: false,
        }
    }
}

/// Why the database was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Its tables have a newer version.
    #[error(
        "{place} was written by a newer notify-server (schema {found}; this one knows {known}): \
         update this server, or restore a backup"
    )]
    Newer {
        /// The host, port and name of the database.
        place: String,
        /// The version of its tables.
        found: i64,
        /// The latest version that this server knows.
        known: i64,
    },
    /// Servers of an older version are running; they cannot use migrated tables.
    #[error(
        "{place} is served by {servers} notify-server of an older version: stop them before this one \
         brings the tables up to date"
    )]
    OlderServe {
        /// The host, port and name of the database.
        place: String,
        /// The number of servers.
        servers: i64,
    },
    /// A transfer forbids using the database.
    #[error("{place} cannot be used")]
    Moved {
        /// The host, port and name of the database.
        place: String,
        /// The cause.
        #[source]
        source: Moved,
    },
    /// No schema of the search path exists, or the user may not use it.
    #[error(
        "{place} has no schema of the search path that its user may use: create it, grant it to the \
         user, or name another one in the url (options=-csearch_path%3DNAME)"
    )]
    NoSchema {
        /// The host, port and name of the database.
        place: String,
    },
    /// The first schema of the search path is not the one that contains the tables.
    #[error(
        "{place} has the tables of a notify-server in the schema {other}, but the search path begins \
         with the schema {first}: name the right one in the url (options=-csearch_path%3DNAME)"
    )]
    OtherSchema {
        /// The host, port and name of the database.
        place: String,
        /// The first schema of the search path.
        first: String,
        /// The schema that contains the tables.
        other: String,
    },
    /// A pooler gives each transaction another session.
    #[error(
        "{place} is reached through a connection pooler that does not keep sessions, such as PgBouncer \
         with pool_mode = transaction: set pool_mode = session for this database, or connect to \
         PostgreSQL itself"
    )]
    NoSessions {
        /// The host, port and name of the database.
        place: String,
    },
    /// The certificates that the URL names cannot be read.
    #[error("the certificates of sslrootcert cannot be read")]
    Certificates(#[source] std::io::Error),
    /// The database cannot be reached or used.
    #[error("{place} cannot be used as a database")]
    Database {
        /// The host, port and name of the database.
        place: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// What a database contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) enum SchemaState {
    /// Tables of Notify, of any version.
    Notify,
    /// No table.
    Empty,
    /// Tables of other software, for example this one.
    Foreign(String),
}

/// Checks what the schema contains.
pub(super) fn read_schema_state(session: &Session) -> sql::Result<SchemaState> {
    if migrations::has_history(session)? {
        return Ok(SchemaState::Notify);
    }
    let foreign_tables = session.query(
        session.statement_index(
            "select tablename::text from pg_tables where schemaname = current_schema() limit 1",
        ),
        &[],
    )?;
    match foreign_tables.first() {
        None => Ok(SchemaState::Empty),
        Some(row) => Ok(SchemaState::Foreign(sql::Row::Postgres(row).get(0)?)),
    }
}

/// Migrates the tables. Waits at most `older_wait` until no server of an older version is alive.
pub(super) fn migrate(target: &ConnectConfig, older_wait: Duration) -> Result<(), OpenError> {
    migrate_by(&migrations::all(), target, older_wait)
}

/// As [`migrate`], by these migrations.
pub(super) fn migrate_by(
    migrations: &[Migration],
    target: &ConnectConfig,
    older_wait: Duration,
) -> Result<(), OpenError> {
    let database_error = |source: Box<dyn std::error::Error + Send + Sync>| OpenError::Database {
        place: target.place.clone(),
        source,
    };
    let session = target.connect().map_err(|error| database_error(error.into()))?;
    use_first_schema(&session, &target.place)?;
    lock_migrations(&session).map_err(|error| database_error(error.into()))?;
    let known = migrations::latest_version(migrations);
    let found = migrations::read_version(&session).map_err(|error| database_error(error.into()))?;
    if found > known {
        return Err(OpenError::Newer { place: target.place.clone(), found, known });
    }
    if found == known {
        return Ok(());
    }
    if found > 0 {
        let servers = wait_for_old_servers(&session, older_wait)
            .map_err(|error| database_error(error.into()))?;
        if servers > 0 {
            return Err(OpenError::OlderServe { place: target.place.clone(), servers });
        }
    }
    migrations::run(&session, migrations).map_err(|error| database_error(error.into()))
}

/// Waits until no server of an older version is alive, at most `wait`. Returns the number of
/// servers that are still alive. Every live server has the old version of the tables, since a
/// server refuses to run on tables of another version.
fn wait_for_old_servers(session: &Session, wait: Duration) -> sql::Result<i64> {
    let began = Instant::now();
    loop {
        let count_alive = "select count(*) from servers
            where alive_until > (extract(epoch from clock_timestamp()) * 1000)::bigint";
        let servers = session.read_number(count_alive)?.unwrap_or(0);
        if servers == 0 || began.elapsed() >= wait {
            return Ok(servers);
        }
        thread::sleep(OLDER_CHECKED_EVERY);
    }
}

/// Removes the time limits of the session and takes the migration lock, which the session holds
/// until it is closed.
fn lock_migrations(session: &Session) -> sql::Result<()> {
    session.execute_batch(
        "set statement_timeout = 0; set lock_timeout = 0;
         set idle_in_transaction_session_timeout = 0",
    )?;
    let lock = format!("select pg_advisory_lock({MIGRATION_LOCK})");
    session.execute_batch_within(MIGRATION_WAIT, &lock)
}

/// Opens the connections of the writer, and sends the changes of its commits to the other servers.
#[derive(Clone)]
pub(super) struct WriterSource {
    target: Arc<ConnectConfig>,
    /// Identifies this server as the sender.
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
        // The changes are sent after the commit. Inside the transaction, `NOTIFY` would make all
        // notifying transactions commit one after another.
        session.execute_batch(&format!("select pg_notify({CHANNEL}, '{text}')")).is_ok()
    }
}
