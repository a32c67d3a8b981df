//! A host whose feeds all hang uses only its share of the concurrent fetches. Feeds of other hosts are
//! fetched as usual.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use notify_tests::{TestServer, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::host::rss;
use crate::{create, fetched};

/// The number of feeds of the slow host: the server's limit of concurrent fetches.
const FEEDS: usize = 8;
/// The server's limit of concurrent fetches from one host.
const PER_HOST_MAX: usize = 2;

/// The requests of a host.
#[derive(Default)]
struct Asked {
    all: AtomicUsize,
    now: AtomicUsize,
    most: AtomicUsize,
    /// The connections that the server closed. The server's next request may arrive before the test notices
    /// the close.
    disconnected: AtomicUsize,
}

/// A host that returns a feed, or lets requests wait.
struct Gate {
    origin: String,
    holds: watch::Sender<bool>,
    asked: Arc<Asked>,
    serving: JoinHandle<()>,
}

impl Gate {
    async fn on(ip: Ipv4Addr) -> Result<Self> {
        let listener = TcpListener::bind((ip, 0)).await?;
        let origin = format!("http://{}", listener.local_addr()?);
        let (holds, asked) = (watch::Sender::new(false), Arc::<Asked>::default());
        let (its, counted) = (holds.subscribe(), asked.clone());
        let serving = tokio::spawn(async move {
            while let Ok((io, _)) = listener.accept().await {
                let (mut holds, asked) = (its.clone(), counted.clone());
                tokio::spawn(async move {
                    let now = asked.now.fetch_add(1, Ordering::SeqCst) + 1;
                    asked.most.fetch_max(now, Ordering::SeqCst);
                    asked.all.fetch_add(1, Ordering::SeqCst);
                    // An error means that the server has closed the connection.
                    let _ = answer(io, &mut holds, &asked).await;
                });
            }
        });
        Ok(Self { origin, holds, asked, serving })
    }

    fn all(&self) -> usize {
        self.asked.all.load(Ordering::SeqCst)
    }

    /// The most concurrent requests from the server's point of view.
    fn most(&self) -> usize {
        let disconnected = self.asked.disconnected.load(Ordering::SeqCst);
        self.asked.most.load(Ordering::SeqCst).saturating_sub(disconnected)
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(mut io: TcpStream, holds: &mut watch::Receiver<bool>, asked: &Asked) -> Result<()> {
    // A connection whose read fails here fails again below.
    let _ = io.read(&mut [0; 4_096]).await;
    let is_disconnected = tokio::select! {
        _ = holds.wait_for(|holds| !holds) => false,
        _ = io.read_u8() => true,
    };
    // The count falls before the response is sent, because the next request may follow the response at once.
    asked.disconnected.fetch_add(usize::from(is_disconnected), Ordering::SeqCst);
    asked.now.fetch_sub(1, Ordering::SeqCst);
    let body = rss(&[1]);
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
    io.write_all(format!("{head}{body}").as_bytes()).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hanging_feeds_of_one_host_do_not_delay_other_hosts() -> Result<()> {
    let server = TestServer::without_providers_with(|config| {
        config.allow_private_networks = true;
    })
    .await;
    let caller = server.caller();
    let (slow, other) =
        (Gate::on(Ipv4Addr::LOCALHOST).await?, Gate::on(Ipv4Addr::new(127, 0, 0, 2)).await?);
    let mut feeds = Vec::new();
    for number in 0..FEEDS {
        feeds.push(create(&caller, &format!("{}/{number}", slow.origin)).await?);
    }
    // This feed is created last, so it is due after all others.
    server.clock().advance(Duration::from_secs(1));
    feeds.push(create(&caller, &format!("{}/", other.origin)).await?);
    for feed in &feeds {
        assert_eq!(fetched(&caller, feed).await?["status"], "ok");
    }
    assert_eq!((slow.all(), other.all()), (FEEDS, 1));

    slow.holds.send_replace(true);
    server.clock().advance(Duration::from_secs(24 * 3_600));
    until("the other host is asked", async || Ok((other.all() == 2).then_some(()))).await?;
    until("the slow host has all its turns", async || {
        Ok((slow.all() >= FEEDS + PER_HOST_MAX).then_some(()))
    })
    .await?;
    ensure!(slow.most() <= PER_HOST_MAX, "{} at once", slow.most());
    slow.holds.send_replace(false);
    // The waiting fetches continue. A fetch that waited for too long has failed and is tried later.
    until("each was asked for again", async || Ok((slow.all() >= 2 * FEEDS).then_some(()))).await?;
    ensure!(slow.most() <= PER_HOST_MAX, "{} at once", slow.most());
    server.stop().await;
    Ok(())
}
