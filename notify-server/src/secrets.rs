//! Encrypts secrets before they are stored. Provider credentials, secrets of webhooks and provider
//! tokens are sealed with the master key (AES-256-GCM). The id of the key is stored with the
//! ciphertext, so that a wrong key can be distinguished from a damaged row. A sealed secret is
//! bound to its owner, such as an application and a provider: a row that is copied to another owner
//! cannot be opened.

mod file;

pub(crate) use self::file::warn_if_exposed;

use aws_lc_rs::aead::{AES_256_GCM, Aad, Nonce, RandomizedNonceKey};
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use notify_core::{AppId, ProviderKind, WebhookId};
use secrecy::{ExposeSecret, SecretString};
use zeroize::Zeroizing;

use crate::keys::{TokenName, sha256};
use crate::pasted::trimmed;

/// Length of a master key, in bytes.
const MASTER_KEY_BYTES: usize = 32;
/// First byte of a sealed secret: the version of the layout.
const LAYOUT: u8 = 1;
const KEY_ID_BYTES: usize = 8;
const NONCE_BYTES: usize = 12;

/// Why a secret could not be sealed or opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SecretError {
    /// The secret was sealed with another master key.
    #[error("sealed with another master key")]
    OtherKey,
    /// The secret is damaged, or belongs to another owner.
    #[error("sealed secret is damaged")]
    Damaged,
}

/// Why there is no usable master key.
#[derive(Debug, thiserror::Error)]
pub enum MasterKeyError {
    /// The text is not a key.
    #[error("the master key must be 32 bytes in base64")]
    Malformed,
    /// The file cannot be read or created.
    #[error("the file cannot be used")]
    File(#[from] std::io::Error),
    /// There is no key, and the database contains sealed secrets.
    #[error(
        "it is missing, and the provider credentials in the database are sealed with it; {IF_LOST}"
    )]
    Missing,
    /// The key does not open the sealed secrets.
    #[error("the provider credentials in the database are sealed with another one; {IF_LOST}")]
    Other,
}

/// What an operator can do without the right key.
const IF_LOST: &str = "put the kept copy of the key there; only if it is lost for good, \
    `notify-server forget-credentials` (for a backup: `restore --forget-credentials`) deletes what it sealed";

/// What the key that signs user tokens is derived for.
const USER_TOKENS: &[u8] = b"notify user tokens";

/// The key that seals secrets.
pub(crate) struct MasterKey {
    id: [u8; KEY_ID_BYTES],
    key: RandomizedNonceKey,
    /// Derived from the master key, so that the servers of one database accept each other's user tokens.
    user_tokens: hmac::Key,
}

impl std::fmt::Debug for MasterKey {
    /// Never shows the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MasterKey").finish_non_exhaustive()
    }
}

