//! Reads what Meta sends of a page: `messages`, `messaging_postbacks`, `messaging_optins` and
//! `messaging_referrals`. Pure. What is not understood is passed over, event by event.

use notify_core::{DeviceId, Timestamp};
use serde_json::Value;

use crate::api::hooks::link;
use crate::payload::poll_button;
use crate::store::{Act, Inbound, Newcomer, Recipient};

/// Longest page-scoped id, as B25 takes it.
const RECIPIENT_ID_CHARS_MAX: usize = 255;

/// What people did, in order. `make_id` gives an id to whoever turns out to be new.
pub(super) fn read(call: &Value, now: Timestamp, make_id: fn() -> DeviceId) -> Vec<Inbound> {
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
    let brought = brought.and_then(link::device_id);
    let newcomer = Newcomer { made: make_id(), brought, language: None };
    let voted = pressed.and_then(poll_button::read);
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

#[cfg(test)]
mod tests;
