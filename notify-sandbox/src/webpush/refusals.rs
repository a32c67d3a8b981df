//! How push services refuse, in the forms of Mozilla, Apple, Google and Windows, and the endings of
//! subscription ids that ask for it.

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use serde_json::json;

use crate::sandbox::answer::{Action, Answer};
use crate::sandbox::exchange::{json, respond, status};
use crate::sandbox::suffix::number_after;

/// A refusal that can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// What asks for it at the end of a subscription's id, beside the status.
    pub word: Option<&'static str>,
    /// Its name in rules and in the journal.
    pub reason: &'static str,
    /// The HTTP status.
    pub status: u16,
    body: Body,
}

/// What the body of a refusal says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    /// Mozilla's number and text.
    Mozilla(u16, &'static str),
    /// Apple's `reason`, the name of the refusal.
    Apple,
    /// Google's text.
    Text(&'static str),
    /// Nothing, as Windows and every edge server say.
    Empty,
}

const fn mozilla(status: u16, reason: &'static str, errno: u16, text: &'static str) -> Refusal {
    Refusal { word: None, reason, status, body: Body::Mozilla(errno, text) }
}

/// Headers or a token of VAPID that no service takes.
pub(super) const BAD_VAPID: Refusal = mozilla(401, "errno_109", 109, "Invalid authentication");
/// A message signed with another key than the subscription was made with.
pub(super) const KEY_MISMATCH: Refusal = Refusal {
    word: Some("mismatch"),
    reason: "mismatch",
    status: 403,
    body: Body::Text(
        "the VAPID credentials in the authorization header do not correspond to the credentials \
         used to create the subscriptions.\n",
    ),
};
/// What cannot be decrypted.
pub(super) const BAD_CRYPTO: Refusal =
    mozilla(400, "errno_110", 110, "Invalid crypto keys specified");
/// A header that has to be there and is not.
pub(super) const MISSING_HEADER: Refusal =
    mozilla(400, "errno_111", 111, "Missing Required Header");
/// A `TTL` that is no number of seconds.
pub(super) const BAD_TTL: Refusal = mozilla(400, "errno_112", 112, "Invalid TTL header value");
/// A `Topic` that is too long or not of its alphabet.
pub(super) const BAD_TOPIC: Refusal = mozilla(400, "errno_113", 113, "Invalid Topic header value");
/// An endpoint that never was.
pub(super) const NO_ENDPOINT: Refusal = mozilla(404, "errno_102", 102, "Invalid URL endpoint");
/// A body over what services have to take.
pub(super) const TOO_LARGE: Refusal = mozilla(413, "errno_104", 104, "Data payload too large");

impl Refusal {
    /// All of them; the first of a status is its usual one.
    pub const ALL: &'static [Self] = &[
        BAD_CRYPTO,
        MISSING_HEADER,
        BAD_TTL,
        BAD_TOPIC,
        mozilla(400, "errno_101", 101, "Missing necessary crypto keys"),
        mozilla(400, "errno_108", 108, "Router type is invalid"),
        Refusal {
            word: Some("registration"),
            reason: "UnauthorizedRegistration",
            status: 400,
            body: Body::Text("UnauthorizedRegistration\n"),
        },
        BAD_VAPID,
        KEY_MISMATCH,
        Refusal { word: Some("badjwt"), reason: "BadJwtToken", status: 403, body: Body::Apple },
        Refusal {
            word: Some("badkey"),
            reason: "VapidPkHashMismatch",
            status: 403,
            body: Body::Apple,
        },
        NO_ENDPOINT,
        Refusal { word: None, reason: "windows_throttled", status: 406, body: Body::Empty },
        mozilla(410, "errno_106", 106, "Invalid subscription"),
        mozilla(410, "errno_103", 103, "Expired URL endpoint"),
        mozilla(410, "errno_105", 105, "Endpoint became unavailable during request"),
        Refusal {
            word: Some("unsubscribed"),
            reason: "unsubscribed",
            status: 410,
            body: Body::Text("push subscription has unsubscribed or expired.\n"),
        },
        Refusal { word: None, reason: "Unregistered", status: 410, body: Body::Apple },
        TOO_LARGE,
        mozilla(429, "errno_201", 201, "Use exponential back-off for retries"),
        Refusal { word: None, reason: "TooManyRequests", status: 429, body: Body::Apple },
        mozilla(500, "errno_999", 999, "Unknown error"),
        mozilla(502, "errno_902", 902, "An error occurred while establishing a connection"),
        mozilla(503, "errno_202", 202, "Immediate retry ok"),
        Refusal { word: Some("empty"), reason: "empty", status: 503, body: Body::Empty },
        Refusal { word: None, reason: "timeout", status: 504, body: Body::Empty },
    ];

    fn named(reason: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|refusal| refusal.reason == reason)
    }

    fn usual(status: u16) -> Option<&'static Self> {
        Self::ALL.iter().find(|refusal| refusal.status == status)
    }
}

