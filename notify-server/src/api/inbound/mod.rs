//! The webhooks of Messenger and the chat app: what people do there comes in, recognised by its
//! signature instead of a key. Whatever is wrong with a call, it gets the same 401: a stranger must
//! not learn which application there is, nor what it has configured. What is signed right gets 200
//! whatever it holds, since the platform would repeat it for hours; 503 alone asks for that.

pub(super) mod messenger;
mod signature;
pub(super) mod telegram;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Method, Uri};
use notify_core::{AppId, AppStatus, DeviceId, ProviderKind, Timestamp};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::api::Api;
use crate::api::error::ApiError;
use crate::api::request_ctx::{Ctx, path_text};
use crate::provider_config::ProviderConfig;
use crate::secrets::MasterKey;
use crate::store::{AppNo, Inbound, ProviderRow, SharedStore, StoreError};

/// Largest body of a call, in bytes. Meta's calls of 1,000 events stay below.
pub(crate) const BODY_BYTES_MAX: usize = 262_144;
/// What platforms call under.
const AREA: &str = "/hooks";
/// Most acts of one write. Meta puts up to 1,000 events into one call.
const ACTS_PER_WRITE_MAX: usize = 512;
/// The id and the number of no application: what is looked up where the path names none.
const NO_APP_ID: AppId = AppId(Uuid::nil());
const NO_APP: AppNo = AppNo(0);

/// Lets platforms in by what stands in the head, before anything is read of a body.
pub(crate) struct Hooks {
    decoys: Decoys,
}

/// The schema of a call: the platform's own.
pub(super) fn any_call() -> Value {
    serde_json::json!({ "type": "object" })
}

/// The application that a webhook belongs to, and how its provider is configured.
#[derive(Debug)]
pub(crate) struct Hook {
    app: AppNo,
    app_id: AppId,
    config: ProviderConfig,
}

/// The head of a call.
#[derive(Clone, Copy)]
pub(crate) struct Head<'a> {
    pub(crate) method: &'a Method,
    pub(crate) uri: &'a Uri,
    pub(crate) headers: &'a HeaderMap,
}

/// A webhook that a path names, or what stands in its place: a stranger must not learn from the time
/// of an answer which of the two it was.
struct Candidate {
    hook: Hook,
    is_real: bool,
}

impl Hooks {
    pub(crate) fn new(api: &Api) -> Self {
        Self { decoys: Decoys::new(&api.master_key) }
    }

    /// The webhook that a request calls, if its head is right; `None` where it calls none.
    pub(crate) async fn admitted(
        &self,
        api: &Api,
        head: Head<'_>,
    ) -> Result<Option<Arc<Hook>>, ApiError> {
        let Some((provider, app)) = named(head.uri.path()) else { return Ok(None) };
        let candidate = self.find(&api.store, &api.master_key, provider, app).await?;
        let is_right = match &candidate.hook.config {
            ProviderConfig::Messenger(config) => messenger::is_head_right(config, head),
            ProviderConfig::Telegram(config) => telegram::is_head_right(config, head.headers),
            ProviderConfig::Apns(_) | ProviderConfig::Fcm(_) | ProviderConfig::WebPush(_) => false,
        };
        if candidate.is_real && is_right {
            Ok(Some(Arc::new(candidate.hook)))
        } else {
            Err(ApiError::HookUnauthorized)
        }
    }

    /// The webhook that the path names. The store is read and a configuration is opened in the same
    /// way whatever there is.
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
        let stored = store.provider(app.unwrap_or(NO_APP), provider).await.map_err(unknown)?;
        let is_stored = stored.is_some();
        let (app_id, row) = stored.unwrap_or_else(|| self.decoys.row(provider));
        // That it does not open is told where it is used to send.
        let opened = ProviderConfig::open(master_key, app_id, &row);
        let is_real = app.is_some() && is_stored && opened.is_ok();
        let config = opened.unwrap_or_else(|_| self.decoys.config(provider));
        let hook = Hook { app: app.unwrap_or(NO_APP), app_id, config };
        Ok(Candidate { hook, is_real })
    }
}

/// What is read of the store to find a webhook.
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

/// The provider and the application that a path of a webhook names; no application where the id is
/// none.
fn named(path: &str) -> Option<(ProviderKind, Option<AppId>)> {
    let (provider, app) = path.strip_prefix(AREA)?.strip_prefix('/')?.split_once('/')?;
    let provider = match provider {
        "messenger" => ProviderKind::Messenger,
        "telegram" => ProviderKind::Telegram,
        _ => return None,
    };
    (!app.is_empty() && !app.contains('/')).then(|| (provider, app_id(app)))
}

fn app_id(segment: &str) -> Option<AppId> {
    path_text(segment)?.parse().ok()
}

