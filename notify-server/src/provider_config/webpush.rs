//! Configuration of Web Push: the contact of the sender, and the VAPID key (RFC 8292) with which browsers
//! subscribe. If no key is given, the server generates one and keeps it, because push services would
//! refuse every existing subscription with another key.

use aws_lc_rs::encoding::{AsBigEndian, EcPrivateKeyBin};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::EncodingKey;
use serde_json::{Value, json};

use super::{ExtraRoots, ProviderConfigError, pasted_key, without_nulls};
use crate::pasted::trimmed;
use crate::provider_config::Fields;
use crate::provider_config::pasted_key::Looks;
use crate::provider_config::urls::check_subject;

/// The field that is taken from the previous configuration, or generated, if it is not given.
const PRIVATE_KEY: &str = "vapid_private_key";

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
            let rule = "must be a private key of P-256, 32 bytes in base64url or PEM";
            let key = VapidKey::parse(text);
            key.map_err(|looks| fields.add_unlike(PRIVATE_KEY, rule, looks)).ok()
        });
        let public = fields.text("vapid_public_key");
        if let (Some(public), Some(vapid)) = (public, &vapid)
            && !vapid.has_public(public)
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
        Some(Value::String(text)) => !trimmed(text).is_empty(),
        Some(value) => !value.is_null(),
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
    /// Parses a private key: the number in base64url, as key generators write it, or PEM.
    fn parse(text: &str) -> Result<Self, Looks> {
        let pair = pasted_key::p256_or_number(text)?;
        let pkcs8 = pair.to_pkcs8v1().map_err(|_| Looks::Damaged)?;
        Ok(Self {
            signing: EncodingKey::from_ec_der(pkcs8.as_ref()),
            public: URL_SAFE_NO_PAD.encode(pair.public_key()),
        })
    }

    /// Whether a text is the public key, in any alphabet of base64.
    fn has_public(&self, text: &str) -> bool {
        pasted_key::from_base64(text)
            .is_some_and(|bytes| URL_SAFE_NO_PAD.encode(bytes) == self.public)
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
