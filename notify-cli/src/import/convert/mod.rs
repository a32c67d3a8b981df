//! Converts the rows of other push systems to drafts. The rest of the import (state file, report of refused
//! rows, order, limits) is the same for these rows as for those in the format of Notify.

mod address;
mod aerogear;
mod device_row;
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

use self::device_row::DeviceRow;
pub(super) use self::device_row::{Conversion, Outcome};
use self::mapping::Mapping;
use self::record::Record;
pub(super) use self::rpush::Table;
use self::rpush::Tokens;
use super::source_row::RawRow;
use crate::failure::{Failure, shell_quoted};

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
        let converted = match found.into_draft(|| self.mapping.name_in_errors("push_token")) {
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

#[cfg(test)]
mod tests;
