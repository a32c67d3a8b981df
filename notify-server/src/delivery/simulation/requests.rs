//! The callers' requests. What a request may have done is known from when it is sent, what it did
//! when it is answered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use notify_core::{
    CreateNotification, DeviceDetails, DeviceId, Endpoint, NotificationContent, NotificationId,
    Platform, ProviderKind, Registration, Request, Subscription, Tag, TagType, WebSubscription,
};

use super::clock::SimulatedClock;
use super::devices::{DeviceChange, State};
use super::notices::{Asked, Notice};
use super::world::{SharedWorld, lock};
use crate::clock::Clock;
use crate::store::sqlite::SqliteStore;
use crate::store::{
    AppNo, DeviceStore, NewNotification, NotificationStore, ProviderRow, ProviderStore, StoreError,
};

/// The one tag of the simulation.
pub(super) const TAG: &str = "vip";

/// One life of the simulated process, as its callers have it.
#[derive(Clone)]
pub(super) struct Process {
    pub(super) world: SharedWorld,
    pub(super) store: Arc<SqliteStore>,
    pub(super) clock: Arc<SimulatedClock>,
}

/// What a notification is asked to be.
pub(super) struct Wish {
    pub(super) id: NotificationId,
    pub(super) platforms: Vec<Platform>,
    pub(super) names: Option<BTreeMap<Platform, Vec<String>>>,
    pub(super) tagged: bool,
    pub(super) ttl: Option<u32>,
    pub(super) collapse_key: Option<String>,
    pub(super) due_in_ms: Option<i64>,
}

