//! Converts the rows of other push systems to drafts. The rest of the import (state file, report of refused
//! rows, order, limits) is the same for these rows as for those in the format of Notify.

mod address;
mod aerogear;
mod mapping;
mod onesignal;
mod pairs;
mod parse_server;
mod record;
mod rpush;
mod zone;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use csv::ByteRecord;
use notify_client::notify_core::{PushKeys, PushSubscription, Tag};
use uuid::Uuid;

use self::mapping::Mapping;
use self::record::Record;
pub(super) use self::rpush::Table;
use self::rpush::Tokens;
use super::operation::{Draft, is_subscription_platform};
use super::source_row::RawRow;
use crate::failure::{Failure, shell_quoted};

/// The namespace of device ids that are derived from addresses: the `UUIDv5` of
/// `https://notify.invalid/import` in the namespace of URLs (RFC 9562, section 5.5). A random id would make a
/// second device of each row when the import runs again, and an address can be too long for an id and is a
/// secret.
const IDS: Uuid = Uuid::from_u128(0x626d_6b14_ad13_51a0_98d6_9b5a_9923_65cc);

/// The system that wrote a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum System {
    /// The class `_Installation` of Parse Server.
    Parse,
    /// The installations of a variant of AeroGear UnifiedPush Server.
    Aerogear,
    /// The subscriptions (formerly players) of OneSignal.
    Onesignal,
    /// The table `rpush_notifications` of rpush.
    Rpush,
}

impl System {
    /// The value of `--from`.
    fn name(self) -> &'static str {
        match self {
            Self::Parse => "parse",
            Self::Aerogear => "aerogear",
            Self::Onesignal => "onesignal",
            Self::Rpush => "rpush",
        }
    }

    /// The columns that a CSV file of the system must have. One name of each list is enough.
    fn required_columns(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::Parse => &[&["deviceToken"], &["deviceType"]],
            Self::Aerogear => &[&["deviceToken"], &["platform", "operatingSystem"]],
            Self::Onesignal => &[&["identifier"], &["device_type"]],
            Self::Rpush => &[&["type"], &["device_token", "registration_ids"]],
        }
    }
}

/// How rows of another system become devices.
#[derive(Debug, Args)]
pub(crate) struct ConversionArgs {
    /// System that wrote the file. The fields of its devices become those of Notify.
    #[arg(long, value_name = "SYSTEM", value_enum)]
    from: Option<System>,
    /// TOML file that says which columns of your own table are the fields, tags and attributes of a
    /// device; with --from, which columns are used in addition.
    #[arg(long, value_name = "FILE")]
    mapping: Option<PathBuf>,
    /// Table `rpush_feedback`, whose tokens are left out; only with --from rpush.
    #[arg(long, value_name = "FILE", requires = "from")]
    feedback: Option<PathBuf>,
}

fn system_argument(system: Option<System>) -> String {
    system.map_or_else(String::new, |system| format!(" --from {}", system.name()))
}

/// What a row of another system becomes.
#[derive(Debug, PartialEq)]
pub(super) enum Outcome<T> {
    Device(Box<T>),
    /// The row is left out, for this reason.
    LeftOut(&'static str),
}

impl<T> Outcome<T> {
    pub(super) fn device(device: T) -> Self {
        Self::Device(Box::new(device))
    }
}

/// A device of a row, or the errors of the row.
pub(super) type Conversion<T = Draft> = Result<Outcome<T>, Vec<String>>;

/// A device as a row describes it, before its address is checked.
#[derive(Debug, Default)]
struct DeviceRow {
    draft: Draft,
    /// The subscription of a browser.
    web: WebAddress,
    /// The column that has the address, for errors.
    address_column: &'static str,
}

/// The parts of a browser's subscription.
#[derive(Debug, Default, Clone, PartialEq)]
struct WebAddress {
    endpoint: Option<String>,
    p256dh: Option<String>,
    auth: Option<String>,
}

/// Converts the rows of a file.
pub(super) struct Converter {
    system: Option<System>,
    mapping: Mapping,
    /// What is known of the tokens of rpush.
    tokens: Tokens,
    feedback: Option<PathBuf>,
    arguments: String,
    unseen: UnseenColumns,
}

/// The columns of the mapping that no row had so far. Only rows of JSON are checked: a CSV file has a header.
#[derive(Debug, Default)]
struct UnseenColumns {
    columns: BTreeSet<String>,
    has_rows: bool,
}

impl UnseenColumns {
    fn of(mapping: &Mapping) -> Self {
        Self { columns: mapping.columns().map(str::to_owned).collect(), has_rows: false }
    }

