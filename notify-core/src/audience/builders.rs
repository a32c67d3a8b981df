//! Builders of audiences. A condition gets its operator last, so that it always has exactly one, and no builder
//! makes an empty list.

use super::{Audience, Field, Test};
use crate::{AttributeValue, Platform, Timestamp};

impl Audience {
    /// Devices that have this tag set to true.
    #[must_use]
    pub fn tag(name: impl Into<String>) -> Self {
        Self::Tag(name.into())
    }

    /// Devices that meet the condition of this segment.
    #[must_use]
    pub fn segment(name: impl Into<String>) -> Self {
        Self::Segment(name.into())
    }

    /// A condition on an attribute.
    ///
    /// ```
    /// use notify_core::Audience;
    ///
    /// let paying = Audience::attribute("plan").is_in("pro", ["team"]);
    /// let small = Audience::attribute("seats").below(10);
    /// assert_eq!(paying.and(small).to_string(), "plan in (pro, team) and seats < 10");
    /// ```
    pub fn attribute(name: impl Into<String>) -> AttributeCondition {
        AttributeCondition { name: name.into() }
    }

    /// A condition on the platform.
    pub fn platform() -> PlatformCondition {
        PlatformCondition(())
    }

    /// A condition on the language. The case is ignored, and `de` is also met by `de-AT`.
    pub fn language() -> TextCondition {
        TextCondition(Field::Language)
    }

    /// A condition on the country. The case is ignored.
    pub fn country() -> TextCondition {
        TextCondition(Field::Country)
    }

    /// A condition on the version of the app.
    pub fn app_version() -> VersionCondition {
        VersionCondition(Field::AppVersion)
    }

    /// A condition on the version of the OS.
    pub fn os_version() -> VersionCondition {
        VersionCondition(Field::OsVersion)
    }

    /// A condition on the offset from UTC in minutes.
    ///
    /// ```
    /// use notify_core::Audience;
    ///
    /// let europe = Audience::timezone().at_least(0).and(Audience::timezone().below(180));
    /// assert!(europe.validate().is_ok());
    /// ```
    pub fn timezone() -> TimezoneCondition {
        TimezoneCondition(())
    }

    /// A condition on the time of the first registration.
    pub fn created_at() -> TimeCondition {
        TimeCondition(Field::CreatedAt)
    }

    /// A condition on the time of the last registration, which is known to about an hour.
    pub fn last_active_at() -> TimeCondition {
        TimeCondition(Field::LastActiveAt)
    }

    /// Devices on which a user is logged in if `has_user` is true, otherwise those without a user.
    #[must_use]
    pub fn has_user(has_user: bool) -> Self {
        Self::Field { field: Field::User, test: Test::Exists(has_user) }
    }

    /// Devices that meet both conditions.
    ///
    /// ```
    /// use notify_core::Audience;
    ///
    /// let all = Audience::tag("a").and(Audience::tag("b")).and(Audience::tag("c"));
    /// assert_eq!(all, Audience::All(["a", "b", "c"].map(Audience::tag).into()));
    /// ```
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let mut conditions = match self {
            Self::All(conditions) => conditions,
            other => vec![other],
        };
        match other {
            Self::All(others) => conditions.extend(others),
            other => conditions.push(other),
        }
        Self::All(conditions)
    }

    /// Devices that meet at least one of the two conditions.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let mut conditions = match self {
            Self::Any(conditions) => conditions,
            other => vec![other],
        };
        match other {
            Self::Any(others) => conditions.extend(others),
            other => conditions.push(other),
        }
        Self::Any(conditions)
    }

    /// Devices that do not meet the condition.
    #[must_use]
    pub fn negate(self) -> Self {
        Self::Not(Box::new(self))
    }
}

/// A condition on an attribute, without its test.
#[derive(Debug, Clone)]
#[must_use]
pub struct AttributeCondition {
    name: String,
}

impl AttributeCondition {
    fn test(self, test: Test) -> Audience {
        Audience::Attribute { name: self.name, test }
    }

    /// It has this value, of this type.
    #[must_use]
    pub fn is(self, value: impl Into<AttributeValue>) -> Audience {
        self.test(Test::Is(value.into()))
    }

    /// It has one of these values.
    #[must_use]
    pub fn is_in<V: Into<AttributeValue>>(
        self,
        first: V,
        rest: impl IntoIterator<Item = V>,
    ) -> Audience {
        self.test(Test::In(values(first, rest)))
    }

    /// Whether it has a value.
    #[must_use]
    pub fn exists(self, exists: bool) -> Audience {
        self.test(Test::Exists(exists))
    }

    /// It is this number or a larger one. A text that begins with a digit is compared as a version.
    #[must_use]
    pub fn at_least(self, value: impl Into<AttributeValue>) -> Audience {
        self.test(Test::AtLeast(value.into()))
    }

    /// It is smaller than this number. A text that begins with a digit is compared as a version.
    #[must_use]
    pub fn below(self, value: impl Into<AttributeValue>) -> Audience {
        self.test(Test::Below(value.into()))
    }
}

