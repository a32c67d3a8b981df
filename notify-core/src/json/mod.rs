//! Strict JSON: refuses what RFC 8259 leaves to the implementation, and names the path of what is
//! refused.
//!
//! A body is read twice: [`check()`] scans all of it and builds nothing; then the typed reader takes
//! the fields it knows by name. Both passes are linear in the size of the body, whatever it holds.

#[cfg(test)]
mod byte_counter;
mod object;
mod read;
mod scan;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use serde_json::value::RawValue;

pub use self::object::JsonObject;
pub(crate) use self::read::{Body, FromValue, Object, read_body, read_with};
pub use self::scan::{MEMBERS_MAX, NESTING_MAX, check};
use crate::violations::{Path, Validator};

/// Counts the bytes that reading looks at, in tests.
#[cfg(test)]
fn count_bytes(bytes: usize) {
    byte_counter::add(bytes);
}

#[cfg(not(test))]
fn count_bytes(_bytes: usize) {}

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

/// Why reading text of a body cannot fail after the first pass.
const CHECKED: &str = "the first pass accepts valid JSON only";

/// A value of a body, and its path.
pub(crate) struct Value<'a, 'c> {
    raw: &'a RawValue,
    path: Path<'c>,
    validator: &'c mut Validator,
}

impl<'a> Value<'a, '_> {
    fn first_byte(&self) -> u8 {
        self.raw.get().as_bytes()[0]
    }

    fn is_number(&self) -> bool {
        matches!(self.first_byte(), b'-' | b'0'..=b'9')
    }

    fn wrong_type<T>(&mut self, expected: &str) -> Option<T> {
        self.validator.wrong_type(&self.path, expected);
        None
    }

    /// Its index in the list that it is an element of; 0 outside of lists.
    pub(crate) fn index(&self) -> usize {
        match self.path {
            Path::Index(_, index) => index,
            Path::Root | Path::Field(..) => 0,
        }
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

    /// A number that is written with digits only; one above `max` violates a rule.
    pub(crate) fn u32(mut self, max: u32) -> Option<u32> {
        let number = self.digits()?.parse().ok().filter(|number| *number <= max);
        if number.is_none() {
            self.validator.violation(&self.path, format_args!("must be at most {max}"));
        }
        number
    }

    /// Unix milliseconds that are written with digits only. The rules check the range.
    pub(crate) fn instant(mut self) -> Option<i64> {
        self.digits().map(|digits| digits.parse().unwrap_or(i64::MAX))
    }

    fn digits(&mut self) -> Option<&'a str> {
        let text = self.raw.get();
        count_bytes(text.len());
        if !self.is_number() {
            return self.wrong_type("a whole number");
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

    /// An object of any content, kept as it was written.
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

    /// A list. Every element is read, but at most `max + 1` are kept: enough for the rules to see that
    /// there are too many.
    pub(crate) fn list<T>(
        mut self,
        max: usize,
        mut read: impl FnMut(Value<'a, '_>) -> Option<T>,
    ) -> Option<Vec<T>> {
        if self.first_byte() != b'[' {
            return self.wrong_type("a list");
        }
        let mut kept = Vec::new();
        each_element(self.raw, |index, raw| {
            let path = self.path.index(index);
            let element = read(Value { raw, path, validator: &mut *self.validator });
            if kept.len() <= max {
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
    count_bytes(raw.get().len());
    let mut deserializer = serde_json::Deserializer::from_str(raw.get());
    deserializer.deserialize_seq(Visit(read)).expect(CHECKED);
}
