//! One connection through the proxy, from its accept to its end.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::{Fault, Line, Side, reset};

/// Most bytes of one piece.
const PIECE_BYTES_MAX: usize = 16 * 1_024;

/// What both directions share.
#[derive(Default)]
struct Shared {
    passed: AtomicU64,
    is_silent: AtomicBool,
}

/// What was done to all connections that were open.
enum LineChange {
    Cut,
    HangUp(Side),
}

/// Carries a client's bytes to the address that the line leads to, and back, until the end.
pub(super) async fn run(client: TcpStream, line: watch::Receiver<Line>) {
    let initial = *line.borrow();
    let mut changes = line.clone();
    if initial.fault == Fault::Blackhole {
        return swallow(client, &mut changes, &initial).await;
    }
    let Ok(server) = TcpStream::connect(initial.upstream).await else { return reset(&client) };
    // Without Nagle's algorithm, which would be a fault of its own.
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
            let (kept, ended) = match side {
                Side::Client => (server, client),
                Side::Server => (client, server),
            };
            drop(ended);
            let current = *changes.borrow();
            swallow(kept, &mut changes, &current).await;
        }
    }
}

fn reset_both(client: &TcpStream, server: &TcpStream) {
    reset(client);
    reset(server);
}

/// Waits for something that is done to every open connection.
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
        // The proxy is gone, and its connections with it.
        Ok(_) | Err(_) => LineChange::Cut,
    }
}

/// Takes what comes and answers nothing, until all connections are cut.
async fn swallow(mut stream: TcpStream, line: &mut watch::Receiver<Line>, initial: &Line) {
    let reading = async {
        let mut piece = vec![0; PIECE_BYTES_MAX];
        while matches!(stream.read(&mut piece).await, Ok(1..)) {}
        // The end of the stream is swallowed too.
        std::future::pending::<()>().await;
    };
    let cut = line.wait_for(|line| line.cuts != initial.cuts);
    tokio::select! {
        () = reading => {}
        _ = cut => {}
    }
    reset(&stream);
}

/// Carries bytes one way until their end, which it passes on.
///
/// # Errors
/// When an end is gone, or the connection is to be cut.
async fn carry(
    from: &mut OwnedReadHalf,
    to: &mut OwnedWriteHalf,
    mut line: watch::Receiver<Line>,
    shared: &Shared,
) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES_MAX];
    loop {
        let count = from.read(&mut piece).await?;
        // The fault of the moment in which the piece would go on.
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

/// Waits as long as the line delays a piece that came now; returns what it does then.
async fn after_delay(line: &mut watch::Receiver<Line>) -> Fault {
    let started = Instant::now();
    loop {
        let fault = line.borrow_and_update().fault;
        let Fault::Delay(delay) = fault else { return fault };
        // A change of the line during the delay counts at once.
        if timeout_at(started + delay, line.changed()).await.is_err() {
            return fault;
        }
    }
}
