//! Configuration of Messenger: a page's access token (Meta, "Send API").

use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};

use super::{BaseUrl, ExtraRoots, KeyDigest, ProviderConfigError, digest, without_nulls};
use crate::provider_config::Fields;

/// Meta's host.
const META: &str = "https://graph.facebook.com";

/// How one application reaches people on Messenger. Debug output shows no secret.
#[derive(Debug, Clone)]
pub(crate) struct MessengerConfig {
    /// Access token of the page that sends the messages.
    pub page_access_token: SecretString,
    pub(crate) token_digest: KeyDigest,
    /// Secret of the app. It proves that calls come from the app's servers, and signs webhook calls.
    pub app_secret: Option<SecretString>,
    /// Token that Meta sends when it verifies the webhook.
    pub verify_token: Option<SecretString>,
    /// Replaces Meta's host.
    pub endpoint: Option<BaseUrl>,
    /// Roots trusted in addition to the system's.
    pub ca_certificate: Option<ExtraRoots>,
    /// Most messages a second.
    pub rate_per_second: Option<u32>,
}

impl MessengerConfig {
    /// Reads and checks a configuration.
    ///
    /// # Errors
    /// All violations.
    pub(crate) fn parse(body: &Value) -> Result<Self, ProviderConfigError> {
        let mut fields = Fields::of_body(body);
        let page_access_token = fields.required_secret("page_access_token");
        let app_secret = fields.secret("app_secret");
        let verify_token = fields.secret("verify_token");
        let endpoint = fields.endpoint("endpoint");
        let ca_certificate = fields.ca_certificate();
        let rate_per_second = fields.rate_per_second();
        fields.finish()?;
        let page_access_token =
            page_access_token.expect("a required field that is missing is a broken rule");
        Ok(Self {
            token_digest: digest(page_access_token.expose_secret().as_bytes()),
            page_access_token,
            app_secret,
            verify_token,
            endpoint,
            ca_certificate,
            rate_per_second,
        })
    }

    /// Where messages go: `endpoint`, or Meta's host.
    #[must_use]
    pub(crate) fn base_url(&self) -> BaseUrl {
        self.endpoint
            .clone()
            .unwrap_or_else(|| BaseUrl::parse(META).expect("Meta's host is written right"))
    }

    /// The configuration as `GET` shows it, without the secrets.
    #[must_use]
    pub(crate) fn redacted(&self) -> Value {
        without_nulls(json!({
            "endpoint": self.endpoint.as_ref().map(ToString::to_string),
            "ca_certificate": self.ca_certificate.as_ref().map(ExtraRoots::pem),
            "rate_per_second": self.rate_per_second,
        }))
    }
}
