//! Invariants at the end, device by device.

use std::collections::BTreeMap;

use notify_core::{NotificationStatus, Platform};

use super::checks::{accepted, judge_devices, read};
use super::devices::Entry;
use super::notices::{Asked, Notice};
use super::requests::Process;
use super::world::{World, lock};
use crate::store::{AudienceSource, DeviceKey, DeviceOutcome, Dispatch, Outcome};
/// Checks that each device without changes has an outcome, and that it agrees with its push
/// service.
pub(super) fn over(process: &Process) {
    let mut world = lock(&process.world);
    judge_devices(process, &mut world);
    let dispatches = dispatches(process);
    for notice in accepted(&world) {
        let id = notice.id.as_str();
        let Some(record) = read(process, &notice) else { continue };
        if !matches!(record.status, NotificationStatus::Completed | NotificationStatus::Canceled) {
            world.broke(&format!("{id} ends as {}", record.status.as_str()));
        }
        let sent = record.counts.sent;
        if notice.unrecorded(sent) > 0 {
            let taken = notice.taken;
            world.broke(&format!("{id} was taken {taken} times, and {sent} are recorded"));
        }
        let lost = world.lost_devices.iter();
        let lost = lost.filter(|(app, _, at)| *app == notice.app && *at >= notice.asked);
        let lost = lost.count() as u64;
        let canceled = record.counts.canceled;
        if canceled > lost && notice.canceled == Asked::No {
            world.broke(&format!("{id} counts {canceled} as canceled, where {lost} were erased"));
        }
        let repeated: u64 = notice
            .reached
            .iter()
            .map(|((platform, token), reached)| {
                let may = 1 + world.may_repeat(&notice, *platform, token);
                reached.taken.saturating_sub(may)
            })
            .sum();
        if repeated > notice.repeats_max {
            let may = notice.repeats_max;
            world.broke(&format!("{id} was repeated {repeated} times, where {may} may be"));
        }
        if record.status == NotificationStatus::Canceled && !dispatches.contains_key(id) {
            continue;
        }
        judge_outcomes(process, &mut world, &notice, dispatches.get(id).map_or(&[], Vec::as_slice));
    }
}

/// Every dispatch, by its notification.
fn dispatches(process: &Process) -> BTreeMap<String, Vec<Dispatch>> {
    let mut dispatches = BTreeMap::<String, Vec<Dispatch>>::new();
    for no in process.store.peek_dispatches() {
        let Ok(dispatch) = process.store.peek(process.store.dispatch(no)) else { continue };
        let of = dispatches.entry(dispatch.notification_id.as_str().to_owned()).or_default();
        of.push(dispatch);
    }
    dispatches
}

fn judge_outcomes(process: &Process, world: &mut World, notice: &Notice, dispatches: &[Dispatch]) {
    let devices: Vec<(String, Entry)> =
        world.devices.of(notice.app).map(|(name, entry)| (name.clone(), entry.clone())).collect();
    let mut keys = BTreeMap::new();
    for dispatch in dispatches {
        keys.extend(keys_by_address(process, dispatch));
    }
    for (name, entry) in devices {
        let Some(state) = entry.now.clone() else { continue };
        let deaths = world.deaths.get(&(notice.app, state.platform)).into_iter().flatten();
        let is_left_alone = entry.touched < notice.asked
            && state.moved_to.is_empty()
            && !deaths.into_iter().any(|death| death.names.contains(&name));
        let is_meant = notice.names(state.platform, &name)
            && !state.disabled
            && (!notice.tagged || state.tag == Some(true));
        let Some(token) = state.token.clone().filter(|_| is_left_alone && is_meant) else {
            continue;
        };
        let dispatch = dispatches.iter().find(|of| of.platform == state.platform);
        let key = keys.get(&(state.platform, token.clone())).copied();
        let outcome = dispatch.zip(key).and_then(|(dispatch, key)| {
            let outcome = process.store.delivery_outcome(dispatch.no, key);
            process.store.peek(outcome).ok().flatten()
        });
        if let Some(wrong) = wrong(world, notice, (state.platform, &token), outcome.as_ref()) {
            let id = notice.id.as_str();
            world.broke(&format!("{id} to {name} at {token}: {wrong}: {outcome:?}"));
        }
    }
}

/// The devices of a dispatch's platform, by address.
fn keys_by_address(
    process: &Process,
    dispatch: &Dispatch,
) -> BTreeMap<(Platform, String), DeviceKey> {
    let all = Dispatch { source: AudienceSource::Platform, ..dispatch.clone() };
    let from = DeviceKey::before_first(dispatch.app, dispatch.platform);
    let devices = process.store.peek(process.store.read_range(&all, from, dispatch.until));
    let addressed = devices.unwrap_or_default().into_iter();
    addressed
        .filter_map(|device| Some(((dispatch.platform, device.address?.into_string()), device.key)))
        .collect()
}

/// Why an outcome is impossible for a device without changes.
fn wrong(
    world: &World,
    notice: &Notice,
    (platform, token): (Platform, &str),
    outcome: Option<&DeviceOutcome>,
) -> Option<&'static str> {
    let Some(outcome) = outcome else { return Some("it has no outcome") };
    let reached = notice.reached.get(&(platform, token.to_owned())).cloned().unwrap_or_default();
    let reason = outcome.reason.as_deref().unwrap_or_default();
    let is_right = match outcome.settled {
        // A process that died may have lost an answer before its outcome was stored, but not the
        // outcome.
        Outcome::Sent => reached.taken > 0,
        Outcome::Failed => {
            notice.reasons.contains(reason)
                || reason == "provider_not_configured"
                    && world.was_missing.contains(&(notice.app, platform.provider()))
        }
        Outcome::Unregistered => reached.dead || reached.refused,
        Outcome::Expired => notice.ttl.is_some() || notice.replaces && reason == "overtaken",
        Outcome::Canceled => notice.canceled != Asked::No,
    };
    (!is_right).then_some("it ended as it cannot have")
}
