//! The webhook of Messenger. Meta verifies it once, then signs every call.

#[cfg(test)]
mod tests;

use http::request::Parts;
use http::{HeaderValue, Method, header};
use notify_core::{DeviceId, ProviderKind, RECIPIENT_ID_CHARS_MAX, Timestamp};
use serde_json::Value;
use warp::Reply;
use warp::reply::Response;

use crate::api::error::ApiError;
use crate::api::inbound::linked_device_id;
use crate::api::inbound::{make_id, signature};
use crate::api::json_reply::JsonReply;
use crate::api::request_ctx::{RequestCtx, decode_pairs};
use crate::payload::buttons;
use crate::provider_config::{MessengerConfig, ProviderConfig};
use crate::store::{Inbound, InboundAction, NewContact, Recipient};

const SIGNATURE: header::HeaderName = header::HeaderName::from_static("x-hub-signature-256");

/// `GET /hooks/messenger/{app_id}`: responds to Meta's verification with its challenge. The
/// pipeline has already checked the token of the request ([`is_head_valid`]).
pub(in crate::api) async fn verify(ctx: RequestCtx) -> Result<Response, ApiError> {
    let query = ctx.query().map_err(|_| ApiError::InvalidSignature)?;
    let challenge = first_value(&query, "hub.challenge").ok_or(ApiError::InvalidSignature)?;
    let mut response = Response::new(challenge.to_owned().into());
    // Always text: a browser must not render it as a page.
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, text);
    Ok(response)
}

/// `POST /hooks/messenger/{app_id}`: records what people did.
pub(in crate::api) async fn receive(ctx: RequestCtx) -> Result<Response, ApiError> {
    let webhook = ctx.webhook();
    let ProviderConfig::Messenger(config) = &webhook.config else {
        return Err(ApiError::InvalidSignature);
    };
    let secret = config.app_secret.as_ref().ok_or(ApiError::InvalidSignature)?;
    let signature_header = ctx.headers().get(&SIGNATURE).ok_or(ApiError::InvalidSignature)?;
    if !signature::is_valid(&ctx.body.bytes, signature_header.as_bytes(), secret) {
        return Err(ApiError::InvalidSignature);
    }
    if let Some(call) = webhook.json(&ctx, ProviderKind::Messenger) {
        webhook.record(&ctx, parse_call(&call, ctx.received_at, make_id)).await?;
    }
    Ok(JsonReply::success().into_response())
}

/// Whether the head of a call is valid: a `GET` must have the `verify_token`, a `POST` must have a
/// signature of the right form, which is verified once the body is read.
pub(super) fn is_head_valid(config: &MessengerConfig, head: &Parts) -> bool {
    if head.method != Method::POST {
        let query = decode_pairs(head.uri.query().unwrap_or_default()).unwrap_or_default();
        let parameter = |name| first_value(&query, name).unwrap_or_default();
        let token = parameter("hub.verify_token").as_bytes();
        let is_token_valid = signature::matches_secret(token, config.verify_token.as_ref());
        return is_token_valid && parameter("hub.mode") == "subscribe";
    }
    let header = head.headers.get(&SIGNATURE);
    let is_well_formed = header.is_some_and(|value| signature::is_well_formed(value.as_bytes()));
    is_well_formed && config.app_secret.is_some()
}

fn first_value<'q>(query: &'q [(String, String)], name: &str) -> Option<&'q str> {
    let mut values = query.iter().filter(|(other, _)| other == name);
    values.next().map(|(_, value)| value.as_str())
}

// Parses Meta's events of a page: `messages`, `messaging_postbacks`, `messaging_optins` and
// `messaging_referrals`. Unknown events are skipped.

/// What people did, in order. `make_id` makes the ids of new devices.
fn parse_call(call: &Value, now: Timestamp, make_id: fn() -> DeviceId) -> Vec<Inbound> {
    if call["object"] != "page" {
        return Vec::new();
    }
    let entries = list(&call["entry"]);
    let events = entries.flat_map(|entry| list(&entry["messaging"]));
    events.filter_map(|event| parse_event(event, now, make_id)).flatten().collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The acts of one event: a message, and possibly a vote.
fn parse_event(
    event: &Value,
    now: Timestamp,
    make_id: fn() -> DeviceId,
) -> Option<impl Iterator<Item = Inbound>> {
    let EventPayloads { link_payload, button_payload } = event_payloads(event)?;
    let id = event["sender"]["id"].as_str()?;
    let is_id = (1..=RECIPIENT_ID_CHARS_MAX).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_graphic());
    let who = is_id.then(|| Recipient::Messenger(id.to_owned()))?;
    let at = event["timestamp"].as_i64().filter(|ms| *ms > 0).map(|ms| Timestamp(ms).min(now));
    let requested_id = link_payload.and_then(linked_device_id);
    let contact = NewContact { generated_id: make_id(), requested_id, language: None };
    let vote = button_payload
        .and_then(buttons::parse_payload)
        .map(|(poll, answer)| InboundAction::Voted { poll, answer });
    let acts = [Some(InboundAction::Wrote(contact)), vote].into_iter().flatten();
    Some(acts.map(move |act| Inbound { who: who.clone(), at, act }))
}

/// The payloads of an event.
struct EventPayloads<'e> {
    /// `ref` of the link that the person followed.
    link_payload: Option<&'e str>,
    /// Payload of the button that the person pressed.
    button_payload: Option<&'e str>,
}

/// The payloads of what a person did. `None` for an event that is not an act of a person, or that
/// does not allow the page to write to the person.
fn event_payloads(event: &Value) -> Option<EventPayloads<'_>> {
    if let Some(message) = event["message"].as_object() {
        // An echo is a message that the page itself sent. A deletion is not a message.
        let is = |name: &str| message.get(name).and_then(Value::as_bool) == Some(true);
        if is("is_echo") || is("is_deleted") {
            return None;
        }
        let message = &event["message"];
        return Some(EventPayloads {
            link_payload: message["referral"]["ref"].as_str(),
            button_payload: message["quick_reply"]["payload"].as_str(),
        });
    }
    if event["postback"].is_object() {
        let postback = &event["postback"];
        return Some(EventPayloads {
            link_payload: postback["referral"]["ref"].as_str(),
            button_payload: postback["payload"].as_str(),
        });
    }
    // An opt-in with a type allows only messages of that type, which Notify does not send.
    if event["optin"].is_object() && event["optin"]["type"].is_null() {
        return Some(EventPayloads {
            link_payload: event["optin"]["ref"].as_str(),
            button_payload: None,
        });
    }
    if event["referral"].is_object() {
        return Some(EventPayloads {
            link_payload: event["referral"]["ref"].as_str(),
            button_payload: None,
        });
    }
    None
}
