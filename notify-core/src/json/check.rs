//! The first pass over a body: is it JSON that everybody reads alike? Builds nothing.

use std::{borrow::Cow, collections::HashSet, fmt};

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::scanned;
use crate::Violations;
use crate::json::Key;
use crate::violations::{Findings, Path, ROOT};

/// Deepest nesting of objects and lists in a body; the body itself is the first level.
pub const NESTING_MAX: usize = 64;
/// Most members of an object together with those of the objects around it: their names are kept
/// until the object ends, at some fifteen times the bytes of short ones.
pub const MEMBERS_MAX: usize = 10_000;
/// Up to that many members, an object's names are compared one by one.
const NAMES_COMPARED_MAX: usize = 16;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Checks what no endpoint accepts: bytes that are not UTF-8 or not JSON, duplicate keys,
/// numbers that no double can hold, U+0000, nesting deeper than [`NESTING_MAX`], more members than
/// [`MEMBERS_MAX`].
///
/// Gives the text without its byte-order mark.
///
/// # Errors
/// Everything that is wrong up to the first syntax error.
pub fn check(body: &[u8]) -> Result<&str, Violations> {
    let (text, findings) = walk(body)?;
    findings.into_result(Some(text))
}

/// [`check()`] for a reader that goes on: what is wrong with a text that can be read all the same
/// (duplicate keys, U+0000) comes beside it, so that it is listed with every other rule.
pub(super) fn walk(body: &[u8]) -> Result<(&str, Findings), Violations> {
    let body = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body);
    scanned(body.len());
    let text = std::str::from_utf8(body).map_err(|error| {
        Violations::one("body", format_args!("is not UTF-8 after byte {}", error.valid_up_to()))
    })?;
    if text.trim_ascii().is_empty() {
        return Err(Violations::one("body", "is empty"));
    }
    let mut walk =
        Walk { place: Vec::new(), findings: Findings::default(), members: 0, is_over: false };
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let outcome = Node(&mut walk).deserialize(&mut deserializer).and_then(|()| deserializer.end());
    let Err(error) = outcome else { return Ok((text, walk.findings)) };
    if !walk.is_over {
        let what = error.to_string();
        if what.starts_with("number out of range") {
            walk.broken("number that no double can hold");
        } else {
            walk.broken(format_args!("is not valid JSON: {what}"));
        }
    }
    walk.findings.into_result(None)
}

/// Where the walk is, and what it found.
struct Walk<'de> {
    place: Vec<Segment<'de>>,
    findings: Findings,
    /// Members so far of the objects that have not ended.
    members: usize,
    /// Whether it ended at a bound, and not at an error of the text.
    is_over: bool,
}

enum Segment<'de> {
    Key(Cow<'de, str>),
    Index(usize),
}

impl Walk<'_> {
    fn broken(&mut self, what: impl fmt::Display) {
        note(&self.place, &ROOT, &mut self.findings, &what);
    }

    fn text(&mut self, text: &str) {
        if text.contains('\0') {
            self.broken("must not contain U+0000");
        }
    }
}

/// Builds the path on the way down, so that it costs nothing where nothing is wrong.
fn note(rest: &[Segment<'_>], path: &Path<'_>, findings: &mut Findings, what: &dyn fmt::Display) {
    match rest.split_first() {
        None => findings.broken(path, what),
        Some((Segment::Key(name), rest)) => note(rest, &path.field(name), findings, what),
        Some((Segment::Index(index), rest)) => note(rest, &path.index(*index), findings, what),
    }
}

/// Any value of the body. On an error the walk keeps its place.
struct Node<'w, 'de>(&'w mut Walk<'de>);

impl Node<'_, '_> {
    fn enter<E: Error>(&mut self) -> Result<(), E> {
        if self.0.place.len() < NESTING_MAX {
            return Ok(());
        }
        Err(self.over(format_args!("nesting deeper than {NESTING_MAX}")))
    }

    /// Ends the walk at a bound.
    fn over<E: Error>(&mut self, what: fmt::Arguments<'_>) -> E {
        self.0.is_over = true;
        self.0.broken(what);
        E::custom("over a bound")
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_, 'de> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_, 'de> {
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
        self.0.text(text);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        self.enter()?;
        for index in 0.. {
            self.0.place.push(Segment::Index(index));
            let more = list.next_element_seed(Node(&mut *self.0))?.is_some();
            self.0.place.pop();
            if !more {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut object: A) -> Result<(), A::Error> {
        self.enter()?;
        let mut names = Names::default();
        let around = self.0.members;
        while let Some(Key(name)) = object.next_key()? {
            if self.0.members == MEMBERS_MAX {
                return Err(self.over(format_args!("more than {MEMBERS_MAX} members")));
            }
            self.0.members += 1;
            let is_new = names.insert(name.clone());
            self.0.place.push(Segment::Key(name.clone()));
            if !is_new {
                self.0.broken("duplicate key");
            }
            self.0.text(&name);
            object.next_value_seed(Node(&mut *self.0))?;
            self.0.place.pop();
        }
        self.0.members = around;
        Ok(())
    }
}

/// The names of one object; a set only where there are many.
#[derive(Default)]
struct Names<'de> {
    few: Vec<Cow<'de, str>>,
    many: HashSet<Cow<'de, str>>,
}

impl<'de> Names<'de> {
    /// Whether the name is new.
    fn insert(&mut self, name: Cow<'de, str>) -> bool {
        if self.few.len() < NAMES_COMPARED_MAX {
            let is_new = !self.few.contains(&name);
            if is_new {
                self.few.push(name);
            }
            return is_new;
        }
        !self.few.contains(&name) && self.many.insert(name)
    }
}
