//! Maps the columns of a CSV file to the fields of a device or a user.

use csv::ByteRecord;
use notify_client::notify_core::{
    PatchAttributes, Request, Timestamp, is_attribute_name, nearest_name,
};

use super::{
    Purpose,
    operation::{Draft, attributes_of_json, parse_subscription, tags_of_cell},
    purpose::ATTRIBUTE_PREFIX,
    source_row::is_report,
};
use crate::{attribute, failure::Failure, output::unescape_formula};

/// Parses a cell and sets its field in the draft.
type Setter = fn(&mut Draft, &str) -> Result<(), Vec<String>>;

macro_rules! columns {
    (text: $($text:ident)*; optional: $($optional:ident)*;) => {
        /// Every field that a column can name, except the read-only ones.
        const COLUMNS: &[(&str, Setter)] = &[
            $((stringify!($text), |draft, cell| {
                cell.clone_into(&mut draft.registration.$text);
                Ok(())
            }),)*
            $((stringify!($optional), |draft, cell| {
                draft.registration.$optional = Some(cell.to_owned());
                Ok(())
            }),)*
            ("push_disabled", |draft, cell| {
                draft.registration.push_disabled = Some(flag_of_column("push_disabled", cell)?);
                Ok(())
            }),
            (TAGS, |draft, cell| {
                draft.tags = tags_of_cell(cell)?;
                Ok(())
            }),
            (ATTRIBUTES, |draft, cell| {
                draft.attributes.0.extend(attributes_of_json(cell)?.0);
                Ok(())
            }),
            ("subscription", |draft, cell| {
                draft.subscription = Some(parse_subscription(cell)?);
                Ok(())
            }),
            ("recipient_id", |draft, cell| {
                draft.recipient_id = Some(cell.to_owned());
                Ok(())
            }),
            ("enabled", |draft, cell| {
                draft.enabled = Some(flag_of_column("enabled", cell)?);
                Ok(())
            }),
            ("disabled_reason", |draft, cell| {
                draft.disabled_reason = Some(cell.to_owned());
                Ok(())
            }),
        ];
    };
}

columns! {
    text: device_id platform sdk_type;
    optional: android_id push_token ad_id imei sdk_version app_version os_version store_identifier
        timezone country utc_offset language device_description ios_env user_id;
}

/// The names that other systems use for a field, normalised. `id` is not among them: the purpose decides whose
/// id it is.
const OTHER_NAMES: [(&str, &str); 14] = [
    ("token", "push_token"),
    ("devicetoken", "push_token"),
    ("apnstoken", "push_token"),
    ("fcmtoken", "push_token"),
    ("registrationid", "push_token"),
    ("registrationtoken", "push_token"),
    ("chatid", "recipient_id"),
    ("psid", "recipient_id"),
    ("externalid", "user_id"),
    ("os", "platform"),
    ("lang", "language"),
    ("locale", "language"),
    ("tz", "timezone"),
    ("segments", TAGS),
];

const TAGS: &str = "tags";
const ATTRIBUTES: &str = "attributes";

/// What a column sets.
#[derive(Clone)]
enum Field {
    /// The field with this name.
    Named(&'static str, Setter),
    /// One attribute. It has the name of the column, which begins with [`ATTRIBUTE_PREFIX`].
    Attribute(String),
}

impl Field {
    /// The name of the column.
    fn name(&self) -> &str {
        match self {
            Self::Named(name, _) => name,
            Self::Attribute(name) => name,
        }
    }

