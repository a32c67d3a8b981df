//! Requests of callers. Their possible effects are recorded when they are sent, and their results when
//! they are answered.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use notify_core::{
    Canary, Condition, CreateNotification, NotificationContent, NotificationId, Platform,
    ProviderKind, Request,
};

use super::audiences::AudienceKind;
use super::clock::SimulatedClock;
use super::devices::DeviceChange;
use super::notifications::{ExpectedNotification, RequestState};
use super::world::{SharedWorld, lock};
use crate::api::KeyCache;
use crate::clock::Clock;
use crate::store::Store;
use crate::store::{AppNo, NewNotification, ProviderRow, StoreError};

/// The one tag of the simulation.
pub(super) const TAG: &str = "vip";

/// One run of the simulated process, as its callers see it.
#[derive(Clone)]
pub(super) struct Process {
    pub(super) world: SharedWorld,
    pub(super) store: Arc<Store>,
    pub(super) clock: Arc<SimulatedClock>,
    /// The keys that the process has read.
    pub(super) keys: Arc<KeyCache>,
}

/// A requested notification.
pub(super) struct NotificationDraft {
    pub(super) id: NotificationId,
    pub(super) platforms: Vec<Platform>,
    pub(super) names: Option<BTreeMap<Platform, Vec<String>>>,
    pub(super) users: Option<Vec<&'static str>>,
    pub(super) tagged: bool,
    pub(super) audience: Option<AudienceKind>,
    pub(super) ttl: Option<u32>,
    pub(super) collapse_key: Option<String>,
    pub(super) due_in_ms: Option<i64>,
    pub(super) per_minute: Option<u32>,
    pub(super) canary: Option<Canary>,
}

/// A request in flight.
pub(super) struct RequestGuard(SharedWorld);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        // Avoids a second panic if the first one poisoned the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).requests -= 1;
    }
}

impl Process {
    /// Starts a request. It is in flight until the returned value is dropped.
    pub(super) fn begin_request(&self) -> RequestGuard {
        lock(&self.world).requests += 1;
        RequestGuard(self.world.clone())
    }

