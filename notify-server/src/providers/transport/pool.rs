//! A pool of connections to one origin, with one credential and one set of trusted roots. The connections
//! are few and long-lived. The pool opens a new one only when the streams of all connections are in use.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use bytes::Bytes;
use http::Request;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::outbound::Outbound;
use crate::provider_config::BaseUrl;
use crate::providers::registry::WeakMap;
use crate::providers::transport::RemoteTime;
use crate::providers::transport::connection::{Connection, Driver, establish};
use crate::providers::transport::dial::{Dial, Io, Protocols, TlsConfigs, Trust};
use crate::providers::transport::response::{ProviderResponse, TransportError, read_body};
use crate::providers::transport::{
    CONNECTIONS_MAX, FIRST_RESPONSE_WAIT, RECONNECT_INTERVAL, RESENDS_MAX, STREAMS_ASSUMED,
};
use crate::reasons;

/// The key by which connections are shared. It contains the credential, because a provider binds a
/// connection to the credential of its first request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PoolKey {
    /// Origin.
    pub(crate) origin: String,
    /// The name of the provider and an identifier of the credential, which does not contain the
    /// credential. `None` for a user-supplied address. Because of that, a pool for such an address is
    /// never used without the guard.
    pub(crate) credential: Option<String>,
    /// Roots in addition to the system's.
    pub(crate) trust: Trust,
    /// Protocols offered by ALPN.
    pub(crate) protocols: Protocols,
}

/// All pools of the server. A pool exists as long as some provider uses it.
pub(crate) struct Pools {
    pools: WeakMap<PoolKey, Pool>,
    /// By origin.
    backoffs: WeakMap<String, ReconnectBackoff>,
    tls: Arc<TlsConfigs>,
    /// For addresses that an administrator configured.
    unguarded: Outbound,
    /// The time of the provider that responded last.
    remote_time: RemoteTime,
}

impl Pools {
    /// No pools yet. `remote_time` gets the time of every provider that an administrator configured.
    pub(crate) fn new(outbound: &Outbound, remote_time: &RemoteTime) -> Self {
        Self {
            pools: WeakMap::default(),
            backoffs: WeakMap::default(),
            tls: Arc::default(),
            unguarded: outbound.unguarded(),
            remote_time: remote_time.clone(),
        }
    }

    /// A time for one provider, which is also the time of all.
    pub(crate) fn provider_time(&self) -> RemoteTime {
        RemoteTime::within(&self.remote_time)
    }

    /// For addresses that an administrator configured.
    pub(crate) fn unguarded(&self) -> &Outbound {
        &self.unguarded
    }

    /// The TLS configurations that the pools use.
    pub(crate) fn tls(&self) -> &Arc<TlsConfigs> {
        &self.tls
    }

    /// The number of busy and of idle connections of a provider.
    pub(crate) fn connections(&self, provider: &str) -> [u64; 2] {
        let (mut busy, mut idle) = (0, 0);
        for (key, pool) in self.pools.all() {
            // Only Web Push has pools to user-supplied addresses.
            let pool_provider = key
                .credential
                .as_deref()
                .map_or("webpush", |credential| credential.split(' ').next().unwrap_or_default());
            if pool_provider == provider {
                for connection in &pool.state().connections {
                    if connection.stats.in_flight() > 0 {
                        busy += 1;
                    } else {
                        idle += 1;
                    }
                }
            }
        }
        [busy, idle]
    }

    /// The pool for a base URL. A pool with the same key that is in use is shared.
    pub(crate) fn get(
        &self,
        base_url: &BaseUrl,
        credential: String,
        trust: Trust,
        protocols: Protocols,
    ) -> Arc<Pool> {
        let key =
            PoolKey { origin: base_url.origin(), credential: Some(credential), trust, protocols };
        self.pool(key, base_url, &self.unguarded, self.provider_time())
    }

