//! The text of a value in a table and in a CSV file.

use std::borrow::Cow;

use notify_client::notify_core::{
    Attributes, Audience, ProviderStatus, Timestamp, is_unprintable, joins,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::attribute::value_text;

/// How a table formats the values of a column. CSV has the same times, and everything else unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CellKind {
    /// Unchanged, on one line: ids, words, counts.
    Plain,
    /// Unchanged, possibly on several lines.
    Text,
    /// Like `Text`, but never shortened, because the end may contain the remedy.
    Whole,
    /// A payload: indented JSON of limited width, never shortened.
    Payload,
    /// Languages of a preview: each with its size, its payload and its problems, never shortened.
    Languages,
    /// An object or a list: indented JSON.
    Nested,
    /// Unix milliseconds, as a time.
    Time,
    /// Unix milliseconds, as a day.
    Day,
    /// Tags of a device: their names, and the value of those that are false.
    Tags,
    /// Attributes of a device or a user: names and values, one on each line.
    Attributes,
    /// Devices of a user, one on each line.
    UserDevices,
    /// The condition of an audience, as an expression.
    Audience,
    /// Configuration of a provider: the members that identify it, such as a key id or a project id.
    Provider,
    /// Configuration of a provider whose members have their own columns: only whether it is missing.
    MissingConfig,
    /// State of deliveries through a provider, with its reason and its end.
    Channel,
    /// A device: whether it can receive notifications, or why not.
    DeviceState,
    /// Failures of a notification: count, platform and reason, one on each line.
    Failures,
    /// Request of a notification: its text, or the question of its poll.
    Message,
    /// Texts, one on each line.
    Lines,
    /// A count; empty for zero.
    Count,
    /// Ignored events: index and reason, one on each line.
    Ignored,
    /// A message to a webhook: why its last attempt failed.
    Attempt,
    /// A webhook: whether it receives events, or why not.
    Webhook,
    /// Unix milliseconds of a step of an explanation; `now` if absent.
    Step,
    /// A notification: how many of its devices it was sent to and the other outcomes, one on each line;
    /// or the time when it is due.
    Counts,
}

impl CellKind {
    /// Whether a value stays on one line, so that ids can be copied.
    pub(super) fn is_unbroken(self) -> bool {
        matches!(
            self,
            Self::Plain
                | Self::Time
                | Self::Day
                | Self::Step
                | Self::DeviceState
                | Self::Count
                | Self::Webhook
        )
    }
}

/// Identifying members of a provider's configuration (RFC 6901).
const PROVIDER_SUMMARY: [&str; 5] =
    ["/team_id", "/key_id", "/topic", "/service_account/project_id", "/endpoint"];

/// Longest JSON on one line, in characters.
const NESTED_LINE_CHARS_MAX: usize = 60;

/// The outcomes other than `sent`, most important first.
const OTHER_OUTCOMES: [&str; 5] = ["failed", "unregistered", "expired", "canceled", "pending"];

/// First characters of a formula in spreadsheets (CWE-1236), with their full-width forms.
const FORMULA_STARTS: [char; 12] =
    ['=', '+', '-', '@', '\t', '\r', '\n', '\0', '＝', '＋', '－', '＠'];

