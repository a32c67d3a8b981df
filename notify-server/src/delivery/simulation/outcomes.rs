//! Invariants at the end, device by device.

use std::collections::{BTreeMap, BTreeSet};

use notify_core::{NotificationRecord, NotificationStatus, Platform};

use super::checks::{accepted, check_devices, read};
use super::devices::Entry;
use super::keys::check_keys;
use super::notifications::{ExpectedNotification, RequestState};
use super::requests::Process;
use super::world::{World, lock};
use crate::delivery::decision::supports_dedup;
use crate::store::{AudienceSource, DeviceKey, DeviceOutcome, Dispatch, Outcome, Portion};
/// Checks that each device without changes has an outcome, and that the outcome agrees with its push
/// service.
pub(super) fn check_at_end(process: &Process) {
    let mut world = lock(&process.world);
    check_devices(process, &mut world);
    check_keys(process, &mut world);
    let dispatches = dispatches(process);
    for notification in accepted(&world) {
        let id = notification.id.as_str();
        let Some(record) = read(process, &notification) else { continue };
        if !matches!(record.status, NotificationStatus::Completed | NotificationStatus::Canceled) {
            world.record_violation(&format!("{id} ends as {}", record.status.as_str()));
        }
        let sent = record.counts.sent;
        if notification.unrecorded(sent) > 0 {
            let delivered = notification.delivered;
            world.record_violation(&format!(
                "{id} was delivered {delivered} times, and {sent} are recorded"
            ));
        }
        let lost = world.lost_devices.iter();
        let lost = lost
            .filter(|(app, _, at)| *app == notification.app && *at >= notification.requested_event);
        let lost = lost.count() as u64;
        let canceled = record.counts.canceled;
        if canceled > lost && notification.canceled == RequestState::NotRequested {
            world.record_violation(&format!(
                "{id} counts {canceled} as canceled, but {lost} were erased"
            ));
        }
        let repeated: u64 = notification
            .by_address
            .iter()
            .map(|((platform, token), reached)| {
                let allowed = 1 + world.repeats_allowed(&notification, *platform, token);
                reached.delivered.saturating_sub(allowed)
            })
            .sum();
        if repeated > notification.repeats_max {
            let allowed = notification.repeats_max;
            world.record_violation(&format!(
                "{id} was repeated {repeated} times, and {allowed} times are allowed"
            ));
        }
        let of_this = dispatches.get(id).map_or(&[][..], Vec::as_slice);
        check_reasons(&mut world, &notification, &record);
        check_users(process, &mut world, &notification, &record, of_this);
        if record.status == NotificationStatus::Canceled && of_this.is_empty() {
            continue;
        }
        check_outcomes(process, &mut world, &notification, of_this);
    }
}

/// Checks that no delivery failed for a reason that is impossible for its notification.
fn check_reasons(
    world: &mut World,
    notification: &ExpectedNotification,
    record: &NotificationRecord,
) {
    for failure in &record.failures {
        let is_possible = match failure.reason.as_str() {
            "user_changed" => notification.users.is_some(),
            "fails_audience" => notification.audience.is_some(),
            "request_unreadable" => false,
            _ => true,
        };
        if !is_possible {
            let id = notification.id.as_str();
            world.record_violation(&format!("{id} cannot have failed as {failure:?}"));
        }
    }
}

