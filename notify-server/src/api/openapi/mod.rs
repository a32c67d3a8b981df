//! Generates the OpenAPI 3.1 document from the routes and the models, in two forms: one that generators of
//! clients read, and a strict one, which describes requests as strictly as they are validated. The rules
//! come from the request models of `notify_core`. Descriptions and examples come from `docs/api.md`.

mod flat;
mod requests;
mod responses;
mod sections;
mod security;
pub(crate) mod shape;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use notify_core::schema::{
    CALLER_ID, CAMPAIGN_REF, IDEMPOTENCY_KEY, ModelSchema, SERVER_ID, Schemas,
};
use notify_core::{
    CALLER_ID_CHARS_MAX, ErrorBody, IDEMPOTENCY_KEY_CHARS_MAX, KeyScope, Parameter, ParameterForm,
    ProviderKind, SEGMENT_NAME_CHARS_MAX,
};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use self::sections::{Section, add_examples, section};
use self::security::{
    ADMIN_KEY, ADMIN_KEY_HEADER, API_KEY, DEVICE_SECRET, PUBLISHABLE_KEY, security_schemes,
    takes_idempotency_key,
};
use self::shape::{JSON, Shape, name_of};
use crate::api::handlers::docs_page;
use crate::api::path::{placeholder, segments};
use crate::api::pipeline::scopes::scope_of;
use crate::api::router::{Endpoint, RequestBody};

/// The two forms of the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DocumentForm {
    /// For generators of clients. Rules that they do not read are in descriptions.
    Flat,
    /// Valid are exactly the requests that the server accepts, as far as JSON Schema can express this.
    Strict,
}

/// The document. It is a struct, because the members of a `Map` would be sorted by name: here they
/// have the order in which people read them.
#[derive(Serialize)]
struct Document {
    openapi: &'static str,
    info: Value,
    servers: Value,
    tags: Vec<Value>,
    paths: Paths,
    components: Value,
}

