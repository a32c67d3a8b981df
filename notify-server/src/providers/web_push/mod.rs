//! Web Push (RFC 8030): whatever push service a browser chose, each message encrypted for it
//! (RFC 8291) and signed with the application's VAPID key (RFC 8292), one request a device, 3,993
//! bytes of JSON. 404 and 410 are permanent. Endpoints come from users: every connection passes
//! [`Outbound`], and no redirect is followed.

mod classify;
mod encrypt;
#[cfg(test)]
mod tests;
mod vapid;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::Uri;
use http::header::{AUTHORIZATION, HeaderValue};

use self::classify::{classify, refuses_token};
use self::encrypt::{Receiver, encrypt};
pub(super) use self::vapid::VapidTokens;
use self::vapid::{Signer, VapidToken};
use crate::clock::SharedClock;
use crate::outbound::Outbound;
use crate::payload::{RenderContext, TooLarge, web_push as payload};
use crate::provider_config::{BaseUrl, WebPushConfig};
use crate::providers::transport::{
    ADDRESS_NOT_ALLOWED, Http1, Pools, STREAMS_ASSUMED, Sender, Trust,
};
use crate::providers::{
    Address, CredentialCheck, Provider, Reason, RenderedBody, RenderedMessage, SendResult, deadline,
};
use crate::push_service::service_of;
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

    fn token(
        &self,
        origin: &str,
        refused: Option<&VapidToken>,
    ) -> Result<Arc<VapidToken>, SendResult> {
        self.tokens
            .get(&self.signer, origin, refused, self.clock.wall())
            .ok_or(SendResult::AuthRejected { reason: reasons::SIGNING_FAILED.into() })
    }
}

#[async_trait::async_trait]
impl Provider for WebPush {
    fn render(&self, context: &RenderContext<'_>) -> Result<RenderedMessage, TooLarge> {
        let payload = payload::render(context)?;
        let mut headers = payload.headers;
        // Reserves the entry, so that a copy of the map need not grow for each device.
        headers.insert(AUTHORIZATION, HeaderValue::from_static(""));
        Ok(RenderedMessage { headers, body: RenderedBody::Shared(payload.body) })
    }

    async fn attempt(&self, rendered: &RenderedMessage, to: &Address) -> SendResult {
        let (Address::WebPush(subscription), RenderedBody::Shared(text)) = (to, &rendered.body)
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
        let mut refused: Option<Arc<VapidToken>> = None;
        loop {
            let token = match self.token(&to.origin, refused.as_deref()) {
                Ok(token) => token,
                Err(answer) => return answer,
            };
            let headers = || {
                let mut headers = rendered.headers.clone();
                headers.insert(AUTHORIZATION, token.authorization.clone());
                headers
            };
            let reply = match service.post(&to.uri, headers, &body, deadline).await {
                Ok(reply) => reply,
                Err(failure) => {
                    let (service, reason) = (&to.origin, &failure.reason);
                    tracing::debug!(%service, %reason, "a push service gave no answer");
                    return failure.redacted().into();
                }
            };
            let wall = self.clock.wall();
            // A token that expired early: retry with a new one, once; then it is our key or our clock.
            let is_stale = refuses_token(&reply) && token.may_be_stale(wall);
            if !is_stale || refused.is_some() {
                return classify(&reply, wall);
            }
            refused = Some(token);
        }
    }

    /// Checks only that the key signs: a push service checks contact and key with the first message.
    /// The contact was checked when it was configured.
    async fn check(&self) -> CredentialCheck {
        match self.token(PLACEHOLDER_ORIGIN, None) {
            Ok(_) => CredentialCheck::passed(
                "the VAPID key signs; whether push services take it shows with the first message",
            ),
            Err(answer) => CredentialCheck::from_result(&answer),
        }
    }

    fn max_concurrency(&self) -> usize {
        self.services.slots(&self.config.ca_certificate)
    }

    fn service_concurrency(&self, endpoint: &str) -> Option<usize> {
        Some(self.services.concurrency_of(endpoint, &self.config.ca_certificate))
    }
}

/// The origin of no push service.
const PLACEHOLDER_ORIGIN: &str = "https://push.invalid";

fn bad(reason: &'static str) -> SendResult {
    SendResult::InvalidMessage { reason: Reason::Borrowed(reason) }
}

