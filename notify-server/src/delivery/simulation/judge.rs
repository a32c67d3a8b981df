//! Checks whether an attempt may be made, when it starts, against what the callers and the push
//! services know.

use notify_core::Platform;

use super::notices::{Asked, Notice};
use super::weather::{Forecast, forecast};
use super::world::{Attempt, Service, World};
use crate::store::AppNo;

/// Number of recent attempts that the script considers.
const RECENT_MAX: usize = 12;

impl World {
    /// Records the start of an attempt.
    pub(super) fn depart(&mut self, attempt: &Attempt) -> (Forecast, Vec<String>) {
        let Attempt { app, platform, id, token, .. } = attempt;
        self.note(&format!("{} {platform} → {token} of {id}", app.0));
        self.in_flight += 1;
        let names = self.judge(attempt);
        if let Some(notice) = self.notices.get_mut(id) {
            notice.in_flight += 1;
        }
        self.recent.extend(names.iter().map(|name| (*app, name.clone())));
        self.recent.drain(..self.recent.len().saturating_sub(RECENT_MAX));
        self.judge_credit();
        let service = self.judge_slots(*app, *platform);
        let now = self.now();
        (forecast(service.weather, &mut self.rng, *platform, now), names)
    }

    /// Checks whether an attempt may be made now. Returns the devices that it may be meant for.
    fn judge(&mut self, attempt: &Attempt) -> Vec<String> {
        let Attempt { app, platform, id, token, env } = attempt;
        let now = self.now();
        let Some(notice) = self.notices.get(id) else {
            self.broke(&format!("{id}is sent without a request"));
            return Vec::new();
        };
        let mut wrong = Vec::new();
        if notice.canceled == Asked::Done {
            wrong.push("after its cancellation was acknowledged");
        }
        if now < notice.due_at {
            wrong.push("before it is due");
        }
        if notice.expires_at().is_some_and(|expires_at| now >= expires_at) {
            wrong.push("after it expired");
        }
        // After a lost acknowledgement providers are read again, and an address that looked dead to
        // the earlier configuration is attempted again.
        if let Some(reached) = notice.reached.get(&(*platform, token.clone()))
            && notice.expires_at().is_none()
            && self.crashes == 0
            && !(reached.dead && self.has_lost_answers)
            && reached.tries
                > self.devices.taken_since((*app, *platform, token), notice.asked, false)
        {
            wrong.push("a second time without a ttl");
        }
        let meant: Vec<String> = self
            .devices
            .of(*app)
            .filter(|(name, entry)| {
                entry.possible().any(|state| {
                    state.is_at(*platform, token)
                        && (*platform != Platform::Ios || state.env == *env)
                        && !state.disabled
                        && (!notice.tagged || state.tag == Some(true))
                        && notice.names(*platform, name)
                        && (notice.is_scheduled
                            || notice.acknowledged.is_none_or(|event| state.born < event))
                })
            })
            .map(|(name, _)| name.clone())
            .collect();
        if meant.is_empty() {
            wrong.push("to an address that no device of its audience has now");
        }
        let wrong: Vec<String> =
            wrong.into_iter().map(|wrong| format!("{id} is sent to {token} {wrong}")).collect();
        wrong.iter().for_each(|wrong| self.broke(wrong));
        meant
    }

    /// How often an address may get a notification again because it moved to a device that did not
    /// exist when another device had the address.
    pub(super) fn may_repeat(&self, notice: &Notice, platform: Platform, token: &str) -> u64 {
        self.devices.taken_since((notice.app, platform, token), notice.asked, true)
    }

    /// Deliveries in flight and unrecorded outcomes together never exceed the limit (hazard 4).
    pub(super) fn judge_credit(&mut self) {
        let unrecorded = self.taken.saturating_sub(self.recorded + self.excused);
        if self.in_flight + unrecorded > self.credit {
            let (in_flight, credit) = (self.in_flight, self.credit);
            self.broke(&format!(
                "{in_flight} are in flight and {unrecorded} not recorded, with a limit of {credit}"
            ));
        }
    }

    /// Checks that there are no more streams than the service accepts, however that limit changes.
    fn judge_slots(&mut self, app: AppNo, platform: Platform) -> Service {
        let service = self.services.get_mut(&(app, platform.provider()));
        let service = service.expect("every application has all services");
        service.in_flight += 1;
        let is_over = service.in_flight > service.slots;
        let in_hand = service.in_hand;
        service.in_hand = in_hand.saturating_sub(1);
        let service = *service;
        if is_over && in_hand == 0 {
            let (open, slots) = (service.in_flight, service.slots);
            self.broke(&format!("{open} streams to {platform}, which offers {slots}"));
        }
        service
    }
}
