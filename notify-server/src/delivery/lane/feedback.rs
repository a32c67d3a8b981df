//! The effects of a provider's answer on the lane: on the circuit breaker of the provider, on the
//! circuit breaker of the upstream behind the address, and on the guard against disabling an audience
//! by mistake.

use std::collections::{HashSet, VecDeque};
use std::sync::Mutex;

use notify_core::{IosEnv, Platform, Timestamp};

use crate::delivery::breaker::AuthFailure;
use crate::delivery::decision::{AttemptContext, Decision, decide};
use crate::delivery::lane::Lane;
use crate::delivery::lane::upstreams::{Upstream, UpstreamGuard};
use crate::providers::{Processing, Reason, Scope, SendResult};
use crate::store::{AddressTrust, DeviceKey, GUARD_THRESHOLD, GUARD_WINDOW};

/// The effects of one answer, apart from what happens to its delivery.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AnswerEffects {
    /// Consecutive times that the upstream rejected our credentials.
    pub(crate) service_refusals: u16,
    /// The guard's verdict on an address that looks unregistered; `None` for any other answer. A wrong
    /// key or host would give the same answer, so the guard counts these.
    pub(crate) unregistered: Option<UnregisteredVerdict>,
}

impl AnswerEffects {
    /// The number of answers since the last address that looked unregistered, for the guard of the
    /// store; `None` if the store does not count this answer.
    pub(crate) fn answers_before(self) -> Option<u32> {
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
    pub(crate) upstream: Option<&'a UpstreamGuard>,
    pub(crate) env: IosEnv,
    /// What an answer for this address proves about our credentials.
    pub(crate) trust: AddressTrust,
    /// Version of the provider's configuration at the time of the request.
    pub(crate) version: u64,
}

impl AnswerContext<'_> {
    fn upstream(&self) -> Option<&Upstream> {
        self.upstream.map(|upstream| &**upstream)
    }
}

impl Lane {
    /// Records an answer and decides what happens to its delivery. `attempt` describes the delivery; this
    /// function sets the two fields of it that depend on the upstream.
    pub(crate) fn on_answer(
        &self,
        answer: SendResult,
        context: &AnswerContext<'_>,
        mut attempt: AttemptContext,
    ) -> (Decision, AnswerEffects) {
        let is_current = context.version == self.provider_version();
        let mut answer = self.narrow_throttle(answer, context);
        if let Some(upstream) = context.upstream()
            && is_current
        {
            answer = self.weaken_unverified_answer(answer, upstream, context.trust, attempt.now);
        }
        if is_current {
            answer = self.weaken_report_of_app(answer, context);
        }
        let effects = self.record_answer(&answer, context, attempt.now);
        let accepts_credentials = context.upstream().is_some_and(|upstream| {
            upstream.accepts_credentials(attempt.first_attempt_at, attempt.now)
        });
        attempt.service_refusals = effects.service_refusals;
        attempt.is_address_at_fault =
            is_current && !context.trust.is_verified() && accepts_credentials;
        let decision = decide(answer, &attempt, &self.context.config.retry);
        (self.confirm_auth_failure(decision, &attempt, context), effects)
    }

    /// Replaces an answer for an unverified address with a weaker one. Anyone can register such an
    /// address, at a push service of their own. Its answers must therefore neither count for the guard
    /// nor throttle the upstream for long.
    fn weaken_unverified_answer(
        &self,
        answer: SendResult,
        upstream: &Upstream,
        trust: AddressTrust,
        now: Timestamp,
    ) -> SendResult {
        match (answer, trust) {
            (
                SendResult::Unregistered { reason, ambiguous: true, since },
                AddressTrust::Anonymous | AddressTrust::Unverified,
            ) if self.platform == Platform::Web => {
                let is_believed = upstream.record_unregistered();
                if is_believed {
                    SendResult::Unregistered { reason, ambiguous: false, since }
                } else if trust == AddressTrust::Unverified {
                    SendResult::ServiceRefused { reason }
                } else {
                    SendResult::Unknown { reason }
                }
            }
            (
                SendResult::Throttle { reason, after, scope: Scope::Service },
                AddressTrust::Anonymous | AddressTrust::Unverified,
            ) => {
                if !upstream.is_healthy(now) && !upstream.breaker.is_held(now) {
                    let policy = &self.context.config.retry;
                    let wait_ms = after.map_or(policy.throttle_ms, |after| {
                        i64::try_from(after.as_millis()).unwrap_or(i64::MAX)
                    });
                    upstream.breaker.throttle(now.plus_ms(wait_ms.min(policy.throttle_ms)));
                }
                SendResult::Throttle { reason, after, scope: Scope::Address }
            }
            (answer, _) => answer,
        }
    }