// Push services: one for each origin, with its connections. Endpoints come from
// users, so the number of services is bounded, and unused ones are dropped.

/// Most push services kept; the least recently used one is dropped. Browsers use a
/// handful, Windows' service one for each of its sites.
const SERVICES_MAX: usize = 64;
/// How long an unused push service is kept.
const SERVICE_IDLE: Duration = Duration::from_secs(600);

/// A push service that was used lately.
struct KnownService {
    trust: Trust,
    origin: Box<str>,
    /// The HTTP/1.1 client, which services of the same trust share.
    http1: Http1,
    service: Arc<Sender>,
    used_at: Instant,
}

/// All push services of the server.
#[derive(Clone)]
pub(super) struct Services {
    pools: Arc<Pools>,
    guard: Outbound,
    /// A list: there are few, and each message looks at all of one trust.
    known: Arc<Mutex<Vec<KnownService>>>,
    services_max: usize,
}

/// The destination of one message.
struct Destination {
    uri: Uri,
    /// Scheme, host and port, as the audience of a VAPID token names it.
    origin: Box<str>,
}

impl Services {
    pub(super) fn new(pools: Arc<Pools>, guard: Outbound) -> Self {
        Self::keeping(pools, guard, SERVICES_MAX)
    }

    fn keeping(pools: Arc<Pools>, guard: Outbound, services_max: usize) -> Self {
        Self { pools, guard, known: Arc::default(), services_max }
    }

    /// Parses the endpoint of a subscription. It was allowed when it was registered, but need not be
    /// now.
    ///
    /// # Errors
    /// The reason why nothing can be sent there.
    fn destination(&self, endpoint: &str) -> Result<Destination, &'static str> {
        let url = self.guard.target(endpoint).map_err(|_| ADDRESS_NOT_ALLOWED)?;
        // A valid url may still be invalid in a request line.
        let uri = url.as_str().parse().map_err(|_| "endpoint_invalid")?;
        let origin = url.origin().ascii_serialization().into();
        Ok(Destination { uri, origin })
    }

    /// The push services that were used lately.
    fn known(&self) -> MutexGuard<'_, Vec<KnownService>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        known.retain(|known| now.duration_since(known.used_at) < SERVICE_IDLE);
        known
    }

    /// The push service of a destination.
    fn get(&self, to: &Destination, trust: &Trust) -> Arc<Sender> {
        let mut known = self.known();
        if let Some(recent) = known.iter_mut().find(|known| known.is(&to.origin, trust)) {
            recent.used_at = Instant::now();
            return Arc::clone(&recent.service);
        }
        if known.len() >= self.services_max {
            let unused = known.iter().enumerate().min_by_key(|(_, known)| known.used_at);
            if let Some((unused, _)) = unused {
                known.swap_remove(unused);
            }
        }
        let base_url = BaseUrl::parse(&to.origin).expect("the origin of a url is one");
        let http1 = known.iter().find(|known| known.trust == *trust).map_or_else(
            || Http1::guarded(self.pools.tls(), trust, &self.guard),
            |known| known.http1.clone(),
        );
        let of = (trust.clone(), http1.clone());
        let service = Arc::new(Sender::guarded(&self.pools, &base_url, of, &self.guard));
        known.push(KnownService {
            trust: trust.clone(),
            origin: to.origin.clone(),
            http1,
            service: Arc::clone(&service),
            used_at: Instant::now(),
        });
        service
    }

    /// How many attempts can run at the same time to the push service of an endpoint.
    fn concurrency_of(&self, endpoint: &str, trust: &Trust) -> usize {
        let origin = service_of(endpoint);
        let known = self.known();
        let service = known.iter().find(|known| known.is(&origin, trust));
        service.map_or(STREAMS_ASSUMED, |known| known.service.max_concurrency())
    }

    /// How many can run at the same time to all known services and one more.
    fn slots(&self, trust: &Trust) -> usize {
        let known = self.known();
        let of_trust = known.iter().filter(|known| known.trust == *trust);
        of_trust.map(|known| known.service.max_concurrency()).sum::<usize>() + STREAMS_ASSUMED
    }

    /// How many push services are kept.
    #[cfg(test)]
    fn kept(&self) -> usize {
        self.known().len()
    }
}

impl KnownService {
    fn is(&self, origin: &str, trust: &Trust) -> bool {
        *self.origin == *origin && self.trust == *trust
    }
}
