//! The table `rpush_notifications` of rpush. rpush has no table of devices, so the devices are the distinct
//! tokens of its notifications, without those that a provider reported as unregistered.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use super::address::apns_token;
use super::record::{Record, text_of};
use super::{Found, FoundOutcome, NO_ADDRESS, WebAddress};
use crate::import::operation::UNREGISTERED;

/// What is known of the tokens of a file, by their hashes: 24 bytes for each token.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    hasher: RandomState,
    /// The newest report of each token.
    reports: HashMap<u64, Report>,
    /// The tokens of the rows so far.
    seen: HashSet<u64>,
}

/// A table of rpush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::import) enum Table {
    Notifications,
    Feedback,
}

/// What a provider reported about a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Report {
    /// The time in unix seconds; the largest number if it is unknown.
    at: i64,
    is_unregistered: bool,
}

/// The push service of a notification.
enum Service {
    Apns,
    Fcm,
    /// The tokens are in `registration_ids`.
    Gcm,
    WebPush,
}

/// An address that a notification was sent to.
#[derive(Debug, PartialEq)]
enum Address {
    Token(String),
    Web(WebAddress),
}

impl Tokens {
    /// Adds the report of a row.
    pub(super) fn survey(&mut self, record: &Record, table: Table) {
        let is_feedback = table == Table::Feedback;
        let is = |column| record.flag(column).is_ok_and(|flag| flag == Some(true));
        let report = if is_feedback || (is("failed") && is_unregistered(record)) {
            Report { at: time(record, &["failed_at", "updated_at"]), is_unregistered: true }
        } else if is("delivered") {
            Report { at: time(record, &["delivered_at", "updated_at"]), is_unregistered: false }
        } else {
            return;
        };
        let addresses = if is_feedback {
            record
                .text("device_token")
                .map(|token| Address::Token(normalised(&token)))
                .into_iter()
                .collect()
        } else {
            service(record)
                .ok()
                .and_then(|service| addresses(record, &service).ok())
                .unwrap_or_default()
        };
        for address in addresses {
            let newest = self.reports.entry(self.hasher.hash_one(address.text())).or_insert(report);
            *newest = report.max(*newest);
        }
    }

    /// Why the device with this address is left out, if it is.
    fn exclusion(&mut self, address: &Address) -> Option<&'static str> {
        let hash = self.hasher.hash_one(address.text());
        if self.reports.get(&hash).is_some_and(|report| report.is_unregistered) {
            return Some(UNREGISTERED);
        }
        (!self.seen.insert(hash)).then_some("token of an earlier row")
    }
}

impl Address {
    fn text(&self) -> &str {
        match self {
            Self::Token(token) => token,
            Self::Web(web) => web.endpoint.as_deref().unwrap_or_default(),
        }
    }
}

/// The devices of a row: several if a notification to GCM had several tokens.
pub(super) fn devices(
    record: &Record,
    tokens: &mut Tokens,
) -> Vec<Result<FoundOutcome, Vec<String>>> {
    let service = match service(record) {
        Ok(service) => service,
        Err(outcome) => return vec![outcome],
    };
    match addresses(record, &service) {
        Ok(addresses) if addresses.is_empty() => vec![Ok(FoundOutcome::LeftOut(NO_ADDRESS))],
        Ok(addresses) => {
            let device = |address| device(record, &service, address, tokens);
            addresses.into_iter().map(device).collect()
        }
        Err(error) => vec![Err(vec![error])],
    }
}

fn device(
    record: &Record,
    service: &Service,
    address: Address,
    tokens: &mut Tokens,
) -> Result<FoundOutcome, Vec<String>> {
    if let Some(reason) = tokens.exclusion(&address) {
        return Ok(FoundOutcome::LeftOut(reason));
    }
    let mut found = match service {
        Service::Apns => Found::new("ios", "device_token"),
        Service::Fcm => Found::new("android", "device_token"),
        Service::Gcm => Found::new("android", "registration_ids"),
        Service::WebPush => Found::new("web", "registration_ids"),
    };
    match address {
        Address::Token(token) => found.draft.registration.push_token = Some(token),
        Address::Web(web) => found.web = web,
    }
    // A column of `rpush_apps`, if the query joined that table.
    if let (Service::Apns, Some(environment)) = (service, record.text("environment")) {
        found.draft.registration.ios_env = Some(match &*environment {
            "development" => "sandbox".to_owned(),
            _ => environment,
        });
    }
    Ok(FoundOutcome::device(found))
}

/// The service of a row, by the class of the notification: `Rpush::Client::ActiveRecord::Fcm::Notification`.
fn service(record: &Record) -> Result<Service, Result<FoundOutcome, Vec<String>>> {
    let class = record.text("type").unwrap_or_default();
    let left_out = |reason| Err(Ok(FoundOutcome::LeftOut(reason)));
    match class.rsplit("::").nth(1) {
        Some("Apns" | "Apns2" | "Apnsp8") => Ok(Service::Apns),
        Some("Fcm") => Ok(Service::Fcm),
        Some("Gcm") => Ok(Service::Gcm),
        Some("Webpush") => Ok(Service::WebPush),
        Some("Adm") => left_out("Amazon device"),
        Some("Wpns" | "Wns") => left_out("Windows device"),
        Some("Pushy") => left_out("device on Pushy"),
        _ => Err(Err(vec![format!("type: `{class}` is not a notification of rpush")])),
    }
}

