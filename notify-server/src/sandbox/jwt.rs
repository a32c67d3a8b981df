//! Reads and verifies a JWT with the crypto library itself, not with the crate that signs it, so
//! that a mistake of that crate cannot verify itself. Judges no claim but the signature.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey, VerificationAlgorithm,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
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
        let (signed, signature) = token.rsplit_once('.')?;
        let (header, claims) = signed.split_once('.')?;
        Some(Self {
            header: serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).ok()?).ok()?,
            claims: URL_SAFE_NO_PAD.decode(claims).ok()?,
            signed,
            signature: URL_SAFE_NO_PAD.decode(signature).ok()?,
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
