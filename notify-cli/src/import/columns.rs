//! Columns of a CSV file as fields of a device (spec 4.3, B23 to B25).

use csv::ByteRecord;
use notify_client::notify_core::nearest_name;

use super::{
    Purpose,
    original::is_report,
    record::{Draft, READ_BACK, subscription, tags_of_cell},
};
use crate::{failure::Failure, output::unguarded};

type Fill = fn(&mut Draft, &str) -> Result<(), Vec<String>>;

macro_rules! columns {
    (text: $($text:ident)*; optional: $($optional:ident)*;) => {
        /// Every field that a column can name.
        const COLUMNS: &[(&str, Fill)] = &[
            $((stringify!($text), |draft, cell| {
                cell.clone_into(&mut draft.registration.$text);
                Ok(())
            }),)*
            $((stringify!($optional), |draft, cell| {
                draft.registration.$optional = Some(cell.to_owned());
                Ok(())
            }),)*
            ("push_disabled", |draft, cell| {
                draft.registration.push_disabled = Some(flag("push_disabled", cell)?);
                Ok(())
            }),
            (TAGS, |draft, cell| {
                draft.tags = tags_of_cell(cell)?;
                Ok(())
            }),
            ("subscription", |draft, cell| {
                draft.subscription = Some(subscription(cell)?);
                Ok(())
            }),
            ("recipient_id", |draft, cell| {
                draft.recipient_id = Some(cell.to_owned());
                Ok(())
            }),
            ("enabled", |draft, cell| {
                draft.enabled = Some(flag("enabled", cell)?);
                Ok(())
            }),
            ("disabled_reason", |draft, cell| {
                draft.disabled_reason = Some(cell.to_owned());
                Ok(())
            }),
            (READ_BACK[0], |_, _| Ok(())),
            (READ_BACK[1], |_, _| Ok(())),
        ];
    };
}

columns! {
    text: device_id platform sdk_type;
    optional: android_id push_token ad_id imei sdk_version app_version os_version store_identifier
        timezone country utc_offset language device_description ios_env;
}

/// Names that other systems give to fields, without their separators.
const OTHER_NAMES: [(&str, &str); 14] = [
    ("token", "push_token"),
    ("devicetoken", "push_token"),
    ("apnstoken", "push_token"),
    ("fcmtoken", "push_token"),
    ("registrationid", "push_token"),
    ("registrationtoken", "push_token"),
    ("chatid", "recipient_id"),
    ("psid", "recipient_id"),
    ("id", DEVICE_ID),
    ("os", "platform"),
    ("lang", "language"),
    ("locale", "language"),
    ("tz", "timezone"),
    ("segments", TAGS),
];

const DEVICE_ID: &str = "device_id";
const TAGS: &str = "tags";

/// What each column of a file fills; `None` for one that is left out.
pub(super) struct Columns(Vec<Option<Fill>>);

impl Columns {
    /// Reads the header. A column that is no field is an error, since a misspelt one would be lost.
    pub(super) fn new(
        header: &ByteRecord,
        purpose: Purpose,
        ignore_unknown: bool,
    ) -> Result<Self, Failure> {
        let names: Vec<_> = header.iter().map(|name| String::from_utf8_lossy(name)).collect();
        if names.is_empty() {
            return Err(Failure::Usage(
                "there is no header: the first line of a CSV file names its columns".to_owned(),
            ));
        }
        let known: Vec<_> = names.iter().map(|name| field(name)).collect();
        let required = match purpose {
            Purpose::Register => [DEVICE_ID, "platform"],
            Purpose::Tag => [DEVICE_ID, TAGS],
        };
        let has = |name: &str| known.iter().flatten().any(|(known, _)| *known == name);
        let missing: Vec<_> = required.into_iter().filter(|name| !has(name)).collect();
        if !missing.is_empty() {
            let missing = columns(&missing);
            let is_wide = names.iter().any(|name| name.contains('\0'));
            let wide = if is_wide { "; is it UTF-16 without its byte-order mark?" } else { "" };
            return Err(Failure::Usage(format!("the header has no {missing}{wide}")));
        }
        // A report has the unknown columns of a file that was imported without them.
        let is_left_out = ignore_unknown || is_report(header.iter());
        let unknown = names.iter().zip(&known).filter(|(_, known)| known.is_none());
        let unknown: Vec<_> = unknown.map(|(name, _)| &**name).collect();
        if !is_left_out && !unknown.is_empty() {
            return Err(unknown_columns(&unknown));
        }
        for (place, name) in names.iter().enumerate() {
            let earlier = names[..place].iter().zip(&known).find(|(earlier, field)| {
                let is_same = matches!((field, &known[place]), (Some(a), Some(b)) if a.0 == b.0);
                is_same || *earlier == name
            });
            match earlier {
                Some((earlier, _)) if earlier == name => {
                    return Err(Failure::Usage(format!("the header has `{name}` twice")));
                }
                Some((earlier, _)) => {
                    let what = format!("`{earlier}` and `{name}` of the header are one field");
                    return Err(Failure::Usage(what));
                }
                None => {}
            }
        }
        let is_filled = |name: &str| purpose == Purpose::Register || required.contains(&name);
        let fills = known
            .into_iter()
            .map(|known| known.filter(|(name, _)| is_filled(name)).map(|(_, fill)| fill));
        Ok(Self(fills.collect()))
    }

