//! Firebase Cloud Messaging, HTTP v1 (firebase.google.com, "Send messages using the FCM HTTP v1
//! API"): OAuth2 service account, one request a device, 4,096 bytes of keys and values. Permanent
//! are `UNREGISTERED` and an `INVALID_ARGUMENT` that names the token.

mod classify;
mod oauth;
#[cfg(test)]
mod tests;

pub(super) use oauth::AccessTokens;

use std::sync::Arc;

use http::StatusCode;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use http::uri::Uri;

use self::classify::classify;
use self::oauth::AccessToken;
use super::transport::{Pools, Sender};
use super::{
    Address, CredentialCheck, Provider, RenderedBody, RenderedMessage, SendResult, deadline,
};
use crate::clock::SharedClock;
use crate::payload::{RenderContext, TooLarge, fcm as payload};
use crate::provider_config::FcmConfig;
use crate::reasons;

/// A registration token that no app has.
const IMPOSSIBLE_TOKEN: &str = "notify-check";
/// A request that Google validates and does not send, up to the token and after it.
const DRY_RUN_BEFORE: &str =
    r#"{"validate_only":true,"message":{"data":{"notify":"check"},"token":""#;
const DRY_RUN_AFTER: &str = r#""}}"#;

/// FCM for one application.
pub(super) struct Fcm {
    clock: SharedClock,
    access: Arc<AccessToken>,
    enriched_as_data: bool,
    uri: Uri,
    sender: Sender,
}

impl Fcm {
    pub(super) fn new(
        config: &FcmConfig,
        clock: SharedClock,
        pools: &Pools,
        tokens: &AccessTokens,
    ) -> Self {
        let base_url = config.base_url();
        let account = &config.service_account;
        let url = format!("{base_url}/v1/projects/{}/messages:send", account.project_id);
        let trust = config.ca_certificate.clone();
        let credential = format!("fcm {}", account.client_email);
        let sender = Sender::new(pools, &base_url, credential, trust);
        Self {
            access: tokens.get(config, sender.http1()),
            clock,
            enriched_as_data: config.enriched_as_data,
            uri: url.parse().expect("a base url and a project id are checked"),
            sender,
        }
    }
}

#[async_trait::async_trait]
impl Provider for Fcm {
    fn render(&self, context: &RenderContext<'_>) -> Result<RenderedMessage, TooLarge> {
        let payload = payload::render(context, self.enriched_as_data)?;
        let mut headers = HeaderMap::with_capacity(4);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // Reserves the entry, so that a copy of the map need not grow for each device.
        headers.insert(AUTHORIZATION, HeaderValue::from_static(""));
        let body = RenderedBody::Template(payload.body);
        Ok(RenderedMessage { headers, body })
    }

    async fn attempt(&self, rendered: &RenderedMessage, to: &Address) -> SendResult {
        let (Address::Fcm { token }, RenderedBody::Template(body)) = (to, &rendered.body) else {
            return SendResult::InvalidMessage {
                reason: reasons::ADDRESS_OF_ANOTHER_PROVIDER.into(),
            };
        };
        let deadline = deadline();
        let body = body.put(token);
        let mut refused: Option<HeaderValue> = None;
        loop {
            let access = self.access.get(&self.clock, refused.as_ref(), deadline).await;
            let bearer = match access {
                Ok(bearer) => bearer,
                Err(answer) => return answer,
            };
            let headers = || {
                let mut headers = rendered.headers.clone();
                headers.insert(AUTHORIZATION, bearer.clone());
                headers
            };
            let sent = self.sender.post(&self.uri, headers, &body, deadline).await;
            let reply = match sent {
                Ok(reply) => reply,
                Err(failure) => return failure.into(),
            };
            let answer = classify(&reply, self.clock.wall());
            // A token that Google revoked early: retry with a new one, once; then it is our
            // credentials. Nothing was processed.
            let is_stale = reply.status == StatusCode::UNAUTHORIZED
                && !matches!(&answer, SendResult::AuthRejected { reason } if *reason == classify::THIRD_PARTY);
            if !is_stale || refused.is_some() {
                return answer;
            }
            refused = Some(bearer);
        }
    }

    /// A dry run (`validate_only`) to an impossible registration token: it passes the
    /// OAuth endpoint, the project and the service account's role before Google checks the token.
    async fn check(&self) -> CredentialCheck {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let (before, after) = (DRY_RUN_BEFORE.into(), DRY_RUN_AFTER.into());
        let to = Address::Fcm { token: IMPOSSIBLE_TOKEN.into() };
        let body = RenderedBody::Template(crate::payload::BodyTemplate { before, after });
        CredentialCheck::from_result(&self.attempt(&RenderedMessage { headers, body }, &to).await)
    }

    fn max_concurrency(&self) -> usize {
        self.sender.max_concurrency()
    }
}