    /// The pool for a user-supplied origin. All applications share it, because its connections are not
    /// bound to a credential.
    pub(crate) fn get_guarded(
        &self,
        base_url: &BaseUrl,
        trust: Trust,
        guard: &Outbound,
    ) -> Arc<Pool> {
        let origin = base_url.origin();
        let key = PoolKey { origin, credential: None, trust, protocols: Protocols::Http2OrHttp1 };
        // A user could choose a server with a wrong clock.
        self.pool(key, base_url, guard, RemoteTime::default())
    }

    fn pool(
        &self,
        key: PoolKey,
        base_url: &BaseUrl,
        outbound: &Outbound,
        remote_time: RemoteTime,
    ) -> Arc<Pool> {
        self.pools.get(key, |key| Pool {
            dial: Arc::new(Dial {
                base_url: base_url.clone(),
                trust: key.trust.clone(),
                protocols: key.protocols,
                tls: Arc::clone(&self.tls),
                outbound: outbound.clone(),
            }),
            backoff: self.backoffs.get(key.origin.clone(), |_| ReconnectBackoff::default()),
            state: Mutex::default(),
            changed: Notify::new(),
            remote_time,
        })
    }
}

/// The connections of one key.
pub(crate) struct Pool {
    dial: Arc<Dial>,
    backoff: Arc<ReconnectBackoff>,
    state: Mutex<State>,
    /// Notified when a stream becomes free, a connection opens or ends, or a limit changes.
    changed: Notify,
    remote_time: RemoteTime,
}

#[derive(Default)]
struct State {
    connections: Vec<Arc<Connection>>,
    is_connecting: bool,
    connections_made: u64,
    failures: u64,
    last_failure: Option<TransportError>,
}

impl State {
    /// Takes a stream of a connection that has a free one.
    fn acquire_stream(&self) -> Option<Arc<Connection>> {
        self.connections.iter().find(|connection| connection.stats.try_acquire()).map(Arc::clone)
    }

    /// Whether to open another connection. No connection is opened while an existing one may soon raise
    /// its limit, because APNs begins with a single stream.
    fn wants_connection(&self) -> bool {
        !self.is_connecting
            && self.connections.len() < CONNECTIONS_MAX
            && !self.connections.iter().any(|connection| connection.may_grow())
    }
}

/// A stream of a connection, released on drop.
struct StreamPermit<'p> {
    pool: &'p Pool,
    connection: Arc<Connection>,
}

impl Drop for StreamPermit<'_> {
    fn drop(&mut self) {
        self.connection.stats.release();
        self.pool.changed.notify_one();
    }
}

impl Pool {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    /// The time of the origin.
    pub(crate) fn remote_time(&self) -> &RemoteTime {
        &self.remote_time
    }

    /// Makes one request. `request` builds the request, each time it is sent. If the request was certainly
    /// not processed (RFC 9113 sections 6.8 and 8.7), it is resent at once on another connection, which
    /// does not count as a separate attempt.
    pub(crate) async fn send<F>(
        self: &Arc<Self>,
        request: F,
        body: Bytes,
        deadline: Instant,
    ) -> Result<ProviderResponse, TransportError>
    where
        F: Fn() -> Request<()>,
    {
        let mut resends = 0;
        loop {
            let permit = self.acquire(deadline).await?;
            let failure = match self.exchange(&permit, request(), body.clone(), deadline).await {
                Ok(response) => return Ok(response),
                Err(failure) => failure,
            };
            let may_resend = failure.outcome == crate::providers::Processing::NotProcessed;
            if !may_resend || resends == RESENDS_MAX {
                return Err(failure);
            }
            resends += 1;
        }
    }

