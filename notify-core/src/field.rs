//! The kinds of fields in request models. Each field in [`model!`](crate::request::model) names its kind, which
//! reads the value, checks it, and describes it in the JSON schema.

use std::collections::HashSet;
use std::hash::Hash;
use std::marker::PhantomData;
use std::str::FromStr;

use crate::json::{JsonObject, Object, Value};
use crate::violations::{Path, Validator};
use crate::violations::{REQUIRED, TEXT_CHARS_MAX};
use crate::{TIMESTAMP_MS_MAX, Timestamp, UnknownName, is_blank, wire_url};

#[cfg(feature = "openapi")]
use serde_json::{Value as Json, json};

#[cfg(feature = "openapi")]
use crate::schema::{HTTP_URL, Schemas, Together, URI, VISIBLE};
#[cfg(feature = "openapi")]
use crate::violations::URL_CHARS_MAX;

/// A kind of value.
pub(crate) trait Kind {
    /// The value in a request model.
    type Raw;
    /// A value that satisfies the rules.
    type Valid;

    /// Whether a field of this kind must be given, even if it is an `Option` in the model.
    const IS_REQUIRED: bool = false;

    /// Reads a value of a body. Returns `None` for a value that the model cannot hold, after its violation.
    fn read(value: Value<'_, '_>) -> Option<Self::Raw>;

    /// Takes an optional field of an object.
    fn read_field(object: &mut Object<'_, '_>, name: &'static str) -> Option<Self::Raw> {
        object.take(name, Self::read)
    }

    /// Whether the value equals an absent one.
    fn equals_absent(_raw: &Self::Raw) -> bool {
        false
    }

    /// Checks a value that is not absent. Returns `None` only if it has added a violation.
    fn check(raw: &Self::Raw, at: &Path<'_>, validator: &mut Validator) -> Option<Self::Valid>;

    /// The JSON schema of the values that satisfy the rules.
    #[cfg(feature = "openapi")]
    fn schema(schemas: &mut Schemas) -> Json;

    /// The JSON schema of an optional value, without `null`. It includes the values that equal an absent one.
    #[cfg(feature = "openapi")]
    fn optional_schema(schemas: &mut Schemas) -> Json {
        Self::schema(schemas)
    }
}

/// A field of a request model whose value has the kind `K`. An `Option` may be absent; any other type is
/// required.
pub(crate) trait Field<K: Kind>: Sized {
    /// The value of a field that satisfies the rules.
    type Valid;

    /// Takes the field from an object.
    fn read(object: &mut Object<'_, '_>, name: &'static str) -> Self;

    /// Checks the field. Returns `None` only if it has added a violation.
    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<Self::Valid>;

    /// The JSON schema of the field, and whether it is required.
    #[cfg(feature = "openapi")]
    fn schema(schemas: &mut Schemas) -> (Json, bool);
}

impl<K: Kind> Field<K> for Option<K::Raw> {
    type Valid = Option<K::Valid>;

    fn read(object: &mut Object<'_, '_>, name: &'static str) -> Self {
        K::read_field(object, name)
    }

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<Self::Valid> {
        match self.as_ref().filter(|raw| !K::equals_absent(raw)) {
            Some(raw) => K::check(raw, at, validator).map(Some),
            None if K::IS_REQUIRED => {
                validator.violation(at, REQUIRED);
                None
            }
            None => Some(None),
        }
    }

    #[cfg(feature = "openapi")]
    fn schema(schemas: &mut Schemas) -> (Json, bool) {
        if K::IS_REQUIRED {
            return (K::schema(schemas), true);
        }
        (or_null(K::optional_schema(schemas)), false)
    }
}

/// A required text.
impl<K: Kind<Raw = Self>> Field<K> for String {
    type Valid = K::Valid;

    fn read(object: &mut Object<'_, '_>, name: &'static str) -> Self {
        K::read_field(object, name).unwrap_or_default()
    }

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<K::Valid> {
        if self.is_empty() || K::equals_absent(self) {
            validator.violation(at, REQUIRED);
            return None;
        }
        K::check(self, at, validator)
    }

    #[cfg(feature = "openapi")]
    fn schema(schemas: &mut Schemas) -> (Json, bool) {
        (K::schema(schemas), true)
    }
}

/// A list or an object, which the reader makes empty if it is missing.
pub(crate) trait Composite: Default {}

impl<T> Composite for Vec<T> {}
impl<M: ModelFields + Default> Composite for M {}

/// A required list or object.
impl<C: Composite, K: Kind<Raw = Self>> Field<K> for C {
    type Valid = K::Valid;

