//! Checks at the start of each attempt whether it may be made, given what callers and push
//! services know.

use notify_core::{NotificationId, Platform};

use super::conditions::{PlannedAnswer, plan_answer};
use super::notifications::{ExpectedNotification, RequestState};
use super::world::{Attempt, Service, World};
use crate::delivery::decision::supports_dedup;
use crate::store::AppNo;

/// Number of recent attempts that the script considers.
const RECENT_MAX: usize = 12;

impl World {
    /// Records the start of an attempt.
    pub(super) fn start_attempt(&mut self, attempt: &Attempt) -> (PlannedAnswer, Vec<String>) {
        let Attempt { app, platform, id, token, .. } = attempt;
        let event = self.record_event(&format!("{} {platform} → {token} of {id}", app.0));
        self.in_flight += 1;
        self.in_flight_without_dedup += u64::from(!supports_dedup(*platform));
        let names = self.check_attempt(attempt);
        let (mut is_too_fast, now) = (false, self.now());
        if let Some(notification) = self.notifications.get_mut(id) {
            notification.in_flight += 1;
            let is_retry = names.iter().any(|name| notification.attempted.contains(name));
            notification.attempted.extend(names.iter().cloned());
            let address = notification.by_address.entry((*platform, token.clone())).or_default();
            let is_first = address.began == 0 && !is_retry;
            address.began = event;
            address.in_flight += 1;
            is_too_fast = notification.exceeds_rate(is_first, now);
        }
        if is_too_fast {
            self.record_violation(&format!("{id} is sent to {token} faster than its rate"));
        }
        self.recent.extend(names.iter().map(|name| (*app, name.clone())));
        self.recent.drain(..self.recent.len().saturating_sub(RECENT_MAX));
        self.check_unacked();
        let service = self.check_streams(*app, *platform);
        let now = self.now();
        (plan_answer(service.condition, &mut self.rng, *platform, now), names)
    }

    /// Checks whether an attempt may be made now. Returns the devices for which it may be made.
    fn check_attempt(&mut self, attempt: &Attempt) -> Vec<String> {
        let Attempt { app, platform, id, token, env } = attempt;
        let now = self.now();
        let Some(notification) = self.notifications.get(id) else {
            self.record_violation(&format!("{id} is sent without a request"));
            return Vec::new();
        };
        let mut violations = Vec::new();
        if notification.canceled == RequestState::Acknowledged {
            violations.push("after its cancellation was acknowledged");
        }
        if notification.is_paused {
            violations.push("after its pause was acknowledged");
        }
        if now < notification.due_at {
            violations.push("before it is due");
        }
        if notification.expires_at().is_some_and(|expires_at| now >= expires_at) {
            violations.push("after it expired");
        }
        // After a change of the provider or a lost acknowledgement, the providers are read again. An address
        // that looked dead with the earlier configuration is then attempted again.
        if let Some(reached) = notification.by_address.get(&(*platform, token.clone()))
            && notification.expires_at().is_none()
            && self.crashes == 0
            && !(reached.dead && (self.has_lost_answers || reached.looked_dead_before))
            && reached.attempts
                > self.devices.claims_since(
                    (*app, *platform, token),
                    notification.requested_event,
                    false,
                )
        {
            violations.push("a second time without a ttl");
        }
        // Each registration of the address by another device allows one more message.
        if self.skips.contains(app)
            && !supports_dedup(*platform)
            && let Some(reached) = notification.by_address.get(&(*platform, token.clone()))
            && reached.is_in_doubt
            && self.devices.claims_since(
                (*app, *platform, token),
                notification.requested_event,
                false,
            ) == 0
        {
            violations.push("again after a crash, with `on_crash: skip`");
        }
        let targets: Vec<String> = self
            .devices
            .of(*app)
            .filter(|(name, entry)| {
                entry.possible().any(|state| {
                    state.is_at(*platform, token)
                        && (*platform != Platform::Ios || state.env == *env)
                        && notification.targets(name, state)
                        && (notification.is_scheduled
                            || notification
                                .acknowledged_event
                                .is_none_or(|event| state.born < event))
                })
            })
            .map(|(name, _)| name.clone())
            .collect();
        if targets.is_empty() {
            violations.push("to an address that no device of its audience has now");
        }
        let wrong: Vec<String> = violations
            .into_iter()
            .map(|wrong| format!("{id} is sent to {token} {wrong}"))
            .collect();
        wrong.iter().for_each(|wrong| self.record_violation(wrong));
        targets
    }

    /// The notifications that overtook the notification of an attempt at its address.
    pub(super) fn overtaking(&self, attempt: &Attempt) -> Vec<NotificationId> {
        let Attempt { platform, id, token, .. } = attempt;
        let Some(notification) = self.notifications.get(id) else { return Vec::new() };
        let others = self.notifications.values();
        let overtaking =
            others.filter(|other| notification.is_overtaken_by(other, *platform, token));
        overtaking.map(|other| other.id.clone()).collect()
    }

    /// How often an address may get a notification again because it moved to a device that did not
    /// exist when another device had the address.
    pub(super) fn repeats_allowed(
        &self,
        notification: &ExpectedNotification,
        platform: Platform,
        token: &str,
    ) -> u64 {
        self.devices.claims_since(
            (notification.app, platform, token),
            notification.requested_event,
            true,
        )
    }

    /// Deliveries in flight and unrecorded outcomes together never exceed the limit (hazard 4).
    pub(super) fn check_unacked(&mut self) {
        let unrecorded = self.delivered.saturating_sub(self.recorded + self.may_stay_unrecorded);
        if self.in_flight + unrecorded > self.unacked_max {
            let (in_flight, limit) = (self.in_flight, self.unacked_max);
            self.record_violation(&format!(
                "{in_flight} are in flight and {unrecorded} not recorded, with a limit of {limit}"
            ));
        }
        if self.in_flight_without_dedup > self.without_dedup_max {
            let (in_flight, limit) = (self.in_flight_without_dedup, self.without_dedup_max);
            self.record_violation(&format!(
                "{in_flight} are in flight on platforms without deduplication, with a limit of {limit}"
            ));
        }
    }

    /// Checks that there are no more streams than the service accepts, also when that limit changes.
    fn check_streams(&mut self, app: AppNo, platform: Platform) -> Service {
        let service = self.services.get_mut(&(app, platform.provider()));
        let service = service.expect("every application has all services");
        service.in_flight += 1;
        let is_exceeded = service.in_flight > service.slots;
        let held_permits = service.held_permits;
        service.held_permits = held_permits.saturating_sub(1);
        let service = *service;
        if is_exceeded && held_permits == 0 {
            let (open, slots) = (service.in_flight, service.slots);
            self.record_violation(&format!("{open} streams to {platform}, which offers {slots}"));
        }
        service
    }
}
