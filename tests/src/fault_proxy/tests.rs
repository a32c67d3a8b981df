//! What the line does, seen from both of its ends.

use std::io::ErrorKind;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, timeout};

use super::*;
use crate::{WAIT_MAX, until};

/// How long a test looks at a line before it calls it silent.
const SILENCE: Duration = Duration::from_millis(200);

/// A connection through a proxy, both ends of it.
struct Through {
    proxy: FaultProxy,
    listener: TcpListener,
    client: TcpStream,
    server: TcpStream,
}

impl Through {
    async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let proxy = FaultProxy::start(listener.local_addr()?).await?;
        let (client, server) = ends(&proxy, &listener).await?;
        Ok(Self { proxy, listener, client, server })
    }
}

async fn ends(proxy: &FaultProxy, listener: &TcpListener) -> Result<(TcpStream, TcpStream)> {
    let client = TcpStream::connect(proxy.address()).await?;
    let (server, _) = timeout(WAIT_MAX, listener.accept()).await.context("led there")??;
    Ok((client, server))
}

async fn passes(from: &mut TcpStream, to: &mut TcpStream, text: &[u8]) -> Result<()> {
    from.write_all(text).await?;
    let mut came = vec![0; text.len()];
    timeout(WAIT_MAX, to.read_exact(&mut came)).await.context("it passes")??;
    ensure!(came == text, "{came:?}");
    Ok(())
}

async fn is_silent(end: &mut TcpStream) -> Result<()> {
    let mut byte = [0];
    match timeout(SILENCE, end.read(&mut byte)).await {
        Err(_) => Ok(()),
        Ok(read) => bail!("read {read:?}"),
    }
}

async fn is_reset(end: &mut TcpStream) -> Result<()> {
    let mut byte = [0];
    match timeout(WAIT_MAX, end.read(&mut byte)).await.context("it ends")? {
        Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(()),
        other => bail!("no reset: {other:?}"),
    }
}

async fn is_closed(end: &mut TcpStream) -> Result<()> {
    let mut byte = [0];
    let read = timeout(WAIT_MAX, end.read(&mut byte)).await.context("it ends")??;
    ensure!(read == 0, "a byte came");
    Ok(())
}

#[tokio::test]
async fn bytes_and_half_closes_pass_in_both_directions() -> Result<()> {
    let Through { proxy, mut client, mut server, .. } = Through::start().await?;
    let large = vec![7; 1_000_000];
    let (sent, came) = tokio::join!(client.write_all(&large), async {
        let mut came = vec![0; large.len()];
        server.read_exact(&mut came).await.map(|_| came)
    });
    sent?;
    ensure!(came? == large, "whole and in order");
    client.shutdown().await?;
    is_closed(&mut server).await?;
    // The other way is still open.
    passes(&mut server, &mut client, b"answer").await?;
    server.shutdown().await?;
    is_closed(&mut client).await?;
    until("both directions are closed", async || Ok((proxy.open_connections() == 0).then_some(())))
        .await
}

#[tokio::test]
async fn a_delay_applies_to_each_chunk_until_the_fault_changes() -> Result<()> {
    let Through { proxy, mut client, mut server, .. } = Through::start().await?;
    proxy.set(Fault::Delay(SILENCE));
    let started = Instant::now();
    passes(&mut client, &mut server, b"late").await?;
    passes(&mut server, &mut client, b"too").await?;
    ensure!(started.elapsed() >= 2 * SILENCE, "{:?}", started.elapsed());
    proxy.set(Fault::Delay(WAIT_MAX * 2));
    client.write_all(b"held").await?;
    is_silent(&mut server).await?;
    proxy.set(Fault::Pass);
    let mut came = [0; 4];
    timeout(WAIT_MAX, server.read_exact(&mut came)).await.context("let go")??;
    ensure!(&came == b"held");
    Ok(())
}

