//! Connections to one origin with one credential and one trust: few and long-lived, a new one only
//! when the streams of all are taken.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use bytes::Bytes;
use http::Request;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::outbound::Outbound;
use crate::provider_config::BaseUrl;
use crate::providers::registry::Shared;
use crate::providers::transport::connection::{Connection, Driver, establish};
use crate::providers::transport::dial::{Dial, Io, Protocols, TlsConfigs, Trust};
use crate::providers::transport::response::{Failure, Reply, read_body};
use crate::providers::transport::{
    CONNECTIONS_MAX, PROOF_WAIT, RECONNECT_INTERVAL, RESENDS_MAX, STREAMS_ASSUMED,
};
use crate::reasons;

/// What connections may be shared by: a provider binds a connection to the
/// credential that it saw first.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct PoolKey {
    /// Origin.
    pub(crate) origin: String,
    /// Names the provider and then the credential, without holding it; `None` where the address is a
    /// user's, so that such a pool is never one that goes unguarded.
    pub(crate) credential: Option<String>,
    /// Roots beside the system's.
    pub(crate) trust: Trust,
    /// What is offered.
    pub(crate) protocols: Protocols,
}

/// All pools of the server, each as long as some provider uses it.
#[derive(Default)]
pub(crate) struct Pools {
    pools: Shared<PoolKey, Pool>,
    /// By origin.
    paces: Shared<String, Pace>,
    tls: Arc<TlsConfigs>,
}

impl Pools {
    /// The TLS configurations that the pools use.
    pub(crate) fn tls(&self) -> &Arc<TlsConfigs> {
        &self.tls
    }

    /// Connections whose credential begins with that provider's name: those with requests under
    /// way, and those without.
    pub(crate) fn connections(&self, provider: &str) -> [u64; 2] {
        let mut counts = [0, 0];
        for (key, pool) in self.pools.all() {
            // Pools to addresses of users are Web Push's.
            let named = key
                .credential
                .as_deref()
                .map_or("webpush", |credential| credential.split(' ').next().unwrap_or_default());
            if named == provider {
                for connection in &pool.state().connections {
                    counts[usize::from(connection.load.in_flight() == 0)] += 1;
                }
            }
        }
        counts
    }

    /// The pool for that base url, an existing one where somebody uses it.
    pub(crate) fn get(
        &self,
        base_url: &BaseUrl,
        credential: String,
        trust: Trust,
        protocols: Protocols,
    ) -> Arc<Pool> {
        let key =
            PoolKey { origin: base_url.origin(), credential: Some(credential), trust, protocols };
        self.pool(key, base_url, None)
    }

    /// The pool for an origin that a user named: all who send there share it, since nothing of a
    /// credential is bound to its connections.
    pub(crate) fn get_guarded(
        &self,
        base_url: &BaseUrl,
        trust: Trust,
        guard: &Outbound,
    ) -> Arc<Pool> {
        let origin = base_url.origin();
        let key = PoolKey { origin, credential: None, trust, protocols: Protocols::Http2OrHttp1 };
        self.pool(key, base_url, Some(guard))
    }

    fn pool(&self, key: PoolKey, base_url: &BaseUrl, guard: Option<&Outbound>) -> Arc<Pool> {
        self.pools.get(key, |key| Pool {
            dial: Arc::new(Dial {
                base_url: base_url.clone(),
                trust: key.trust.clone(),
                protocols: key.protocols,
                tls: Arc::clone(&self.tls),
                guard: guard.cloned(),
            }),
            pace: self.paces.get(key.origin.clone(), |_| Pace::default()),
            state: Mutex::default(),
            changed: Notify::new(),
        })
    }
}

/// The connections of one key.
pub(crate) struct Pool {
    dial: Arc<Dial>,
    pace: Arc<Pace>,
    state: Mutex<State>,
    /// A stream came free, a connection came or went, or a limit moved.
    changed: Notify,
}

#[derive(Default)]
struct State {
    connections: Vec<Arc<Connection>>,
    is_connecting: bool,
    connections_made: u64,
    failures: u64,
    last_failure: Option<Failure>,
}

impl State {
    /// A connection with a free stream, that stream taken.
    fn take_stream(&self) -> Option<Arc<Connection>> {
        self.connections.iter().find(|connection| connection.load.take()).map(Arc::clone)
    }

    /// Whether one more connection would help: nobody hurries past one that may be about to raise its
    /// limit (APNs begins with one stream).
    fn wants_connection(&self) -> bool {
        !self.is_connecting
            && self.connections.len() < CONNECTIONS_MAX
            && !self.connections.iter().any(|connection| connection.may_grow())
    }
}

/// A stream of a connection, given back when dropped.
struct Slot<'p> {
    pool: &'p Pool,
    connection: Arc<Connection>,
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.connection.load.give_back();
        self.pool.changed.notify_one();
    }
}

impl Pool {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    /// Makes one request. What was certainly not processed (RFC 9113 sections 6.8 and 8.7) is sent
    /// again at once, on a connection that takes it: that is no attempt of its own. `request`
    /// builds it anew.
    pub(crate) async fn send<F>(
        self: &Arc<Self>,
        request: F,
        body: Bytes,
        deadline: Instant,
    ) -> Result<Reply, Failure>
    where
        F: Fn() -> Request<()>,
    {
        let mut resends = 0;
        loop {
            let slot = self.acquire(deadline).await?;
            let failure = match self.exchange(&slot, request(), body.clone(), deadline).await {
                Ok(reply) => return Ok(reply),
                Err(failure) => failure,
            };
            let may_resend = failure.outcome == crate::providers::Certainty::NotProcessed;
            if !may_resend || resends == RESENDS_MAX {
                return Err(failure);
            }
            resends += 1;
        }
    }