fn addresses(record: &Record, service: &Service) -> Result<Vec<Address>, String> {
    let in_column = |rule: &str| format!("registration_ids: {rule}");
    match service {
        Service::Apns | Service::Fcm => {
            let token = record.text("device_token").into_iter();
            Ok(token.map(|token| Address::Token(normalised(&token))).collect())
        }
        Service::Gcm | Service::WebPush => {
            let Some(ids) = record.value("registration_ids") else { return Ok(Vec::new()) };
            let all = registration_ids(&ids).map_err(in_column)?;
            let is_web = matches!(service, Service::WebPush);
            if all.iter().any(|address| matches!(address, Address::Web(_)) != is_web) {
                return Err(in_column("is of another push service than the notification"));
            }
            Ok(all)
        }
    }
}

/// The token in the form in which it is compared: digits of APNs in lower case, without spaces.
fn normalised(token: &str) -> String {
    apns_token(token).unwrap_or_else(|_| token.to_owned())
}

/// Whether the error of a failed notification says that the token no longer works.
fn is_unregistered(record: &Record) -> bool {
    /// The reasons of APNs, FCM and GCM, and what rpush writes for them.
    const REASONS: [&str; 6] = [
        "unregistered",
        "notregistered",
        "not registered",
        "invalidregistration",
        "baddevicetoken",
        "invalid token",
    ];
    if record.text("error_code").as_deref() == Some("410") {
        return true;
    }
    let description = record.text("error_description").unwrap_or_default().to_lowercase();
    REASONS.iter().any(|reason| description.contains(reason))
}

/// The first of these columns with a time, in unix seconds. Times without a zone are in UTC, as Rails writes
/// them.
fn time(record: &Record, columns: &[&str]) -> i64 {
    let time = record.first_text(columns).and_then(|text| {
        if let Ok(time) = text.parse::<jiff::Timestamp>() {
            return Some(time.as_second());
        }
        let time: jiff::civil::DateTime = text.parse().ok()?;
        Some(time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_second())
    });
    time.unwrap_or(i64::MAX)
}

/// The most addresses of a notification: rpush and GCM allow 1,000 tokens.
const ADDRESSES_MAX: usize = 1_000;
const NO_LIST: &str = "must be a list of tokens or of one browser's subscription, in YAML or JSON";

/// The addresses of `registration_ids`, which is a list in YAML or JSON. Its YAML comes from one program, which
/// writes a list of texts or of one subscription in a fixed form; any other form is an error.
fn registration_ids(value: &serde_json::Value) -> Result<Vec<Address>, &'static str> {
    let addresses = match value {
        serde_json::Value::String(text) if text.trim_start().starts_with('[') => {
            json_list(&serde_json::from_str(text).map_err(|_| NO_LIST)?)?
        }
        serde_json::Value::String(text) => yaml_list(text)?,
        list => json_list(list)?,
    };
    if addresses.len() > ADDRESSES_MAX { Err("has more than 1,000 tokens") } else { Ok(addresses) }
}

fn json_list(list: &serde_json::Value) -> Result<Vec<Address>, &'static str> {
    let elements = list.as_array().ok_or(NO_LIST)?.iter();
    let address = |element: &serde_json::Value| {
        if let Some(token) = element.as_str() {
            return Some(Address::Token(token.trim().to_owned()));
        }
        let endpoint = Some(text_of(element.get("endpoint")?)?);
        let key = |name: &str| text_of(element.get("keys")?.get(name)?);
        Some(Address::Web(WebAddress { endpoint, p256dh: key("p256dh"), auth: key("auth") }))
    };
    elements.map(address).collect::<Option<_>>().ok_or(NO_LIST)
}

fn yaml_list(text: &str) -> Result<Vec<Address>, &'static str> {
    let mut addresses = Vec::new();
    for line in text.lines() {
        let line = line.strip_prefix("---").unwrap_or(line);
        let (is_element, content) = match line.strip_prefix("- ") {
            Some(content) => (true, content),
            None => (false, line),
        };
        // A class of Ruby, such as `!ruby/hash:ActiveSupport::HashWithIndifferentAccess`.
        let content = content.trim();
        let content = if content.starts_with('!') { "" } else { content };
        let member = content.split_once(": ").or(content.strip_suffix(':').map(|name| (name, "")));
        match (member, is_element) {
            (None, false) if matches!(content, "" | "[]") => {}
            (None, true) if !content.is_empty() => {
                addresses.push(Address::Token(unquoted(content)?));
            }
            (member, _) => {
                if is_element {
                    addresses.push(Address::Web(WebAddress::default()));
                }
                let Some((name, value)) = member else {
                    if is_element { continue } else { return Err(NO_LIST) }
                };
                let Some(Address::Web(web)) = addresses.last_mut() else { return Err(NO_LIST) };
                let name = unquoted(name.trim_start_matches(':'))?;
                let value = Some(unquoted(value.trim())?).filter(|value| !value.is_empty());
                match &*name {
                    "endpoint" => web.endpoint = value,
                    "p256dh" => web.p256dh = value,
                    "auth" => web.auth = value,
                    _ => {}
                }
            }
        }
    }
    Ok(addresses)
}

