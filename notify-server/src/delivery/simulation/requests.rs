//! Requests of callers. Their possible effects are recorded when they are sent, their result when
//! they are answered.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use notify_core::{
    CreateNotification, NotificationContent, NotificationId, Platform, ProviderKind, Request,
};

use super::clock::SimulatedClock;
use super::devices::DeviceChange;
use super::notices::{Asked, Notice};
use super::world::{SharedWorld, lock};
use crate::clock::Clock;
use crate::store::Store;
use crate::store::{AppNo, NewNotification, ProviderRow, StoreError};

/// The one tag of the simulation.
pub(super) const TAG: &str = "vip";

/// One run of the simulated process, as its callers use it.
#[derive(Clone)]
pub(super) struct Process {
    pub(super) world: SharedWorld,
    pub(super) store: Arc<Store>,
    pub(super) clock: Arc<SimulatedClock>,
}

/// A requested notification.
pub(super) struct Wish {
    pub(super) id: NotificationId,
    pub(super) platforms: Vec<Platform>,
    pub(super) names: Option<BTreeMap<Platform, Vec<String>>>,
    pub(super) tagged: bool,
    pub(super) ttl: Option<u32>,
    pub(super) collapse_key: Option<String>,
    pub(super) due_in_ms: Option<i64>,
}

/// A request in flight.
pub(super) struct Asking(SharedWorld);

impl Drop for Asking {
    fn drop(&mut self) {
        // Avoids a second panic if the first one poisoned the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).requests -= 1;
    }
}

impl Process {
    /// Starts a request. It is in flight until the returned value is dropped.
    pub(super) fn asks(&self) -> Asking {
        lock(&self.world).requests += 1;
        Asking(self.world.clone())
    }

    /// Records an answer. Returns whether the request succeeded.
    pub(super) fn answered<T>(&self, what: &str, answer: Result<T, StoreError>) -> bool {
        let mut world = lock(&self.world);
        match answer {
            Ok(_) => {
                world.note(&format!("done: {what}"));
                true
            }
            Err(
                error @ (StoreError::Unavailable(_)
                | StoreError::NotFound
                | StoreError::Refused(_)
                | StoreError::Fenced),
            ) => {
                world.note(&format!("not done: {what}: {error}"));
                false
            }
            Err(error @ (StoreError::Backend(_) | StoreError::KeyReused)) => {
                world.broke(&format!("{what} met a defect: {error:?}"));
                false
            }
        }
    }

    pub(super) fn device_changed(&self, change: &DeviceChange, is_done: bool) {
        let mut world = lock(&self.world);
        let event = world.event;
        world.devices.end(change, is_done, event);
    }

    /// A request that was just answered may have ended deliveries in flight.
    pub(super) fn waive_all(&self) {
        let mut world = lock(&self.world);
        let recorded: Vec<(String, u64)> =
            world.notices.iter().map(|(id, notice)| (id.clone(), self.recorded(notice))).collect();
        for (id, recorded) in recorded {
            world.waive(&id, recorded);
        }
    }

    /// Number of deliveries of a notification that are recorded as sent.
    pub(super) fn recorded(&self, notice: &Notice) -> u64 {
        let read = self.store.peek(self.store.notification(notice.app, notice.id.clone()));
        read.map_or(0, |record| record.counts.sent)
    }
}