    async fn exchange(
        &self,
        slot: &Slot<'_>,
        request: Request<()>,
        body: Bytes,
        deadline: Instant,
    ) -> Result<Reply, Failure> {
        let connection = &slot.connection;
        // A clone has no request of its own waiting, so that it never has to be asked for room.
        let mut send = connection.send.clone();
        let ends_at_once = body.is_empty();
        let (response, mut stream) = send.send_request(request, ends_at_once).map_err(|error| {
            // Refused before anything was sent: the connection is ending or out of stream ids.
            self.retire(connection.id);
            Failure::unsent(if error.is_go_away() { "goaway" } else { "connection_ended" })
        })?;
        if !ends_at_once {
            // h2 holds the body back as the windows say; it is a few KiB. An error here comes again,
            // with its cause, from the response.
            let _ = stream.send_data(body, true);
        }
        let response = timeout_at(deadline, response).await;
        let response =
            response.map_err(|_| Failure::unknown(reasons::TIMEOUT))?.map_err(|error| {
                let failure = Failure::of_stream(&error);
                if error.is_go_away() {
                    self.retire(connection.id);
                }
                failure
            })?;
        connection.load.answered();
        let (head, body) = response.into_parts();
        let body = read_body(body, deadline).await;
        Ok(Reply { status: head.status, headers: head.headers, body, connection: connection.id })
    }

    /// Takes a stream, opening a connection where none is free.
    async fn acquire(self: &Arc<Self>, deadline: Instant) -> Result<Slot<'_>, Failure> {
        if let Some(connection) = self.state().take_stream() {
            return Ok(Slot { pool: self, connection });
        }
        let failures = self.state().failures;
        match timeout_at(deadline, self.wait_for_stream(failures)).await {
            Ok(taken) => taken,
            Err(_) => Err(Failure::unsent("no_free_stream")),
        }
    }

    /// `failures` is how many connections had failed before: one more, with none left, ends the wait.
    async fn wait_for_stream(self: &Arc<Self>, failures: u64) -> Result<Slot<'_>, Failure> {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            {
                let mut state = self.state();
                if let Some(connection) = state.take_stream() {
                    return Ok(Slot { pool: self, connection });
                }
                if state.connections.is_empty() && state.failures > failures {
                    let failure = state.last_failure.clone();
                    return Err(failure.expect("a failure is kept with its count"));
                }
                if state.wants_connection() {
                    state.is_connecting = true;
                    tokio::spawn(open(Connecting::of(self)));
                }
            }
            // Looked again on its own as well: a connection that is waited for may never answer.
            let _ = timeout(PROOF_WAIT, changed).await;
        }
    }

    /// Sends nothing more over a connection; what is under way on it goes on.
    pub(crate) fn retire(&self, id: u64) {
        self.state().connections.retain(|connection| connection.id != id);
        self.changed.notify_waiters();
    }

    /// How many requests can be under way: the limits of the connections that are there, and of one
    /// more when these are used up. `None` before the first connection.
    pub(crate) fn slots(&self) -> Option<usize> {
        let state = self.state();
        let last = state.connections.last()?;
        let limits: usize = state.connections.iter().map(|one| one.load.limit()).sum();
        let in_flight: usize = state.connections.iter().map(|one| one.load.in_flight()).sum();
        let may_grow = in_flight >= limits && state.wants_connection();
        let growth = if may_grow { last.load.limit().min(STREAMS_ASSUMED) } else { 0 };
        Some(limits + growth)
    }

    /// How many connections take requests now.
    #[cfg(test)]
    pub(super) fn connections(&self) -> usize {
        self.state().connections.len()
    }
}

// From a place in a pool to a connection that is driven to its end.

/// The one connection that is being opened; gives the place back whatever becomes of it, also when
/// its runtime ends.
struct Connecting(Weak<Pool>);

impl Connecting {
    /// A place of that pool, marked as taken by the caller.
    fn of(pool: &Arc<Pool>) -> Self {
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
async fn open(connecting: Connecting) {
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

// How often an origin that fails is tried: all pools of an origin share one pace, so that many
// applications do not add up to a storm.

/// The pace of one origin.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// While the origin fails: when the next connection may begin.
    next: Mutex<Option<Instant>>,
}

impl Pace {
    /// When a connection may begin; that moment is then taken.
    pub(super) fn reserve(&self, now: Instant) -> Instant {
        let mut next = self.next.lock().expect("nothing panics under this lock");
        match *next {
            None => now,
            Some(at) => {
                let at = at.max(now);
                *next = Some(at + RECONNECT_INTERVAL);
                at
            }
        }
    }

    /// A connection failed, or did not live.
    pub(super) fn failed(&self, now: Instant) {
        let mut next = self.next.lock().expect("nothing panics under this lock");
        let earliest = now + RECONNECT_INTERVAL;
        *next = Some(next.map_or(earliest, |at| at.max(earliest)));
    }

    /// A connection stands.
    pub(super) fn succeeded(&self) {
        *self.next.lock().expect("nothing panics under this lock") = None;
    }
}
