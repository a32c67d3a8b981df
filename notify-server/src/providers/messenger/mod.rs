//! Facebook Messenger (developers.facebook.com, "Send API"): a page's access token, one request a
//! person, 2,000 characters of text, and only within 24 hours of what the person wrote last.
//! Permanent is the error for no such user; what names our token or permissions holds the provider.

mod classify;
mod quota;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use aws_lc_rs::hmac;
use http::StatusCode;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::uri::Uri;
use notify_core::Timestamp;
use secrecy::{ExposeSecret, SecretString};

use self::classify::{OUTSIDE_WINDOW, classify};
use self::quota::{PER_SECOND, Quota, usage};
use super::shared::Shared;
use super::transport::{Pools, Sender};
use super::{Address, Allowance, Answer, Checked, Prepared, PreparedBody, Provider, deadline};
use crate::clock::SharedClock;
use crate::keys::hex;
use crate::payload::{Outgoing, TooLarge, messenger as payload};
use crate::provider_config::{BaseUrl, KeyDigest, MessengerConfig};
use crate::reasons;

/// Version of the Graph API, unless the endpoint names another one. One lives about two years.
const VERSION: &str = "v25.0";
/// How long after a person's last message the page may write, in milliseconds: 24 hours.
const WINDOW_MS: i64 = 24 * 60 * 60 * 1_000;

/// What is known of each page's quota, shared by all that send with its token.
pub(super) type Quotas = Shared<KeyDigest, Quota>;

/// Messenger for one application.
pub(super) struct Messenger {
    clock: SharedClock,
    uri: Uri,
    bearer: HeaderValue,
    quota: Arc<Quota>,
    per_second: u32,
    sender: Sender,
}

impl Messenger {
    pub(super) fn new(
        config: &MessengerConfig,
        clock: SharedClock,
        pools: &Pools,
        quotas: &Quotas,
    ) -> Self {
        let base_url = config.base_url();
        let credential = format!("messenger {}", hex(&config.token_digest));
        let token = config.page_access_token.expose_secret();
        let mut bearer = HeaderValue::try_from(format!("Bearer {token}"))
            .expect("a token is checked to be visible ASCII");
        bearer.set_sensitive(true);
        Self {
            clock,
            uri: messages_uri(&base_url, token, config.app_secret.as_ref()),
            bearer,
            quota: quotas.get(config.token_digest, |_| Quota::default()),
            per_second: config.rate_per_second.unwrap_or(PER_SECOND),
            sender: Sender::new(pools, &base_url, credential, config.ca_certificate.clone()),
        }
    }
}

/// Where messages go. With the app's secret every call proves that it comes from who has it (Meta,
/// "Securing Graph API Requests"): HMAC-SHA256 of the token.
fn messages_uri(base_url: &BaseUrl, token: &str, app_secret: Option<&SecretString>) -> Uri {
    let version = if names_version(base_url) { String::new() } else { format!("/{VERSION}") };
    let proof = app_secret.map_or_else(String::new, |secret| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose_secret().as_bytes());
        let proof = hmac::sign(&key, token.as_bytes());
        format!("?appsecret_proof={}", hex(proof.as_ref()))
    });
    let uri = format!("{base_url}{version}/me/messages{proof}");
    uri.parse().expect("a base url is checked, and what follows it is plain")
}

/// Whether an endpoint ends in a version of its own, as in `/v26.0`.
fn names_version(base_url: &BaseUrl) -> bool {
    let last = base_url.prefix.rsplit('/').next().unwrap_or_default();
    let number = last.strip_prefix('v').and_then(|number| number.split_once('.'));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    number.is_some_and(|(major, minor)| is_digits(major) && is_digits(minor))
}

#[async_trait::async_trait]
impl Provider for Messenger {
    fn prepare(&self, message: &Outgoing<'_>) -> Result<Prepared, TooLarge> {
        let body = PreparedBody::Around(payload::render(message)?);
        let mut headers = HeaderMap::with_capacity(4);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(Prepared { headers, body })
    }

    async fn attempt(&self, prepared: &Prepared, to: &Address) -> Answer {
        let (Address::Messenger { recipient, last_inbound_at }, PreparedBody::Around(body)) =
            (to, &prepared.body)
        else {
            return Answer::BadMessage { reason: reasons::ADDRESS_OF_ANOTHER_PROVIDER.into() };
        };
        // Meta counts what it refuses against the page. A person of whom nothing is known is tried.
        let now = self.clock.now();
        if last_inbound_at.is_some_and(|at| now.ms_since(at) > WINDOW_MS) {
            return Answer::Policy { reason: OUTSIDE_WINDOW.into() };
        }
        let deadline = deadline();
        let headers = || {
            let mut headers = prepared.headers.clone();
            headers.insert(AUTHORIZATION, self.bearer.clone());
            headers
        };
        let reply = match self.sender.post(&self.uri, headers, &body.put(recipient), deadline).await
        {
            Ok(reply) => reply,
            Err(failure) => return failure.into(),
        };
        let now = self.clock.now();
        let usage = usage(&reply.headers);
        let mut answer = classify(&reply, self.clock.wall());
        if let Answer::Throttle { after, .. } = &mut answer {
            let named = usage.and_then(|usage| usage.regain).max(*after);
            *after = Some(self.quota.throttled(named, now));
        } else if matches!(answer, Answer::Delivered { .. }) {
            self.quota.delivered();
        }
        self.quota.seen(usage, now);
        answer
    }

    /// `GET /me` reads the page, and sends nothing.
    async fn check(&self) -> Checked {
        let deadline = deadline();
        let url = self.uri.to_string().replacen("/me/messages", "/me", 1);
        let headers = HeaderMap::from_iter([(AUTHORIZATION, self.bearer.clone())]);
        match self.sender.http1().get(&url, headers, deadline).await {
            Ok(reply) if reply.status == StatusCode::OK => {
                Checked::good("the page's token is accepted")
            }
            Ok(reply) => Checked::of_answer(&classify(&reply, self.clock.wall())),
            Err(failure) => Checked::of_answer(&failure.into()),
        }
    }

    fn slots(&self) -> usize {
        self.sender.slots()
    }

    fn allowance(&self, now: Timestamp) -> Allowance {
        self.quota.allowance(self.per_second, now)
    }
}
