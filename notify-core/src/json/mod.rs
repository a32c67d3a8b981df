//! Strict JSON: what the standard leaves open is refused, and what is refused has a path.
//!
//! A body is read twice: [`check()`] walks over all of it and builds nothing; then the typed reader
//! takes what it knows by name. Both are linear in the body, whatever it holds.

mod check;
mod object;
mod read;
#[cfg(test)]
mod steps;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use serde_json::value::RawValue;

pub use self::check::{MEMBERS_MAX, NESTING_MAX, check};
pub use self::object::JsonObject;
pub(crate) use self::read::{Body, Object, read_body};
use crate::violations::{Findings, Path};

/// Counts the bytes that a step looks at, for the test that the whole stays linear.
#[cfg(test)]
pub(crate) fn scanned(bytes: usize) {
    steps::add(bytes);
}

#[cfg(not(test))]
pub(crate) fn scanned(_bytes: usize) {}

// Names of members, borrowed from the body where they hold no escape.

/// A member's name.
struct Key<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Key<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }
            fn visit_borrowed_str<E: Error>(self, name: &'de str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Borrowed(name)))
            }
            fn visit_str<E: Error>(self, name: &str) -> Result<Key<'de>, E> {
                Ok(Key(Cow::Owned(name.to_owned())))
            }
        }
        deserializer.deserialize_str(Visit)
    }
}

// A value of a body, taken by its type.

/// Why text of a body can be read again without an error.
const CHECKED: &str = "the first pass found it to be JSON";

/// A value at its place.
pub(crate) struct Value<'a, 'c> {
    raw: &'a RawValue,
    path: Path<'c>,
    findings: &'c mut Findings,
}

impl<'a> Value<'a, '_> {
    fn first_byte(&self) -> u8 {
        self.raw.get().as_bytes()[0]
    }

    fn is_number(&self) -> bool {
        matches!(self.first_byte(), b'-' | b'0'..=b'9')
    }

    fn mistyped<T>(&mut self, expected: &str) -> Option<T> {
        self.findings.mistyped(&self.path, expected);
        None
    }

    /// Its place in the list that it is an element of.
    pub(crate) fn place(&self) -> usize {
        match self.path {
            Path::Index(_, index) => index,
            Path::Root | Path::Field(..) => 0,
        }
    }

    pub(crate) fn string(mut self) -> Option<String> {
        if self.first_byte() != b'"' {
            return self.mistyped("a string");
        }
        scanned(self.raw.get().len());
        Some(serde_json::from_str(self.raw.get()).expect(CHECKED))
    }

    pub(crate) fn flag(mut self) -> Option<bool> {
        match self.raw.get() {
            "true" => Some(true),
            "false" => Some(false),
            _ => self.mistyped("true or false"),
        }
    }

    /// A number written as digits alone; more than `max` is a broken rule.
    pub(crate) fn whole(mut self, max: u64) -> Option<u64> {
        let number = self.digits()?.parse().unwrap_or(u64::MAX);
        if number > max {
            self.findings.broken(&self.path, format_args!("must be at most {max}"));
            return None;
        }
        Some(number)
    }

    /// An instant written as digits alone; its range is a rule, checked later.
    pub(crate) fn instant(mut self) -> Option<i64> {
        self.digits().map(|digits| digits.parse().unwrap_or(i64::MAX))
    }

    fn digits(&mut self) -> Option<&'a str> {
        let text = self.raw.get();
        scanned(text.len());
        if !self.is_number() {
            return self.mistyped("a whole number");
        }
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            let rule = "must be a whole number without sign, fraction or exponent";
            self.findings.broken(&self.path, rule);
            return None;
        }
        Some(text)
    }

    pub(crate) fn float(mut self) -> Option<f64> {
        if !self.is_number() {
            return self.mistyped("a number");
        }
        scanned(self.raw.get().len());
        Some(self.raw.get().parse().expect(CHECKED))
    }

    /// An object of the caller's own, kept as it was written.
    pub(crate) fn raw_object(mut self) -> Option<JsonObject> {
        if self.first_byte() != b'{' {
            return self.mistyped("an object");
        }
        scanned(self.raw.get().len());
        Some(JsonObject::from_checked(self.raw))
    }

    pub(crate) fn object<T>(mut self, read: impl FnOnce(&mut Object<'a, '_>) -> T) -> Option<T> {
        if self.first_byte() != b'{' {
            return self.mistyped("an object");
        }
        Some(Object::read(self.raw, self.path, self.findings, read))
    }

    /// A list; every element is read, but no more than one past `kept_max` is kept, which is
    /// enough to see that there are too many.
    pub(crate) fn list<T>(
        mut self,
        kept_max: usize,
        mut read: impl FnMut(Value<'a, '_>) -> Option<T>,
    ) -> Option<Vec<T>> {
        if self.first_byte() != b'[' {
            return self.mistyped("a list");
        }
        let mut kept = Vec::new();
        each_element(self.raw, |index, raw| {
            let path = self.path.index(index);
            let element = read(Value { raw, path, findings: &mut *self.findings });
            if kept.len() <= kept_max {
                kept.extend(element);
            }
        });
        Some(kept)
    }
}

fn each_element<'a>(raw: &'a RawValue, read: impl FnMut(usize, &'a RawValue)) {
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
    scanned(raw.get().len());
    let mut deserializer = serde_json::Deserializer::from_str(raw.get());
    deserializer.deserialize_seq(Visit(read)).expect(CHECKED);
}
