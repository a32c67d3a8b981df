//! Requests of callers about devices.

use notify_core::{
    DeviceDetails, DeviceId, Endpoint, Platform, Registration, Subscription, Tag, TagType, UserId,
    WebSubscription,
};

use super::devices::{DeviceChange, State};
use super::requests::{Process, TAG};
use super::world::lock;
use crate::clock::Clock;
use crate::store::AppNo;
/// Registers or subscribes a device.
pub(super) async fn register(process: Process, app: AppNo, name: String, mut wanted: State) {
    let _asking = process.begin_request();
    let at = process.clock.now();
    let what = format!("register {} {name} {} {:?}", app.0, wanted.platform, wanted.token);
    let (change, moves) = {
        let mut world = lock(&process.world);
        wanted.born = world.event + 1;
        let before = world.devices.entry(app, &name).and_then(|entry| entry.now.clone());
        let moves = before.is_some_and(|before| before.platform != wanted.platform);
        if moves {
            world.begin_device_loss(app, &name);
        }
        let Some(change) = world.devices.registration(app, &name, wanted.clone(), at) else {
            return;
        };
        let event = world.record_event(&what);
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
                timezone_minutes: None,
                user_id: None,
                details: DeviceDetails::default(),
            };
            let done = process.store.register_device(app, registration, at, None).await;
            process.record_response(&what, done)
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
                timezone_minutes: None,
                user_id: None,
                details: DeviceDetails::default(),
            };
            let done = process.store.subscribe_device(app, subscription, id, at, None).await;
            process.record_response(&what, done)
        }
    };
    process.device_changed(&change, done);
    if moves {
        lock(&process.world).end_device_loss(app, &name);
    }
    if done && moves {
        process.waive_all();
    }
}

/// Erases a device.
pub(super) async fn erase(process: Process, app: AppNo, name: String) {
    let _asking = process.begin_request();
    let what = format!("erase {} {name}", app.0);
    let Some(change) = begin(&process, &what, app, &name, |_| None) else { return };
    let id = DeviceId::new(&name).expect("names are ids");
    let at = process.clock.now();
    lock(&process.world).begin_device_loss(app, &name);
    let done = process.store.delete_device(app, id, at).await;
    let done = process.record_response(&what, done);
    process.device_changed(&change, done);
    lock(&process.world).end_device_loss(app, &name);
    if done {
        process.waive_all();
    }
}

/// Sets the tag of a device to a value; `None` removes it.
pub(super) async fn tag(process: Process, app: AppNo, name: String, value: Option<bool>) {
    let _asking = process.begin_request();
    let what = format!("tag {} {name} {value:?}", app.0);
    let change = begin(&process, &what, app, &name, |before| Some(State { tag: value, ..before }));
    let Some(change) = change else { return };
    let id = DeviceId::new(&name).expect("names are ids");
    let done = match value {
        Some(value) => {
            let tag = Tag { name: TAG.into(), kind: TagType::Bool, value };
            process.record_response(&what, process.store.set_tags(app, id, vec![tag], None).await)
        }
        None => process.record_response(&what, process.store.remove_tag(app, id, TAG.into()).await),
    };
    process.device_changed(&change, done);
}

/// Logs a device in as a user, or out if `user` is `None`.
pub(super) async fn log_in(process: Process, app: AppNo, name: String, user: Option<&str>) {
    let _asking = process.begin_request();
    let what = match user {
        Some(user) => format!("log in {} {name} as {user}", app.0),
        None => format!("log out {} {name}", app.0),
    };
    let change = {
        let mut world = lock(&process.world);
        let Some(change) = world.devices.log_in(app, &name, user) else { return };
        let event = world.record_event(&what);
        world.devices.begin(&change, event);
        change
    };
    let id = DeviceId::new(&name).expect("names are ids");
    let done = match user {
        Some(user) => {
            let (user, at) = (user_id(user), process.clock.now());
            process.store.log_in(app, id, user, at).await
        }
        None => process.store.log_out(app, id).await,
    };
    let done = process.record_response(&what, done);
    process.device_changed(&change, done);
}

/// Deletes a user. Its devices are logged out or erased.
pub(super) async fn delete_user(process: Process, app: AppNo, user: &str, keeps_devices: bool) {
    let _asking = process.begin_request();
    let with_or_without = if keeps_devices { "without" } else { "with" };
    let what = format!("delete user {} {user} {with_or_without} devices", app.0);
    let (change, sent) = {
        let mut world = lock(&process.world);
        let Some(change) = world.devices.user_deletion(app, user, keeps_devices) else { return };
        let event = world.record_event(&what);
        world.devices.begin(&change, event);
        world.devices.deletions.insert((app, user.to_owned()), event);
        (change, event)
    };
    let lost = if keeps_devices { &[][..] } else { &change.changes[..] };
    lost.iter().for_each(|(name, _)| lock(&process.world).begin_device_loss(app, name));
    let at = process.clock.now();
    let done = process.store.delete_user(app, user_id(user), keeps_devices, at).await;
    let done = process.record_response(&what, done);
    process.device_changed(&change, done);
    {
        let mut world = lock(&process.world);
        lost.iter().for_each(|(name, _)| world.end_device_loss(app, name));
        world.devices.deletions.remove(&(app, user.to_owned()));
        if done {
            world.forget_user(app, user, sent);
        }
    }
    if done && !keeps_devices {
        process.waive_all();
    }
}

/// Deletes a user. The devices then log in as a new user with the same id.
pub(super) async fn replace_user(process: Process, app: AppNo, user: &str) {
    let names: Vec<String> = {
        let world = lock(&process.world);
        let devices = world.devices.of(app).filter(|(_, entry)| entry.may_be_of(user));
        devices.map(|(name, _)| name.clone()).collect()
    };
    delete_user(process.clone(), app, user, true).await;
    for name in names {
        log_in(process.clone(), app, name, Some(user)).await;
    }
}

fn user_id(user: &str) -> UserId {
    UserId::new(user).expect("names are ids")
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
    let event = world.record_event(what);
    world.devices.begin(&change, event);
    Some(change)
}