    fn read(object: &mut Object<'_, '_>, name: &'static str) -> Self {
        object.require(name);
        K::read_field(object, name).unwrap_or_default()
    }

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<K::Valid> {
        K::check(self, at, validator)
    }

    #[cfg(feature = "openapi")]
    fn schema(schemas: &mut Schemas) -> (Json, bool) {
        (K::schema(schemas), true)
    }
}

/// A value that may be left out of a serialized model.
pub(crate) trait Absent {
    /// Whether it is left out.
    fn is_left_out(&self) -> bool {
        false
    }
}

impl<T> Absent for Option<T> {
    fn is_left_out(&self) -> bool {
        self.is_none()
    }
}

impl Absent for String {}
impl<C: Composite> Absent for C {}

/// The same schema, which allows `null` too.
#[cfg(feature = "openapi")]
fn or_null(mut schema: Json) -> Json {
    if let Some(name) = schema.get("type").and_then(Json::as_str) {
        schema["type"] = json!([name, "null"]);
        return schema;
    }
    match schema.get_mut("oneOf").and_then(Json::as_array_mut) {
        Some(variants) => variants.insert(0, json!({ "type": "null" })),
        None => schema = json!({ "oneOf": [{ "type": "null" }, schema] }),
    }
    schema
}

/// The schema of a text that may also be empty.
#[cfg(feature = "openapi")]
fn or_empty(mut schema: Json) -> Json {
    if let Some(pattern) = schema.get("pattern").and_then(Json::as_str) {
        schema["pattern"] = json!(format!("^$|{pattern}"));
    }
    if let Some(keywords) = schema.as_object_mut() {
        keywords.remove("minLength");
    }
    schema
}

/// A field whose value may not be absent, although the model cannot express this.
pub(crate) struct Required<K>(PhantomData<K>);

impl<K: Kind> Kind for Required<K> {
    type Raw = K::Raw;
    type Valid = K::Valid;

    const IS_REQUIRED: bool = true;

    fn read(value: Value<'_, '_>) -> Option<K::Raw> {
        K::read(value)
    }

    fn equals_absent(raw: &K::Raw) -> bool {
        K::equals_absent(raw)
    }

    fn check(raw: &K::Raw, at: &Path<'_>, validator: &mut Validator) -> Option<K::Valid> {
        K::check(raw, at, validator)
    }

    #[cfg(feature = "openapi")]
    fn schema(schemas: &mut Schemas) -> Json {
        K::schema(schemas)
    }
}

/// A kind of text.
pub(crate) trait TextKind {
    /// A value that satisfies the rules.
    type Valid;

    /// Whether the text equals an absent one.
    fn equals_absent(text: &str) -> bool {
        text.is_empty()
    }

    /// Checks a text that is not absent. Returns `None` only if it has added a violation.
    fn check_text(text: &str, at: &Path<'_>, validator: &mut Validator) -> Option<Self::Valid>;

    /// The JSON schema of the texts that satisfy the rules.
    #[cfg(feature = "openapi")]
    fn text_schema(schemas: &mut Schemas) -> Json;

    /// The JSON schema that also includes the texts that equal an absent one.
    #[cfg(feature = "openapi")]
    fn optional_text_schema(schemas: &mut Schemas) -> Json {
        or_empty(Self::text_schema(schemas))
    }
}

impl<K: TextKind> Kind for K {
    type Raw = String;
    type Valid = K::Valid;

    fn read(value: Value<'_, '_>) -> Option<String> {
        value.string()
    }

    fn equals_absent(raw: &String) -> bool {
        <K as TextKind>::equals_absent(raw)
    }

    fn check(raw: &String, at: &Path<'_>, validator: &mut Validator) -> Option<K::Valid> {
        K::check_text(raw, at, validator)
    }

    #[cfg(feature = "openapi")]
    fn schema(schemas: &mut Schemas) -> Json {
        K::text_schema(schemas)
    }

    #[cfg(feature = "openapi")]
    fn optional_schema(schemas: &mut Schemas) -> Json {
        K::optional_text_schema(schemas)
    }
}

/// A text of at most `MAX` characters. An empty one equals an absent one.
pub(crate) struct Text<const MAX: usize = TEXT_CHARS_MAX>;

impl<const MAX: usize> TextKind for Text<MAX> {
    type Valid = String;

    fn check_text(raw: &str, at: &Path<'_>, validator: &mut Validator) -> Option<String> {
        validator.text(at, raw, MAX)
    }

