//! What answers say of the provider as a whole, or of the service behind an address.

use std::collections::{HashSet, VecDeque};
use std::sync::Mutex;

use notify_core::{IosEnv, Platform, Timestamp};

use crate::delivery::breaker::Refusal;
use crate::delivery::decision::{Attempted, Next, decide};
use crate::delivery::lane::Lane;
use crate::delivery::lane::services::{InService, Service};
use crate::providers::{Answer, Certainty, Reason, Scope};
use crate::store::{AddressTrust, DeviceKey, GUARD_ANSWERS, GUARD_DEAD_MAX};

/// What was learned from one answer beside its delivery.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Learned {
    /// How often in a row the service refused our credentials.
    pub(crate) service_refusals: u16,
    /// What an address that looks dead comes to, where a wrong key or host would look the same.
    pub(crate) death: Option<Death>,
}

impl Learned {
    /// Answers since the last address that looked dead, for the store to count.
    pub(crate) fn reported(self) -> Option<u32> {
        match self.death? {
            Death::Reported(answers_before) => Some(answers_before),
            Death::Doubted => None,
        }
    }
}

/// An answer, and what it is about.
pub(crate) struct Received<'a> {
    pub(crate) answer: Answer,
    pub(crate) key: DeviceKey,
    /// What lies behind the address.
    pub(crate) service: Option<&'a InService>,
    pub(crate) env: IosEnv,
    /// What the answer says about our credentials.
    pub(crate) trust: AddressTrust,
    /// Version of the provider that was asked.
    pub(crate) version: u64,
}

impl Lane {
    /// Takes note of an answer, and decides what comes of its delivery: what it has been through is
    /// told by `past`, to which the service's refusals are added.
    pub(crate) fn judge(&self, received: Received<'_>, past: Attempted) -> (Next, Learned) {
        let Received { answer, key, service, env, trust, version } = received;
        let is_current = version == self.provider_version();
        let answer = self.narrowed(answer, key, version);
        let answer = match service {
            Some(service) if is_current => self.attributed(answer, service, trust, past.now),
            Some(_) | None => answer,
        };
        let learned = self.learn(&answer, (service, env, trust), version, past.now);
        let past = Attempted {
            service_refusals: learned.service_refusals,
            is_address_at_fault: is_current
                && !trust.is_verified()
                && service
                    .is_some_and(|service| service.gets_through(past.first_attempt_at, past.now)),
            ..past
        };
        let next = decide(answer, &past, &self.shared.config.retry);
        (self.doubted(next, &past, service.map(|service| &**service), version), learned)
    }

    /// An answer, limited to what its address is evidence of. An address that anybody could have
    /// registered neither counts for the guard nor slows its service down for long.
    fn attributed(
        &self,
        answer: Answer,
        service: &Service,
        trust: AddressTrust,
        now: Timestamp,
    ) -> Answer {
        match (answer, trust) {
            (
                Answer::TokenDead { reason, ambiguous: true, since },
                AddressTrust::Anonymous | AddressTrust::Unverified,
            ) if self.platform == Platform::Web => match trust {
                _ if service.believes_death() => {
                    Answer::TokenDead { reason, ambiguous: false, since }
                }
                AddressTrust::Unverified => Answer::ServiceRefused { reason },
                AddressTrust::Anonymous | AddressTrust::Verified => Answer::Unknown { reason },
            },
            (
                Answer::Throttle { reason, after, scope: Scope::Service },
                AddressTrust::Anonymous | AddressTrust::Unverified,
            ) => {
                if !service.works(now) && !service.gate.is_held(now) {
                    let policy = &self.shared.config.retry;
                    let pause_ms = after.map_or(policy.throttle_ms, |after| {
                        i64::try_from(after.as_millis()).unwrap_or(i64::MAX)
                    });
                    service.gate.pause(now.plus_ms(pause_ms.min(policy.throttle_ms)));
                }
                Answer::Throttle { reason, after, scope: Scope::Address }
            }
            (answer, _) => answer,
        }
    }

