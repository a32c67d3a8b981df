//! Fake Graph API of Messenger: <https://developers.facebook.com/docs/messenger-platform/reference/send-api>.
//! Checks path, page token, proof and message, in that order, then answers by script and by its
//! rate limit.

mod errors;
mod schema;

use aws_lc_rs::hmac;
use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header};
use serde_json::{Value, json};

pub(super) use errors::status_of;
pub use errors::{messenger_recipient, messenger_words};

use super::answer::{Action, Answer, Provider};
use super::apns::shown_payload;
use super::buckets::Limit;
use super::dress::Dress;
use super::exchange::{Call, Peer, Verdict, json};
use super::fcm::with_retry_after;
use super::journal::{Received, Tally, shown_headers};
use super::scene::Scene;
use errors::Failure;

/// The page that everything is sent from.
const PAGE_ID: &str = "104000000000001";

/// What became of a message.
enum Judged {
    Sent { id: String },
    Failed(Failure, Option<u64>),
    Fault(Answer),
}

/// What is asked for.
enum Asked {
    Page,
    Messages,
}

/// Judges one request and answers it.
pub(super) fn exchange(scene: &Scene, peer: &Peer, path: &str, call: &Call) -> Verdict {
    let asked = match (asked(path), &call.head.method) {
        (Some(Asked::Page), &Method::GET) => Asked::Page,
        (Some(Asked::Messages), &Method::POST) => Asked::Messages,
        _ => return Verdict::answer(unknown_path()),
    };
    let body = shown_payload(&call.body);
    let authorized = authorize(scene, call, &body);
    if matches!(asked, Asked::Page) {
        return Verdict::answer(match authorized {
            Ok(()) => json(StatusCode::OK, &json!({ "id": PAGE_ID, "name": "Notify sandbox" })),
            Err(failure) => failure.into_response(),
        });
    }
    let (recipient, judged, (delay_ms, dress)) =
        match authorized.and_then(|()| schema::check(&body)) {
            Ok(recipient) => {
                let scripted = errors::in_recipient(&recipient);
                let scripted = scene.rules.scripted(Provider::Messenger, &recipient, scripted);
                let judged = judge(scene, scripted.answer);
                (Some(recipient), judged, (scripted.delay_ms, scripted.dress))
            }
            Err(failure) => {
                let dress = (0, Dress::default());
                (schema::recipient_of(&body), Judged::Failed(failure, None), dress)
            }
        };
    record(scene, peer, call, recipient.as_deref(), body, &judged);
    let response = match judged {
        Judged::Sent { id } => {
            let number = recipient.unwrap_or_default();
            json(StatusCode::OK, &json!({ "recipient_id": number, "message_id": id }))
        }
        Judged::Failed(failure, retry_after) => {
            with_retry_after(failure.into_response(), retry_after)
        }
        Judged::Fault(answer) => {
            return Verdict::scripted(&answer, delay_ms, || Response::new(Bytes::new()));
        }
    };
    Verdict { delay_ms, ..Verdict::answer(with_usage(scene, response)) }.dressed(&dress)
}

/// `/vN.N/me` or `/vN.N/PAGE`, with or without `/messages`.
fn asked(path: &str) -> Option<Asked> {
    let (version, rest) = path.strip_prefix("/v")?.split_once('/')?;
    let (major, minor) = version.split_once('.')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(major) || !is_number(minor) {
        return None;
    }
    let (page, rest) = rest.split_once('/').unwrap_or((rest, ""));
    match (page == "me" || page == PAGE_ID, rest) {
        (true, "") => Some(Asked::Page),
        (true, "messages") => Some(Asked::Messages),
        _ => None,
    }
}

fn unknown_path() -> Response<Bytes> {
    let error = json!({
        "message": "Unknown path components",
        "type": "OAuthException",
        "code": 2500,
        "fbtrace_id": "ASandboxTrace",
    });
    json(StatusCode::BAD_REQUEST, &json!({ "error": error }))
}

