//! The rules of audiences.

use std::borrow::Cow;

use super::condition::{
    AttributeTest, Bound, Condition, FieldTest, Node, RangeTest, TimeTest, ValueTest,
};
use super::json::{too_deep, too_many};
use super::version::Version;
use super::{
    ATTRIBUTE_OPERATORS, Audience, CONDITION_LEVELS_MAX, CONDITION_VALUES_MAX, CONDITIONS_MAX,
    Field, SEGMENT_NAME_CHARS_MAX, Test, WithinDays,
};
use crate::attribute::{ATTRIBUTE_NAME_RULE, check_value, is_attribute_name};
use crate::field::{self, Kind, Text};
use crate::language::comparable_language;
use crate::tag::TagName;
use crate::violations::{Path, Validator};
use crate::{
    AttributeValue, Platform, TIMESTAMP_MS_MAX, Timestamp, UTC_OFFSET_MINUTES_MAX, UnknownName,
};

impl Audience {
    /// Checks every rule. A segment is a violation.
    pub(crate) fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<Condition> {
        let mut checker = Checker::new(false, validator);
        let root = checker.check_root(self, at);
        let Checker { tags, attributes, fields, .. } = checker;
        Some(Condition { root: root?, tags, attributes, fields, audience: self.clone() })
    }

    /// Checks every rule that does not depend on the conditions of segments.
    pub(crate) fn check_unexpanded(&self, at: &Path<'_>, validator: &mut Validator) {
        Checker::new(true, validator).check_root(self, at);
    }
}

/// Checks the conditions of an audience.
struct Checker<'v> {
    validator: &'v mut Validator,
    allows_segments: bool,
    conditions: usize,
    is_too_deep: bool,
    tags: Vec<String>,
    attributes: Vec<String>,
    fields: Vec<Field>,
}

impl<'v> Checker<'v> {
    fn new(allows_segments: bool, validator: &'v mut Validator) -> Self {
        Self {
            validator,
            allows_segments,
            conditions: 0,
            is_too_deep: false,
            tags: Vec::new(),
            attributes: Vec::new(),
            fields: Vec::new(),
        }
    }

    fn check_root(&mut self, audience: &Audience, at: &Path<'_>) -> Option<Node> {
        let node = self.check(audience, at, 1);
        if self.conditions > CONDITIONS_MAX {
            self.validator.violation(at, too_many());
        }
        if self.is_too_deep {
            self.validator.violation(at, too_deep());
        }
        node
    }

    /// Returns `None` for a condition with a violation, and for one that names a segment.
    fn check(&mut self, audience: &Audience, at: &Path<'_>, level: usize) -> Option<Node> {
        self.conditions += 1;
        if self.conditions > CONDITIONS_MAX {
            return None;
        }
        if level > CONDITION_LEVELS_MAX {
            self.is_too_deep = true;
            return None;
        }
        match audience {
            Audience::All(list) => self.check_list(list, &at.field("all"), level).map(Node::All),
            Audience::Any(list) => self.check_list(list, &at.field("any"), level).map(Node::Any),
            Audience::Not(condition) => {
                let node = self.check(condition, &at.field("not"), level + 1)?;
                Some(Node::Not(Box::new(node)))
            }
            Audience::Segment(name) => {
                self.check_segment(name, &at.field("segment"));
                None
            }
            Audience::Tag(name) => {
                field::Field::<TagName>::check(name, &at.field("tag"), self.validator)
                    .map(|name| Node::Tag(index_of(&mut self.tags, &name)))
            }
            Audience::Attribute { name, test } => {
                if !is_attribute_name(name) {
                    self.validator.violation(&at.field("attribute"), ATTRIBUTE_NAME_RULE);
                }
                let test = self.check_attribute(test, at)?;
                Some(Node::Attribute { attribute: index_of(&mut self.attributes, name), test })
            }
            Audience::Field { field, test } => {
                if !self.fields.contains(field) {
                    self.fields.push(*field);
                }
                self.check_field(*field, test, at).map(Node::Field)
            }
        }
    }

