//! Reads a line of NDJSON, or an element of a JSON list, as the draft of a device or a user.

use notify_client::notify_core::{PatchAttributes, RegisterDevice, Request};

use super::{
    Purpose,
    columns::is_known_column,
    operation::{Draft, attributes_of_json, parse_subscription, tags_of_json},
    purpose::ATTRIBUTE_PREFIX,
    source_row::{is_added, is_report, members, object},
};

/// Parses a line or an element. It may be a registration, a device or a user as the API returns it, or a
/// row of a report. Most lines of a file of devices are plain registrations, so the parser tries that
/// first.
pub(super) fn draft_of_json(line: &[u8], purpose: Purpose) -> Result<Draft, Vec<String>> {
    let registration = RegisterDevice::from_json(line.trim_ascii());
    if registration.is_err()
        && let Some(members) = members(line)
    {
        return draft_of_members(members, purpose);
    }
    let registration = registration.map_err(|violations| violations.into_vec())?;
    Ok(Draft { registration, ..Draft::default() })
}

/// Parses a row that has these members. Each member is a name with the JSON text of its value.
fn draft_of_members(
    mut members: Vec<(String, String)>,
    purpose: Purpose,
) -> Result<Draft, Vec<String>> {
    if is_report(members.iter().map(|(name, _)| name.as_bytes())) {
        members.retain(|(name, _)| !is_added(name.as_bytes()));
    }
    members.retain(|(name, _)| {
        let is_ignored = !purpose.uses_column(name) && is_known_column(name);
        !is_ignored && !purpose.read_only_fields().contains(&&**name)
    });
    let mut take = |name: &str| {
        let index = members.iter().position(|(member, _)| member == name)?;
        let (_, text) = members.remove(index);
        (text != "null").then_some(text)
    };
    let tags = take("tags").map(|text| tags_of_json(&text));
    let attributes = take("attributes").map(|text| attributes_of_json(&text));
    let subscription = take("subscription").map(|text| parse_subscription(&text));
    let recipient_id = take("recipient_id").map(|text| parse(&text, "recipient_id", "a string"));
    let enabled = take("enabled").map(|text| parse(&text, "enabled", "a boolean"));
    let reason = take("disabled_reason").map(|text| parse(&text, "disabled_reason", "a string"));
    let single = take_single_attributes(&mut members);
    let registration = RegisterDevice::from_json(object(members.iter()).as_bytes())
        .map_err(|violations| violations.into_vec());
    let mut errors = Vec::new();
    let mut draft = Draft {
        tags: value_or_errors(tags, &mut errors).unwrap_or_default(),
        attributes: value_or_errors(attributes, &mut errors).unwrap_or_default(),
        subscription: value_or_errors(subscription, &mut errors),
        recipient_id: value_or_errors(recipient_id, &mut errors),
        enabled: value_or_errors(enabled, &mut errors),
        disabled_reason: value_or_errors(reason, &mut errors),
        registration: value_or_errors(Some(registration), &mut errors).unwrap_or_default(),
    };
    let single = value_or_errors(single, &mut errors).unwrap_or_default();
    draft.attributes.0.extend(single.0);
    if errors.is_empty() { Ok(draft) } else { Err(errors) }
}

/// Takes the members that have the value of one attribute each. Null changes nothing, like an empty cell in
/// CSV.
fn take_single_attributes(
    members: &mut Vec<(String, String)>,
) -> Option<Result<PatchAttributes, Vec<String>>> {
    let taken = members.extract_if(.., |(name, _)| name.starts_with(ATTRIBUTE_PREFIX));
    let taken = taken.filter_map(|(name, text)| {
        let name = name.strip_prefix(ATTRIBUTE_PREFIX)?.to_owned();
        (text != "null").then_some((name, text))
    });
    let taken: Vec<_> = taken.collect();
    (!taken.is_empty()).then(|| attributes_of_json(&object(taken.iter())))
}

/// Returns the parsed value, if there is one. If parsing failed, adds the reasons to `errors`.
fn value_or_errors<T>(
    parsed: Option<Result<T, Vec<String>>>,
    errors: &mut Vec<String>,
) -> Option<T> {
    match parsed? {
        Ok(value) => Some(value),
        Err(reasons) => {
            errors.extend(reasons);
            None
        }
    }
}

/// Parses a JSON text. The error has the name of the field, and the expected type.
fn parse<T: serde::de::DeserializeOwned>(
    text: &str,
    name: &str,
    expected: &str,
) -> Result<T, Vec<String>> {
    serde_json::from_str(text).map_err(|_| vec![format!("{name}: expected {expected}")])
}