    /// Replaces a report that a push token is dead with a weaker one, if an app registered the token with a
    /// publishable key and the token never accepted a message. Everyone can read the key in the app, and
    /// invent tokens. The reports must therefore not count for the guard, which stops the platform. But
    /// many of them in a row, without a delivered message, may be a fault of our configuration: then no
    /// more devices are disabled.
    fn weaken_report_of_app(&self, answer: SendResult, context: &AnswerContext<'_>) -> SendResult {
        match answer {
            SendResult::Unregistered { reason, ambiguous: true, since }
                if self.platform != Platform::Web && context.trust == AddressTrust::Unverified =>
            {
                let is_believed = match context.upstream() {
                    Some(upstream) => upstream.record_unregistered(),
                    None => self.unregistered_in_a_row.record(),
                };
                if is_believed {
                    SendResult::Unregistered { reason, ambiguous: false, since }
                } else {
                    SendResult::Unknown { reason }
                }
            }
            answer => answer,
        }
    }

    /// Records the answer for [`ThrottleClassifier`], and limits a throttle to one address if the address
    /// was throttled before while others succeeded. The scope that the provider gave is then ignored.
    fn narrow_throttle(&self, answer: SendResult, context: &AnswerContext<'_>) -> SendResult {
        if context.version != self.provider_version() {
            return answer;
        }
        match answer {
            SendResult::Throttle { reason, after, scope: Scope::Provider | Scope::Service }
                if self.throttle_classifier.record_throttle(context.key) =>
            {
                SendResult::Throttle { reason, after, scope: Scope::Address }
            }
            SendResult::Delivered { .. }
            | SendResult::Unregistered { .. }
            | SendResult::AddressChanged { .. }
            | SendResult::InvalidMessage { .. }
            | SendResult::NotPermitted { .. } => {
                self.throttle_classifier.record_success(context.key);
                answer
            }
            SendResult::Throttle { .. }
            | SendResult::Retry { .. }
            | SendResult::AuthRejected { .. }
            | SendResult::ServiceRefused { .. }
            | SendResult::Unknown { .. } => answer,
        }
    }

    /// Updates the circuit breakers and the guard. An answer to a request with an earlier configuration
    /// is ignored, because it is no evidence about the current configuration.
    fn record_answer(
        &self,
        answer: &SendResult,
        context: &AnswerContext<'_>,
        now: Timestamp,
    ) -> AnswerEffects {
        let AnswerContext { upstream, env, trust, .. } = *context;
        let looks_unregistered = matches!(answer, SendResult::Unregistered { ambiguous: true, .. });
        let mut effects = AnswerEffects::default();
        if context.version != self.provider_version() {
            // The address looked unregistered with earlier credentials. The guard does not count it,
            // and the delivery is attempted again with the current credentials.
            effects.unregistered = looks_unregistered.then_some(UnregisteredVerdict::Suspect);
            return effects;
        }
        effects.unregistered = self.record_for_guard(looks_unregistered, env);
        match answer {
            // `confirm_auth_failure` holds the lane after this function.
            SendResult::AuthRejected { .. } => {}
            SendResult::ServiceRefused { reason } => match upstream {
                Some(upstream) if trust.is_verified() => {
                    effects.service_refusals = upstream.record_refusal();
                }
                Some(upstream) => {
                    upstream.record_unverified_refusal(reason, upstream.is_probe(), now)
                }
                None => {}
            },
            SendResult::Retry { outcome, reason, .. } => {
                self.on_failure(*outcome, reason, context.upstream(), now);
            }
            SendResult::Delivered { .. } => {
                match upstream {
                    Some(upstream) => upstream.record_delivery(now),
                    None => self.unregistered_in_a_row.reset(),
                }
                self.breaker.on_success();
            }
            SendResult::Unregistered { .. }
            | SendResult::Throttle { .. }
            | SendResult::AddressChanged { .. }
            | SendResult::InvalidMessage { .. }
            | SendResult::NotPermitted { .. }
            | SendResult::Unknown { .. } => {
                match upstream {
                    Some(upstream) if trust.is_verified() => upstream.record_answer(),
                    Some(upstream) if upstream.is_probe() => upstream.breaker.on_reachable(now),
                    Some(_) | None => {}
                }
                self.breaker.on_success();
            }
        }
        effects
    }

