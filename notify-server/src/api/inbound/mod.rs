//! Inbound webhooks: Messenger and Telegram report what people do. Each thing that a person did is
//! an act: the person wrote a message, voted, blocked the bot or unblocked it. Calls are
//! authenticated by a signature or secret instead of a key.
//!
//! Every invalid call gets the same 401, so that it does not reveal which applications exist or
//! what they have configured. A valid call gets 200 whatever it contains: after another status the
//! platform would repeat the call for hours. Only a call that could not be stored gets 503, so that
//! the platform repeats it.

pub(super) mod messenger;
mod signature;
pub(super) mod telegram;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use http::request::Parts;
use notify_core::{AppId, AppStatus, DeviceId, ProviderKind, Timestamp};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::api::Api;
use crate::api::caller::{Caller, InboundWebhook};
use crate::api::error::ApiError;
use crate::api::request_ctx::{RequestCtx, decode_segment};
use crate::provider_config::ProviderConfig;
use crate::secrets::MasterKey;
use crate::store::{AppNo, Inbound, ProviderRow, SharedStore, StoreError};

/// Largest body of a call, in bytes. Meta's calls of 1,000 events stay below this size.
pub(crate) const BODY_BYTES_MAX: usize = 262_144;
/// Path below which platforms call the webhooks.
const AREA: &str = "/hooks";
/// Most acts in one write. Meta sends up to 1,000 events in one call. A part is small, so that a slow database
/// stores it within the limit of a write, and a repeated call has less left to do.
const ACTS_PER_WRITE_MAX: usize = 32;
/// An id and a number that no application has. They are looked up if the path names no application,
/// so that such a call does the same work as any other.
const NO_APP_ID: AppId = AppId(Uuid::nil());
const NO_APP: AppNo = AppNo(0);

/// Authenticates calls by their head, before anything of the body is read.
pub(crate) struct InboundWebhooks {
    decoys: Decoys,
}

/// The schema of a call's body: any object, because the platform defines it.
pub(super) fn any_object_schema() -> Value {
    serde_json::json!({ "type": "object" })
}

/// The webhook that a path names, or a decoy if there is none. A call of a decoy takes the same
/// time, so that the response time does not reveal whether the webhook exists.
struct Candidate {
    webhook: InboundWebhook,
    is_real: bool,
}

impl InboundWebhooks {
    pub(crate) fn new(api: &Api) -> Self {
        Self { decoys: Decoys::new(&api.master_key) }
    }

    /// Authenticates a platform if the request calls a webhook; the caller of any other request
    /// stays the same.
    ///
    /// # Errors
    /// 401 for an unknown webhook or an invalid head.
    pub(crate) async fn authenticate(
        &self,
        api: &Api,
        caller: Caller,
        head: &Parts,
    ) -> Result<Caller, ApiError> {
        let Some((provider, app)) = webhook_in_path(head.uri.path()) else { return Ok(caller) };
        let candidate = self.find(&api.store, &api.master_key, provider, app).await?;
        let is_valid = match &candidate.webhook.config {
            ProviderConfig::Messenger(config) => messenger::is_head_valid(config, head),
            ProviderConfig::Telegram(config) => telegram::is_head_valid(config, &head.headers),
            ProviderConfig::Apns(_) | ProviderConfig::Fcm(_) | ProviderConfig::WebPush(_) => false,
        };
        if candidate.is_real && is_valid {
            Ok(Caller::Platform(Arc::new(candidate.webhook)))
        } else {
            Err(ApiError::InvalidSignature)
        }
    }

    /// The webhook of a provider and application. The store is read and a configuration is opened
    /// in the same way whether it exists or not.
    async fn find(
        &self,
        store: &dyn Lookup,
        master_key: &MasterKey,
        provider: ProviderKind,
        id: Option<AppId>,
    ) -> Result<Candidate, ApiError> {
        let app = match store.app(id.unwrap_or(NO_APP_ID)).await {
            Ok((app, AppStatus::Active)) => Some(app),
            Ok(_) | Err(StoreError::NotFound) => None,
            Err(error) => return Err(error.into()),
        };
        let stored =
            store.provider(app.unwrap_or(NO_APP), provider).await.map_err(hide_not_found)?;
        let is_stored = stored.is_some();
        let (app_id, row) = stored.unwrap_or_else(|| self.decoys.row(provider));
        // A configuration that cannot be opened is logged when it is used to send.
        let opened = ProviderConfig::open(master_key, app_id, &row);
        let is_real = app.is_some() && is_stored && opened.is_ok();
        let config = opened.unwrap_or_else(|_| self.decoys.config(provider));
        let webhook = InboundWebhook { app: app.unwrap_or(NO_APP), app_id, config };
        Ok(Candidate { webhook, is_real })
    }
}

/// The reads of the store that find a webhook.
#[async_trait]
trait Lookup: Send + Sync {
    async fn app(&self, id: AppId) -> Result<(AppNo, AppStatus), StoreError>;

    async fn provider(
        &self,
        app: AppNo,
        provider: ProviderKind,
    ) -> Result<Option<(AppId, ProviderRow)>, StoreError>;
}

#[async_trait]
impl Lookup for SharedStore {
    async fn app(&self, id: AppId) -> Result<(AppNo, AppStatus), StoreError> {
        (**self).app(id).await.map(|(no, app)| (no, app.status))
    }

