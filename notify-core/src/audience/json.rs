//! Audiences in JSON: one object for each condition, with exactly one form and exactly one operator.

use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::{
    ATTRIBUTE_OPERATORS, Audience, CONDITION_LEVELS_MAX, CONDITION_VALUES_MAX, CONDITIONS_MAX,
    Field, OPERATORS, Test, WithinDays,
};
use crate::field::{Flag, Kind, Text};
use crate::json::{BodyPresence, Object, Value};
use crate::request::from_json;
use crate::{AttributeValue, UnknownName, Violations};

/// The forms of a condition, in the order in which they are documented.
const FORMS: [&str; 7] = ["all", "any", "not", "segment", "tag", "attribute", "field"];

pub(super) fn too_many() -> String {
    format!("must hold at most {CONDITIONS_MAX} conditions")
}

pub(super) fn too_deep() -> String {
    format!("must nest at most {CONDITION_LEVELS_MAX} levels")
}

impl Audience {
    /// Reads a condition from JSON as strictly as from a request.
    ///
    /// # Errors
    /// Every violation of its shape.
    ///
    /// ```
    /// use notify_core::Audience;
    ///
    /// let audience = Audience::from_json(r#"{"all": [{"tag": "vip"}, {"field": "user", "exists": true}]}"#)?;
    /// assert_eq!(audience, Audience::tag("vip").and(Audience::has_user(true)));
    ///
    /// let errors = Audience::from_json(r#"{"not": {}}"#).unwrap_err();
    /// let expected = "not: must have exactly one of all, any, not, segment, tag, attribute, field";
    /// assert_eq!(errors.as_slice(), [expected]);
    /// # Ok::<(), notify_core::Violations>(())
    /// ```
    pub fn from_json(text: &str) -> Result<Self, Violations> {
        let read = |object: &mut Object<'_, '_>| Reader::read_root(object);
        let audience = from_json(text.as_bytes(), BodyPresence::Required, read)?;
        Ok(audience.expect("a condition that could not be read has a violation"))
    }

    /// The condition as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a condition has only keys that are texts")
    }
}

impl Audience {
    /// Reads a condition.
    pub(crate) fn read(value: Value<'_, '_>) -> Option<Self> {
        value.object(Reader::read_root)?
    }
}

/// Reads the conditions of an audience. It stops at the bounds, so that it needs little memory and stack
/// for any body.
struct Reader {
    conditions: usize,
    is_too_deep: bool,
}

impl Reader {
    fn read_root(object: &mut Object<'_, '_>) -> Option<Audience> {
        let mut reader = Self { conditions: 0, is_too_deep: false };
        let audience = reader.read(object, 1);
        if reader.conditions > CONDITIONS_MAX {
            object.unreadable(&[], too_many());
        }
        if reader.is_too_deep {
            object.unreadable(&[], too_deep());
        }
        audience
    }

    fn read_value(&mut self, value: Value<'_, '_>, level: usize) -> Option<Audience> {
        value.object(|object| self.read(object, level))?
    }

    fn read(&mut self, object: &mut Object<'_, '_>, level: usize) -> Option<Audience> {
        self.conditions += 1;
        self.is_too_deep |= level > CONDITION_LEVELS_MAX;
        if self.is_too_deep || self.conditions > CONDITIONS_MAX {
            object.ignore_rest();
            return None;
        }
        let Some(form) = only_one(object, &FORMS) else {
            let known: Vec<&'static str> = FORMS.into_iter().chain(OPERATORS).collect();
            object.unreadable(&known, must_have_one(&FORMS));
            return None;
        };
        match form {
            "all" => self.read_list(object, "all", level).map(Audience::All),
            "any" => self.read_list(object, "any", level).map(Audience::Any),
            "not" => {
                let condition = object.take_given("not", |value| self.read_value(value, level + 1));
                condition.map(|condition| Audience::Not(Box::new(condition)))
            }
            "segment" => object.take_given("segment", <Text>::read).map(Audience::Segment),
            "tag" => object.take_given("tag", <Text>::read).map(Audience::Tag),
            "attribute" => {
                let name = object.take_given("attribute", <Text>::read);
                let test = read_test(object, ATTRIBUTE_OPERATORS);
                Some(Audience::Attribute { name: name?, test: test? })
            }
            _ => {
                let field = object.take_given("field", <Text>::read);
                let field: Option<Field> = field.and_then(|name| {
                    let report = |unknown: UnknownName| object.unreadable_field("field", unknown);
                    name.parse().map_err(report).ok()
                });
                let operators = field.map_or(&OPERATORS[..], Field::operators);
                let test = read_test(object, operators);
                Some(Audience::Field { field: field?, test: test? })
            }
        }
    }

