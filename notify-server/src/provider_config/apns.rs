//! Configuration of APNs: token authentication (Apple, "Establishing a token-based connection to
//! APNs").

use aws_lc_rs::signature::EcdsaKeyPair;
use jsonwebtoken::EncodingKey;
use notify_core::IosEnv;
use serde_json::{Value, json};

use super::{
    BaseUrl, ExtraRoots, KeyDigest, ProviderConfigError, digest, pasted_key, without_nulls,
};
use crate::provider_config::Fields;
use crate::provider_config::pasted_key::Looks;

/// Apple's host for apps from the store and from `TestFlight`.
const PRODUCTION: &str = "https://api.push.apple.com";
/// Apple's host for development builds.
const SANDBOX: &str = "https://api.sandbox.push.apple.com";

/// How one application reaches APNs.
#[derive(Debug, Clone)]
pub(crate) struct ApnsConfig {
    /// Apple's id of the team.
    pub team_id: String,
    /// Apple's id of the key.
    pub key_id: String,
    /// The key of the .p8 file. Its debug output is redacted.
    pub private_key: EncodingKey,
    pub(crate) key_digest: KeyDigest,
    /// Topic of every message: the app's bundle id.
    pub topic: String,
    /// Replaces Apple's production host; without `sandbox_endpoint` it replaces both hosts.
    pub endpoint: Option<BaseUrl>,
    /// Replaces Apple's development host.
    pub sandbox_endpoint: Option<BaseUrl>,
    /// Roots trusted in addition to the system's.
    pub ca_certificate: Option<ExtraRoots>,
    /// Most messages a second.
    pub rate_per_second: Option<u32>,
}

impl ApnsConfig {
    /// Reads and checks a configuration.
    ///
    /// # Errors
    /// All violations.
    pub(crate) fn parse(body: &Value) -> Result<Self, ProviderConfigError> {
        let mut fields = Fields::of_body(body);
        let team_id = fields.required_word("team_id", "_-");
        let key_id = fields.required_word("key_id", "_-");
        let private_key = fields.required_text("private_key").and_then(|text| {
            let key = pasted_key::p256(text).and_then(|pair| signing_key(&pair));
            let rule = "must be a private key of P-256 in PEM form, the text of Apple's .p8 file";
            key.map_err(|looks| fields.add_unlike("private_key", rule, looks)).ok()
        });
        let topic = fields.required_word("topic", ".-_");
        let endpoint = fields.endpoint("endpoint");
        let sandbox_endpoint = fields.endpoint("sandbox_endpoint");
        let ca_certificate = fields.ca_certificate();
        let rate_per_second = fields.rate_per_second();
        fields.finish()?;
        const READ: &str = "a required field that is missing is a broken rule";
        let (private_key, key_digest) = private_key.expect(READ);
        Ok(Self {
            team_id: team_id.expect(READ).to_owned(),
            key_id: key_id.expect(READ).to_owned(),
            private_key,
            key_digest,
            topic: topic.expect(READ).to_owned(),
            endpoint,
            sandbox_endpoint,
            ca_certificate,
            rate_per_second,
        })
    }

    /// The host for devices of that environment.
    #[must_use]
    pub(crate) fn base_url_for(&self, env: IosEnv) -> BaseUrl {
        let (configured, apple) = match env {
            IosEnv::Production => (self.endpoint.as_ref(), PRODUCTION),
            IosEnv::Sandbox => (self.sandbox_endpoint.as_ref().or(self.endpoint.as_ref()), SANDBOX),
        };
        configured
            .cloned()
            .unwrap_or_else(|| BaseUrl::parse(apple).expect("Apple's hosts are written right"))
    }

    /// The configuration as `GET` shows it, without the private key.
    #[must_use]
    pub(crate) fn redacted(&self) -> Value {
        without_nulls(json!({
            "team_id": self.team_id,
            "key_id": self.key_id,
            "topic": self.topic,
            "endpoint": self.endpoint.as_ref().map(ToString::to_string),
            "sandbox_endpoint": self.sandbox_endpoint.as_ref().map(ToString::to_string),
            "ca_certificate": self.ca_certificate.as_ref().map(ExtraRoots::pem),
            "rate_per_second": self.rate_per_second,
        }))
    }
}

/// The key that signs tokens, and its digest. The digest is that of one form of the key, in whatever form the
/// key was given.
fn signing_key(pair: &EcdsaKeyPair) -> Result<(EncodingKey, KeyDigest), Looks> {
    let pkcs8 = pair.to_pkcs8v1().map_err(|_| Looks::Damaged)?;
    Ok((EncodingKey::from_ec_der(pkcs8.as_ref()), digest(pkcs8.as_ref())))
}