/// The text of a value in a table.
pub(super) fn table_cell(value: Option<&Value>, kind: CellKind) -> String {
    let text = match (value, kind) {
        (Some(Value::Number(ms)), CellKind::Time) => {
            ms.as_i64().map_or_else(|| ms.to_string(), |ms| Timestamp(ms).to_rfc3339())
        }
        (Some(Value::Number(ms)), CellKind::Day) => ms.as_i64().map_or_else(|| ms.to_string(), day),
        (None | Some(Value::Null), CellKind::Step) => "now".to_owned(),
        (Some(ms @ Value::Number(_)), CellKind::Step) => table_cell(Some(ms), CellKind::Time),
        (Some(Value::Array(lines)), CellKind::Lines) => {
            let lines = lines.iter().map(|line| printable(&plain(Some(line))));
            return lines.collect::<Vec<_>>().join("\n");
        }
        (Some(Value::Array(languages)), CellKind::Languages) => {
            return languages.iter().map(language).collect::<Vec<_>>().join("\n");
        }
        (Some(Value::Array(tags)), CellKind::Tags) => {
            let names: Vec<String> = tags.iter().map(tag).collect();
            names.join(", ")
        }
        (Some(attributes @ Value::Object(_)), CellKind::Attributes) => {
            return attribute_lines(attributes).join("\n");
        }
        (Some(Value::Array(devices)), CellKind::UserDevices) => {
            let lines: Vec<String> = devices.iter().map(user_device).collect();
            return lines.join("\n");
        }
        (Some(audience @ Value::Object(_)), CellKind::Audience) => expression(audience),
        (Some(config @ Value::Object(_)), CellKind::Provider) => {
            let parts = PROVIDER_SUMMARY.iter().filter_map(|part| config.pointer(part)?.as_str());
            parts.collect::<Vec<_>>().join(" ")
        }
        // The server cannot decrypt the credentials any more, because its master key was lost.
        (Some(Value::Null), CellKind::Provider | CellKind::MissingConfig) => {
            "(forgotten)".to_owned()
        }
        (_, CellKind::MissingConfig) => String::new(),
        (Some(status @ Value::Object(_)), CellKind::Channel) => channel(status),
        (Some(device @ Value::Object(_)), CellKind::DeviceState) => device_state(device).to_owned(),
        (Some(Value::Array(failures)), CellKind::Failures) => {
            let lines: Vec<String> = failures.iter().map(failure).collect();
            return lines.join("\n");
        }
        (Some(request @ Value::Object(_)), CellKind::Message) => {
            let text = request["text"].as_str().or_else(|| request["poll"]["text"].as_str());
            text.unwrap_or_default().to_owned()
        }
        (Some(notification @ Value::Object(_)), CellKind::Counts) => return outcomes(notification),
        (Some(count), CellKind::Count) if count == 0 => String::new(),
        (Some(Value::Array(events)), CellKind::Ignored) => {
            let lines: Vec<String> = events.iter().map(ignored).collect();
            return lines.join("\n");
        }
        (Some(attempt @ Value::Object(_)), CellKind::Attempt) => attempt_failure(attempt),
        (Some(hook @ Value::Object(_)), CellKind::Webhook) => webhook(hook),
        (
            Some(json @ (Value::Array(_) | Value::Object(_))),
            CellKind::Nested | CellKind::Payload,
        ) => {
            return printable_lines(&pretty_json(json));
        }
        (Some(json @ (Value::Array(_) | Value::Object(_))), _) => single_line_json(json),
        _ => plain(value),
    };
    printable(&text)
}

/// The day (UTC) of an instant in unix milliseconds.
pub(crate) fn day(ms: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(ms);
    at.map_or_else(|_| ms.to_string(), |at| at.strftime("%F").to_string())
}

/// The text of a value in a CSV file.
pub(super) fn csv_cell(value: Option<&Value>, kind: CellKind) -> String {
    match value {
        Some(Value::Number(_))
            if matches!(kind, CellKind::Time | CellKind::Day | CellKind::Step) =>
        {
            table_cell(value, kind)
        }
        // A number is not a formula, even if it begins with a sign.
        Some(Value::Number(number)) => number.to_string(),
        _ => {
            let text = plain(value);
            if text.starts_with(FORMULA_STARTS) { format!("'{text}") } else { text }
        }
    }
}

/// The text of [`CellKind::Counts`].
fn outcomes(notification: &Value) -> String {
    let count = |name: &str| notification["counts"][name].as_u64().unwrap_or_default();
    let mut lines = vec![match count("targeted") {
        0 if notification["status"] == "completed" => "no device".to_owned(),
        0 if notification["status"] == "scheduled" => {
            let at = table_cell(notification.get("send_at"), CellKind::Time);
            if at.is_empty() { at } else { format!("due {at}") }
        }
        // The server has not selected the devices yet, or does not count them.
        0 => String::new(),
        targeted => format!("{} of {targeted} sent", count("sent")),
    }];
    let others =
        OTHER_OUTCOMES.iter().map(|name| (count(name), name)).filter(|(count, _)| *count > 0);
    lines.extend(others.map(|(count, name)| format!("{count} {name}")));
    lines.join("\n")
}

