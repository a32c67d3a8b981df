//! Creates, checks and hashes API keys and admin keys. A key is shown only once; the store keeps
//! only its SHA-256 and a hint.

use aws_lc_rs::digest;
use notify_core::{KeyId, Timestamp};
use secrecy::{ExposeSecret, SecretString};
use uuid::Uuid;

use crate::store::NewKey;

/// The characters of a key, in the order of their values in the checksum.
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Random characters of a key. 43 characters from an alphabet of 62 contain 256 bits.
const RANDOM_CHARS: usize = 43;
/// Characters of the checksum. 6 characters from an alphabet of 62 are enough for 32 bits.
const CHECKSUM_CHARS: usize = 6;
/// Longest text that is checked as a key, in bytes.
const KEY_BYTES_MAX: usize = 256;
/// How many characters of a key its hint ends with.
const HINT_CHARS: usize = 4;

/// What a key gives access to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyKind {
    /// One application, under `/v1`.
    Api,
    /// The devices that an app registers, under `/device/v1`. The key is not a secret.
    Publishable,
    /// The admin API.
    Admin,
}

impl KeyKind {
    /// All kinds.
    #[cfg(any(feature = "console", test))]
    pub(crate) const ALL: [Self; 3] = [Self::Api, Self::Publishable, Self::Admin];

    /// The prefix of keys of this kind.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::Api => "nk_",
            Self::Publishable => "np_",
            Self::Admin => "na_",
        }
    }
}

/// A new key. It exists in plain text only here.
pub(crate) struct FreshKey {
    /// The key.
    pub(crate) secret: SecretString,
    /// The hash and the hint, which are stored.
    pub(crate) stored: NewKey,
}

/// Generates a new key.
pub(crate) fn make_key(kind: KeyKind, name: Option<String>, at: Timestamp) -> FreshKey {
    let mut text = String::from(kind.prefix());
    while text.len() < kind.prefix().len() + RANDOM_CHARS {
        text.push(random_char());
    }
    let checksum = checksum(text.as_bytes());
    text.push_str(&checksum);
    let stored = NewKey {
        id: KeyId(Uuid::now_v7()),
        hash: hash(&text),
        hint: format!("{}…{}", kind.prefix(), &text[text.len() - HINT_CHARS..]),
        name,
        created_at: at,
    };
    FreshKey { secret: text.into(), stored }
}

/// The hash by which a key is looked up; `None` for a text that is not a key of this kind. The
/// checksum is checked without a query, so that guessed keys cost the server little.
pub(crate) fn key_hash(kind: KeyKind, text: &str) -> Option<[u8; 32]> {
    let is_long_enough = text.len() >= kind.prefix().len() + RANDOM_CHARS + CHECKSUM_CHARS;
    if !is_long_enough || text.len() > KEY_BYTES_MAX || !text.starts_with(kind.prefix()) {
        return None;
    }
    if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return None;
    }
    let (body, given_checksum) = text.split_at(text.len() - CHECKSUM_CHARS);
    (checksum(body.as_bytes()) == given_checksum).then(|| hash(text))
}

/// Generates the secret of the device of a browser or an app. Returns the secret and its hash. The secret needs no
/// checksum, because no person copies it and no scanner of repositories has to recognize it.
pub(crate) fn make_device_secret() -> (String, [u8; 32]) {
    let text: String = std::iter::repeat_with(random_char).take(RANDOM_CHARS).collect();
    let hash = hash(&text);
    (text, hash)
}

/// The name of a provider token: a digest of its owner and of the key that signs it.
pub type TokenName = [u8; 32];

/// SHA-256.
pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    digest::digest(&digest::SHA256, bytes)
        .as_ref()
        .try_into()
        .expect("a SHA-256 digest has 32 bytes")
}

/// Bytes as lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

fn hash(key: &str) -> [u8; 32] {
    sha256(key.as_bytes())
}

/// A random character of [`ALPHABET`]. All 62 characters are equally likely: a random byte of 248
/// (4 × 62) or more is rejected and drawn again.
fn random_char() -> char {
    const FAIR_MAX: u8 = 247;
    loop {
        let mut byte = [0];
        aws_lc_rs::rand::fill(&mut byte).expect("the operating system gives random bytes");
        if byte[0] <= FAIR_MAX {
            return char::from(ALPHABET[usize::from(byte[0] % 62)]);
        }
    }
}

/// CRC-32 (IEEE) of the text before the checksum, as six characters.
fn checksum(bytes: &[u8]) -> String {
    const POLYNOMIAL: u32 = 0xEDB8_8320;
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
        }
    }
    let mut rest = !crc;
    let mut characters = [0_u8; CHECKSUM_CHARS];
    for character in characters.iter_mut().rev() {
        *character = ALPHABET[(rest % 62) as usize];
        rest /= 62;
    }
    String::from_utf8_lossy(&characters).into_owned()
}

/// The key in plain text, to show it to its owner.
pub(crate) fn reveal(secret: &SecretString) -> String {
    secret.expose_secret().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_key_passes_only_the_check_of_its_kind() {
        for kind in KeyKind::ALL {
            let key = make_key(kind, None, Timestamp(0));
            let text = reveal(&key.secret);
            assert_eq!(text.len(), 3 + RANDOM_CHARS + CHECKSUM_CHARS);
            assert_eq!(key_hash(kind, &text), Some(key.stored.hash));
            for other in KeyKind::ALL.into_iter().filter(|other| *other != kind) {
                assert_eq!(key_hash(other, &text), None);
            }
            assert!(key.stored.hint.ends_with(&text[text.len() - 4..]));
            assert!(key.stored.hint.chars().count() <= 8);
        }
    }

    #[test]
    fn checksum_detects_every_changed_character() {
        let text = reveal(&make_key(KeyKind::Api, None, Timestamp(0)).secret);
        for place in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[place] = if bytes[place] == b'x' { b'y' } else { b'x' };
            let changed = String::from_utf8(bytes).unwrap();
            assert_eq!(key_hash(KeyKind::Api, &changed), None, "{place}");
        }
        for wrong in ["", "nk_", "nk_short", &"n".repeat(10_000)] {
            assert_eq!(key_hash(KeyKind::Api, wrong), None);
        }
    }

    #[test]
    fn checksum_is_crc32() {
        // CRC-32 of "123456789" is 0xCBF43926 = 3_421_780_262.
        let mut rest = 0xCBF4_3926_u32;
        let mut expected = Vec::new();
        for _ in 0..CHECKSUM_CHARS {
            expected.insert(0, char::from(ALPHABET[(rest % 62) as usize]));
            rest /= 62;
        }
        assert_eq!(checksum(b"123456789"), expected.into_iter().collect::<String>());
    }
}
