//! A strict JSON reader. RFC 8259 leaves some texts to the implementation, such as duplicate keys, and
//! parsers read them differently. This reader refuses these texts, and reports the path of the value.
//!
//! A body is read twice. The first pass, [`check()`], scans the whole body and builds no values. The
//! second pass takes the fields of the request model by name. The time of both passes is linear in the
//! size of the body, for any content.

mod object;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

pub use self::object::JsonObject;
use crate::Violations;
use crate::violations::{NUL_FORBIDDEN, Path, REQUIRED, ROOT, Validator};

#[cfg(any(test, fuzzing))]
thread_local! {
    /// The number of bytes that the reader has looked at on this thread.
    static BYTES_READ: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts bytes that the reader looks at. A test checks by this count that reading takes linear time.
#[cfg(any(test, fuzzing))]
fn count_bytes(bytes: usize) {
    BYTES_READ.set(BYTES_READ.get() + bytes);
}

#[cfg(not(any(test, fuzzing)))]
fn count_bytes(_bytes: usize) {}

/// How many bytes `work` reads.
#[cfg(any(test, fuzzing))]
pub(crate) fn bytes_read_by(work: impl FnOnce()) -> usize {
    BYTES_READ.set(0);
    work();
    BYTES_READ.get()
}

/// Most passes over a body: one for the scan, one for each level of objects and lists in a model (an
/// audience has 16), one to read a value, and one over the names of the members for each field of the model.
#[cfg(any(test, fuzzing))]
pub(crate) const PASSES_MAX: usize = 20;

/// Deepest nesting of objects and lists in a body; the body itself is the first level.
pub const NESTING_MAX: usize = 64;
/// Most members of an object and of all objects that enclose it, counted together. The scan keeps the
/// names of these members until their object ends, and needs about fifteen times the memory of short
/// names.
pub const MEMBERS_MAX: usize = 10_000;
/// Number of keys of an object that are compared one by one. Further keys go into a hash set.
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

/// Scans a body like [`check()`], for a reader that continues with the second pass. A text with
/// duplicate keys or U+0000 is still readable: it is returned together with these violations, so that
/// one answer lists them with the violations of the second pass.
fn scan(body: &[u8]) -> Result<(&str, Validator), Violations> {
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
    /// Number of members read so far, in the objects that have not ended.
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

/// Adds a violation at a path. The recursion converts each segment to a [`Path`] in its own stack frame,
/// so that paths need no allocation unless there is a violation.
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

/// Visits a value of the body. After an error, [`Scan::path`] is still the path of the value with the
/// error.
struct ScanVisitor<'s, 'de>(&'s mut Scan<'de>);

impl ScanVisitor<'_, '_> {
    /// Checks the nesting before an object or a list is read.
    fn check_nesting<E: Error>(&mut self) -> Result<(), E> {
        if self.0.path.len() < NESTING_MAX {
            return Ok(());
        }
        Err(self.stop(format_args!("nesting deeper than {NESTING_MAX}")))
    }

    /// Adds the violation of a limit. Returns the error that ends the scan.
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
        self.check_nesting()?;
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
        self.check_nesting()?;
        let mut keys = KeySet::default();
        let enclosing_members = self.0.members;
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
        self.0.members = enclosing_members;
        Ok(())
    }
}

/// The keys of one object. They are hashed only if there are many.
#[derive(Default)]
struct KeySet<'de> {
    few: Vec<Cow<'de, str>>,
    many: HashSet<Cow<'de, str>>,
}

impl<'de> KeySet<'de> {
    /// Adds a key. Returns whether the object did not have this key yet.
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

/// Whether an endpoint accepts an empty body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyPresence {
    Required,
    Optional,
}

/// Reads a body with the reader of its model. Returns the model, or `None` when the body is not an
/// object; and the violations of the body's shape.
///
/// # Errors
/// When the body is not JSON that can be read.
pub(crate) fn read_body<T>(
    body: &[u8],
    presence: BodyPresence,
    read: impl FnOnce(&mut Object<'_, '_>) -> T,
) -> Result<(Option<T>, Validator), Violations> {
    let (text, mut validator) = match presence {
        BodyPresence::Optional if body.trim_ascii().is_empty() => ("{}", Validator::default()),
        BodyPresence::Optional | BodyPresence::Required => scan(body)?,
    };
    let raw: &RawValue = serde_json::from_str(text).expect(CHECKED);
    let mut shape = Validator::default();
    let value = Value { raw, path: ROOT, validator: &mut shape };
    let model = value.object(read);
    validator.merge(shape);
    Ok((model, validator))
}

/// The key of a member, borrowed from the body unless it has an escape.
struct Key<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Key<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }
            fn visit_borrowed_str<E: Error>(self, key: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(key)))
            }
            fn visit_str<E: Error>(self, key: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(key.to_owned())))
            }
        }
        deserializer.deserialize_str(Visit)
    }
}

