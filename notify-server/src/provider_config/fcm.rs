//! Configuration of FCM: Google's service account file.

use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Map, Value, json};
use url::Url;

use super::{
    BaseUrl, ExtraRoots, KeyDigest, ProviderConfigError, digest, pasted_key, without_nulls,
};
use crate::provider_config::Fields;
use crate::provider_config::pasted_key::Looks;

/// Google's host.
const GOOGLE: &str = "https://fcm.googleapis.com";

/// How one application reaches FCM.
#[derive(Debug, Clone)]
pub(crate) struct FcmConfig {
    /// The service account that sends the messages.
    pub service_account: ServiceAccount,
    /// Replaces Google's host.
    pub endpoint: Option<BaseUrl>,
    /// Whether enriched notifications are sent as data only.
    pub enriched_as_data: bool,
    /// Roots trusted in addition to the system's.
    pub ca_certificate: Option<ExtraRoots>,
    /// Most messages a second.
    pub rate_per_second: Option<u32>,
}

/// The used parts of Google's service account file.
#[derive(Debug, Clone)]
pub(crate) struct ServiceAccount {
    /// Firebase project.
    pub project_id: String,
    /// Id of the key, if the file has one.
    pub private_key_id: Option<String>,
    /// RSA key. Its debug output is redacted.
    pub private_key: EncodingKey,
    pub(crate) key_digest: KeyDigest,
    /// Name of the service account, which is the issuer of its assertions.
    pub client_email: String,
    /// URL of the token endpoint, where an assertion is exchanged for an access token.
    pub token_uri: Url,
}

impl FcmConfig {
    /// Reads and checks a configuration.
    ///
    /// # Errors
    /// All violations.
    pub(crate) fn parse(body: &Value) -> Result<Self, ProviderConfigError> {
        let mut fields = Fields::of_body(body);
        let service_account = service_account_file(&mut fields).and_then(|object| {
            let mut inner = Fields::of_object(&object, "service_account.");
            let account = ServiceAccount::read(&mut inner);
            fields.add_violations_of(inner);
            account
        });
        let endpoint = fields.endpoint("endpoint");
        let enriched_as_data = fields.flag("enriched_as_data").unwrap_or(false);
        let ca_certificate = fields.ca_certificate();
        let rate_per_second = fields.rate_per_second();
        fields.finish()?;
        Ok(Self {
            service_account: service_account.expect("a wrong service account is a broken rule"),
            endpoint,
            enriched_as_data,
            ca_certificate,
            rate_per_second,
        })
    }

    /// Where messages go: `endpoint`, or Google's host.
    #[must_use]
    pub(crate) fn base_url(&self) -> BaseUrl {
        self.endpoint
            .clone()
            .unwrap_or_else(|| BaseUrl::parse(GOOGLE).expect("Google's host is written right"))
    }

    /// The configuration as `GET` shows it, without the private key.
    #[must_use]
    pub(crate) fn redacted(&self) -> Value {
        let account = &self.service_account;
        let account = without_nulls(json!({
            "type": "service_account",
            "project_id": account.project_id,
            "private_key_id": account.private_key_id,
            "client_email": account.client_email,
            "token_uri": account.token_uri.as_str(),
        }));
        without_nulls(json!({
            "service_account": account,
            "endpoint": self.endpoint.as_ref().map(ToString::to_string),
            "enriched_as_data": self.enriched_as_data,
            "ca_certificate": self.ca_certificate.as_ref().map(ExtraRoots::pem),
            "rate_per_second": self.rate_per_second,
        }))
    }
}

impl ServiceAccount {
    /// Reads Google's file. Other members (`auth_uri` and so on) are ignored. Adds a violation and returns
    /// `None` if a member is missing or invalid.
    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let kind = fields.text("type");
        if kind.is_some_and(|kind| kind != "service_account") {
            fields.add_violation("type", "must be `service_account`");
        }
        let project_id = fields.required_word("project_id", ".:-_");
        let private_key_id = fields.text("private_key_id");
        let private_key = fields.required_text("private_key").and_then(|text| {
            let key = pasted_key::rsa_pem(text).and_then(|pem| signing_key(&pem));
            let rule = "must be an RSA key in PEM form";
            key.map_err(|looks| fields.add_unlike("private_key", rule, looks)).ok()
        });
        let client_email = fields.required_text("client_email");
        let token_uri = fields.required_text("token_uri").and_then(|text| {
            let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
            if url.is_none() {
                fields.add_violation("token_uri", "must be an absolute http or https URL");
            }
            url
        });
        let (private_key, key_digest) = private_key?;
        Some(Self {
            project_id: project_id?.to_owned(),
            private_key_id: private_key_id.map(str::to_owned),
            private_key,
            key_digest,
            client_email: client_email?.to_owned(),
            token_uri: token_uri?,
        })
    }
}

/// The key that signs assertions, and its digest.
fn signing_key(pem: &str) -> Result<(EncodingKey, KeyDigest), Looks> {
    let key = EncodingKey::from_rsa_pem(pem.as_bytes()).map_err(|_| Looks::Damaged)?;
    jsonwebtoken::encode(&Header::new(Algorithm::RS256), &json!({}), &key)
        .map_err(|_| Looks::Damaged)?;
    Ok((key, digest(pem.as_bytes())))
}

/// Reads `service_account`: Google's file as an object, or as its text. Adds a violation and returns `None`
/// if it is missing or is another file.
fn service_account_file(fields: &mut Fields<'_>) -> Option<Map<String, Value>> {
    const NAME: &str = "service_account";
    let rule = "must be the JSON file of a service account";
    let object = match fields.required_value(NAME)? {
        Value::Object(object) => Ok(object.clone()),
        Value::String(_) => pasted_key::json_object(fields.text(NAME)?),
        _ => {
            fields.add_violation(NAME, "expected an object");
            return None;
        }
    };
    match object {
        // The file of an app names the project in another way.
        Ok(object) if object.contains_key("project_info") => fields.add_violation(
            NAME,
            format_args!(
                "{rule}; this looks like google-services.json, the configuration of the app"
            ),
        ),
        Ok(object) => return Some(object),
        Err(looks) => fields.add_unlike(NAME, rule, looks),
    }
    None
}
