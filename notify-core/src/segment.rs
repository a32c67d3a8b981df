//! Segments: audiences with a name.

use serde::{Deserialize, Serialize};

use crate::field::{Kind, Model, ModelFields, Required};
use crate::json::{BodyPresence, Value};
use crate::platform::Platforms;
use crate::request::{model, request};
#[cfg(feature = "openapi")]
use crate::schema::Schemas;
use crate::violations::{NUL_FORBIDDEN, Path, Validator};
use crate::{Audience, Condition, Platform, SEGMENT_NAME_CHARS_MAX, Timestamp};

/// Most segments of an application.
pub const SEGMENTS_MAX: usize = 1_000;
/// A name that no segment has, because it is a path of the API.
pub const RESERVED_SEGMENT_NAME: &str = "preview";

/// The name of a segment: 1 to 255 characters, without U+0000, and not `preview`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct SegmentName(String);

/// A text that violates a rule for names of segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a name {0}")]
pub struct InvalidSegmentName(&'static str);

impl InvalidSegmentName {
    /// The violated rule, without a path, such as `must not be empty`.
    #[must_use]
    pub fn rule(&self) -> &'static str {
        self.0
    }
}

impl SegmentName {
    /// Checks the rules for names of segments.
    ///
    /// # Errors
    /// The rule that the text violates, without a path.
    ///
    /// ```
    /// use notify_core::SegmentName;
    ///
    /// assert!(SegmentName::new("loyal customers").is_ok());
    /// assert_eq!(SegmentName::new("preview"), Err("must not be `preview`"));
    /// ```
    pub fn new(text: impl Into<String>) -> Result<Self, &'static str> {
        let text = text.into();
        if text.is_empty() {
            return Err("must not be empty");
        }
        if text.chars().nth(SEGMENT_NAME_CHARS_MAX).is_some() {
            return Err("must be at most 255 characters");
        }
        if text.contains('\0') {
            return Err(NUL_FORBIDDEN);
        }
        if text == RESERVED_SEGMENT_NAME {
            return Err("must not be `preview`");
        }
        Ok(Self(text))
    }

    /// The name as the caller chose it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for SegmentName {
    type Err = InvalidSegmentName;

    /// Accepts the same as [`Self::new`].
    fn from_str(text: &str) -> Result<Self, InvalidSegmentName> {
        Self::new(text).map_err(InvalidSegmentName)
    }
}

impl TryFrom<&str> for SegmentName {
    type Error = InvalidSegmentName;

    /// Accepts the same as [`Self::new`].
    fn try_from(text: &str) -> Result<Self, InvalidSegmentName> {
        Self::new(text).map_err(InvalidSegmentName)
    }
}

impl TryFrom<String> for SegmentName {
    type Error = InvalidSegmentName;

    /// Accepts the same as [`Self::new`].
    fn try_from(text: String) -> Result<Self, InvalidSegmentName> {
        Self::new(text).map_err(InvalidSegmentName)
    }
}

impl std::fmt::Display for SegmentName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de> Deserialize<'de> for SegmentName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

model! {
    /// Body of `PUT /v1/segments/:name`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct PutSegment with PutSegmentFields {
        /// The condition of the segment. It names no other segment. Required.
        pub audience: Option<Audience> as Required<OfSegment>,
    }
}

request!(PutSegment => Condition, BodyPresence::Required);

impl Model for PutSegment {
    type Valid = Condition;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<Condition> {
        self.check_fields(at, validator)?.audience
    }
}

impl PutSegment {
    /// A request that gives the segment this condition.
    ///
    /// ```
    /// use notify_core::{Audience, PutSegment, Request, Timestamp};
    ///
    /// let put = PutSegment::new(Audience::tag("vip").and(Audience::has_user(true)));
    /// assert!(put.validate(Timestamp(0)).is_ok());
    /// ```
    #[must_use]
    pub fn new(audience: Audience) -> Self {
        Self { audience: Some(audience) }
    }
}

/// A condition that names no segment.
pub(crate) struct OfSegment;

impl Kind for OfSegment {
    type Raw = Audience;
    type Valid = Condition;

    fn read(value: Value<'_, '_>) -> Option<Audience> {
        Audience::read(value)
    }

    fn check(raw: &Audience, at: &Path<'_>, validator: &mut Validator) -> Option<Condition> {
        raw.check(at, validator)
    }

    #[cfg(feature = "openapi")]
    fn schema(schemas: &mut Schemas) -> serde_json::Value {
        schemas.add_type::<Audience>()
    }
}

/// A condition that may name segments. [`Audience::resolve`] replaces them.
pub(crate) struct WithSegments;

impl Kind for WithSegments {
    type Raw = Audience;
    type Valid = Audience;

    fn read(value: Value<'_, '_>) -> Option<Audience> {
        Audience::read(value)
    }

    fn check(raw: &Audience, at: &Path<'_>, validator: &mut Validator) -> Option<Audience> {
        raw.check_unexpanded(at, validator);
        Some(raw.clone())
    }

    #[cfg(feature = "openapi")]
    fn schema(schemas: &mut Schemas) -> serde_json::Value {
        schemas.add_type::<Audience>()
    }
}

/// A segment in a response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Segment {
    /// Name.
    pub name: SegmentName,
    /// The condition.
    pub audience: Audience,
    /// Time of creation, unix ms.
    pub created_at: Timestamp,
    /// Time of the last change, unix ms.
    pub updated_at: Timestamp,
}

/// Answer of `GET /v1/segments`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SegmentList {
    /// One page, sorted by name.
    pub segments: Vec<Segment>,
    /// `cursor` of the next page; null on the last one.
    pub next_cursor: Option<String>,
}

model! {
    /// Body of `POST /v1/segments/preview`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct PreviewSegment with PreviewSegmentFields {
        /// The condition that the devices must meet. Required.
        pub audience: Option<Audience> as Required<WithSegments>,
        /// Only devices of these platforms; at least one platform. All platforms when absent.
        pub platforms: Option<Vec<String>> as Platforms,
    }
}

/// The validated form of [`PreviewSegment`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentToPreview {
    /// The condition. It can name segments; [`Audience::resolve`] replaces them.
    pub audience: Audience,
    /// Platforms; at least one, without duplicates.
    pub platforms: Vec<Platform>,
}

request!(PreviewSegment => SegmentToPreview, BodyPresence::Required);

impl Model for PreviewSegment {
    type Valid = SegmentToPreview;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<SegmentToPreview> {
        let PreviewSegmentFields { audience, platforms } = self.check_fields(at, validator)?;
        let platforms = platforms.unwrap_or_else(|| Platform::ALL.to_vec());
        Some(SegmentToPreview { audience: audience?, platforms })
    }
}

impl PreviewSegment {
    /// A request that counts the devices of all platforms that meet this condition.
    #[must_use]
    pub fn new(audience: Audience) -> Self {
        Self { audience: Some(audience), platforms: None }
    }
}

/// Number of devices of one platform that meet a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SegmentSize {
    /// Platform.
    pub platform: Platform,
    /// Number of enabled devices with an address that meet the condition.
    pub devices: u64,
    /// Whether the number is exact; otherwise it is an estimate.
    pub exact: bool,
}

/// Answer of `POST /v1/segments/preview`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SegmentPreview {
    /// The size of each platform.
    pub platforms: Vec<SegmentSize>,
}
