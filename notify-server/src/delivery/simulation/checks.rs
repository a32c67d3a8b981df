//! Invariants that must hold at every check, after every crash, and at the end.

use std::collections::{BTreeMap, BTreeSet};

use notify_core::{Device, DisabledReason, IosEnv, NotificationRecord, Platform, UserId};

use super::devices::State;
use super::keys::check_keys;
use super::notifications::{ExpectedNotification, RequestState};
use super::panics;
use super::requests::{Process, TAG};
use super::world::{World, lock};
use crate::store::{AppNo, DeviceFilter, PageRequest, StoreError};

/// More devices than an application of the simulation has.
const DEVICES_MAX: u32 = 1_000;

/// Invariants that hold at all times.
pub(super) fn check_invariants(process: &Process) {
    let mut world = lock(&process.world);
    for notification in accepted(&world) {
        match read(process, &notification) {
            Some(record) => check_counts(&mut world, &record),
            None => world.record_violation(&format!(
                "{}, which was accepted, is gone",
                notification.id.as_str()
            )),
        }
    }
    if panics::take_panicked() {
        world.record_violation("something panicked");
    }
}

/// The notifications that must exist in the store.
pub(super) fn accepted(world: &World) -> Vec<ExpectedNotification> {
    let notifications = world.notifications.values();
    notifications
        .filter(|notification| notification.accepted == RequestState::Acknowledged)
        .cloned()
        .collect()
}

pub(super) fn read(
    process: &Process,
    notification: &ExpectedNotification,
) -> Option<NotificationRecord> {
    process.store.peek(process.store.notification(notification.app, notification.id.clone())).ok()
}

pub(super) fn is_finished(record: &NotificationRecord) -> bool {
    record.completed_at.is_some()
}

fn check_counts(world: &mut World, record: &NotificationRecord) {
    let id = record.id.as_str();
    let mut all = record.by_platform.iter().map(|of| of.counts).collect::<Vec<_>>();
    all.push(record.counts);
    for counts in all {
        let ended =
            counts.sent + counts.failed + counts.unregistered + counts.expired + counts.canceled;
        if ended + counts.pending != counts.targeted {
            world.record_violation(&format!("{id} does not add up: {counts:?}"));
        }
        if is_finished(record) && counts.pending > 0 {
            world.record_violation(&format!("{id} has ended with deliveries left: {counts:?}"));
        }
    }
    let failures: u64 = record.failures.iter().map(|failure| failure.count).sum();
    let failed = record.counts.failed + record.counts.unregistered;
    if failures != failed {
        world.record_violation(&format!("{id} failed {failed} times, with reasons for {failures}"));
    }
    let notification = world.notifications[id].clone();
    if record.counts.sent > notification.delivered {
        let (sent, delivered) = (record.counts.sent, notification.delivered);
        world.record_violation(&format!(
            "{id} counts {sent} as sent, of which {delivered} were delivered"
        ));
    }
}

/// Compares the database after a crash with the acknowledged requests. The database decides the result of
/// requests that were in flight.
pub(super) fn check_after_restart(process: &Process) {
    let mut world = lock(&process.world);
    check_devices(process, &mut world);
    check_keys(process, &mut world);
    for ((app, user), sent) in std::mem::take(&mut world.devices.deletions) {
        let id = UserId::new(&user).expect("names are ids");
        if matches!(process.store.peek(process.store.user(app, id)), Err(StoreError::NotFound)) {
            world.forget_user(app, &user, sent);
        }
    }
    let ids: Vec<String> = world.notifications.keys().cloned().collect();
    for id in ids {
        let notification = world.notifications[&id].clone();
        if notification.accepted != RequestState::InFlight {
            continue;
        }
        let event = world.event;
        let is_there = read(process, &notification).is_some();
        let notification = world.notifications.get_mut(&id).expect("it was found above");
        notification.accepted =
            if is_there { RequestState::Acknowledged } else { RequestState::Failed };
        notification.acknowledged_event = is_there.then_some(event);
    }
}

/// Every device reads back as its last acknowledged request left it, and none counts as dead unless
/// a push service reported it.
pub(super) fn check_devices(process: &Process, world: &mut World) {
    let apps = world.apps.clone();
    for (app, _) in apps {
        let page = PageRequest { limit: DEVICES_MAX, cursor: None };
        let listed = process.store.list_devices(app, DeviceFilter::default(), page);
        let Ok(listed) = process.store.peek(listed) else {
            world.record_violation(&format!("the devices of {} cannot be read", app.0));
            continue;
        };
        let mut stored: BTreeMap<String, Device> = BTreeMap::new();
        for device in listed.rows {
            stored.insert(device.device_id.as_str().to_owned(), device);
        }
        let names: Vec<String> = world.devices.of(app).map(|(name, _)| name.clone()).collect();
        for name in names {
            let device = stored.remove(&name);
            check_device(world, app, &name, device.as_ref());
        }
        for name in stored.keys() {
            world.record_violation(&format!("{name} exists without a registration"));
        }
    }
}

fn check_device(world: &mut World, app: AppNo, name: &str, device: Option<&Device>) {
    let read = device.map(state_of);
    let entry = world.devices.entry(app, name).cloned().unwrap_or_default();
    let is_right = |state: &Option<State>| match (state, &read) {
        (None, None) => true,
        (Some(state), Some(read)) => state.reads_as(read),
        (None, Some(_)) | (Some(_), None) => false,
    };
    let right = std::iter::once(&entry.now).chain(&entry.next).find(|state| is_right(state));
    let Some(right) = right.cloned() else {
        world.record_violation(&format!("{name} reads back as {read:?}, and is {entry:?}"));
        return;
    };
    if world.is_dead && entry.next.is_some() {
        let event = world.event;
        let known = world.devices.entries.entry((app, name.to_owned())).or_default();
        (known.now, known.next, known.touched) = (right, None, event);
    }
    let Some(device) = device.filter(|device| is_dead(device)) else { return };
    let state = state_of(device);
    if state.token.is_none() {
        // The address delivered a message as the address of another device since, so earlier
        // answers do not matter.
        return;
    }
    let reports = world.unregistered_reports.get(&(app, device.platform)).into_iter().flatten();
    let is_reported = reports.into_iter().any(|death| {
        death.counts
            && death.names.iter().any(|of| of == name)
            && Some(&death.token) == state.token.as_ref()
            && (device.platform != Platform::Ios || death.env == state.env)
    });
    if !is_reported {
        world.record_violation(&format!(
            "{name} counts as dead without a report about {:?}",
            state.token
        ));
    }
}

fn is_dead(device: &Device) -> bool {
    device.disabled_reason == Some(DisabledReason::Unregistered)
}

/// A device as the store returns it.
fn state_of(device: &Device) -> State {
    let subscribed = device.subscription.as_ref().map(|of| of.endpoint.clone());
    State {
        platform: device.platform,
        token: device.push_token.clone().or(subscribed).or_else(|| device.recipient_id.clone()),
        env: device.ios_env.unwrap_or(IosEnv::Production),
        disabled: device.push_disabled,
        tag: device.tags.iter().find(|tag| tag.name == TAG).map(|tag| tag.value),
        user: device.user_id.as_ref().map(|user| user.as_str().to_owned()),
        born: 0,
        moved_to: BTreeSet::new(),
    }
}
