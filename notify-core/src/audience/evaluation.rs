//! Whether a device meets a condition.

use std::cmp::Ordering;

use super::condition::{
    AttributeTest, Bound, Condition, FieldTest, Node, RangeTest, TimeTest, TimezoneTest, ValueTest,
    VersionTest,
};
use super::{Audience, Version};
use crate::language::ReaderLanguage;
use crate::time::DAY_MS;
use crate::{AttributeValue, Platform, Timestamp};

/// The facts about a device on which conditions depend.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Platform.
    pub platform: Platform,
    /// Language code.
    pub language: Option<&'a str>,
    /// Country code.
    pub country: Option<&'a str>,
    /// Version of the app.
    pub app_version: Option<&'a str>,
    /// Version of the OS.
    pub os_version: Option<&'a str>,
    /// Offset from UTC in minutes.
    pub timezone: Option<i32>,
    /// Time of the first registration.
    pub created_at: Timestamp,
    /// Time of the last registration.
    pub last_active_at: Timestamp,
    /// Whether a user is logged in.
    pub has_user: bool,
    /// Whether the device has each tag of [`Condition::tags`] set to true.
    pub tags: &'a [bool],
    /// The value of each attribute of [`Condition::attributes`]: the device's own, or else its user's.
    pub attributes: &'a [Option<AttributeValue>],
}

impl Condition {
    /// Whether a device meets the condition at an instant.
    #[must_use]
    pub fn matches(&self, subject: &Subject<'_>, now: Timestamp) -> bool {
        self.root().matches(subject, now)
    }

    /// The first condition that a device does not meet, as an expression; `None` if it meets the whole
    /// condition. Of `all`, it is the first one in the list that is not met.
    #[must_use]
    pub fn first_unmet(&self, subject: &Subject<'_>, now: Timestamp) -> Option<String> {
        if self.matches(subject, now) {
            return None;
        }
        // The nodes and the conditions that the caller wrote have the same structure.
        let (mut node, mut written) = (self.root(), self.audience());
        while let (Node::All(nodes), Audience::All(conditions)) = (node, written) {
            let mut pairs = nodes.iter().zip(conditions);
            let Some(unmet) = pairs.find(|(node, _)| !node.matches(subject, now)) else { break };
            (node, written) = unmet;
        }
        Some(written.to_string())
    }
}

impl Node {
    /// Whether a device meets the condition at an instant.
    #[must_use]
    pub fn matches(&self, subject: &Subject<'_>, now: Timestamp) -> bool {
        match self {
            Self::All(nodes) => nodes.iter().all(|node| node.matches(subject, now)),
            Self::Any(nodes) => nodes.iter().any(|node| node.matches(subject, now)),
            Self::Not(node) => !node.matches(subject, now),
            Self::Tag(tag) => subject.tags.get(*tag).copied().unwrap_or(false),
            Self::Attribute { attribute, test } => {
                test.matches(subject.attributes.get(*attribute).and_then(Option::as_ref))
            }
            Self::Field(test) => test.matches(subject, now),
        }
    }
}

impl FieldTest {
    /// Whether a device meets the test at an instant.
    #[must_use]
    pub fn matches(&self, subject: &Subject<'_>, now: Timestamp) -> bool {
        match self {
            Self::Platform(test) => {
                test.matches(Some(subject.platform), |one, values| values.contains(&one))
            }
            Self::Language(test) => test.matches(subject.language, |language, values| {
                let reader = ReaderLanguage::read(language);
                reader
                    .ranges()
                    .any(|range| values.binary_search_by(|value| value.as_str().cmp(range)).is_ok())
            }),
            Self::Country(test) => test.matches(subject.country, |country, values| {
                let bytes = || country.bytes().map(|byte| byte.to_ascii_lowercase());
                values.binary_search_by(|value| value.bytes().cmp(bytes())).is_ok()
            }),
            Self::AppVersion(test) => test.matches(subject.app_version),
            Self::OsVersion(test) => test.matches(subject.os_version),
            Self::Timezone(test) => test.matches(subject.timezone),
            Self::CreatedAt(test) => test.matches(subject.created_at, now),
            Self::LastActiveAt(test) => test.matches(subject.last_active_at, now),
            Self::User(exists) => subject.has_user == *exists,
        }
    }
}

