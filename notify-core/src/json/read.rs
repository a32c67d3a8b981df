//! The second pass: takes fields by name and type, notes every one that has the wrong type, and
//! every one that nobody asked for. Only for text that the first pass found to be JSON.

use std::{borrow::Cow, fmt};

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::check::walk;
use super::{JsonObject, Value, scanned};
use crate::Violations;
use crate::json::{CHECKED, Key};
use crate::rules::REQUIRED;
use crate::violations::{Findings, Path, ROOT};

/// Whether an endpoint can be called without a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    Required,
    Optional,
}

/// Reads a body that is one object, and what is wrong with it.
///
/// The draft is `None` when the body is no object.
pub(crate) fn read_body<T>(
    body: &[u8],
    presence: Body,
    read: impl FnOnce(&mut Object<'_, '_>) -> T,
) -> Result<(Option<T>, Findings), Violations> {
    let (text, mut findings) = match presence {
        Body::Optional if body.trim_ascii().is_empty() => ("{}", Findings::default()),
        Body::Optional | Body::Required => walk(body)?,
    };
    let raw: &RawValue = serde_json::from_str(text).expect(CHECKED);
    let mut shape = Findings::default();
    let value = Value { raw, path: ROOT, findings: &mut shape };
    let draft = value.object(read);
    findings.merge(shape);
    Ok((draft, findings))
}

/// An object whose fields are taken by name; what is left over is unknown.
pub(crate) struct Object<'a, 'c> {
    path: Path<'c>,
    members: Vec<Member<'a>>,
    known: Vec<&'static str>,
    findings: &'c mut Findings,
}

struct Member<'a> {
    name: Cow<'a, str>,
    raw: &'a RawValue,
    is_taken: bool,
}

impl<'a, 'c> Object<'a, 'c> {
    /// Reads an object, and notes the fields that `read` did not ask for.
    pub(super) fn read<T>(
        raw: &'a RawValue,
        path: Path<'c>,
        findings: &'c mut Findings,
        read: impl FnOnce(&mut Object<'a, '_>) -> T,
    ) -> T {
        let mut object = Object { path, members: members(raw), known: Vec::new(), findings };
        let draft = read(&mut object);
        object.finish();
        draft
    }

    /// Takes a field; `null` equals leaving it out.
    pub(crate) fn take<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(Value<'a, '_>) -> Option<T>,
    ) -> Option<T> {
        self.known.push(name);
        scanned(self.members.len());
        let member = self.members.iter_mut().find(|member| member.name == name)?;
        member.is_taken = true;
        if member.raw.get() == "null" {
            return None;
        }
        let path = self.path.field(name);
        read(Value { raw: member.raw, path, findings: &mut *self.findings })
    }

    pub(crate) fn string(&mut self, name: &'static str) -> Option<String> {
        self.take(name, |value| value.string())
    }

    /// A required string; the rules see an absent one as an empty one.
    pub(crate) fn required_string(&mut self, name: &'static str) -> String {
        self.string(name).unwrap_or_default()
    }

    pub(crate) fn strings(&mut self, name: &'static str, kept_max: usize) -> Option<Vec<String>> {
        self.take(name, |value| value.list(kept_max, |element| element.string()))
    }

    pub(crate) fn flag(&mut self, name: &'static str) -> Option<bool> {
        self.take(name, |value| value.flag())
    }

    pub(crate) fn whole(&mut self, name: &'static str, max: u32) -> Option<u32> {
        let number = self.take(name, |value| value.whole(u64::from(max)));
        number.map(|number| u32::try_from(number).expect("a number up to a u32 fits one"))
    }

    pub(crate) fn instant(&mut self, name: &'static str) -> Option<i64> {
        self.take(name, |value| value.instant())
    }

    pub(crate) fn float(&mut self, name: &'static str) -> Option<f64> {
        self.take(name, |value| value.float())
    }

    pub(crate) fn raw_object(&mut self, name: &'static str) -> Option<JsonObject> {
        self.take(name, |value| value.raw_object())
    }

    pub(crate) fn object<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(&mut Object<'a, '_>) -> T,
    ) -> Option<T> {
        self.take(name, |value| value.object(read))
    }

    pub(crate) fn objects<T>(
        &mut self,
        name: &'static str,
        kept_max: usize,
        mut read: impl FnMut(&mut Object<'a, '_>) -> T,
    ) -> Option<Vec<T>> {
        self.take(name, |value| value.list(kept_max, |element| element.object(&mut read)))
    }

    /// Whether the field is there and not `null`.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.members.iter().any(|member| member.name == name && member.raw.get() != "null")
    }

    /// Notes a missing field that the model could not show as missing.
    pub(crate) fn require(&mut self, name: &'static str) {
        if !self.has(name) {
            self.broken(name, REQUIRED);
        }
    }

    /// Notes a broken rule that the model could not show.
    pub(crate) fn broken(&mut self, name: &'static str, what: impl fmt::Display) {
        self.findings.broken(&self.path.field(name), what);
    }

    fn finish(self) {
        let Self { path, members, known, findings } = self;
        for member in members.iter().filter(|member| !member.is_taken) {
            findings.unknown(&path.field(&member.name), "field", &member.name, &known);
        }
    }
}

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
    scanned(raw.get().len());
    let mut deserializer = serde_json::Deserializer::from_str(raw.get());
    deserializer.deserialize_map(Visit).expect(CHECKED)
}
