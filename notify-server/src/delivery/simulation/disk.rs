//! The disk. It decides when reads and writes of the store happen, which writes share a commit, which
//! commits fail, and which succeed without an acknowledgement.

use std::sync::Arc;
use std::time::Duration;

use super::world::{SharedWorld, lock};
use crate::store::Store;
use crate::store::sqlite::Fault;

/// Most reads that run at the same time.
const READS_AT_ONCE: usize = 8;
/// On a slow disk a read fails in one out of this many rounds.
const READS_PER_FAILURE: u8 = 12;
/// Most writes of one commit.
const WRITES_AT_ONCE: usize = 16;

/// Runs waiting reads, forever.
pub(super) async fn read(store: Arc<Store>, world: SharedWorld) {
    loop {
        store.read_arrived().await;
        loop {
            let (pause_ms, most, fails) = {
                let mut world = lock(&world);
                let pause_ms = if world.disk.is_slow { 20 } else { 2 };
                let fails = world.disk.is_slow && world.rng.u8(0..READS_PER_FAILURE) == 0;
                (world.rng.u64(0..=pause_ms), world.rng.usize(1..=READS_AT_ONCE), fails)
            };
            pause(pause_ms).await;
            if fails {
                store.refuse_read();
            }
            if store.read_waiting(most) == 0 {
                break;
            }
        }
    }
}

/// Commits waiting writes, forever.
pub(super) async fn write(store: Arc<Store>, world: SharedWorld) {
    loop {
        store.write_arrived().await;
        loop {
            let (pause_ms, most) = {
                let mut world = lock(&world);
                let pause_ms = if world.disk.is_slow { 700 } else { 6 };
                (world.rng.u64(0..=pause_ms), world.rng.usize(1..=WRITES_AT_ONCE))
            };
            pause(pause_ms).await;
            let (is_full, loses_answer) = {
                let mut world = lock(&world);
                (world.disk_is_full(), world.loses_answer())
            };
            if is_full {
                store.fail(Fault::FailCommit(1));
            } else if loses_answer {
                lock(&world).record_event("disk: an answer may be lost");
                store.fail(Fault::LoseCommitReply(1));
            }
            let writes = store.commit_waiting(most);
            if loses_answer {
                // The fault must not hit a later commit, which may have callers.
                store.remove_fault();
            }
            if writes == 0 {
                break;
            }
            lock(&world).committed(writes, store.peek_sent());
        }
    }
}

async fn pause(ms: u64) {
    if ms > 0 {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}