/// Checks that the counts of users add up, and that a user counts as reached exactly if one of the user's
/// devices got the notification.
fn check_users(
    process: &Process,
    world: &mut World,
    notification: &ExpectedNotification,
    record: &NotificationRecord,
    dispatches: &[Dispatch],
) {
    let mut reached = BTreeSet::new();
    for dispatch in dispatches {
        let AudienceSource::Named { keys, users: Some(users), .. } = &dispatch.source else {
            continue;
        };
        for (key, user) in keys.iter().zip(users) {
            let outcome = process.store.peek(process.store.delivery_outcome(dispatch.no, *key));
            let is_sent = |outcome: DeviceOutcome| outcome.settled == Outcome::Sent;
            if outcome.ok().flatten().is_some_and(is_sent) {
                reached.insert(user.0);
            }
        }
    }
    let reached = reached.len() as u64;
    let is_right = match (&record.users, &notification.users) {
        (None, None) => true,
        (Some(counts), Some(_)) => {
            let all_count =
                record.status == NotificationStatus::Completed && !world.has_deleted_users;
            counts.named == counts.reached + counts.unreached + counts.pending + counts.unknown
                && (counts.pending, counts.reached) == (0, reached)
                && (record.counts.sent > 0) == (reached > 0)
                && counts.named <= notification.named_users
                && (counts.named == notification.named_users || !all_count)
        }
        (None, Some(_)) | (Some(_), None) => false,
    };
    if !is_right {
        let (id, counts) = (notification.id.as_str(), record.users);
        world.record_violation(&format!("{id} reached {reached} users, and counts {counts:?}"));
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

fn check_outcomes(
    process: &Process,
    world: &mut World,
    notification: &ExpectedNotification,
    dispatches: &[Dispatch],
) {
    let devices: Vec<(String, Entry)> = world
        .devices
        .of(notification.app)
        .map(|(name, entry)| (name.clone(), entry.clone()))
        .collect();
    let mut keys = BTreeMap::new();
    for dispatch in dispatches {
        keys.extend(keys_by_address(process, dispatch));
    }
    for (name, entry) in devices {
        let Some(state) = entry.now.clone() else { continue };
        let reports = world
            .unregistered_reports
            .get(&(notification.app, state.platform))
            .into_iter()
            .flatten();
        let is_unchanged = entry.touched < notification.requested_event
            && state.moved_to.is_empty()
            && !reports.into_iter().any(|death| death.names.contains(&name));
        let Some(token) = state.token.clone().filter(|_| is_unchanged) else { continue };
        // With a canary, a platform has two dispatches.
        let key = keys.get(&(state.platform, token.clone())).copied();
        let mut outcomes = dispatches.iter().filter_map(|dispatch| {
            let key = key.filter(|_| dispatch.platform == state.platform)?;
            process.store.peek(process.store.delivery_outcome(dispatch.no, key)).ok().flatten()
        });
        let outcome = outcomes.next();
        if outcomes.next().is_some() {
            let id = notification.id.as_str();
            world.record_violation(&format!("{id} to {name}: in the canary and in the rest"));
        }
        let wrong = if notification.targets(&name, &state) {
            violation(world, notification, (state.platform, &token), outcome.as_ref())
        } else {
            outcome.as_ref().map(|_| "it is not in the audience")
        };
        if let Some(wrong) = wrong {
            let id = notification.id.as_str();
            world.record_violation(&format!("{id} to {name} at {token}: {wrong}: {outcome:?}"));
        }
    }
}

/// The devices of a dispatch's platform, by address.
fn keys_by_address(
    process: &Process,
    dispatch: &Dispatch,
) -> BTreeMap<(Platform, String), DeviceKey> {
    let all = Dispatch {
        source: AudienceSource::Platform,
        condition: None,
        portion: Portion::All,
        ..dispatch.clone()
    };
    let from = DeviceKey::before_first(dispatch.app, dispatch.platform);
    let devices = process.store.peek(process.store.read_range(&all, from, dispatch.until));
    let addressed = devices.unwrap_or_default().into_iter();
    addressed
        .filter_map(|device| Some(((dispatch.platform, device.address?.into_string()), device.key)))
        .collect()
}

/// Why an outcome is impossible for a device without changes.
fn violation(
    world: &World,
    notification: &ExpectedNotification,
    (platform, token): (Platform, &str),
    outcome: Option<&DeviceOutcome>,
) -> Option<&'static str> {
    let Some(outcome) = outcome else { return Some("it has no outcome") };
    let reached =
        notification.by_address.get(&(platform, token.to_owned())).cloned().unwrap_or_default();
    let reason = outcome.reason.as_deref().unwrap_or_default();
    let is_right = match outcome.settled {
        // A process that died may have lost an answer before its outcome was stored, but not the
        // outcome.
        Outcome::Sent => reached.delivered > 0,
        Outcome::Failed => {
            notification.reasons.contains(reason)
                || reason == "outcome_unknown"
                    && world.crashes > 0
                    && world.skips.contains(&notification.app)
                    && !supports_dedup(platform)
                || reason == "provider_not_configured"
                    && world.was_missing.contains(&(notification.app, platform.provider()))
        }
        Outcome::Unregistered => reached.dead || reached.refused,
        Outcome::Expired => {
            notification.ttl.is_some()
                || notification.collapse_key.is_some() && reason == "overtaken"
        }
        Outcome::Canceled => notification.canceled != RequestState::NotRequested,
    };
    (!is_right).then_some("it ended as it cannot have")
}
