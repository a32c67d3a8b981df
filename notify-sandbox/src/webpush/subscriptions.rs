//! The subscriptions that browsers of the sandbox made.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use notify_core::WebSubscription;
use serde::Deserialize;

use super::browser::Browser;
use super::refusals;
use crate::sandbox::SandboxError;
use crate::sandbox::scene::Scene;

/// The most subscriptions at a time.
const SUBSCRIPTIONS_MAX: usize = 1_000_000;
/// Length of a VAPID public key, an uncompressed point, in bytes.
const POINT_BYTES: usize = 65;
/// Length of a browser's authentication secret (RFC 8291 §3.2), in bytes.
const AUTH_BYTES: usize = 16;

/// A subscription, as the push service and its browser know it.
pub(super) struct Subscribed {
    /// `None`: its keys are kept elsewhere, and what it is sent is shown as it came.
    pub(super) browser: Option<Browser>,
    /// The public VAPID key it was made with: messages signed with another are refused.
    pub(super) application_server_key: Vec<u8>,
}

/// The public half of the keys of a browser that is not the sandbox's, in base64url.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::sandbox) struct BrowserKeys {
    p256dh: String,
    auth: String,
}

/// All of them, by the id at the end of their endpoints.
#[derive(Default)]
pub(in crate::sandbox) struct Subscriptions(Mutex<HashMap<String, Arc<Subscribed>>>);

/// Why a browser does not subscribe.
#[derive(Debug, thiserror::Error)]
pub enum SubscribeError {
    /// The key is no point of the curve in base64url.
    #[error("application_server_key: must be a P-256 public key, 65 bytes in base64url")]
    Key,
    /// The keys are none that a browser makes.
    #[error("keys: must be a P-256 public key, 65 bytes, and 16 bytes, both in base64url")]
    BrowserKeys,
    /// No id can ask for that answer.
    #[error("script: is not known")]
    Script,
    /// Restart to begin anew.
    #[error("subscriptions: at most {SUBSCRIPTIONS_MAX} at a time")]
    Full,
    /// No keys could be made.
    #[error("cannot make keys")]
    Keys(#[from] SandboxError),
}

impl Subscriptions {
    pub(super) fn get(&self, id: &str) -> Option<Arc<Subscribed>> {
        self.0.lock().expect("no holder of the subscriptions panics").get(id).cloned()
    }
}

/// Subscribes a browser that the push service answers as `script` says, without its `-`. The key is
/// that of `/sandbox/config/webpush` where none is given; the browser is the sandbox's own unless
/// there are `keys` of another.
pub(in crate::sandbox) fn subscribe(
    scene: &Scene,
    application_server_key: Option<&str>,
    keys: Option<BrowserKeys>,
    script: &str,
) -> Result<WebSubscription, SubscribeError> {
    let application_server_key = match application_server_key {
        Some(key) => decode_key(key).ok_or(SubscribeError::Key)?,
        None => scene.credentials.vapid.public_key.clone(),
    };
    let ending = match script {
        "" => String::new(),
        script if refusals::is_script(script) => format!("-{script}"),
        _ => return Err(SubscribeError::Script),
    };
    let id = format!("{:032x}{ending}", fastrand::u128(..));
    let endpoint = format!("{}/push/{id}", scene.origin);
    let (browser, subscription) = match keys {
        None => {
            let browser = Browser::new()?;
            let subscription = browser.subscription(&endpoint);
            (Some(browser), subscription)
        }
        Some(BrowserKeys { p256dh, auth }) => {
            let secret = URL_SAFE_NO_PAD.decode(&auth);
            if decode_key(&p256dh).is_none()
                || secret.map_or(0, |secret| secret.len()) != AUTH_BYTES
            {
                return Err(SubscribeError::BrowserKeys);
            }
            (None, WebSubscription { endpoint, p256dh, auth })
        }
    };
    let subscribed = Arc::new(Subscribed { browser, application_server_key });
    let mut all = scene.subscriptions.0.lock().expect("no holder of the subscriptions panics");
    if all.len() >= SUBSCRIPTIONS_MAX {
        return Err(SubscribeError::Full);
    }
    all.insert(id, subscribed);
    Ok(subscription)
}

fn decode_key(text: &str) -> Option<Vec<u8>> {
    let key = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()?;
    (key.len() == POINT_BYTES && key[0] == 4).then_some(key)
}