    /// Records an answer. Returns whether the request succeeded.
    pub(super) fn record_response<T>(&self, what: &str, answer: Result<T, StoreError>) -> bool {
        let mut world = lock(&self.world);
        match answer {
            Ok(_) => {
                world.record_event(&format!("done: {what}"));
                true
            }
            Err(
                error @ (StoreError::Unavailable(_)
                | StoreError::NotFound
                | StoreError::Refused(_)
                | StoreError::Fenced),
            ) => {
                world.record_event(&format!("not done: {what}: {error}"));
                false
            }
            Err(error @ (StoreError::Backend(_) | StoreError::KeyReused)) => {
                world.record_violation(&format!("{what} met a defect: {error:?}"));
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
        let recorded: Vec<(String, u64)> = world
            .notifications
            .iter()
            .map(|(id, notification)| (id.clone(), self.recorded(notification)))
            .collect();
        for (id, recorded) in recorded {
            world.waive(&id, recorded);
        }
    }

    /// Number of deliveries of a notification that are recorded as sent.
    pub(super) fn recorded(&self, notification: &ExpectedNotification) -> u64 {
        let read =
            self.store.peek(self.store.notification(notification.app, notification.id.clone()));
        read.map_or(0, |record| record.counts.sent)
    }
}

/// Creates a notification.
pub(super) async fn notify(process: Process, app: AppNo, draft: NotificationDraft) {
    let _asking = process.begin_request();
    let at = process.clock.now();
    let send_at = draft.due_in_ms.map(|ms| at.plus_ms(ms));
    let names = |platform| draft.names.as_ref().and_then(|names| names.get(&platform)).cloned();
    let user_ids = |users: Vec<&str>| users.into_iter().map(str::to_owned).collect();
    let on_all = draft.platforms == Platform::ALL;
    let platforms = draft.platforms.iter().map(|on| on.as_str().into()).collect();
    let request = CreateNotification {
        text: Some("Hello".into()),
        // To users, no platforms are all platforms.
        platforms: Some(platforms).filter(|_| draft.users.is_none() || !on_all),
        android_device_ids: names(Platform::Android),
        ios_device_ids: names(Platform::Ios),
        user_ids: draft.users.clone().map(user_ids),
        audience: draft.audience.map(AudienceKind::audience),
        ttl_seconds: draft.ttl,
        send_at,
        collapse_key: draft.collapse_key,
        per_minute: draft.per_minute,
        canary: draft.canary,
        content: NotificationContent {
            tags: draft.tagged.then(|| vec![TAG.into()]),
            ..NotificationContent::default()
        },
        ..CreateNotification::default()
    };
    let collapse_key = request.collapse_key.clone();
    let has_canary = request.canary.is_some();
    let body = serde_json::to_string(&request).expect("a request is JSON");
    let checked = request.validate(at).expect("the draft is valid");
    let condition = checked.recipients.condition(&|_| None).expect("the draft names no segment");
    let id = draft.id.as_str().to_owned();
    let what = format!("notify {} {id}: {body}", app.0);
    {
        let mut world = lock(&process.world);
        let asked = world.record_event(&what);
        let names = draft.names.map(|names| {
            names.into_iter().map(|(on, names)| (on, names.into_iter().collect())).collect()
        });
        let notification = ExpectedNotification {
            id: draft.id.clone(),
            platforms: draft.platforms,
            names,
            named_users: draft.users.as_ref().map_or(0, Vec::len) as u64,
            users: draft.users.map(|users| users.into_iter().map(str::to_owned).collect()),
            tagged: draft.tagged,
            audience: draft.audience,
            ttl: draft.ttl,
            collapse_key,
            per_minute: draft.per_minute,
            has_canary,
            due_at: send_at.unwrap_or(at),
            is_scheduled: send_at.is_some(),
            accepted: RequestState::InFlight,
            requested_event: asked,
            ..ExpectedNotification::unknown(app)
        };
        world.notifications.insert(id.clone(), notification);
    }
    let audience = condition.as_ref().map(Condition::to_json);
    let new = NewNotification { id: draft.id, request: body, checked, audience, poll: None, at };
    let done = process.store.accept_notification(app, new, None).await;
    let done = process.record_response(&format!("notify {id}"), done);
    let mut world = lock(&process.world);
    let event = world.event;
    let notification = world.notifications.get_mut(&id).expect("it was requested");
    notification.accepted = if done { RequestState::Acknowledged } else { RequestState::Failed };
    notification.acknowledged_event = done.then_some(event);
}

/// Starts to create a notification, and drops the request after a while.
pub(super) async fn notify_then_cancel(
    process: Process,
    app: AppNo,
    draft: NotificationDraft,
    after: Duration,
) {
    let id = draft.id.as_str().to_owned();
    notify(process.clone(), app, draft).await;
    tokio::time::sleep(after).await;
    cancel(process, id).await;
}

/// Cancels a notification.
pub(super) async fn cancel(process: Process, id: String) {
    let _asking = process.begin_request();
    let what = format!("cancel {id}");
    let (app, target) = {
        let mut world = lock(&process.world);
        let notification = world.notifications.get_mut(&id);
        let Some(notification) =
            notification.filter(|notification| notification.canceled == RequestState::NotRequested)
        else {
            return;
        };
        notification.canceled = RequestState::InFlight;
        let named = (notification.app, notification.id.clone());
        world.record_event(&what);
        named
    };
    let at = process.clock.now();
    let done = process.store.cancel_notification(app, target, at).await;
    let done = process.record_response(&what, done);
    if done {
        let recorded = process.recorded(&lock(&process.world).notifications[&id].clone());
        lock(&process.world).waive(&id, recorded);
    }
    let mut world = lock(&process.world);
    let notification = world.notifications.get_mut(&id).expect("it was found above");
    notification.canceled =
        if done { RequestState::Acknowledged } else { RequestState::NotRequested };
}

/// Pauses or resumes a notification.
pub(super) async fn pause(process: Process, id: String, pauses: bool) {
    let _asking = process.begin_request();
    let what = format!("{} {id}", if pauses { "pause" } else { "resume" });
    let (app, target) = {
        let mut world = lock(&process.world);
        let notification = world.notifications.get_mut(&id);
        let Some(notification) = notification.filter(|notification| !notification.is_pausing)
        else {
            return;
        };
        notification.is_pausing = true;
        // From now on the request may take effect.
        notification.is_paused &= pauses;
        let named = (notification.app, notification.id.clone());
        world.record_event(&what);
        named
    };
    let at = process.clock.now();
    let done = if pauses {
        process.store.pause_notification(app, target, at, None).await
    } else {
        process.store.resume_notification(app, target, at, None).await
    };
    let done = process.record_response(&what, done);
    let mut world = lock(&process.world);
    let notification = world.notifications.get_mut(&id).expect("it was found above");
    notification.is_pausing = false;
    notification.is_paused |= done && pauses;
}

/// Configures a provider (a rate of 0 means no limit), or removes it.
pub(super) async fn configure(process: Process, app: AppNo, kind: ProviderKind, rate: Option<u8>) {
    let _asking = process.begin_request();
    let what = format!("configure {} {}: {rate:?}", app.0, kind.as_str());
    let app_id = {
        let mut world = lock(&process.world);
        world.record_event(&what);
        world.service(app, kind).changes += 1;
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
    process.record_response(&what, done);
    let mut world = lock(&process.world);
    let event = world.event;
    let service = world.service(app, kind);
    (service.changes, service.changed) = (service.changes - 1, event);
}
