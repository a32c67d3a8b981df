//! What every session has, in one place. A server that dies gives up its locks within seconds, and a
//! database that dies is told within seconds from one that is slow.

use std::time::Duration;

use super::session::Session;
use crate::store::sql::Result;

/// Longest wait for a connection to an address, of which a host's name may stand for several.
pub(super) const CONNECT_WAIT: Duration = Duration::from_secs(2);
/// Longest run of a statement.
const STATEMENT_WAIT: Duration = Duration::from_secs(4);
/// Longest wait for a lock; shorter than a statement may take, so that its end is told apart.
const LOCK_WAIT: Duration = Duration::from_secs(3);
/// Longest pause within a transaction, whose locks others wait for.
const IDLE_WAIT: Duration = Duration::from_secs(5);
/// Longest wait for an answer, a connection included. Longer than the server's own bounds, which
/// leave the connection in use; and no longer, since a connection that was lost silently is noticed
/// only then.
pub(super) const ANSWER_WAIT: Duration = Duration::from_secs(5);
/// Longest wait of either side for the other's system to acknowledge what was sent.
pub(super) const TCP_WAIT: Duration = Duration::from_secs(5);
/// When, how often and how many times either side asks whether the other one is still there.
pub(super) const KEEPALIVE_IDLE: Duration = Duration::from_secs(3);
pub(super) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
pub(super) const KEEPALIVE_RETRIES: u32 = 2;

/// Sets a session up.
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
