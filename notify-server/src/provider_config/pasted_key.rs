//! Private keys and certificates as people paste them. A key can have lost the ends of its lines or its header,
//! be in base64 as a whole, or be in another form than the one that its owner issues. What cannot be read is
//! named by what it looks like, and never shown.

use std::borrow::Cow;

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rsa;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P256K1_SHA256_FIXED_SIGNING,
    ECDSA_P384_SHA384_FIXED_SIGNING, ECDSA_P521_SHA512_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
};
use base64::Engine as _;
use base64::alphabet;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, STANDARD};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use serde_json::{Map, Value};
use zeroize::Zeroizing;

use crate::pasted::trimmed;

/// The most wrappings around a key, such as base64 around JSON around PEM.
const WRAPPINGS_MAX: usize = 4;
/// The most blocks of one PEM text. A bundle of all public authorities has fewer.
const BLOCKS_MAX: usize = 512;
/// Length of a private key of P-256 as a number, in bytes.
const NUMBER_BYTES: usize = 32;
/// Fewest bytes that are another wrapping rather than the key itself.
const TEXT_BYTES_MIN: usize = 40;
/// The beginning of a PEM block.
const BEGIN: &str = "-BEGIN ";
/// Length of a line of base64 in PEM (RFC 7468 section 2).
const PEM_LINE_CHARS: usize = 64;

/// base64 with and without padding. The text is brought to the standard alphabet first.
const ANY_BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// What a text that is not the wanted key looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Looks {
    /// Neither PEM nor base64.
    #[error("plain text")]
    Text,
    /// The name of a file in the place of its content.
    #[error("the name of a file: give the content of the file")]
    FileName,
    /// A variable that was not replaced, or an example.
    #[error("a placeholder")]
    Placeholder,
    /// JSON without a key.
    #[error("JSON")]
    Json,
    /// The beginning of an object that cannot be parsed.
    #[error("JSON with a syntax error")]
    InvalidJson,
    /// A key or certificate in the place of a file that contains one.
    #[error("only a key: give the whole file, from {{ to }}")]
    Pem,
    /// The beginning of a key.
    #[error("a key that was cut off: its end is missing")]
    Cut,
    /// A key whose content cannot be read.
    #[error("a damaged key")]
    Damaged,
    /// base64 of something else.
    #[error("base64 without a header, of something else")]
    Base64,
    /// The number of a P-256 key.
    #[error("32 bytes in base64 without a header, such as a key of Web Push")]
    Number,
    /// The point of a P-256 key.
    #[error("a public key, where the private key is needed")]
    PublicKey,
    #[error("a certificate, where a private key is needed")]
    Certificate,
    #[error("a certificate signing request")]
    SigningRequest,
    #[error("an encrypted private key: decrypt it first, such as with `openssl pkey`")]
    Encrypted,
    #[error("a .p12 or .pfx file, which contains a certificate and its key")]
    Pkcs12,
    #[error("a key of OpenSSH")]
    OpenSsh,
    #[error("the parameters of a key without the key")]
    Parameters,
    #[error("an RSA key")]
    Rsa,
    /// An elliptic curve other than the wanted one.
    #[error("a key of {0}")]
    Curve(&'static str),
    /// A private key of a kind that nothing here uses.
    #[error("a private key of another kind")]
    OtherKey,
}

/// Reads a P-256 key: PKCS#8 or SEC1, in PEM or in base64 without a header.
pub(super) fn p256(text: &str) -> Result<EcdsaKeyPair, Looks> {
    p256_of(&decoded(text)?)
}

/// Reads a P-256 key in any form that [`p256`] reads, or as its number in base64 or in hexadecimal digits.
pub(super) fn p256_or_number(text: &str) -> Result<EcdsaKeyPair, Looks> {
    let bytes = decoded(text)?;
    if bytes.len() == NUMBER_BYTES {
        return p256_of_number(&bytes).ok_or(Looks::Damaged);
    }
    p256_of(&bytes)
}

