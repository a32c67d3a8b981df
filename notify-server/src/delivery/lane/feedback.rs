//! The effects of an answer on the lane: on the circuit breakers of the provider and of the
//! upstream behind the address, and on the guard against disabling an audience by mistake.

use std::collections::{HashSet, VecDeque};
use std::sync::Mutex;

use notify_core::{IosEnv, Platform, Timestamp};

use crate::delivery::breaker::AuthFailure;
use crate::delivery::decision::{AttemptContext, Decision, decide};
use crate::delivery::lane::Lane;
use crate::delivery::lane::upstreams::{Upstream, UpstreamGuard};
use crate::providers::{Processing, Reason, Scope, SendResult};
use crate::store::{AddressTrust, DeviceKey, GUARD_THRESHOLD, GUARD_WINDOW};

/// The effects of one answer besides the disposition of its delivery.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AnswerEffects {
    /// Consecutive times that the upstream rejected our credentials.
    pub(crate) service_refusals: u16,
    /// The verdict on an address that looks unregistered, where a wrong key or host would look the same.
    pub(crate) unregistered: Option<UnregisteredVerdict>,
}

impl AnswerEffects {
    /// Answers since the last address that looked unregistered, for the guard of the store.
    pub(crate) fn counted(self) -> Option<u32> {
        match self.unregistered? {
            UnregisteredVerdict::Count(answers_before) => Some(answers_before),
            UnregisteredVerdict::Suspect => None,
        }
    }
}

/// The request that an answer belongs to.
pub(crate) struct AnswerContext<'a> {
    pub(crate) key: DeviceKey,
    /// The upstream behind the address.
    pub(crate) service: Option<&'a UpstreamGuard>,
    pub(crate) env: IosEnv,
    /// What an answer for this address proves about our credentials.
    pub(crate) trust: AddressTrust,
    /// Version of the provider's configuration at the time of the request.
    pub(crate) version: u64,
}

impl AnswerContext<'_> {
    fn service(&self) -> Option<&Upstream> {
        self.service.map(|service| &**service)
    }
}

impl Lane {
    /// Records an answer and decides what happens to its delivery. `past` describes the delivery's
    /// earlier attempts; the rejections of the upstream are added to it.
    pub(crate) fn on_answer(
        &self,
        answer: SendResult,
        context: &AnswerContext<'_>,
        past: AttemptContext,
    ) -> (Decision, AnswerEffects) {
        let is_current = context.version == self.provider_version();
        let answer = self.narrow_throttle(answer, context);
        let answer = match context.service() {
            Some(service) if is_current => {
                self.attributed(answer, service, context.trust, past.now)
            }
            Some(_) | None => answer,
        };
        let effects = self.record_answer(&answer, context, past.now);
        let gets_through =
            |service: &Upstream| service.accepts_credentials(past.first_attempt_at, past.now);
        let past = AttemptContext {
            service_refusals: effects.service_refusals,
            is_address_at_fault: is_current
                && !context.trust.is_verified()
                && context.service().is_some_and(gets_through),
            ..past
        };
        let next = decide(answer, &past, &self.context.config.retry);
        (self.confirm_auth_failure(next, &past, context), effects)
    }

    /// An answer, limited to what its address proves. An address that anyone could have registered
    /// neither counts for the guard nor slows its upstream down for long.
    fn attributed(
        &self,
        answer: SendResult,
        service: &Upstream,
        trust: AddressTrust,
        now: Timestamp,
    ) -> SendResult {
        match (answer, trust) {
            (
                SendResult::Unregistered { reason, ambiguous: true, since },
                AddressTrust::Anonymous | AddressTrust::Unverified,
            ) if self.platform == Platform::Web => match trust {
                _ if service.accepts_unregistered() => {
                    SendResult::Unregistered { reason, ambiguous: false, since }
                }
                AddressTrust::Unverified => SendResult::ServiceRefused { reason },
                AddressTrust::Anonymous | AddressTrust::Verified => SendResult::Unknown { reason },
            },
            (
                SendResult::Throttle { reason, after, scope: Scope::Service },
                AddressTrust::Anonymous | AddressTrust::Unverified,
            ) => {
                if !service.is_healthy(now) && !service.breaker.is_held(now) {
                    let policy = &self.context.config.retry;
                    let wait_ms = after.map_or(policy.throttle_ms, |after| {
                        i64::try_from(after.as_millis()).unwrap_or(i64::MAX)
                    });
                    service.breaker.throttle(now.plus_ms(wait_ms.min(policy.throttle_ms)));
                }
                SendResult::Throttle { reason, after, scope: Scope::Address }
            }
            (answer, _) => answer,
        }
    }

