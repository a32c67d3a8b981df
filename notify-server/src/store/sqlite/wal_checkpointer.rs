//! Checkpoints the write-ahead log on a separate thread, while the writer continues to write.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use rusqlite::Connection;
use rusqlite::hooks::Wal;

use super::OpenedFiles;
use super::connection::open_writer;

/// The pages of the log above which the writer itself runs a checkpoint, after it has sent its
/// results. SQLite can restart the log only while nothing is written. With the separate thread
/// alone, the log would grow forever.
pub(super) const LOG_PAGES_MAX: i32 = 32_000;
/// The fewest pages of the log between two checkpoints. Each checkpoint writes all pages that
/// changed since the last one, and some pages change with every commit, so frequent checkpoints
/// write them often.
const CHECKPOINT_STEP_MIN: i32 = 500;

/// The handle of the checkpointer thread.
pub(super) struct WalCheckpointer {
    /// Wakes the thread to run a checkpoint; `None` without a thread.
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    /// The pages of the log after the last commit.
    log_pages: Arc<AtomicI32>,
    /// The pages of the log at its last checkpoint; 0 if the log has had none.
    checkpointed_at: AtomicI32,
}

impl WalCheckpointer {
    /// Starts the thread.
    pub(super) fn start(path: &Path, files: &OpenedFiles) -> std::io::Result<Self> {
        let (wake, wake_ups) = sync_channel::<()>(1);
        let stop = Arc::new(AtomicBool::new(false));
        let stop_requested = Arc::clone(&stop);
        let (path, files) = (path.to_owned(), files.clone());
        let thread =
            std::thread::Builder::new().name("store-checkpoint".to_owned()).spawn(move || {
                let mut connection = None;
                while wake_ups.recv().is_ok() && !stop_requested.load(Ordering::SeqCst) {
                    if connection.is_none() && files.check().is_ok() {
                        connection = open_writer(&path).ok();
                    }
                    if let Some(writer) = &connection
                        && run_checkpoint(writer).is_err()
                    {
                        connection = None;
                    }
                }
            })?;
        Ok(Self::new(Some(wake), Some(thread), stop))
    }

    /// Starts no thread. Only the writer runs checkpoints, at [`LOG_PAGES_MAX`].
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn inline() -> Self {
        Self::new(None, None, Arc::default())
    }

    fn new(
        wake: Option<SyncSender<()>>,
        thread: Option<JoinHandle<()>>,
        stop: Arc<AtomicBool>,
    ) -> Self {
        Self { wake, thread, stop, log_pages: Arc::default(), checkpointed_at: AtomicI32::new(0) }
    }

    /// Records the length of the log after every commit of this connection.
    pub(super) fn watch(&self, connection: &mut Connection) -> rusqlite::Result<()> {
        let log_pages = Arc::clone(&self.log_pages);
        connection.wal_hook(Some(move |_: &mut Wal, pages: i32| {
            log_pages.store(pages, Ordering::Relaxed);
            Ok(())
        }))
    }

    /// Starts a checkpoint if the log is long. If the checkpoint fails, no data is lost, since the
    /// log contains it. A later commit tries again.
    pub(super) fn after_commit(&self, connection: &Connection) {
        let pages = self.log_pages.load(Ordering::Relaxed);
        if pages >= LOG_PAGES_MAX {
            let _ = run_checkpoint(connection);
            return;
        }
        let checkpointed_at = match self.checkpointed_at.load(Ordering::Relaxed) {
            // The log was restarted.
            checkpointed_at if checkpointed_at > pages => 0,
            checkpointed_at => checkpointed_at,
        };
        let is_started = pages >= next_after(checkpointed_at)
            && self.wake.as_ref().is_some_and(|wake| wake.try_send(()).is_ok());
        self.checkpointed_at
            .store(if is_started { pages } else { checkpointed_at }, Ordering::Relaxed);
    }
}

impl Drop for WalCheckpointer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.wake.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The length of the log for the next checkpoint, after a checkpoint at this length: halfway to the
/// checkpoint of the writer, which then has little left to do.
fn next_after(checkpointed_at: i32) -> i32 {
    checkpointed_at + ((LOG_PAGES_MAX - checkpointed_at) / 2).max(CHECKPOINT_STEP_MIN)
}

/// Writes pages of the log to the file, as far as readers allow it, without waiting for them.
fn run_checkpoint(connection: &Connection) -> rusqlite::Result<()> {
    connection.prepare_cached("pragma wal_checkpoint(passive)")?.query_row([], |_| Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_started_over_seldom_and_leaves_little_to_the_writer() {
        let mut at = vec![next_after(0)];
        while next_after(at[at.len() - 1]) < LOG_PAGES_MAX {
            at.push(next_after(at[at.len() - 1]));
        }
        assert_eq!(at, [16_000, 24_000, 28_000, 30_000, 31_000, 31_500]);
    }
}