/// The paths in the order of the routes.
struct Paths(Vec<(&'static str, Item)>);

/// The operations of one path, by method.
struct Item(Vec<(String, Value)>);

/// Order of methods: create, read, update, delete.
const METHODS: [&str; 5] = ["post", "get", "put", "patch", "delete"];

impl Paths {
    fn of(routes: &[Endpoint], schemas: &Map<String, Value>, form: DocumentForm) -> Self {
        let mut paths: Vec<(&'static str, Item)> = Vec::new();
        for route in routes {
            let mut operation = operation(route);
            if form == DocumentForm::Flat {
                let parameters = operation["parameters"].as_array_mut();
                for parameter in parameters.into_iter().flatten() {
                    parameter["schema"] = flat::parameter(&parameter["schema"], schemas);
                }
            }
            let method = route.method.as_str().to_lowercase();
            match paths.iter_mut().find(|(template, _)| *template == route.path) {
                Some((_, item)) => item.0.push((method, operation)),
                None => paths.push((route.path, Item(vec![(method, operation)]))),
            }
        }
        for (_, item) in &mut paths {
            item.0.sort_by_key(|(method, _)| METHODS.iter().position(|other| other == method));
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

/// The chapters of the operations, in the order of the routes.
fn tags(routes: &[Endpoint]) -> Vec<Value> {
    let mut tags: Vec<Value> = Vec::new();
    for route in routes {
        let tag = json!({ "name": tag(route) });
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    tags
}

/// The document, as indented JSON.
pub(crate) fn document(routes: &[Endpoint], form: DocumentForm) -> String {
    let schemas = schemas(routes, form);
    let paths = Paths::of(routes, &schemas, form);
    let components = json!({
        "schemas": schemas,
        "responses": responses::shared(),
        "headers": responses::headers(),
        "securitySchemes": {
            API_KEY: { "type": "apiKey", "in": "header", "name": "X-API-Key" },
            PUBLISHABLE_KEY: { "type": "apiKey", "in": "header", "name": "X-API-Key" },
            ADMIN_KEY: { "type": "http", "scheme": "bearer" },
            ADMIN_KEY_HEADER: { "type": "apiKey", "in": "header", "name": "X-API-Key" },
            DEVICE_SECRET: { "type": "apiKey", "in": "header", "name": "X-Device-Secret" },
        },
    });
    let document = Document {
        openapi: "3.1.0",
        info: json!({
            "title": "Notify",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Push notifications and their enrichment. `/v1` is the API of \
                applications; it takes an API key in the header `X-API-Key`. `/device/v1` is the API of \
                apps for their own device; it takes a publishable key in the same header. `/admin/v1` is \
                the API of administrators; it takes an admin key as `Authorization: Bearer` or, \
                behind a proxy that uses `Authorization` itself, in the header `X-API-Key`. All their \
                responses other than 200 are `{\"errors\": [string]}`. In requests, `null` means \
                that a field is absent; as the value of an attribute, it removes the attribute. For \
                optional texts other than ids, `\"\"` means the same as `null`. This document has two forms. \
                Generators of clients read that at `openapi.json`, in which some rules are only in \
                descriptions. That at `openapi.json?strict=true` has all rules of requests as schemas.",
        }),
        // Relative to the address of the document (OpenAPI 3.1, section 4.8.5), so that it is right behind
        // every proxy.
        servers: json!([{ "url": ".", "description": "The server that sent this document" }]),
        tags: tags(routes),
        paths,
        components,
    };
    serde_json::to_string_pretty(&document).expect("it has string keys")
}

/// The schemas of all models, and references to those of requests and of responses.
fn models(routes: &[Endpoint]) -> (BTreeMap<String, ModelSchema>, Vec<Value>, Vec<Value>) {
    let mut added = Schemas::default();
    let requests = routes.iter().filter_map(|route| route.docs.json_request());
    let requests: Vec<Value> = requests.map(|shape| (shape.add)(&mut added)).collect();
    let responses = routes.iter().filter_map(|route| route.docs.response);
    let responses = responses.chain([Shape::of::<ErrorBody>()]);
    let responses: Vec<Value> = responses.map(|shape| (shape.add)(&mut added)).collect();
    let mut models = added.into_map();
    for model in models.values_mut() {
        unlink_descriptions(&mut model.schema);
    }
    (models, requests, responses)
}

/// The schemas of the document.
fn schemas(routes: &[Endpoint], form: DocumentForm) -> Map<String, Value> {
    let (models, requests, responses) = models(routes);
    match form {
        DocumentForm::Strict => requests::strict(models),
        DocumentForm::Flat => {
            let mut schemas = requests::described(models);
            let in_responses = reachable(&schemas, &responses);
            flat::flatten(&mut schemas, &in_responses);
            // Other schemas were merged into these.
            let used = reachable(&schemas, &[requests, responses].concat());
            schemas.retain(|name, _| used.contains(name));
            schemas
        }
    }
}

/// The names of the schemas that `roots` refer to, directly or indirectly.
fn reachable(schemas: &Map<String, Value>, roots: &[Value]) -> BTreeSet<String> {
    fn visit(part: &Value, schemas: &Map<String, Value>, names: &mut BTreeSet<String>) {
        match part {
            Value::Object(members) => {
                if let Some(name) = name_of(part)
                    && names.insert(name.to_owned())
                {
                    visit(&schemas[name], schemas, names);
                }
                members.values().for_each(|member| visit(member, schemas, names));
            }
            Value::Array(parts) => parts.iter().for_each(|part| visit(part, schemas, names)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut names = BTreeSet::new();
    roots.iter().for_each(|root| visit(root, schemas, &mut names));
    names
}

/// Removes the links of rustdoc from descriptions, which come from the types.
fn unlink_descriptions(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::String(text)) = members.get_mut("description") {
                *text = text.replace("[`crate::", "`").replace("[`", "`").replace("`]", "`");
            }
            members.values_mut().for_each(unlink_descriptions);
        }
        Value::Array(parts) => parts.iter_mut().for_each(unlink_descriptions),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

// Operations.

fn operation(route: &Endpoint) -> Value {
    let section = section_of(route);
    let mut operation = json!({
        "summary": route.docs.summary,
        "description": section.map_or("", |section| &section.description),
        "tags": [tag(route)],
        "operationId": route.docs.operation_id,
        "parameters": parameters(route),
        "responses": responses::of(route, section.map_or(&[], |section| &section.responses)),
    });
    let body = route.docs.request.map(|body| match body {
        RequestBody::Json { shape, required } => (JSON, shape.reference(), required),
        RequestBody::Raw { media_type, schema } => (media_type, schema(), true),
    });
    if let Some((media_type, schema, required)) = body {
        let mut content = json!({ "schema": schema });
        add_examples(&mut content, section.map_or(&[], |section| &section.requests));
        operation["requestBody"] =
            json!({ "required": required, "content": { media_type: content } });
    }
    // OpenAPI 3.1 lists here what a credential of any scheme must allow. The list is empty for a route that
    // needs no credential.
    let scopes: Vec<KeyScope> = scope_of(route).into_iter().collect();
    let requirement = |schemes: &&[&str]| -> Map<String, Value> {
        schemes.iter().map(|scheme| ((*scheme).to_owned(), json!(scopes))).collect()
    };
    operation["security"] = security_schemes(route.path).iter().map(requirement).collect();
    operation
}

fn section_of(route: &Endpoint) -> Option<&'static Section> {
    section(&format!("{} {}", route.method, route.path))
}

fn parameters(route: &Endpoint) -> Vec<Value> {
    let mut parameters: Vec<Value> = segments(route.path)
        .filter_map(placeholder)
        .map(|name| {
            json!({
                "name": name,
                "in": "path",
                "required": true,
                "schema": placeholder_schema(route.path, name),
            })
        })
        .collect();
    if takes_idempotency_key(route) {
        parameters.push(json!({
            "name": "Idempotency-Key",
            "in": "header",
            "required": false,
            "description": "A repeated request with the same key gets the response of the first one",
            "schema": {
                "type": "string",
                "minLength": 1,
                "maxLength": IDEMPOTENCY_KEY_CHARS_MAX,
                "pattern": IDEMPOTENCY_KEY,
            },
        }));
    }
    parameters.extend(route.docs.query.iter().map(query_parameter));
    parameters
}

fn query_parameter(parameter: &Parameter) -> Value {
    let allows_empty =
        matches!(parameter.form, ParameterForm::Text | ParameterForm::Integer { .. });
    json!({
        "name": parameter.name,
        "in": "query",
        "required": false,
        "description": parameter.about,
        "allowEmptyValue": allows_empty,
        "schema": query_schema(parameter.form),
    })
}

/// The schema of a query parameter. It does not cover the empty value, which `allowEmptyValue`
/// allows: such an empty parameter equals an absent one.
fn query_schema(form: ParameterForm) -> Value {
    match form {
        ParameterForm::Text => json!({ "type": "string" }),
        ParameterForm::NonEmpty => json!({ "type": "string", "minLength": 1 }),
        ParameterForm::Uuid => json!({ "type": "string", "format": "uuid" }),
        ParameterForm::Integer { min, max, or: None } => {
            json!({ "type": "integer", "format": "int64", "minimum": min, "maximum": max })
        }
        ParameterForm::Integer { min, max, or: Some(word) } => json!({ "oneOf": [
            { "type": "integer", "format": "int64", "minimum": min, "maximum": max },
            { "const": word },
        ] }),
        ParameterForm::OneOf(names) => json!({ "type": "string", "enum": names }),
        ParameterForm::ListOf { names, max } => {
            let patterns = names.iter().map(|name| name.replace('.', r"\.")).collect::<Vec<_>>();
            let name = patterns.join("|");
            let more = max - 1;
            json!({
                "type": "string",
                "pattern": format!("^(?:{name})(?:,(?:{name})){{0,{more}}}$"),
            })
        }
    }
}

/// The schema of a path parameter; any other text is 404.
fn placeholder_schema(template: &str, name: &str) -> Value {
    let is_notification =
        template.starts_with("/v1/notifications/") || template.starts_with("/v1/polls/");
    match name {
        "device_id" | "user_id" => caller_id(),
        "id" if is_notification => caller_id(),
        "name" if template.starts_with("/v1/segments/") => {
            json!({ "type": "string", "minLength": 1, "maxLength": SEGMENT_NAME_CHARS_MAX })
        }
        "name" => json!({ "type": "string", "minLength": 1 }),
        "provider" => {
            json!({ "type": "string", "enum": ProviderKind::ALL.map(ProviderKind::as_str) })
        }
        "campaign_id" => json!({ "type": "string", "pattern": CAMPAIGN_REF }),
        "file" => json!({ "type": "string", "enum": docs_page::files() }),
        _ => json!({ "type": "string", "format": "uuid", "pattern": SERVER_ID }),
    }
}

fn caller_id() -> Value {
    json!({
        "type": "string",
        "minLength": 1,
        "maxLength": CALLER_ID_CHARS_MAX,
        "pattern": CALLER_ID,
    })
}

/// The chapter of the reference that an operation belongs to.
fn tag(route: &Endpoint) -> &'static str {
    section_of(route).map_or("", |section| section.chapter)
}
