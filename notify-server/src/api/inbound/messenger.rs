//! The webhook of Messenger. Meta asks once whether it is ours, then signs what it sends.

#[cfg(test)]
mod tests;

use bytes::Bytes;
use http::{HeaderValue, Method, header};
use notify_core::{DeviceId, ProviderKind, Success, Timestamp};
use serde_json::Value;

use crate::api::error::ApiError;
use crate::api::inbound::{Head, device_id, make_id, respond, signature};
use crate::api::json_reply::Reply;
use crate::api::request_ctx::{Ctx, form_pairs};
use crate::payload::buttons;
use crate::provider_config::{MessengerConfig, ProviderConfig};
use crate::store::{Act, Inbound, Newcomer, Recipient};

const SIGNATURE: header::HeaderName = header::HeaderName::from_static("x-hub-signature-256");

/// `GET /hooks/messenger/{app_id}`: whoever knows the `verify_token` gets the challenge back.
pub(in crate::api) async fn verify(ctx: Ctx) -> http::Response<Bytes> {
    respond(challenge(&ctx))
}

/// `POST /hooks/messenger/{app_id}`: what people did.
pub(in crate::api) async fn receive(ctx: Ctx) -> http::Response<Bytes> {
    respond(take(&ctx).await)
}

/// Whether a head is right: of a `GET` the `verify_token`, of a `POST` a signature that can be
/// checked once the body is there.
pub(super) fn is_head_right(config: &MessengerConfig, head: Head<'_>) -> bool {
    if *head.method != Method::POST {
        let query = form_pairs(head.uri.query().unwrap_or_default()).unwrap_or_default();
        let given = |name| value(&query, name).unwrap_or_default();
        let token = given("hub.verify_token").as_bytes();
        let is_known = signature::is_secret(token, config.verify_token.as_ref());
        return is_known && given("hub.mode") == "subscribe";
    }
    let given = head.headers.get(&SIGNATURE);
    let is_well_formed = given.is_some_and(|given| signature::is_well_formed(given.as_bytes()));
    is_well_formed && config.app_secret.is_some()
}

fn value<'q>(query: &'q [(String, String)], name: &str) -> Option<&'q str> {
    let mut values = query.iter().filter(|(known, _)| known == name);
    values.next().map(|(_, value)| value.as_str())
}

fn challenge(ctx: &Ctx) -> Result<http::Response<Bytes>, ApiError> {
    let query = ctx.query().map_err(|_| ApiError::HookUnauthorized)?;
    let challenge = value(&query, "hub.challenge").ok_or(ApiError::HookUnauthorized)?;
    let mut response = http::Response::new(Bytes::from(challenge.to_owned()));
    // Text, whatever it holds: it must not become a page.
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, text);
    Ok(response)
}

async fn take(ctx: &Ctx) -> Result<http::Response<Bytes>, ApiError> {
    let hook = ctx.hook();
    let ProviderConfig::Messenger(config) = &hook.config else {
        return Err(ApiError::HookUnauthorized);
    };
    let secret = config.app_secret.as_ref().ok_or(ApiError::HookUnauthorized)?;
    let given = ctx.header(&SIGNATURE).ok_or(ApiError::HookUnauthorized)?;
    if !signature::is_signed(ctx.body(), given.as_bytes(), secret) {
        return Err(ApiError::HookUnauthorized);
    }
    if let Some(call) = hook.json(ctx, ProviderKind::Messenger) {
        hook.take(ctx, read(&call, ctx.at(), make_id)).await?;
    }
    Ok(Reply::now(Success { success: true }).into_response())
}

// Reads what Meta sends of a page: `messages`, `messaging_postbacks`, `messaging_optins` and
// `messaging_referrals`. Pure. What is not understood is passed over, event by event.

/// Longest page-scoped id, as B25 takes it.
const RECIPIENT_ID_CHARS_MAX: usize = 255;

/// What people did, in order. `make_id` gives an id to whoever turns out to be new.
fn read(call: &Value, now: Timestamp, make_id: fn() -> DeviceId) -> Vec<Inbound> {
    if call["object"] != "page" {
        return Vec::new();
    }
    let entries = list(&call["entry"]);
    let events = entries.flat_map(|entry| list(&entry["messaging"]));
    events.filter_map(|event| read_event(event, now, make_id)).flatten().collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The acts of one event: someone was there, and pressed a button perhaps.
fn read_event(
    event: &Value,
    now: Timestamp,
    make_id: fn() -> DeviceId,
) -> Option<impl Iterator<Item = Inbound>> {
    let Happened { brought, pressed } = happened(event)?;
    let id = event["sender"]["id"].as_str()?;
    let is_id = (1..=RECIPIENT_ID_CHARS_MAX).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_graphic());
    let who = is_id.then(|| Recipient::Messenger(id.to_owned()))?;
    let at = event["timestamp"].as_i64().filter(|ms| *ms > 0).map(|ms| Timestamp(ms).min(now));
    let brought = brought.and_then(device_id);
    let newcomer = Newcomer { made: make_id(), brought, language: None };
    let voted = pressed.and_then(buttons::read);
    let voted = voted.map(|(poll, answer)| Act::Voted { poll, answer });
    let acts = [Some(Act::Wrote(newcomer)), voted].into_iter().flatten();
    Some(acts.map(move |act| Inbound { who: who.clone(), at, act }))
}

/// What an event tells beside who and when.
struct Happened<'e> {
    /// `ref` of the link that led here.
    brought: Option<&'e str>,
    /// Payload of the button that was pressed.
    pressed: Option<&'e str>,
}

/// What a person did; `None` for what is no act of a person, or none that opens a conversation.
fn happened(event: &Value) -> Option<Happened<'_>> {
    if let Some(message) = event["message"].as_object() {
        // An echo is what the page itself wrote: its sender is the page. A deletion is no message.
        let is = |name: &str| message.get(name).and_then(Value::as_bool) == Some(true);
        if is("is_echo") || is("is_deleted") {
            return None;
        }
        let message = &event["message"];
        return Some(Happened {
            brought: message["referral"]["ref"].as_str(),
            pressed: message["quick_reply"]["payload"].as_str(),
        });
    }
    if event["postback"].is_object() {
        let postback = &event["postback"];
        return Some(Happened {
            brought: postback["referral"]["ref"].as_str(),
            pressed: postback["payload"].as_str(),
        });
    }
    // An opt-in of a type is for messages of that type alone, which are not sent from here.
    if event["optin"].is_object() && event["optin"]["type"].is_null() {
        return Some(Happened { brought: event["optin"]["ref"].as_str(), pressed: None });
    }
    if event["referral"].is_object() {
        return Some(Happened { brought: event["referral"]["ref"].as_str(), pressed: None });
    }
    None
}
