//! Google's OAuth2 token endpoint for service accounts (RFC 7523): verifies the assertion for real
//! and hands out access tokens that expire.

use std::collections::HashMap;
use std::sync::Mutex;

use bytes::Bytes;
use http::{Method, Response, StatusCode, header};
use notify_core::Timestamp;
use serde::Deserialize;
use serde_json::json;

use super::{CLOUD_SCOPE, MESSAGING_SCOPE, with_retry_after};
use crate::sandbox::answer::{Action, Provider};
use crate::sandbox::exchange::{Call, Verdict, json, status};
use crate::sandbox::journal::Tally;
use crate::sandbox::jwt::{Algorithm, Jwt};
use crate::sandbox::scene::Scene;

const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// The audience that Google takes whatever the `token_uri` of the account says; google-auth for Python
/// signs no other.
const GOOGLE_AUDIENCE: &str = "https://oauth2.googleapis.com/token";

/// The longest an assertion may last, in seconds.
const ASSERTION_S_MAX: i64 = 3_600;

/// How far clocks may differ, in seconds.
const CLOCK_SKEW_S: i64 = 300;

/// Access tokens remembered; more are forgotten all at once, as if revoked.
const ACCESS_TOKENS_MAX: usize = 10_000;

/// What an access token allows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grant {
    expires_at: Timestamp,
    pub(super) may_send: bool,
}

/// The access tokens handed out.
#[derive(Debug, Default)]
pub(in crate::sandbox) struct AccessTokens(Mutex<HashMap<String, Grant>>);

impl AccessTokens {
    /// What `token` allows now.
    pub(super) fn grant(&self, token: &str, now: Timestamp) -> Option<Grant> {
        let tokens = self.0.lock().expect("no holder of the access tokens panics");
        tokens.get(token).copied().filter(|grant| now < grant.expires_at)
    }

    fn issue(&self, grant: Grant) -> String {
        let mut random = [0; 48];
        fastrand::fill(&mut random);
        let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let token = format!("ya29.{token}");
        let mut tokens = self.0.lock().expect("no holder of the access tokens panics");
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

/// Why no token is given: status, `error`, `error_description`.
type Refusal = (u16, String, String);

/// Answers one token request.
pub(in crate::sandbox) fn exchange_token(scene: &Scene, call: &Call) -> Verdict {
    let checked = check(scene, call);
    let scripted = scene.rules.scripted(Provider::Oauth, "", None);
    let answer = scripted.answer;
    let outcome = match checked {
        Ok(_) if answer.action == Action::Answer && !answer.is_success() => {
            let status = answer.status.unwrap_or(400);
            let usual = if status >= 500 { "internal_failure" } else { "invalid_grant" };
            let error = answer.reason.clone().unwrap_or_else(|| usual.to_owned());
            Err((status, error, "A rule of the sandbox sets this error.".to_owned()))
        }
        checked => checked,
    };
    let (code, reason) = match (&outcome, answer.action) {
        (Err((status, error, _)), Action::Answer) => (*status, Some(error.as_str())),
        (Ok(_), Action::Answer) => (200, None),
        (_, fault) => (0, Some(fault.as_str())),
    };
    scene.journal.count(Tally { provider: Provider::Oauth, token: None, status: code, reason });
    Verdict::scripted(&answer, scripted.delay_ms, || match outcome {
        Ok(grant) => issue(scene, grant),
        Err(refusal) => with_retry_after(refuse(refusal), answer.retry_after),
    })
    .dressed(&scripted.dress)
}

fn issue(scene: &Scene, grant: Grant) -> Response<Bytes> {
    let seconds = grant.expires_at.ms_since(scene.clock.now()) / 1_000;
    let token = scene.access_tokens.issue(grant);
    let body = json!({ "access_token": token, "expires_in": seconds, "token_type": "Bearer" });
    json(StatusCode::OK, &body)
}

fn refuse((code, error, description): Refusal) -> Response<Bytes> {
    let body = json!({ "error": error, "error_description": description });
    json(status(code), &body)
}

fn refusal(error: &str, description: &str) -> Refusal {
    (400, error.to_owned(), description.to_owned())
}

fn check(scene: &Scene, call: &Call) -> Result<Grant, Refusal> {
    let invalid_request = |text: &str| refusal("invalid_request", text);
    if call.head.method != Method::POST {
        return Err(invalid_request("Only POST is allowed."));
    }
    let content_type = call.header(header::CONTENT_TYPE.as_str()).unwrap_or_default();
    if !content_type.starts_with("application/x-www-form-urlencoded") {
        return Err(invalid_request("Missing required parameter: grant_type"));
    }
    let form: HashMap<String, String> =
        url::form_urlencoded::parse(&call.body).into_owned().collect();
    let Some(grant_type) = form.get("grant_type") else {
        return Err(invalid_request("Missing required parameter: grant_type"));
    };
    if grant_type != GRANT_TYPE {
        return Err(refusal(
            "unsupported_grant_type",
            &format!("Invalid grant_type: {grant_type}"),
        ));
    }
    let assertion = form
        .get("assertion")
        .ok_or_else(|| invalid_request("Missing required parameter: assertion"))?;
    check_assertion(scene, assertion)
}

fn check_assertion(scene: &Scene, assertion: &str) -> Result<Grant, Refusal> {
    let invalid_grant = |text: &str| refusal("invalid_grant", text);
    let account = &scene.credentials.service_account;
    let jwt = Jwt::parse(assertion).ok_or_else(|| invalid_grant("Bad Request"))?;
    let signature = || invalid_grant("Invalid JWT Signature.");
    if jwt.header.kid.as_deref().is_some_and(|kid| kid != account.private_key_id) {
        return Err(signature());
    }
    let claims: Claims = jwt.verify(Algorithm::Rs256, &account.public_key).ok_or_else(signature)?;
    if claims.iss != account.client_email {
        return Err(invalid_grant("Invalid grant: account not found"));
    }
    // The same port speaks plain HTTP, for those who send without TLS.
    let token_uri = scene.token_uri();
    let plain_uri = token_uri.replacen("https", "http", 1);
    if ![token_uri.as_str(), plain_uri.as_str(), GOOGLE_AUDIENCE].contains(&claims.aud.as_str()) {
        return Err(invalid_grant("Invalid JWT: Failed audience check."));
    }
    let now = scene.clock.now();
    let now_s = now.as_seconds();
    let lasts_s = claims.exp.saturating_sub(claims.iat);
    let is_now = claims.iat <= now_s.saturating_add(CLOCK_SKEW_S) && claims.exp > now_s;
    if !(0..=ASSERTION_S_MAX).contains(&lasts_s) || !is_now {
        return Err(invalid_grant(
            "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable \
             timeframe. Check your iat and exp values in the JWT claim.",
        ));
    }
    if claims.scope.trim().is_empty() {
        return Err(refusal("invalid_scope", "Invalid OAuth scope or ID token audience provided."));
    }
    let lasts_ms = i64::from(scene.settings.borrow().access_token_seconds) * 1_000;
    let may_send =
        claims.scope.split(' ').any(|scope| scope == MESSAGING_SCOPE || scope == CLOUD_SCOPE);
    Ok(Grant { expires_at: now.plus_ms(lasts_ms), may_send })
}
