//! A TCP proxy with faults, on loopback. Tests put it between a server and its database, or before any other
//! TCP service. The fault can be changed while connections are open.

mod connection;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};

/// The most concurrent connections. Any further connection is reset.
const CONNECTIONS_MAX: usize = 256;

/// The fault that applies to all bytes from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No fault: bytes are forwarded.
    Pass,
    /// Each chunk is forwarded with this delay.
    Delay(Duration),
    /// The proxy reads bytes and ends of connections and drops them. It accepts new connections but does not
    /// forward them. A connection that lost bytes stays silent until it is cut, even if the fault ends:
    /// later bytes would not follow on the earlier ones.
    Blackhole,
    /// A connection is reset after this number of bytes, counted over both directions.
    CutAfter(u64),
}

/// One end of a proxied connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The client that connected to the proxy.
    Client,
    /// The server that the proxy connected to.
    Server,
}

/// The state that all connections watch. A counter is increased to do something to all open connections.
#[derive(Debug, Clone, Copy)]
struct Line {
    upstream: SocketAddr,
    fault: Fault,
    cuts: u64,
    client_ends: u64,
    server_ends: u64,
}

/// A running proxy. Dropping it closes all connections.
pub struct FaultProxy {
    address: SocketAddr,
    line: watch::Sender<Line>,
    free: Arc<Semaphore>,
    accepting: JoinHandle<()>,
}

impl FaultProxy {
    /// Listens on a free loopback port and forwards to `upstream`.
    ///
    /// # Errors
    /// When there is no free port.
    pub async fn start(upstream: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let initial =
            Line { upstream, fault: Fault::Pass, cuts: 0, client_ends: 0, server_ends: 0 };
        let (line, watched) = watch::channel(initial);
        let free = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let accepting = tokio::spawn(accept(listener, watched, free.clone()));
        Ok(Self { address, line, free, accepting })
    }

    /// The address on which the proxy listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the fault for open and for new connections.
    pub fn set(&self, fault: Fault) {
        self.line.send_modify(|line| line.fault = fault);
    }

    /// Forwards new connections to another address, as after a failover.
    pub fn lead_to(&self, upstream: SocketAddr) {
        self.line.send_modify(|line| line.upstream = upstream);
    }

    /// Resets every open connection, both ends.
    pub fn cut_all(&self) {
        self.line.send_modify(|line| line.cuts += 1);
    }

    /// Closes every open connection on one side. The other side does not notice.
    pub fn hang_up(&self, side: Side) {
        self.line.send_modify(|line| match side {
            Side::Client => line.client_ends += 1,
            Side::Server => line.server_ends += 1,
        });
    }

    /// The number of open connections, including silent ones.
    #[must_use]
    pub fn open_connections(&self) -> usize {
        CONNECTIONS_MAX - self.free.available_permits()
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, line: watch::Receiver<Line>, free: Arc<Semaphore>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((client, _)) = accepted else { continue };
                match free.clone().try_acquire_owned() {
                    Err(_) => reset(&client),
                    Ok(permit) => {
                        let line = line.clone();
                        connections.spawn(async move {
                            connection::run(client, line).await;
                            drop(permit);
                        });
                    }
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Makes the socket send a reset when it is dropped, instead of closing normally.
fn reset(stream: &TcpStream) {
    // An error means that the socket is already closed.
    drop(stream.set_zero_linger());
}