    /// Limits a throttle to one address if that address was throttled before while others got
    /// through, whatever scope the answer names.
    fn narrow_throttle(&self, answer: SendResult, context: &AnswerContext<'_>) -> SendResult {
        if context.version != self.provider_version() {
            return answer;
        }
        match answer {
            SendResult::Throttle { reason, after, scope: Scope::Provider | Scope::Service }
                if self.throttle_scope.is_device_specific(context.key) =>
            {
                SendResult::Throttle { reason, after, scope: Scope::Address }
            }
            SendResult::Delivered { .. }
            | SendResult::Unregistered { .. }
            | SendResult::AddressChanged { .. }
            | SendResult::InvalidMessage { .. }
            | SendResult::NotPermitted { .. } => {
                self.throttle_scope.record_success(context.key);
                answer
            }
            SendResult::Throttle { .. }
            | SendResult::Retry { .. }
            | SendResult::AuthRejected { .. }
            | SendResult::ServiceRefused { .. }
            | SendResult::Unknown { .. } => answer,
        }
    }

    /// Updates circuit breakers and guard. An answer to a request with an earlier configuration is no
    /// evidence about the current one.
    fn record_answer(
        &self,
        answer: &SendResult,
        context: &AnswerContext<'_>,
        now: Timestamp,
    ) -> AnswerEffects {
        let AnswerContext { service, env, trust, .. } = *context;
        let looks_unregistered = matches!(answer, SendResult::Unregistered { ambiguous: true, .. });
        let mut effects = AnswerEffects::default();
        if context.version != self.provider_version() {
            // An address that looked unregistered to earlier credentials is retried; the guard does
            // not count it.
            effects.unregistered = looks_unregistered.then_some(UnregisteredVerdict::Suspect);
            return effects;
        }
        effects.unregistered = self.record_unregistered(looks_unregistered, env);
        match answer {
            // `confirm_auth_failure` holds the lane.
            SendResult::AuthRejected { .. } => {}
            SendResult::ServiceRefused { reason } => match service {
                Some(service) if trust.is_verified() => {
                    effects.service_refusals = service.record_refusal();
                }
                Some(service) => service.record_unverified_refusal(reason, service.is_probe(), now),
                None => {}
            },
            SendResult::Retry { outcome, reason, .. } => {
                self.on_failure(*outcome, reason, context.service(), now);
            }
            SendResult::Delivered { .. } => {
                if let Some(service) = service {
                    service.record_delivery(now);
                }
                self.breaker.on_success();
            }
            SendResult::Unregistered { .. }
            | SendResult::Throttle { .. }
            | SendResult::AddressChanged { .. }
            | SendResult::InvalidMessage { .. }
            | SendResult::NotPermitted { .. }
            | SendResult::Unknown { .. } => {
                match service {
                    Some(service) if trust.is_verified() => service.record_answer(),
                    Some(service) if service.is_probe() => service.breaker.on_reachable(now),
                    Some(_) | None => {}
                }
                self.breaker.on_success();
            }
        }
        effects
    }

    /// Counts an answer for the guard.
    fn record_unregistered(
        &self,
        looks_unregistered: bool,
        env: IosEnv,
    ) -> Option<UnregisteredVerdict> {
        let mut guards = self.unregister_guards.lock().expect("no holder of the guards panics");
        let guard = &mut guards[usize::from(env == IosEnv::Sandbox)];
        if !looks_unregistered {
            guard.record_other();
            return None;
        }
        let verdict = guard.record_unregistered();
        let is_tripped = guard.is_tripped();
        drop(guards);
        if is_tripped {
            self.trip_guard();
        }
        Some(verdict)
    }

    /// The application's id for the log; its row number if it never had a provider.
    pub(crate) fn app_name(&self) -> String {
        self.app_id.get().map_or_else(|| format!("number {}", self.app.0), ToString::to_string)
    }

