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
use tokio_postgres::{AsyncMessage, Client, Connection};
use tokio_util::sync::CancellationToken;

use super::change_codec;
use super::connect_config::{ConnectConfig, Connected};
use super::session::ANSWER_WAIT;
use crate::store::Change;
use crate::store::sql::{Listeners, notify_listeners};

/// The channel of `NOTIFY`.
pub(super) const CHANNEL: &str = "notify_changes";
/// The time between two attempts to connect.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// How often the connection is checked. If the database behind a proxy is replaced, the connection
/// may stay open without receiving changes.
const ASKED_EVERY: Duration = Duration::from_secs(5);

/// The listener thread. It ends when this handle is dropped.
pub(in crate::store) struct ListenThread {
    stopping: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl ListenThread {
    /// Starts the thread. Returns once the thread listens, or after [`ANSWER_WAIT`].
    pub(super) fn start(
        target: Arc<ConnectConfig>,
        listeners: Listeners,
        server: u64,
    ) -> std::io::Result<Self> {
        let stopping = CancellationToken::new();
        let (listening, started) = sync_channel(1);
        let listener =
            Listener { target, listeners, server, stopping: stopping.clone(), listening };
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let thread = std::thread::Builder::new()
            .name("store-listener".to_owned())
            .spawn(move || runtime.block_on(listener.run()))?;
        // From now on, every change of data that the server reads is received. If the thread
        // connects later, it begins with a resync.
        let _ = started.recv_timeout(ANSWER_WAIT);
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

struct Listener {
    target: Arc<ConnectConfig>,
    listeners: Listeners,
    server: u64,
    stopping: CancellationToken,
    /// Notified once the thread listens.
    listening: SyncSender<()>,
}

impl Listener {
    async fn run(self) {
        let stopping = self.stopping.clone();
        let listening = async {
            loop {
                // The error is ignored: the readers meet the same error and report it.
                match self.target.listener().await {
                    Ok(Connected::Plain(client, connection)) => {
                        self.listen(client, connection).await;
                    }
                    Ok(Connected::Tls(client, connection)) => {
                        self.listen(client, connection).await;
                    }
                    Err(_) => {}
                }
                tokio::time::sleep(AGAIN_AFTER).await;
            }
        };
        tokio::select! {
            () = stopping.cancelled() => {}
            () = listening => {}
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
        let asking = async {
            if !stands(client.batch_execute(&format!("listen {CHANNEL}"))).await {
                return;
            }
            if self.listening.try_send(()).is_err() {
                notify_listeners(&self.listeners, &[Change::Resync]);
            }
            while stands(client.batch_execute("")).await {
                tokio::time::sleep(ASKED_EVERY).await;
            }
        };
        tokio::select! {
            () = received => {}
            () = asking => {}
        }
    }
}

async fn stands(question: impl Future<Output = Result<(), tokio_postgres::Error>>) -> bool {
    matches!(tokio::time::timeout(ANSWER_WAIT, question).await, Ok(Ok(())))
}
