//! One connection through the proxy, from its accept to its end.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::{Fault, Line, Side, reset};

/// The most bytes that are forwarded at a time.
const PIECE_BYTES_MAX: usize = 16 * 1_024;

/// The state that both directions of a connection share.
#[derive(Default)]
struct Shared {
    passed: AtomicU64,
    is_silent: AtomicBool,
}

/// A change that ends all open connections.
enum LineChange {
    Cut,
    HangUp(Side),
}

/// Forwards the bytes of a connection in both directions until it ends.
pub(super) async fn run(client: TcpStream, line: watch::Receiver<Line>) {
    let initial = *line.borrow();
    let mut changes = line.clone();
    if initial.fault == Fault::Blackhole {
        return swallow(client, &mut changes, &initial).await;
    }
    let Ok(server) = TcpStream::connect(initial.upstream).await else { return reset(&client) };
    // Nagle's algorithm would delay bytes, which is a fault that the test did not set.
    if client.set_nodelay(true).and_then(|()| server.set_nodelay(true)).is_err() {
        return reset_both(&client, &server);
    }
    let shared = Shared::default();
    let (mut client_in, mut client_out) = client.into_split();
    let (mut server_in, mut server_out) = server.into_split();
    let carried = async {
        tokio::try_join!(
            carry(&mut client_in, &mut server_out, line.clone(), &shared),
            carry(&mut server_in, &mut client_out, line.clone(), &shared),
        )
    };
    let ended = tokio::select! {
        ended = carried => Ok(ended),
        change = next_change(&mut changes, &initial) => Err(change),
    };
    let client = client_in.reunite(client_out).expect("both are halves of the client's");
    let server = server_in.reunite(server_out).expect("both are halves of the server's");
    match ended {
        Ok(Ok(_)) => {}
        Ok(Err(_)) | Err(LineChange::Cut) => reset_both(&client, &server),
        Err(LineChange::HangUp(side)) => {
            let (open, closed) = match side {
                Side::Client => (server, client),
                Side::Server => (client, server),
            };
            drop(closed);
            let current = *changes.borrow();
            swallow(open, &mut changes, &current).await;
        }
    }
}

fn reset_both(client: &TcpStream, server: &TcpStream) {
    reset(client);
    reset(server);
}

/// Waits for a change that ends all open connections.
async fn next_change(line: &mut watch::Receiver<Line>, initial: &Line) -> LineChange {
    let has_changed = |line: &Line| {
        (line.cuts, line.client_ends, line.server_ends)
            != (initial.cuts, initial.client_ends, initial.server_ends)
    };
    match line.wait_for(has_changed).await {
        Ok(line) if line.cuts == initial.cuts && line.client_ends != initial.client_ends => {
            LineChange::HangUp(Side::Client)
        }
        Ok(line) if line.cuts == initial.cuts => LineChange::HangUp(Side::Server),
        // An error means that the proxy was dropped, which also ends its connections.
        Ok(_) | Err(_) => LineChange::Cut,
    }
}

/// Reads all bytes and sends nothing, until all connections are cut.
async fn swallow(mut stream: TcpStream, line: &mut watch::Receiver<Line>, initial: &Line) {
    let reading = async {
        let mut piece = vec![0; PIECE_BYTES_MAX];
        while matches!(stream.read(&mut piece).await, Ok(1..)) {}
        // The peer must not notice the end of the stream either.
        std::future::pending::<()>().await;
    };
    let cut = line.wait_for(|line| line.cuts != initial.cuts);
    tokio::select! {
        () = reading => {}
        _ = cut => {}
    }
    reset(&stream);
}

/// Forwards the bytes of one direction until their end, and then forwards the end.
///
/// # Errors
/// When one side has closed the connection, or the fault cuts the connection.
async fn carry(
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    mut line: watch::Receiver<Line>,
    shared: &Shared,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES_MAX];
    loop {
        let count = from.read(&mut piece).await?;
        // The fault that applies is the one at the time when the bytes are forwarded, after the delay.
        let fault = after_delay(&mut line).await;
        if fault == Fault::Blackhole || shared.is_silent.load(Ordering::Relaxed) {
            shared.is_silent.store(true, Ordering::Relaxed);
            if count == 0 {
                std::future::pending::<()>().await;
            }
            continue;
        }
        if count == 0 {
            return to.shutdown().await;
        }
        let limit = match fault {
            Fault::CutAfter(limit) => limit,
            Fault::Pass | Fault::Delay(_) | Fault::Blackhole => u64::MAX,
        };
        let before = shared.passed.fetch_add(count as u64, Ordering::Relaxed);
        let left = limit.saturating_sub(before);
        let passing = count.min(usize::try_from(left).unwrap_or(usize::MAX));
        to.write_all(&piece[..passing]).await?;
        if left <= count as u64 {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
    }
}

/// Waits for the delay of bytes that arrived now. Returns the fault that applies after the delay.
async fn after_delay(line: &mut watch::Receiver<Line>) -> Fault {
    let started = Instant::now();
    loop {
        let fault = line.borrow_and_update().fault;
        let Fault::Delay(delay) = fault else { return fault };
        // A change of the fault during the delay applies at once.
        if timeout_at(started + delay, line.changed()).await.is_err() {
            return fault;
        }
    }
}