    /// Stops the lane until an administrator releases it.
    pub(crate) fn trip_guard(&self) {
        for guard in &mut *self.unregister_guards.lock().expect("no holder of the guards panics") {
            guard.trip();
        }
        if self.breaker.trip() {
            tracing::error!(
                app.id = %self.app_name(),
                platform = %self.platform,
                "so many addresses look dead at once that credentials, topic or host may be wrong; \
                 nothing is disabled or sent before `notify providers resume` or another configuration"
            );
        }
    }

    fn on_failure(
        &self,
        certainty: Processing,
        reason: &Reason,
        service: Option<&Upstream>,
        now: Timestamp,
    ) {
        if certainty == Processing::Unknown
            && let Some(service) = service
        {
            service.record_timeout();
        }
        let breaker = service.map_or(&self.breaker, |service| &service.breaker);
        if breaker.on_failure(certainty, now) {
            tracing::warn!(
                app.id = %self.app_name(),
                platform = %self.platform,
                %reason,
                outcome = ?certainty,
                "the provider fails; deliveries wait and are tried again"
            );
        }
    }

    /// Throttles the provider, or the upstream that asked for it.
    pub(crate) fn throttle(
        &self,
        until: Timestamp,
        scope: Scope,
        service: Option<&Upstream>,
        version: u64,
    ) {
        if version != self.provider_version() {
            return;
        }
        match (scope, service) {
            (Scope::Service, Some(service)) => service.breaker.throttle(until),
            (Scope::Service | Scope::Provider | Scope::Address, _) => self.breaker.throttle(until),
        }
    }

    /// Holds the lane or upstream only once a rejection of our credentials is confirmed. The first
    /// one may concern that address alone: its delivery is retried like any other, and the next
    /// attempt is the probe.
    fn confirm_auth_failure(
        &self,
        next: Decision,
        past: &AttemptContext,
        context: &AnswerContext<'_>,
    ) -> Decision {
        let Decision::Hold { reason, scope } = next else { return next };
        if self.on_auth_failure(&reason, scope, context, past.now) {
            return Decision::Hold { reason, scope };
        }
        decide(SendResult::Unknown { reason }, past, &self.context.config.retry)
    }

    /// Returns whether deliveries are held after this rejection.
    fn on_auth_failure(
        &self,
        reason: &Reason,
        scope: Scope,
        context: &AnswerContext<'_>,
        now: Timestamp,
    ) -> bool {
        // Locked until the breaker is updated: otherwise a new configuration could be held for the
        // answer to its predecessor.
        let known = self.provider_slot();
        if context.version != known.version {
            return true;
        }
        let failure = match (scope, context.service()) {
            // The decision counted several rejections already.
            (Scope::Service, Some(service)) => service.breaker.reject_credentials(reason, now),
            (Scope::Service | Scope::Provider | Scope::Address, _) => {
                self.breaker.on_auth_failure(reason, now)
            }
        };
        if failure == (AuthFailure::Confirmed { is_first: true }) {
            tracing::warn!(
                app.id = %self.app_name(),
                platform = %self.platform,
                %reason,
                "our credentials are refused; deliveries are held"
            );
        }
        failure != AuthFailure::Suspected
    }
}

/// The guard against disabling an audience by mistake, in one process: it stops sending at once, while
/// the guard of the store decides what is disabled. Counts the latest answers of one provider and host.
#[derive(Debug, Default)]
pub(super) struct MassUnregisterGuard {
    answers: u64,
    /// The answer up to which the store counted.
    reported: u64,
    /// Numbers of the latest answers that looked unregistered where a wrong key or host would too.
    latest: VecDeque<u64>,
    is_tripped: bool,
}

/// The guard's verdict on an address that looks unregistered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnregisteredVerdict {
    /// The store counts it, with this number of answers since the last one it counted.
    Count(u32),
    /// There are too many: the delivery waits.
    Suspect,
}

impl MassUnregisterGuard {
    /// An answer that does not look unregistered.
    pub(super) fn record_other(&mut self) {
        self.answers += 1;
    }

    /// An address looks unregistered. Too many of them trip the guard; the one that trips it is still
    /// counted, so that the guard of the store trips as well.
    pub(super) fn record_unregistered(&mut self) -> UnregisteredVerdict {
        if self.is_tripped {
            return UnregisteredVerdict::Suspect;
        }
        self.answers += 1;
        let before = u32::try_from(self.answers - self.reported - 1).unwrap_or(u32::MAX);
        self.reported = self.answers;
        let answers = self.answers;
        self.latest.retain(|answer| answers - answer < u64::from(GUARD_WINDOW));
        self.latest.push_back(answers);
        self.is_tripped = self.latest.len() > GUARD_THRESHOLD;
        UnregisteredVerdict::Count(before)
    }