    fn add_row(&mut self, record: &Record) {
        self.has_rows = true;
        self.columns.retain(|column| !record.has(column));
    }
}

impl Converter {
    /// The converter of these arguments; `None` for files in the format of Notify.
    pub(super) fn new(args: &ConversionArgs) -> Result<Option<Self>, Failure> {
        if args.feedback.is_some() && args.from != Some(System::Rpush) {
            return Err(Failure::Usage("--feedback is only for --from rpush".to_owned()));
        }
        if args.from.is_none() && args.mapping.is_none() {
            return Ok(None);
        }
        let mapping = match &args.mapping {
            Some(path) => Mapping::read(path, args.from.is_some())?,
            None => Mapping::default(),
        };
        let mut arguments = system_argument(args.from);
        if let Some(path) = &args.mapping {
            arguments.push_str(&format!(" --mapping {}", shell_quoted(path)));
        }
        if let Some(path) = &args.feedback {
            arguments.push_str(&format!(" --feedback {}", shell_quoted(path)));
        }
        let unseen = UnseenColumns::of(&mapping);
        let (tokens, feedback) = (Tokens::default(), args.feedback.clone());
        Ok(Some(Self { system: args.from, mapping, tokens, feedback, arguments, unseen }))
    }

    /// The arguments that convert a file, with a space before each: a corrected report needs them too.
    pub(super) fn arguments(&self) -> &str {
        &self.arguments
    }

    /// The part of [`Self::arguments`] that a run must have to continue an interrupted one.
    pub(super) fn system_argument(&self) -> String {
        system_argument(self.system)
    }

    /// The content of the mapping. A run with another mapping cannot continue an interrupted one.
    pub(super) fn mapping_text(&self) -> &[u8] {
        self.mapping.text().as_bytes()
    }

    /// The member of a JSON text that has the list of rows.
    pub(super) fn list_member(&self) -> &'static str {
        match self.system {
            Some(System::Parse) => "results",
            _ => "devices",
        }
    }

    /// Whether the whole file must be read in advance: only then is it known whether a token still works,
    /// and which row is the last one with the token.
    pub(super) fn needs_survey(&self) -> bool {
        self.system == Some(System::Rpush)
    }

    /// The table of feedback, which is read in advance too.
    pub(super) fn feedback(&self) -> Option<&Path> {
        self.feedback.as_deref()
    }

    /// Adds a row of this table of rpush to what is known of the tokens, unless the mapping excludes it.
    pub(super) fn survey(&mut self, row: &RawRow<'_>, table: Table) {
        let Ok(record) = Record::of(row) else { return };
        let is_included = match table {
            Table::Notifications => self.mapping.includes(&record),
            Table::Feedback => self.mapping.includes_app_of(&record),
        };
        if is_included {
            self.tokens.survey(&record, table);
        }
    }

    /// Checks that a CSV file has the columns that the system and the mapping name.
    pub(super) fn check_header(&self, header: &ByteRecord) -> Result<(), Failure> {
        let names: Vec<_> = header.iter().map(String::from_utf8_lossy).collect();
        let has = |name: &str| names.iter().any(|column| column == name);
        let required = self.system.map_or(&[][..], System::required_columns);
        for any in required {
            if !any.iter().any(|name| has(name)) {
                let any = any.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>();
                let what = format!("the header has no column {}", any.join(" or "));
                return Err(Failure::Usage(format!("{what}: is the file from this system?")));
            }
        }
        self.mapping.check_header(&names)
    }

    /// Converts a row. Returns the id of each device, which is empty if there is none, with its outcome.
    pub(super) fn convert(&mut self, row: &RawRow<'_>) -> Vec<(String, Conversion)> {
        let record = match Record::of(row) {
            Ok(record) => record,
            Err(error) => return vec![(String::new(), Err(vec![error]))],
        };
        if matches!(row, RawRow::Json(_)) {
            self.unseen.add_row(&record);
        }
        if !self.mapping.includes(&record) {
            return vec![(
                String::new(),
                Ok(Outcome::LeftOut("excluded by [where] of the mapping")),
            )];
        }
        let found = match self.system {
            None => vec![Ok(Outcome::device(DeviceRow::default()))],
            Some(System::Parse) => vec![parse_server::device(&record)],
            Some(System::Aerogear) => vec![aerogear::device(&record)],
            Some(System::Onesignal) => vec![onesignal::device(&record)],
            Some(System::Rpush) => rpush::devices(&record, &mut self.tokens),
        };
        found.into_iter().map(|found| self.finish(&record, found)).collect()
    }