/// Why reading the text of a body cannot fail after the first pass.
const CHECKED: &str = "the first pass accepts valid JSON only";

/// A value of a body, and its path.
pub(crate) struct Value<'a, 'c> {
    raw: &'a RawValue,
    path: Path<'c>,
    validator: &'c mut Validator,
}

impl<'a> Value<'a, '_> {
    pub(crate) fn first_byte(&self) -> u8 {
        self.raw.get().as_bytes()[0]
    }

    fn is_number(&self) -> bool {
        matches!(self.first_byte(), b'-' | b'0'..=b'9')
    }

    pub(crate) fn wrong_type<T>(&mut self, expected: &str) -> Option<T> {
        self.validator.wrong_type(&self.path, expected);
        None
    }

    pub(crate) fn string(mut self) -> Option<String> {
        if self.first_byte() != b'"' {
            return self.wrong_type("a string");
        }
        count_bytes(self.raw.get().len());
        Some(serde_json::from_str(self.raw.get()).expect(CHECKED))
    }

    pub(crate) fn bool(mut self) -> Option<bool> {
        match self.raw.get() {
            "true" => Some(true),
            "false" => Some(false),
            _ => self.wrong_type("true or false"),
        }
    }

    /// Reads a number that is written with digits only. Reports a number that is too large with `too_large`.
    pub(crate) fn u32(mut self, too_large: impl FnOnce(&Path<'_>, &mut Validator)) -> Option<u32> {
        let number = self.digits()?.parse().ok();
        if number.is_none() {
            too_large(&self.path, self.validator);
        }
        number
    }

    /// Reads unix milliseconds that are written with digits only. The rules check the range.
    pub(crate) fn instant(mut self) -> Option<i64> {
        self.digits().map(|digits| digits.parse().unwrap_or(i64::MAX))
    }

    /// Returns `None` for every number if only types are checked.
    fn digits(&mut self) -> Option<&'a str> {
        let text = self.raw.get();
        count_bytes(text.len());
        let types_only = self.validator.checks_types_only();
        if !self.is_number() {
            return self.wrong_type(if types_only { "a number" } else { "a whole number" });
        }
        if types_only {
            return None;
        }
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            let rule = "must be a whole number without sign, fraction or exponent";
            self.validator.violation(&self.path, rule);
            return None;
        }
        Some(text)
    }

    pub(crate) fn float(mut self) -> Option<f64> {
        if !self.is_number() {
            return self.wrong_type("a number");
        }
        count_bytes(self.raw.get().len());
        Some(self.raw.get().parse().expect(CHECKED))
    }

    /// Reads an object of any content, and keeps its text as the caller wrote it.
    pub(crate) fn raw_object(mut self) -> Option<JsonObject> {
        if self.first_byte() != b'{' {
            return self.wrong_type("an object");
        }
        count_bytes(self.raw.get().len());
        Some(JsonObject::from_checked(self.raw))
    }

    pub(crate) fn object<T>(mut self, read: impl FnOnce(&mut Object<'a, '_>) -> T) -> Option<T> {
        if self.first_byte() != b'{' {
            return self.wrong_type("an object");
        }
        Some(Object::read(self.raw, self.path, self.validator, read))
    }

    /// Reads a list. Every element is read, but at most `max + 1` are kept. One more than `max` is enough
    /// for the rules to detect that there are too many.
    pub(crate) fn list<T>(
        mut self,
        max: usize,
        mut read: impl FnMut(Value<'a, '_>) -> Option<T>,
    ) -> Option<Vec<T>> {
        if self.first_byte() != b'[' {
            return self.wrong_type("a list");
        }
        let mut kept = Vec::new();
        for_each_element(self.raw, |index, raw| {
            let path = self.path.index(index);
            let element = read(Value { raw, path, validator: &mut *self.validator });
            if kept.len() <= max {
                kept.extend(element);
            }
        });
        Some(kept)
    }
}

/// Calls `read` with the index and the text of each element of a list.
fn for_each_element<'a>(raw: &'a RawValue, read: impl FnMut(usize, &'a RawValue)) {
    struct Visit<F>(F);
    impl<'de, F: FnMut(usize, &'de RawValue)> Visitor<'de> for Visit<F> {
        type Value = ();
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list")
        }
        fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
            let mut index = 0;
            while let Some(raw) = list.next_element()? {
                (self.0)(index, raw);
                index += 1;
            }
            Ok(())
        }
    }
    count_bytes(raw.get().len());
    let mut deserializer = serde_json::Deserializer::from_str(raw.get());
    deserializer.deserialize_seq(Visit(read)).expect(CHECKED);
}

/// An object whose fields are taken by name. A field that has not been taken at the end is unknown.
pub(crate) struct Object<'a, 'c> {
    path: Path<'c>,
    members: Vec<Member<'a>>,
    known_names: Vec<&'static str>,
    validator: &'c mut Validator,
}

