//! Encryption of one message for one browser (RFC 8291, with `aes128gcm` of RFC 8188). Each message has
//! a new key pair and a new salt, and consists of one record.

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::agreement::{ECDH_P256, PrivateKey, UnparsedPublicKey, agree};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use notify_core::WebSubscription;

/// Length of a salt, in bytes (RFC 8188 §2.1).
const SALT_BYTES: usize = 16;
/// Length of an uncompressed point of P-256, in bytes.
const POINT_BYTES: u8 = 65;
/// Size of a record, in bytes. Push services must accept a body of this size (RFC 8291 section 4).
const RECORD_BYTES: u32 = 4_096;
/// The delimiter at the end of the last record, which is the only one (RFC 8188 section 2).
const LAST_RECORD: u8 = 2;
/// Length of the derived input key material, in bytes (RFC 8291 §3.4).
const KEY_MATERIAL_BYTES: usize = 32;
/// Overhead of a body, in bytes: salt, record size, length of the key, key,
/// delimiter, tag.
pub(super) const OVERHEAD_BYTES: usize = SALT_BYTES + 4 + 1 + POINT_BYTES as usize + 1 + 16;

/// The recipient of an encrypted message.
pub(super) struct Receiver {
    public: Vec<u8>,
    auth: Vec<u8>,
}

impl Receiver {
    /// The keys of a subscription; `None` if they are invalid. Registration has checked them.
    pub(super) fn of(subscription: &WebSubscription) -> Option<Self> {
        let public = URL_SAFE_NO_PAD.decode(&subscription.p256dh).ok()?;
        let auth = URL_SAFE_NO_PAD.decode(&subscription.auth).ok()?;
        (public.len() == usize::from(POINT_BYTES)).then_some(Self { public, auth })
    }
}

/// Encrypts a message with a new key pair and a new salt.
///
/// # Errors
/// When the browser's public key is not a point of the curve.
pub(super) fn encrypt(text: &[u8], receiver: &Receiver) -> Result<Bytes, Unspecified> {
    let mut salt = [0; SALT_BYTES];
    aws_lc_rs::rand::fill(&mut salt)?;
    encrypt_with(text, receiver, &PrivateKey::generate(&ECDH_P256)?, salt)
}

/// Encrypts a message with the given key pair and salt. Each message needs new ones.
fn encrypt_with(
    text: &[u8],
    receiver: &Receiver,
    sender: &PrivateKey,
    salt: [u8; SALT_BYTES],
) -> Result<Bytes, Unspecified> {
    let sender_key = sender.compute_public_key()?;
    let sender_public = sender_key.as_ref();
    let public = UnparsedPublicKey::new(&ECDH_P256, &receiver.public);
    let key_material = agree(sender, public, Unspecified, |shared| {
        let browser_key = Salt::new(HKDF_SHA256, &receiver.auth).extract(shared);
        let info = [b"WebPush: info\0".as_slice(), &receiver.public, sender_public];
        let mut key_material = [0; KEY_MATERIAL_BYTES];
        browser_key.expand(&info, Length(KEY_MATERIAL_BYTES))?.fill(&mut key_material)?;
        Ok(key_material)
    })?;
    let message_key = Salt::new(HKDF_SHA256, &salt).extract(&key_material);
    let mut key_bytes = [0; 16];
    let key_info = [b"Content-Encoding: aes128gcm\0".as_slice()];
    message_key.expand(&key_info, Length(key_bytes.len()))?.fill(&mut key_bytes)?;
    let mut nonce_bytes = [0; NONCE_LEN];
    let nonce_info = [b"Content-Encoding: nonce\0".as_slice()];
    message_key.expand(&nonce_info, Length(nonce_bytes.len()))?.fill(&mut nonce_bytes)?;

    let mut record = Vec::with_capacity(text.len() + 1 + AES_128_GCM.tag_len());
    record.extend_from_slice(text);
    record.push(LAST_RECORD);
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key_bytes)?);
    let nonce = Nonce::assume_unique_for_key(nonce_bytes);
    key.seal_in_place_append_tag(nonce, Aad::empty(), &mut record)?;

    let mut body = Vec::with_capacity(text.len() + OVERHEAD_BYTES);
    body.extend_from_slice(&salt);
    body.extend_from_slice(&RECORD_BYTES.to_be_bytes());
    body.push(POINT_BYTES);
    body.extend_from_slice(sender_public);
    body.extend_from_slice(&record);
    Ok(body.into())
}

/// The length of a derived key, in bytes.
#[derive(Clone, Copy)]
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use notify_sandbox::Browser;

    fn decoded(text: &str) -> Vec<u8> {
        URL_SAFE_NO_PAD.decode(text).unwrap()
    }

    #[test]
    fn rfc_8291_appendix_a_example_matches() {
        let subscription = WebSubscription {
            endpoint: "https://push.example.net/push/JzLQ3raZJfFBR0aqvOMsLrt54w4rJUsV".to_owned(),
            p256dh: "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6\
                     SRpkNtoIAiw4"
                .to_owned(),
            auth: "BTBZMqHH6r4Tts7J_aSIgg".to_owned(),
        };
        let sender = decoded("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw");
        let sender = PrivateKey::from_private_key(&ECDH_P256, &sender).unwrap();
        let salt = decoded("DGv6ra1nlYgDCS1FRnbzlw").try_into().unwrap();
        let text = b"When I grow up, I want to be a watermelon";
        let receiver = Receiver::of(&subscription).unwrap();
        let body = encrypt_with(text, &receiver, &sender, salt).unwrap();
        assert_eq!(
            URL_SAFE_NO_PAD.encode(body),
            "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocIn\
             mYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNW\
             QexSgSxsj_Qulcy4a-fN"
        );
    }

    #[test]
    fn browser_decrypts_and_bodies_are_unique() {
        let browser = Browser::new().unwrap();
        let keys = browser.subscription("https://push.example/1");
        let receiver = Receiver::of(&keys).unwrap();
        for length in [0, 1, 15, 16, 17, 300, 3_992, 3_993] {
            let text: Vec<u8> = (0..length).map(|at| u8::try_from(at % 251).unwrap()).collect();
            let body = encrypt(&text, &receiver).unwrap();
            assert_eq!(body.len(), length + OVERHEAD_BYTES);
            assert_eq!(browser.decrypt(&body).unwrap(), text, "{length}");
            let again = encrypt(&text, &receiver).unwrap();
            assert_ne!(body[..SALT_BYTES], again[..SALT_BYTES], "a new salt");
            assert_ne!(body[21..86], again[21..86], "a new key pair");
        }
        assert_eq!(3_993 + OVERHEAD_BYTES, usize::try_from(RECORD_BYTES).unwrap());
        let other = Browser::new().unwrap();
        assert!(
            other.decrypt(&encrypt(b"x", &receiver).unwrap()).is_none(),
            "another browser cannot decrypt the message"
        );
    }

    #[test]
    fn invalid_keys_are_rejected_before_encryption() {
        let good = Browser::new().unwrap().subscription("https://push.example/1");
        for p256dh in ["", "AAAA", "!", &format!("BAEB{}", "AQEB".repeat(20) + "AQE")] {
            let subscription = WebSubscription { p256dh: p256dh.to_owned(), ..good.clone() };
            let receiver = Receiver::of(&subscription);
            let encrypted = receiver.and_then(|receiver| encrypt(b"x", &receiver).ok());
            assert!(encrypted.is_none(), "{p256dh}");
        }
    }
}