    /// Names the columns of the mapping in the errors of a draft, which begin with the names of fields.
    pub(super) fn with_columns(&self, errors: Vec<String>) -> Vec<String> {
        let with_column = |error: String| match error.split_once(':') {
            Some((field, rule)) => format!("{}:{rule}", self.mapping.name_in_errors(field)),
            None => error,
        };
        errors.into_iter().map(with_column).collect()
    }

    /// The columns of the mapping that no row of a JSON file had, for example because they are misspelt.
    pub(super) fn into_unseen_columns(self) -> Vec<String> {
        if self.unseen.has_rows { self.unseen.columns.into_iter().collect() } else { Vec::new() }
    }

    /// Applies the mapping to a device, and checks its address.
    fn finish(&self, record: &Record, found: Conversion<DeviceRow>) -> (String, Conversion) {
        let (mut found, mut errors) = match found {
            Ok(Outcome::Device(found)) => (*found, Vec::new()),
            Ok(Outcome::LeftOut(reason)) => {
                return (String::new(), Ok(Outcome::LeftOut(reason)));
            }
            Err(errors) => return (String::new(), Err(errors)),
        };
        self.mapping.apply(record, &mut found, &mut errors);
        let id = found.draft.registration.device_id.clone();
        let converted = match found.into_draft(&self.mapping) {
            Ok(outcome) if errors.is_empty() => Ok(outcome),
            Ok(_) => Err(errors),
            Err(more) => Err([errors, more].concat()),
        };
        let id = match &converted {
            Ok(Outcome::Device(draft)) => draft.registration.device_id.clone(),
            _ => id,
        };
        (id, converted)
    }
}

impl DeviceRow {
    /// A device of this platform, whose address is in the column `address_column`.
    fn new(platform: &str, address_column: &'static str) -> Self {
        let mut found = Self { address_column, ..Self::default() };
        found.draft.registration.platform = platform.to_owned();
        found
    }

    fn add_tags(&mut self, names: impl IntoIterator<Item = String>) {
        self.draft.tags.extend(names.into_iter().map(|name| Tag::new(name, true)));
    }

    /// Checks the address, and derives the id from it if there is none. Fields that the platform does not
    /// have are dropped.
    fn into_draft(self, mapping: &Mapping) -> Conversion {
        let Self { mut draft, web, address_column } = self;
        let error = |rule: &str| {
            let name = match address_column {
                "" => mapping.name_in_errors("push_token"),
                column => column.to_owned(),
            };
            Err(vec![format!("{name}: {rule}")])
        };
        let registration = &mut draft.registration;
        // A subscription cannot be disabled, so the device would get messages.
        if registration.push_disabled == Some(true)
            && is_subscription_platform(&registration.platform)
        {
            return Ok(Outcome::LeftOut("disabled"));
        }
        let token = registration.push_token.take().filter(|token| address::is_present(token));
        let address = match &*registration.platform {
            "ios" | "android" => {
                let Some(token) = token else { return Ok(Outcome::LeftOut(NO_ADDRESS)) };
                let is_ios = registration.platform == "ios";
                let check = if is_ios { address::apns_token } else { address::fcm_token };
                match check(&token) {
                    Ok(token) => registration.push_token.insert(token).clone(),
                    Err(rule) => return error(&rule),
                }
            }
            "web" => {
                let endpoint = web.endpoint.filter(|endpoint| address::is_present(endpoint));
                let Some(endpoint) = endpoint else { return Ok(Outcome::LeftOut(NO_ADDRESS)) };
                let (Some(p256dh), Some(auth)) = (web.p256dh, web.auth) else {
                    return Err(vec![WEB_KEYS_MISSING.to_owned()]);
                };
                draft.subscription = Some(PushSubscription {
                    endpoint: endpoint.clone(),
                    keys: PushKeys { p256dh, auth },
                    ..PushSubscription::default()
                });
                endpoint
            }
            // Another platform is an error of the draft, or has a recipient id.
            _ => draft.recipient_id.clone().unwrap_or_default(),
        };
        let registration = &mut draft.registration;
        if registration.device_id.is_empty() && !address.is_empty() {
            let name = format!("{}:{address}", registration.platform);
            registration.device_id = Uuid::new_v5(&IDS, name.as_bytes()).to_string();
        }
        if registration.platform != "ios" {
            registration.ios_env = None;
        }
        if is_subscription_platform(&registration.platform) {
            draft.keep_common_fields();
        }
        Ok(Outcome::device(draft))
    }
}

/// The reason for a device that cannot receive anything.
const NO_ADDRESS: &str = "no push token";
const WEB_KEYS_MISSING: &str = "the browser's keys (p256dh and auth) are missing: export them too, a browser cannot be reached without them";

#[cfg(test)]
mod tests;