fn values<V: Into<AttributeValue>>(
    first: V,
    rest: impl IntoIterator<Item = V>,
) -> Vec<AttributeValue> {
    std::iter::once(first).chain(rest).map(Into::into).collect()
}

/// A condition on the platform, without its test.
#[derive(Debug, Clone)]
#[must_use]
pub struct PlatformCondition(());

impl PlatformCondition {
    /// It is this platform.
    #[must_use]
    pub fn is(self, platform: Platform) -> Audience {
        Audience::Field { field: Field::Platform, test: Test::Is(platform.as_str().into()) }
    }

    /// It is one of these platforms.
    #[must_use]
    pub fn is_in(self, first: Platform, rest: impl IntoIterator<Item = Platform>) -> Audience {
        let rest = rest.into_iter().map(Platform::as_str);
        Audience::Field { field: Field::Platform, test: Test::In(values(first.as_str(), rest)) }
    }
}

/// A condition on the language or the country, without its test.
#[derive(Debug, Clone)]
#[must_use]
pub struct TextCondition(Field);

impl TextCondition {
    /// It is this language or country.
    #[must_use]
    pub fn is(self, text: impl Into<String>) -> Audience {
        Audience::Field { field: self.0, test: Test::Is(text.into().into()) }
    }

    /// It is one of these languages or countries.
    #[must_use]
    pub fn is_in<T: Into<String>>(self, first: T, rest: impl IntoIterator<Item = T>) -> Audience {
        let rest = rest.into_iter().map(Into::into);
        Audience::Field { field: self.0, test: Test::In(values(first.into(), rest)) }
    }

    /// Whether it is known.
    #[must_use]
    pub fn exists(self, exists: bool) -> Audience {
        Audience::Field { field: self.0, test: Test::Exists(exists) }
    }
}

/// A condition on a version, without its test.
#[derive(Debug, Clone)]
#[must_use]
pub struct VersionCondition(Field);

impl VersionCondition {
    /// It has exactly this text.
    #[must_use]
    pub fn is(self, version: impl Into<String>) -> Audience {
        TextCondition(self.0).is(version)
    }

    /// It has exactly one of these texts.
    #[must_use]
    pub fn is_in<T: Into<String>>(self, first: T, rest: impl IntoIterator<Item = T>) -> Audience {
        TextCondition(self.0).is_in(first, rest)
    }

    /// Whether it is known.
    #[must_use]
    pub fn exists(self, exists: bool) -> Audience {
        TextCondition(self.0).exists(exists)
    }

    /// It is this version or a later one.
    #[must_use]
    pub fn at_least(self, version: impl Into<String>) -> Audience {
        Audience::Field { field: self.0, test: Test::AtLeast(version.into().into()) }
    }

    /// It is earlier than this version.
    #[must_use]
    pub fn below(self, version: impl Into<String>) -> Audience {
        Audience::Field { field: self.0, test: Test::Below(version.into().into()) }
    }
}

/// A condition on the offset from UTC, without its test.
#[derive(Debug, Clone)]
#[must_use]
pub struct TimezoneCondition(());

impl TimezoneCondition {
    fn test(test: Test) -> Audience {
        Audience::Field { field: Field::Timezone, test }
    }

    /// It is this number of minutes.
    #[must_use]
    pub fn is(self, minutes: i32) -> Audience {
        Self::test(Test::Is(minutes.into()))
    }

    /// It is one of these numbers of minutes.
    #[must_use]
    pub fn is_in(self, first: i32, rest: impl IntoIterator<Item = i32>) -> Audience {
        Self::test(Test::In(values(first, rest)))
    }

    /// Whether it is known.
    #[must_use]
    pub fn exists(self, exists: bool) -> Audience {
        Self::test(Test::Exists(exists))
    }

    /// It is this number of minutes or a larger one.
    #[must_use]
    pub fn at_least(self, minutes: i32) -> Audience {
        Self::test(Test::AtLeast(minutes.into()))
    }

    /// It is a smaller number of minutes.
    #[must_use]
    pub fn below(self, minutes: i32) -> Audience {
        Self::test(Test::Below(minutes.into()))
    }
}

/// A condition on an instant, without its test.
#[derive(Debug, Clone)]
#[must_use]
pub struct TimeCondition(Field);

impl TimeCondition {
    /// It is this instant or a later one.
    #[must_use]
    pub fn at_least(self, at: Timestamp) -> Audience {
        Audience::Field { field: self.0, test: Test::AtLeast(instant(at)) }
    }

    /// It is earlier than this instant.
    #[must_use]
    pub fn below(self, at: Timestamp) -> Audience {
        Audience::Field { field: self.0, test: Test::Below(instant(at)) }
    }

    /// It lies at most this number of days back; 1 to 3,650.
    #[must_use]
    pub fn within_days(self, days: u32) -> Audience {
        Audience::Field { field: self.0, test: Test::WithinDays(days) }
    }
}

/// An instant as a value. Every valid instant is exact as a double.
#[expect(clippy::cast_precision_loss, reason = "valid instants are below 2^53")]
fn instant(at: Timestamp) -> AttributeValue {
    AttributeValue::Number(at.as_ms() as f64)
}
