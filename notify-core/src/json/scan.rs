//! The first pass over a body: refuses JSON that parsers do not agree on. It builds no values.

use std::{borrow::Cow, collections::HashSet, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::{Key, count_bytes};
use crate::Violations;
use crate::rules::NUL_FORBIDDEN;
use crate::violations::{Path, ROOT, Validator};

/// Deepest nesting of objects and lists in a body; the body itself is the first level.
pub const NESTING_MAX: usize = 64;
/// Most members of an object together with those of the objects that enclose it. Their names are
/// kept until the object ends, at about fifteen times the size of short names.
pub const MEMBERS_MAX: usize = 10_000;
/// Up to this many keys are compared one by one; further ones go into a set.
const KEYS_COMPARED_MAX: usize = 16;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Refuses what no endpoint accepts: bytes that are not UTF-8 or not JSON (RFC 8259), duplicate keys,
/// numbers out of the range of a double, U+0000, nesting deeper than [`NESTING_MAX`], and more members
/// than [`MEMBERS_MAX`].
///
/// Returns the text without its byte-order mark.
///
/// # Errors
/// Every violation up to the first syntax error.
pub fn check(body: &[u8]) -> Result<&str, Violations> {
    let (text, validator) = scan(body)?;
    validator.into_result(Some(text))
}

/// [`check()`] for a reader that continues: violations in a text that is still readable (duplicate
/// keys, U+0000) are returned with it, to be listed with all others.
pub(super) fn scan(body: &[u8]) -> Result<(&str, Validator), Violations> {
    let body = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body);
    count_bytes(body.len());
    let text = std::str::from_utf8(body).map_err(|error| {
        Violations::one("body", format_args!("is not UTF-8 after byte {}", error.valid_up_to()))
    })?;
    if text.trim_ascii().is_empty() {
        return Err(Violations::one("body", "is empty"));
    }
    let mut scan =
        Scan { path: Vec::new(), validator: Validator::default(), members: 0, hit_limit: false };
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let outcome =
        ScanVisitor(&mut scan).deserialize(&mut deserializer).and_then(|()| deserializer.end());
    let Err(error) = outcome else { return Ok((text, scan.validator)) };
    if !scan.hit_limit {
        let what = error.to_string();
        if what.starts_with("number out of range") {
            scan.violation("number that no double can hold");
        } else {
            scan.violation(format_args!("is not valid JSON: {what}"));
        }
    }
    scan.validator.into_result(None)
}

/// State of the scan.
struct Scan<'de> {
    path: Vec<Segment<'de>>,
    validator: Validator,
    /// Members so far of the objects that have not ended.
    members: usize,
    /// Whether the scan stopped at a limit, not at a syntax error.
    hit_limit: bool,
}

enum Segment<'de> {
    Key(Cow<'de, str>),
    Index(usize),
}

impl Scan<'_> {
    fn violation(&mut self, what: impl fmt::Display) {
        violation_at(&self.path, &ROOT, &mut self.validator, &what);
    }

    fn check_text(&mut self, text: &str) {
        if text.contains('\0') {
            self.violation(NUL_FORBIDDEN);
        }
    }
}

/// Converts the segments to a [`Path`], one stack frame each. This happens only for a violation.
fn violation_at(
    rest: &[Segment<'_>],
    path: &Path<'_>,
    validator: &mut Validator,
    what: &dyn fmt::Display,
) {
    match rest.split_first() {
        None => validator.violation(path, what),
        Some((Segment::Key(key), rest)) => violation_at(rest, &path.field(key), validator, what),
        Some((Segment::Index(index), rest)) => {
            violation_at(rest, &path.index(*index), validator, what);
        }
    }
}

/// Visits any value of the body. On an error, [`Scan::path`] still leads to it.
struct ScanVisitor<'s, 'de>(&'s mut Scan<'de>);

impl ScanVisitor<'_, '_> {
    fn enter<E: Error>(&mut self) -> Result<(), E> {
        if self.0.path.len() < NESTING_MAX {
            return Ok(());
        }
        Err(self.stop(format_args!("nesting deeper than {NESTING_MAX}")))
    }

    /// Stops the scan at a limit.
    fn stop<E: Error>(&mut self, what: fmt::Arguments<'_>) -> E {
        self.0.hit_limit = true;
        self.0.violation(what);
        E::custom("limit exceeded")
    }
}

impl<'de> DeserializeSeed<'de> for ScanVisitor<'_, 'de> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ScanVisitor<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.0.check_text(text);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        self.enter()?;
        for index in 0.. {
            self.0.path.push(Segment::Index(index));
            let more = list.next_element_seed(ScanVisitor(&mut *self.0))?.is_some();
            self.0.path.pop();
            if !more {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut object: A) -> Result<(), A::Error> {
        self.enter()?;
        let mut keys = KeySet::default();
        let enclosing = self.0.members;
        while let Some(Key(key)) = object.next_key()? {
            if self.0.members == MEMBERS_MAX {
                return Err(self.stop(format_args!("more than {MEMBERS_MAX} members")));
            }
            self.0.members += 1;
            let is_new = keys.insert(key.clone());
            self.0.path.push(Segment::Key(key.clone()));
            if !is_new {
                self.0.violation("duplicate key");
            }
            self.0.check_text(&key);
            object.next_value_seed(ScanVisitor(&mut *self.0))?;
            self.0.path.pop();
        }
        self.0.members = enclosing;
        Ok(())
    }
}

/// The keys of one object; hashed only when there are many.
#[derive(Default)]
struct KeySet<'de> {
    few: Vec<Cow<'de, str>>,
    many: HashSet<Cow<'de, str>>,
}

impl<'de> KeySet<'de> {
    /// Adds a key; whether it is new.
    fn insert(&mut self, key: Cow<'de, str>) -> bool {
        if self.few.len() < KEYS_COMPARED_MAX {
            let is_new = !self.few.contains(&key);
            if is_new {
                self.few.push(key);
            }
            return is_new;
        }
        !self.few.contains(&key) && self.many.insert(key)
    }
}