fn p256_of(der: &[u8]) -> Result<EcdsaKeyPair, Looks> {
    EcdsaKeyPair::from_private_key_der(&ECDSA_P256_SHA256_FIXED_SIGNING, der)
        .map_err(|_| look_of(der))
}

fn p256_of_number(number: &[u8]) -> Option<EcdsaKeyPair> {
    use aws_lc_rs::agreement::{ECDH_P256, PrivateKey};
    let public =
        PrivateKey::from_private_key(&ECDH_P256, number).ok()?.compute_public_key().ok()?;
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    EcdsaKeyPair::from_private_key_and_public_key(algorithm, number, public.as_ref()).ok()
}

/// Reads an RSA key, PKCS#8 or PKCS#1, in PEM or in base64 without a header. Returns it as PKCS#8 in PEM.
pub(super) fn rsa_pem(text: &str) -> Result<Zeroizing<String>, Looks> {
    let der = decoded(text)?;
    let key = rsa_of(&der).ok_or_else(|| match look_of(&der) {
        Looks::Rsa => Looks::Damaged,
        other => other,
    })?;
    let pkcs8 = key.as_der().map_err(|_| Looks::Damaged)?;
    Ok(Zeroizing::new(to_pem("PRIVATE KEY", pkcs8.as_ref())))
}

fn rsa_of(der: &[u8]) -> Option<rsa::KeyPair> {
    rsa::KeyPair::from_pkcs8(der).or_else(|_| rsa::KeyPair::from_der(der)).ok()
}

/// Reads certificates, in PEM or as base64 of one certificate. Returns them in PEM.
pub(super) fn certificates_pem(text: &str) -> Result<String, Looks> {
    const LABEL: &str = "CERTIFICATE";
    let pem = match unwrapped(text)? {
        Unwrapped::Pem(pem) => pem,
        Unwrapped::Bytes(der) => {
            return match look_of(&der) {
                Looks::Certificate => Ok(to_pem(LABEL, &der)),
                other => Err(other),
            };
        }
    };
    let blocks = pem_blocks(&pem);
    let certificates = || blocks.iter().filter(|block| block.label.ends_with(LABEL));
    if certificates().next().is_none() {
        return Err(match private_key(&blocks) {
            Ok(der) => look_of(&der),
            Err(looks) => looks,
        });
    }
    certificates().map(|block| Ok(to_pem(LABEL, &block.bytes()?))).collect()
}

/// A PEM block (RFC 7468 section 2).
fn to_pem(label: &str, der: &[u8]) -> String {
    let text = Zeroizing::new(STANDARD.encode(der));
    let mut pem = format!("-----BEGIN {label}-----\n");
    for line in text.as_bytes().chunks(PEM_LINE_CHARS) {
        pem.push_str(std::str::from_utf8(line).expect("base64 is ASCII"));
        pem.push('\n');
    }
    pem.push_str(&format!("-----END {label}-----\n"));
    pem
}

/// The bytes of a private key, without the wrappings of its text.
fn decoded(text: &str) -> Result<Zeroizing<Vec<u8>>, Looks> {
    match unwrapped(text)? {
        Unwrapped::Pem(pem) => private_key(&pem_blocks(&pem)),
        Unwrapped::Bytes(bytes) => Ok(bytes),
    }
}

/// A text without its wrappings.
enum Unwrapped {
    /// A text with at least one PEM block.
    Pem(Zeroizing<String>),
    Bytes(Zeroizing<Vec<u8>>),
}

