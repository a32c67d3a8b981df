//! Web Push (RFC 8030). Each browser chooses its push service. A message is encrypted for the browser
//! (RFC 8291), and the request is authorized with a token that the application's VAPID key signed
//! (RFC 8292). Each device gets one request with at most 3,993 bytes of JSON. Status 404 and 410 mean
//! that the subscription is permanently invalid. Endpoints come from users, so [`Outbound`] checks every
//! connection, and no redirect is followed.

mod encrypt;
#[cfg(test)]
mod tests;
mod vapid;

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::header::{AUTHORIZATION, HeaderValue, LOCATION};
use http::{StatusCode, Uri};
use notify_core::Timestamp;
use serde::Deserialize;

use self::encrypt::{Receiver, encrypt};
pub(super) use self::vapid::VapidTokens;
use self::vapid::{Signer, VapidToken};
use crate::clock::SharedClock;
use crate::outbound::{Outbound, retry_after};
use crate::payload::{RenderContext, TooLarge, web_push as payload};
use crate::provider_config::{BaseUrl, WebPushConfig};
use crate::providers::transport::{
    ADDRESS_NOT_ALLOWED, Http1, Pools, ProviderResponse, STREAMS_ASSUMED, Sender, Trust,
};
use crate::providers::{
    Address, CredentialCheck, GappedMessage, Provider, Reason, RenderedBody, RenderedMessage,
    Scope, SendResult, attempt_deadline, message_id, reason_from_status,
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

    /// The token for a request to the push service with that origin. `refused` is a token that this push
    /// service has refused.
    ///
    /// # Errors
    /// The result with which the attempt ends, if the key cannot sign.
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
        // A placeholder: it reserves the entry, so that the copy of the map for each device need not
        // grow.
        headers.insert(AUTHORIZATION, HeaderValue::from_static(""));
        Ok(RenderedMessage { headers, body: RenderedBody::Shared(payload.body) })
    }

    fn render_gapped(&self, context: &RenderContext<'_>, texts: usize) -> Option<GappedMessage> {
        let (body, mut headers) = payload::render_gapped(context, texts);
        headers.insert(AUTHORIZATION, HeaderValue::from_static(""));
        Some(GappedMessage { headers, before_address: None, body })
    }

    async fn attempt(&self, rendered: &RenderedMessage, to: &Address) -> SendResult {
        let (Address::WebPush(subscription), RenderedBody::Shared(text)) = (to, &rendered.body)
        else {
            return invalid_message(reasons::ADDRESS_OF_ANOTHER_PROVIDER);
        };
        let to = match self.services.destination(&subscription.endpoint) {
            Ok(to) => to,
            Err(reason) => return invalid_message(reason),
        };
        let deadline = attempt_deadline();
        let encrypted = Receiver::of(subscription).map(|receiver| encrypt(text, &receiver));
        let Some(Ok(body)) = encrypted else {
            return invalid_message("subscription_keys_invalid");
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
            // The push service may consider the token expired. The message is sent again with a new token,
            // once. If that is refused too, our key or our clock is at fault.
            let is_stale = refuses_token(&reply) && token.may_be_stale(wall);
            if !is_stale || refused.is_some() {
                return classify(&reply, wall);
            }
            refused = Some(token);
        }
    }

    /// Checks only that the key signs, and sends nothing. The contact was checked when it was configured.
    /// A push service checks key and contact with the first message.
    async fn check(&self) -> CredentialCheck {
        match self.token(PLACEHOLDER_ORIGIN, None) {
            Ok(_) => CredentialCheck::passed(
                "the VAPID key signs; whether push services take it shows with the first message",
            ),
            Err(answer) => CredentialCheck::from_result(&answer),
        }
    }

    fn max_concurrency(&self) -> usize {
        self.services.max_concurrency(&self.config.ca_certificate)
    }

    fn service_concurrency(&self, endpoint: &str) -> Option<usize> {
        Some(self.services.concurrency_of(endpoint, &self.config.ca_certificate))
    }
}

/// An origin that no push service can have, for the check.
const PLACEHOLDER_ORIGIN: &str = "https://push.invalid";

fn invalid_message(reason: &'static str) -> SendResult {
    SendResult::InvalidMessage { reason: Reason::Borrowed(reason) }
}

