//! A TCP proxy with faults, on loopback, between a server and its
//! database, or anything else. The fault can be changed while connections are open.

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

/// Most connections at once; one more is reset.
const CONNECTIONS_MAX: usize = 256;

/// What happens to every byte from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: bytes pass.
    Pass,
    /// Each chunk is forwarded that much later.
    Delay(Duration),
    /// Bytes and ends of connections are read and dropped; new connections are
    /// accepted and not forwarded. A connection that lost something stays silent until it is cut,
    /// whatever the fault is later: its bytes would no longer fit together.
    Blackhole,
    /// A connection is reset after that many bytes, both directions together.
    CutAfter(u64),
}

/// One end of a proxied connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Who connected to the proxy.
    Client,
    /// The server that the proxy connected to.
    Server,
}

/// What connections watch; the counters say how often something was done to all open ones.
#[derive(Debug, Clone, Copy)]
struct Line {
    upstream: SocketAddr,
    fault: Fault,
    cuts: u64,
    client_ends: u64,
    server_ends: u64,
}

/// A running proxy. Dropping it closes everything.
pub struct FaultProxy {
    address: SocketAddr,
    line: watch::Sender<Line>,
    free: Arc<Semaphore>,
    accepting: JoinHandle<()>,
}

impl FaultProxy {
    /// Listens on a free port of loopback, and forwards to that address.
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

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the fault, for open and for new connections.
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

    /// Half-opens every open connection: that end sees it close, the other one does not.
    pub fn hang_up(&self, side: Side) {
        self.line.send_modify(|line| match side {
            Side::Client => line.client_ends += 1,
            Side::Server => line.server_ends += 1,
        });
    }

    /// How many connections are open, silent ones included.
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
                    Ok(held) => {
                        let line = line.clone();
                        connections.spawn(async move {
                            connection::run(client, line).await;
                            drop(held);
                        });
                    }
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// Has the socket end with a reset when it is dropped, in place of an orderly end.
fn reset(stream: &TcpStream) {
    // A socket that is gone already needs none.
    drop(stream.set_zero_linger());
}
