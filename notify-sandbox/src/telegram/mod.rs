//! Fake Bot API of Telegram: <https://core.telegram.org/bots/api>. Checks token, method and message,
//! in that order, then answers by script and by its limits: so many messages a second to all, and
//! fewer to one chat.

mod errors;
mod schema;

use bytes::Bytes;
use http::{Response, StatusCode, header};
use serde_json::{Value, json};

pub(super) use errors::status_of;
pub use errors::{telegram_chat, telegram_words};

use super::answer::{Action, Answer, Provider};
use super::apns::shown_payload;
use super::buckets::Limit;
use super::exchange::{Call, Peer, Verdict, json};
use super::journal::{Received, Tally, shown_headers};
use super::rules::Scripted;
use super::scene::Scene;
use errors::Failure;

/// Messages a minute to a group.
const GROUP_PER_MINUTE: u32 = 20;

/// What became of a call.
enum Judged {
    Sent { id: u32 },
    Failed(Failure),
    Fault(Answer),
}

/// Judges one call and answers it.
pub(super) fn exchange(scene: &Scene, peer: &Peer, path: &str, call: &Call) -> Verdict {
    let is_photo = match method(scene, path) {
        Ok("getme") => return Verdict::answer(me(scene)),
        Ok("sendmessage") => false,
        Ok("sendphoto") => true,
        Ok(_) => return Verdict::answer(Failure::named("nomethod").into_response()),
        Err(failure) => {
            // A message that came with a wrong token is to be seen, too.
            let judged = Judged::Failed(failure);
            let plain = (None, judged, Scripted::default());
            return finish(scene, peer, call, shown_payload(&call.body), plain);
        }
    };
    let parameters = shown_payload(&call.body);
    let content_type = call.header(header::CONTENT_TYPE.as_str()).unwrap_or_default();
    let checked = if content_type.to_ascii_lowercase().starts_with("application/json") {
        schema::check(&parameters, is_photo)
    } else {
        // Telegram reads forms as well; the sandbox does not.
        Err(Failure::new(400, "Bad Request: the sandbox reads JSON alone"))
    };
    let judged = match checked {
        Ok(chat) => {
            let scripted = errors::in_chat(&chat, is_photo);
            let scripted = scene.rules.scripted(Provider::Telegram, &chat, scripted);
            let judged = judge(scene, &chat, scripted.answer.clone());
            (Some(chat), judged, scripted)
        }
        Err(failure) => {
            let chat = parameters.as_object().and_then(schema::chat_of);
            (chat, Judged::Failed(failure), Scripted::default())
        }
    };
    finish(scene, peer, call, parameters, judged)
}

/// The method of a path, in lower case: Telegram does not mind.
fn method<'a>(scene: &Scene, path: &'a str) -> Result<&'a str, Failure> {
    let not_found = || Failure::named("notthere");
    let (token, method) =
        path.strip_prefix("/bot").and_then(|rest| rest.split_once('/')).ok_or_else(not_found)?;
    let (number, secret) = token.split_once(':').ok_or_else(not_found)?;
    if number.parse::<u64>().is_err() || secret.is_empty() {
        return Err(not_found());
    }
    if token != scene.credentials.bot.token {
        return Err(Failure::named("unauthorized"));
    }
    let known = ["getMe", "sendMessage", "sendPhoto"].into_iter().zip([
        "getme",
        "sendmessage",
        "sendphoto",
    ]);
    let mut known = known.filter(|(name, _)| name.eq_ignore_ascii_case(method));
    Ok(known.next().map_or("", |(_, name)| name))
}

fn me(scene: &Scene) -> Response<Bytes> {
    let bot = json!({
        "id": scene.credentials.bot.id,
        "is_bot": true,
        "first_name": "Notify sandbox",
        "username": "notify_sandbox_bot",
    });
    json(StatusCode::OK, &json!({ "ok": true, "result": bot }))
}

fn judge(scene: &Scene, chat: &str, answer: Answer) -> Judged {
    if answer.action != Action::Answer {
        return Judged::Fault(answer);
    }
    if !answer.is_success() {
        return Judged::Failed(Failure::wanted(&answer, chat));
    }
    match take(scene, chat) {
        Ok(()) => Judged::Sent { id: fastrand::u32(1..) },
        Err(retry_after) => Judged::Failed(Failure::flood(retry_after)),
    }
}

/// Takes a message from the limits, that of the bot and that of the chat; what a limit of 0 allows
/// is not counted.
fn take(scene: &Scene, chat: &str) -> Result<(), u64> {
    let (per_second, burst) = {
        let settings = scene.settings.borrow();
        (settings.telegram_per_second, settings.telegram_chat_burst)
    };
    let now = scene.clock.now();
    if per_second > 0 {
        let limit = Limit { burst: per_second, per_second: f64::from(per_second) };
        scene.buckets.take("telegram", limit, now)?;
    }
    if burst == 0 {
        return Ok(());
    }
    let key = format!("telegram {chat}");
    let limit = if chat.starts_with('-') {
        Limit { burst: GROUP_PER_MINUTE, per_second: f64::from(GROUP_PER_MINUTE) / 60.0 }
    } else {
        Limit { burst, per_second: 1.0 }
    };
    scene.buckets.take(&key, limit, now)
}

fn finish(
    scene: &Scene,
    peer: &Peer,
    call: &Call,
    parameters: Value,
    (chat, judged, scripted): (Option<String>, Judged, Scripted),
) -> Verdict {
    record(scene, peer, call, chat.as_deref(), parameters, &judged);
    let Scripted { delay_ms, dress, .. } = scripted;
    let response = match judged {
        Judged::Sent { id } => {
            let number: Option<i64> = chat.as_deref().and_then(number_of);
            let chat = json!({ "id": number, "type": "private" });
            let sent =
                json!({ "message_id": id, "date": scene.clock.now().as_seconds(), "chat": chat });
            json(StatusCode::OK, &json!({ "ok": true, "result": sent }))
        }
        Judged::Failed(failure) => failure.into_response(),
        Judged::Fault(answer) => {
            return Verdict::scripted(&answer, delay_ms, || Response::new(Bytes::new()));
        }
    };
    Verdict { delay_ms, ..Verdict::answer(response) }.dressed(&dress)
}

/// The number of a chat without what it asks for.
fn number_of(chat: &str) -> Option<i64> {
    let (sign, number) = chat.strip_prefix('-').map_or((1, chat), |number| (-1, number));
    let number: i64 = number.split('-').next()?.parse().ok()?;
    Some(sign * number)
}

fn record(
    scene: &Scene,
    peer: &Peer,
    call: &Call,
    chat: Option<&str>,
    payload: Value,
    judged: &Judged,
) {
    let (status, reason, id) = match judged {
        Judged::Sent { id } => (200, None, Some(id.to_string())),
        Judged::Failed(failure) => (failure.http, Some(failure.reason().to_owned()), None),
        Judged::Fault(answer) => (0, Some(answer.action.as_str().to_owned()), None),
    };
    let provider = Provider::Telegram;
    let tally = Tally { provider, token: chat, status, reason: reason.as_deref() };
    scene.journal.record(tally, || Received {
        at_ms: scene.clock.now().as_ms(),
        provider,
        environment: None,
        token: chat.map(str::to_owned),
        headers: shown_headers(&call.head.headers),
        payload,
        status,
        reason: reason.clone(),
        message_id: id.clone(),
        connection: peer.number,
        stream: call.stream,
    });
}