    /// An answer as it is meant: one that asks an address to slow down which was asked before, while
    /// others got through, is about that address alone, whatever it says.
    fn narrowed(&self, answer: Answer, key: DeviceKey, version: u64) -> Answer {
        if version != self.provider_version() {
            return answer;
        }
        match answer {
            Answer::Throttle { reason, after, scope: Scope::Provider | Scope::Service }
                if self.throttled.is_alone(key) =>
            {
                Answer::Throttle { reason, after, scope: Scope::Address }
            }
            Answer::Delivered { .. }
            | Answer::TokenDead { .. }
            | Answer::Moved { .. }
            | Answer::BadMessage { .. }
            | Answer::Policy { .. } => {
                self.throttled.passed(key);
                answer
            }
            Answer::Throttle { .. }
            | Answer::Retry { .. }
            | Answer::Config { .. }
            | Answer::ServiceRefused { .. }
            | Answer::Unknown { .. } => answer,
        }
    }

    /// Takes note of what an answer says; that of a provider that was changed since says nothing of
    /// the one that is there now.
    fn learn(
        &self,
        answer: &Answer,
        (service, env, trust): (Option<&InService>, IosEnv, AddressTrust),
        version: u64,
        now: Timestamp,
    ) -> Learned {
        let mut learned = Learned::default();
        if version != self.provider_version() {
            // An address that looks dead to credentials of before is asked about again: the guard
            // does not count it.
            let looks_dead = matches!(answer, Answer::TokenDead { ambiguous: true, .. });
            learned.death = looks_dead.then_some(Death::Doubted);
            return learned;
        }
        learned.death =
            self.count_death(matches!(answer, Answer::TokenDead { ambiguous: true, .. }), env);
        match answer {
            // The decision about it holds the gate.
            Answer::Config { .. } => {}
            Answer::ServiceRefused { reason } => match service {
                Some(service) if trust.is_verified() => {
                    learned.service_refusals = service.refused();
                }
                Some(service) => service.refused_unverified(reason, service.is_probe(), now),
                None => {}
            },
            Answer::Retry { outcome, reason, .. } => {
                self.failed(*outcome, reason, service.map(|service| &**service), now);
            }
            Answer::Delivered { .. } => {
                if let Some(service) = service {
                    service.delivered(now);
                }
                self.gate.answered();
            }
            Answer::TokenDead { .. }
            | Answer::Throttle { .. }
            | Answer::Moved { .. }
            | Answer::BadMessage { .. }
            | Answer::Policy { .. }
            | Answer::Unknown { .. } => {
                match service {
                    Some(service) if trust.is_verified() => service.answered(),
                    Some(service) if service.is_probe() => service.gate.reached(now),
                    Some(_) => {}
                    None => {}
                }
                self.gate.answered();
            }
        }
        learned
    }

    /// Counts an answer for the guard against disabling an audience by mistake.
    fn count_death(&self, looks_dead: bool, env: IosEnv) -> Option<Death> {
        let mut windows = self.purge.lock().expect("no holder of the windows panics");
        let window = &mut windows[usize::from(env == IosEnv::Sandbox)];
        if !looks_dead {
            window.answered();
            return None;
        }
        let death = window.died();
        let stopped = window.is_stopped();
        drop(windows);
        if stopped {
            self.stop_sending();
        }
        Some(death)
    }

    /// The application's id for the log; its number, which nothing else shows, where it never had a
    /// provider.
    pub(super) fn app_name(&self) -> String {
        self.app_id.get().map_or_else(|| format!("number {}", self.app.0), ToString::to_string)
    }

