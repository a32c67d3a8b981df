//! One value as text: what a person sees, and what a spreadsheet gets.

use std::borrow::Cow;

use notify_client::notify_core::{Timestamp, is_unprintable, joins};
use serde::Serialize;
use serde_json::Value;

/// How a column reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// As it is, on one line: ids, words, counts.
    Plain,
    /// As it is; may be wrapped.
    Text,
    /// The same, and never shortened: its end may say what is to be done.
    Whole,
    /// A message as it goes out; the same, indented, and never wider than a line of text is.
    Payload,
    /// An object or a list; people see its members, indented, a line each.
    Nested,
    /// Unix milliseconds; people see the time.
    Time,
    /// The same where the day is enough.
    Day,
    /// Tags of a device; people see their names, those that are false with their value.
    Tags,
    /// Configuration of a provider; people see whose it is and where it leads.
    Provider,
    /// The same, where people see the rest elsewhere: only that it was forgotten.
    Forgotten,
    /// How deliveries through a provider stand; people see the state, why and until when.
    Channel,
    /// A device (B22); people see whether it can be reached, or why not.
    State,
    /// Failures of a notification; people see how often each, and where, a line each.
    Failures,
    /// Request of a notification; people see its text, or the question of its poll.
    Message,
    /// Texts; people see one a line.
    Lines,
    /// A count; people see none of zero.
    Count,
    /// Events that were not taken; people see which and why, a line each.
    Ignored,
    /// A message to a webhook; people see why its last attempt failed.
    Attempt,
    /// A webhook; people see whether it is told of events, or since when or why not.
    Webhook,
    /// Unix milliseconds of a step of an explanation; one without is told of now (B38).
    Step,
    /// A notification (B20); people see how many of the targeted have it, and what became of the
    /// others, a line each; of one that is not due, when it is.
    Counts,
}

impl Kind {
    /// Whether it is never broken over lines: an id that is cannot be copied.
    pub(super) fn is_unbroken(self) -> bool {
        match self {
            Self::Plain
            | Self::Time
            | Self::Day
            | Self::Step
            | Self::State
            | Self::Count
            | Self::Webhook => true,
            Self::Text
            | Self::Whole
            | Self::Payload
            | Self::Nested
            | Self::Tags
            | Self::Provider
            | Self::Forgotten
            | Self::Channel
            | Self::Failures
            | Self::Message
            | Self::Lines
            | Self::Ignored
            | Self::Attempt
            | Self::Counts => false,
        }
    }
}

/// Members of a provider's configuration that tell one from another (RFC 6901).
const PROVIDER_SUMMARY: [&str; 5] =
    ["/team_id", "/key_id", "/topic", "/service_account/project_id", "/endpoint"];

/// Longest JSON that is shown in one line, in characters.
const NESTED_LINE_CHARS_MAX: usize = 60;

/// What else can become of a targeted device, in the order of a person's interest (B20).
const NOT_SENT: [&str; 5] = ["failed", "unregistered", "expired", "canceled", "pending"];

/// First characters that make a spreadsheet take a cell for a formula (CWE-1236), with their
/// full-width forms.
const FORMULA_STARTS: [char; 12] =
    ['=', '+', '-', '@', '\t', '\r', '\n', '\0', '＝', '＋', '－', '＠'];

/// What a person sees of a value.
pub(super) fn shown(value: Option<&Value>, kind: Kind) -> String {
    let text = match (value, kind) {
        (Some(Value::Number(ms)), Kind::Time) => {
            ms.as_i64().map_or_else(|| ms.to_string(), |ms| time(Timestamp(ms)))
        }
        (Some(Value::Number(ms)), Kind::Day) => ms.as_i64().map_or_else(|| ms.to_string(), day),
        (None | Some(Value::Null), Kind::Step) => "now".to_owned(),
        (Some(ms @ Value::Number(_)), Kind::Step) => shown(Some(ms), Kind::Time),
        (Some(Value::Array(lines)), Kind::Lines) => {
            let lines = lines.iter().map(|line| printable(&plain(Some(line))));
            return lines.collect::<Vec<_>>().join("\n");
        }
        (Some(Value::Array(tags)), Kind::Tags) => {
            let names: Vec<String> = tags.iter().map(tag).collect();
            names.join(", ")
        }
        (Some(config @ Value::Object(_)), Kind::Provider) => {
            let parts = PROVIDER_SUMMARY.iter().filter_map(|part| config.pointer(part)?.as_str());
            parts.collect::<Vec<_>>().join(" ")
        }
        // The credentials were given up with a lost master key.
        (Some(Value::Null), Kind::Provider | Kind::Forgotten) => "(forgotten)".to_owned(),
        (_, Kind::Forgotten) => String::new(),
        (Some(told @ Value::Object(_)), Kind::Channel) => channel(told),
        (Some(device @ Value::Object(_)), Kind::State) => state(device).to_owned(),
        (Some(Value::Array(failures)), Kind::Failures) => {
            let lines: Vec<String> = failures.iter().map(failure).collect();
            return lines.join("\n");
        }
        (Some(request @ Value::Object(_)), Kind::Message) => {
            let text = request["text"].as_str().or_else(|| request["poll"]["text"].as_str());
            text.unwrap_or_default().to_owned()
        }
        (Some(notification @ Value::Object(_)), Kind::Counts) => return outcomes(notification),
        (Some(count), Kind::Count) if count == 0 => String::new(),
        (Some(Value::Array(events)), Kind::Ignored) => {
            let lines: Vec<String> = events.iter().map(ignored).collect();
            return lines.join("\n");
        }
        (Some(attempt @ Value::Object(_)), Kind::Attempt) => failed_because(attempt),
        (Some(hook @ Value::Object(_)), Kind::Webhook) => webhook(hook),
        (Some(json @ (Value::Array(_) | Value::Object(_))), Kind::Nested | Kind::Payload) => {
            return printable_lines(&indented(json));
        }
        (Some(json @ (Value::Array(_) | Value::Object(_))), _) => spaced(json),
        _ => plain(value),
    };
    printable(&text)
}

