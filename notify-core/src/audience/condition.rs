//! The validated form of an audience.

use super::version::Version;
use super::{Audience, Field, UnknownSegment};
use crate::violations::{Validator, path};
use crate::{AttributeValue, Platform, Timestamp, Violations};

/// The validated form of an [`Audience`]: it satisfies every rule and names no segment.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    pub(super) root: Node,
    pub(super) tags: Vec<String>,
    pub(super) attributes: Vec<String>,
    pub(super) fields: Vec<Field>,
    pub(super) audience: Audience,
}

/// A condition in a form that is quick to evaluate. Tags and attributes are indices into
/// [`Condition::tags`] and [`Condition::attributes`].
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// Every one of these conditions; at least one.
    All(Vec<Node>),
    /// At least one of these conditions; at least one.
    Any(Vec<Node>),
    /// The opposite of the condition.
    Not(Box<Node>),
    /// The device has this tag set to true.
    Tag(usize),
    /// A test of an attribute.
    Attribute {
        /// Index of the attribute.
        attribute: usize,
        /// The test.
        test: AttributeTest,
    },
    /// A test of a field.
    Field(FieldTest),
}

/// A test of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldTest {
    /// A test of the platform.
    Platform(ValueTest<Platform>),
    /// A test of the language. The values have the form in which tags are compared.
    Language(ValueTest<String>),
    /// A test of the country. The values are in lower case.
    Country(ValueTest<String>),
    /// A test of the version of the app.
    AppVersion(VersionTest),
    /// A test of the version of the OS.
    OsVersion(VersionTest),
    /// A test of the offset from UTC in minutes.
    Timezone(TimezoneTest),
    /// A test of the time of the first registration.
    CreatedAt(TimeTest),
    /// A test of the time of the last registration.
    LastActiveAt(TimeTest),
    /// Whether a user is logged in.
    User(bool),
}

/// A test of something that has no order.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueTest<T> {
    /// It has one of these values; at least one. They are sorted.
    OneOf(Vec<T>),
    /// Whether it has a value.
    Exists(bool),
}

/// A test of something that has an order. `B` is the type of a bound.
#[derive(Debug, Clone, PartialEq)]
pub enum RangeTest<T, B = T> {
    /// It has one of these values; at least one. They are sorted.
    OneOf(Vec<T>),
    /// Whether it has a value.
    Exists(bool),
    /// It is this bound or larger.
    AtLeast(B),
    /// It is smaller than this bound.
    Below(B),
}

/// A test of an attribute.
pub type AttributeTest = RangeTest<AttributeValue, Bound>;
/// A test of a version. Its values are compared as texts, and its bounds number by number.
pub type VersionTest = RangeTest<String, Version>;
/// A test of an offset from UTC in minutes.
pub type TimezoneTest = RangeTest<i32>;

/// A bound of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Bound {
    /// A number, with which only numbers are compared.
    Number(f64),
    /// A version, with which only texts that begin with a digit are compared.
    Version(Version),
}

/// A test of an instant that always exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeTest {
    /// Always met if true, never met if false.
    Exists(bool),
    /// It is this instant or a later one.
    AtLeast(Timestamp),
    /// It is earlier than this instant.
    Below(Timestamp),
    /// It lies at most this number of days before the instant of evaluation; 1 to 3,650.
    WithinDays(u32),
}

impl Condition {
    /// The condition to evaluate.
    #[must_use]
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// The names of the tags, without duplicates.
    #[must_use]
    pub fn tags(&self) -> &[String] {
        &self.tags
    }

    /// The names of the attributes, without duplicates.
    #[must_use]
    pub fn attributes(&self) -> &[String] {
        &self.attributes
    }

    /// Whether it tests this field.
    #[must_use]
    pub fn uses(&self, field: Field) -> bool {
        self.fields.contains(&field)
    }

    /// The condition as the caller wrote it, with the conditions of segments in place of their names.
    #[must_use]
    pub fn audience(&self) -> &Audience {
        &self.audience
    }

    /// The condition as JSON, in which form it is stored.
    #[must_use]
    pub fn to_json(&self) -> String {
        self.audience.to_json()
    }

    /// Reads a condition that the server stored. The lengths of texts are not checked: an older version
    /// with larger limits may have accepted it.
    ///
    /// # Errors
    /// Every other violation.
    pub fn parse_stored(json: &str) -> Result<Self, Violations> {
        let audience = Audience::from_json(json)?;
        let mut validator = Validator::default().for_accepted();
        let condition = audience.check(&path("audience"), &mut validator);
        validator.into_result(condition)
    }
}

impl Audience {
    /// Checks every rule. A segment is a violation: [`resolve`](Self::resolve) replaces segments first.
    ///
    /// # Errors
    /// Every violation. Their paths begin with `audience`.
    pub fn validate(&self) -> Result<Condition, Violations> {
        let mut validator = Validator::default();
        let condition = self.check(&path("audience"), &mut validator);
        validator.into_result(condition)
    }

    /// Replaces each segment by its condition, and checks every rule.
    ///
    /// # Errors
    /// Every violation, or the first segment that `lookup` does not know.
    ///
    /// ```
    /// use notify_core::Audience;
    ///
    /// let lookup = |name: &str| (name == "fans").then(|| Audience::tag("fan"));
    /// let condition = Audience::segment("fans").negate().resolve(&lookup)?;
    /// assert_eq!(condition.tags(), ["fan"]);
    ///
    /// let errors = Audience::segment("x").resolve(&lookup).unwrap_err();
    /// assert_eq!(errors.as_slice(), ["audience: there is no segment `x`"]);
    /// # Ok::<(), notify_core::Violations>(())
    /// ```
    pub fn resolve(&self, lookup: &impl Fn(&str) -> Option<Self>) -> Result<Condition, Violations> {
        let unknown = |unknown: UnknownSegment| Violations::one("audience", unknown);
        self.expand(lookup).map_err(unknown)?.validate()
    }
}