    fn check_list(
        &mut self,
        conditions: &[Audience],
        at: &Path<'_>,
        level: usize,
    ) -> Option<Vec<Node>> {
        if conditions.is_empty() {
            self.validator.violation(at, "must hold at least 1 condition");
        }
        let mut nodes = Vec::with_capacity(conditions.len().min(CONDITIONS_MAX));
        for (index, condition) in conditions.iter().enumerate() {
            if self.conditions > CONDITIONS_MAX {
                break;
            }
            nodes.extend(self.check(condition, &at.index(index), level + 1));
        }
        (nodes.len() == conditions.len()).then_some(nodes)
    }

    fn check_segment(&mut self, name: &String, at: &Path<'_>) {
        if self.allows_segments {
            field::Field::<Text<SEGMENT_NAME_CHARS_MAX>>::check(name, at, self.validator);
        } else {
            self.validator.violation(at, "a segment must not name another segment");
        }
    }

    /// Whether the attribute or field takes the operator of the test. If not, reports a violation.
    fn takes(
        &mut self,
        what: &str,
        operators: &[&'static str],
        test: &Test,
        at: &Path<'_>,
    ) -> bool {
        let takes = operators.contains(&test.operator());
        if !takes {
            let rule = takes_only(what, operators);
            self.validator.violation(&at.field(test.operator()), rule);
        }
        takes
    }

    fn check_attribute(&mut self, test: &Test, at: &Path<'_>) -> Option<AttributeTest> {
        if !self.takes("an attribute", ATTRIBUTE_OPERATORS, test, at) {
            return None;
        }
        self.range_test(test, at, |value| Ok(value.clone()), attribute_bound)
    }

    fn check_field(&mut self, field: Field, test: &Test, at: &Path<'_>) -> Option<FieldTest> {
        if !self.takes(field.as_str(), field.operators(), test, at) {
            return None;
        }
        match field {
            Field::Platform => self.value_test(test, at, platform).map(FieldTest::Platform),
            Field::Language => self.value_test(test, at, language).map(FieldTest::Language),
            Field::Country => self.value_test(test, at, country).map(FieldTest::Country),
            Field::AppVersion => {
                self.range_test(test, at, field_text, version).map(FieldTest::AppVersion)
            }
            Field::OsVersion => {
                self.range_test(test, at, field_text, version).map(FieldTest::OsVersion)
            }
            Field::Timezone => self.range_test(test, at, minutes, minutes).map(FieldTest::Timezone),
            Field::CreatedAt => self.time_test(test, at).map(FieldTest::CreatedAt),
            Field::LastActiveAt => self.time_test(test, at).map(FieldTest::LastActiveAt),
            Field::User => match test {
                Test::Exists(exists) => Some(FieldTest::User(*exists)),
                _ => None,
            },
        }
    }

    fn value_test<T: Ord>(
        &mut self,
        test: &Test,
        at: &Path<'_>,
        read: Read<T>,
    ) -> Option<ValueTest<T>> {
        match self.range_test(test, at, read, read)? {
            RangeTest::OneOf(values) => Some(ValueTest::OneOf(values)),
            RangeTest::Exists(exists) => Some(ValueTest::Exists(exists)),
            RangeTest::AtLeast(_) | RangeTest::Below(_) => None,
        }
    }

    fn range_test<T: Ord, B>(
        &mut self,
        test: &Test,
        at: &Path<'_>,
        read: Read<T>,
        read_bound: Read<B>,
    ) -> Option<RangeTest<T, B>> {
        let at = at.field(test.operator());
        match test {
            Test::Is(value) => {
                self.value(value, &at, read).map(|value| RangeTest::OneOf(vec![value]))
            }
            Test::In(values) => {
                let mut values = self.values(values, &at, read)?;
                values.sort_unstable();
                values.dedup();
                Some(RangeTest::OneOf(values))
            }
            Test::Exists(exists) => Some(RangeTest::Exists(*exists)),
            Test::AtLeast(value) => self.value(value, &at, read_bound).map(RangeTest::AtLeast),
            Test::Below(value) => self.value(value, &at, read_bound).map(RangeTest::Below),
            Test::WithinDays(_) => None,
        }
    }

    fn time_test(&mut self, test: &Test, at: &Path<'_>) -> Option<TimeTest> {
        let at = at.field(test.operator());
        match test {
            Test::Exists(exists) => Some(TimeTest::Exists(*exists)),
            Test::AtLeast(value) => self.value(value, &at, instant).map(TimeTest::AtLeast),
            Test::Below(value) => self.value(value, &at, instant).map(TimeTest::Below),
            Test::WithinDays(days) => {
                WithinDays::check(days, &at, self.validator).map(TimeTest::WithinDays)
            }
            Test::Is(_) | Test::In(_) => None,
        }
    }

    fn values<T>(
        &mut self,
        values: &[AttributeValue],
        at: &Path<'_>,
        read: Read<T>,
    ) -> Option<Vec<T>> {
        if values.is_empty() {
            self.validator.violation(at, "must hold at least 1 value");
        }
        self.validator.max_len(at, values.len(), CONDITION_VALUES_MAX, "values");
        let values = values.iter().take(CONDITION_VALUES_MAX).enumerate();
        // All values are checked, even after a violation.
        let read: Vec<Option<T>> =
            values.map(|(index, value)| self.value(value, &at.index(index), read)).collect();
        read.into_iter().collect()
    }

    fn value<T>(&mut self, value: &AttributeValue, at: &Path<'_>, read: Read<T>) -> Option<T> {
        check_value(at, value, self.validator);
        read(value).map_err(|rule| self.validator.violation(at, rule)).ok()
    }
}

/// The position of a name in a list, to which it is added if it is not there.
fn index_of(names: &mut Vec<String>, name: &str) -> usize {
    names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    })
}

