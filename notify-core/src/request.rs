//! Reads and validates the bodies and queries of requests.

use std::str::FromStr;

use crate::field::Model;
use crate::json::{BodyPresence, Object, read_body};
use crate::violations::{NUL_FORBIDDEN, ROOT, Validator, path};
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

    /// Adds the JSON schema of the model, and of the models that it refers to. Returns the reference to it.
    #[cfg(feature = "openapi")]
    fn add_schema(schemas: &mut crate::schema::Schemas) -> serde_json::Value;
}

/// Reads a body into a model, and reports violations of its shape.
pub(crate) fn from_json<M>(
    body: &[u8],
    presence: BodyPresence,
    read: impl FnOnce(&mut Object<'_, '_>) -> M,
) -> Result<M, Violations> {
    let (model, shape) = read_body(body, presence, read)?;
    shape.into_result(model)
}

/// Checks the rules of a model.
pub(crate) fn validate<M: Model>(model: &M, mut rules: Validator) -> Result<M::Valid, Violations> {
    let valid = model.check(&ROOT, &mut rules);
    rules.into_result(valid)
}

/// Reads a body into a model, and checks its rules.
///
/// The rules are not checked when a value has the wrong type: the model lacks that value, and the
/// rules would report it as missing.
pub(crate) fn parse<M: Model>(
    mut rules: Validator,
    body: &[u8],
    presence: BodyPresence,
) -> Result<M::Valid, Violations> {
    let (model, mut shape) = read_body(body, presence, M::read)?;
    let model = model.filter(|_| !shape.has_wrong_type());
    let valid = model.and_then(|model| model.check(&ROOT, &mut rules));
    shape.merge(rules);
    shape.into_result(valid)
}

/// Implements [`Request`] for a [`Model`].
macro_rules! request {
    ($model:ty => $valid:ty, $presence:expr) => {
        impl crate::Request for $model {
            type Valid = $valid;
            const NEEDS_BODY: bool = matches!($presence, crate::json::BodyPresence::Required);

            fn from_json(body: &[u8]) -> Result<Self, crate::Violations> {
                crate::request::from_json(body, $presence, crate::field::ModelFields::read)
            }

            fn validate(self, now: crate::Timestamp) -> Result<Self::Valid, crate::Violations> {
                crate::request::validate(&self, crate::violations::Validator::at(now))
            }

            fn parse(body: &[u8], now: crate::Timestamp) -> Result<Self::Valid, crate::Violations> {
                crate::request::parse::<Self>(
                    crate::violations::Validator::at(now),
                    body,
                    $presence,
                )
            }

            #[cfg(feature = "openapi")]
            fn add_schema(schemas: &mut crate::schema::Schemas) -> serde_json::Value {
                schemas.add::<Self>()
            }
        }
    };
}
pub(crate) use request;