    /// Counts an answer for the guard of its host. Returns the verdict if the address looks
    /// unregistered. Trips the lane if there are too many such addresses.
    fn record_for_guard(
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

    /// The text that identifies the application in the log: its id, or its row number if no provider of it
    /// was ever read.
    pub(crate) fn app_label(&self) -> String {
        self.app_id.get().map_or_else(|| format!("number {}", self.app.0), ToString::to_string)
    }

    /// Stops the lane until an administrator releases it.
    pub(crate) fn trip_guard(&self) {
        for guard in &mut *self.unregister_guards.lock().expect("no holder of the guards panics") {
            guard.trip();
        }
        if self.breaker.trip() {
            tracing::error!(
                app.id = %self.app_label(),
                platform = %self.platform,
                "so many addresses look dead at once that credentials, topic or host may be wrong; \
                 nothing is disabled or sent before `notify providers resume` or another configuration"
            );
        }
    }

    /// Records an attempt that failed without an answer about our credentials or the message.
    fn on_failure(
        &self,
        processing: Processing,
        reason: &Reason,
        upstream: Option<&Upstream>,
        now: Timestamp,
    ) {
        if processing == Processing::Unknown
            && let Some(upstream) = upstream
        {
            upstream.record_timeout();
        }
        let breaker = upstream.map_or(&self.breaker, |upstream| &upstream.breaker);
        if breaker.on_failure(processing, now) {
            tracing::warn!(
                app.id = %self.app_label(),
                platform = %self.platform,
                %reason,
                outcome = ?processing,
                "the provider fails; deliveries wait and are tried again"
            );
        }
    }

    /// Throttles the upstream for [`Scope::Service`], otherwise the provider. `version` is the version
    /// of the provider at the time of the request.
    pub(crate) fn throttle(
        &self,
        until: Timestamp,
        scope: Scope,
        upstream: Option<&Upstream>,
        version: u64,
    ) {
        if version != self.provider_version() {
            return;
        }
        match (scope, upstream) {
            (Scope::Service, Some(upstream)) => upstream.breaker.throttle(until),
            (Scope::Service | Scope::Provider | Scope::Address, _) => self.breaker.throttle(until),
        }
    }

    /// Requires two rejections of our credentials before the lane is held, because the first rejection may
    /// concern that address alone. After the first rejection, this function replaces
    /// [`Decision::Hold`]: the delivery is retried as after an unknown answer, and the next attempt is the
    /// probe. Other decisions are returned unchanged.
    fn confirm_auth_failure(
        &self,
        decision: Decision,
        attempt: &AttemptContext,
        context: &AnswerContext<'_>,
    ) -> Decision {
        let Decision::Hold { reason, scope } = decision else { return decision };
        if self.on_auth_failure(&reason, scope, context, attempt.now) {
            return Decision::Hold { reason, scope };
        }
        decide(SendResult::Unknown { reason }, attempt, &self.context.config.retry)
    }

    /// Records a rejection of our credentials. Returns true if the delivery is postponed until the lane
    /// sends again, and false if the rejection may concern this address alone: the delivery is then retried
    /// as after an unknown answer.
    fn on_auth_failure(
        &self,
        reason: &Reason,
        scope: Scope,
        context: &AnswerContext<'_>,
        now: Timestamp,
    ) -> bool {
        // The slot stays locked until the breaker is updated. Otherwise a new configuration could be
        // held because of an answer to the earlier configuration.
        let slot = self.provider_slot();
        // The rejected configuration is not used any more, so no breaker opens. The delivery is
        // postponed, and sent with the current configuration.
        if context.version != slot.version {
            return true;
        }
        let failure = match (scope, context.upstream()) {
            // `decide` returns this scope only after several rejections, so no confirmation is needed.
            (Scope::Service, Some(upstream)) => upstream.breaker.reject_credentials(reason, now),
            (Scope::Service | Scope::Provider | Scope::Address, _) => {
                self.breaker.on_auth_failure(reason, now)
            }
        };
        if failure == (AuthFailure::Confirmed { is_first: true }) {
            tracing::warn!(
                app.id = %self.app_label(),
                platform = %self.platform,
                %reason,
                "our credentials are refused; deliveries are held"
            );
        }
        failure != AuthFailure::Suspected
    }
}

/// The guard of this process against disabling an audience by mistake. It counts the latest answers of
/// one provider and host, and stops the sending at once when too many addresses look unregistered. The
/// guard of the store decides which devices are disabled.
#[derive(Debug, Default)]
pub(super) struct MassUnregisterGuard {
    /// The number of answers so far, which is also the number of the latest answer.
    answers: u64,
    /// The number of the last answer that was reported to the store.
    reported: u64,
    /// The numbers of the latest answers that looked unregistered.
    latest: VecDeque<u64>,
    is_tripped: bool,
}

/// The guard's verdict on an address that looks unregistered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnregisteredVerdict {
    /// The store counts the address. The field is the number of answers since the last address that the
    /// store counted.
    Count(u32),
    /// Too many addresses look unregistered, so the delivery waits.
    Suspect,
}

