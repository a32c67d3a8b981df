//! Configuration of Messenger: the page that speaks, and how its webhook is recognised.

use secrecy::SecretString;
use serde_json::{Map, Value, json};

use super::fields::Fields;
use super::{BaseUrl, ExtraRoots, ProviderConfigError};

/// How one application reaches the people who write to its page, and hears of them.
#[derive(Debug, Clone)]
pub(crate) struct MessengerConfig {
    /// Token of the page.
    #[expect(dead_code, reason = "what sends comes with the provider")]
    pub page_access_token: SecretString,
    /// Secret of the app: what webhooks are signed with. Without it none is taken.
    pub app_secret: Option<SecretString>,
    /// What Meta shows when a webhook is set up. Without it none can be.
    pub verify_token: Option<SecretString>,
    /// In place of Meta's host.
    pub endpoint: Option<BaseUrl>,
    /// Roots trusted beside the system's.
    pub ca_certificate: Option<ExtraRoots>,
    /// Most messages a second.
    pub rate_per_second: Option<u32>,
}

impl MessengerConfig {
    /// Reads and checks a configuration.
    ///
    /// # Errors
    /// Every broken rule.
    pub(crate) fn parse(body: &Value) -> Result<Self, ProviderConfigError> {
        let mut fields = Fields::of_body(body);
        let page_access_token = fields.required_text("page_access_token");
        if page_access_token.is_some_and(|token| !token.bytes().all(|b| b.is_ascii_graphic())) {
            fields.broken("page_access_token", "must be visible ASCII");
        }
        let app_secret = fields.text("app_secret").map(SecretString::from);
        let verify_token = fields.text("verify_token").map(SecretString::from);
        let endpoint = fields.endpoint("endpoint");
        let ca_certificate = fields.ca_certificate();
        let rate_per_second = fields.rate_per_second();
        fields.finish()?;
        Ok(Self {
            page_access_token: page_access_token
                .expect("a required field that is missing is a broken rule")
                .into(),
            app_secret,
            verify_token,
            endpoint,
            ca_certificate,
            rate_per_second,
        })
    }

    /// Without the secrets.
    #[must_use]
    pub(crate) fn redacted(&self) -> Value {
        let mut shown = Map::new();
        if let Some(endpoint) = &self.endpoint {
            shown.insert("endpoint".to_owned(), json!(endpoint.to_string()));
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