impl MasterKey {
    /// Parses a key in base64.
    ///
    /// # Errors
    /// When the text is not 32 bytes in base64.
    pub(crate) fn from_base64(text: &SecretString) -> Result<Self, MasterKeyError> {
        let decoded = BASE64.decode(trimmed(text.expose_secret())).map(Zeroizing::new);
        let bytes = decoded.map_err(|_| MasterKeyError::Malformed)?;
        if bytes.len() != MASTER_KEY_BYTES {
            return Err(MasterKeyError::Malformed);
        }
        let key = RandomizedNonceKey::new(&AES_256_GCM, &bytes)
            .expect("the length was checked just above");
        let labelled = Zeroizing::new([b"notify master key id", bytes.as_slice()].concat());
        let digest = sha256(&labelled);
        let id = digest[..KEY_ID_BYTES].try_into().expect("a digest is longer than a key id");
        let derived = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &bytes), USER_TOKENS);
        let user_tokens = hmac::Key::new(hmac::HMAC_SHA256, derived.as_ref());
        Ok(Self { id, key, user_tokens })
    }

    /// Seals a provider's configuration.
    #[must_use]
    pub(crate) fn seal(&self, app: AppId, provider: ProviderKind, plain: &[u8]) -> Vec<u8> {
        self.seal_bound(&provider_owner(app, provider), plain)
    }

    /// Seals the secret of a webhook.
    #[must_use]
    pub(crate) fn seal_webhook(&self, app: AppId, id: WebhookId, plain: &[u8]) -> Vec<u8> {
        self.seal_bound(&webhook_owner(app, id), plain)
    }

    /// Seals a provider token that the servers of one database share.
    #[must_use]
    pub(crate) fn seal_token(&self, name: &TokenName, plain: &[u8]) -> Vec<u8> {
        self.seal_bound(&token_owner(name), plain)
    }

    /// The key that signs user tokens.
    pub(crate) fn user_tokens(&self) -> &hmac::Key {
        &self.user_tokens
    }

    fn seal_bound(&self, owner: &str, plain: &[u8]) -> Vec<u8> {
        let mut text = plain.to_vec();
        let nonce = self
            .key
            .seal_in_place_append_tag(Aad::from(owner), &mut text)
            .expect("AES-GCM seals any configuration, which is far below its limit");
        let mut sealed = vec![LAYOUT];
        sealed.extend_from_slice(&self.id);
        sealed.extend_from_slice(nonce.as_ref());
        sealed.append(&mut text);
        sealed
    }

    /// Opens what [`Self::seal`] sealed for the same application and provider.
    ///
    /// # Errors
    /// When it was sealed with another key, or is damaged.
    pub(crate) fn open(
        &self,
        app: AppId,
        provider: ProviderKind,
        sealed: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, SecretError> {
        self.open_bound(&provider_owner(app, provider), sealed)
    }

    /// Opens what [`Self::seal_webhook`] sealed for the same webhook.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn open_webhook(
        &self,
        app: AppId,
        id: WebhookId,
        sealed: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, SecretError> {
        self.open_bound(&webhook_owner(app, id), sealed)
    }

    /// Opens what [`Self::seal_token`] sealed under the same name.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn open_token(
        &self,
        name: &TokenName,
        sealed: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, SecretError> {
        self.open_bound(&token_owner(name), sealed)
    }

    fn open_bound(&self, owner: &str, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, SecretError> {
        let (layout, rest) = sealed.split_at_checked(1).ok_or(SecretError::Damaged)?;
        let (id, rest) = rest.split_at_checked(KEY_ID_BYTES).ok_or(SecretError::Damaged)?;
        let (nonce, text) = rest.split_at_checked(NONCE_BYTES).ok_or(SecretError::Damaged)?;
        if layout != [LAYOUT] {
            return Err(SecretError::Damaged);
        }
        if id != self.id {
            return Err(SecretError::OtherKey);
        }
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| SecretError::Damaged)?;
        let mut text = Zeroizing::new(text.to_vec());
        let plain_bytes = self
            .key
            .open_in_place(nonce, Aad::from(owner), &mut text)
            .map_err(|_| SecretError::Damaged)?
            .len();
        text.truncate(plain_bytes);
        Ok(text)
    }
}

/// The owner of a provider's sealed configuration.
fn provider_owner(app: AppId, provider: ProviderKind) -> String {
    format!("{app}/{provider}")
}

fn webhook_owner(app: AppId, id: WebhookId) -> String {
    format!("{app}/webhook/{id}")
}

fn token_owner(name: &TokenName) -> String {
    format!("provider token/{}", BASE64.encode(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn key(byte: u8) -> MasterKey {
        MasterKey::from_base64(&BASE64.encode([byte; 32]).into()).unwrap()
    }

    #[test]
    fn sealed_secret_opens_only_for_its_application_and_provider() {
        let (app, other) = (AppId(Uuid::from_u128(1)), AppId(Uuid::from_u128(2)));
        let key = key(7);
        let sealed = key.seal(app, ProviderKind::Apns, b"secret");
        assert!(!sealed.windows(6).any(|part| part == b"secret"));
        assert_eq!(key.open(app, ProviderKind::Apns, &sealed).unwrap().as_slice(), b"secret");
        for (app, provider) in [(other, ProviderKind::Apns), (app, ProviderKind::Fcm)] {
            assert_eq!(key.open(app, provider, &sealed), Err(SecretError::Damaged));
        }
        assert_ne!(sealed, key.seal(app, ProviderKind::Apns, b"secret"), "nonces never repeat");
    }

    #[test]
    fn sealed_token_opens_only_under_its_name() {
        let key = key(7);
        let sealed = key.seal_token(&[1; 32], b"token");
        assert_eq!(key.open_token(&[1; 32], &sealed).unwrap().as_slice(), b"token");
        assert_eq!(key.open_token(&[2; 32], &sealed), Err(SecretError::Damaged));
    }

    #[test]
    fn wrong_master_key_is_distinguished_from_damage() {
        let app = AppId(Uuid::from_u128(1));
        let sealed = key(7).seal(app, ProviderKind::Fcm, b"secret");
        assert_eq!(key(8).open(app, ProviderKind::Fcm, &sealed), Err(SecretError::OtherKey));
        for cut in 0..sealed.len() {
            let outcome = key(7).open(app, ProviderKind::Fcm, &sealed[..cut]);
            assert_eq!(outcome, Err(SecretError::Damaged), "{cut}");
        }
    }

    #[test]
    fn invalid_master_key_text_is_refused() {
        for text in ["", "abc", &BASE64.encode([1; 31]), &BASE64.encode([1; 33])] {
            let outcome = MasterKey::from_base64(&SecretString::from(text.to_owned()));
            assert!(matches!(outcome, Err(MasterKeyError::Malformed)), "{text}");
        }
    }
}
