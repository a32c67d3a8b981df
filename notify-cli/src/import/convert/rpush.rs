//! The table `rpush_notifications` of rpush. rpush has no table of devices, so the devices are the distinct
//! tokens of its notifications, without those that a provider reported as unregistered.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use super::address::apns_token;
use super::device_row::{Conversion, DeviceRow, NO_ADDRESS, Outcome, WebAddress};
use super::record::{Record, text_of};
use crate::import::operation::UNREGISTERED;

/// The reason for leaving out a token that is in a later row or later in the same row.
const REPEATED: &str = "repeated token";

/// What is known of the tokens of a file, by their hashes: 32 bytes for each token.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    hasher: RandomState,
    tokens: HashMap<u64, TokenState>,
    /// The number of addresses in the rows that were read in advance.
    surveyed: u64,
    /// The number of addresses in the rows that were converted.
    converted: u64,
}

#[derive(Debug, Default)]
struct TokenState {
    /// The newest report.
    report: Option<Report>,
    /// The last address of the file with this token, counted from one.
    last: u64,
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
    /// Adds the tokens of a row, and what the row reports about them.
    pub(super) fn survey(&mut self, record: &Record, table: Table) {
        match table {
            Table::Notifications => self.survey_notification(record),
            Table::Feedback => {
                let Some(token) = record.text("device_token") else { return };
                let report = Report::unregistered(record);
                self.token(&Address::Token(normalised(&token))).add_report(Some(report));
            }
        }
    }

    fn survey_notification(&mut self, record: &Record) {
        let Ok(service) = service(record) else { return };
        let Ok(addresses) = addresses(record, &service) else { return };
        let reports = reports(record, &service, addresses.len());
        for (address, report) in addresses.iter().zip(reports) {
            self.surveyed += 1;
            let number = self.surveyed;
            let token = self.token(address);
            token.last = number;
            token.add_report(report);
        }
    }

    fn token(&mut self, address: &Address) -> &mut TokenState {
        self.tokens.entry(self.hasher.hash_one(address.text())).or_default()
    }

    /// Why this address of the next row is left out, if it is. The calls must have the same order as the
    /// addresses of the survey.
    fn exclusion(&mut self, address: &Address) -> Option<&'static str> {
        self.converted += 1;
        let number = self.converted;
        let token = self.token(address);
        if token.report.is_some_and(|report| report.is_unregistered) {
            return Some(UNREGISTERED);
        }
        (token.last != number).then_some(REPEATED)
    }
}

impl TokenState {
    fn add_report(&mut self, report: Option<Report>) {
        self.report = self.report.max(report);
    }
}