/// Checks the page's token, and its proof where one is given or demanded.
fn authorize(scene: &Scene, call: &Call, body: &Value) -> Result<(), Failure> {
    let given = |name: &str| {
        let query = call.head.uri.query().unwrap_or_default();
        let mut pairs = url::form_urlencoded::parse(query.as_bytes());
        let in_query = pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
        in_query.or_else(|| Some(body.get(name)?.as_str()?.to_owned()))
    };
    let bearer = call.header(header::AUTHORIZATION.as_str()).and_then(|value| {
        let (kind, token) = value.split_once(' ')?;
        kind.eq_ignore_ascii_case("bearer").then(|| token.to_owned())
    });
    let page = &scene.credentials.page;
    let token = bearer.or_else(|| given("access_token"));
    if token.as_deref() != Some(page.access_token.as_str()) {
        return Err(Failure::named("token"));
    }
    match given("appsecret_proof") {
        Some(proof) if proof != proof_of(&page.access_token, &page.app_secret) => {
            Err(Failure::invalid("Invalid appsecret_proof provided in the API argument"))
        }
        None if scene.settings.borrow().messenger_requires_proof => {
            Err(Failure::invalid("API calls from the server require an appsecret_proof argument"))
        }
        Some(_) | None => Ok(()),
    }
}

/// HMAC-SHA256 of the token under the app's secret, as hex.
fn proof_of(token: &str, app_secret: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, app_secret.as_bytes());
    let proof = hmac::sign(&key, token.as_bytes());
    proof.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn judge(scene: &Scene, answer: Answer) -> Judged {
    if answer.action != Action::Answer {
        return Judged::Fault(answer);
    }
    if !answer.is_success() {
        return Judged::Failed(Failure::wanted(&answer), answer.retry_after);
    }
    let per_second = scene.settings.borrow().messenger_per_second;
    let limit = Limit { burst: per_second, per_second: f64::from(per_second) };
    if per_second > 0 && scene.buckets.take("messenger", limit, scene.clock.now()).is_err() {
        return Judged::Failed(Failure::named("messengerlimit"), None);
    }
    Judged::Sent { id: format!("m_{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..)) }
}

/// Tells how much of the quota is used, where the settings say so.
fn with_usage(scene: &Scene, mut response: Response<Bytes>) -> Response<Bytes> {
    let (percent, minutes) = {
        let settings = scene.settings.borrow();
        (settings.messenger_usage_percent, settings.messenger_regain_minutes)
    };
    if percent == 0 {
        return response;
    }
    let app = json!({ "call_count": percent, "total_time": 1, "total_cputime": 1 });
    let case = json!({
        "type": "messenger",
        "call_count": percent,
        "total_cputime": 1,
        "total_time": 1,
        "estimated_time_to_regain_access": minutes,
    });
    let mut pages = serde_json::Map::new();
    pages.insert(PAGE_ID.to_owned(), json!([case]));
    for (name, value) in [("x-app-usage", app), ("x-business-use-case-usage", Value::Object(pages))]
    {
        let value = HeaderValue::try_from(value.to_string()).expect("numbers and plain names");
        response.headers_mut().insert(name, value);
    }
    response
}

fn record(
    scene: &Scene,
    peer: &Peer,
    call: &Call,
    recipient: Option<&str>,
    payload: Value,
    judged: &Judged,
) {
    let (status, reason, id) = match judged {
        Judged::Sent { id } => (200, None, Some(id)),
        Judged::Failed(failure, _) => (failure.http, Some(failure.reason()), None),
        Judged::Fault(answer) => (0, Some(answer.action.as_str().to_owned()), None),
    };
    let provider = Provider::Messenger;
    let tally = Tally { provider, token: recipient, status, reason: reason.as_deref() };
    scene.journal.record(tally, || Received {
        at_ms: scene.clock.now().as_ms(),
        provider,
        environment: None,
        token: recipient.map(str::to_owned),
        headers: shown_headers(&call.head.headers),
        payload: without_secrets(payload),
        status,
        reason: reason.clone(),
        message_id: id.cloned(),
        connection: peer.number,
        stream: call.stream,
    });
}

/// A token may stand in the body, too; the journal holds none.
fn without_secrets(mut payload: Value) -> Value {
    for name in ["access_token", "appsecret_proof"] {
        if let Some(secret) = payload.get_mut(name) {
            *secret = json!("***");
        }
    }
    payload
}