    /// Sends a request over a stream and reads the response.
    async fn exchange(
        &self,
        permit: &StreamPermit<'_>,
        request: Request<()>,
        body: Bytes,
        deadline: Instant,
    ) -> Result<ProviderResponse, TransportError> {
        let connection = &permit.connection;
        // A clone has no pending request, so `poll_ready` is not needed.
        let mut send = connection.send.clone();
        let ends_at_once = body.is_empty();
        let (response, mut stream) = send.send_request(request, ends_at_once).map_err(|error| {
            // Nothing was sent, because the connection is about to end or has no stream ids left.
            self.retire(connection.id);
            TransportError::unsent(if error.is_go_away() { "goaway" } else { "connection_ended" })
        })?;
        if !ends_at_once {
            // h2 buffers the body, a few KiB, until the flow-control windows allow it. An error is ignored
            // here, because waiting for the response reports it again with its cause.
            let _ = stream.send_data(body, true);
        }
        let response = match timeout_at(deadline, response).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => {
                let failure = TransportError::of_stream(&error);
                if error.is_go_away() {
                    self.retire(connection.id);
                }
                return Err(failure);
            }
            Err(_) => return Err(TransportError::unknown(reasons::TIMEOUT)),
        };
        connection.stats.record_response();
        let (head, body) = response.into_parts();
        self.remote_time.record(&head.headers);
        let body = read_body(body, deadline).await;
        Ok(ProviderResponse {
            status: head.status,
            headers: head.headers,
            body,
            connection: connection.id,
        })
    }

    /// Takes a free stream. If there is none, waits for one, and opens a connection if necessary.
    async fn acquire(
        self: &Arc<Self>,
        deadline: Instant,
    ) -> Result<StreamPermit<'_>, TransportError> {
        if let Some(connection) = self.state().acquire_stream() {
            return Ok(StreamPermit { pool: self, connection });
        }
        let failures = self.state().failures;
        match timeout_at(deadline, self.wait_for_stream(failures)).await {
            Ok(result) => result,
            Err(_) => Err(TransportError::unsent("no_free_stream")),
        }
    }

    /// Waits for a free stream. `failures` is the number of failed connections before the wait.
    ///
    /// # Errors
    /// When a connection fails during the wait and no other connection is open.
    async fn wait_for_stream(
        self: &Arc<Self>,
        failures: u64,
    ) -> Result<StreamPermit<'_>, TransportError> {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            {
                let mut state = self.state();
                if let Some(connection) = state.acquire_stream() {
                    return Ok(StreamPermit { pool: self, connection });
                }
                if state.connections.is_empty() && state.failures > failures {
                    let failure = state.last_failure.clone();
                    return Err(failure.expect("a failure is kept with its count"));
                }
                if state.wants_connection() {
                    state.is_connecting = true;
                    tokio::spawn(open(ConnectSlot::of(self)));
                }
            }
            // The wait has a timeout: a connection that may still raise its limit may never respond, and
            // another one is opened then.
            let _ = timeout(FIRST_RESPONSE_WAIT, changed).await;
        }
    }

    /// Removes a connection from the pool. Requests in flight on it continue.
    pub(crate) fn retire(&self, id: u64) {
        self.state().connections.retain(|connection| connection.id != id);
        self.changed.notify_waiters();
    }

    /// How many requests can run at the same time: the sum of the limits of the open connections. If all
    /// of their streams are in use, the streams of one further connection are added. `None` before the
    /// first connection.
    pub(crate) fn max_concurrency(&self) -> Option<usize> {
        let state = self.state();
        let last = state.connections.last()?;
        let limits: usize =
            state.connections.iter().map(|connection| connection.stats.limit()).sum();
        let in_flight: usize =
            state.connections.iter().map(|connection| connection.stats.in_flight()).sum();
        let may_open_another = in_flight >= limits && state.wants_connection();
        let further_streams =
            if may_open_another { last.stats.limit().min(STREAMS_ASSUMED) } else { 0 };
        Some(limits + further_streams)
    }

    /// Number of open connections.
    #[cfg(test)]
    pub(super) fn connections(&self) -> usize {
        self.state().connections.len()
    }
}

/// The right to open a connection of a pool, which opens one at a time. It is released on drop, also when
/// the runtime ends and drops the task.
struct ConnectSlot(Weak<Pool>);

impl ConnectSlot {
    /// The slot of that pool. The caller has set `is_connecting`.
    fn of(pool: &Arc<Pool>) -> Self {
        Self(Arc::downgrade(pool))
    }
}