/// The state of deliveries through a provider, followed by that of each of its push services.
fn channel(status: &Value) -> String {
    let state = plain(status.get("state"));
    let mut text = ProviderStatus::word_of(&state).to_owned();
    if !status["until"].is_null() {
        text.push_str(&format!(" until {}", table_cell(status.get("until"), CellKind::Time)));
    }
    text.push_str(&match (&*state, status["reason"].as_str()) {
        ("held", Some(reason)) => format!(": the credentials are refused ({reason})"),
        ("stopped", _) => ": too many addresses looked dead at once".to_owned(),
        (_, Some(reason)) => format!(" ({reason})"),
        (_, None) => String::new(),
    });
    for service in status["services"].as_array().into_iter().flatten() {
        text.push_str(&format!("; {} {}", plain(service.get("service")), channel(service)));
    }
    text
}

/// JSON on several lines, unless it is short.
fn pretty_json(json: &Value) -> String {
    let line = single_line_json(json);
    if line.chars().count() <= NESTED_LINE_CHARS_MAX {
        return line;
    }
    serde_json::to_string_pretty(json).expect("a value is JSON")
}

/// JSON with a blank after each comma and colon, so that lines can be broken there.
fn single_line_json(json: &Value) -> String {
    struct Blanks;
    impl serde_json::ser::Formatter for Blanks {
        fn begin_array_value<W: ?Sized + std::io::Write>(
            &mut self,
            writer: &mut W,
            first: bool,
        ) -> std::io::Result<()> {
            if first { Ok(()) } else { writer.write_all(b", ") }
        }

        fn begin_object_key<W: ?Sized + std::io::Write>(
            &mut self,
            writer: &mut W,
            first: bool,
        ) -> std::io::Result<()> {
            if first { Ok(()) } else { writer.write_all(b", ") }
        }

        fn begin_object_value<W: ?Sized + std::io::Write>(
            &mut self,
            writer: &mut W,
        ) -> std::io::Result<()> {
            writer.write_all(b": ")
        }
    }
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, Blanks);
    json.serialize(&mut serializer).expect("a value is JSON");
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

fn ignored(event: &Value) -> String {
    let reason = printable(event["reason"].as_str().unwrap_or_default());
    format!("events[{}]: {reason}", event["index"])
}

/// Why an attempt failed; the reason `status` means a response other than 2xx.
fn attempt_failure(attempt: &Value) -> String {
    match (attempt["reason"].as_str(), &attempt["status"]) {
        (Some("status"), Value::Number(status)) => format!("it answered with status {status}"),
        (Some(reason), _) => reason.to_owned(),
        (None, _) => String::new(),
    }
}

fn webhook(hook: &Value) -> String {
    let since = || table_cell(hook.get("failing_since"), CellKind::Time);
    if hook["enabled"] == false {
        match hook["disabled_reason"].as_str() {
            Some(reason) => format!("disabled ({reason})"),
            None => "disabled".to_owned(),
        }
    } else if hook["failing_since"].is_number() {
        format!("failing since {}", since())
    } else {
        "enabled".to_owned()
    }
}

/// A language of a preview.
fn language(preview: &Value) -> String {
    let name = printable(&plain(preview.get("language")));
    let at_most = preview.get("bytes_max").map(|bytes| format!(", at most {}", plain(Some(bytes))));
    let at_most = at_most.unwrap_or_default();
    let mut lines = vec![format!("{name}, {} bytes{at_most}", plain(preview.get("bytes")))];
    lines.push(table_cell(preview.get("payload"), CellKind::Payload));
    lines.push(table_cell(preview.get("problems"), CellKind::Lines));
    lines.retain(|line| !line.is_empty());
    lines.join("\n")
}