    /// Parses a cell that is not empty, and sets the field in the draft.
    fn set(&self, draft: &mut Draft, cell: &str) -> Result<(), Vec<String>> {
        match self {
            Self::Named(_, setter) => setter(draft, cell),
            Self::Attribute(column) => {
                let value = attribute::parse_value(cell)
                    .map_err(|error| vec![format!("{column}: {error}")])?;
                draft.attributes.0.insert(attribute_name(column).to_owned(), Some(value));
                Ok(())
            }
        }
    }
}

/// The name of the attribute of a column.
fn attribute_name(column: &str) -> &str {
    column.strip_prefix(ATTRIBUTE_PREFIX).unwrap_or(column)
}

/// The columns of a file.
pub(super) struct Columns {
    /// The field of each column; `None` for a column that is ignored.
    fields: Vec<Option<Field>>,
    purpose: Purpose,
}

impl Columns {
    /// Parses the header. An unknown column is an error, because it may be a misspelt name of a field.
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
        let fields: Vec<_> = names.iter().map(|name| field(name, purpose)).collect();
        let has = |name: &str| fields.iter().flatten().any(|field| field.name() == name);
        let required = purpose.required_columns().iter().copied();
        let missing: Vec<_> = required.filter(|name| !has(name)).collect();
        let unknown = names.iter().zip(&fields).filter(|(_, field)| field.is_none());
        let unknown: Vec<_> = unknown.map(|(name, _)| &**name).collect();
        if !missing.is_empty() {
            return Err(missing_columns(&missing, &unknown, purpose));
        }
        // A report of refused rows has all columns of its file, including the unknown ones.
        let is_unknown_ignored = ignore_unknown || is_report(header.iter());
        if !is_unknown_ignored && !unknown.is_empty() {
            return Err(unknown_columns(&unknown, purpose));
        }
        let field_name = |index: usize| fields[index].as_ref().map(Field::name);
        for (index, name) in names.iter().enumerate() {
            let repeated = (0..index).find(|&earlier| {
                let is_same_field =
                    field_name(index).is_some() && field_name(earlier) == field_name(index);
                is_same_field || names[earlier] == *name
            });
            let Some(earlier) = repeated else { continue };
            let earlier_name = &names[earlier];
            return Err(Failure::Usage(if earlier_name == name {
                format!("the header has `{name}` twice")
            } else {
                format!("the columns `{earlier_name}` and `{name}` are the same field")
            }));
        }
        for field in fields.iter().flatten() {
            check_attribute_name(field)?;
        }
        let is_used = |field: &Field| purpose.uses_column(field.name());
        let fields = fields.into_iter().map(|field| field.filter(is_used)).collect();
        Ok(Self { fields, purpose })
    }

    /// Parses a row. Returns its id, which is empty if there is none, and the draft or its errors.
    pub(super) fn draft(&self, row: &ByteRecord) -> (String, Result<Draft, Vec<String>>) {
        let mut draft = Draft::default();
        let mut errors = Vec::new();
        let columns = self.fields.len();
        if row.len() != columns {
            errors.push(format!("has {} cells, the header has {columns}", row.len()));
        }
        for (cell, field) in row.iter().zip(&self.fields) {
            let Some(field) = field else { continue };
            let Ok(cell) = std::str::from_utf8(cell) else {
                errors.push(NOT_UTF8.to_owned());
                continue;
            };
            if !cell.is_empty()
                && let Err(cell_errors) = field.set(&mut draft, unescape_formula(cell))
            {
                errors.extend(cell_errors);
            }
        }
        let id = draft.id(self.purpose).to_owned();
        (id, if errors.is_empty() { Ok(draft) } else { Err(errors) })
    }
}

/// The error for a cell in another encoding, such as the encoding of Excel's format "CSV".
pub(super) const NOT_UTF8: &str = "is not UTF-8: save the file as `CSV UTF-8`, or convert it with `iconv -f \
    WINDOWS-1252 -t UTF-8`";

/// Every column of a file for this purpose, except those of attributes.
fn known_columns(purpose: Purpose) -> impl Iterator<Item = (&'static str, Setter)> {
    let ignore: Setter = |_, _| Ok(());
    let read_only = purpose.read_only_fields().iter().map(move |field| (*field, ignore));
    COLUMNS.iter().copied().chain(read_only)
}

/// The field of a column. The name may have any spelling, such as `Device_ID`, `device id` or `DeviceId`. The
/// name of an attribute has only one.
fn field(name: &str, purpose: Purpose) -> Option<Field> {
    if let Some((prefix, attribute)) = name.split_once(':')
        && normalise(prefix) == "attribute"
    {
        return Some(Field::Attribute(format!("{ATTRIBUTE_PREFIX}{}", attribute.trim())));
    }
    let name = normalise(name);
    let (field, setter) = known_columns(purpose).find(|(field, _)| normalise(field) == name)?;
    Some(Field::Named(field, setter))
}

