//! Keys and certificates made for one test run.

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rsa::{KeyPair, KeySize};

/// A P-256 key in the format of Apple's .p8 file.
pub(crate) fn p256_pem() -> String {
    rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap().serialize_pem()
}

/// An RSA key in the format of Google's file.
pub(crate) fn rsa_pem() -> String {
    use base64::Engine as _;
    let pair = KeyPair::generate(KeySize::Rsa2048).unwrap();
    let der = pair.as_der().unwrap();
    let text = base64::engine::general_purpose::STANDARD.encode(der.as_ref());
    format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n")
}

/// A certificate that signs itself.
pub(crate) fn certificate_pem() -> String {
    rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap().cert.pem()
}
