//! Audiences: the condition that every device of a notification or a segment must meet, as a caller
//! writes it. [`Condition`] is its validated form.

mod builders;
mod check;
mod condition;
mod evaluation;
mod expression;
mod json;
#[cfg(feature = "openapi")]
mod openapi;
mod version;

pub use self::builders::{
    AttributeCondition, PlatformCondition, TextCondition, TimeCondition, TimezoneCondition,
    VersionCondition,
};
pub use self::condition::{
    AttributeTest, Bound, Condition, FieldTest, Node, RangeTest, TimeTest, TimezoneTest, ValueTest,
    VersionTest,
};
pub use self::evaluation::Subject;
pub use self::expression::{EXPRESSION_CHARS_MAX, ExpressionError};
pub use self::version::Version;
use crate::field::Integer;
use crate::violations::Quoted;
use crate::wire_enum::wire_enum;
use crate::{AttributeValue, TAG_NAME_CHARS_MAX};

/// Most conditions in an audience, its segments included. `all`, `any` and `not` count too.
pub const CONDITIONS_MAX: usize = 64;
/// Most levels of conditions in an audience, its segments included. A single condition is one level.
pub const CONDITION_LEVELS_MAX: usize = 8;
/// Most values of `in`.
pub const CONDITION_VALUES_MAX: usize = 100;
/// Most days of `within_days`: ten years.
pub const WITHIN_DAYS_MAX: u32 = 3_650;
/// The value of `within_days`.
type WithinDays = Integer<1, WITHIN_DAYS_MAX>;
/// Longest name of a segment, in characters.
pub const SEGMENT_NAME_CHARS_MAX: usize = TAG_NAME_CHARS_MAX;

/// A condition as a caller writes it. It can be invalid, and it can name segments.
///
/// ```
/// use notify_core::{Audience, Platform};
///
/// let audience = Audience::platform()
///     .is(Platform::Ios)
///     .and(Audience::tag("vip").or(Audience::app_version().at_least("3.10")))
///     .and(Audience::last_active_at().within_days(30));
/// assert_eq!(
///     audience.to_string(),
///     "platform = ios and (tag = vip or app_version >= 3.10) and last_active_at within 30 days"
/// );
/// assert!(audience.validate().is_ok());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Audience {
    /// Every one of these conditions; at least one.
    All(Vec<Audience>),
    /// At least one of these conditions; at least one.
    Any(Vec<Audience>),
    /// The opposite of the condition.
    Not(Box<Audience>),
    /// The condition of the segment with this name.
    Segment(String),
    /// The device has this tag set to true.
    Tag(String),
    /// A test of an attribute of the device, or else of its user.
    Attribute {
        /// Name of the attribute.
        name: String,
        /// The test.
        test: Test,
    },
    /// A test of a field of the device.
    Field {
        /// The field.
        field: Field,
        /// The test.
        test: Test,
    },
}

/// A test of an attribute or a field. Something that is absent meets only `exists: false`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Test {
    /// It has this value.
    Is(AttributeValue),
    /// It has one of these values; 1 to 100.
    In(Vec<AttributeValue>),
    /// Whether it has a value.
    Exists(bool),
    /// It is this value or a larger one.
    AtLeast(AttributeValue),
    /// It is smaller than this value.
    Below(AttributeValue),
    /// It is an instant that lies at most this number of days back; 1 to 3,650.
    WithinDays(u32),
}

/// The names of all operators, in the order in which they are documented.
pub(crate) const OPERATORS: [&str; 6] = ["is", "in", "exists", "at_least", "below", "within_days"];
/// The operators of attributes.
const ATTRIBUTE_OPERATORS: &[&str] = &["is", "in", "exists", "at_least", "below"];

impl Test {
    /// The name of the operator in JSON.
    #[must_use]
    pub const fn operator(&self) -> &'static str {
        match self {
            Self::Is(_) => "is",
            Self::In(_) => "in",
            Self::Exists(_) => "exists",
            Self::AtLeast(_) => "at_least",
            Self::Below(_) => "below",
            Self::WithinDays(_) => "within_days",
        }
    }
}