/// Whether this is exactly the name of a field that a column can have.
pub(super) fn is_known_column(name: &str) -> bool {
    COLUMNS.iter().any(|(field, _)| *field == name)
}

/// Checks the name of an attribute by the server's rules.
fn check_attribute_name(field: &Field) -> Result<(), Failure> {
    let Field::Attribute(column) = field else { return Ok(()) };
    let change = PatchAttributes::default().set(attribute_name(column), true);
    change.validate(Timestamp(0)).map(|_| ()).map_err(|violations| {
        let rule = violations.into_vec().join("; ");
        Failure::Usage(format!("the header has `{column}`, whose name is invalid: {rule}"))
    })
}

/// The error for required columns that the header lacks. One of the unknown columns may be such a column.
fn missing_columns(missing: &[&str], unknown: &[&str], purpose: Purpose) -> Failure {
    let is_utf_16 = unknown.iter().any(|name| name.contains('\0'));
    let mut suggestions =
        unknown.iter().filter_map(|name| Some((name, suggestion(name, purpose)?)));
    let hint = if is_utf_16 {
        "; is it UTF-16 without its byte-order mark?".to_owned()
    } else if let Some((name, field)) = suggestions.find(|(_, field)| missing.contains(field)) {
        format!("; if `{name}` is the `{field}`, rename the column")
    } else {
        String::new()
    };
    Failure::Usage(format!("the header has no {}{hint}", column_names(missing)))
}

fn unknown_columns(names: &[&str], purpose: Purpose) -> Failure {
    let suggestions = names.iter().filter_map(|name| Some((name, suggestion(name, purpose)?)));
    let suggestions: Vec<_> = match names {
        [_] => suggestions.map(|(_, field)| format!("`{field}`")).collect(),
        _ => suggestions.map(|(name, field)| format!("`{field}` for `{name}`")).collect(),
    };
    let attribute = |name: &str| format!("{ATTRIBUTE_PREFIX}{name}");
    let may_be_attribute =
        |name: &str| is_attribute_name(name) && purpose.uses_column(&attribute(name));
    let tip = match (suggestions.as_slice(), names) {
        ([], [name]) if may_be_attribute(name) => {
            format!(" (an attribute is `{}`)", attribute(name))
        }
        ([], _) => String::new(),
        (suggestions, _) => format!(" (did you mean {}?)", suggestions.join(", ")),
    };
    let unknown = column_names(names);
    Failure::Usage(format!("unknown {unknown}{tip}; --ignore-unknown-columns ignores such columns"))
}

/// The field that an unknown column probably means. Either the column is misspelt, or it has the name that
/// another system uses for the field.
fn suggestion(name: &str, purpose: Purpose) -> Option<&'static str> {
    let name = normalise(name);
    if name == "id" {
        return Some(purpose.id_column());
    }
    let other = OTHER_NAMES.into_iter().find(|(other, _)| *other == name);
    if let Some((_, field)) = other {
        return Some(field);
    }
    let fields: Vec<String> = known_columns(purpose).map(|(field, _)| normalise(field)).collect();
    let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
    let near = nearest_name(&name, &fields)?;
    known_columns(purpose).map(|(field, _)| field).find(|field| normalise(field) == near)
}

/// The name in lower case, without separators between its words.
fn normalise(name: &str) -> String {
    let is_separator =
        |character: char| matches!(character, '_' | '-' | '.') || character.is_whitespace();
    let characters = name.chars().filter(|character| !is_separator(*character));
    characters.flat_map(char::to_lowercase).collect()
}

/// The names with their noun: ``column `a` ``, ``columns `a`, `b` ``.
fn column_names(names: &[&str]) -> String {
    let all: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    format!("column{} {}", if names.len() == 1 { "" } else { "s" }, all.join(", "))
}

fn flag_of_column(name: &str, cell: &str) -> Result<bool, Vec<String>> {
    parse_flag(cell).map_err(|rule| vec![format!("{name}: {rule}")])
}

