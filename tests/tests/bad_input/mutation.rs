//! Mutations of valid bodies.

use proptest::prelude::*;
use serde_json::{Value, json};

/// One change to a body.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// Replaces the value at the position.
    Replace(usize, Value),
    /// Removes the member or element at the position.
    Remove(usize),
    /// Puts the value at the position into nested lists, with this number of levels.
    Wrap(usize, usize),
    /// Replaces a byte of the text.
    Byte(usize, u8),
    /// Ends the text at the position.
    Cut(usize),
    /// Renames the member at the position.
    Rename(usize, String),
}

/// Values that a parser or a rule may handle wrongly.
fn hostile() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop_oneof![Just(0_u64), Just(u64::MAX), Just(253_402_300_800_000), Just(1 << 53)]
            .prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
        "(default|notify|\\.\\.|%00|GMT[+-][0-9]{2}:[0-9]{2}|https?://.{0,9}|[a-z]+://.{0,9})"
            .prop_map(Value::from),
        (1_usize..5_000).prop_map(|length| Value::from("ä".repeat(length))),
        (0_usize..1_200).prop_map(|length| json!(vec!["a"; length])),
        Just(json!({})),
        Just(json!({"aps": {"alert": "a", "badge": 1, "sound": "s"}, "from": "x"})),
    ]
}

/// A strategy for any of these changes.
pub(crate) fn change() -> impl Strategy<Value = Change> {
    let place = 0_usize..64;
    prop_oneof![
        6 => (place.clone(), hostile()).prop_map(|(place, value)| Change::Replace(place, value)),
        1 => place.clone().prop_map(Change::Remove),
        1 => (place.clone(), 1_usize..100).prop_map(|(place, depth)| Change::Wrap(place, depth)),
        2 => (0_usize..4_096, any::<u8>()).prop_map(|(place, byte)| Change::Byte(place, byte)),
        1 => (0_usize..4_096).prop_map(Change::Cut),
        1 => (place, ".{0,12}").prop_map(|(place, name)| Change::Rename(place, name)),
    ]
}

/// The value at a position, counted in reading order.
fn at<'v>(value: &'v mut Value, place: &mut usize) -> Option<&'v mut Value> {
    if *place == 0 {
        return Some(value);
    }
    *place -= 1;
    match value {
        Value::Array(elements) => elements.iter_mut().find_map(|element| at(element, place)),
        Value::Object(members) => members.values_mut().find_map(|member| at(member, place)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(elements) => elements.iter().map(count).sum(),
        Value::Object(members) => members.values().map(count).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// The body with these changes, as bytes.
pub(crate) fn mutated(mut body: Value, changes: &[Change]) -> Vec<u8> {
    for change in changes {
        let (Change::Replace(place, _)
        | Change::Remove(place)
        | Change::Wrap(place, _)
        | Change::Byte(place, _)
        | Change::Cut(place)
        | Change::Rename(place, _)) = change;
        let mut place = place % count(&body);
        let Some(found) = at(&mut body, &mut place) else { continue };
        match change {
            Change::Replace(_, value) => *found = value.clone(),
            Change::Wrap(_, depth) => {
                *found = (0..*depth).fold(found.take(), |inner, _| json!([inner]));
            }
            Change::Remove(_) => match found {
                Value::Array(elements) => drop(elements.pop()),
                Value::Object(members) => {
                    let first = members.keys().next().cloned();
                    first.and_then(|name| members.remove(&name));
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                    *found = Value::Null;
                }
            },
            Change::Rename(_, name) => {
                if let Value::Object(members) = found
                    && let Some(first) = members.keys().next().cloned()
                    && let Some(value) = members.remove(&first)
                {
                    members.insert(name.clone(), value);
                }
            }
            Change::Byte(..) | Change::Cut(_) => {}
        }
    }
    let mut text = body.to_string().into_bytes();
    for change in changes {
        match change {
            Change::Byte(place, byte) if !text.is_empty() => {
                let place = place % text.len();
                text[place] = *byte;
            }
            Change::Cut(place) => text.truncate(place % (text.len() + 1)),
            Change::Byte(..)
            | Change::Replace(..)
            | Change::Remove(_)
            | Change::Wrap(..)
            | Change::Rename(..) => {}
        }
    }
    text
}
