//! Web Push (RFC 8030): whatever push service a browser chose, each message encrypted for it
//! (RFC 8291) and signed with the application's VAPID key (RFC 8292), one request a device, 3,993
//! bytes of JSON. Permanent are 404 and 410. Endpoints come from users: every connection passes
//! [`Outbound`](crate::outbound::Outbound), and no redirect is followed.

mod classify;
mod encrypt;
mod services;
#[cfg(test)]
mod tests;
mod vapid;

pub(super) use services::Services;
pub(super) use vapid::VapidTokens;

use std::sync::Arc;

use http::header::{AUTHORIZATION, HeaderValue};

use self::classify::{classify, refuses_token};
use self::encrypt::{Receiver, encrypt};
use self::vapid::{Signed, Signer};
use super::{Address, Answer, Checked, Prepared, PreparedBody, Provider, Reason, deadline};
use crate::clock::SharedClock;
use crate::payload::{Outgoing, TooLarge, web_push as payload};
use crate::provider_config::WebPushConfig;
use crate::reasons;

/// Web Push for one application.
pub(super) struct WebPush {
    clock: SharedClock,
    config: WebPushConfig,
    signer: Signer,
    services: Services,
    tokens: VapidTokens,
}

impl WebPush {
    pub(super) fn new(
        config: &WebPushConfig,
        clock: SharedClock,
        services: &Services,
        tokens: &VapidTokens,
    ) -> Self {
        let (services, tokens) = (services.clone(), tokens.clone());
        Self { clock, config: config.clone(), signer: Signer::of(config), services, tokens }
    }

    fn token(&self, origin: &str, refused: Option<&Signed>) -> Result<Arc<Signed>, Answer> {
        self.tokens
            .get(&self.signer, origin, refused, self.clock.wall())
            .ok_or(Answer::Config { reason: reasons::SIGNING_FAILED.into() })
    }
}

#[async_trait::async_trait]
impl Provider for WebPush {
    fn prepare(&self, message: &Outgoing<'_>) -> Result<Prepared, TooLarge> {
        let payload = payload::render(message)?;
        let mut headers = payload.headers;
        // Holds the place, so that a copy of the map need not grow for each device.
        headers.insert(AUTHORIZATION, HeaderValue::from_static(""));
        Ok(Prepared { headers, body: PreparedBody::Whole(payload.body) })
    }

    async fn attempt(&self, prepared: &Prepared, to: &Address) -> Answer {
        let (Address::WebPush(subscription), PreparedBody::Whole(text)) = (to, &prepared.body)
        else {
            return bad(reasons::ADDRESS_OF_ANOTHER_PROVIDER);
        };
        let to = match self.services.destination(&subscription.endpoint) {
            Ok(to) => to,
            Err(reason) => return bad(reason),
        };
        let deadline = deadline();
        let encrypted = Receiver::of(subscription).map(|receiver| encrypt(text, &receiver));
        let Some(Ok(body)) = encrypted else {
            return bad("subscription_keys_invalid");
        };
        let service = self.services.get(&to, &self.config.ca_certificate);
        let mut refused: Option<Arc<Signed>> = None;
        loop {
            let token = match self.token(&to.origin, refused.as_deref()) {
                Ok(token) => token,
                Err(answer) => return answer,
            };
            let headers = || {
                let mut headers = prepared.headers.clone();
                headers.insert(AUTHORIZATION, token.authorization.clone());
                headers
            };
            let reply = match service.post(&to.uri, headers, &body, deadline).await {
                Ok(reply) => reply,
                Err(failure) => {
                    let (service, reason) = (&to.origin, &failure.reason);
                    tracing::debug!(%service, %reason, "a push service gave no answer");
                    return failure.without_cause().into();
                }
            };
            let wall = self.clock.wall();
            // A token that ran out before its time: one new one, then it is our key or our clock.
            let is_stale = refuses_token(&reply) && token.is_worth_replacing(wall);
            if !is_stale || refused.is_some() {
                return classify(&reply, wall);
            }
            refused = Some(token);
        }
    }

    /// Signs: whom a push service is told to be, and by which key, it looks at with the first message.
    /// The contact was checked when it was configured.
    async fn check(&self) -> Checked {
        match self.token(PLACEHOLDER_ORIGIN, None) {
            Ok(_) => Checked::good(
                "the VAPID key signs; whether push services take it shows with the first message",
            ),
            Err(answer) => Checked::of_answer(&answer),
        }
    }

    fn slots(&self) -> usize {
        self.services.slots(&self.config.ca_certificate)
    }

    fn service_slots(&self, endpoint: &str) -> Option<usize> {
        Some(self.services.slots_of(endpoint, &self.config.ca_certificate))
    }
}

/// Nobody's push service.
const PLACEHOLDER_ORIGIN: &str = "https://push.invalid";

fn bad(reason: &'static str) -> Answer {
    Answer::BadMessage { reason: Reason::Borrowed(reason) }
}
