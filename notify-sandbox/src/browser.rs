//! A browser's keys, and decryption with them (RFC 8291). The code follows the text of the RFC and shares
//! nothing with the server's encryption. Shared code would let a mistake in both directions pass
//! unnoticed.

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{ECDH_P256, PrivateKey, UnparsedPublicKey, agree};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use notify_core::WebSubscription;

use crate::credentials::SandboxError;

/// The bytes before the key id: salt, record size and length of the key id (RFC 8188 section 2.1).
const HEAD_BYTES: usize = 16 + 4 + 1;
/// The length of the key id, in bytes. The key id is the sender's public key, an uncompressed point.
const POINT_BYTES: usize = 65;
/// The length of the tag that AES-GCM adds to a record, in bytes.
const TAG_BYTES: usize = 16;

/// A browser that can subscribe.
pub struct Browser {
    private: PrivateKey,
    public: Vec<u8>,
    auth: [u8; 16],
}

impl Browser {
    /// Generates keys.
    ///
    /// # Errors
    /// When the cryptography library fails.
    pub fn new() -> Result<Self, SandboxError> {
        let private = PrivateKey::generate(&ECDH_P256)?;
        let mut auth = [0; 16];
        aws_lc_rs::rand::fill(&mut auth)?;
        Ok(Self::with(private, auth)?)
    }

    fn with(private: PrivateKey, auth: [u8; 16]) -> Result<Self, Unspecified> {
        let public = private.compute_public_key()?.as_ref().to_vec();
        Ok(Self { private, public, auth })
    }

    /// The subscription that the browser gives to a page.
    #[must_use]
    pub fn subscription(&self, endpoint: &str) -> WebSubscription {
        WebSubscription {
            endpoint: endpoint.to_owned(),
            p256dh: URL_SAFE_NO_PAD.encode(&self.public),
            auth: URL_SAFE_NO_PAD.encode(self.auth),
        }
    }

    /// Decrypts a message, which must be one record (RFC 8291 section 4). `None` when the message is
    /// malformed or not encrypted for this browser.
    #[must_use]
    pub fn decrypt(&self, body: &[u8]) -> Option<Vec<u8>> {
        let (head, rest) = body.split_at_checked(HEAD_BYTES)?;
        let record_size = u32::from_be_bytes(head[16..20].try_into().ok()?);
        if usize::from(head[20]) != POINT_BYTES {
            return None;
        }
        let (sender, record) = rest.split_at_checked(POINT_BYTES)?;
        let is_one_record = usize::try_from(record_size).is_ok_and(|size| record.len() <= size);
        if !is_one_record || record.len() <= TAG_BYTES {
            return None;
        }
        let (key, nonce) = self.keys(&head[..16], sender)?;
        let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key).ok()?);
        let nonce = Nonce::try_assume_unique_for_key(&nonce).ok()?;
        let mut record = record.to_vec();
        let padded = key.open_in_place(nonce, Aad::empty(), &mut record).ok()?;
        let end = padded.iter().rposition(|byte| *byte != 0)?;
        (padded[end] == 2).then(|| padded[..end].to_vec())
    }

    /// Derives the content encryption key and the nonce (RFC 8291 section 3.4).
    fn keys(&self, salt: &[u8], sender: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
        let sender_key = UnparsedPublicKey::new(&ECDH_P256, sender);
        let shared =
            agree(&self.private, sender_key, Unspecified, |shared| Ok(shared.to_vec())).ok()?;
        let prk_key = mac(&self.auth, &[&shared]);
        let info = [b"WebPush: info\0".as_slice(), &self.public, sender, &[1]];
        let ikm = mac(prk_key.as_ref(), &info);
        let prk = mac(salt, &[ikm.as_ref()]);
        let key = mac(prk.as_ref(), &[b"Content-Encoding: aes128gcm\0\x01"]);
        let nonce = mac(prk.as_ref(), &[b"Content-Encoding: nonce\0\x01"]);
        Some((key.as_ref()[..16].to_vec(), nonce.as_ref()[..12].to_vec()))
    }
}

impl std::fmt::Debug for Browser {
    /// Never shows a key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Browser").finish_non_exhaustive()
    }
}

fn mac(key: &[u8], parts: &[&[u8]]) -> hmac::Tag {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    for part in parts {
        context.update(part);
    }
    context.sign()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str) -> Vec<u8> {
        URL_SAFE_NO_PAD.decode(text).unwrap()
    }

    /// The browser of RFC 8291, appendix A.
    fn browser() -> Browser {
        let private = decoded("q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94");
        let private = PrivateKey::from_private_key(&ECDH_P256, &private).unwrap();
        let auth = decoded("BTBZMqHH6r4Tts7J_aSIgg").try_into().unwrap();
        Browser::with(private, auth).unwrap()
    }

    fn message() -> Vec<u8> {
        decoded(
            "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocIn\
             mYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNW\
             QexSgSxsj_Qulcy4a-fN",
        )
    }

    #[test]
    fn the_example_of_rfc_8291_appendix_a_is_decrypted() {
        assert_eq!(
            browser().decrypt(&message()).unwrap(),
            b"When I grow up, I want to be a watermelon"
        );
        let public = browser().subscription("https://push.example/1").p256dh;
        assert_eq!(
            public,
            "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
        );
    }

    #[test]
    fn a_message_with_a_changed_bit_is_refused() {
        let message = message();
        for byte in 0..message.len() {
            for bit in [0, 7] {
                let mut changed = message.clone();
                changed[byte] ^= 1 << bit;
                // The record size is an upper limit, so a larger size is valid for the same record.
                let is_larger_size = (16..20).contains(&byte) && {
                    let size: [u8; 4] = changed[16..20].try_into().unwrap();
                    u32::from_be_bytes(size) > 58
                };
                let decrypted = browser().decrypt(&changed);
                assert_eq!(decrypted.is_some(), is_larger_size, "byte {byte}, bit {bit}");
            }
        }
        for length in 0..message.len() {
            assert!(browser().decrypt(&message[..length]).is_none(), "the first {length} bytes");
        }
    }
}
