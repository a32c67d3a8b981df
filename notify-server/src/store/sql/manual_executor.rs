//! The store without threads of its own, for tests that decide what happens when: reads and writes
//! wait until they are told to go on, on the thread of whoever tells. Transactions, savepoints,
//! group commit and what happens after a fault are those of the threads.

use futures_util::FutureExt;

use crate::store::sql::insert::seq_of;
use crate::store::sql::row;
use crate::store::{DispatchNo, Store};

impl Store {
    /// Tells nobody of changes any more: listeners hold the store that holds them.
    ///
    /// # Panics
    /// When a listener panicked.
    pub fn forget_listeners(&self) {
        self.listeners.write().expect("no listener panicked").clear();
    }

    /// Returns once a write came in since the last call.
    pub async fn write_arrived(&self) {
        self.writer.arrived.notified().await;
    }

    /// Commits at most that many of the writes that wait, as one batch; answers how many it took.
    pub fn commit_waiting(&self, most: usize) -> usize {
        self.writer.commit_waiting(most)
    }

    /// Returns once a read came in since the last call.
    pub async fn read_arrived(&self) {
        self.readers.arrived.notified().await;
    }

    /// Runs at most that many of the reads that wait; answers how many it took.
    pub fn read_waiting(&self, most: usize) -> usize {
        self.readers.read_waiting(most)
    }

    /// Has the first of the reads that wait fail.
    pub fn refuse_read(&self) {
        self.readers.refuse_waiting();
    }

    /// Reads ahead of everything that waits, at once.
    ///
    /// # Panics
    /// When `reading` does more than read, or the store has threads.
    pub fn peek<T>(&self, reading: impl Future<Output = T>) -> T {
        self.readers.read_at_once(true);
        let read = tokio::task::unconstrained(reading).now_or_never();
        self.readers.read_at_once(false);
        read.expect("a read of an inline store waits for nothing")
    }

    /// How many deliveries are recorded as sent.
    ///
    /// # Panics
    /// When the database cannot be read.
    pub fn peek_sent(&self) -> u64 {
        let sent = self.peek(self.read(|connection| {
            Ok(connection
                .prepare_cached("select coalesce(sum(sent), 0) from pages")?
                .query_row([], |row| row::count_at(row, 0))?)
        }));
        sent.expect("the file is readable")
    }

    /// Every dispatch, those that were made first before the others.
    ///
    /// # Panics
    /// When the database cannot be read.
    pub fn peek_dispatches(&self) -> Vec<DispatchNo> {
        let all = self.peek(self.read(|connection| {
            Ok(connection
                .prepare_cached(concat!("select no from dispatches order by ", seq_of!("no")))?
                .query_map([], |row| row.get(0).map(DispatchNo))?
                .collect::<Result<Vec<_>, _>>()?)
        }));
        all.expect("the file is readable")
    }
}