    #[cfg(feature = "openapi")]
    fn text_schema(_: &mut Schemas) -> Json {
        json!({ "type": "string", "minLength": 1, "maxLength": MAX })
    }
}

/// A text of at most `MAX` characters that people read. One without a visible character equals an absent one,
/// unless it is too long.
pub(crate) struct Visible<const MAX: usize = TEXT_CHARS_MAX>;

impl<const MAX: usize> TextKind for Visible<MAX> {
    type Valid = String;

    fn equals_absent(raw: &str) -> bool {
        is_blank(raw) && raw.chars().nth(MAX).is_none()
    }

    fn check_text(raw: &str, at: &Path<'_>, validator: &mut Validator) -> Option<String> {
        validator.text(at, raw, MAX)
    }

    #[cfg(feature = "openapi")]
    fn text_schema(_: &mut Schemas) -> Json {
        json!({ "type": "string", "minLength": 1, "maxLength": MAX, "pattern": VISIBLE })
    }

    #[cfg(feature = "openapi")]
    fn optional_text_schema(_: &mut Schemas) -> Json {
        json!({ "type": "string", "maxLength": MAX })
    }
}

/// An id. An empty text is a violation, even in an optional field.
pub(crate) struct Id<I>(PhantomData<I>);

/// A type that is parsed from a text. The error is the violated rule.
pub(crate) trait ParsedText: Sized {
    /// Parses the text.
    fn parse(text: &str) -> Result<Self, &'static str>;

    /// The JSON schema of the text.
    #[cfg(feature = "openapi")]
    fn schema() -> Json;
}

impl<I: ParsedText> TextKind for Id<I> {
    type Valid = I;

    fn equals_absent(_: &str) -> bool {
        false
    }

    fn check_text(raw: &str, at: &Path<'_>, validator: &mut Validator) -> Option<I> {
        if raw.is_empty() {
            validator.violation(at, "must not be empty");
            return None;
        }
        I::parse(raw).map_err(|rule| validator.violation(at, rule)).ok()
    }

    #[cfg(feature = "openapi")]
    fn text_schema(_: &mut Schemas) -> Json {
        I::schema()
    }

    #[cfg(feature = "openapi")]
    fn optional_text_schema(_: &mut Schemas) -> Json {
        I::schema()
    }
}

/// A name of the enum `E`. An empty one equals an absent one.
pub(crate) struct NameOf<E>(PhantomData<E>);

/// An enum whose variants have names.
pub(crate) trait Named: FromStr<Err = UnknownName> {
    /// Adds the schema of the enum.
    #[cfg(feature = "openapi")]
    fn add_to(schemas: &mut Schemas) -> Json;
}

impl<E: Named> TextKind for NameOf<E> {
    type Valid = E;

    fn check_text(raw: &str, at: &Path<'_>, validator: &mut Validator) -> Option<E> {
        raw.parse().map_err(|unknown| validator.violation(at, unknown)).ok()
    }

    #[cfg(feature = "openapi")]
    fn text_schema(schemas: &mut Schemas) -> Json {
        E::add_to(schemas)
    }

    #[cfg(feature = "openapi")]
    fn optional_text_schema(schemas: &mut Schemas) -> Json {
        json!({ "oneOf": [{ "const": "" }, E::add_to(schemas)] })
    }
}

/// The url of a resource to fetch: absolute, `http` or `https`.
pub(crate) struct HttpUrl;

impl TextKind for HttpUrl {
    type Valid = String;

    fn check_text(raw: &str, at: &Path<'_>, validator: &mut Validator) -> Option<String> {
        validator.http_url(at, raw)
    }

    #[cfg(feature = "openapi")]
    fn text_schema(_: &mut Schemas) -> Json {
        json!({ "type": "string", "minLength": 1, "maxLength": URL_CHARS_MAX, "pattern": HTTP_URL })
    }
}

/// What a click opens: an absolute url of any scheme but `javascript` and `data`, including an app's own
/// scheme.
pub(crate) struct Uri;

impl TextKind for Uri {
    type Valid = String;

    fn check_text(raw: &str, at: &Path<'_>, validator: &mut Validator) -> Option<String> {
        validator.uri(at, raw)
    }

    #[cfg(feature = "openapi")]
    fn text_schema(_: &mut Schemas) -> Json {
        json!({ "type": "string", "minLength": 1, "maxLength": URL_CHARS_MAX, "pattern": URI })
    }
}

/// A url of the kind `K`, in the form in which a message carries it.
pub(crate) struct InMessage<K>(PhantomData<K>);

impl<K: TextKind<Valid = String>> TextKind for InMessage<K> {
    type Valid = String;