/// Declares a request model, with the kind of each field after `as` (see [`crate::field`]). From this one
/// declaration it makes the struct, its reader, the checks of single fields, and the JSON schema.
///
/// A field whose type is an `Option` may be absent, and is not serialized then. Any other field is required.
/// `("name")` is the field's name in JSON, if it differs.
///
/// `=> Name` declares the validated form, a struct with the same fields. `=> Type` at a field gives its type
/// there, if it differs. `with Name` declares only the struct of checked fields. Use it if the validated form
/// has other fields, or if there are rules about several fields, and implement [`Model`]
/// by hand. `flatten` adds the fields of another model to the same object.
///
/// ```text
/// model! {
///     /// Body of `POST /v1/things`.
///     #[derive(Debug, Clone, Default, PartialEq)]
///     pub struct CreateThing => #[derive(Debug)] pub NewThing {
///         /// Name of the thing.
///         pub name: String as Visible<NAME_CHARS_MAX>,
///         /// What it is like.
///         pub color: Option<String> as NameOf<Color> => Option<Color>,
///         /// How long it lives, in seconds.
///         pub ttl_seconds: Option<u32> as Integer<0, TTL_SECONDS_MAX>,
///     }
/// }
/// ```
macro_rules! model {
    (
        $(#[doc = $about:literal])*
        #[derive($($derive:ident),*)]
        pub struct $name:ident => $(#[$valid_attribute:meta])* pub $valid:ident {$(
            $(#[doc = $field_about:literal])*
            pub $field:ident $(($wire:literal))?: $type:ty as $kind:ty $(=> $valid_type:ty)?
        ),* $(,)?}
    ) => {
        #[doc = concat!("The validated form of [`", stringify!($name), "`].")]
        $(#[$valid_attribute])*
        pub struct $valid {$(
            $(#[doc = $field_about])*
            pub $field: crate::request::valid_type!($type $(, $valid_type)?),
        )*}

        crate::request::model! {
            @declare
            [$($about)*] [$($derive)*] $name $valid
            $([$($field_about)*] $field [$($wire)?] [$type] [$kind])*
        }

        impl crate::field::Model for $name {
            type Valid = $valid;

            fn check(
                &self,
                at: &crate::violations::Path<'_>,
                validator: &mut crate::violations::Validator,
            ) -> Option<$valid> {
                crate::field::ModelFields::check_fields(self, at, validator)
            }
        }
    };
    (
        $(#[doc = $about:literal])*
        #[derive($($derive:ident),*)]
        pub struct $name:ident with $checked:ident {$(
            $(#[doc = $field_about:literal])*
            pub $field:ident $(($wire:literal))?: $type:ty as $kind:ty
        ),* $(,)?}
        $(flatten {
            $(#[doc = $flat_about:literal])*
            pub $flat:ident: $flat_type:ty $(,)?
        })?
    ) => {
        /// The checked fields.
        #[allow(dead_code, reason = "some fields are only checked")]
        pub(crate) struct $checked {$(
            $(#[doc = $field_about])*
            pub(crate) $field: <$type as crate::field::Field<$kind>>::Valid,
        )*}

        crate::request::model! {
            @declare
            [$($about)*] [$($derive)*] $name $checked
            $([$($field_about)*] $field [$($wire)?] [$type] [$kind])*
            $(flatten [$($flat_about)*] $flat [$flat_type])?
        }
    };
    (
        @declare
        [$($about:literal)*] [$($derive:ident)*] $name:ident $checked:ident
        $([$($field_about:literal)*] $field:ident [$($wire:literal)?] [$type:ty] [$kind:ty])*
        $(flatten [$($flat_about:literal)*] $flat:ident [$flat_type:ty])?
    ) => {
        $(#[doc = $about])*
        #[derive($($derive,)* serde::Serialize)]
        pub struct $name {
            $(
                $(#[doc = $field_about])*
                $(#[serde(rename = $wire)])?
                #[serde(skip_serializing_if = "crate::field::Absent::is_left_out")]
                pub $field: $type,
            )*
            $(
                $(#[doc = $flat_about])*
                #[serde(flatten)]
                pub $flat: $flat_type,
            )?
        }

        impl crate::field::ModelFields for $name {
            type Fields = $checked;

            #[cfg(feature = "openapi")]
            const NAME: &'static str = stringify!($name);

            fn read(object: &mut crate::json::Object<'_, '_>) -> Self {
                Self {
                    $($field: crate::field::Field::<$kind>::read(
                        object,
                        crate::request::wire_name!($field $($wire)?),
                    ),)*
                    $($flat: <$flat_type as crate::field::ModelFields>::read(object),)?
                }
            }

            fn check_fields(
                &self,
                at: &crate::violations::Path<'_>,
                validator: &mut crate::violations::Validator,
            ) -> Option<$checked> {
                $(let $field = crate::field::Field::<$kind>::check(
                    &self.$field,
                    &at.field(crate::request::wire_name!($field $($wire)?)),
                    validator,
                );)*
                Some($checked { $($field: $field?),* })
            }

            #[cfg(feature = "openapi")]
            fn object_schema(schemas: &mut crate::schema::Schemas) -> serde_json::Value {
                let properties = vec![$(
                    crate::schema::Property::new(
                        crate::request::wire_name!($field $($wire)?),
                        concat!($($field_about),*),
                        <$type as crate::field::Field<$kind>>::schema(schemas),
                    ),
                )*];
                let object = crate::schema::object(concat!($($about),*), properties);
                $(
                    let flat = <$flat_type as crate::field::ModelFields>::object_schema(schemas);
                    let object = crate::schema::with_fields_of(object, flat);
                )?
                object
            }
        }
    };
}
pub(crate) use model;

/// The type of a field in the validated form.
macro_rules! valid_type {
    ($type:ty) => {
        $type
    };
    ($type:ty, $valid:ty) => {
        $valid
    };
}
pub(crate) use valid_type;

/// The name of a field in JSON.
macro_rules! wire_name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $wire:literal) => {
        $wire
    };
}
pub(crate) use wire_name;

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

/// The values that a query parameter accepts. An empty `Text` or `Integer` equals an absent one. Every other
/// form refuses an empty value: with it, a script whose variable is empty would select everything.
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

    /// Takes a name of an enum. It must not be empty.
    pub(crate) fn parsed<T: FromStr<Err = UnknownName>>(
        &mut self,
        name: &'static str,
    ) -> Option<T> {
        let value = self.non_empty(name)?;
        value.parse().map_err(|unknown| self.validator.violation(&path(name), unknown)).ok()
    }

    /// Takes a text of limited length. It must not be empty.
    pub(crate) fn short_text(&mut self, name: &'static str, chars_max: usize) -> Option<String> {
        let value = self.non_empty(name)?;
        self.validator.text(&path(name), value, chars_max)
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
