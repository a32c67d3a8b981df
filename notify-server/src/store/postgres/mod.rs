//! PostgreSQL: connections and their settings, migrations, and the translation of SQL. Nothing here
//! logs.
//!
//! Several servers can use one database, and all of them are equal. The writer thread of each
//! server runs row-by-row writes in order, as on SQLite. They run alone in their application, or in
//! the installation if they concern all of it (`sql/scope.rs`). Frequent writes are in sets (`sets/`):
//! the sets of all servers run at the same time. A server sends the changes of each commit to the
//! other servers (`change_codec.rs`, `listener.rs`).

mod bulk;
mod change_codec;
mod connect_config;
mod failure;
mod listener;
mod migrations;
mod open;
mod pooler;
mod schema;
mod script;
mod session;
pub(in crate::store) mod sets;
mod statements;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
pub(in crate::store) mod tests;
mod tls;
mod url;
mod value;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, RwLock};

pub(in crate::store) use failure::Failure;
pub(in crate::store) use open::SchemaState;
pub use open::{OpenError, PostgresOptions, READERS_DEFAULT};
pub(in crate::store) use session::Session;
pub use sets::SetMode;
pub(in crate::store) use sets::{
    ClaimPage, ClaimRetries, CommitCheckpoint, FinishPages, RegisterDevice, SetWriters,
    SettleRetries, WriteSet,
};
pub(in crate::store) use statements::sequence;
pub use url::{DatabaseUrl, UrlError};

use self::connect_config::ConnectConfig;
use self::listener::ListenThread;
use self::open::{OLDER_WAIT, WriterSource, migrate};
use crate::store::app::resume_erasing;
use crate::store::sql::{
    self, ConnectFn, Connection, Error, Listeners, Readers, Writer, WriterBackend, ensure_usable,
};
use crate::store::{CloseGuard, KeepsSessions, StorageReport, Store, StoreParts};

/// Connects and migrates the tables, or creates them in an empty database. Blocks.
///
/// # Errors
/// When a newer server has migrated the database, or the database cannot be used.
pub fn open(url: &DatabaseUrl, options: PostgresOptions) -> Result<Arc<Store>, OpenError> {
    // Each connection starts a runtime, which must not happen on a thread of another runtime.
    std::thread::scope(|scope| scope.spawn(|| open_on_this_thread(url, options)).join())
        .unwrap_or_else(|_| Err(failed(&url.place(), "opening the database panicked".into())))
}

fn open_on_this_thread(
    url: &DatabaseUrl,
    options: PostgresOptions,
) -> Result<Arc<Store>, OpenError> {
    let target = ConnectConfig::of(url).map_err(OpenError::Certificates)?;
    #[cfg(test)]
    let target = target.with_pauses(options.has_pauses);
    let target = Arc::new(target);
    let place = target.place.clone();
    ensure_sessions(&target)?;
    migrate(&target, OLDER_WAIT)?;
    let server = fastrand::u64(..);
    let mut source = WriterSource::new(Arc::clone(&target), server);
    let connection = source.open().map_err(|error| failed(&place, error.into()))?;
    ensure_usable(&connection).map_err(|error| match error {
        Error::Moved(source) => OpenError::Moved { place: place.clone(), source },
        other => failed(&place, other.into()),
    })?;
    let listeners = Listeners::new(RwLock::new(Vec::new()));
    let mut held: Option<CloseGuard> = None;
    if options.serves {
        resume_erasing(&connection).map_err(|error| failed(&place, error.into()))?;
        let listener = ListenThread::start(Arc::clone(&target), Arc::clone(&listeners), server)
            .map_err(|error| failed(&place, error.into()))?;
        held = Some(Box::new(listener));
    }
    let busy = Arc::new(AtomicU64::new(0));
    let set_source = source.clone();
    let writer =
        Writer::start(Box::new(source), connection, Arc::clone(&listeners), Arc::clone(&busy))
            .map_err(|error| failed(&place, error.into()))?;
    let writer = Arc::new(writer);
    let sets = if options.serves && options.sets != SetMode::Off {
        let sets = SetWriters::start(&set_source, &writer, &listeners, &busy)
            .map_err(|error| failed(&place, error.into()))?;
        #[cfg(any(test, feature = "testing"))]
        if options.sets == SetMode::Failing {
            sets.fail_every_set();
        }
        Some(Arc::new(sets))
    } else {
        None
    };
    let checked = Arc::clone(&target);
    let keeps_sessions: KeepsSessions = Arc::new(move || pooler::keeps_sessions(&checked));
    let reading: ConnectFn =
        Arc::new(move || Ok(Connection::Postgres(Box::new(target.connect()?))));
    let readers = Readers::start(&reading, options.readers, Arc::clone(&busy))
        .map_err(|error| failed(&place, error.into()))?;
    Ok(Store::new(StoreParts {
        writer,
        sets,
        readers,
        listeners,
        busy,
        held,
        in_place: None,
        keeps_sessions: Some(keeps_sessions),
    }))
}

