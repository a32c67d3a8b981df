//! Tokens that prove to the server which user an app or a page acts for. A token is not stored. It names the
//! user by number and time of creation, so it ends with the user, and a later user of the same id is another
//! one.

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use notify_core::{AppId, Timestamp};

use crate::secrets::MasterKey;
use crate::store::{UserIdentity, UserNo};

/// Prefix of every token.
const PREFIX: &str = "nu_";
/// First byte of a token: the version of the layout.
const LAYOUT: u8 = 1;
/// Bytes of the layout, the number of the user, its time of creation and the expiry.
const CLAIMS_BYTES: usize = 1 + 3 * 8;
/// Bytes of an HMAC-SHA256.
const TAG_BYTES: usize = 32;

/// Why a token is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UserTokenError {
    /// It was not signed for this application with this master key.
    Invalid,
    /// It was signed, and has expired.
    Expired,
}

/// Signs a token for a user of an application.
pub(crate) fn sign(
    key: &MasterKey,
    app: AppId,
    user: UserIdentity,
    expires_at: Timestamp,
) -> String {
    let mut token = vec![LAYOUT];
    for number in [user.no.0, user.created_at.as_ms(), expires_at.as_ms()] {
        token.extend_from_slice(&number.to_be_bytes());
    }
    let tag = hmac::sign(key.user_tokens(), &signed_bytes(app, &token));
    token.extend_from_slice(tag.as_ref());
    format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(token))
}

/// The user of a token. The caller checks that the user still exists.
///
/// # Errors
/// When the token is not valid for this application now. The signature is compared in constant time, and
/// before anything else is read from the token.
pub(crate) fn verify(
    key: &MasterKey,
    app: AppId,
    token: &str,
    now: Timestamp,
) -> Result<UserIdentity, UserTokenError> {
    let encoded = token.strip_prefix(PREFIX).ok_or(UserTokenError::Invalid)?;
    let bytes = URL_SAFE_NO_PAD.decode(encoded).map_err(|_| UserTokenError::Invalid)?;
    if bytes.len() != CLAIMS_BYTES + TAG_BYTES {
        return Err(UserTokenError::Invalid);
    }
    let (claims, tag) = bytes.split_at(CLAIMS_BYTES);
    hmac::verify(key.user_tokens(), &signed_bytes(app, claims), tag)
        .map_err(|_| UserTokenError::Invalid)?;
    let (numbers, _) = claims[1..].as_chunks::<8>();
    let &[no, created_at, expires_at] = numbers else { return Err(UserTokenError::Invalid) };
    if claims[0] != LAYOUT {
        return Err(UserTokenError::Invalid);
    }
    if i64::from_be_bytes(expires_at) <= now.as_ms() {
        return Err(UserTokenError::Expired);
    }
    Ok(UserIdentity {
        no: UserNo(i64::from_be_bytes(no)),
        created_at: Timestamp(i64::from_be_bytes(created_at)),
    })
}

/// What the signature covers: the application, and the claims. Both have a fixed length.
fn signed_bytes(app: AppId, claims: &[u8]) -> Vec<u8> {
    [app.0.as_bytes(), claims].concat()
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::STANDARD;
    use uuid::Uuid;

    use super::*;

    const NOW: Timestamp = Timestamp(1_795_219_200_000);
    const USER: UserIdentity = UserIdentity { no: UserNo((5 << 43) | 7), created_at: NOW };

    fn key(byte: u8) -> MasterKey {
        MasterKey::from_base64(&STANDARD.encode([byte; 32]).into()).unwrap()
    }

    fn app(number: u128) -> AppId {
        AppId(Uuid::from_u128(number))
    }

    #[test]
    fn a_token_is_valid_for_its_application_until_it_expires() {
        let expires_at = NOW.plus_ms(60_000);
        let token = sign(&key(1), app(1), USER, expires_at);
        assert_eq!(token.len(), 79);
        let verify =
            |key_byte, app_number, now| verify(&key(key_byte), app(app_number), &token, now);
        for (key, app, now, expected) in [
            (1, 1, NOW, Ok(USER)),
            (1, 1, NOW.plus_ms(59_999), Ok(USER)),
            (1, 1, expires_at, Err(UserTokenError::Expired)),
            (1, 1, expires_at.plus_ms(1), Err(UserTokenError::Expired)),
            (1, 2, NOW, Err(UserTokenError::Invalid)),
            (1, 2, expires_at, Err(UserTokenError::Invalid)),
            (2, 1, NOW, Err(UserTokenError::Invalid)),
        ] {
            assert_eq!(verify(key, app, now), expected, "key {key}, application {app}, {now}");
        }
    }

    #[test]
    fn no_part_of_a_token_can_be_changed() {
        let token = sign(&key(1), app(1), USER, NOW.plus_ms(60_000));
        let bytes = URL_SAFE_NO_PAD.decode(&token[3..]).unwrap();
        for place in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[place] ^= 1 << bit;
                let changed = format!("nu_{}", URL_SAFE_NO_PAD.encode(changed));
                let verified = verify(&key(1), app(1), &changed, NOW);
                assert_eq!(verified, Err(UserTokenError::Invalid), "bit {bit} of byte {place}");
            }
        }
        let longer = format!("nu_{}", URL_SAFE_NO_PAD.encode([&*bytes, &[0]].concat()));
        let shorter = format!("nu_{}", URL_SAFE_NO_PAD.encode(&bytes[..bytes.len() - 1]));
        let without_tag = format!("nu_{}", URL_SAFE_NO_PAD.encode(&bytes[..CLAIMS_BYTES]));
        for wrong in [
            &*longer,
            &*shorter,
            &*without_tag,
            &token[3..],
            &token.replace("nu_", "nk_"),
            &token.replace("nu_", "NU_"),
            &format!("{token}="),
            &format!(" {token}"),
            "nu_",
            "",
            "nu_ü",
        ] {
            let verified = verify(&key(1), app(1), wrong, NOW);
            assert_eq!(verified, Err(UserTokenError::Invalid), "{wrong}");
        }
    }

    #[test]
    fn the_signing_key_is_not_the_master_key() {
        let claims = [LAYOUT; CLAIMS_BYTES];
        let message = signed_bytes(app(1), &claims);
        let with_master_key = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &[1; 32]), &message);
        assert!(hmac::verify(key(1).user_tokens(), &message, with_master_key.as_ref()).is_err());
    }
}
