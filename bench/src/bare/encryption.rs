//! Encryption for a browser (RFC 8291) and the VAPID token (RFC 8292), directly with aws-lc-rs: the minimum
//! work for a message to a browser.

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{ECDH_P256, PrivateKey, UnparsedPublicKey, agree};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use serde_json::json;

use crate::seed::now;

/// Size of the one record, in bytes.
const RECORD_BYTES: u32 = 4_096;
/// Length of a public key, in bytes.
const POINT_BYTES: u8 = 65;
/// Lifetime of a token, in seconds.
const TOKEN_SECONDS: i64 = 12 * 3_600;

/// Length of derived key material, in bytes.
#[derive(Clone, Copy)]
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// Encrypts for a browser's public key and secret, with a new key pair and salt.
pub(crate) fn encrypt(text: &[u8], public: &[u8], secret: &[u8]) -> Result<Bytes, Unspecified> {
    let mut salt = [0; 16];
    aws_lc_rs::rand::fill(&mut salt)?;
    let sender = PrivateKey::generate(&ECDH_P256)?;
    let sender_public = sender.compute_public_key()?;
    let mut material = [0; 32];
    agree(&sender, UnparsedPublicKey::new(&ECDH_P256, public), Unspecified, |shared| {
        let info = [b"WebPush: info\0".as_slice(), public, sender_public.as_ref()];
        let of_browser = Salt::new(HKDF_SHA256, secret).extract(shared);
        of_browser.expand(&info, Length(32))?.fill(&mut material)
    })?;
    let of_message = Salt::new(HKDF_SHA256, &salt).extract(&material);
    let (mut key, mut nonce) = ([0; 16], [0; 12]);
    of_message.expand(&[b"Content-Encoding: aes128gcm\0"], Length(16))?.fill(&mut key)?;
    of_message.expand(&[b"Content-Encoding: nonce\0"], Length(12))?.fill(&mut nonce)?;

    let mut body = Vec::with_capacity(text.len() + 103);
    body.extend_from_slice(&salt);
    body.extend_from_slice(&RECORD_BYTES.to_be_bytes());
    body.push(POINT_BYTES);
    body.extend_from_slice(sender_public.as_ref());
    let head = body.len();
    body.extend_from_slice(text);
    body.push(2);
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key)?);
    let nonce = Nonce::assume_unique_for_key(nonce);
    let tag = key.seal_in_place_separate_tag(nonce, Aad::empty(), &mut body[head..])?;
    body.extend_from_slice(tag.as_ref());
    Ok(body.into())
}

/// The `authorization` of every message to a push service.
pub(crate) fn vapid(private: &str, subject: &str, origin: &str) -> anyhow::Result<String> {
    let raw = URL_SAFE_NO_PAD.decode(private)?;
    let public = PrivateKey::from_private_key(&ECDH_P256, &raw)?.compute_public_key()?;
    let pair = EcdsaKeyPair::from_private_key_and_public_key(
        &ECDSA_P256_SHA256_FIXED_SIGNING,
        &raw,
        public.as_ref(),
    )?;
    let claims =
        json!({ "aud": origin, "exp": now().as_seconds() + TOKEN_SECONDS, "sub": subject });
    let part = |json: serde_json::Value| URL_SAFE_NO_PAD.encode(json.to_string());
    let signed = format!("{}.{}", part(json!({ "typ": "JWT", "alg": "ES256" })), part(claims));
    let signature = pair.sign(&SystemRandom::new(), signed.as_bytes())?;
    let signature = URL_SAFE_NO_PAD.encode(signature);
    let key = URL_SAFE_NO_PAD.encode(public);
    Ok(format!("vapid t={signed}.{signature}, k={key}"))
}