    /// Stops the lane until an administrator releases it (B40).
    pub(crate) fn stop_sending(&self) {
        for window in &mut *self.purge.lock().expect("no holder of the windows panics") {
            window.stop();
        }
        if self.gate.stop() {
            tracing::error!(
                app.id = %self.app_name(),
                platform = %self.platform,
                "so many addresses look dead at once that credentials, topic or host may be wrong; \
                 nothing is disabled or sent before `notify providers resume` or another configuration"
            );
        }
    }

    fn failed(
        &self,
        outcome: Certainty,
        reason: &Reason,
        service: Option<&Service>,
        now: Timestamp,
    ) {
        if outcome == Certainty::Unknown
            && let Some(service) = service
        {
            service.timed_out();
        }
        let gate = service.map_or(&self.gate, |service| &service.gate);
        if gate.failed(outcome, now) {
            tracing::warn!(
                app.id = %self.app_name(),
                platform = %self.platform,
                %reason,
                ?outcome,
                "the provider fails; deliveries wait and are tried again"
            );
        }
    }

    /// Pauses what asks to slow down.
    pub(crate) fn pause(
        &self,
        until: Timestamp,
        scope: Scope,
        service: Option<&Service>,
        version: u64,
    ) {
        if version != self.provider_version() {
            return;
        }
        match (scope, service) {
            (Scope::Service, Some(service)) => service.gate.pause(until),
            (Scope::Service | Scope::Provider | Scope::Address, _) => self.gate.pause(until),
        }
    }

    /// Doubts or holds what refuses our credentials (B40). The first refusal may be about that
    /// address alone: its delivery is tried again like any other, and the next one tells.
    fn doubted(
        &self,
        next: Next,
        past: &Attempted,
        service: Option<&Service>,
        version: u64,
    ) -> Next {
        let Next::Hold { reason, scope } = next else { return next };
        if self.refused(&reason, (scope, service), version, past.now) {
            return Next::Hold { reason, scope };
        }
        decide(Answer::Unknown { reason }, past, &self.shared.config.retry)
    }

    /// Whether deliveries wait after a refusal.
    fn refused(
        &self,
        reason: &Reason,
        (scope, service): (Scope, Option<&Service>),
        version: u64,
        now: Timestamp,
    ) -> bool {
        // Locked until the gate is held: a change in between would be held for its predecessor.
        let known = self.known();
        if version != known.version {
            return true;
        }
        let refusal = match (scope, service) {
            // It comes in numbers already.
            (Scope::Service, Some(service)) => service.gate.hold(reason, now),
            (Scope::Service | Scope::Provider | Scope::Address, _) => {
                self.gate.refused(reason, now)
            }
        };
        if refusal == (Refusal::Held { news: true }) {
            tracing::warn!(
                app.id = %self.app_name(),
                platform = %self.platform,
                %reason,
                "our credentials are refused; deliveries are held"
            );
        }
        refusal != Refusal::Doubted
    }
}

// The guard against disabling an audience by mistake, as far as one process sees it: it stops
// sending at once, while the store decides what is disabled (B40).

/// The latest answers of one provider and host.
#[derive(Debug, Default)]
pub(super) struct PurgeWindow {
    answers: u64,
    /// The answer up to which the store counted.
    reported: u64,
    /// Numbers of the latest answers that said dead where a wrong key or host would too.
    latest: VecDeque<u64>,
    stopped: bool,
}

/// What an address that looks dead comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Death {
    /// It is reported, with the number of answers since the last such report.
    Reported(u32),
    /// It is one of too many: the delivery waits.
    Doubted,
}

impl PurgeWindow {
    /// An answer that says nothing of the kind.
    pub(super) fn answered(&mut self) {
        self.answers += 1;
    }

    /// An address looks dead. Too many of them stop the sending from here on; the one that is too
    /// many is reported, so that the store stops as well.
    pub(super) fn died(&mut self) -> Death {
        if self.stopped {
            return Death::Doubted;
        }
        self.answers += 1;
        let before = u32::try_from(self.answers - self.reported - 1).unwrap_or(u32::MAX);
        self.reported = self.answers;
        let answers = self.answers;
        self.latest.retain(|answer| answers - answer < u64::from(GUARD_ANSWERS));
        self.latest.push_back(answers);
        self.stopped = self.latest.len() > GUARD_DEAD_MAX;
        Death::Reported(before)
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped
    }