    /// Reads a row, and its device id wherever there is one.
    pub(super) fn draft(&self, row: &ByteRecord) -> (String, Result<Draft, Vec<String>>) {
        let mut draft = Draft::default();
        let mut errors = Vec::new();
        if row.len() != self.0.len() {
            errors.push(format!("has {} cells, the header has {}", row.len(), self.0.len()));
        }
        for (cell, fill) in row.iter().zip(&self.0) {
            let (Some(fill), Ok(cell)) = (fill, std::str::from_utf8(cell)) else {
                if fill.is_some() {
                    errors.push(NOT_UTF8.to_owned());
                }
                continue;
            };
            if !cell.is_empty()
                && let Err(broken) = fill(&mut draft, unguarded(cell))
            {
                errors.extend(broken);
            }
        }
        let device_id = draft.registration.device_id.clone();
        (device_id, if errors.is_empty() { Ok(draft) } else { Err(errors) })
    }
}

/// What is wrong with a cell in another encoding, such as the one that Excel saves as "CSV".
const NOT_UTF8: &str = "is not UTF-8: save the file as `CSV UTF-8`, or convert it with `iconv -f \
    WINDOWS-1252 -t UTF-8`";

/// The field that a column names, however it is spelt: `Device_ID`, `device id`, `DeviceId`.
fn field(name: &str) -> Option<(&'static str, Fill)> {
    let name = bare(name);
    COLUMNS.iter().find(|(known, _)| bare(known) == name).copied()
}

fn unknown_columns(names: &[&str]) -> Failure {
    let are = if names.len() == 1 { "is no field" } else { "are no fields" };
    let meant = names.iter().filter_map(|name| Some((name, meant(name)?)));
    let meant: Vec<_> = match names {
        [_] => meant.map(|(_, field)| format!("`{field}`")).collect(),
        _ => meant.map(|(name, field)| format!("`{field}` for `{name}`")).collect(),
    };
    let tip = match meant.as_slice() {
        [] => String::new(),
        meant => format!(" (did you mean {}?)", meant.join(", ")),
    };
    let what = columns(names);
    Failure::Usage(format!(
        "{what} {are} of a device{tip}; --ignore-unknown-columns leaves such columns out"
    ))
}

/// The field that an unknown column likely means: by another name, or misspelt.
fn meant(name: &str) -> Option<&'static str> {
    let name = bare(name);
    let other = OTHER_NAMES.into_iter().find(|(other, _)| *other == name);
    if let Some((_, field)) = other {
        return Some(field);
    }
    let fields: Vec<String> = COLUMNS.iter().map(|(field, _)| bare(field)).collect();
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    let near = nearest_name(&name, &fields)?;
    COLUMNS.iter().map(|(field, _)| *field).find(|field| bare(field) == near)
}

fn bare(name: &str) -> String {
    let is_part =
        |character: &char| !matches!(character, '_' | '-' | '.') && !character.is_whitespace();
    name.chars().filter(is_part).flat_map(char::to_lowercase).collect()
}

/// `column `a``, `columns `a`, `b``.
fn columns(names: &[&str]) -> String {
    let all: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    format!("column{} {}", if names.len() == 1 { "" } else { "s" }, all.join(", "))
}

fn flag(name: &str, cell: &str) -> Result<bool, Vec<String>> {
    match &*cell.to_ascii_lowercase() {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(vec![format!("{name}: must be true or false")]),
    }
}

#[cfg(test)]
mod tests {
    use notify_client::notify_core::RegisterDevice;

    use super::*;

