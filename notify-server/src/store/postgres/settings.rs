//! The settings of every session. The locks of a dead server are released within seconds, and a dead
//! database is distinguished from a slow one within seconds.

use std::time::Duration;

use super::session::Session;
use crate::store::sql::Result;

/// Longest wait for a connection to one address; a host name may have several.
pub(super) const CONNECT_WAIT: Duration = Duration::from_secs(2);
/// Longest run of a statement.
const STATEMENT_WAIT: Duration = Duration::from_secs(4);
/// Longest wait for a lock; shorter than the statement limit, so that the two errors differ.
const LOCK_WAIT: Duration = Duration::from_secs(3);
/// Longest pause within a transaction, since others wait for its locks.
const IDLE_WAIT: Duration = Duration::from_secs(5);
/// Longest wait for a reply, including a connection attempt. Longer than the server's own limits, which
/// leave the connection usable, but short, since it is how a silently lost connection is noticed.
pub(super) const ANSWER_WAIT: Duration = Duration::from_secs(5);
/// Longest wait of either side for TCP acknowledgements.
pub(super) const TCP_WAIT: Duration = Duration::from_secs(5);
/// TCP keepalive of both sides: idle time, interval and number of probes.
pub(super) const KEEPALIVE_IDLE: Duration = Duration::from_secs(3);
pub(super) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
pub(super) const KEEPALIVE_RETRIES: u32 = 2;

/// Configures a session.
pub(super) fn configure_session(session: &Session) -> Result<()> {
    session.execute_batch(&format!(
        "set statement_timeout = {statement}; set lock_timeout = {lock};
         set idle_in_transaction_session_timeout = {idle};
         set tcp_user_timeout = {tcp}; set tcp_keepalives_idle = {keepalive_idle};
         set tcp_keepalives_interval = {keepalive_interval};
         set tcp_keepalives_count = {KEEPALIVE_RETRIES};
         set join_collapse_limit = 1; set client_min_messages = error;
         select set_config('synchronous_commit', 'on', false)
          where current_setting('synchronous_commit') = 'off'",
        statement = STATEMENT_WAIT.as_millis(),
        lock = LOCK_WAIT.as_millis(),
        idle = IDLE_WAIT.as_millis(),
        tcp = TCP_WAIT.as_millis(),
        keepalive_idle = KEEPALIVE_IDLE.as_secs(),
        keepalive_interval = KEEPALIVE_INTERVAL.as_secs(),
    ))
}