impl<T> ValueTest<T> {
    /// Whether the value meets the test. `is_one_of` looks it up among the sorted values of the test.
    fn matches<V: Copy>(&self, value: Option<V>, is_one_of: impl Fn(V, &[T]) -> bool) -> bool {
        match (self, value) {
            (Self::OneOf(values), Some(value)) => is_one_of(value, values),
            (Self::OneOf(_), None) => false,
            (Self::Exists(exists), value) => value.is_some() == *exists,
        }
    }
}

impl<T, B> RangeTest<T, B> {
    /// Whether the value meets the test. `is_one_of` looks it up among the sorted values of the test.
    /// `compare` compares it with a bound; it returns `None` for a value that is in no range.
    fn matches_with<V: Copy>(
        &self,
        value: Option<V>,
        is_one_of: impl Fn(V, &[T]) -> bool,
        compare: impl Fn(V, &B) -> Option<Ordering>,
    ) -> bool {
        match (self, value) {
            (Self::Exists(exists), value) => value.is_some() == *exists,
            (_, None) => false,
            (Self::OneOf(values), Some(value)) => is_one_of(value, values),
            (Self::AtLeast(bound), Some(value)) => {
                compare(value, bound).is_some_and(Ordering::is_ge)
            }
            (Self::Below(bound), Some(value)) => compare(value, bound).is_some_and(Ordering::is_lt),
        }
    }
}

impl AttributeTest {
    /// Whether a value meets the test; `None` is an attribute that is absent.
    #[must_use]
    pub fn matches(&self, value: Option<&AttributeValue>) -> bool {
        self.matches_with(
            value,
            |value, values| values.binary_search(value).is_ok(),
            |value, bound| match (value, bound) {
                (AttributeValue::Number(number), Bound::Number(bound)) => number.partial_cmp(bound),
                (AttributeValue::Text(text), Bound::Version(bound)) => bound.compare(text),
                (AttributeValue::Bool(_), _)
                | (AttributeValue::Number(_), Bound::Version(_))
                | (AttributeValue::Text(_), Bound::Number(_)) => None,
            },
        )
    }
}

impl VersionTest {
    /// Whether a version meets the test; `None` is a version that is absent.
    #[must_use]
    pub fn matches(&self, version: Option<&str>) -> bool {
        let compare = |version: &str, bound: &Version| bound.compare(version);
        let is_one_of = |version: &str, values: &[String]| {
            values.binary_search_by(|value| value.as_str().cmp(version)).is_ok()
        };
        self.matches_with(version, is_one_of, compare)
    }
}

impl TimezoneTest {
    /// Whether an offset from UTC in minutes meets the test; `None` is one that is absent.
    #[must_use]
    pub fn matches(&self, minutes: Option<i32>) -> bool {
        self.matches_with(
            minutes,
            |minutes, values| values.binary_search(&minutes).is_ok(),
            |minutes, bound| Some(minutes.cmp(bound)),
        )
    }
}

impl TimeTest {
    /// Whether an instant meets the test, which is evaluated at the instant `now`.
    #[must_use]
    pub fn matches(self, at: Timestamp, now: Timestamp) -> bool {
        match self {
            Self::Exists(exists) => exists,
            Self::AtLeast(bound) => at >= bound,
            Self::Below(bound) => at < bound,
            Self::WithinDays(days) => at >= days_before(now, days),
        }
    }
    /// The earliest instant that meets the test, which is evaluated at the instant `now`; `None` if there is
    /// none.
    #[must_use]
    pub fn at_least(self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::AtLeast(bound) => Some(bound),
            Self::WithinDays(days) => Some(days_before(now, days)),
            Self::Exists(_) | Self::Below(_) => None,
        }
    }
}

fn days_before(now: Timestamp, days: u32) -> Timestamp {
    now.plus_ms(-i64::from(days) * DAY_MS)
}
