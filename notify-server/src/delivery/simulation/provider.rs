//! The simulated push services, as the engine sees them.

use std::collections::BTreeMap;
use std::sync::Mutex;

use http::HeaderMap;
use notify_core::{DeviceId, IosEnv, NotificationId, Platform, ProviderKind};

use super::defects::Defect;
use super::world::{Attempt, SharedWorld, lock};
use crate::delivery::{Configured, ProviderSource};
use crate::payload::{RenderContext, TooLarge};
use crate::providers::{Address, Provider, RenderedBody, RenderedMessage, SendResult};
use crate::store::{AppNo, DeliveryProgress, Outcome, SharedStore, StoreError};

/// The stored providers. The configuration of each is a rate; 0 means no limit.
pub(super) struct SimulatedSource {
    pub(super) store: SharedStore,
    pub(super) world: SharedWorld,
}

#[async_trait::async_trait]
impl ProviderSource for SimulatedSource {
    async fn provider(
        &self,
        app: AppNo,
        kind: ProviderKind,
    ) -> Result<Option<Configured>, StoreError> {
        let row = match self.store.provider(app, kind).await {
            Ok(Some((_, row))) => row,
            Ok(None) | Err(StoreError::NotFound) => return Ok(None),
            Err(error) => return Err(error),
        };
        let platform = Platform::ALL.into_iter().find(|platform| platform.provider() == kind);
        let provider = SimulatedProvider {
            store: self.store.clone(),
            app,
            platform: platform.expect("every provider has a platform"),
            world: self.world.clone(),
            first_tokens: Mutex::default(),
        };
        let rate = row.sealed.first().copied().map(u32::from).filter(|rate| *rate > 0);
        Ok(Some(Configured {
            app: notify_core::AppId(uuid::Uuid::nil()),
            provider: std::sync::Arc::new(provider),
            rate_per_second: rate,
        }))
    }
}

/// One push service, for one application.
struct SimulatedProvider {
    store: SharedStore,
    app: AppNo,
    platform: Platform,
    world: SharedWorld,
    /// The first address of each notification, which a defect uses again.
    first_tokens: Mutex<BTreeMap<String, String>>,
}

#[async_trait::async_trait]
impl Provider for SimulatedProvider {
    fn render(&self, context: &RenderContext<'_>) -> Result<RenderedMessage, TooLarge> {
        let body = RenderedBody::Shared(bytes::Bytes::from(context.id.as_str().to_owned()));
        Ok(RenderedMessage { headers: HeaderMap::new(), body })
    }

    async fn check(&self) -> crate::providers::CredentialCheck {
        crate::providers::CredentialCheck::passed("simulated")
    }

    async fn attempt(&self, prepared: &RenderedMessage, to: &Address) -> SendResult {
        let RenderedBody::Shared(id) = &prepared.body else {
            panic!("every message is rendered as its id")
        };
        let id = String::from_utf8(id.to_vec()).expect("an id is text");
        let (token, env) = match to {
            Address::Apns { token, env } => (token.to_string(), *env),
            Address::Fcm { token }
            | Address::Messenger { recipient: token, .. }
            | Address::Telegram { chat: token } => (token.to_string(), IosEnv::default()),
            Address::WebPush(subscription) => (subscription.endpoint.clone(), IosEnv::default()),
        };
        let mut attempt = Attempt { app: self.app, platform: self.platform, id, token, env };
        let defect = lock(&self.world).defect;
        match defect {
            Some(Defect::OldAddress) => {
                let mut first = self.first_tokens.lock().expect("no holder panics");
                let first = first.entry(attempt.id.clone());
                attempt.token = first.or_insert_with(|| attempt.token.clone()).clone();
            }
            Some(Defect::SentTwice) => drop(self.send(attempt.clone()).await),
            Some(_) | None => {}
        }
        let answer = self.send(attempt).await;
        match (defect, &answer) {
            (Some(Defect::AnswerLost), SendResult::Retry { .. }) => std::future::pending().await,
            (Some(Defect::FailureRecordedAsSent), SendResult::InvalidMessage { .. }) => {
                SendResult::Delivered { message_id: None }
            }
            _ => answer,
        }
    }

    fn max_concurrency(&self) -> usize {
        lock(&self.world).services[&(self.app, self.platform.provider())].slots
    }
}

impl SimulatedProvider {
    /// The rest of an audience gets nothing before its canary is judged. `names` are the devices for which
    /// the attempt may be made.
    fn check_canary(&self, attempt: &Attempt, names: &[String]) {
        let world = lock(&self.world);
        let Some(notification) = world.notifications.get(&attempt.id) else { return };
        if !notification.has_canary || names.is_empty() {
            return;
        }
        let id = notification.id.clone();
        drop(world);
        let may_be_sent = names.iter().any(|name| {
            let device = DeviceId::new(name).expect("names are ids");
            let facts = self.store.peek(self.store.delivery_facts(self.app, id.clone(), device));
            // A device that was just erased has no facts.
            facts
                .ok()
                .and_then(|facts| facts.canary)
                .is_none_or(|canary| canary.has_device || canary.is_judged)
        });
        if !may_be_sent {
            let what = format!("{} is sent to {} before its canary", attempt.id, attempt.token);
            lock(&self.world).record_violation(&what);
        }
    }

    /// A device that got a notification gets no earlier one with the same `collapse_key`. `names` are the
    /// devices for which the attempt may be made.
    fn check_overtaken(&self, attempt: &Attempt, names: &[String]) {
        let overtaking = lock(&self.world).overtaking(attempt);
        let was_sent = |id: &NotificationId, name: &String| {
            let device = DeviceId::new(name).expect("names are ids");
            let facts = self.store.peek(self.store.delivery_facts(self.app, id.clone(), device));
            // A device that was just erased has no facts.
            facts.is_ok_and(|facts| {
                matches!(facts.progress, DeliveryProgress::Settled { outcome: Outcome::Sent, .. })
            })
        };
        for id in overtaking {
            if !names.is_empty() && names.iter().all(|name| was_sent(&id, name)) {
                let Attempt { id: late, token, .. } = attempt;
                let what = format!("{late} is sent to {token} after {}", id.as_str());
                lock(&self.world).record_violation(&what);
            }
        }
    }

    async fn send(&self, attempt: Attempt) -> SendResult {
        let (planned, names) = lock(&self.world).start_attempt(&attempt);
        self.check_canary(&attempt, &names);
        self.check_overtaken(&attempt, &names);
        let mut in_flight =
            InFlightAttempt { world: self.world.clone(), attempt, is_finished: false };
        tokio::time::sleep(planned.after).await;
        in_flight.is_finished = true;
        lock(&self.world).record_answer(&in_flight.attempt, &names, &planned.answer);
        planned.answer
    }
}

/// An attempt in flight.
struct InFlightAttempt {
    world: SharedWorld,
    attempt: Attempt,
    is_finished: bool,
}

impl Drop for InFlightAttempt {
    /// An attempt was dropped: the engine abandoned it, or the process is dead.
    fn drop(&mut self) {
        let mut world = lock(&self.world);
        if !self.is_finished && !world.is_dead {
            world.end_attempt(&self.attempt);
            let Attempt { id, token, .. } = &self.attempt;
            world.record_event(&format!("the attempt to send {id} to {token} is dropped"));
        }
    }
}