fn unwrapped(text: &str) -> Result<Unwrapped, Looks> {
    let mut text = Zeroizing::new(trimmed(text).to_owned());
    for _ in 0..WRAPPINGS_MAX {
        if text.starts_with(['{', '[']) {
            text = Zeroizing::new(key_in_json(&text).ok_or(Looks::Json)?);
            continue;
        }
        let plain = unescaped(&text);
        if plain.contains(BEGIN) {
            return Ok(Unwrapped::Pem(plain));
        }
        if has_placeholder(&text) {
            return Err(Looks::Placeholder);
        }
        if is_file_name(&text) {
            return Err(Looks::FileName);
        }
        let bytes = hexadecimal(&text).or_else(|| from_base64(&plain)).ok_or(Looks::Text)?;
        let is_readable = |c: char| c.is_ascii_graphic() || c.is_ascii_whitespace();
        let inner = std::str::from_utf8(&bytes).ok().map(trimmed);
        match inner.filter(|inner| inner.len() >= TEXT_BYTES_MIN && inner.chars().all(is_readable))
        {
            Some(inner) => text = Zeroizing::new(inner.to_owned()),
            None => return Ok(Unwrapped::Bytes(bytes)),
        }
    }
    Err(Looks::Text)
}

/// Whether a text has a placeholder that a key should have replaced.
fn has_placeholder(text: &str) -> bool {
    ["${", "$(", "{{", "...", "…", "***"].iter().any(|mark| text.contains(mark))
}

/// The content of the block that has a private key.
fn private_key(blocks: &[Block<'_>]) -> Result<Zeroizing<Vec<u8>>, Looks> {
    let block = blocks.iter().find(|block| block.label.ends_with("PRIVATE KEY"));
    block.or(blocks.first()).ok_or(Looks::Text)?.private_key()
}

/// A text with ends of lines in the place of the escapes that programs write for them, and with plain hyphens.
fn unescaped(text: &str) -> Zeroizing<String> {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            // `\n`, and `\\n` of a text that was escaped twice; `\/`; a backslash at the end of a line.
            '\\' => {
                if letters.next_if(|next| matches!(next, 'n' | 'r' | 't')).is_some() {
                    plain.push('\n');
                }
            }
            '–' | '—' | '−' | '‐' | '‑' => plain.push('-'),
            letter => plain.push(letter),
        }
    }
    Zeroizing::new(plain)
}

/// A block of a PEM text.
struct Block<'t> {
    label: &'t str,
    body: &'t str,
    /// Whether its last line is there.
    is_complete: bool,
}

/// The blocks of a PEM text. The number of hyphens and the ends of lines do not matter.
fn pem_blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once(BEGIN)
        && blocks.len() < BLOCKS_MAX
    {
        let (label, after) = after.split_once('-').unwrap_or((after, ""));
        let after = after.trim_start_matches('-');
        let (body, is_complete) = match after.split_once("-END ") {
            Some((body, next)) => {
                rest = next;
                (body.trim_end_matches('-'), true)
            }
            None => {
                rest = "";
                (after, false)
            }
        };
        blocks.push(Block { label: label.trim(), body, is_complete });
    }
    blocks
}

impl Block<'_> {
    /// The content of a block that has a private key.
    fn private_key(&self) -> Result<Zeroizing<Vec<u8>>, Looks> {
        match self.label {
            // A header names the cipher (RFC 1421 section 4.6.1.1).
            _ if self.body.contains("ENCRYPTED") => Err(Looks::Encrypted),
            "ENCRYPTED PRIVATE KEY" => Err(Looks::Encrypted),
            "OPENSSH PRIVATE KEY" => Err(Looks::OpenSsh),
            "EC PARAMETERS" => Err(Looks::Parameters),
            label if label.contains("PUBLIC KEY") => Err(Looks::PublicKey),
            label if label.contains("REQUEST") => Err(Looks::SigningRequest),
            label if label.contains("PKCS12") => Err(Looks::Pkcs12),
            label if label.contains("CERTIFICATE") || label == "PKCS7" => Err(Looks::Certificate),
            label if label.ends_with("PRIVATE KEY") => self.bytes(),
            _ => Err(Looks::Text),
        }
    }

    fn bytes(&self) -> Result<Zeroizing<Vec<u8>>, Looks> {
        if has_placeholder(self.body) {
            return Err(Looks::Placeholder);
        }
        if !self.is_complete {
            return Err(Looks::Cut);
        }
        from_base64(self.body).ok_or(Looks::Damaged)
    }
}

