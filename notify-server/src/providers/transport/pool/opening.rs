//! From a place in a pool to a connection that is driven to its end.

use std::sync::{Arc, Weak};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep_until};

use super::Pool;
use crate::providers::transport::RECONNECT_INTERVAL;
use crate::providers::transport::connection::{Connection, Driver, establish};
use crate::providers::transport::dial::Io;
use crate::providers::transport::failure::Failure;
use crate::providers::transport::pace::Pace;

/// The one connection that is being opened; gives the place back whatever becomes of it, also when
/// its runtime ends.
pub(super) struct Connecting(Weak<Pool>);

impl Connecting {
    /// A place of that pool, marked as taken by the caller.
    pub(super) fn of(pool: &Arc<Pool>) -> Self {
        Self(Arc::downgrade(pool))
    }
}

impl Drop for Connecting {
    fn drop(&mut self) {
        if let Some(pool) = self.0.upgrade() {
            pool.state().is_connecting = false;
            pool.changed.notify_waiters();
        }
    }
}

/// Opens a connection when the origin's pace allows, and drives it to its end.
pub(super) async fn open(connecting: Connecting) {
    let Some(pool) = connecting.0.upgrade() else { return };
    let (dial, pace) = (Arc::clone(&pool.dial), Arc::clone(&pool.pace));
    drop(pool);
    sleep_until(pace.reserve(Instant::now())).await;
    let opened = match dial.open().await {
        Ok(Io::Plain(io)) => settle(io, connecting, &pace).await,
        Ok(Io::Tls(io)) => settle(io, connecting, &pace).await,
        Err(failure) => Err((connecting, failure)),
    };
    if let Err((connecting, failure)) = opened {
        pace.failed(Instant::now());
        if let Some(pool) = connecting.0.upgrade() {
            let mut state = pool.state();
            state.failures += 1;
            state.last_failure = Some(failure);
        }
    }
}

/// Takes a byte stream into the pool and drives it.
async fn settle<T>(io: T, connecting: Connecting, pace: &Pace) -> Result<(), (Connecting, Failure)>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let (send, driver) = match establish(io).await {
        Ok(established) => established,
        Err(failure) => return Err((connecting, failure)),
    };
    pace.succeeded();
    let weak = Weak::clone(&connecting.0);
    let Some(pool) = weak.upgrade() else { return Ok(()) };
    let id = {
        let mut state = pool.state();
        state.connections_made += 1;
        let id = state.connections_made;
        state.connections.push(Arc::new(Connection {
            id,
            opened_at: Instant::now(),
            send,
            load: driver.load(),
        }));
        id
    };
    drop(connecting);
    drop(pool);
    drive(driver, &weak, id, pace).await;
    Ok(())
}

async fn drive<T>(driver: Driver<T>, pool: &Weak<Pool>, id: u64, pace: &Pace)
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let (born, load) = (Instant::now(), driver.load());
    let limit_changed = || {
        if let Some(pool) = pool.upgrade() {
            pool.changed.notify_waiters();
        }
    };
    driver.run(limit_changed).await;
    let Some(pool) = pool.upgrade() else { return };
    if born.elapsed() < RECONNECT_INTERVAL && !load.has_served() {
        pace.failed(Instant::now());
    }
    pool.retire(id);
}
