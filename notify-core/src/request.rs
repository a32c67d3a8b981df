//! From bytes to a request model to its validated form.

use crate::{
    Parameter, Timestamp, Violations,
    json::{Body, Object, read_body},
    violations::Validator,
};

/// A request model: the body of an endpoint, as a client builds and sends it.
///
/// ```text
/// bytes --from_json--> model --validate--> validated form
///       (shape)              (rules)
/// ```
pub trait Request: Sized {
    /// The validated form: a value that satisfies every rule.
    type Valid;

    /// Whether the endpoint refuses an empty body.
    const NEEDS_BODY: bool;

    /// Reads a body strictly: valid JSON, the right types, no unknown fields.
    ///
    /// # Errors
    /// Every violation of the body's shape.
    fn from_json(body: &[u8]) -> Result<Self, Violations>;

    /// Checks every rule. Instants are compared with `now`.
    ///
    /// # Errors
    /// Every violation.
    fn validate(self, now: Timestamp) -> Result<Self::Valid, Violations>;

    /// Reads and validates in one step, so that one answer lists unknown fields and violated rules.
    ///
    /// # Errors
    /// Every violation of the shape, and of the rules unless a value has the wrong type.
    fn parse(body: &[u8], now: Timestamp) -> Result<Self::Valid, Violations>;
}

/// The query of an endpoint, read as strictly as a body.
pub trait Query: Sized {
    /// The validated form: a value that satisfies every rule.
    type Valid;

    /// Every parameter that the endpoint accepts.
    const PARAMETERS: &'static [Parameter];

    /// Reads percent-decoded names and values.
    ///
    /// # Errors
    /// Every violation, each with the parameter's name.
    fn parse(parameters: &[(String, String)], now: Timestamp) -> Result<Self::Valid, Violations>;
}

/// [`Request::from_json`] with the given reader.
pub(crate) fn from_json<D>(
    body: &[u8],
    presence: Body,
    read: impl FnOnce(&mut Object<'_, '_>) -> D,
) -> Result<D, Violations> {
    let (draft, shape) = read_body(body, presence, read)?;
    shape.into_result(draft)
}

/// [`Request::validate`] with the given rules.
pub(crate) fn validate<D, V>(
    draft: D,
    now: Timestamp,
    check: impl FnOnce(D, Timestamp, &mut Validator) -> Option<V>,
) -> Result<V, Violations> {
    let mut rules = Validator::default();
    let valid = check(draft, now, &mut rules);
    rules.into_result(valid)
}

/// [`Request::parse`] with the given reader and rules.
///
/// The rules are not checked when a value has the wrong type: the draft is then not what the caller
/// meant.
pub(crate) fn parse<D, V>(
    body: &[u8],
    presence: Body,
    now: Timestamp,
    read: impl FnOnce(&mut Object<'_, '_>) -> D,
    check: impl FnOnce(D, Timestamp, &mut Validator) -> Option<V>,
) -> Result<V, Violations> {
    parse_with(Validator::default(), body, presence, now, read, check)
}

/// [`parse`] with a validator that the caller has configured.
pub(crate) fn parse_with<D, V>(
    mut rules: Validator,
    body: &[u8],
    presence: Body,
    now: Timestamp,
    read: impl FnOnce(&mut Object<'_, '_>) -> D,
    check: impl FnOnce(D, Timestamp, &mut Validator) -> Option<V>,
) -> Result<V, Violations> {
    let (draft, mut shape) = read_body(body, presence, read)?;
    let draft = draft.filter(|_| !shape.has_wrong_type());
    let valid = draft.and_then(|draft| check(draft, now, &mut rules));
    shape.merge(rules);
    shape.into_result(valid)
}

/// Implements [`Request`] with the model's own `read` (see [`model!`]) and `check`.
macro_rules! request {
    ($model:ty => $valid:ty, $presence:expr) => {
        impl crate::Request for $model {
            type Valid = $valid;
            const NEEDS_BODY: bool = matches!($presence, crate::json::Body::Required);

            fn from_json(body: &[u8]) -> Result<Self, crate::Violations> {
                crate::request::from_json(body, $presence, Self::read)
            }

            fn validate(self, now: crate::Timestamp) -> Result<$valid, crate::Violations> {
                crate::request::validate(self, now, Self::check)
            }

            fn parse(body: &[u8], now: crate::Timestamp) -> Result<$valid, crate::Violations> {
                crate::request::parse(body, $presence, now, Self::read, Self::check)
            }
        }
    };
}
pub(crate) use request;

/// Declares the struct of a request model together with its reader `read`, so that a field is
/// declared once.
///
/// A field is read by its type (see [`FromValue`](crate::json::FromValue)): an `Option` is `None`,
/// and is not serialized, when the field is absent; any other type takes its default then, and the
/// rules refuse it. A field that is read otherwise names its reader:
///
/// ```text
/// model! {
///     /// Body of `POST /v1/things`.
///     #[derive(Debug, Clone, Default, PartialEq)]
///     pub struct CreateThing {
///         /// Name of the thing.
///         pub name: String,
///         /// How long it lives, in seconds.
///         pub ttl_seconds: Option<u32> = |object| object.u32("ttl_seconds", TTL_SECONDS_MAX),
///     }
/// }
/// ```
macro_rules! model {
    ($(#[$attribute:meta])* pub struct $name:ident { $($fields:tt)* }) => {
        crate::request::model! {
            @object [$(#[$attribute])* pub struct $name] $name [] [] $($fields)*
        }
    };
    // Takes an optional field: appends it to the declared fields, and its reader to the readers.
    (
        @$object:ident $head:tt $name:ident [$($declared:tt)*] [$($read:tt)*]
        $(#[$attribute:meta])* pub $field:ident: Option<$type:ty> $(= $reader:expr)?, $($rest:tt)*
    ) => {
        crate::request::model! {
            @$object $head $name
            [$($declared)*
                $(#[$attribute])* #[serde(skip_serializing_if = "Option::is_none")]
                pub $field: Option<$type>,]
            [$($read)* $field: crate::request::read_field!($object optional $field $($reader)?),]
            $($rest)*
        }
    };
    // Takes any other field.
    (
        @$object:ident $head:tt $name:ident [$($declared:tt)*] [$($read:tt)*]
        $(#[$attribute:meta])* pub $field:ident: $type:ty $(= $reader:expr)?, $($rest:tt)*
    ) => {
        crate::request::model! {
            @$object $head $name
            [$($declared)* $(#[$attribute])* pub $field: $type,]
            [$($read)* $field: crate::request::read_field!($object or_default $field $($reader)?),]
            $($rest)*
        }
    };
    // No field is left.
    (@$object:ident [$($head:tt)*] $name:ident [$($declared:tt)*] [$($read:tt)*]) => {
        #[derive(serde::Serialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        $($head)* { $($declared)* }

        impl $name {
            pub(crate) fn read($object: &mut crate::json::Object<'_, '_>) -> Self {
                Self { $($read)* }
            }
        }

        impl crate::json::FromValue for $name {
            fn from_value(value: crate::json::Value<'_, '_>) -> Option<Self> {
                value.object(Self::read)
            }
        }
    };
}
pub(crate) use model;

/// The reader of one field of a [`model!`].
macro_rules! read_field {
    ($object:ident $method:ident $field:ident) => {
        $object.$method(stringify!($field))
    };
    ($object:ident $method:ident $field:ident $reader:expr) => {
        crate::json::read_with($object, $reader)
    };
}
pub(crate) use read_field;