/// Whether a device can receive notifications, or why not. A device without an address, or with an address that
/// its provider cannot have issued, is enabled, but receives nothing.
fn device_state(device: &Value) -> &str {
    let has_address = ["push_token", "subscription", "recipient_id"]
        .iter()
        .any(|field| device.get(field).is_some_and(|address| !address.is_null()));
    if device["enabled"] == false {
        device["disabled_reason"].as_str().unwrap_or("disabled")
    } else if device["address_problem"].is_string() {
        "unusable address"
    } else if has_address || device["address_hidden"] == true {
        "enabled"
    } else {
        "no address"
    }
}

fn failure(failure: &Value) -> String {
    let text = |name: &str| printable(failure[name].as_str().unwrap_or_default());
    format!("{} {}: {}", failure["count"], text("platform"), text("reason"))
}

fn tag(tag: &Value) -> String {
    let name = tag["name"].as_str().unwrap_or_default();
    if tag["value"] == false { format!("{name}=false") } else { name.to_owned() }
}

/// The attributes as arguments that set them.
fn attribute_lines(attributes: &Value) -> Vec<String> {
    let attributes = Attributes::deserialize(attributes).unwrap_or_default();
    let pairs = attributes.iter().map(|(name, value)| format!("{name}={}", value_text(value)));
    pairs.map(|pair| printable(&pair)).collect()
}

fn user_device(device: &Value) -> String {
    let text = |name: &str| printable(device[name].as_str().unwrap_or_default());
    let disabled = if device["enabled"] == false { ", disabled" } else { "" };
    format!("{} ({}{disabled})", text("device_id"), text("platform"))
}

/// The condition as an expression, or as JSON if this version does not know it.
fn expression(audience: &Value) -> String {
    let parsed = Audience::from_json(&audience.to_string());
    parsed.map_or_else(|_| single_line_json(audience), |audience| audience.to_string())
}

/// The value as text: a string unchanged, any other value as JSON, and nothing for null.
fn plain(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value @ (Value::Bool(_) | Value::Number(_))) => value.to_string(),
        Some(value @ (Value::Array(_) | Value::Object(_))) => value.to_string(),
    }
}

/// Escapes a cell that looks like a formula, as [`csv_cell`] does. The cell need not be UTF-8.
pub(crate) fn escape_formula(cell: &[u8]) -> Cow<'_, [u8]> {
    if String::from_utf8_lossy(cell).starts_with(FORMULA_STARTS) {
        Cow::Owned([b"'", cell].concat())
    } else {
        Cow::Borrowed(cell)
    }
}

/// Reverses [`csv_cell`] and [`escape_formula`].
pub(crate) fn unescape_formula(text: &str) -> &str {
    match text.strip_prefix('\'') {
        Some(rest) if rest.starts_with(FORMULA_STARTS) => rest,
        _ => text,
    }
}

/// Escapes characters that would move the cursor, change colours or disguise the text, which may come
/// from an untrusted source.
pub(crate) fn printable(text: &str) -> String {
    escaped(text, |_| false)
}

/// Like [`printable`], but keeps line breaks.
pub(super) fn printable_lines(text: &str) -> String {
    escaped(text, |character| character == '\n')
}

/// Escapes unprintable characters. Exceptions are characters for which `is_kept` returns true, and joiners
/// between characters that they combine.
fn escaped(text: &str, is_kept: impl Fn(char) -> bool) -> String {
    const JOINERS: [char; 2] = ['\u{200c}', '\u{200d}'];
    let mut clean = String::with_capacity(text.len());
    let mut before = None;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let after = characters.peek().copied();
        let is_joining = JOINERS.contains(&character)
            && before.zip(after).is_some_and(|(before, after)| joins(before, after));
        if !is_unprintable(character) || is_kept(character) || is_joining {
            clean.push(character);
        } else if character.is_ascii_control() {
            clean.extend(character.escape_default());
        } else {
            clean.extend(character.escape_unicode());
        }
        before = Some(character);
    }
    clean
}

#[cfg(test)]
mod tests;
