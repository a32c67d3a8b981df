//! The second pass over a body: takes fields by name, and reports those of the wrong type and those
//! that are unknown. It reads only text that the first pass accepted.

use std::{borrow::Cow, fmt};

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::scan::scan;
use super::{CHECKED, JsonObject, Key, Value, count_bytes};
use crate::rules::REQUIRED;
use crate::violations::{Path, ROOT, Validator};
use crate::{Timestamp, Violations};

/// Whether an endpoint accepts an empty body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    Required,
    Optional,
}

/// Reads a body that is one object. The draft is `None` when the body is not an object.
///
/// # Errors
/// When the body is not JSON that can be read.
pub(crate) fn read_body<T>(
    body: &[u8],
    presence: Body,
    read: impl FnOnce(&mut Object<'_, '_>) -> T,
) -> Result<(Option<T>, Validator), Violations> {
    let (text, mut validator) = match presence {
        Body::Optional if body.trim_ascii().is_empty() => ("{}", Validator::default()),
        Body::Optional | Body::Required => scan(body)?,
    };
    let raw: &RawValue = serde_json::from_str(text).expect(CHECKED);
    let mut shape = Validator::default();
    let value = Value { raw, path: ROOT, validator: &mut shape };
    let draft = value.object(read);
    validator.merge(shape);
    Ok((draft, validator))
}

/// A type that a field of a request model can have.
pub(crate) trait FromValue: Sized {
    /// Reads the value; reports a wrong type to the value's validator.
    fn from_value(value: Value<'_, '_>) -> Option<Self>;
}

impl FromValue for String {
    fn from_value(value: Value<'_, '_>) -> Option<Self> {
        value.string()
    }
}

impl FromValue for bool {
    fn from_value(value: Value<'_, '_>) -> Option<Self> {
        value.bool()
    }
}

impl FromValue for f64 {
    fn from_value(value: Value<'_, '_>) -> Option<Self> {
        value.float()
    }
}

impl FromValue for Timestamp {
    fn from_value(value: Value<'_, '_>) -> Option<Self> {
        value.instant().map(Self)
    }
}

impl FromValue for JsonObject {
    fn from_value(value: Value<'_, '_>) -> Option<Self> {
        value.raw_object()
    }
}

/// Applies a reader of one field; gives the closure its type.
pub(crate) fn read_with<'a, 'c, T>(
    object: &mut Object<'a, 'c>,
    read: impl FnOnce(&mut Object<'a, 'c>) -> T,
) -> T {
    read(object)
}

/// An object whose fields are taken by name. Fields that are left over are unknown.
pub(crate) struct Object<'a, 'c> {
    path: Path<'c>,
    members: Vec<Member<'a>>,
    known: Vec<&'static str>,
    validator: &'c mut Validator,
}

pub(super) struct Member<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) raw: &'a RawValue,
    is_taken: bool,
}

impl<'a, 'c> Object<'a, 'c> {
    /// Reads an object, and reports the fields that `read` did not take as unknown.
    pub(super) fn read<T>(
        raw: &'a RawValue,
        path: Path<'c>,
        validator: &'c mut Validator,
        read: impl FnOnce(&mut Object<'a, '_>) -> T,
    ) -> T {
        let mut object = Object { path, members: members(raw), known: Vec::new(), validator };
        let draft = read(&mut object);
        object.finish();
        draft
    }

    /// Takes a field. `null` equals an absent field.
    pub(crate) fn take<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(Value<'a, '_>) -> Option<T>,
    ) -> Option<T> {
        self.known.push(name);
        count_bytes(self.members.len());
        let member = self.members.iter_mut().find(|member| member.name == name)?;
        member.is_taken = true;
        if member.raw.get() == "null" {
            return None;
        }
        let path = self.path.field(name);
        read(Value { raw: member.raw, path, validator: &mut *self.validator })
    }

    /// A field that is `None` when it is absent or has the wrong type.
    pub(crate) fn optional<T: FromValue>(&mut self, name: &'static str) -> Option<T> {
        self.take(name, T::from_value)
    }

    /// A required field; the default when it is absent, which the rules refuse.
    pub(crate) fn or_default<T: FromValue + Default>(&mut self, name: &'static str) -> T {
        self.optional(name).unwrap_or_default()
    }

    /// A required field of a type whose default the rules cannot tell from an absent field.
    pub(crate) fn required<T: FromValue + Default>(&mut self, name: &'static str) -> T {
        self.require(name);
        self.or_default(name)
    }

    /// A list, see [`Value::list`].
    pub(crate) fn list<T: FromValue>(&mut self, name: &'static str, max: usize) -> Option<Vec<T>> {
        self.take(name, |value| value.list(max, T::from_value))
    }

    pub(crate) fn u32(&mut self, name: &'static str, max: u32) -> Option<u32> {
        self.take(name, |value| value.u32(max))
    }

    pub(crate) fn instant(&mut self, name: &'static str) -> Option<i64> {
        self.take(name, |value| value.instant())
    }

    pub(crate) fn object<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut Object<'a, '_>) -> T,
    ) -> Option<T> {
        self.take(name, |value| value.object(read))
    }

    /// Whether the field is present and not `null`.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.members.iter().any(|member| member.name == name && member.raw.get() != "null")
    }

    /// Reports a field that is absent.
    pub(crate) fn require(&mut self, name: &'static str) {
        if !self.has(name) {
            self.violation(name, REQUIRED);
        }
    }

    /// Adds a violation of a rule that the model cannot express.
    pub(crate) fn violation(&mut self, name: &'static str, what: impl fmt::Display) {
        self.validator.violation(&self.path.field(name), what);
    }

    fn finish(self) {
        let Self { path, members, known, validator } = self;
        for member in members.iter().filter(|member| !member.is_taken) {
            validator.unknown(&path.field(&member.name), "field", &member.name, &known);
        }
    }
}

/// The members of an object, in the order in which they are written.
pub(super) fn members(raw: &RawValue) -> Vec<Member<'_>> {
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