    async fn provider(
        &self,
        app: AppNo,
        provider: ProviderKind,
    ) -> Result<Option<(AppId, ProviderRow)>, StoreError> {
        (**self).provider(app, provider).await
    }
}

/// The provider and application in the path of a webhook; no application if its id is malformed.
fn webhook_in_path(path: &str) -> Option<(ProviderKind, Option<AppId>)> {
    let (provider, app) = path.strip_prefix(AREA)?.strip_prefix('/')?.split_once('/')?;
    let provider = match provider {
        "messenger" => ProviderKind::Messenger,
        "telegram" => ProviderKind::Telegram,
        _ => return None,
    };
    (!app.is_empty() && !app.contains('/')).then(|| (provider, app_id(app)))
}

fn app_id(segment: &str) -> Option<AppId> {
    decode_segment(segment)?.parse().ok()
}

impl InboundWebhook {
    /// The body as JSON. `None` for a body that is not JSON: the call is accepted, and a warning
    /// without the content is logged.
    fn json(&self, ctx: &RequestCtx, provider: ProviderKind) -> Option<Value> {
        let json = serde_json::from_slice(&ctx.body.bytes).ok();
        if json.is_none() {
            let (app, provider, bytes) = (self.app_id, provider.as_str(), ctx.body.bytes.len());
            tracing::warn!(%app, provider, bytes, "body of a webhook call is not JSON");
        }
        json
    }

    /// Records what people did, in several writes if there are many acts. If a write fails, the
    /// platform repeats the call; acts that were already recorded have no effect then.
    async fn record(&self, ctx: &RequestCtx, mut acts: Vec<Inbound>) -> Result<(), ApiError> {
        while !acts.is_empty() {
            let rest = acts.split_off(acts.len().min(ACTS_PER_WRITE_MAX));
            let part = std::mem::replace(&mut acts, rest);
            let recorded = ctx.api.store.take_inbound(self.app, part, ctx.received_at).await;
            recorded.map_err(hide_not_found)?;
        }
        Ok(())
    }
}

/// The error of a store call. A deleted application gets the same error as an unknown one.
fn hide_not_found(error: StoreError) -> ApiError {
    match error {
        StoreError::NotFound => ApiError::InvalidSignature,
        StoreError::Refused(_)
        | StoreError::KeyReused
        | StoreError::Fenced
        | StoreError::Unavailable(_)
        | StoreError::Backend(_) => error.into(),
    }
}

/// The minimum length of an id in a link: 128 bits in base64url. The first person who sends an id
/// becomes the device for which the application made the link. A stranger could guess a shorter id
/// and send it first.
const LINKED_ID_CHARS_MIN: usize = 22;
/// The maximum length of an id in a link (Telegram, deep linking).
const LINKED_ID_CHARS_MAX: usize = 64;

/// The device id in the payload of a deep link (`ref` of an m.me link, the payload of a bot's
/// `/start`), if the payload is an id. The store checks that it is not in use.
fn linked_device_id(payload: &str) -> Option<DeviceId> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let is_id = (LINKED_ID_CHARS_MIN..=LINKED_ID_CHARS_MAX).contains(&payload.len())
        && payload.bytes().all(allowed);
    if is_id { DeviceId::new(payload).ok() } else { None }
}

/// An id for a new device.
fn make_id() -> DeviceId {
    DeviceId::from(Uuid::now_v7())
}

/// A secret of the usual length for decoys. It need not be secret, because no call of a decoy is
/// accepted.
const DECOY_SECRET: &str = "0123456789abcdef0123456789abcdef";

/// Configurations that are opened and compared if the webhook does not exist, so that such a call
/// takes the same time as any other.
struct Decoys {
    messenger: Decoy,
    telegram: Decoy,
}

struct Decoy {
    row: ProviderRow,
    config: ProviderConfig,
}

impl Decoys {
    fn new(key: &MasterKey) -> Self {
        let messenger = json!({"page_access_token": DECOY_SECRET, "app_secret": DECOY_SECRET,
            "verify_token": DECOY_SECRET});
        let telegram = json!({"bot_token": DECOY_SECRET, "webhook_secret": DECOY_SECRET});
        let decoy = |provider: ProviderKind, body: Value| {
            let sealed = key.seal(NO_APP_ID, provider, body.to_string().as_bytes());
            let config = ProviderConfig::parse(provider, &body);
            let config = config.expect("a decoy is valid for its provider");
            Decoy { row: ProviderRow { provider, sealed, updated_at: Timestamp(0) }, config }
        };
        Self {
            messenger: decoy(ProviderKind::Messenger, messenger),
            telegram: decoy(ProviderKind::Telegram, telegram),
        }
    }

    /// The decoy in its stored form.
    fn row(&self, provider: ProviderKind) -> (AppId, ProviderRow) {
        (NO_APP_ID, self.of(provider).row.clone())
    }

    /// The decoy in its opened form.
    fn config(&self, provider: ProviderKind) -> ProviderConfig {
        self.of(provider).config.clone()
    }

    fn of(&self, provider: ProviderKind) -> &Decoy {
        match provider {
            ProviderKind::Messenger => &self.messenger,
            ProviderKind::Telegram => &self.telegram,
            ProviderKind::Apns | ProviderKind::Fcm | ProviderKind::WebPush => {
                unreachable!("only chat platforms have inbound webhooks")
            }
        }
    }
}