impl Hook {
    /// Its application, where the head alone proves who calls. Messenger signs the body.
    pub(crate) fn proven_by_head(&self) -> Option<AppNo> {
        matches!(self.config, ProviderConfig::Telegram(_)).then_some(self.app)
    }

    /// The body as JSON. `None` for what is none: it is logged, without what it holds, and taken all
    /// the same.
    fn json(&self, ctx: &Ctx, provider: ProviderKind) -> Option<Value> {
        let json = serde_json::from_slice(ctx.body()).ok();
        if json.is_none() {
            let (app, provider, bytes) = (self.app_id, provider.as_str(), ctx.body().len());
            tracing::warn!(%app, provider, bytes, "what a webhook brought is no JSON");
        }
        json
    }

    /// Takes note of what people did. Several writes where it is much: what was written before one
    /// fails changes nothing when it comes again.
    async fn take(&self, ctx: &Ctx, mut acts: Vec<Inbound>) -> Result<(), ApiError> {
        while !acts.is_empty() {
            let rest = acts.split_off(acts.len().min(ACTS_PER_WRITE_MAX));
            let part = std::mem::replace(&mut acts, rest);
            ctx.api().store.take_inbound(self.app, part, ctx.at()).await.map_err(unknown)?;
        }
        Ok(())
    }
}

/// An application that is gone is one that never was.
fn unknown(error: StoreError) -> ApiError {
    match error {
        StoreError::NotFound => ApiError::HookUnauthorized,
        StoreError::Refused(_)
        | StoreError::KeyReused
        | StoreError::Fenced
        | StoreError::Unavailable(_)
        | StoreError::Backend(_) => error.into(),
    }
}

/// An id for a new device.
fn make_id() -> DeviceId {
    DeviceId::from(Uuid::now_v7())
}

fn respond(outcome: Result<http::Response<Bytes>, ApiError>) -> http::Response<Bytes> {
    outcome.unwrap_or_else(ApiError::into_response)
}

// What people bring along in a link: `ref` of an m.me link, the payload of a bot's `/start`.

/// Fewest characters of an id that a link brings: 128 bits in base64url. A shorter one can be
/// guessed, and whoever guesses it first would be the device that the caller means by it.
const CHARS_MIN: usize = 22;
/// Most characters of one (Telegram, deep linking).
const CHARS_MAX: usize = 64;

/// The device id that a link brought, if it is one. Whether it is free is the store's to see.
fn device_id(text: &str) -> Option<DeviceId> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let is_id = (CHARS_MIN..=CHARS_MAX).contains(&text.len()) && text.bytes().all(allowed);
    if is_id { DeviceId::new(text).ok() } else { None }
}

// What is opened and compared where there is no webhook: it takes the time of one that is there.

/// A secret of the usual length. It may be known: a decoy lets no call in.
const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// A configuration for each platform that calls.
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
        let messenger = json!({"page_access_token": SECRET, "app_secret": SECRET,
            "verify_token": SECRET});
        let telegram = json!({"bot_token": SECRET, "webhook_secret": SECRET});
        let decoy = |provider: ProviderKind, body: Value| {
            let sealed = key.seal(NO_APP_ID, provider, body.to_string().as_bytes());
            let config = ProviderConfig::parse(provider, &body);
            let config = config.expect("a decoy keeps the rules of its provider");
            Decoy { row: ProviderRow { provider, sealed, updated_at: Timestamp(0) }, config }
        };
        Self {
            messenger: decoy(ProviderKind::Messenger, messenger),
            telegram: decoy(ProviderKind::Telegram, telegram),
        }
    }

    /// As the store has a real one.
    fn row(&self, provider: ProviderKind) -> (AppId, ProviderRow) {
        (NO_APP_ID, self.of(provider).row.clone())
    }

    /// As a real one is opened.
    fn config(&self, provider: ProviderKind) -> ProviderConfig {
        self.of(provider).config.clone()
    }

    fn of(&self, provider: ProviderKind) -> &Decoy {
        match provider {
            ProviderKind::Messenger => &self.messenger,
            ProviderKind::Telegram => &self.telegram,
            ProviderKind::Apns | ProviderKind::Fcm | ProviderKind::WebPush => {
                unreachable!("only chat platforms call")
            }
        }
    }
}

#[cfg(test)]
mod link_tests {
    use super::*;

    #[test]
    fn an_id_that_can_be_guessed_is_none() {
        for (text, expected) in [
            ("0190a7c0-0000-7000-8000-00000000ffff", true),
            ("n1fQFbYcbTUuBk7u3xC4_A", true),
            (&"a".repeat(64), true),
            (&"a".repeat(65), false),
            (&"a".repeat(21), false),
            ("user-1042", false),
            ("", false),
            ("0190a7c0.0000.7000.8000.00000000ffff", false),
            ("ünbekannt-ünbekannt-ünbekannt", false),
        ] {
            assert_eq!(device_id(text).is_some(), expected, "{text}");
        }
    }
}
