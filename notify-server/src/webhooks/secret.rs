//! Secrets of webhooks: made here, sealed with the master key, shown once.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use notify_core::{AppId, WebhookId};
use zeroize::Zeroizing;

use crate::secrets::{MasterKey, SecretError};
use crate::store::SealedSecret;

/// What every secret begins with (Standard Webhooks 1.0.0).
const PREFIX: &str = "whsec_";
/// Random bytes of a secret; the scheme asks for 24 to 64.
const SECRET_BYTES: usize = 32;

/// Makes a secret of a webhook, sealed.
pub(crate) fn make_secret(key: &MasterKey, app: AppId, id: WebhookId) -> SealedSecret {
    let mut secret = Zeroizing::new([0; SECRET_BYTES]);
    aws_lc_rs::rand::fill(secret.as_mut_slice()).expect("the operating system gives random bytes");
    SealedSecret { id, sealed: key.seal_webhook(app, id, secret.as_slice()) }
}

/// The secret as its webhook's owner sees it.
pub(crate) fn open_secret(
    key: &MasterKey,
    app: AppId,
    secret: &SealedSecret,
) -> Result<String, SecretError> {
    let bytes = key.open_webhook(app, secret.id, &secret.sealed)?;
    Ok(format!("{PREFIX}{}", BASE64.encode(bytes.as_slice())))
}