impl Report {
    fn unregistered(record: &Record) -> Self {
        Self { at: time(record, &["failed_at", "updated_at"]), is_unregistered: true }
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
pub(super) fn devices(record: &Record, tokens: &mut Tokens) -> Vec<Conversion<DeviceRow>> {
    let service = match service(record) {
        Ok(service) => service,
        Err(outcome) => return vec![outcome],
    };
    match addresses(record, &service) {
        Ok(addresses) if addresses.is_empty() => vec![Ok(Outcome::LeftOut(NO_ADDRESS))],
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
) -> Conversion<DeviceRow> {
    if let Some(reason) = tokens.exclusion(&address) {
        return Ok(Outcome::LeftOut(reason));
    }
    let mut found = match service {
        Service::Apns => DeviceRow::new("ios", "device_token"),
        Service::Fcm => DeviceRow::new("android", "device_token"),
        Service::Gcm => DeviceRow::new("android", "registration_ids"),
        Service::WebPush => DeviceRow::new("web", "registration_ids"),
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
    Ok(Outcome::device(found))
}

/// The service of a row, by the class of the notification: `Rpush::Client::ActiveRecord::Fcm::Notification`.
fn service(record: &Record) -> Result<Service, Conversion<DeviceRow>> {
    let class = record.text("type").unwrap_or_default();
    let left_out = |reason| Err(Ok(Outcome::LeftOut(reason)));
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

/// What a notification reports about each of its addresses.
fn reports(record: &Record, service: &Service, addresses: usize) -> Vec<Option<Report>> {
    let is = |column| record.flag(column).is_ok_and(|flag| flag == Some(true));
    if is("failed") {
        let failed = Report::unregistered(record);
        let description = record.text("error_description").unwrap_or_default();
        if let Some(errors) = recipient_errors(&description, addresses) {
            // The notification reached the recipients without an error.
            let delivered = Report { is_unregistered: false, ..failed };
            let report = |error: Option<&str>| match error {
                None => Some(delivered),
                Some(error) => is_unregistered(error).then_some(failed),
            };
            return errors.into_iter().map(report).collect();
        }
        // An error without recipients is about the only address, or about the whole request.
        let is_dead = addresses == 1
            && (has_unregistered_code(record, service) || is_unregistered(&description));
        return vec![is_dead.then_some(failed); addresses];
    }
    let delivered =
        || Report { at: time(record, &["delivered_at", "updated_at"]), is_unregistered: false };
    vec![is("delivered").then(delivered); addresses]
}

/// The error of each recipient of a notification to GCM, as rpush describes them: `Failed to deliver to
/// recipients 0, 2. Errors: NotRegistered, Unavailable.`
fn recipient_errors(description: &str, recipients: usize) -> Option<Vec<Option<&str>>> {
    let (_, failures) = description.split_once("Failed to deliver to ")?;
    let (failed, rest) = failures.split_once(". Errors: ")?;
    let errors: Vec<&str> = rest.split('.').next()?.split(", ").collect();
    let failed: Vec<usize> = match failed.strip_prefix("recipients ") {
        Some(list) => list.split(", ").map(|index| index.parse().ok()).collect::<Option<_>>()?,
        None if failed == "all recipients" => (0..recipients).collect(),
        None => return None,
    };
    if failed.len() != errors.len() {
        return None;
    }
    let mut of_recipient = vec![None; recipients];
    for (index, error) in failed.into_iter().zip(errors) {
        *of_recipient.get_mut(index)? = Some(error);
    }
    Some(of_recipient)
}

/// Whether the status of a failed notification says that the token no longer works: 410 of APNs, and 404 or
/// 410 of the push service of a browser.
fn has_unregistered_code(record: &Record, service: &Service) -> bool {
    match record.text("error_code").as_deref() {
        Some("410") => true,
        Some("404") => matches!(service, Service::WebPush),
        _ => false,
    }
}

/// Whether this error says that the token no longer works.
fn is_unregistered(error: &str) -> bool {
    /// The reasons of APNs, FCM and GCM, and what rpush writes for them.
    const REASONS: [&str; 6] = [
        "unregistered",
        "notregistered",
        "not registered",
        "invalidregistration",
        "baddevicetoken",
        "invalid token",
    ];
    let error = error.to_lowercase();
    REASONS.iter().any(|reason| error.contains(reason))
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
            let rows = rows
                .into_iter()
                .chain([notification(serde_json::json!({"type": class, "device_token": "t"}))]);
            let rows: Vec<_> = rows.collect();
            let mut tokens = Tokens::default();
            for (table, row) in &rows {
                tokens.survey(row, *table);
            }
            tokens.converted = tokens.surveyed - 1;
            assert_eq!(tokens.exclusion(&token("t")), expected, "{rows:?}");
        }
    }

    #[test]
    fn a_failed_notification_reports_only_the_recipients_that_it_lists() {
        const DEAD: Option<bool> = Some(true);
        const DELIVERED: Option<bool> = Some(false);
        for (service, error_code, description, expected) in [
            (
                Service::Gcm,
                "",
                "Failed to deliver to recipients 0, 2. Errors: NotRegistered, Unavailable.",
                vec![DEAD, DELIVERED, None],
            ),
            (
                Service::Gcm,
                "",
                "Unable to deliver notification 7, received an error (Failed to deliver to recipients \
                 1, 2. Errors: Unavailable, InvalidRegistration. 1 will be retried as notification 8.)",
                vec![DELIVERED, None, DEAD],
            ),
            (
                Service::Gcm,
                "",
                "Failed to deliver to all recipients. Errors: NotRegistered, Unavailable, NotRegistered.",
                vec![DEAD, None, DEAD],
            ),
            // Neither the number of recipients nor that of errors is right.
            (
                Service::Gcm,
                "",
                "Failed to deliver to recipients 0, 3. Errors: NotRegistered, NotRegistered.",
                vec![None; 3],
            ),
            (
                Service::Gcm,
                "",
                "Failed to deliver to recipients 0, 2. Errors: NotRegistered.",
                vec![None; 3],
            ),
            (Service::Gcm, "410", "NotRegistered", vec![None; 3]),
            (Service::Gcm, "400", "GCM failed to parse the JSON request.", vec![None; 3]),
            (Service::Gcm, "", "NotRegistered", vec![DEAD]),
            (Service::WebPush, "404", "Not DeviceRow", vec![DEAD]),
            (Service::WebPush, "410", "Gone", vec![DEAD]),
            (Service::WebPush, "413", "Payload Too Large", vec![None]),
            (Service::Fcm, "404", "Not DeviceRow", vec![None]),
            (Service::Apns, "410", "Gone", vec![DEAD]),
        ] {
            let row = record(&serde_json::json!({"failed": "t", "delivered": "f",
                "failed_at": "2024-05-01 10:00:00", "error_code": error_code,
                "error_description": description}));
            let reports = reports(&row, &service, expected.len());
            assert!(reports.iter().flatten().all(|report| report.at == 1_714_557_600));
            let seen: Vec<_> =
                reports.iter().map(|report| report.map(|report| report.is_unregistered)).collect();
            assert_eq!(seen, expected, "{error_code} {description}");
        }
    }

    #[test]
    fn the_last_row_of_a_token_is_imported() {
        let row = |ids: &str| {
            record(&serde_json::json!({"type": "Rpush::Client::ActiveRecord::Gcm::Notification",
                "registration_ids": ids}))
        };
        let mut tokens = Tokens::default();
        for ids in ["[\"a\", \"b\", \"a\"]", "[7]", "[\"b\", \"c\"]"] {
            tokens.survey(&row(ids), Table::Notifications);
        }
        for (text, expected) in
            [("a", Some(REPEATED)), ("b", Some(REPEATED)), ("a", None), ("b", None), ("c", None)]
        {
            assert_eq!(tokens.exclusion(&token(text)), expected, "{text}");
        }
    }
}
