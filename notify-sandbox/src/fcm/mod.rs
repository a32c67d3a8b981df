//! Fake FCM: <https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages/send>.
//! Checks path, access token, project, the JSON's types and FCM's own rules, in that order, then
//! answers by script.

mod errors;
mod message;
mod oauth;
mod schema;
mod scripted;

use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header};
use serde_json::{Value, json};

pub(super) use errors::status_of;
pub(super) use oauth::{AccessTokens, exchange_token};
pub use scripted::fcm_token;

use super::answer::{Action, Answer, Provider};
use super::apns::shown_payload;
use super::dress::Dress;
use super::exchange::{Call, Peer, Verdict, json, respond};
use super::journal::{Received, Tally, shown_headers};
use super::scene::Scene;
use errors::Failure;

/// The scope that sending needs.
pub(super) const MESSAGING_SCOPE: &str = "https://www.googleapis.com/auth/firebase.messaging";

/// A scope that includes it.
pub(super) const CLOUD_SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";

/// What became of a message.
enum Judged {
    Sent { name: String },
    Failed(Failure, Option<u64>),
    Fault(Answer),
}

/// Judges one message and answers it.
pub(super) fn exchange(scene: &Scene, peer: &Peer, path: &str, call: &Call) -> Verdict {
    let project = path
        .strip_prefix("/v1/projects/")
        .and_then(|rest| rest.strip_suffix("/messages:send"))
        .filter(|project| !project.is_empty() && !project.contains('/'));
    let (Some(project), &Method::POST) = (project, &call.head.method) else {
        return Verdict::answer(not_found(path));
    };
    let (target, judged, (delay_ms, dress)) = match check(scene, project, call) {
        Ok(accepted) => {
            let scripted = scripted::in_token(&accepted.target);
            let scripted = scene.rules.scripted(Provider::Fcm, &accepted.target, scripted);
            let judged = judge(project, accepted.validate_only, scripted.answer);
            (Some(accepted.target), judged, (scripted.delay_ms, scripted.dress))
        }
        Err(failure) => (None, Judged::Failed(failure, None), (0, Dress::default())),
    };
    record(scene, peer, call, target.as_deref(), &judged);
    let verdict = match judged {
        Judged::Sent { name } => {
            Verdict { delay_ms, ..Verdict::answer(json(StatusCode::OK, &json!({ "name": name }))) }
        }
        Judged::Failed(failure, retry_after) => {
            let response = with_retry_after(failure.into_response(), retry_after);
            Verdict { delay_ms, ..Verdict::answer(response) }
        }
        Judged::Fault(answer) => {
            Verdict::scripted(&answer, delay_ms, || Response::new(Bytes::new()))
        }
    };
    verdict.dressed(&dress)
}

fn judge(project: &str, validate_only: bool, answer: Answer) -> Judged {
    if answer.action != Action::Answer {
        return Judged::Fault(answer);
    }
    if !answer.is_success() {
        return Judged::Failed(Failure::wanted(&answer), answer.retry_after);
    }
    let id = if validate_only {
        "fake_message_id".to_owned()
    } else {
        format!("0:{:016x}%{:08x}", fastrand::u64(..), fastrand::u32(..))
    };
    Judged::Sent { name: format!("projects/{project}/messages/{id}") }
}

fn check(scene: &Scene, project: &str, call: &Call) -> Result<message::Accepted, Failure> {
    let bearer = call.header(header::AUTHORIZATION.as_str()).and_then(|value| {
        let (kind, token) = value.split_once(' ')?;
        kind.eq_ignore_ascii_case("bearer").then_some(token)
    });
    let token = bearer.ok_or_else(Failure::missing_credentials)?;
    let grant = scene.access_tokens.grant(token, scene.clock.now());
    if !grant.ok_or_else(Failure::invalid_credentials)?.may_send {
        return Err(Failure::insufficient_scopes());
    }
    if project != scene.credentials.service_account.project_id {
        return Err(Failure::unknown_project());
    }
    let content_type = call.header(header::CONTENT_TYPE.as_str()).unwrap_or("application/json");
    if !content_type.to_ascii_lowercase().starts_with("application/json") {
        return Err(Failure::malformed("Invalid content type."));
    }
    let body: Value = serde_json::from_slice(&call.body)
        .map_err(|_| Failure::malformed("Invalid JSON payload received."))?;
    message::check(&body)
}

fn not_found(path: &str) -> Response<Bytes> {
    // Google answers a path it does not know with a page, not with JSON.
    let path = super::page::escape(path);
    let page = format!("<!DOCTYPE html><title>Error 404 (Not Found)!!1</title><p>{path}</p>\n");
    respond(StatusCode::NOT_FOUND, "text/html; charset=UTF-8", page)
}

fn record(scene: &Scene, peer: &Peer, call: &Call, target: Option<&str>, judged: &Judged) {
    let (status, reason, name) = match judged {
        Judged::Sent { name } => (200, None, Some(name)),
        Judged::Failed(failure, _) => (failure.http, Some(failure.reason()), None),
        Judged::Fault(answer) => (0, Some(answer.action.as_str()), None),
    };
    let provider = Provider::Fcm;
    scene.journal.record(Tally { provider, token: target, status, reason }, || {
        let payload = shown_payload(&call.body);
        Received {
            at_ms: scene.clock.now().as_ms(),
            provider,
            environment: None,
            token: target.map(str::to_owned).or_else(|| message::target_of(&payload)),
            headers: shown_headers(&call.head.headers),
            payload,
            status,
            reason: reason.map(str::to_owned),
            message_id: name.cloned(),
            connection: peer.number,
            stream: call.stream,
        }
    });
}

/// Adds `Retry-After`, where there is one.
pub(super) fn with_retry_after(
    mut response: Response<Bytes>,
    seconds: Option<u64>,
) -> Response<Bytes> {
    if let Some(seconds) = seconds {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}