// Push services, one for each origin, with their connections. Endpoints come from users, so the number
// of push services is bounded, and unused ones are dropped.

/// Most push services kept. Beyond that, the least recently used one is dropped. Common browsers use a
/// handful of origins; the push service of Windows has one for each of its sites.
const SERVICES_MAX: usize = 64;
/// How long an unused push service is kept.
const SERVICE_IDLE: Duration = Duration::from_secs(600);

/// A push service that was used recently.
struct KnownService {
    trust: Trust,
    origin: Box<str>,
    /// The HTTP/1.1 client. Push services with the same trust share it.
    http1: Http1,
    sender: Arc<Sender>,
    used_at: Instant,
}

/// All push services of the server.
#[derive(Clone)]
pub(super) struct Services {
    pools: Arc<Pools>,
    guard: Outbound,
    /// A list and not a map: there are few, and each message looks at all of one trust.
    known_services: Arc<Mutex<Vec<KnownService>>>,
    services_max: usize,
}

/// The destination of one message.
struct Destination {
    uri: Uri,
    /// Scheme, host and port, as in the audience of a VAPID token.
    origin: Box<str>,
}

impl Services {
    pub(super) fn new(pools: Arc<Pools>, guard: Outbound) -> Self {
        Self::with_limit(pools, guard, SERVICES_MAX)
    }

    fn with_limit(pools: Arc<Pools>, guard: Outbound, services_max: usize) -> Self {
        Self { pools, guard, known_services: Arc::default(), services_max }
    }

    /// Parses the endpoint of a subscription, and checks it again: the endpoint was allowed when it was
    /// registered, but the rules may have changed.
    ///
    /// # Errors
    /// The reason why nothing can be sent to the endpoint.
    fn destination(&self, endpoint: &str) -> Result<Destination, &'static str> {
        let url = self.guard.target(endpoint).map_err(|_| ADDRESS_NOT_ALLOWED)?;
        // A valid url may still be invalid in a request line.
        let uri = url.as_str().parse().map_err(|_| "endpoint_invalid")?;
        let origin = url.origin().ascii_serialization().into();
        Ok(Destination { uri, origin })
    }

    /// Locks the list of push services, after it has dropped those that were unused for [`SERVICE_IDLE`].
    fn lock_services(&self) -> MutexGuard<'_, Vec<KnownService>> {
        let mut services = self.known_services.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        services.retain(|service| now.duration_since(service.used_at) < SERVICE_IDLE);
        services
    }

    /// The sender to the push service of a destination, which is added if it is new. In exchange, the least
    /// recently used push service is dropped if there are too many.
    fn get(&self, to: &Destination, trust: &Trust) -> Arc<Sender> {
        let mut services = self.lock_services();
        if let Some(service) =
            services.iter_mut().find(|service| service.matches(&to.origin, trust))
        {
            service.used_at = Instant::now();
            return Arc::clone(&service.sender);
        }
        if services.len() >= self.services_max {
            let oldest = services.iter().enumerate().min_by_key(|(_, service)| service.used_at);
            if let Some((index, _)) = oldest {
                services.swap_remove(index);
            }
        }
        let base_url = BaseUrl::parse(&to.origin).expect("the origin of a url is one");
        let http1 = match services.iter().find(|service| service.trust == *trust) {
            Some(service) => service.http1.clone(),
            None => Http1::new(self.pools.tls(), trust, &self.guard),
        };
        let sender = Arc::new(Sender::guarded(
            &self.pools,
            &base_url,
            trust.clone(),
            http1.clone(),
            &self.guard,
        ));
        services.push(KnownService {
            trust: trust.clone(),
            origin: to.origin.clone(),
            http1,
            sender: Arc::clone(&sender),
            used_at: Instant::now(),
        });
        sender
    }

    /// How many attempts can run at the same time to the push service of an endpoint.
    fn concurrency_of(&self, endpoint: &str, trust: &Trust) -> usize {
        let origin = service_of(endpoint);
        let services = self.lock_services();
        let service = services.iter().find(|service| service.matches(&origin, trust));
        service.map_or(STREAMS_ASSUMED, |service| service.sender.max_concurrency())
    }

    /// How many attempts can run at the same time to all known push services and to one further service.
    fn max_concurrency(&self, trust: &Trust) -> usize {
        let services = self.lock_services();
        let matching = services.iter().filter(|service| service.trust == *trust);
        matching.map(|service| service.sender.max_concurrency()).sum::<usize>() + STREAMS_ASSUMED
    }

    /// How many push services are kept.
    #[cfg(test)]
    fn kept(&self) -> usize {
        self.lock_services().len()
    }
}