/// Checks what a schema contains, without changing it. Blocks; must not be called on a thread of
/// a runtime.
pub(in crate::store) fn found(url: &DatabaseUrl) -> Result<SchemaState, OpenError> {
    let target = ConnectConfig::of(url).map_err(OpenError::Certificates)?;
    let session = target.connect().map_err(|error| failed(&target.place, error.into()))?;
    schema::use_first_schema(&session, &target.place)?;
    open::read_schema_state(&session).map_err(|error| failed(&target.place, error.into()))
}

/// Connects for a transfer, whose statements may take long. Blocks; must not be called on a thread
/// of a runtime.
pub(in crate::store) fn connect(url: &DatabaseUrl) -> Result<Connection, OpenError> {
    let target = ConnectConfig::of(url).map_err(OpenError::Certificates)?;
    ensure_sessions(&target)?;
    migrate(&target, OLDER_WAIT)?;
    let connecting = target.connect().and_then(|session| {
        session.disable_timeouts()?;
        Ok(Connection::Postgres(Box::new(session)))
    });
    connecting.map_err(|error| failed(&target.place, error.into()))
}

/// Refuses a pooler that does not keep sessions.
fn ensure_sessions(target: &ConnectConfig) -> Result<(), OpenError> {
    match pooler::keeps_sessions(target) {
        Ok(true) => Ok(()),
        Ok(false) => Err(OpenError::NoSessions { place: target.place.clone() }),
        Err(error) => Err(failed(&target.place, error.into())),
    }
}

/// The error of a database that cannot be used.
fn failed(place: &str, source: Box<dyn std::error::Error + Send + Sync>) -> OpenError {
    OpenError::Database { place: place.to_owned(), source }
}

/// Reads the durability settings and the size of the schema, since other software and other
/// installations may use the same database. The free space is unknown, since the database may be on
/// another machine. Foreign roles are the roles other than the server's that may connect to the database:
/// they can log in, and are neither superusers nor members of the server's role. They can take the advisory
/// locks.
pub(in crate::store) fn report(connection: &Connection) -> sql::Result<StorageReport> {
    connection
        .prepare_cached(
            "select (select coalesce(sum(pg_total_relation_size(oid)), 0)::bigint from pg_class
                where relkind = 'r' and relnamespace = quote_ident(current_schema())::regnamespace),
             current_setting('synchronous_commit'),
             current_setting('fsync') = 'on' and current_setting('full_page_writes') = 'on',
             (select count(*) from pg_roles other
               where other.rolcanlogin and not other.rolsuper
                 and has_database_privilege(other.oid, current_database(), 'connect')
                 and not exists (select from pg_roles own where own.rolname = current_user
                   and pg_has_role(other.oid, own.oid, 'member')))",
        )?
        .query_row([], |row| {
            let commit: String = row.get(1)?;
            let is_crash_safe: bool = row.get(2)?;
            Ok(StorageReport {
                backend: "postgres",
                // Without `fsync` the log may be lost in a crash, and without `full_page_writes`
                // pages may be torn.
                journal_mode: if is_crash_safe { "wal" } else { "wal without fsync" }.to_owned(),
                synchronous: if commit == "off" { "off" } else { "full" }.to_owned(),
                database_bytes: row.get::<i64>(0)?.unsigned_abs(),
                log_bytes: 0,
                free_bytes: None,
                foreign_roles: Some(row.get::<i64>(3)?.unsigned_abs()),
            })
        })
}