/// Creates a notification.
pub(super) async fn notify(process: Process, app: AppNo, wish: Wish) {
    let _asking = process.asks();
    let at = process.clock.now();
    let send_at = wish.due_in_ms.map(|ms| at.plus_ms(ms));
    let names = |platform| wish.names.as_ref().and_then(|names| names.get(&platform)).cloned();
    let request = CreateNotification {
        text: Some("Hello".into()),
        platforms: Some(wish.platforms.iter().map(|on| on.as_str().into()).collect()),
        android_device_ids: names(Platform::Android),
        ios_device_ids: names(Platform::Ios),
        ttl_seconds: wish.ttl,
        send_at: send_at.map(notify_core::Timestamp::as_ms),
        collapse_key: wish.collapse_key,
        content: NotificationContent {
            tags: wish.tagged.then(|| vec![TAG.into()]),
            ..NotificationContent::default()
        },
        ..CreateNotification::default()
    };
    let replaces = request.collapse_key.is_some();
    let body = serde_json::to_string(&request).expect("a request is JSON");
    let valid = request.validate(at).expect("the wish keeps the rules");
    let id = wish.id.as_str().to_owned();
    let what = format!("notify {} {id}: {body}", app.0);
    {
        let mut world = lock(&process.world);
        let asked = world.note(&what);
        let names = wish.names.map(|names| {
            names.into_iter().map(|(on, names)| (on, names.into_iter().collect())).collect()
        });
        let notice = Notice {
            id: wish.id.clone(),
            platforms: wish.platforms,
            names,
            tagged: wish.tagged,
            ttl: wish.ttl,
            replaces,
            due_at: send_at.unwrap_or(at),
            is_scheduled: send_at.is_some(),
            accepted: Asked::Sent,
            asked,
            ..Notice::unknown(app)
        };
        world.notices.insert(id.clone(), notice);
    }
    let new = NewNotification::of(wish.id, body, valid, None, at);
    let done = process.store.accept_notification(app, new, None).await;
    let done = process.answered(&format!("notify {id}"), done);
    let mut world = lock(&process.world);
    let event = world.event;
    let notice = world.notices.get_mut(&id).expect("it was asked for");
    notice.accepted = if done { Asked::Done } else { Asked::Undone };
    notice.acknowledged = done.then_some(event);
}

/// Starts to create a notification, and drops the request after a while.
pub(super) async fn notify_in_vain(process: Process, app: AppNo, wish: Wish, after: Duration) {
    let id = wish.id.as_str().to_owned();
    notify(process.clone(), app, wish).await;
    tokio::time::sleep(after).await;
    cancel(process, id).await;
}

/// Cancels a notification.
pub(super) async fn cancel(process: Process, id: String) {
    let _asking = process.asks();
    let what = format!("cancel {id}");
    let (app, notification) = {
        let mut world = lock(&process.world);
        let notice = world.notices.get_mut(&id);
        let Some(notice) = notice.filter(|notice| notice.canceled == Asked::No) else { return };
        notice.canceled = Asked::Sent;
        let named = (notice.app, notice.id.clone());
        world.note(&what);
        named
    };
    let at = process.clock.now();
    let done = process.store.cancel_notification(app, notification, at).await;
    let done = process.answered(&what, done);
    if done {
        let recorded = process.recorded(&lock(&process.world).notices[&id].clone());
        lock(&process.world).waive(&id, recorded);
    }
    let mut world = lock(&process.world);
    let notice = world.notices.get_mut(&id).expect("it was found before");
    notice.canceled = if done { Asked::Done } else { Asked::No };
}

/// Configures a provider (a rate of 0 means no limit), or removes it.
pub(super) async fn configure(process: Process, app: AppNo, kind: ProviderKind, rate: Option<u8>) {
    let _asking = process.asks();
    let what = format!("configure {} {}: {rate:?}", app.0, kind.as_str());
    let app_id = {
        let mut world = lock(&process.world);
        world.note(&what);
        if rate.is_none() {
            world.was_missing.push((app, kind));
        }
        let known = world.apps.iter().find(|(no, _)| *no == app);
        known.expect("the application is there").1
    };
    let done = match rate {
        Some(rate) => {
            let updated_at = process.clock.now();
            let row = ProviderRow { provider: kind, sealed: vec![rate], updated_at };
            process.store.put_provider(app_id, row).await
        }
        None => process.store.delete_provider(app_id, kind).await,
    };
    process.answered(&what, done);
}
