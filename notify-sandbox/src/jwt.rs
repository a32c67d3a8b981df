//! Verifies the signature of a JWT, but none of its claims. The server signs with a JWT crate; this
//! module uses the cryptography library directly, so that a mistake of that crate is detected.

use std::collections::HashMap;
use std::sync::Mutex;

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey, VerificationAlgorithm,
};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::state::lock;

/// The fields of a JWT header that providers check.
#[derive(Debug, Deserialize)]
pub(crate) struct Header {
    pub(crate) alg: String,
    pub(crate) kid: Option<String>,
}

/// A parsed JWT that is not verified yet.
pub(crate) struct Jwt<'a> {
    pub(crate) header: Header,
    claims: Vec<u8>,
    signed: &'a str,
    signature: Vec<u8>,
}

/// A signature algorithm.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Algorithm {
    /// ECDSA on P-256 with the signature as r‖s.
    Es256,
    /// RSA, PKCS#1 v1.5.
    Rs256,
}

impl<'a> Jwt<'a> {
    /// Parses a token, or returns `None` when it is malformed.
    pub(crate) fn parse(token: &'a str) -> Option<Self> {
        Self::parse_with(token, |part| URL_SAFE_NO_PAD.decode(part).ok())
    }

    /// Parses a token whose parts are in base64url or in padded base64. The crate `a2` writes padded
    /// base64, and APNs accepts it.
    pub(crate) fn parse_for_apns(token: &'a str) -> Option<Self> {
        let decode =
            |part: &str| URL_SAFE_NO_PAD.decode(part).or_else(|_| STANDARD.decode(part)).ok();
        Self::parse_with(token, decode)
    }

    fn parse_with(token: &'a str, decode: impl Fn(&str) -> Option<Vec<u8>>) -> Option<Self> {
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        Some(Self {
            header: serde_json::from_slice(&decode(header)?).ok()?,
            claims: decode(claims)?,
            signed,
            signature: decode(signature)?,
        })
    }

    /// Returns the claims if the header names `algorithm` and `public_key` verifies the signature.
    pub(crate) fn verify<Claims: DeserializeOwned>(
        &self,
        algorithm: Algorithm,
        public_key: &[u8],
    ) -> Option<Claims> {
        let (name, verification): (_, &'static dyn VerificationAlgorithm) = match algorithm {
            Algorithm::Es256 => ("ES256", &ECDSA_P256_SHA256_FIXED),
            Algorithm::Rs256 => ("RS256", &RSA_PKCS1_2048_8192_SHA256),
        };
        if self.header.alg != name {
            return None;
        }
        UnparsedPublicKey::new(verification, public_key)
            .verify(self.signed.as_bytes(), &self.signature)
            .ok()?;
        serde_json::from_slice(&self.claims).ok()
    }
}

/// The most entries of a [`VerifiedCache`]. A full cache drops all its entries.
const CACHE_ENTRIES_MAX: usize = 256;

/// Caches the result of verifying a signed text, so that each text costs one signature check. The result
/// is `None` for an invalid text.
#[derive(Debug)]
pub(crate) struct VerifiedCache<T>(Mutex<HashMap<String, Option<T>>>);

impl<T> Default for VerifiedCache<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> VerifiedCache<T> {
    pub(crate) fn get_or_verify(
        &self,
        signed: &str,
        verify: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let mut cache = lock(&self.0);
        if let Some(verified) = cache.get(signed) {
            return verified.clone();
        }
        let verified = verify(signed);
        if cache.len() >= CACHE_ENTRIES_MAX {
            cache.clear();
        }
        cache.insert(signed.to_owned(), verified.clone());
        verified
    }
}