impl Process {
    /// Takes note of an answer; whether the request was done.
    fn answered<T>(&self, what: &str, answer: Result<T, StoreError>) -> bool {
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

    fn device_changed(&self, change: &DeviceChange, is_done: bool) {
        let mut world = lock(&self.world);
        let event = world.event;
        world.devices.end(change, is_done, event);
    }

    /// Deliveries under way may have been ended by a request that was just answered.
    fn waive_all(&self) {
        let mut world = lock(&self.world);
        let recorded: Vec<(String, u64)> =
            world.notices.iter().map(|(id, notice)| (id.clone(), self.recorded(notice))).collect();
        for (id, recorded) in recorded {
            world.waive(&id, recorded);
        }
    }

    /// How many deliveries of a notification are recorded as sent.
    pub(super) fn recorded(&self, notice: &Notice) -> u64 {
        let read = self.store.peek(self.store.notification(notice.app, notice.id.clone()));
        read.map_or(0, |record| record.counts.sent)
    }
}

/// Registers a device, or subscribes it.
pub(super) async fn register(process: Process, app: AppNo, name: String, mut wanted: State) {
    let at = process.clock.now();
    let what = format!("register {} {name} {} {:?}", app.0, wanted.platform, wanted.token);
    let (change, moves) = {
        let mut world = lock(&process.world);
        wanted.born = world.event + 1;
        let before = world.devices.entry(app, &name).and_then(|entry| entry.now.clone());
        let moves = before.is_some_and(|before| before.platform != wanted.platform);
        if moves {
            world.lost_devices.insert(app);
        }
        let Some(change) = world.devices.registration(app, &name, wanted.clone(), at) else {
            return;
        };
        let event = world.note(&what);
        world.devices.begin(&change, event);
        (change, moves)
    };
    let id = DeviceId::new(&name).expect("names are ids");
    let token = wanted.token.clone();
    let done = match wanted.platform {
        Platform::Android | Platform::Ios => {
            let endpoint = match wanted.platform {
                Platform::Ios => Endpoint::Ios { push_token: token, env: Some(wanted.env) },
                _ => Endpoint::Android { push_token: token },
            };
            let registration = Registration {
                device_id: id,
                endpoint,
                push_disabled: wanted.disabled,
                utc_offset_minutes: 0,
                details: DeviceDetails::default(),
            };
            let done = process.store.register_device(app, registration, at, None).await;
            process.answered(&what, done)
        }
        Platform::Web | Platform::FbMessenger | Platform::ChatApp => {
            let address = token.expect("subscribed devices have an address");
            let endpoint = match wanted.platform {
                Platform::Web => Endpoint::Web(WebSubscription {
                    endpoint: address,
                    p256dh: "BP256".into(),
                    auth: "auth".into(),
                }),
                Platform::FbMessenger => Endpoint::FbMessenger { recipient_id: address },
                _ => Endpoint::ChatApp { recipient_id: address },
            };
            let subscription = Subscription {
                device_id: Some(id.clone()),
                endpoint,
                utc_offset_minutes: 0,
                details: DeviceDetails::default(),
            };
            let done = process.store.subscribe_device(app, subscription, id, at, None).await;
            process.answered(&what, done)
        }
    };
    process.device_changed(&change, done);
    if done && moves {
        process.waive_all();
    }
}

/// Erases a device.
pub(super) async fn erase(process: Process, app: AppNo, name: String) {
    let what = format!("erase {} {name}", app.0);
    let Some(change) = begin(&process, &what, app, &name, |_| None) else { return };
    let id = DeviceId::new(&name).expect("names are ids");
    let at = process.clock.now();
    lock(&process.world).lost_devices.insert(app);
    let done = process.store.delete_device(app, id, at).await;
    let done = process.answered(&what, done);
    process.device_changed(&change, done);
    if done {
        process.waive_all();
    }
}

/// Gives a device the tag or takes it away; `None` removes it.
pub(super) async fn tag(process: Process, app: AppNo, name: String, value: Option<bool>) {
    let what = format!("tag {} {name} {value:?}", app.0);
    let change = begin(&process, &what, app, &name, |before| Some(State { tag: value, ..before }));
    let Some(change) = change else { return };
    let id = DeviceId::new(&name).expect("names are ids");
    let done = match value {
        Some(value) => {
            let tag = Tag { name: TAG.into(), kind: TagType::Bool, value };
            process.answered(&what, process.store.set_tags(app, id, vec![tag], None).await)
        }
        None => process.answered(&what, process.store.remove_tag(app, id, TAG.into()).await),
    };
    process.device_changed(&change, done);
}

fn begin(
    process: &Process,
    what: &str,
    app: AppNo,
    name: &str,
    change: impl FnOnce(State) -> Option<State>,
) -> Option<DeviceChange> {
    let mut world = lock(&process.world);
    let change = world.devices.change(app, name, change)?;
    let event = world.note(what);
    world.devices.begin(&change, event);
    Some(change)
}

/// Asks for a notification.
pub(super) async fn notify(process: Process, app: AppNo, wish: Wish) {
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
            due_at: send_at.unwrap_or(at),
            is_scheduled: send_at.is_some(),
            accepted: Asked::Sent,
            asked,
            ..Notice::unknown(app)
        };
        world.notices.insert(id.clone(), notice);
    }
    let new = NewNotification {
        id: wish.id,
        request: body,
        target: valid.audience.target,
        tag: valid.audience.tag,
        schedule: valid.schedule,
        ttl_seconds: valid.ttl_seconds,
        campaign: None,
        poll: None,
        at,
    };
    let done = process.store.accept_notification(app, new, None).await;
    let done = process.answered(&format!("notify {id}"), done);
    let mut world = lock(&process.world);
    let event = world.event;
    let notice = world.notices.get_mut(&id).expect("it was asked for");
    notice.accepted = if done { Asked::Done } else { Asked::Undone };
    notice.acknowledged = done.then_some(event);
}

/// Asks for a notification, and then changes its mind.
pub(super) async fn notify_in_vain(process: Process, app: AppNo, wish: Wish, after: Duration) {
    let id = wish.id.as_str().to_owned();
    notify(process.clone(), app, wish).await;
    tokio::time::sleep(after).await;
    cancel(process, id).await;
}

/// Cancels a notification.
pub(super) async fn cancel(process: Process, id: String) {
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

/// Configures a provider, with a rate of 0 for none, or removes it.
pub(super) async fn configure(process: Process, app: AppNo, kind: ProviderKind, rate: Option<u8>) {
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
