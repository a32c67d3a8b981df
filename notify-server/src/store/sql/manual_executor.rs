//! A store without threads, for tests that control the order of events. Reads and writes wait until
//! the test runs them, and run on the test's thread. Transactions, savepoints, group commit and
//! error handling are the same as with threads.

use futures_util::FutureExt;

use crate::store::sql::insert::seq_of;
use crate::store::sql::row;
use crate::store::{DispatchNo, Store};

impl Store {
    /// Removes all listeners. They have references to the store, which would keep it open.
    ///
    /// # Panics
    /// When a listener panicked.
    pub fn forget_listeners(&self) {
        self.listeners.write().expect("no listener panicked").clear();
    }

    /// Waits until a write arrives, unless one has arrived since the last call.
    pub async fn write_arrived(&self) {
        self.writer.arrived.notified().await;
    }

    /// Commits at most `most` waiting writes as one batch, and returns their number.
    pub fn commit_waiting(&self, most: usize) -> usize {
        self.writer.commit_waiting(most)
    }

    /// Waits until a read arrives, unless one has arrived since the last call.
    pub async fn read_arrived(&self) {
        self.readers.arrived.notified().await;
    }

    /// Runs at most `most` waiting reads, and returns their number.
    pub fn read_waiting(&self, most: usize) -> usize {
        self.readers.read_waiting(most)
    }

    /// Makes the first waiting read fail.
    pub fn refuse_read(&self) {
        self.readers.refuse_waiting();
    }

    /// Runs `reading` immediately, before all waiting reads.
    ///
    /// # Panics
    /// When `reading` does more than read, or the store has threads.
    pub fn peek<T>(&self, reading: impl Future<Output = T>) -> T {
        self.readers.read_at_once(true);
        let read = tokio::task::unconstrained(reading).now_or_never();
        self.readers.read_at_once(false);
        read.expect("a read of an inline store waits for nothing")
    }

    /// Reads the number of deliveries that are recorded as sent.
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

    /// Reads the numbers of all dispatches, oldest first.
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