/// An instant as people read it, to the second.
pub(crate) fn time(at: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(at.as_ms())
        .map_or_else(|_| at.to_string(), |at| format!("{at:.0}"))
}

/// The day (UTC) of an instant in unix milliseconds.
pub(crate) fn day(ms: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(ms);
    at.map_or_else(|_| ms.to_string(), |at| at.strftime("%F").to_string())
}

/// What a spreadsheet gets of a value.
pub(super) fn exported(value: Option<&Value>) -> String {
    match value {
        // A number is harmless, whatever its sign.
        Some(Value::Number(number)) => number.to_string(),
        _ => {
            let text = plain(value);
            if text.starts_with(FORMULA_STARTS) { format!("'{text}") } else { text }
        }
    }
}

fn outcomes(notification: &Value) -> String {
    let count = |name: &str| notification["counts"][name].as_u64().unwrap_or_default();
    let mut lines = vec![match count("targeted") {
        0 if notification["status"] == "completed" => "no device".to_owned(),
        0 if notification["status"] == "scheduled" => {
            let at = shown(notification.get("send_at"), Kind::Time);
            if at.is_empty() { at } else { format!("due {at}") }
        }
        // Who gets it is not known yet, or not asked.
        0 => String::new(),
        targeted => format!("{} of {targeted} sent", count("sent")),
    }];
    let others = NOT_SENT.iter().map(|name| (count(name), name)).filter(|(count, _)| *count > 0);
    lines.extend(others.map(|(count, name)| format!("{count} {name}")));
    lines.join("\n")
}

fn channel(channel: &Value) -> String {
    let mut text = plain(channel.get("state"));
    if !channel["until"].is_null() {
        text.push_str(&format!(" until {}", shown(channel.get("until"), Kind::Time)));
    }
    text.push_str(&match (&*plain(channel.get("state")), channel["reason"].as_str()) {
        ("held", Some(reason)) => format!(": the credentials are refused ({reason})"),
        ("stopped", _) => ": so many addresses looked dead at once".to_owned(),
        (_, Some(reason)) => format!(" ({reason})"),
        (_, None) => String::new(),
    });
    let services = channel["services"].as_array().into_iter().flatten();
    for service in services {
        text.push_str(&format!("; {} {}", plain(service.get("service")), self::channel(service)));
    }
    text
}

/// JSON in lines, unless one short line holds it.
fn indented(json: &Value) -> String {
    let line = spaced(json);
    if line.chars().count() <= NESTED_LINE_CHARS_MAX {
        return line;
    }
    serde_json::to_string_pretty(json).expect("a value is JSON")
}

/// JSON with a blank after each comma and colon, where lines can be broken.
fn spaced(json: &Value) -> String {
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

/// `status` is what the server says of an answer that is not 2xx.
fn failed_because(attempt: &Value) -> String {
    match (attempt["reason"].as_str(), &attempt["status"]) {
        (Some("status"), Value::Number(status)) => format!("it answered with status {status}"),
        (Some(reason), _) => reason.to_owned(),
        (None, _) => String::new(),
    }
}

fn webhook(hook: &Value) -> String {
    let since = || shown(hook.get("failing_since"), Kind::Time);
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

/// A device without an address is enabled all the same, and gets nothing (B22).
fn state(device: &Value) -> &str {
    let has_address = ["push_token", "subscription", "recipient_id"]
        .iter()
        .any(|name| device.get(name).is_some_and(|address| !address.is_null()));
    if device["enabled"] == false {
        device["disabled_reason"].as_str().unwrap_or("disabled")
    } else if has_address {
        "enabled"
    } else {
        "no address"
    }
}

fn failure(failure: &Value) -> String {
    let word = |name: &str| printable(failure[name].as_str().unwrap_or_default());
    format!("{} {}: {}", failure["count"], word("platform"), word("reason"))
}

fn tag(tag: &Value) -> String {
    let name = tag["name"].as_str().unwrap_or_default();
    if tag["value"] == false { format!("{name}=false") } else { name.to_owned() }
}

fn plain(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value @ (Value::Bool(_) | Value::Number(_))) => value.to_string(),
        Some(value @ (Value::Array(_) | Value::Object(_))) => value.to_string(),
    }
}

/// A cell that no spreadsheet takes for a formula, as [`exported`] makes it; it need not be UTF-8.
pub(crate) fn guarded(cell: &[u8]) -> Cow<'_, [u8]> {
    if String::from_utf8_lossy(cell).starts_with(FORMULA_STARTS) {
        Cow::Owned([b"'", cell].concat())
    } else {
        Cow::Borrowed(cell)
    }
}

/// Takes back what [`exported`] or [`guarded`] did.
pub(crate) fn unguarded(text: &str) -> &str {
    match text.strip_prefix('\'') {
        Some(rest) if rest.starts_with(FORMULA_STARTS) => rest,
        _ => text,
    }
}

/// A text without what would move the cursor, change colours or hide how it reads: it may come from
/// anyone.
pub(crate) fn printable(text: &str) -> String {
    escaped(text, |_| false)
}

/// The same where the lines of a text stay lines.
pub(super) fn printable_lines(text: &str) -> String {
    escaped(text, |character| character == '\n')
}

/// Escapes what is unprintable, but for what `is_kept` and joiners that belong to what they join.
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
