//! Whether a connection keeps its session. A pooler such as `PgBouncer` can give each transaction another connection
//! to the database: `pool_mode = transaction`. Locks, settings, prepared statements and notifications of a session
//! are then lost between two transactions.

use tokio_postgres::SimpleQueryMessage;

use super::connect_config::ConnectConfig;
use super::session::Session;
use crate::store::sql::Result;

/// How many transactions of an otherwise idle connection must run in the same session.
const TURNS: u32 = 4;

/// Whether the connections to a database keep their sessions. Must not be called on a thread of a runtime.
///
/// A pooler gives an idle session to the next connection that needs one: the second one here. If it gives out sessions in
/// turn, the transactions of the first connection run in different ones.
pub(super) fn keeps_sessions(target: &ConnectConfig) -> Result<bool> {
    let first = target.connect()?;
    let session = backend_of(&first)?;
    for _ in 1..TURNS {
        if backend_of(&first)? != session {
            return Ok(false);
        }
    }
    let second = target.connect()?;
    second.execute_batch("begin")?;
    Ok(backend_of(&second)? != session && backend_of(&first)? == session)
}

/// The process of the database that serves a connection, and when it began. The simple protocol has no prepared
/// statements, which a pooler may not support.
fn backend_of(session: &Session) -> Result<Option<String>> {
    let query =
        "select pid || ' ' || backend_start from pg_stat_activity where pid = pg_backend_pid()";
    let messages = session.query_blocking(session.client.simple_query(query))?;
    let row = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    Ok(row.and_then(|row| row.get(0)).map(str::to_owned))
}