wire_enum! {
    /// A field of a device that a condition can test.
    pub enum Field {
        /// Platform.
        Platform = "platform",
        /// Language code. `de` is also met by `de-AT`.
        Language = "language",
        /// Country code.
        Country = "country",
        /// Version of the app.
        AppVersion = "app_version",
        /// Version of the OS.
        OsVersion = "os_version",
        /// Offset from UTC in minutes.
        Timezone = "timezone",
        /// Time of the first registration.
        CreatedAt = "created_at",
        /// Time of the last registration, to about an hour.
        LastActiveAt = "last_active_at",
        /// The user who is logged in.
        User = "user",
    }
}

impl Field {
    /// The names of the operators that the field takes.
    #[must_use]
    pub const fn operators(self) -> &'static [&'static str] {
        match self {
            Self::Platform | Self::Language | Self::Country => &["is", "in", "exists"],
            Self::AppVersion | Self::OsVersion | Self::Timezone => {
                &["is", "in", "exists", "at_least", "below"]
            }
            Self::CreatedAt | Self::LastActiveAt => &["exists", "at_least", "below", "within_days"],
            Self::User => &["exists"],
        }
    }
}

/// A name of a segment that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no segment `{}`", Quoted(.0))]
pub struct UnknownSegment(pub String);

impl Audience {
    /// The conditions directly below this one.
    fn children(&self) -> &[Self] {
        match self {
            Self::All(conditions) | Self::Any(conditions) => conditions,
            Self::Not(condition) => std::slice::from_ref(condition),
            Self::Segment(_) | Self::Tag(_) | Self::Attribute { .. } | Self::Field { .. } => &[],
        }
    }

    /// The names of the segments, without duplicates, in the order in which they are written.
    ///
    /// ```
    /// use notify_core::Audience;
    ///
    /// let audience = Audience::segment("fans").and(Audience::segment("new").negate());
    /// assert_eq!(audience.segments(), ["fans", "new"]);
    /// ```
    #[must_use]
    pub fn segments(&self) -> Vec<&str> {
        fn add<'a>(audience: &'a Audience, names: &mut Vec<&'a str>) {
            if let Audience::Segment(name) = audience
                && !names.contains(&name.as_str())
            {
                names.push(name);
            }
            audience.children().iter().for_each(|child| add(child, names));
        }
        let mut names = Vec::new();
        add(self, &mut names);
        names
    }

    /// Replaces each segment by its condition.
    ///
    /// # Errors
    /// The first segment that `lookup` does not know.
    ///
    /// ```
    /// use notify_core::{Audience, UnknownSegment};
    ///
    /// let lookup = |name: &str| (name == "fans").then(|| Audience::tag("fan"));
    /// let expanded = Audience::segment("fans").negate().expand(&lookup);
    /// assert_eq!(expanded, Ok(Audience::tag("fan").negate()));
    /// assert_eq!(Audience::segment("x").expand(&lookup), Err(UnknownSegment("x".into())));
    /// ```
    pub fn expand(&self, lookup: &impl Fn(&str) -> Option<Self>) -> Result<Self, UnknownSegment> {
        let expand_each = |conditions: &[Self]| -> Result<Vec<Self>, UnknownSegment> {
            conditions.iter().map(|condition| condition.expand(lookup)).collect()
        };
        Ok(match self {
            Self::All(conditions) => Self::All(expand_each(conditions)?),
            Self::Any(conditions) => Self::Any(expand_each(conditions)?),
            Self::Not(condition) => Self::Not(Box::new(condition.expand(lookup)?)),
            Self::Segment(name) => lookup(name).ok_or_else(|| UnknownSegment(name.clone()))?,
            Self::Tag(_) | Self::Attribute { .. } | Self::Field { .. } => self.clone(),
        })
    }
}