/// The violation for an operator that `what` does not take.
fn takes_only(what: &str, operators: &[&str]) -> String {
    format!("{what} takes only {}", operators.join(", "))
}

/// Converts a value to the type of a field. Returns the violated rule of a wrong value.
type Read<T> = fn(&AttributeValue) -> Result<T, Cow<'static, str>>;

/// A text of a field, which is never empty.
fn field_text(value: &AttributeValue) -> Result<String, Cow<'static, str>> {
    match value {
        AttributeValue::Text(text) if text.is_empty() => Err("must not be empty".into()),
        AttributeValue::Text(text) => Ok(text.clone()),
        AttributeValue::Bool(_) | AttributeValue::Number(_) => Err("expected a string".into()),
    }
}

fn platform(value: &AttributeValue) -> Result<Platform, Cow<'static, str>> {
    let name = field_text(value)?;
    name.parse().map_err(|unknown: UnknownName| unknown.to_string().into())
}

fn language(value: &AttributeValue) -> Result<String, Cow<'static, str>> {
    field_text(value).map(|text| comparable_language(&text))
}

fn country(value: &AttributeValue) -> Result<String, Cow<'static, str>> {
    field_text(value).map(|text| text.to_ascii_lowercase())
}

fn version(value: &AttributeValue) -> Result<Version, Cow<'static, str>> {
    let text = field_text(value)?;
    Version::parse(&text).ok_or_else(|| "must begin with a digit".into())
}

fn attribute_bound(value: &AttributeValue) -> Result<Bound, Cow<'static, str>> {
    const RULE: &str = "must be a number, or a version that begins with a digit";
    match value {
        AttributeValue::Number(number) => Ok(Bound::Number(*number)),
        AttributeValue::Text(text) => Version::parse(text).map(Bound::Version).ok_or(RULE.into()),
        AttributeValue::Bool(_) => Err(RULE.into()),
    }
}

/// A whole number within bounds.
fn whole(value: &AttributeValue, min: i64, max: i64) -> Result<Option<i64>, Cow<'static, str>> {
    let AttributeValue::Number(number) = value else { return Err("expected a number".into()) };
    #[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
    let whole = *number as i64;
    let is_within = number.fract() == 0.0 && (min..=max).contains(&whole);
    Ok(is_within.then_some(whole))
}

fn minutes(value: &AttributeValue) -> Result<i32, Cow<'static, str>> {
    let max = i64::from(UTC_OFFSET_MINUTES_MAX);
    let minutes = whole(value, -max, max)?.and_then(|minutes| i32::try_from(minutes).ok());
    minutes.ok_or("must be a whole number of minutes within ±840".into())
}

fn instant(value: &AttributeValue) -> Result<Timestamp, Cow<'static, str>> {
    let ms = whole(value, 0, TIMESTAMP_MS_MAX)?;
    ms.map(Timestamp).ok_or("must be unix milliseconds within the years 1970 to 9999".into())
}
