//! Configuration of APNs: token authentication (Apple, "Establishing a token-based connection to
//! APNs").

use jsonwebtoken::{Algorithm, EncodingKey, Header};
use notify_core::IosEnv;
use serde_json::{Map, Value, json};

use super::{BaseUrl, ExtraRoots, KeyDigest, ProviderConfigError, digest};
use crate::provider_config::Fields;

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
    /// The .p8 key; its debug output is redacted.
    pub private_key: EncodingKey,
    pub(crate) key_digest: KeyDigest,
    /// Topic of every message: the app's bundle id.
    pub topic: String,
    /// In place of Apple's production host; alone it stands for both.
    pub endpoint: Option<BaseUrl>,
    /// In place of Apple's development host.
    pub sandbox_endpoint: Option<BaseUrl>,
    /// Roots trusted beside the system's.
    pub ca_certificate: Option<ExtraRoots>,
    /// Most messages a second.
    pub rate_per_second: Option<u32>,
}

impl ApnsConfig {
    /// Reads and checks a configuration.
    ///
    /// # Errors
    /// Every broken rule.
    pub(crate) fn parse(body: &Value) -> Result<Self, ProviderConfigError> {
        let mut fields = Fields::of_body(body);
        let team_id = fields.required_word("team_id", "_-");
        let key_id = fields.required_word("key_id", "_-");
        let pem = fields.required_text("private_key");
        let private_key = pem.and_then(|pem| {
            let key = signing_key(pem);
            if key.is_none() {
                fields.broken("private_key", "must be a P-256 key in PKCS#8 PEM form");
            }
            key
        });
        let topic = fields.required_word("topic", ".-_");
        let endpoint = fields.endpoint("endpoint");
        let sandbox_endpoint = fields.endpoint("sandbox_endpoint");
        let ca_certificate = fields.ca_certificate();
        let rate_per_second = fields.rate_per_second();
        fields.finish()?;
        const READ: &str = "a required field that is missing is a broken rule";
        Ok(Self {
            team_id: team_id.expect(READ).to_owned(),
            key_id: key_id.expect(READ).to_owned(),
            private_key: private_key.expect(READ),
            key_digest: digest(pem.expect(READ)),
            topic: topic.expect(READ).to_owned(),
            endpoint,
            sandbox_endpoint,
            ca_certificate,
            rate_per_second,
        })
    }

    /// Where devices of that environment are reached (B35).
    #[must_use]
    pub(crate) fn base_url_for(&self, env: IosEnv) -> BaseUrl {
        let (own, apple) = match env {
            IosEnv::Production => (self.endpoint.as_ref(), PRODUCTION),
            IosEnv::Sandbox => (self.sandbox_endpoint.as_ref().or(self.endpoint.as_ref()), SANDBOX),
        };
        own.cloned()
            .unwrap_or_else(|| BaseUrl::parse(apple).expect("Apple's hosts are written right"))
    }

    /// Without the key.
    #[must_use]
    pub(crate) fn redacted(&self) -> Value {
        let mut shown = Map::new();
        shown.insert("team_id".to_owned(), json!(self.team_id));
        shown.insert("key_id".to_owned(), json!(self.key_id));
        shown.insert("topic".to_owned(), json!(self.topic));
        if let Some(endpoint) = &self.endpoint {
            shown.insert("endpoint".to_owned(), json!(endpoint.to_string()));
        }
        if let Some(endpoint) = &self.sandbox_endpoint {
            shown.insert("sandbox_endpoint".to_owned(), json!(endpoint.to_string()));
        }
        if let Some(roots) = &self.ca_certificate {
            shown.insert("ca_certificate".to_owned(), json!(roots.pem()));
        }
        if let Some(rate) = self.rate_per_second {
            shown.insert("rate_per_second".to_owned(), json!(rate));
        }
        Value::Object(shown)
    }
}

/// The key, if it can sign: the PEM reader alone would take a key of another curve.
fn signing_key(pem: &str) -> Option<EncodingKey> {
    let key = EncodingKey::from_ec_pem(pem.as_bytes()).ok()?;
    jsonwebtoken::encode(&Header::new(Algorithm::ES256), &json!({}), &key).ok()?;
    Some(key)
}
