//! Reads and verifies a JWT with the crypto library itself, not with the crate that signs it, so
//! that a mistake of that crate cannot verify itself. Judges no claim but the signature.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey, VerificationAlgorithm,
};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// The header of a JWT, as far as providers look at it.
#[derive(Debug, Deserialize)]
pub(super) struct Header {
    pub(super) alg: String,
    pub(super) kid: Option<String>,
}

/// A JWT that was taken apart, not yet verified.
pub(super) struct Jwt<'a> {
    pub(super) header: Header,
    claims: Vec<u8>,
    signed: &'a str,
    signature: Vec<u8>,
}

/// How a token is signed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Algorithm {
    /// ECDSA on P-256, the signature as r‖s.
    Es256,
    /// RSA, PKCS#1 v1.5.
    Rs256,
}

impl<'a> Jwt<'a> {
    /// Takes a token apart; `None` where it is none.
    pub(super) fn parse(token: &'a str) -> Option<Self> {
        Self::parse_with(token, |part| URL_SAFE_NO_PAD.decode(part).ok())
    }

    /// The same, where its parts may also be in base64 with padding, as the crate `a2` writes them and
    /// APNs takes them.
    pub(super) fn parse_for_apns(token: &'a str) -> Option<Self> {
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

    /// The claims, if the header names `algorithm` and the signature is that of `public_key`.
    pub(super) fn verify<Claims: DeserializeOwned>(
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