impl Drop for ConnectSlot {
    fn drop(&mut self) {
        if let Some(pool) = self.0.upgrade() {
            pool.state().is_connecting = false;
            pool.changed.notify_waiters();
        }
    }
}

/// Opens a connection when the backoff of the origin allows it, and drives the connection until it ends.
async fn open(connecting: ConnectSlot) {
    let Some(pool) = connecting.0.upgrade() else { return };
    let (dial, backoff) = (Arc::clone(&pool.dial), Arc::clone(&pool.backoff));
    drop(pool);
    sleep_until(backoff.reserve(Instant::now())).await;
    let opened = match dial.open().await {
        Ok(Io::Plain(io)) => install(io, connecting, &backoff).await,
        Ok(Io::Tls(io)) => install(io, connecting, &backoff).await,
        Err(failure) => Err((connecting, failure)),
    };
    if let Err((connecting, failure)) = opened {
        backoff.record_failure(Instant::now());
        if let Some(pool) = connecting.0.upgrade() {
            let mut state = pool.state();
            state.failures += 1;
            state.last_failure = Some(failure);
        }
    }
}

/// Makes a byte stream a connection of the pool, and drives the connection until it ends. If HTTP/2 cannot
/// be established, returns the slot, so that the caller can record the failure before it releases the slot.
async fn install<T>(
    io: T,
    connecting: ConnectSlot,
    backoff: &ReconnectBackoff,
) -> Result<(), (ConnectSlot, TransportError)>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let (send, driver) = match establish(io).await {
        Ok(established) => established,
        Err(failure) => return Err((connecting, failure)),
    };
    backoff.record_success();
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
            stats: driver.stats(),
        }));
        id
    };
    drop(connecting);
    drop(pool);
    drive(driver, &weak, id, backoff).await;
    Ok(())
}

/// Drives a connection until it ends, and removes it from the pool.
async fn drive<T>(driver: Driver<T>, pool: &Weak<Pool>, id: u64, backoff: &ReconnectBackoff)
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let (opened_at, stats) = (Instant::now(), driver.stats());
    let limit_changed = || {
        if let Some(pool) = pool.upgrade() {
            pool.changed.notify_waiters();
        }
    };
    driver.run(limit_changed).await;
    let Some(pool) = pool.upgrade() else { return };
    if opened_at.elapsed() < RECONNECT_INTERVAL && !stats.has_many_responses() {
        backoff.record_failure(Instant::now());
    }
    pool.retire(id);
}

/// Limits how often connections to a failing origin are opened. All pools of an origin share one backoff,
/// so that many applications together do not overload the origin.
#[derive(Debug, Default)]
pub(super) struct ReconnectBackoff {
    /// When the next connection may begin; `None` unless the origin fails.
    next: Mutex<Option<Instant>>,
}

impl ReconnectBackoff {
    /// Reserves the next time at which a connection may begin.
    pub(super) fn reserve(&self, now: Instant) -> Instant {
        let mut next = self.next.lock().expect("nothing panics under this lock");
        match *next {
            None => now,
            Some(earliest) => {
                let reserved = earliest.max(now);
                *next = Some(reserved + RECONNECT_INTERVAL);
                reserved
            }
        }
    }

    /// Records that a connection failed or ended too early.
    pub(super) fn record_failure(&self, now: Instant) {
        let mut next = self.next.lock().expect("nothing panics under this lock");
        let earliest = now + RECONNECT_INTERVAL;
        *next = Some(next.map_or(earliest, |at| at.max(earliest)));
    }

    /// Records that a connection was established.
    pub(super) fn record_success(&self) {
        *self.next.lock().expect("nothing panics under this lock") = None;
    }
}

#[cfg(test)]
impl Default for Pools {
    /// Pools whose connections go anywhere, without a proxy.
    fn default() -> Self {
        Self::new(&Outbound::new(true), &RemoteTime::default())
    }
}
