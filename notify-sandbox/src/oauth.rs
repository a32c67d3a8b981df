//! A fake of Google's OAuth2 token endpoint for service accounts (RFC 7523). It verifies assertions and
//! issues access tokens that expire.

use std::collections::HashMap;
use std::sync::Mutex;

use bytes::Bytes;
use http::{Method, Response, header};
use notify_core::Timestamp;
use serde::Deserialize;
use serde_json::json;

use crate::handler::{Reaction, Request, json, with_retry_after};
use crate::jwt::{Algorithm, Jwt};
use crate::request_log::CountKey;
use crate::script::{Fault, Provider};
use crate::state::{SandboxState, lock};

/// The scopes that allow a sender to send messages.
const SEND_SCOPES: [&str; 2] = [
    "https://www.googleapis.com/auth/firebase.messaging",
    "https://www.googleapis.com/auth/cloud-platform",
];

const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// An audience that Google accepts for any `token_uri` of the account. google-auth for Python always
/// signs this audience.
const GOOGLE_AUDIENCE: &str = "https://oauth2.googleapis.com/token";

/// The longest lifetime of an assertion, in seconds.
const ASSERTION_S_MAX: i64 = 3_600;

/// How far in the future an assertion may be issued, in seconds, because clocks differ.
const CLOCK_SKEW_S: i64 = 300;

/// The most access tokens. At this number all tokens are dropped, as if Google had revoked them.
const ACCESS_TOKENS_MAX: usize = 10_000;

/// The permission and the expiry of an access token.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grant {
    expires_at: Timestamp,
    pub(crate) may_send: bool,
}

/// The access tokens that the endpoint has issued.
#[derive(Debug, Default)]
pub(crate) struct AccessTokens(Mutex<HashMap<String, Grant>>);

impl AccessTokens {
    /// The grant of `token`, unless it has expired.
    pub(crate) fn grant(&self, token: &str, now: Timestamp) -> Option<Grant> {
        let tokens = lock(&self.0);
        tokens.get(token).copied().filter(|grant| now < grant.expires_at)
    }

    fn issue(&self, grant: Grant) -> String {
        let mut random = [0; 48];
        fastrand::fill(&mut random);
        let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let token = format!("ya29.{token}");
        let mut tokens = lock(&self.0);
        if tokens.len() >= ACCESS_TOKENS_MAX {
            tokens.clear();
        }
        tokens.insert(token.clone(), grant);
        token
    }
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
    #[serde(default)]
    scope: String,
    aud: String,
    iat: i64,
    exp: i64,
}

/// The status, `error` and `error_description` of the response to a refused token request.
type TokenError = (u16, String, String);

/// Handles one token request. A rule can replace a success by an error, and any response by a fault.
pub(crate) fn handle(state: &SandboxState, request: &Request) -> Reaction {
    let validated = validate(state, request);
    let scripted = state.rules.scripted(Provider::Oauth, "", None);
    let script = &scripted.response;
    let outcome = match validated {
        Ok(_) if script.fault == Fault::None && !script.is_success() => {
            let status = script.status.unwrap_or(400);
            let usual = if status >= 500 { "internal_failure" } else { "invalid_grant" };
            let error = script.reason.clone().unwrap_or_else(|| usual.to_owned());
            Err((status, error, "A rule of the sandbox sets this error.".to_owned()))
        }
        validated => validated,
    };
    let (status, reason) = match (&outcome, script.fault) {
        (Err((status, error, _)), Fault::None) => (*status, Some(error.as_str())),
        (Ok(_), Fault::None) => (200, None),
        (_, fault) => (0, Some(fault.as_str())),
    };
    state.log.count(CountKey { provider: Provider::Oauth, token: None, status, reason });
    let response = match outcome {
        _ if script.fault != Fault::None => Response::default(),
        Ok(grant) => issue(state, grant),
        Err((code, error, description)) => {
            let body = json!({ "error": error, "error_description": description });
            with_retry_after(json(code, &body), script.retry_after)
        }
    };
    Reaction::scripted(scripted, response)
}

fn issue(state: &SandboxState, grant: Grant) -> Response<Bytes> {
    let seconds = grant.expires_at.ms_since(state.clock.now()) / 1_000;
    let token = state.access_tokens.issue(grant);
    let body = json!({ "access_token": token, "expires_in": seconds, "token_type": "Bearer" });
    json(200, &body)
}

fn token_error(error: &str, description: &str) -> TokenError {
    (400, error.to_owned(), description.to_owned())
}

fn validate(state: &SandboxState, request: &Request) -> Result<Grant, TokenError> {
    let invalid_request = |text: &str| token_error("invalid_request", text);
    if request.head.method != Method::POST {
        return Err(invalid_request("Only POST is allowed."));
    }
    let content_type = request.header(header::CONTENT_TYPE.as_str()).unwrap_or_default();
    if !content_type.starts_with("application/x-www-form-urlencoded") {
        return Err(invalid_request("Missing required parameter: grant_type"));
    }
    let form: HashMap<String, String> =
        url::form_urlencoded::parse(&request.body).into_owned().collect();
    let Some(grant_type) = form.get("grant_type") else {
        return Err(invalid_request("Missing required parameter: grant_type"));
    };
    if grant_type != GRANT_TYPE {
        return Err(token_error(
            "unsupported_grant_type",
            &format!("Invalid grant_type: {grant_type}"),
        ));
    }
    let assertion = form
        .get("assertion")
        .ok_or_else(|| invalid_request("Missing required parameter: assertion"))?;
    check_assertion(state, assertion)
}

fn check_assertion(state: &SandboxState, assertion: &str) -> Result<Grant, TokenError> {
    let invalid_grant = |text: &str| token_error("invalid_grant", text);
    let account = &state.credentials.service_account;
    let jwt = Jwt::parse(assertion).ok_or_else(|| invalid_grant("Bad Request"))?;
    let signature = || invalid_grant("Invalid JWT Signature.");
    if jwt.header.kid.as_deref().is_some_and(|kid| kid != account.private_key_id) {
        return Err(signature());
    }
    let claims: Claims = jwt.verify(Algorithm::Rs256, &account.public_key).ok_or_else(signature)?;
    if claims.iss != account.client_email {
        return Err(invalid_grant("Invalid grant: account not found"));
    }
    // A client that cannot use TLS asks for tokens over plain HTTP, on the same port.
    let token_uri = state.token_uri();
    let plain_uri = token_uri.replacen("https", "http", 1);
    if ![token_uri.as_str(), plain_uri.as_str(), GOOGLE_AUDIENCE].contains(&claims.aud.as_str()) {
        return Err(invalid_grant("Invalid JWT: Failed audience check."));
    }
    let now = state.clock.now();
    let now_s = now.as_seconds();
    let lifetime_s = claims.exp.saturating_sub(claims.iat);
    let is_current = claims.iat <= now_s.saturating_add(CLOCK_SKEW_S) && claims.exp > now_s;
    if !(0..=ASSERTION_S_MAX).contains(&lifetime_s) || !is_current {
        return Err(invalid_grant(
            "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable \
             timeframe. Check your iat and exp values in the JWT claim.",
        ));
    }
    if claims.scope.trim().is_empty() {
        return Err(token_error(
            "invalid_scope",
            "Invalid OAuth scope or ID token audience provided.",
        ));
    }
    let lifetime_ms = i64::from(state.settings.borrow().access_token_seconds) * 1_000;
    let may_send = claims.scope.split(' ').any(|scope| SEND_SCOPES.contains(&scope));
    Ok(Grant { expires_at: now.plus_ms(lifetime_ms), may_send })
}