/// Parses true or false. PostgreSQL writes `t` and `f`.
pub(super) fn parse_flag(text: &str) -> Result<bool, &'static str> {
    match &*text.to_ascii_lowercase() {
        "true" | "t" | "1" | "yes" => Ok(true),
        "false" | "f" | "0" | "no" => Ok(false),
        _ => Err("must be true or false"),
    }
}

#[cfg(test)]
mod tests {
    use notify_client::notify_core::RegisterDevice;

    use super::*;

    fn row_of(
        purpose: Purpose,
        header: &[&str],
        row: &[&[u8]],
    ) -> (String, Result<Draft, Vec<String>>) {
        let header = header.iter().copied().collect();
        let columns = Columns::new(&header, purpose, false).unwrap();
        columns.draft(&row.iter().copied().collect())
    }

    fn draft(header: &[&str], row: &[&[u8]]) -> Result<Draft, Vec<String>> {
        row_of(Purpose::Register, header, row).1
    }

    #[test]
    fn every_field_of_a_registration_has_a_column() {
        let mut draft = Draft::default();
        for (name, setter) in COLUMNS {
            if !["subscription", ATTRIBUTES].contains(name) {
                setter(&mut draft, "true").unwrap();
            }
        }
        let fields = serde_json::to_value(draft.registration).unwrap();
        let fields = fields.as_object().unwrap();
        let columns = COLUMNS.iter().filter(|(name, _)| fields.contains_key(*name)).count();
        assert_eq!((columns, fields.len()), (19, 19), "every field");
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
    fn a_column_has_the_value_of_an_attribute() {
        let header = [
            "device_id",
            "platform",
            "attributes",
            "attribute:plan",
            "Attribute: seats",
            "attribute:trial",
            "attribute:zip",
            "attribute:none",
        ];
        let row: [&[u8]; 8] = [
            b"a",
            b"ios",
            br#"{"plan":"free","old":null}"#,
            b"pro",
            b"-3",
            b"TRUE",
            b"\"10115\"",
            b"",
        ];
        let read = draft(&header, &row).unwrap();
        let expected = PatchAttributes::default()
            .set("plan", "pro")
            .set("seats", -3)
            .set("trial", true)
            .set("zip", "10115")
            .remove("old");
        assert_eq!(read.attributes, expected);
        for (name, cell, error) in [
            ("attribute:zip", &b"\"1"[..], "attribute:zip: the quotes are not closed"),
            ("attributes", b"plan=pro", "attributes: must be a JSON object"),
            (
                "attributes",
                br#"{"plan":[]}"#,
                "attributes.plan: expected a boolean, a number or a string",
            ),
        ] {
            let seen = draft(&["device_id", "platform", name], &[b"a", b"ios", cell]);
            assert_eq!(seen, Err(vec![error.to_owned()]), "{name}");
        }
    }

    /// Cells of other known columns are not even parsed.
    #[test]
    fn the_row_of_a_user_has_its_id_and_attributes() {
        let header =
            ["User ID", "attribute:plan", "attributes", "enabled", "devices", "created_at"];
        let row: [&[u8]; 6] = [b"'=u", b"pro", br#"{"old":null}"#, b"x", b"[7]", b"x"];
        let (id, read) = row_of(Purpose::UpdateUser, &header, &row);
        let mut expected = Draft {
            attributes: PatchAttributes::default().set("plan", "pro").remove("old"),
            ..Draft::default()
        };
        expected.registration.user_id = Some("=u".into());
        assert_eq!((&*id, read), ("=u", Ok(expected)));

        let row: [&[u8]; 2] = [b"u", b"plan=pro"];
        let (id, read) = row_of(Purpose::UpdateUser, &["user_id", "attributes"], &row);
        assert_eq!(id, "u");
        assert_eq!(read, Err(vec!["attributes: must be a JSON object".to_owned()]));
    }

    #[test]
    fn a_header_has_each_attribute_once_with_a_valid_name() {
        for (names, error) in [
            (
                ["attribute:plan", "Attribute: plan"],
                "the columns `attribute:plan` and `Attribute: plan` are the same field",
            ),
            (
                ["attribute:plan", "attribute:Plan"],
                "the header has `attribute:Plan`, whose name is invalid: Plan: must be a lower-case \
                 letter, then up to 63 lower-case letters, digits and underscores",
            ),
            (
                ["attribute:plan", "attribute"],
                "unknown column `attribute` (did you mean `attributes`?); --ignore-unknown-columns \
                 ignores such columns",
            ),
        ] {
            let header = ["device_id", "platform"].into_iter().chain(names).collect();
            let seen = Columns::new(&header, Purpose::Register, false).map(|_| ());
            assert_eq!(seen.map_err(|error| error.to_string()), Err(error.to_owned()), "{names:?}");
        }
    }

    #[test]
    fn a_row_that_cannot_be_parsed_is_an_error() {
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
    fn a_column_is_recognised_in_any_spelling() {
        for header in ["Device_ID", "device id", "DeviceId", "DEVICE-ID"] {
            let read = draft(&[header, "Platform", "Push Token"], &[b"a", b"ios", b"t"]).unwrap();
            assert_eq!(read.registration.device_id, "a", "{header}");
            assert_eq!(read.registration.push_token.as_deref(), Some("t"), "{header}");
        }
    }

    fn header(names: &[&str], purpose: Purpose, ignore_unknown: bool) -> Result<(), String> {
        let names = names.iter().copied().collect();
        let columns = Columns::new(&names, purpose, ignore_unknown);
        columns.map(|_| ()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_header_of_a_file_of_users_has_their_id() {
        let user = Purpose::UpdateUser;
        for (names, error) in [
            (&["attributes"] as &[&str], "the header has no column `user_id`"),
            (
                &["attributes", "External ID"],
                "the header has no column `user_id`; if `External ID` is the `user_id`, rename the \
                 column",
            ),
            (
                &["user_id", "id", "plan", "vip"],
                "unknown columns `id`, `plan`, `vip` (did you mean `user_id` for `id`?); \
                 --ignore-unknown-columns ignores such columns",
            ),
        ] {
            assert_eq!(header(names, user, false), Err(error.to_owned()), "{names:?}");
        }
        for names in [&["user_id"][..], &["user_id", "devices", "updated_at", "push_token"]] {
            assert_eq!(header(names, user, false), Ok(()));
        }
        // Only a user of a listing has devices.
        let devices = header(&["device_id", "platform", "devices"], Purpose::Register, false);
        assert!(devices.is_err_and(|error| error.starts_with("unknown column `devices`")));
    }

    #[test]
    fn a_header_names_known_fields_once() {
        let (register, tag) = (Purpose::Register, Purpose::Tag);
        let both = ["device_id", "platform"];
        for (names, purpose, error) in [
            (vec!["device_id"], register, "the header has no column `platform`"),
            (
                vec!["id"],
                register,
                "the header has no columns `device_id`, `platform`; if `id` is the `device_id`, \
                 rename the column",
            ),
            (vec!["device_id", "platform"], tag, "the header has no column `tags`"),
            (
                vec!["d\0e\0v\0", "platform"],
                register,
                "the header has no column `device_id`; is it UTF-16 without its byte-order mark?",
            ),
            (
                [&both[..], &["push_tokn"]].concat(),
                register,
                "unknown column `push_tokn` (did you mean `push_token`?); \
                 --ignore-unknown-columns ignores such columns",
            ),
            (
                [&both[..], &["Token"]].concat(),
                register,
                "unknown column `Token` (did you mean `push_token`?); \
                 --ignore-unknown-columns ignores such columns",
            ),
            (
                [&both[..], &["token", "shop", "lang"]].concat(),
                register,
                "unknown columns `token`, `shop`, `lang` (did you mean `push_token` for `token`, \
                 `language` for `lang`?); --ignore-unknown-columns ignores such columns",
            ),
            (
                [&both[..], &["shop", "vip"]].concat(),
                register,
                "unknown columns `shop`, `vip`; --ignore-unknown-columns ignores such columns",
            ),
            (
                [&both[..], &["line"]].concat(),
                register,
                "unknown column `line` (an attribute is `attribute:line`); --ignore-unknown-columns \
                 ignores such columns",
            ),
            ([&both[..], &["device_id"]].concat(), register, "the header has `device_id` twice"),
            (
                [&both[..], &["Device ID"]].concat(),
                register,
                "the columns `device_id` and `Device ID` are the same field",
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
