//! Configuration of Web Push: the contact of the sender, and the VAPID key (RFC 8292) with which browsers
//! subscribe. If no key is given, the server generates one and keeps it, because push services would
//! refuse every existing subscription with another key.

use aws_lc_rs::agreement::{ECDH_P256, PrivateKey};
use aws_lc_rs::encoding::{AsBigEndian, EcPrivateKeyBin};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, URL_SAFE_NO_PAD};
use base64::{Engine as _, alphabet};
use jsonwebtoken::EncodingKey;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::{ExtraRoots, ProviderConfigError, without_nulls};
use crate::provider_config::Fields;
use crate::provider_config::urls::check_subject;

/// The field that is taken from the previous configuration, or generated, if it is not given.
const PRIVATE_KEY: &str = "vapid_private_key";

/// base64url as key generators write it, with or without padding.
const BASE64URL: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// How one application reaches browsers.
#[derive(Debug, Clone)]
pub(crate) struct WebPushConfig {
    /// Contact of the sender, for the operators of push services.
    pub(crate) subject: String,
    /// The key with which browsers subscribe.
    pub(crate) vapid: VapidKey,
    /// Roots trusted in addition to the system's.
    pub(crate) ca_certificate: Option<ExtraRoots>,
    /// Most messages a second.
    pub(crate) rate_per_second: Option<u32>,
}

/// A VAPID key pair.
#[derive(Debug, Clone)]
pub(crate) struct VapidKey {
    /// The private key. Its debug output is redacted.
    pub(crate) signing: EncodingKey,
    /// The public key: an uncompressed point in base64url. Web pages pass it to the browser as
    /// `applicationServerKey`.
    pub(crate) public: String,
}

impl WebPushConfig {
    /// Reads and checks a configuration after [`fill_defaults`].
    ///
    /// # Errors
    /// All violations.
    pub(crate) fn parse(body: &Value) -> Result<Self, ProviderConfigError> {
        let mut fields = Fields::of_body(body);
        let subject = fields.required_text("subject");
        if let Some(Err(rule)) = subject.map(check_subject) {
            fields.add_violation("subject", rule);
        }
        let vapid = fields.required_text(PRIVATE_KEY).and_then(|text| {
            let key = VapidKey::parse(text);
            if key.is_none() {
                fields.add_violation(
                    PRIVATE_KEY,
                    "must be a private key of P-256, 32 bytes in base64url",
                );
            }
            key
        });
        let public = fields.text("vapid_public_key").map(|text| text.trim_end_matches('='));
        if let (Some(public), Some(vapid)) = (public, &vapid)
            && public != vapid.public
        {
            fields.add_violation("vapid_public_key", "is not that of the private key");
        }
        let ca_certificate = fields.ca_certificate();
        let rate_per_second = fields.rate_per_second();
        fields.finish()?;
        const READ: &str = "a required field that is missing is a broken rule";
        Ok(Self {
            subject: subject.expect(READ).to_owned(),
            vapid: vapid.expect(READ),
            ca_certificate,
            rate_per_second,
        })
    }

    /// The configuration as `GET` shows it, without the private key.
    #[must_use]
    pub(crate) fn redacted(&self) -> Value {
        without_nulls(json!({
            "subject": self.subject,
            "vapid_public_key": self.vapid.public,
            "ca_certificate": self.ca_certificate.as_ref().map(ExtraRoots::pem),
            "rate_per_second": self.rate_per_second,
        }))
    }
}

/// Fills in a missing private key: that of the previous configuration, or a new one.
pub(super) fn fill_defaults(body: &mut Value, earlier: Option<&Value>) {
    let Some(members) = body.as_object_mut() else { return };
    let is_set = match members.get(PRIVATE_KEY) {
        Some(value) => !value.is_null() && value.as_str() != Some(""),
        None => false,
    };
    if is_set {
        return;
    }
    let earlier_key = earlier.and_then(|earlier| earlier.get(PRIVATE_KEY)).cloned();
    let key = earlier_key.unwrap_or_else(|| json!(VapidKey::generate_private()));
    members.insert(PRIVATE_KEY.to_owned(), key);
}

impl VapidKey {
    /// Parses a private key. It is the plain number in base64url, as key generators write it.
    fn parse(text: &str) -> Option<Self> {
        let private = BASE64URL.decode(text).map(Zeroizing::new).ok()?;
        let key = PrivateKey::from_private_key(&ECDH_P256, &private).ok()?;
        let public = key.compute_public_key().ok()?;
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pair =
            EcdsaKeyPair::from_private_key_and_public_key(algorithm, &private, public.as_ref())
                .ok()?;
        let pkcs8 = pair.to_pkcs8v1().ok()?;
        Some(Self {
            signing: EncodingKey::from_ec_der(pkcs8.as_ref()),
            public: URL_SAFE_NO_PAD.encode(public),
        })
    }

    /// Generates a private key. Returns it in base64url.
    fn generate_private() -> String {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING);
        let private: Result<EcPrivateKeyBin<'static>, _> =
            pair.and_then(|pair| pair.private_key().as_be_bytes());
        let private = private.expect("a key needs nothing but random numbers");
        URL_SAFE_NO_PAD.encode(private.as_ref())
    }
}