    fn check_text(raw: &str, at: &Path<'_>, validator: &mut Validator) -> Option<String> {
        K::check_text(raw, at, validator).map(|url| wire_url(&url))
    }

    #[cfg(feature = "openapi")]
    fn text_schema(schemas: &mut Schemas) -> Json {
        K::text_schema(schemas)
    }
}

/// Unix milliseconds within the years 1970 to 9999.
pub(crate) struct Instant;

impl Kind for Instant {
    type Raw = Timestamp;
    type Valid = Timestamp;

    fn read(value: Value<'_, '_>) -> Option<Timestamp> {
        value.instant().map(Timestamp)
    }

    fn check(raw: &Timestamp, at: &Path<'_>, validator: &mut Validator) -> Option<Timestamp> {
        if !(0..=TIMESTAMP_MS_MAX).contains(&raw.as_ms()) {
            validator.violation(at, "must be unix milliseconds within the years 1970 to 9999");
            return None;
        }
        Some(*raw)
    }

    #[cfg(feature = "openapi")]
    fn schema(_: &mut Schemas) -> Json {
        json!({ "type": "integer", "format": "int64", "minimum": 0, "maximum": TIMESTAMP_MS_MAX })
    }
}

/// A whole number from `MIN` to `MAX`.
pub(crate) struct Integer<const MIN: u32, const MAX: u32>;

impl<const MIN: u32, const MAX: u32> Integer<MIN, MAX> {
    fn violation(at: &Path<'_>, validator: &mut Validator) {
        match (MIN, MAX) {
            (0, max) => validator.violation(at, format_args!("must be at most {max}")),
            (min, max) => validator.violation(at, format_args!("must be from {min} to {max}")),
        }
    }
}

impl<const MIN: u32, const MAX: u32> Kind for Integer<MIN, MAX> {
    type Raw = u32;
    type Valid = u32;

    fn read(value: Value<'_, '_>) -> Option<u32> {
        value.u32(Self::violation)
    }

    fn check(raw: &u32, at: &Path<'_>, validator: &mut Validator) -> Option<u32> {
        if !(MIN..=MAX).contains(raw) {
            Self::violation(at, validator);
            return None;
        }
        Some(*raw)
    }

    #[cfg(feature = "openapi")]
    fn schema(_: &mut Schemas) -> Json {
        let format = if i32::try_from(MAX).is_ok() { "int32" } else { "int64" };
        json!({ "type": "integer", "format": format, "minimum": MIN, "maximum": MAX })
    }
}

/// A finite number.
pub(crate) struct Number;

impl Kind for Number {
    type Raw = f64;
    type Valid = f64;

    fn read(value: Value<'_, '_>) -> Option<f64> {
        value.float()
    }

    fn check(raw: &f64, at: &Path<'_>, validator: &mut Validator) -> Option<f64> {
        if !raw.is_finite() {
            validator.violation(at, "must be a finite number");
            return None;
        }
        Some(*raw)
    }

    #[cfg(feature = "openapi")]
    fn schema(_: &mut Schemas) -> Json {
        json!({ "type": "number", "format": "double" })
    }
}

/// `true` or `false`.
pub(crate) struct Flag;

impl Kind for Flag {
    type Raw = bool;
    type Valid = bool;

    fn read(value: Value<'_, '_>) -> Option<bool> {
        value.bool()
    }

    fn check(raw: &bool, _: &Path<'_>, _: &mut Validator) -> Option<bool> {
        Some(*raw)
    }

    #[cfg(feature = "openapi")]
    fn schema(_: &mut Schemas) -> Json {
        json!({ "type": "boolean" })
    }
}

/// An object of any content, kept as the caller wrote it.
pub(crate) struct AnyObject;

impl Kind for AnyObject {
    type Raw = JsonObject;
    type Valid = JsonObject;

    fn read(value: Value<'_, '_>) -> Option<JsonObject> {
        value.raw_object()
    }

    fn check(raw: &JsonObject, _: &Path<'_>, _: &mut Validator) -> Option<JsonObject> {
        Some(raw.clone())
    }

    #[cfg(feature = "openapi")]
    fn schema(schemas: &mut Schemas) -> Json {
        schemas.add_type::<JsonObject>()
    }
}

/// A list of `MIN` to `MAX` values of the kind `K`, none of which equals an absent one.
pub(crate) struct List<K, const MIN: usize, const MAX: usize>(PhantomData<K>);

impl<K: Kind, const MIN: usize, const MAX: usize> Kind for List<K, MIN, MAX> {
    type Raw = Vec<K::Raw>;
    type Valid = Vec<K::Valid>;

