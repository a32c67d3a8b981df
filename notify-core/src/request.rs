//! Reads and validates the bodies and queries of requests.

use crate::json::{BodyPresence, Object, read_body};
use crate::violations::{NUL_FORBIDDEN, Validator, path};
use crate::{Timestamp, UnknownName, Violations};

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

/// Implements [`Request::from_json`] with the given reader.
pub(crate) fn from_json<M>(
    body: &[u8],
    presence: BodyPresence,
    read: impl FnOnce(&mut Object<'_, '_>) -> M,
) -> Result<M, Violations> {
    let (model, shape) = read_body(body, presence, read)?;
    shape.into_result(model)
}

/// Implements [`Request::validate`] with the given rules.
pub(crate) fn validate<M, V>(
    model: M,
    now: Timestamp,
    check: impl FnOnce(M, Timestamp, &mut Validator) -> Option<V>,
) -> Result<V, Violations> {
    let mut rules = Validator::default();
    let valid = check(model, now, &mut rules);
    rules.into_result(valid)
}

/// Implements [`Request::parse`] with the given reader and rules.
///
/// The rules are not checked when a value has the wrong type: the model lacks that value, and the
/// rules would report it as missing.
pub(crate) fn parse<M, V>(
    body: &[u8],
    presence: BodyPresence,
    now: Timestamp,
    read: impl FnOnce(&mut Object<'_, '_>) -> M,
    check: impl FnOnce(M, Timestamp, &mut Validator) -> Option<V>,
) -> Result<V, Violations> {
    parse_with(Validator::default(), body, presence, now, read, check)
}

/// Does the same as [`parse`], with a validator that the caller has configured.
pub(crate) fn parse_with<M, V>(
    mut rules: Validator,
    body: &[u8],
    presence: BodyPresence,
    now: Timestamp,
    read: impl FnOnce(&mut Object<'_, '_>) -> M,
    check: impl FnOnce(M, Timestamp, &mut Validator) -> Option<V>,
) -> Result<V, Violations> {
    let (model, mut shape) = read_body(body, presence, read)?;
    let model = model.filter(|_| !shape.has_wrong_type());
    let valid = model.and_then(|model| check(model, now, &mut rules));
    shape.merge(rules);
    shape.into_result(valid)
}

/// Implements [`Request`] with the model's own `read` (see [`model!`]) and `check`.
macro_rules! request {
    ($model:ty => $valid:ty, $presence:expr) => {
        impl crate::Request for $model {
            type Valid = $valid;
            const NEEDS_BODY: bool = matches!($presence, crate::json::BodyPresence::Required);

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

/// Declares the struct of a request model together with its reader `read`, so that each field is
/// declared only once.
///
/// The type of a field determines how it is read (see [`FromValue`](crate::json::FromValue)). An absent
/// `Option` is `None`, and is not serialized. An absent field of any other type has its default value,
/// which the rules refuse. A field that is read in another way is followed by its reader:
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

/// The query of an endpoint. It is read as strictly as a body: each parameter at most once, and no
/// unknown ones.
pub trait Query: Sized {
    /// The validated form: a value that satisfies every rule.
    type Valid;

    /// Every parameter that the endpoint accepts, for the reader and for the OpenAPI document.
    const PARAMETERS: &'static [Parameter];

    /// Reads percent-decoded names and values.
    ///
    /// # Errors
    /// Every violation, each with the parameter's name.
    fn parse(parameters: &[(String, String)], now: Timestamp) -> Result<Self::Valid, Violations>;
}

/// A query parameter of an endpoint.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// Name in the query.
    pub name: &'static str,
    /// Description in the OpenAPI document.
    pub about: &'static str,
    /// The values that it accepts.
    pub form: ParameterForm,
}

/// The values that a query parameter accepts. An empty `Text` or `Integer` equals an absent one. Every other form
/// refuses an empty value: with it, a script whose variable is empty would select everything.
#[derive(Debug, Clone, Copy)]
pub enum ParameterForm {
    /// Any text.
    Text,
    /// Any text but an empty one.
    NonEmpty,
    /// A UUID.
    Uuid,
    /// An integer from `min` to `max`, both included, or the text `or`.
    Integer {
        /// Smallest value.
        min: u64,
        /// Largest value.
        max: u64,
        /// A text that is accepted in place of an integer.
        or: Option<&'static str>,
    },
    /// One of these names.
    OneOf(&'static [&'static str]),
    /// Some of these names, separated by commas.
    ListOf {
        /// The names.
        names: &'static [&'static str],
        /// Most names in one list.
        max: usize,
    },
}

impl Parameter {
    /// Declares a parameter.
    #[must_use]
    pub const fn new(name: &'static str, form: ParameterForm, about: &'static str) -> Self {
        Self { name, about, form }
    }
}

/// The query of an endpoint that takes no parameters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NoQuery;

impl Query for NoQuery {
    type Valid = Self;
    const PARAMETERS: &'static [Parameter] = &[];

    fn parse(parameters: &[(String, String)], _now: Timestamp) -> Result<Self, Violations> {
        Parameters::new(parameters, Self::PARAMETERS).finish(Some(Self))
    }
}

/// Query of `GET /openapi.json`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpenApiQuery {
    /// Whether the document has every rule of requests, also those that generators of clients do not read.
    pub strict: bool,
}

