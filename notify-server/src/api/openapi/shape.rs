//! The bodies of requests and responses, as the routes describe them.

use notify_core::Request;
use notify_core::schema::Schemas;
use serde_json::{Value, json};
use utoipa::ToSchema;

pub(super) const JSON: &str = "application/json";

/// The JSON model of a request or response body.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    /// Adds the schema of the model. Returns the reference to it.
    pub(super) add: fn(&mut Schemas) -> Value,
}

impl Shape {
    /// The shape of a response.
    pub(crate) fn of<T: ToSchema>() -> Self {
        Self { add: Schemas::add_type::<T> }
    }

    /// The shape of a request.
    pub(crate) fn of_request<R: Request>() -> Self {
        Self { add: R::add_schema }
    }

    pub(super) fn reference(self) -> Value {
        (self.add)(&mut Schemas::default())
    }

    pub(super) fn is<T: ToSchema>(self) -> bool {
        self.reference() == reference(&T::name())
    }
}

/// The schema name in a reference.
pub(super) fn name_of(part: &Value) -> Option<&str> {
    part.get("$ref")?.as_str()?.strip_prefix("#/components/schemas/")
}

/// A reference to a schema.
pub(super) fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// A successful response whose body is not the JSON of a model.
#[derive(Clone, Copy)]
pub(crate) struct OtherResponse {
    /// Its status.
    pub(crate) status: u16,
    /// Its media types; empty if it has no body.
    pub(crate) media_types: &'static [&'static str],
}

impl OtherResponse {
    /// 200 with a body.
    pub(crate) const fn ok(media_types: &'static [&'static str]) -> Self {
        Self { status: 200, media_types }
    }

    /// The client has the current version.
    pub(crate) const NOT_MODIFIED: Self = Self { status: 304, media_types: &[] };
    /// A redirect.
    pub(crate) const SEE_OTHER: Self = Self { status: 303, media_types: &[] };
}