impl MassUnregisterGuard {
    /// Counts an answer for an address that does not look unregistered.
    pub(super) fn record_other(&mut self) {
        self.answers += 1;
    }

    /// Counts an answer for an address that looks unregistered. Too many such answers trip the guard.
    /// The answer that trips it is still reported, so that the guard of the store trips as well.
    pub(super) fn record_unregistered(&mut self) -> UnregisteredVerdict {
        if self.is_tripped {
            return UnregisteredVerdict::Suspect;
        }
        self.answers += 1;
        let this_answer = self.answers;
        let answers_between = u32::try_from(this_answer - self.reported - 1).unwrap_or(u32::MAX);
        self.reported = this_answer;
        self.latest.retain(|answer| this_answer - answer < u64::from(GUARD_WINDOW));
        self.latest.push_back(this_answer);
        self.is_tripped = self.latest.len() > GUARD_THRESHOLD;
        UnregisteredVerdict::Count(answers_between)
    }

    pub(super) fn is_tripped(&self) -> bool {
        self.is_tripped
    }

    pub(super) fn trip(&mut self) {
        self.is_tripped = true;
    }
}

/// Most throttled addresses that are remembered. When the limit is reached, all are forgotten.
const THROTTLED_MAX: usize = 1_000;

/// Distinguishes a throttled address from a throttled provider. If an address is throttled again while
/// messages to other addresses succeed, the throttle concerns that address alone.
#[derive(Debug, Default)]
pub(super) struct ThrottleClassifier(Mutex<ThrottledAddresses>);

#[derive(Debug, Default)]
struct ThrottledAddresses {
    throttled: HashSet<DeviceKey>,
    last: Option<DeviceKey>,
    /// Whether a message to another address succeeded since the last throttle of the whole provider.
    others_succeeded: bool,
}

impl ThrottleClassifier {
    /// Records a delivery that reached the provider and was not throttled.
    pub(super) fn record_success(&self, key: DeviceKey) {
        let mut state = self.0.lock().expect("nothing panics under this lock");
        state.others_succeeded = true;
        state.throttled.remove(&key);
    }

    /// Records that an address was throttled. Returns whether the throttle concerns this address alone:
    /// the address was throttled before, and either others succeeded since then or no other address was
    /// throttled in between.
    pub(super) fn record_throttle(&self, key: DeviceKey) -> bool {
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

    /// Each row lists the addresses that are throttled in turn, and whether the throttle is
    /// device-specific. Address 0 means a success at another address.
    #[test]
    fn an_address_throttled_again_while_others_succeed_is_device_specific() {
        for (name, turns) in [
            (
                "one address among many",
                &[(1, false), (0, false), (1, true), (0, false), (1, true)][..],
            ),
            ("one address twice in a row", &[(1, false), (1, true), (2, false), (2, true)]),
            ("all addresses", &[(1, false), (2, false), (1, false), (2, false), (3, false)]),
            ("a new address after a success", &[(1, false), (2, false), (0, false), (3, false)]),
        ] {
            let scope = ThrottleClassifier::default();
            for (nth, (key, expected)) in turns.iter().enumerate() {
                match key {
                    0 => scope.record_success(DeviceKey(99)),
                    _ => assert_eq!(
                        scope.record_throttle(DeviceKey(*key)),
                        *expected,
                        "{name} {nth}"
                    ),
                }
            }
        }
    }

    #[test]
    fn a_success_forgets_the_throttle_of_an_address() {
        let scope = ThrottleClassifier::default();
        assert!(!scope.record_throttle(DeviceKey(1)));
        scope.record_success(DeviceKey(1));
        scope.record_success(DeviceKey(2));
        assert!(!scope.record_throttle(DeviceKey(1)));
    }
}