impl Query for OpenApiQuery {
    type Valid = Self;
    const PARAMETERS: &'static [Parameter] = &[Parameter::new(
        "strict",
        ParameterForm::OneOf(&BOOLEANS),
        "`true` for the document with every rule of requests, which generators of clients do not read; \
            `false` when absent",
    )];

    fn parse(parameters: &[(String, String)], _now: Timestamp) -> Result<Self, Violations> {
        let mut parameters = Parameters::new(parameters, Self::PARAMETERS);
        let strict = parameters.name("strict");
        parameters.finish(Some(Self { strict: strict == Some("true") }))
    }
}

/// The values of a parameter that is true or false.
const BOOLEANS: [&str; 2] = ["true", "false"];

/// The parameters of a request, which are taken by name. A parameter that is not declared is unknown.
pub(crate) struct Parameters<'q> {
    given: &'q [(String, String)],
    declared: &'static [Parameter],
    pub(crate) validator: Validator,
}

impl<'q> Parameters<'q> {
    pub(crate) fn new(given: &'q [(String, String)], declared: &'static [Parameter]) -> Self {
        Self { given, declared, validator: Validator::default() }
    }

    fn form(&self, name: &'static str) -> ParameterForm {
        let declared = self.declared.iter().find(|parameter| parameter.name == name);
        declared.expect("a query takes only parameters that it declares").form
    }

    /// Takes the value of a parameter, and reports a parameter that is given twice.
    fn take(&mut self, name: &'static str) -> Option<&'q str> {
        let mut values = self.given.iter().filter(|(given, _)| given == name);
        let (_, value) = values.next()?;
        if values.next().is_some() {
            self.validator.violation(&path(name), "is given twice");
        }
        if value.contains('\0') {
            self.validator.violation(&path(name), NUL_FORBIDDEN);
            return None;
        }
        Some(value)
    }

    /// Takes a text; an empty one equals an absent one.
    pub(crate) fn text(&mut self, name: &'static str) -> Option<&'q str> {
        self.take(name).filter(|value| !value.is_empty())
    }

    /// Takes a value that must not be empty.
    pub(crate) fn non_empty(&mut self, name: &'static str) -> Option<&'q str> {
        let value = self.take(name)?;
        if value.is_empty() {
            self.validator.violation(&path(name), "must not be empty");
            return None;
        }
        Some(value)
    }

    /// Takes one of the declared names. It must not be empty.
    pub(crate) fn name(&mut self, name: &'static str) -> Option<&'q str> {
        let ParameterForm::OneOf(known) = self.form(name) else {
            unreachable!("{name} is declared as one of several names")
        };
        let value = self.non_empty(name)?;
        if !known.contains(&value) {
            self.validator.violation(&path(name), UnknownName { known });
        }
        Some(value)
    }

    /// Takes an integer within its declared range. Returns `None` also for the text that is accepted in
    /// place of an integer.
    pub(crate) fn integer(&mut self, name: &'static str) -> Option<u64> {
        let ParameterForm::Integer { min, max, or } = self.form(name) else {
            unreachable!("{name} is declared as an integer")
        };
        let value = self.text(name).filter(|value| or != Some(*value))?;
        let is_integer = value.bytes().all(|byte| byte.is_ascii_digit());
        // A number that does not fit into 64 bits becomes the largest one, which is out of range.
        let number = is_integer.then(|| value.parse().unwrap_or(u64::MAX));
        let number = number.filter(|number| (min..=max).contains(number));
        if number.is_none() {
            let what = format_args!("must be a whole number from {min} to {max}");
            self.validator.violation(&path(name), what);
        }
        number
    }

    /// Reports undeclared parameters as unknown. Returns the validated query, or all violations.
    pub(crate) fn finish<T>(mut self, valid: Option<T>) -> Result<T, Violations> {
        let known_names: Vec<&str> = self.declared.iter().map(|parameter| parameter.name).collect();
        for (name, _) in self.given {
            if !known_names.contains(&name.as_str()) {
                self.validator.unknown(&path(name), "parameter", name, &known_names);
            }
        }
        self.validator.into_result(valid)
    }
}

/// Default page size of a listing.
pub const LIMIT_DEFAULT: u32 = 50;
/// Largest page of a listing.
pub const LIMIT_MAX: u32 = 1_000;

pub(crate) const LIMIT: Parameter = Parameter::new(
    "limit",
    ParameterForm::Integer { min: 1, max: LIMIT_MAX as u64, or: None },
    "Page size; 50 when absent",
);
pub(crate) const CURSOR: Parameter =
    Parameter::new("cursor", ParameterForm::Text, "The `next_cursor` of the previous page");

/// Query of a listing that is paged with a cursor. Only the server can interpret a cursor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageQuery {
    /// Page size; 50 when absent.
    pub limit: Option<u32>,
    /// `next_cursor` of the previous page; the first page when absent.
    pub cursor: Option<String>,
}

impl PageQuery {
    /// Takes `limit` and `cursor`.
    pub(crate) fn take(parameters: &mut Parameters<'_>) -> Self {
        Self { limit: take_limit(parameters), cursor: parameters.text("cursor").map(str::to_owned) }
    }
}

impl Query for PageQuery {
    type Valid = Self;
    const PARAMETERS: &'static [Parameter] = &[LIMIT, CURSOR];

    fn parse(parameters: &[(String, String)], _now: Timestamp) -> Result<Self, Violations> {
        let mut parameters = Parameters::new(parameters, Self::PARAMETERS);
        let page = Self::take(&mut parameters);
        parameters.finish(Some(page))
    }
}

/// Takes `limit`; `None` if it is absent or invalid.
pub(crate) fn take_limit(parameters: &mut Parameters<'_>) -> Option<u32> {
    let limit = parameters.integer("limit");
    limit.and_then(|limit| u32::try_from(limit).ok())
}