/// Decodes base64 of any alphabet. Blanks do not matter, nor do the quotes and commas of a list of lines.
pub(super) fn from_base64(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let kept = text.chars().filter(|c| !c.is_whitespace() && !matches!(c, '"' | '\'' | ','));
    let standard = kept.map(|c| match c {
        '-' => '+',
        '_' => '/',
        other => other,
    });
    let standard = Zeroizing::new(standard.collect::<String>());
    let bytes = ANY_BASE64.decode(standard.trim_end_matches('=')).ok()?;
    (!bytes.is_empty()).then(|| Zeroizing::new(bytes))
}

/// Decodes the number of a P-256 key in hexadecimal digits. As base64, this many digits would be 48 bytes,
/// which no key has.
fn hexadecimal(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    if text.len() != 2 * NUMBER_BYTES || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let digits = (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16));
    digits.collect::<Result<_, _>>().map(Zeroizing::new).ok()
}

/// The private key in a JSON object: of a service account, of a program that generates keys for Web Push, or a
/// JWK of an elliptic curve (RFC 7518 section 6.2).
fn key_in_json(text: &str) -> Option<String> {
    let object: Map<String, Value> = serde_json::from_str(text).ok()?;
    let is_curve = object.get("kty").and_then(Value::as_str) == Some("EC");
    let names = ["private_key", "privateKey", if is_curve { "d" } else { "private_key" }];
    let key = names.into_iter().find_map(|name| object.get(name))?.as_str()?;
    Some(trimmed(key).to_owned())
}

/// Whether a text names a file.
fn is_file_name(text: &str) -> bool {
    const ENDINGS: [&str; 10] =
        [".p8", ".pem", ".key", ".json", ".p12", ".pfx", ".crt", ".cer", ".der", ".txt"];
    const BEGINNINGS: [&str; 8] = ["file:", "@", "./", "~/", "/run/", "/etc/", "/var/", "/home/"];
    let lower = text.to_ascii_lowercase();
    !text.contains('\n')
        && (ENDINGS.iter().any(|ending| lower.ends_with(ending))
            || BEGINNINGS.iter().any(|beginning| text.starts_with(beginning)))
}

/// What bytes look like.
fn look_of(der: &[u8]) -> Looks {
    let curves = [
        (&ECDSA_P384_SHA384_FIXED_SIGNING, "P-384"),
        (&ECDSA_P521_SHA512_FIXED_SIGNING, "P-521"),
        (&ECDSA_P256K1_SHA256_FIXED_SIGNING, "secp256k1"),
        (&ECDSA_P256_SHA256_FIXED_SIGNING, "P-256"),
    ];
    for (algorithm, name) in curves {
        if EcdsaKeyPair::from_private_key_der(algorithm, der).is_ok() {
            return Looks::Curve(name);
        }
    }
    if rsa_of(der).is_some() {
        return Looks::Rsa;
    }
    if Ed25519KeyPair::from_pkcs8(der).is_ok() {
        return Looks::Curve("Ed25519");
    }
    if RootCertStore::empty().add(CertificateDer::from(der)).is_ok() {
        return Looks::Certificate;
    }
    if der.len() == NUMBER_BYTES {
        return Looks::Number;
    }
    // An uncompressed point (SEC 1 section 2.3.3).
    if der.len() == 2 * NUMBER_BYTES + 1 && der[0] == 4 {
        return Looks::PublicKey;
    }
    look_of_shape(der)
}

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const SEQUENCE: u8 = 0x30;