struct Member<'a> {
    name: Cow<'a, str>,
    raw: &'a RawValue,
    is_taken: bool,
}

impl<'a, 'c> Object<'a, 'c> {
    /// Reads an object, and reports the fields that `read` did not take as unknown.
    fn read<T>(
        raw: &'a RawValue,
        path: Path<'c>,
        validator: &'c mut Validator,
        read: impl FnOnce(&mut Object<'a, '_>) -> T,
    ) -> T {
        let mut object = Object { path, members: members(raw), known_names: Vec::new(), validator };
        let model = read(&mut object);
        object.finish();
        model
    }

    /// Takes a field. `null` equals an absent field.
    pub(crate) fn take<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(Value<'a, '_>) -> Option<T>,
    ) -> Option<T> {
        self.take_given(name, |value| if value.raw.get() == "null" { None } else { read(value) })
    }

    /// Takes a field whose `null` is a value of the wrong type, and does not equal an absent field.
    pub(crate) fn take_given<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(Value<'a, '_>) -> Option<T>,
    ) -> Option<T> {
        self.known_names.push(name);
        count_bytes(self.members.len());
        let member = self.members.iter_mut().find(|member| member.name == name)?;
        member.is_taken = true;
        let path = self.path.field(name);
        read(Value { raw: member.raw, path, validator: &mut *self.validator })
    }

    /// Takes every field of an object whose names the caller chooses. `null` is `None`.
    pub(crate) fn map<T>(
        &mut self,
        mut read: impl FnMut(Value<'a, '_>) -> Option<T>,
    ) -> BTreeMap<String, Option<T>> {
        let mut map = BTreeMap::new();
        for member in &mut self.members {
            member.is_taken = true;
            if member.raw.get() == "null" {
                map.insert(member.name.as_ref().to_owned(), None);
                continue;
            }
            let path = self.path.field(&member.name);
            let value = read(Value { raw: member.raw, path, validator: &mut *self.validator });
            if let Some(value) = value {
                map.insert(member.name.as_ref().to_owned(), Some(value));
            }
        }
        map
    }

    /// Takes a field of which only the type is checked, if `types_only`.
    pub(crate) fn take_types_only<T>(
        &mut self,
        name: &'static str,
        types_only: bool,
        read: impl FnOnce(Value<'a, '_>) -> Option<T>,
    ) -> Option<T> {
        let before = self.validator.set_types_only(types_only);
        let taken = self.take(name, read);
        self.validator.set_types_only(before);
        taken
    }

    /// Whether the field is present and not `null`.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.members.iter().any(|member| member.name == name && member.raw.get() != "null")
    }

    /// Whether the field is present, perhaps as `null`.
    pub(crate) fn is_given(&self, name: &str) -> bool {
        count_bytes(self.members.len());
        self.members.iter().any(|member| member.name == name)
    }

    /// Reports the object as unreadable. The fields with these names are not reported as unknown.
    pub(crate) fn unreadable(&mut self, known: &[&'static str], what: impl fmt::Display) {
        self.known_names.extend(known);
        for member in self.members.iter_mut().filter(|member| known.contains(&&*member.name)) {
            member.is_taken = true;
        }
        self.validator.unreadable(&self.path, what);
    }

    /// Reports a field as unreadable.
    pub(crate) fn unreadable_field(&mut self, name: &'static str, what: impl fmt::Display) {
        self.validator.unreadable(&self.path.field(name), what);
    }

    /// Ignores the fields that have not been taken: they are not reported as unknown.
    pub(crate) fn ignore_rest(&mut self) {
        for member in &mut self.members {
            member.is_taken = true;
        }
    }

    /// Adds a violation if the field is absent.
    pub(crate) fn require(&mut self, name: &'static str) {
        if !self.has(name) && !self.validator.checks_types_only() {
            self.violation(name, REQUIRED);
        }
    }

    /// Adds a violation of a rule that the model cannot express.
    pub(crate) fn violation(&mut self, name: &'static str, what: impl fmt::Display) {
        self.validator.violation(&self.path.field(name), what);
    }

    /// Reports the fields that have not been taken as unknown.
    fn finish(self) {
        let Self { path, members, known_names, validator } = self;
        for member in members.iter().filter(|member| !member.is_taken) {
            validator.unknown(&path.field(&member.name), "field", &member.name, &known_names);
        }
    }
}

/// The members of an object, in the order in which they are written.
fn members(raw: &RawValue) -> Vec<Member<'_>> {
    struct Visit;
    impl<'de> Visitor<'de> for Visit {
        type Value = Vec<Member<'de>>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
            let mut members = Vec::new();
            while let Some((Key(name), raw)) = object.next_entry()? {
                members.push(Member { name, raw, is_taken: false });
            }
            Ok(members)
        }
    }
    count_bytes(raw.get().len());
    let mut deserializer = serde_json::Deserializer::from_str(raw.get());
    deserializer.deserialize_map(Visit).expect(CHECKED)
}
