//! OpenAPI 3.1 out of the table of routes and the models, so that they cannot disagree. Requests are
//! described as strictly as they are read: the bounds come from `notify_core::schema`. Descriptions and
//! examples come from `docs/api.md`.

mod answers;
mod operations;
mod reference;
mod requests;

use notify_core::ErrorBody;
use serde::{Serialize, Serializer};
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

    fn is<T: ToSchema>(self) -> bool {
        (self.name)() == T::name()
    }
}

/// A reference to the schema of that name.
fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// The document, in the order in which it is read: what a `Map` holds is sorted by name.
#[derive(Serialize)]
struct Document {
    openapi: &'static str,
    info: Value,
    tags: Vec<Value>,
    paths: Paths,
    components: Value,
}

/// The paths in the order of the routes, the application's API first.
struct Paths(Vec<(&'static str, Item)>);

/// The operations of one path, by method.
struct Item(Vec<(String, Value)>);

/// Methods in the order in which people read them: create, read, update, delete.
const METHODS: [&str; 5] = ["post", "get", "put", "patch", "delete"];

impl Paths {
    fn of(routes: &[Route], renamed: &requests::Renamed) -> Self {
        let mut paths: Vec<(&'static str, Item)> = Vec::new();
        for route in routes {
            let mut operation = operations::operation(route);
            if let Some(body) = operation.get_mut("requestBody") {
                renamed.apply(&mut body["content"]);
            }
            let method = route.method.as_str().to_lowercase();
            match paths.iter_mut().find(|(template, _)| *template == route.template) {
                Some((_, item)) => item.0.push((method, operation)),
                None => paths.push((route.template, Item(vec![(method, operation)]))),
            }
        }
        for (_, item) in &mut paths {
            item.0.sort_by_key(|(method, _)| METHODS.iter().position(|known| known == method));
        }
        Self(paths)
    }
}

impl Serialize for Paths {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(template, item)| (template, item)))
    }
}

impl Serialize for Item {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(method, operation)| (method, operation)))
    }
}

/// The chapters that the operations are grouped by, in the order of the routes.
fn tags(routes: &[Route]) -> Vec<Value> {
    let mut tags: Vec<Value> = Vec::new();
    for route in routes {
        let tag = json!({ "name": operations::tag(route) });
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    tags
}

/// The document, as indented JSON.
pub(crate) fn document(routes: &[Route]) -> String {
    let mut schemas = schemas(routes);
    let renamed = requests::make_strict(&mut schemas, routes);
    let mut components = json!({
        "schemas": schemas,
        "responses": answers::shared(),
        "headers": answers::headers(),
        "securitySchemes": {
            API_KEY: { "type": "apiKey", "in": "header", "name": "X-API-Key" },
            ADMIN_KEY: { "type": "http", "scheme": "bearer" },
            DEVICE_SECRET: { "type": "apiKey", "in": "header", "name": "X-Device-Secret" },
        },
    });
    remove_citations(&mut components);
    let document = Document {
        openapi: "3.1.0",
        info: json!({
            "title": "Notify",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Push notifications and their enrichment. `/v1` is the API of applications \
                and takes an API key in the header `X-API-Key`, `/admin/v1` that of administrators and \
                takes an admin key as `Authorization: Bearer`. \
                Every answer of them that is not 200 is `{\"errors\": [string]}`. In requests `null`, \
                and `\"\"` for optional texts other than ids, equal leaving a field out.",
        }),
        tags: tags(routes),
        paths: Paths::of(routes, &renamed),
        components,
    };
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
fn remove_citations(part: &mut Value) {
    match part {
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(text) if name == "description" => *text = without_rows(text),
                    member => remove_citations(member),
                }
            }
        }
        Value::Array(parts) => parts.iter_mut().for_each(remove_citations),
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