/// What the first elements of DER look like.
fn look_of_shape(der: &[u8]) -> Looks {
    let Some((SEQUENCE, length, inside)) = header(der) else { return Looks::Base64 };
    if inside.len() < length {
        return Looks::Cut;
    }
    let Some((first, length, after)) = header(inside) else { return Looks::Damaged };
    let value = after.get(..length).unwrap_or_default();
    let second = after.get(length..).and_then(header).map(|(tag, _, _)| tag);
    match (first, second) {
        // EncryptedPrivateKeyInfo (RFC 5208 section 6).
        (SEQUENCE, Some(OCTET_STRING)) => Looks::Encrypted,
        // SubjectPublicKeyInfo (RFC 5280 section 4.1).
        (SEQUENCE, Some(BIT_STRING)) => Looks::PublicKey,
        // A certificate or a request (RFC 5280 section 4.1, RFC 2986 section 4).
        (SEQUENCE, Some(SEQUENCE)) => Looks::Certificate,
        // PFX (RFC 7292 section 4), whose version is 3.
        (INTEGER, Some(SEQUENCE)) if value == [3] => Looks::Pkcs12,
        (INTEGER, Some(_)) => Looks::OtherKey,
        _ => Looks::Base64,
    }
}

/// The tag and the length of the first element of DER, and what follows these two (X.690 section 8.1).
fn header(der: &[u8]) -> Option<(u8, usize, &[u8])> {
    /// Most bytes of a length.
    const LENGTH_BYTES_MAX: usize = 4;
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    if first < 0x80 {
        return Some((tag, usize::from(first), rest));
    }
    let count = usize::from(first & 0x7f);
    let (bytes, rest) = rest.split_at_checked(count)?;
    let length = bytes.iter().fold(0, |length, byte| (length << 8) | usize::from(*byte));
    (1..=LENGTH_BYTES_MAX).contains(&count).then_some((tag, length, rest))
}

/// A JSON text in which a program put ends of lines into strings, with these ends escaped.
pub(super) fn repaired_json(text: &str) -> Cow<'_, str> {
    if !text.contains(['\n', '\r']) {
        return Cow::Borrowed(text);
    }
    let mut repaired = String::with_capacity(text.len());
    let (mut is_string, mut is_escaped) = (false, false);
    for letter in text.chars() {
        match letter {
            '\n' if is_string => repaired.push_str("\\n"),
            '\r' if is_string => {}
            other => repaired.push(other),
        }
        if letter == '"' && !is_escaped {
            is_string = !is_string;
        }
        is_escaped = letter == '\\' && !is_escaped;
    }
    Cow::Owned(repaired)
}

/// Reads a JSON object from a text: as it is, in base64, or as a JSON string.
pub(super) fn json_object(text: &str) -> Result<Map<String, Value>, Looks> {
    let mut text = Zeroizing::new(trimmed(text).to_owned());
    for _ in 0..WRAPPINGS_MAX {
        let parsed =
            serde_json::from_str(&text).or_else(|_| serde_json::from_str(&repaired_json(&text)));
        text = match parsed {
            Ok(Value::Object(object)) => return Ok(object),
            Ok(Value::String(inner)) => Zeroizing::new(trimmed(&inner).to_owned()),
            Ok(_) => return Err(Looks::Json),
            Err(_) if is_file_name(&text) => return Err(Looks::FileName),
            // The inside of a JSON string, whose quotes were taken off.
            Err(_) if text.starts_with("{\\") => {
                let inner = serde_json::from_str::<String>(&format!("\"{}\"", text.as_str()));
                Zeroizing::new(inner.map_err(|_| Looks::InvalidJson)?)
            }
            Err(_) if text.starts_with('{') => return Err(Looks::InvalidJson),
            Err(_) if text.contains(BEGIN) => return Err(Looks::Pem),
            Err(_) => {
                let bytes = from_base64(&text).ok_or(Looks::Text)?;
                let inner = std::str::from_utf8(&bytes).map_err(|_| Looks::Base64)?;
                Zeroizing::new(trimmed(inner).to_owned())
            }
        };
    }
    Err(Looks::Text)
}
