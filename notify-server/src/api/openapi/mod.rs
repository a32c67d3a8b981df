//! OpenAPI 3.1 out of the table of routes and the models, so that they cannot disagree. Requests are
//! described as strictly as they are read: the bounds come from `notify_core::schema`.

mod answers;
mod operations;
mod requests;

use notify_core::ErrorBody;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{Object, Schema, Type};

use super::route::Route;

pub(crate) use answers::Answer;

const JSON: &str = "application/json";
const API_KEY: &str = "api_key";
const ADMIN_KEY: &str = "admin_key";
const DEVICE_SECRET: &str = "device_secret";

type Named = Vec<(String, RefOr<Schema>)>;

/// The JSON shape of a body or an answer.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    name: fn() -> std::borrow::Cow<'static, str>,
    collect: fn(&mut Named),
}

impl Shape {
    /// The shape of a model.
    pub(crate) fn of<T: ToSchema>() -> Self {
        Self {
            name: T::name,
            collect: |schemas| {
                T::schemas(schemas);
                schemas.push((T::name().into_owned(), T::schema()));
            },
        }
    }

    fn add_to(self, schemas: &mut Named) {
        (self.collect)(schemas);
    }

    fn reference(self) -> Value {
        reference(&(self.name)())
    }
}

/// A reference to the schema of that name.
fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// The document, as indented JSON.
pub(crate) fn document(routes: &[Route]) -> String {
    let mut paths: Map<String, Value> = Map::new();
    for route in routes {
        let item = paths.entry(route.template).or_insert_with(|| json!({}));
        item[route.method.as_str().to_lowercase()] = operations::operation(route);
    }
    let mut schemas = schemas(routes);
    let renamed = requests::make_strict(&mut schemas, routes);
    for path in paths.values_mut() {
        for operation in path.as_object_mut().into_iter().flat_map(Map::values_mut) {
            if let Some(body) = operation.get_mut("requestBody") {
                renamed.apply(body);
            }
        }
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Notify",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Push notifications and their enrichment. Every answer of `/v1` and \
                `/admin/v1` that is not 200 is `{\"errors\": [string]}`. In requests `null`, and `\"\"` \
                for optional texts other than ids, equal leaving a field out.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": answers::shared(),
            "headers": answers::headers(),
            "securitySchemes": {
                API_KEY: { "type": "apiKey", "in": "header", "name": "X-API-Key" },
                ADMIN_KEY: { "type": "http", "scheme": "bearer" },
                DEVICE_SECRET: { "type": "apiKey", "in": "header", "name": "X-Device-Secret" },
            },
        },
    });
    tell_users(&mut document);
    serde_json::to_string_pretty(&document).expect("it has string keys")
}

/// The schemas of every model that a route reads or answers, as their types give them.
fn schemas(routes: &[Route]) -> Map<String, Value> {
    let mut named = Named::new();
    Shape::of::<ErrorBody>().add_to(&mut named);
    for shape in routes.iter().flat_map(|route| [route.request, route.response]).flatten() {
        shape.add_to(&mut named);
    }
    let json = |schema| serde_json::to_value(schema).expect("it has string keys");
    let mut schemas: Map<String, Value> =
        named.into_iter().map(|(name, schema)| (name, json(schema))).collect();
    schemas.insert("ProviderConfig".to_owned(), crate::provider_config::schema());
    schemas
}

/// Takes out of every description what only readers of the sources can look up.
fn tell_users(part: &mut Value) {
    match part {
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(text) if name == "description" => *text = without_rows(text),
                    member => tell_users(member),
                }
            }
        }
        Value::Array(parts) => parts.iter_mut().for_each(tell_users),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A text without the rows that it cites in brackets, such as `(spec 4.1, B12)`.
fn without_rows(text: &str) -> String {
    let mut told = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, within)) = rest.split_once('(') {
        let Some((bracket, after)) = within.split_once(')') else { break };
        if bracket.split(", ").all(is_row) {
            told.push_str(before.trim_end());
        } else {
            told.push_str(&format!("{before}({bracket})"));
        }
        rest = after;
    }
    told.push_str(rest);
    told
}

/// `spec 4.1`, `B12`.
fn is_row(text: &str) -> bool {
    let number = text.strip_prefix("spec ").or_else(|| text.strip_prefix('B'));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    number.is_some_and(|number| !number.is_empty() && is_number(number))
}

/// What takes any JSON object, such as a provider's configuration.
pub(crate) fn any_object() -> RefOr<Schema> {
    Object::with_type(Type::Object).into()
}

#[cfg(test)]
mod tests;