    fn read_list(
        &mut self,
        object: &mut Object<'_, '_>,
        name: &'static str,
        level: usize,
    ) -> Option<Vec<Audience>> {
        object.take_given(name, |value| {
            value.list(CONDITIONS_MAX, |element| self.read_value(element, level + 1))
        })
    }
}

/// Reads the operator of a condition. `operators` are those that the attribute or field takes; other
/// operators are reported when the rules are checked.
fn read_test(object: &mut Object<'_, '_>, operators: &[&'static str]) -> Option<Test> {
    let Some(operator) = only_one(object, &OPERATORS) else {
        object.unreadable(&OPERATORS, must_have_one(operators));
        return None;
    };
    let value = AttributeValue::read;
    match operator {
        "is" => object.take_given("is", value).map(Test::Is),
        "in" => {
            object.take_given("in", |list| list.list(CONDITION_VALUES_MAX, value)).map(Test::In)
        }
        "exists" => object.take_given("exists", Flag::read).map(Test::Exists),
        "at_least" => object.take_given("at_least", value).map(Test::AtLeast),
        "below" => object.take_given("below", value).map(Test::Below),
        _ => object.take_given("within_days", WithinDays::read).map(Test::WithinDays),
    }
}

/// The name that the object has, if it has exactly one of them.
fn only_one(object: &Object<'_, '_>, names: &[&'static str]) -> Option<&'static str> {
    let mut given = names.iter().filter(|name| object.is_given(name));
    given.next().copied().filter(|_| given.next().is_none())
}

fn must_have_one(names: &[&str]) -> String {
    match names {
        [only] => format!("must have {only}"),
        names => format!("must have exactly one of {}", names.join(", ")),
    }
}

impl Serialize for Audience {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        match self {
            Self::All(conditions) => object.serialize_entry("all", conditions)?,
            Self::Any(conditions) => object.serialize_entry("any", conditions)?,
            Self::Not(condition) => object.serialize_entry("not", condition)?,
            Self::Segment(name) => object.serialize_entry("segment", name)?,
            Self::Tag(name) => object.serialize_entry("tag", name)?,
            Self::Attribute { name, test } => {
                object.serialize_entry("attribute", name)?;
                serialize_test(test, &mut object)?;
            }
            Self::Field { field, test } => {
                object.serialize_entry("field", field)?;
                serialize_test(test, &mut object)?;
            }
        }
        object.end()
    }
}

fn serialize_test<M: SerializeMap>(test: &Test, object: &mut M) -> Result<(), M::Error> {
    let operator = test.operator();
    match test {
        Test::Is(value) | Test::AtLeast(value) | Test::Below(value) => {
            object.serialize_entry(operator, value)
        }
        Test::In(values) => object.serialize_entry(operator, values),
        Test::Exists(exists) => object.serialize_entry(operator, exists),
        Test::WithinDays(days) => object.serialize_entry(operator, days),
    }
}

impl<'de> Deserialize<'de> for Audience {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::from_json(raw.get()).map_err(D::Error::custom)
    }
}