    pub(super) fn is_tripped(&self) -> bool {
        self.is_tripped
    }

    pub(super) fn trip(&mut self) {
        self.is_tripped = true;
    }
}

/// Most throttled addresses that are remembered; beyond it all are forgotten.
const THROTTLED_MAX: usize = 1_000;

/// Distinguishes a throttled address from a throttled provider: an address that is throttled again
/// while others get through is the only one concerned.
#[derive(Debug, Default)]
pub(super) struct ThrottleScope(Mutex<ThrottledAddresses>);

#[derive(Debug, Default)]
struct ThrottledAddresses {
    throttled: HashSet<DeviceKey>,
    last: Option<DeviceKey>,
    /// Whether another address got through since one was throttled.
    others_succeeded: bool,
}

impl ThrottleScope {
    /// A delivery reached the provider and was not throttled.
    pub(super) fn record_success(&self, key: DeviceKey) {
        let mut state = self.0.lock().expect("nothing panics under this lock");
        state.others_succeeded = true;
        state.throttled.remove(&key);
    }

    /// An address was throttled. Returns whether it is the only one concerned: it was throttled before,
    /// and either others got through since or it was the last one throttled.
    pub(super) fn is_device_specific(&self, key: DeviceKey) -> bool {
        let mut state = self.0.lock().expect("nothing panics under this lock");
        let was_last = state.last.replace(key) == Some(key);
        if state.throttled.len() >= THROTTLED_MAX {
            state.throttled.clear();
        }
        let was_throttled = !state.throttled.insert(key);
        let is_device_specific = was_throttled && (state.others_succeeded || was_last);
        if !is_device_specific {
            state.others_succeeded = false;
        }
        is_device_specific
    }
}

#[cfg(test)]
mod guard_tests {
    use super::*;

    #[test]
    fn one_unregistered_in_a_hundred_does_not_trip() {
        let mut guard = MassUnregisterGuard::default();
        for _ in 0..1_000 {
            (0..99).for_each(|_| guard.record_other());
            assert_eq!(guard.record_unregistered(), UnregisteredVerdict::Count(99));
        }
        assert!(!guard.is_tripped());
    }

    #[test]
    fn more_than_twenty_unregistered_in_a_thousand_trip() {
        let mut guard = MassUnregisterGuard::default();
        for nth in 0..GUARD_THRESHOLD {
            assert_eq!(guard.record_unregistered(), UnregisteredVerdict::Count(0), "{nth}");
        }
        assert!(!guard.is_tripped());
        let verdict = guard.record_unregistered();
        assert_eq!(verdict, UnregisteredVerdict::Count(0), "the store counts the one that trips");
        assert!(guard.is_tripped());
        assert_eq!(guard.record_unregistered(), UnregisteredVerdict::Suspect);
    }
}

#[cfg(test)]
mod throttle_tests {
    use super::*;

    /// Addresses that are throttled in turn, and whether the throttle is device-specific; address 0
    /// stands for a success.
    #[test]
    fn an_address_throttled_again_while_others_succeed_is_device_specific() {
        for (name, turns) in [
            ("one of many", &[(1, false), (0, false), (1, true), (0, false), (1, true)][..]),
            ("the head of the queue", &[(1, false), (1, true), (2, false), (2, true)]),
            ("all", &[(1, false), (2, false), (1, false), (2, false), (3, false)]),
            ("first all, then none", &[(1, false), (2, false), (0, false), (3, false)]),
        ] {
            let scope = ThrottleScope::default();
            for (nth, (key, expected)) in turns.iter().enumerate() {
                match key {
                    0 => scope.record_success(DeviceKey(99)),
                    _ => assert_eq!(
                        scope.is_device_specific(DeviceKey(*key)),
                        *expected,
                        "{name} {nth}"
                    ),
                }
            }
        }
    }

    #[test]
    fn a_success_forgets_the_throttle_of_an_address() {
        let scope = ThrottleScope::default();
        assert!(!scope.is_device_specific(DeviceKey(1)));
        scope.record_success(DeviceKey(1));
        scope.record_success(DeviceKey(2));
        assert!(!scope.is_device_specific(DeviceKey(1)));
    }
}