impl KnownService {
    fn matches(&self, origin: &str, trust: &Trust) -> bool {
        *self.origin == *origin && self.trust == *trust
    }
}

// Classification of push services' responses (RFC 8030 sections 5 and 8; Mozilla autopush, "Error Codes";
// Apple, "Sending web push notifications in web apps and browsers"). A push service can be run by
// anyone, so only the status decides, and only known codes are stored.

/// Apple's code for any refused token.
pub(super) const BAD_JWT_TOKEN: &str = "BadJwtToken";

/// Codes of Apple and Google for a refusal.
const CODES: [&str; 12] = [
    BAD_JWT_TOKEN,
    "BadPath",
    "BadWebPushTopic",
    "ExpiredToken",
    "InternalServerError",
    "InvalidTokenFormat",
    "PayloadTooLarge",
    "ServiceUnavailable",
    "TooManyRequests",
    "UnauthorizedRegistration",
    "Unregistered",
    "VapidPkHashMismatch",
];

/// Mozilla's error numbers.
const ERRNOS: [u16; 20] = [
    101, 102, 103, 104, 105, 106, 108, 109, 110, 111, 112, 113, 114, 201, 202, 900, 901, 902, 903,
    999,
];

/// The body of an error. Apple sends `reason` and Mozilla sends `errno`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Refusal {
    reason: Option<String>,
    errno: Option<u16>,
}

/// Classifies a response.
pub(super) fn classify(reply: &ProviderResponse, wall: Timestamp) -> SendResult {
    let reason = || reason_of(reply);
    let answer = match reply.status.as_u16() {
        200 | 201 | 202 | 204 => SendResult::Delivered { message_id: location(reply) },
        400 | 413 => SendResult::InvalidMessage { reason: reason() },
        401 | 403 => SendResult::ServiceRefused { reason: reason() },
        // A wrong path at the push service would look the same.
        404 => SendResult::Unregistered { reason: reason(), ambiguous: true, since: None },
        410 => SendResult::Unregistered { reason: reason(), ambiguous: false, since: None },
        // The push service of Windows responds 406 where others respond 429.
        406 | 429 => SendResult::Throttle { reason: reason(), after: None, scope: Scope::Service },
        408 | 500..=599 => SendResult::failed(reason()),
        // This includes redirects. They are not followed, because the target would not be checked.
        _ => SendResult::Unknown { reason: reason_from_status(reply.status, "") },
    };
    answer.with_retry_after(retry_after(&reply.headers, wall))
}

/// Whether the push service refuses the token, and not the key that signed it.
pub(super) fn refuses_token(reply: &ProviderResponse) -> bool {
    match reply.status {
        StatusCode::UNAUTHORIZED => true,
        StatusCode::FORBIDDEN => known_code(reply).is_some_and(|code| code == BAD_JWT_TOKEN),
        _ => false,
    }
}

/// The reason for a response: the status, and the push service's code if it is known.
fn reason_of(reply: &ProviderResponse) -> Reason {
    reason_from_status(reply.status, &known_code(reply).unwrap_or_default())
}

/// The push service's code, if it is one of [`CODES`] or [`ERRNOS`].
fn known_code(reply: &ProviderResponse) -> Option<Cow<'static, str>> {
    let find = |text: &str| CODES.into_iter().find(|code| *code == text).map(Cow::Borrowed);
    let Ok(refusal) = serde_json::from_slice::<Refusal>(&reply.body) else {
        // Google sends the code as plain text.
        return find(std::str::from_utf8(&reply.body).ok()?.trim());
    };
    match refusal.errno {
        Some(errno) if ERRNOS.contains(&errno) => Some(Cow::Owned(format!("errno_{errno}"))),
        Some(_) | None => find(&refusal.reason?),
    }
}

/// The location of the message at the push service, which is its id (RFC 8030 section 5).
fn location(reply: &ProviderResponse) -> Option<Box<str>> {
    message_id(reply.headers.get(LOCATION)?.to_str().ok()?)
}