    fn draft(header: &[&str], row: &[&[u8]]) -> Result<Draft, Vec<String>> {
        let header = header.iter().copied().collect();
        let columns = Columns::new(&header, Purpose::Register, false).unwrap();
        columns.draft(&row.iter().copied().collect()).1
    }

    #[test]
    fn every_field_of_a_registration_has_its_column() {
        let mut draft = Draft::default();
        for (name, fill) in COLUMNS {
            if *name != "subscription" {
                fill(&mut draft, "true").unwrap();
            }
        }
        let fields = serde_json::to_value(draft.registration).unwrap();
        let fields = fields.as_object().unwrap();
        let named = COLUMNS.iter().filter(|(name, _)| fields.contains_key(*name)).count();
        assert_eq!((named, fields.len()), (18, 18), "spec 4.3 has 18 fields");
    }

    #[test]
    fn an_empty_cell_is_an_absent_field() {
        let header = ["device_id", "platform", "push_token", "language"];
        let read = draft(&header, &[b"a", b"ios", b"'-token", b""]).unwrap();
        assert_eq!(
            read.registration,
            RegisterDevice {
                device_id: "a".into(),
                platform: "ios".into(),
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
            (&[b"\xff", b"ios", b""], NOT_UTF8),
        ] {
            assert_eq!(draft(&header, row), Err(vec![error.to_owned()]));
        }
    }

    #[test]
    fn a_column_is_known_however_it_is_spelt() {
        for header in ["Device_ID", "device id", "DeviceId", "DEVICE-ID"] {
            let read = draft(&[header, "Platform", "Push Token"], &[b"a", b"ios", b"t"]).unwrap();
            assert_eq!(read.registration.device_id, "a", "{header}");
            assert_eq!(read.registration.push_token.as_deref(), Some("t"), "{header}");
        }
    }

    #[test]
    fn a_header_names_fields_once() {
        let header = |names: &[&str], purpose, ignore| {
            let names = names.iter().copied().collect();
            Columns::new(&names, purpose, ignore).map(|_| ()).map_err(|error| error.to_string())
        };
        let (register, tag) = (Purpose::Register, Purpose::Tag);
        let both = ["device_id", "platform"];
        for (names, purpose, error) in [
            (vec!["device_id"], register, "the header has no column `platform`"),
            (vec!["id"], register, "the header has no columns `device_id`, `platform`"),
            (vec!["device_id", "platform"], tag, "the header has no column `tags`"),
            (
                vec!["d\0e\0v\0", "platform"],
                register,
                "the header has no column `device_id`; is it UTF-16 without its byte-order mark?",
            ),
            (
                [&both[..], &["push_tokn"]].concat(),
                register,
                "column `push_tokn` is no field of a device (did you mean `push_token`?); \
                 --ignore-unknown-columns leaves such columns out",
            ),
            (
                [&both[..], &["Token"]].concat(),
                register,
                "column `Token` is no field of a device (did you mean `push_token`?); \
                 --ignore-unknown-columns leaves such columns out",
            ),
            (
                [&both[..], &["token", "shop", "lang"]].concat(),
                register,
                "columns `token`, `shop`, `lang` are no fields of a device (did you mean \
                 `push_token` for `token`, `language` for `lang`?); --ignore-unknown-columns leaves \
                 such columns out",
            ),
            (
                [&both[..], &["shop", "vip"]].concat(),
                register,
                "columns `shop`, `vip` are no fields of a device; \
                 --ignore-unknown-columns leaves such columns out",
            ),
            (
                [&both[..], &["line"]].concat(),
                register,
                "column `line` is no field of a device; \
                 --ignore-unknown-columns leaves such columns out",
            ),
            ([&both[..], &["device_id"]].concat(), register, "the header has `device_id` twice"),
            (
                [&both[..], &["Device ID"]].concat(),
                register,
                "`device_id` and `Device ID` of the header are one field",
            ),
            (
                vec![],
                register,
                "there is no header: the first line of a CSV file names its columns",
            ),
        ] {
            assert_eq!(header(&names, purpose, false), Err(error.to_owned()), "{names:?}");
        }
        assert_eq!(header(&["device_id", "platform", "shop"], register, true), Ok(()));
        for more in [&["line", "errors"][..], &["shop", "line", "errors"]] {
            assert_eq!(header(&[&both[..], more].concat(), register, false), Ok(()));
        }
        assert_eq!(header(&["device_id", "platform", "tags"], tag, false), Ok(()));
        assert!(header(&["device_id", "platform", "x", "x"], register, true).is_err());
    }
}