#[tokio::test]
async fn a_blackholed_connection_stays_silent_for_good() -> Result<()> {
    let Through { proxy, listener, mut client, mut server } = Through::start().await?;
    let (mut idle_client, mut idle_server) = ends(&proxy, &listener).await?;
    passes(&mut client, &mut server, b"before").await?;
    proxy.set(Fault::Blackhole);
    client.write_all(&vec![1; 1_000_000]).await?;
    server.shutdown().await?;
    is_silent(&mut server).await?;
    is_silent(&mut client).await?;
    let mut new = TcpStream::connect(proxy.address()).await?;
    new.write_all(b"anything").await?;
    is_silent(&mut new).await?;

    proxy.set(Fault::Pass);
    client.write_all(b"again").await?;
    is_silent(&mut server).await?;
    is_silent(&mut new).await?;
    // A connection that was silent in the meantime lost nothing.
    passes(&mut idle_client, &mut idle_server, b"hello").await?;
    let (mut later, mut its_server) = ends(&proxy, &listener).await?;
    passes(&mut later, &mut its_server, b"hello").await?;
    proxy.cut_all();
    for end in [&mut client, &mut server, &mut new, &mut idle_client] {
        is_reset(end).await?;
    }
    until("nothing is left", async || Ok((proxy.open_connections() == 0).then_some(()))).await
}

#[tokio::test]
async fn a_half_open_connection_closes_on_one_side_only() -> Result<()> {
    for side in [Side::Client, Side::Server] {
        let Through { proxy, listener, client, server } = Through::start().await?;
        let (mut closing, mut remaining) = match side {
            Side::Client => (client, server),
            Side::Server => (server, client),
        };
        passes(&mut remaining, &mut closing, b"before").await?;
        proxy.hang_up(side);
        is_closed(&mut closing).await?;
        remaining.write_all(b"still there?").await?;
        is_silent(&mut remaining).await?;
        // The other end once more changes nothing, and what comes later is whole.
        proxy.hang_up(side);
        is_silent(&mut remaining).await?;
        let (mut later, mut its_server) = ends(&proxy, &listener).await?;
        passes(&mut later, &mut its_server, b"hello").await?;
        proxy.cut_all();
        is_reset(&mut remaining).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_connection_is_cut_after_the_given_byte() -> Result<()> {
    let Through { proxy, listener, mut client, mut server } = Through::start().await?;
    proxy.set(Fault::CutAfter(10));
    passes(&mut client, &mut server, b"1234").await?;
    passes(&mut server, &mut client, b"56").await?;
    client.write_all(b"789012").await?;
    let mut came = Vec::new();
    let mut byte = [0];
    // The reset may overtake bytes that were not read yet.
    while let Ok(Ok(1)) = timeout(WAIT_MAX, server.read(&mut byte)).await {
        came.push(byte[0]);
    }
    ensure!(b"7890".starts_with(&came), "{came:?}");
    is_reset(&mut client).await?;
    let (mut later, mut its_server) = ends(&proxy, &listener).await?;
    passes(&mut later, &mut its_server, b"123456789").await?;
    proxy.set(Fault::Pass);
    passes(&mut later, &mut its_server, b"and on").await
}

#[tokio::test]
async fn new_connections_follow_a_failover_and_excess_ones_are_reset() -> Result<()> {
    let Through { proxy, mut client, mut server, .. } = Through::start().await?;
    let standby = TcpListener::bind("127.0.0.1:0").await?;
    proxy.lead_to(standby.local_addr()?);
    let (mut later, mut its_server) = ends(&proxy, &standby).await?;
    passes(&mut later, &mut its_server, b"new").await?;
    passes(&mut client, &mut server, b"old").await?;

    let mut held = Vec::new();
    while held.len() + 2 < CONNECTIONS_MAX {
        held.push(ends(&proxy, &standby).await?);
    }
    ensure!(proxy.open_connections() == CONNECTIONS_MAX);
    is_reset(&mut TcpStream::connect(proxy.address()).await?).await?;
    drop(proxy);
    is_closed_or_reset(&mut client).await
}

/// A proxy that is dropped says nothing about how its connections end.
async fn is_closed_or_reset(end: &mut TcpStream) -> Result<()> {
    let mut byte = [0];
    let ended = timeout(WAIT_MAX, end.read(&mut byte)).await.context("it ends")?;
    ensure!(!matches!(ended, Ok(1..)), "a byte came");
    Ok(())
}
