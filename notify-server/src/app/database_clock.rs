//! The clock of several servers is that of their database (trap 16): due times and leases that one
//! writes mean the same to all.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::causes::with_causes;
use crate::clock::{Clock, SharedClock, SystemClock};
use crate::store::{SharedStore, Store, StoreError};

/// How often the difference to this machine's clock is looked at.
const LOOKED_AT_EVERY: Duration = Duration::from_secs(30);
/// Longest question whose answer counts, in milliseconds: the database read its clock somewhere
/// within.
const QUESTION_MS_MAX: i64 = 1_000;

/// A clock that follows the database's, where that has one of its own, and else this machine's.
pub(super) async fn start(store: &SharedStore) -> Result<SharedClock, StoreError> {
    let clock = Arc::new(SystemClock::start());
    let Some(ahead_ms) = ahead(store, &clock).await? else { return Ok(clock) };
    let clock = Arc::new(SystemClock::start_ahead(ahead_ms.unwrap_or(0)));
    tokio::spawn(follow(Arc::downgrade(store), Arc::downgrade(&clock)));
    Ok(clock)
}

/// How far the database's clock is ahead of this machine's, in milliseconds: `None` where it has
/// none, and within where the answer took too long to say.
async fn ahead(store: &Store, clock: &SystemClock) -> Result<Option<Option<i64>>, StoreError> {
    let before = clock.wall();
    let Some(there) = store.time().await? else { return Ok(None) };
    let took_ms = clock.wall().ms_since(before);
    let is_sure = (0..=QUESTION_MS_MAX).contains(&took_ms);
    Ok(Some(is_sure.then(|| there.ms_since(before.plus_ms(took_ms / 2)))))
}

/// Looks again and again while somebody has the clock.
async fn follow(store: Weak<Store>, clock: Weak<SystemClock>) {
    loop {
        tokio::time::sleep(LOOKED_AT_EVERY).await;
        let (Some(store), Some(clock)) = (store.upgrade(), clock.upgrade()) else { return };
        match ahead(&store, &clock).await {
            Ok(Some(Some(ahead_ms))) => clock.set_ahead(ahead_ms),
            Ok(_) => {}
            Err(error) => {
                let cause = with_causes(&error);
                tracing::debug!(cause, "the database's clock was not read");
            }
        }
    }
}