    pub(super) fn stop(&mut self) {
        self.stopped = true;
    }
}

// Which addresses were told to slow down. A provider that says so to all is left alone for a
// while; an address that is told so while others get through is alone with it.

/// Most addresses that are remembered; beyond it all are forgotten, and told once more.
const TOLD_MAX: usize = 1_000;

/// Addresses of one lane that were told to slow down.
#[derive(Debug, Default)]
pub(super) struct Throttled(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    told: HashSet<DeviceKey>,
    last: Option<DeviceKey>,
    /// Whether somebody got through since one was told.
    others_go: bool,
}

impl Throttled {
    /// A delivery got through to the provider, whatever came of it.
    pub(super) fn passed(&self, key: DeviceKey) {
        let mut state = self.0.lock().expect("nothing panics under this lock");
        state.others_go = true;
        state.told.remove(&key);
    }

    /// An address is told to slow down. Answers whether that is about it alone: it was told before,
    /// and others got through meanwhile, or it was the last one that was told.
    pub(super) fn is_alone(&self, key: DeviceKey) -> bool {
        let mut state = self.0.lock().expect("nothing panics under this lock");
        let was_last = state.last.replace(key) == Some(key);
        if state.told.len() >= TOLD_MAX {
            state.told.clear();
        }
        let was_told = !state.told.insert(key);
        let is_alone = was_told && (state.others_go || was_last);
        if !is_alone {
            state.others_go = false;
        }
        is_alone
    }
}

#[cfg(test)]
mod purge_tests {
    use super::*;

    #[test]
    fn one_in_a_hundred_is_no_mistake() {
        let mut window = PurgeWindow::default();
        for _ in 0..1_000 {
            (0..99).for_each(|_| window.answered());
            assert_eq!(window.died(), Death::Reported(99));
        }
        assert!(!window.is_stopped());
    }

    #[test]
    fn more_than_twenty_in_a_thousand_are() {
        let mut window = PurgeWindow::default();
        for nth in 0..GUARD_DEAD_MAX {
            assert_eq!(window.died(), Death::Reported(0), "{nth}");
        }
        assert!(!window.is_stopped());
        assert_eq!(window.died(), Death::Reported(0), "the store hears of the one too many");
        assert!(window.is_stopped());
        assert_eq!(window.died(), Death::Doubted);
    }
}

#[cfg(test)]
mod throttled_tests {
    use super::*;

    /// What addresses are told in turn, and whether it is about them alone; a `0` gets through.
    #[test]
    fn who_is_told_again_while_others_get_through_is_alone() {
        for (name, turns) in [
            ("one among many", &[(1, false), (0, false), (1, true), (0, false), (1, true)][..]),
            ("one at the head of the line", &[(1, false), (1, true), (2, false), (2, true)]),
            ("everybody", &[(1, false), (2, false), (1, false), (2, false), (3, false)]),
            ("everybody, and then nobody", &[(1, false), (2, false), (0, false), (3, false)]),
        ] {
            let throttled = Throttled::default();
            for (nth, (key, is_alone)) in turns.iter().enumerate() {
                match key {
                    0 => throttled.passed(DeviceKey(99)),
                    _ => assert_eq!(throttled.is_alone(DeviceKey(*key)), *is_alone, "{name} {nth}"),
                }
            }
        }
    }

    #[test]
    fn who_gets_through_is_like_any_other() {
        let throttled = Throttled::default();
        assert!(!throttled.is_alone(DeviceKey(1)));
        throttled.passed(DeviceKey(1));
        throttled.passed(DeviceKey(2));
        assert!(!throttled.is_alone(DeviceKey(1)));
    }
}
