//! Receives the changes that other servers of the database commit, with `LISTEN` on a separate
//! connection. While that connection is down, changes are missed, so every new connection begins
//! with a resync.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Builder;
use tokio_postgres::{AsyncMessage, Client, Connection, SimpleQueryMessage};
use tokio_util::sync::CancellationToken;

use super::change_codec;
use super::connect_config::{ConnectConfig, Connected};
use super::schema::select_channel;
use super::session::REPLY_WAIT;
use crate::store::Change;
use crate::store::sql::{Listeners, notify_listeners};

/// The time between two attempts to connect.
const RECONNECT_DELAY: Duration = Duration::from_secs(1);
/// How often the connection is checked. If the database behind a proxy is replaced, the connection
/// may stay open without receiving changes.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The listener thread. It ends when this handle is dropped.
pub(in crate::store) struct ListenThread {
    stopping: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl ListenThread {
    /// Starts the thread. Returns once the thread listens, or after [`REPLY_WAIT`].
    pub(super) fn start(
        target: Arc<ConnectConfig>,
        listeners: Listeners,
        server: u64,
    ) -> std::io::Result<Self> {
        let stopping = CancellationToken::new();
        let (started, wait_for_start) = sync_channel(1);
        let listener = Listener { target, listeners, server, stopping: stopping.clone(), started };
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new()
            .name("store-listener".to_owned())
            .spawn(move || runtime.block_on(listener.run()))?;
        // Once the thread listens, it receives every change of data that the server reads from now
        // on. If the thread is not listening yet after the wait, it begins with a resync later.
        let _ = wait_for_start.recv_timeout(REPLY_WAIT);
        Ok(Self { stopping, thread: Some(thread) })
    }
}

impl Drop for ListenThread {
    fn drop(&mut self) {
        self.stopping.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The state of the listener thread.
struct Listener {
    target: Arc<ConnectConfig>,
    listeners: Listeners,
    server: u64,
    stopping: CancellationToken,
    /// Gets a message once the thread listens for the first time.
    started: SyncSender<()>,
}

impl Listener {
    /// Connects and listens, again after each failure, until the handle is dropped.
    async fn run(self) {
        let stopping = self.stopping.clone();
        let reconnecting = async {
            loop {
                // The error is ignored: the readers meet the same error and report it.
                match self.target.connect_first().await {
                    Ok(Connected::Plain(client, connection)) => {
                        self.listen(client, connection).await;
                    }
                    Ok(Connected::Tls(client, connection)) => {
                        self.listen(client, connection).await;
                    }
                    Err(_) => {}
                }
                tokio::time::sleep(RECONNECT_DELAY).await;
            }
        };
        tokio::select! {
            () = stopping.cancelled() => {}
            () = reconnecting => {}
        }
    }

    /// Listens until the connection ends.
    async fn listen<S, T>(&self, client: Client, mut connection: Box<Connection<S, T>>)
    where
        S: AsyncRead + AsyncWrite + Unpin,
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let messages = futures_util::stream::poll_fn(move |cx| connection.poll_message(cx));
        let received = messages.for_each(|message| {
            if let Ok(AsyncMessage::Notification(notification)) = message {
                notify_listeners(
                    &self.listeners,
                    &change_codec::decode(self.server, notification.payload()),
                );
            }
            std::future::ready(())
        });
        let checking = async {
            let Some(channel) = read_channel(&client).await else { return };
            if !succeeds(client.batch_execute(&format!("listen {channel}"))).await {
                return;
            }
            // The message is accepted only from the first connection, and only while `start` waits
            // for it. Otherwise, changes may have been missed.
            if self.started.try_send(()).is_err() {
                notify_listeners(&self.listeners, &[Change::Resync]);
            }
            while succeeds(client.batch_execute("")).await {
                tokio::time::sleep(CHECK_INTERVAL).await;
            }
        };
        tokio::select! {
            () = received => {}
            () = checking => {}
        }
    }
}

/// Reads the channel of the schema; `None` if there is no schema or the query fails.
async fn read_channel(client: &Client) -> Option<String> {
    let query = select_channel();
    let answer = tokio::time::timeout(REPLY_WAIT, client.simple_query(&query)).await;
    answer.ok()?.ok()?.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    })
}

/// Whether a query succeeds within [`REPLY_WAIT`].
async fn succeeds(query: impl Future<Output = Result<(), tokio_postgres::Error>>) -> bool {
    matches!(tokio::time::timeout(REPLY_WAIT, query).await, Ok(Ok(())))
}