    fn read(value: Value<'_, '_>) -> Option<Vec<K::Raw>> {
        value.list(MAX, K::read)
    }

    fn check(raw: &Vec<K::Raw>, at: &Path<'_>, validator: &mut Validator) -> Option<Vec<K::Valid>> {
        let elements = |count| if count == 1 { "element" } else { "elements" };
        if raw.len() < MIN {
            validator.violation(at, format_args!("must hold at least {MIN} {}", elements(MIN)));
        }
        validator.max_len(at, raw.len(), MAX, elements(MAX));
        let mut valid = Vec::with_capacity(raw.len());
        for (index, element) in raw.iter().enumerate() {
            if K::equals_absent(element) {
                validator.violation(&at.index(index), "must not be empty");
            } else {
                valid.extend(K::check(element, &at.index(index), validator));
            }
        }
        (valid.len() == raw.len()).then_some(valid)
    }

    #[cfg(feature = "openapi")]
    fn schema(schemas: &mut Schemas) -> Json {
        let mut schema = json!({ "type": "array", "items": K::schema(schemas) });
        if MIN > 0 {
            schema["minItems"] = json!(MIN);
        }
        if MAX < usize::MAX {
            schema["maxItems"] = json!(MAX);
        }
        schema
    }
}

/// The elements of a list, each once, in the order of their first occurrence.
pub(crate) fn without_duplicates<T: Clone + Eq + Hash>(mut list: Vec<T>) -> Vec<T> {
    let mut seen = HashSet::with_capacity(list.len());
    list.retain(|element| seen.insert(element.clone()));
    list
}

/// A field that a notification with a poll ignores. Only its type is checked then.
pub(crate) struct IgnoredByPolls<K>(PhantomData<K>);

impl<K: Kind> Kind for IgnoredByPolls<K> {
    type Raw = K::Raw;
    type Valid = K::Valid;

    fn read(value: Value<'_, '_>) -> Option<K::Raw> {
        K::read(value)
    }

    fn read_field(object: &mut Object<'_, '_>, name: &'static str) -> Option<K::Raw> {
        let has_poll = object.has("poll");
        object.take_types_only(name, has_poll, K::read)
    }

    fn equals_absent(raw: &K::Raw) -> bool {
        K::equals_absent(raw)
    }

    fn check(raw: &K::Raw, at: &Path<'_>, validator: &mut Validator) -> Option<K::Valid> {
        K::check(raw, at, validator)
    }

    #[cfg(feature = "openapi")]
    fn schema(schemas: &mut Schemas) -> Json {
        ignored_by_polls(K::schema(schemas))
    }

    #[cfg(feature = "openapi")]
    fn optional_schema(schemas: &mut Schemas) -> Json {
        ignored_by_polls(K::optional_schema(schemas))
    }
}

#[cfg(feature = "openapi")]
fn ignored_by_polls(mut schema: Json) -> Json {
    schema[crate::schema::IGNORED_BY_POLLS] = json!(true);
    schema
}

/// A request model, as [`model!`](crate::request::model) declares it.
pub(crate) trait ModelFields: Sized {
    /// The values of the fields, each of which satisfies the rules of its kind.
    type Fields;

    /// Name of the model.
    #[cfg(feature = "openapi")]
    const NAME: &'static str;

    /// Reads the fields of an object.
    fn read(object: &mut Object<'_, '_>) -> Self;

    /// Checks each field by itself. Returns `None` only if it has added a violation.
    fn check_fields(&self, at: &Path<'_>, validator: &mut Validator) -> Option<Self::Fields>;

    /// The JSON schema of the object.
    #[cfg(feature = "openapi")]
    fn object_schema(schemas: &mut Schemas) -> Json;
}

/// A request model with all its rules.
pub(crate) trait Model: ModelFields {
    /// The validated form.
    type Valid;

    /// Checks every rule. Returns `None` only if it has added a violation.
    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<Self::Valid>;

    /// The rules about several fields.
    #[cfg(feature = "openapi")]
    fn together() -> Together {
        Together::default()
    }
}

/// An object that is another request model.
pub(crate) struct Nested<M>(PhantomData<M>);

impl<M: Model> Kind for Nested<M> {
    type Raw = M;
    type Valid = M::Valid;

    fn read(value: Value<'_, '_>) -> Option<M> {
        value.object(M::read)
    }

    fn check(raw: &M, at: &Path<'_>, validator: &mut Validator) -> Option<M::Valid> {
        raw.check(at, validator)
    }

    #[cfg(feature = "openapi")]
    fn schema(schemas: &mut Schemas) -> Json {
        schemas.add::<M>()
    }
}
