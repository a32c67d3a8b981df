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

/// A fixed P-256 key in SEC1 (RFC 5915) and in PKCS#8, both as DER: the key of RFC 8291, appendix A.
pub(crate) fn p256_ders() -> [Vec<u8>; 2] {
    use aws_lc_rs::encoding::{AsDer, EcPrivateKeyRfc5915Der};
    let number = [
        0xc9, 0xf5, 0x8f, 0x89, 0x81, 0x3e, 0x9f, 0x8e, 0x87, 0x2e, 0x71, 0xf4, 0x2a, 0xa6, 0x4e,
        0x17, 0x57, 0xc9, 0x25, 0x4d, 0xcc, 0x62, 0xb7, 0x2d, 0xdc, 0x01, 0x0b, 0xb4, 0x04, 0x3e,
        0xa1, 0x1c,
    ];
    let pair = super::pasted_key::p256_or_number(&crate::keys::hex(&number)).unwrap();
    let sec1: EcPrivateKeyRfc5915Der<'static> = pair.private_key().as_der().unwrap();
    [sec1.as_ref().to_vec(), pair.to_pkcs8v1().unwrap().as_ref().to_vec()]
}

/// A self-signed certificate.
pub(crate) fn certificate_pem() -> String {
    rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap().cert.pem()
}