/// A text of YAML without its quotes. Tokens and keys have no letters that need escapes.
fn unquoted(text: &str) -> Result<String, &'static str> {
    let is_quote = |letter: char| matches!(letter, '"' | '\'');
    let inner = text.strip_prefix(is_quote).map(|text| text.strip_suffix(is_quote).ok_or(NO_LIST));
    let inner = inner.unwrap_or(Ok(text))?;
    if inner.contains('\\') || inner.starts_with(['|', '>', '&', '*']) {
        return Err(NO_LIST);
    }
    Ok(inner.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> Address {
        Address::Token(text.to_owned())
    }

    fn web(endpoint: &str, p256dh: &str, auth: &str) -> Address {
        let [endpoint, p256dh, auth] = [endpoint, p256dh, auth].map(|text| Some(text.to_owned()));
        Address::Web(WebAddress { endpoint, p256dh, auth })
    }

    #[test]
    fn the_registration_ids_are_a_list_of_ruby_or_json() {
        let browser = || web("https://push.example/1", "BN-x=", "a:b");
        for (text, expected) in [
            ("---\n- a:b\n- 'c'\n- \"d\"\n", Ok(vec![token("a:b"), token("c"), token("d")])),
            ("--- []\n", Ok(vec![])),
            ("[\"a\", \"b\"]", Ok(vec![token("a"), token("b")])),
            (
                "---\n- :endpoint: https://push.example/1\n  :keys:\n    :p256dh: BN-x=\n    :auth: a:b\n",
                Ok(vec![browser()]),
            ),
            (
                "---\n- !ruby/hash:ActiveSupport::HashWithIndifferentAccess\n  endpoint: \
                 'https://push.example/1'\n  expirationTime:\n  keys: !ruby/hash:X\n    p256dh: \"BN-x=\"\n    \
                 auth: a:b\n",
                Ok(vec![browser()]),
            ),
            (
                r#"[{"endpoint":"https://push.example/1","keys":{"p256dh":"BN-x=","auth":"a:b"}}]"#,
                Ok(vec![browser()]),
            ),
            ("---\n- |\n  a\n", Err(NO_LIST)),
            ("---\n- \"a\\\n  b\"\n", Err(NO_LIST)),
            ("---\n:endpoint: x\n", Err(NO_LIST)),
            ("a", Err(NO_LIST)),
            ("[7]", Err(NO_LIST)),
        ] {
            assert_eq!(registration_ids(&text.into()), expected, "{text:?}");
        }
        let many = vec!["t"; ADDRESSES_MAX + 1];
        assert_eq!(registration_ids(&many.into()), Err("has more than 1,000 tokens"));
    }

    fn record(members: &serde_json::Value) -> Record {
        Record::from_json(members.to_string().as_bytes()).expect("an object")
    }

    /// APNs and FCM can take a token back that they once reported as unregistered.
    #[test]
    fn the_newest_report_decides_about_a_token() {
        let class = "Rpush::Client::ActiveRecord::Fcm::Notification";
        let notification = |members| (Table::Notifications, record(&members));
        let delivered = |at| {
            notification(serde_json::json!({"type": class, "device_token": "t", "delivered": "t",
                "failed": "f", "delivered_at": at}))
        };
        let failed = |at, error| {
            notification(serde_json::json!({"type": class, "device_token": "t", "delivered": "f",
                "failed": true, "failed_at": at, "error_code": 404, "error_description": error}))
        };
        let feedback = |at| {
            (Table::Feedback, record(&serde_json::json!({"device_token": "t", "failed_at": at})))
        };
        let unregistered = "Client was not registered for your app. (Not found)";
        for (rows, expected) in [
            (vec![], None),
            (vec![delivered("2024-05-01 10:00:00")], None),
            (vec![failed("2024-05-01 10:00:00", unregistered)], Some("unregistered")),
            (vec![failed("2024-05-01 10:00:00", "Internal error")], None),
            (
                vec![delivered("2024-05-01 10:00:00.5"), feedback("2024-05-02T00:00:00Z")],
                Some("unregistered"),
            ),
            (vec![feedback("2024-04-30 10:00:00"), delivered("2024-05-01 10:00:00")], None),
            (vec![delivered("2024-05-01 10:00:00"), feedback("2024-04-30 10:00:00+00")], None),
            (vec![delivered("2024-05-01 10:00:00"), feedback("")], Some("unregistered")),
        ] {
            let mut tokens = Tokens::default();
            for (table, row) in &rows {
                tokens.survey(row, *table);
            }
            assert_eq!(tokens.exclusion(&token("t")), expected, "{rows:?}");
        }
        let mut tokens = Tokens::default();
        assert_eq!(tokens.exclusion(&token("t")), None);
        assert_eq!(tokens.exclusion(&token("t")), Some("token of an earlier row"));
    }
}
