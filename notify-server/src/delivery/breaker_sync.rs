//! What the engines of several servers tell each other of their gates: news of this one's go to the
//! store, words of the others come from there. Nothing of it stands in the way of a delivery.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use notify_core::Platform;
use tokio::sync::Notify;

use super::shared::Shared;
use crate::store::{AppNo, StoreError};

/// Most words read at a time.
const WORDS_MAX: u32 = 1_000;

/// Which lanes have news, and whether others have.
#[derive(Debug, Default)]
pub(crate) struct News {
    lanes: Mutex<BTreeSet<(AppNo, Platform)>>,
    asked: AtomicBool,
    told: Notify,
}

impl News {
    /// A gate of that lane changed.
    pub(crate) fn tell(&self, lane: (AppNo, Platform)) {
        self.lanes.lock().expect("no holder of the news panics").insert(lane);
        self.told.notify_one();
    }

    /// Others may have said something.
    pub(crate) fn ask(&self) {
        self.asked.store(true, Ordering::Release);
        self.told.notify_one();
    }

    fn next(&self) -> Option<(AppNo, Platform)> {
        self.lanes.lock().expect("no holder of the news panics").pop_first()
    }
}

/// Tells and hears until the engine stops.
pub(super) async fn keep(shared: Arc<Shared>) {
    // Words are numbered in the order of their commits.
    let mut known = 0;
    while !shared.ended.is_cancelled() {
        if let Err(error) = tell(&shared).await {
            shared.storage_failed(&error).await;
            continue;
        }
        if shared.news.asked.swap(false, Ordering::AcqRel)
            && let Err(error) = hear(&shared, &mut known).await
        {
            shared.news.ask();
            shared.storage_failed(&error).await;
            continue;
        }
        tokio::select! {
            () = shared.news.told.notified() => {}
            () = shared.ended.cancelled() => return,
        }
    }
}

async fn tell(shared: &Shared) -> Result<(), StoreError> {
    while let Some(of) = shared.news.next() {
        let lane = shared.lanes.lock().expect("no holder panics").get(&of).cloned();
        let Some(lane) = lane else { continue };
        lane.tell_others().await?;
    }
    Ok(())
}

async fn hear(shared: &Shared, known: &mut i64) -> Result<(), StoreError> {
    loop {
        let words = shared.store.channels_told(None, *known, WORDS_MAX).await?;
        let is_all = words.len() < WORDS_MAX as usize;
        for word in words {
            *known = word.no;
            let of = (word.place.app, word.place.platform);
            let lane = shared.lanes.lock().expect("no holder panics").get(&of).cloned();
            if let Some(lane) = lane {
                lane.heard(&word);
            }
        }
        if is_all {
            return Ok(());
        }
    }
}