/// The status of a refusal that can be asked for.
pub(in crate::sandbox) fn status_of(reason: &str) -> Option<u16> {
    Refusal::named(reason).map(|refusal| refusal.status)
}

/// Whether a push service calls this a success (RFC 8030 §5; 200 and 204 are seen).
pub(super) fn is_success(status: u16) -> bool {
    matches!(status, 200 | 201 | 202 | 204)
}

/// Status and reason that an answer stands for.
pub(super) fn resolve(answer: &Answer) -> (u16, Option<&str>) {
    match (answer.status, answer.reason.as_deref()) {
        (Some(status), Some(reason)) => (status, Some(reason)),
        (Some(status), None) => (status, Refusal::usual(status).map(|refusal| refusal.reason)),
        (None, Some(reason)) => (status_of(reason).unwrap_or(400), Some(reason)),
        (None, None) => (201, None),
    }
}

/// The response of a refusal. On a redirect the reason is where it leads.
pub(super) fn render(code: u16, reason: Option<&str>) -> Response<Bytes> {
    if (300..400).contains(&code) {
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = status(code);
        if let Some(to) = reason.and_then(|to| HeaderValue::from_str(to).ok()) {
            response.headers_mut().insert(header::LOCATION, to);
        }
        return response;
    }
    let body = reason.and_then(Refusal::named).map_or(Body::Empty, |refusal| refusal.body);
    match body {
        Body::Mozilla(errno, message) => {
            let name = status(code).canonical_reason().unwrap_or("Error");
            let body = json!({"code": code, "errno": errno, "error": name, "message": message});
            json(status(code), &body)
        }
        Body::Apple => json(status(code), &json!({ "reason": reason })),
        Body::Text(text) => respond(status(code), "text/plain; charset=utf-8", text),
        Body::Empty => respond(status(code), "text/plain; charset=utf-8", ""),
    }
}

/// What an id asks for, if it does: what follows its last `-`.
pub(super) fn in_id(id: &str) -> Option<Answer> {
    let (_, script) = id.rsplit_once('-')?;
    read_script(script)
}

fn read_script(script: &str) -> Option<Answer> {
    let (script, attempts) = number_after(script, 'x');
    let (script, retry_after) = number_after(script, ':');
    let fault = Action::FAULTS.into_iter().find(|fault| fault.as_str() == script);
    let word = Refusal::ALL.iter().find(|refusal| refusal.word == Some(script));
    let answer = match (fault, word, script.parse::<u16>()) {
        (Some(fault), _, _) => Answer::fault(fault),
        (None, Some(word), _) => {
            Answer { status: Some(word.status), ..Answer::reason(word.reason) }
        }
        (None, None, Ok(status)) if (200..600).contains(&status) => Answer::status(status),
        (None, None, Ok(_) | Err(_)) => return None,
    };
    let attempts = attempts.and_then(|attempts| u32::try_from(attempts).ok());
    Some(Answer { attempts, retry_after, ..answer })
}

/// The script that asks for an answer; empty for a success. `None` where there is none: a reason
/// without a word. That takes a [`Rule`](crate::sandbox::Rule).
pub(in crate::sandbox) fn script(answer: &Answer) -> Option<String> {
    let mut script = match (answer.action, &answer.reason, answer.status) {
        (Action::Answer, None, None) => return Some(String::new()),
        (Action::Answer, Some(reason), _) => Refusal::named(reason)?.word?.to_owned(),
        (Action::Answer, None, Some(status)) => status.to_string(),
        (fault, _, _) => fault.as_str().to_owned(),
    };
    if let Some(seconds) = answer.retry_after {
        script.push_str(&format!(":{seconds}"));
    }
    if let Some(attempts) = answer.attempts {
        script.push_str(&format!("x{attempts}"));
    }
    Some(script)
}

/// Whether a text is such a script.
pub(super) fn is_script(script: &str) -> bool {
    read_script(script).is_some()
}
