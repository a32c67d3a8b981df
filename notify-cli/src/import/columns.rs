//! Columns of a CSV file as fields of a registration (spec 4.3).

use std::borrow::Cow;

use csv::ByteRecord;
use notify_client::notify_core::RegisterDevice;

use super::original::{is_added, is_report};
use crate::{failure::Failure, output::unguarded};

/// What parts columns in place of a comma, where a spreadsheet does as its country does.
const OTHER_DELIMITERS: [char; 3] = [';', '\t', '|'];

type Fill = fn(&mut RegisterDevice, &str) -> Result<(), &'static str>;

macro_rules! columns {
    (text: $($text:ident)*; optional: $($optional:ident)*;) => {
        /// Every field that a column can name.
        const COLUMNS: &[(&str, Fill)] = &[
            $((stringify!($text), |device, cell| {
                cell.clone_into(&mut device.$text);
                Ok(())
            }),)*
            $((stringify!($optional), |device, cell| {
                device.$optional = Some(cell.to_owned());
                Ok(())
            }),)*
            ("push_disabled", |device, cell| {
                device.push_disabled = Some(match cell {
                    "true" | "1" => true,
                    "false" | "0" => false,
                    _ => return Err("push_disabled: must be true or false"),
                });
                Ok(())
            }),
        ];
    };
}

columns! {
    text: device_id platform sdk_type;
    optional: android_id push_token ad_id imei sdk_version app_version os_version store_identifier
        timezone country utc_offset language device_description ios_env;
}

/// What each column of a file fills; `None` for one that is left out.
pub(super) struct Columns(Vec<Option<Fill>>);

impl Columns {
    /// Reads the header. A column that is no field is an error, since a misspelt one would be lost.
    pub(super) fn new(header: &ByteRecord, ignore_unknown: bool) -> Result<Self, Failure> {
        let names: Vec<_> = header.iter().map(|name| String::from_utf8_lossy(name)).collect();
        if names.is_empty() {
            return Err(Failure::Usage(
                "there is no header: the first line of a CSV file names its columns".to_owned(),
            ));
        }
        for required in ["device_id", "platform"] {
            if !names.iter().any(|name| name == required) {
                let delimiter = other_delimiter(&names);
                return Err(Failure::Usage(format!(
                    "the header has no column `{required}`{delimiter}"
                )));
            }
        }
        let is_report = is_report(header.iter());
        let mut fills = Vec::with_capacity(names.len());
        for (place, name) in names.iter().enumerate() {
            if names[..place].contains(name) {
                return Err(Failure::Usage(format!("the header has `{name}` twice")));
            }
            let known = COLUMNS.iter().find(|(known, _)| known == name);
            let is_left_out = ignore_unknown || (is_report && is_added(name.as_bytes()));
            if known.is_none() && !is_left_out {
                return Err(Failure::Usage(format!(
                    "column `{name}` is no field of a registration; \
                     --ignore-unknown-columns leaves such columns out"
                )));
            }
            fills.push(known.map(|(_, fill)| *fill));
        }
        Ok(Self(fills))
    }

    /// Reads a row, and its device id wherever there is one.
    pub(super) fn device(&self, row: &ByteRecord) -> (String, Result<RegisterDevice, Vec<String>>) {
        let mut device = RegisterDevice::default();
        let mut errors = Vec::new();
        if row.len() != self.0.len() {
            errors.push(format!("has {} cells, the header has {}", row.len(), self.0.len()));
        }
        for (cell, fill) in row.iter().zip(&self.0) {
            let (Some(fill), Ok(cell)) = (fill, std::str::from_utf8(cell)) else {
                if fill.is_some() {
                    errors.push("is not UTF-8".to_owned());
                }
                continue;
            };
            if !cell.is_empty()
                && let Err(error) = fill(&mut device, unguarded(cell))
            {
                errors.push(error.to_owned());
            }
        }
        if device.sdk_type.is_empty() {
            device.sdk_type = match &*device.platform {
                "ios" => "ios_push",
                // Of a platform that is none the platform alone is told, not this beside it.
                _ => "android_push",
            }
            .to_owned();
        }
        let device_id = device.device_id.clone();
        (device_id, if errors.is_empty() { Ok(device) } else { Err(errors) })
    }
}

/// What to say of a header that is one column, since something else parts it.
fn other_delimiter(names: &[Cow<'_, str>]) -> String {
    let [only] = names else { return String::new() };
    match only.chars().find(|each| OTHER_DELIMITERS.contains(each)) {
        Some('\t') => "; its columns are parted by tabs: commas are expected".to_owned(),
        Some(other) => format!("; its columns are parted by `{other}`: commas are expected"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(header: &[&str], row: &[&[u8]]) -> Result<RegisterDevice, Vec<String>> {
        let columns = Columns::new(&header.iter().copied().collect(), false).unwrap();
        columns.device(&row.iter().copied().collect()).1
    }

    #[test]
    fn every_field_of_a_registration_has_its_column() {
        let mut device = RegisterDevice::default();
        for (_, fill) in COLUMNS {
            fill(&mut device, "true").unwrap();
        }
        let fields = serde_json::to_value(device).unwrap();
        let mut named: Vec<_> = COLUMNS.iter().map(|(name, _)| *name).collect();
        named.sort_unstable();
        let filled: Vec<_> = fields.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(named, filled);
        assert_eq!(named.len(), 18, "spec 4.3 has 18 fields");
    }

    #[test]
    fn an_empty_cell_is_an_absent_field() {
        let header = ["device_id", "platform", "push_token", "language"];
        let read = device(&header, &[b"a", b"ios", b"'-token", b""]).unwrap();
        assert_eq!(
            read,
            RegisterDevice {
                device_id: "a".into(),
                platform: "ios".into(),
                sdk_type: "ios_push".into(),
                push_token: Some("-token".into()),
                ..Default::default()
            }
        );
    }

    #[test]
    fn a_row_that_cannot_be_read_is_refused() {
        let header = ["device_id", "platform", "push_disabled"];
        for (row, error) in [
            (&[b"a".as_slice(), b"ios"] as &[&[u8]], "has 2 cells, the header has 3"),
            (&[b"a", b"ios", b"maybe"], "push_disabled: must be true or false"),
            (&[b"\xff", b"ios", b""], "is not UTF-8"),
        ] {
            assert_eq!(device(&header, row), Err(vec![error.to_owned()]));
        }
    }

    #[test]
    fn a_header_names_fields_once() {
        let header = |names: &[&str], ignore| {
            let names = names.iter().copied().collect();
            Columns::new(&names, ignore).map(|_| ()).map_err(|failure| failure.to_string())
        };
        assert_eq!(
            header(&["device_id"], false),
            Err("the header has no column `platform`".to_owned())
        );
        for (line, what) in [("device_id;platform", "`;`"), ("device_id\tplatform", "tabs")] {
            let said = format!(
                "the header has no column `device_id`; its columns are parted by {what}: commas \
                 are expected"
            );
            assert_eq!(header(&[line], false), Err(said));
        }
        assert!(header(&["device_id", "platform", "push_tokn"], false).is_err());
        assert_eq!(header(&["device_id", "platform", "tags"], true), Ok(()));
        assert_eq!(header(&["device_id", "platform", "line", "errors"], false), Ok(()));
        assert!(header(&["device_id", "platform", "line"], false).is_err());
        assert!(header(&[], true).unwrap_err().starts_with("there is no header"));
        assert!(header(&["device_id", "platform", "device_id"], true).is_err());
    }
}
