//! Generates the OpenAPI 3.1 document from the routes and the models, in two forms: one that generators of
//! clients read, and a strict one, which describes requests as strictly as they are validated. The rules
//! come from the request models of `notify_core`. Descriptions and examples come from `docs/api.md`.

mod flat;
mod requests;
mod responses;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use http::Method;
use notify_core::schema::{
    CALLER_ID, CAMPAIGN_REF, IDEMPOTENCY_KEY, ModelSchema, SERVER_ID, Schemas,
};
use notify_core::{
    CALLER_ID_CHARS_MAX, ErrorBody, IDEMPOTENCY_KEY_CHARS_MAX, KeyScope, Parameter, ParameterForm,
    ProviderKind, Request, SEGMENT_NAME_CHARS_MAX,
};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

pub(crate) use self::responses::OtherResponse;
use crate::api::handlers::docs_page;
use crate::api::pipeline::scopes::scope_of;
use crate::api::router::{Endpoint, RequestBody, placeholder, segments};

const JSON: &str = "application/json";
const API_KEY: &str = "api_key";
const ADMIN_KEY: &str = "admin_key";
const ADMIN_KEY_HEADER: &str = "admin_key_header";
const PUBLISHABLE_KEY: &str = "publishable_key";
const DEVICE_SECRET: &str = "device_secret";

/// The two forms of the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DocumentForm {
    /// For generators of clients. Rules that they do not read are in descriptions.
    Flat,
    /// Valid are exactly the requests that the server accepts, as far as JSON Schema can express this.
    Strict,
}

/// The JSON model of a request or response body.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    /// Adds the schema of the model. Returns the reference to it.
    add: fn(&mut Schemas) -> Value,
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

    fn reference(self) -> Value {
        (self.add)(&mut Schemas::default())
    }

    fn is<T: ToSchema>(self) -> bool {
        self.reference() == reference(&T::name())
    }
}

/// A reference to a schema.
fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
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

/// The schema name in a reference.
fn name_of(part: &Value) -> Option<&str> {
    part.get("$ref")?.as_str()?.strip_prefix("#/components/schemas/")
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

/// Whether the request accepts an `Idempotency-Key`.
fn takes_idempotency_key(route: &Endpoint) -> bool {
    route.method == Method::POST && security_schemes(route.path) == [[API_KEY]]
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

/// The credentials that a request needs: one of the lists, and everything in it.
fn security_schemes(template: &str) -> &'static [&'static [&'static str]] {
    let has_device = template.contains("{device_id}");
    match segments(template).next() {
        Some("v1") => &[&[API_KEY]],
        Some("admin") => &[&[ADMIN_KEY], &[ADMIN_KEY_HEADER]],
        Some("device") if has_device => &[&[PUBLISHABLE_KEY, DEVICE_SECRET]],
        Some("device") => &[&[PUBLISHABLE_KEY]],
        Some("web") if has_device => &[&[DEVICE_SECRET]],
        _ => &[],
    }
}

/// The chapter of the reference that an operation belongs to.
fn tag(route: &Endpoint) -> &'static str {
    section_of(route).map_or("", |section| section.chapter)
}

// `docs/api.md` is the source of descriptions and examples (`build.rs` finds it). The examples of the document
// are tested against the models (`tests/tests/docs`).

const REFERENCE: &str = include_str!(env!("SERVER_API_REFERENCE"));

static SECTIONS: LazyLock<BTreeMap<&'static str, Section>> = LazyLock::new(|| sections(REFERENCE));

/// The section of `docs/api.md` about one endpoint.
#[derive(Default)]
struct Section {
    /// The chapter of the section.
    chapter: &'static str,
    /// The text of the section without the examples.
    description: String,
    /// Request bodies.
    requests: Vec<Example>,
    /// Response bodies.
    responses: Vec<Example>,
}

/// A body, with a title if the endpoint has several.
struct Example {
    title: &'static str,
    body: Value,
}

/// The section of an endpoint by its method and path.
fn section(endpoint: &str) -> Option<&'static Section> {
    SECTIONS.get(endpoint)
}

/// Adds examples to a media type.
fn add_examples(media_type: &mut Value, examples: &[Example]) {
    match examples {
        [] => {}
        [only] => media_type["example"] = only.body.clone(),
        several => {
            let by_name = several.iter().map(|example| {
                let example_object = json!({ "summary": example.title, "value": example.body });
                (example.title.replace(' ', "_"), example_object)
            });
            media_type["examples"] = Value::Object(by_name.collect::<Map<_, _>>());
        }
    }
}

/// The sections of a document, by the method and path of their endpoint. The text of a chapter
/// before its first endpoint is skipped.
fn sections(document: &'static str) -> BTreeMap<&'static str, Section> {
    let mut sections = BTreeMap::new();
    let (mut chapter, mut endpoint) = ("", None);
    let mut section = Section::default();
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("## ") || line.starts_with("### ") {
            if let Some(endpoint) = endpoint.take() {
                sections.insert(endpoint, section);
            }
            chapter = line.strip_prefix("## ").unwrap_or(chapter);
            section = Section { chapter, ..Section::default() };
            endpoint = line.strip_prefix("### `").map(|rest| rest.trim_end_matches('`'));
        } else if let Some(fence) = line.strip_prefix("```") {
            let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
            section.add_example(fence, &body.join("\n"));
        } else {
            section.description.push_str(&without_links(line));
            section.description.push('\n');
        }
    }
    if let Some(endpoint) = endpoint {
        sections.insert(endpoint, section);
    }
    for section in sections.values_mut() {
        section.description = section.description.trim().to_owned();
    }
    sections
}

impl Section {
    /// Adds the body of a fenced block: `json` is a response, `json request` and `form request` are
    /// requests. A title follows after a colon.
    fn add_example(&mut self, fence: &'static str, text: &str) {
        let (kind, title) = fence.split_once(": ").unwrap_or((fence, ""));
        let body = if kind.starts_with("form") {
            url::form_urlencoded::parse(text.as_bytes())
                .map(|(name, value)| (name.into_owned(), Value::from(value)))
                .collect()
        } else {
            serde_json::from_str(text).unwrap_or_default()
        };
        let examples =
            if kind.ends_with("request") { &mut self.requests } else { &mut self.responses };
        examples.push(Example { title, body });
    }
}

/// A line without relative links, which do not work outside of the documentation.
fn without_links(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, link)) = rest.split_once('[') {
        let parts = link.split_once("](").and_then(|(label, after)| {
            let (target, after) = after.split_once(')')?;
            Some((label, target, after))
        });
        text.push_str(before);
        match parts {
            Some((label, target, after)) if target.starts_with("http") => {
                text.push_str(&format!("[{label}]({target})"));
                rest = after;
            }
            Some((label, _, after)) if !label.contains('[') => {
                text.push_str(label);
                rest = after;
            }
            Some(_) | None => {
                text.push('[');
                rest = link;
            }
        }
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod reference_tests {
    use super::*;

    #[test]
    fn parses_sections_with_chapter_text_and_examples() {
        let document = "# All\n\nFor everyone.\n\n## Things\n\nMany.\n\n### `POST /v1/things`\n\n\
            Makes one,\n[as elsewhere](#things) or [there](https://there.example/).\n\n\
            ```json request: a small one\n{\"size\": 1}\n```\n```json request: a large one\n\
            {\"size\": 9}\n```\n```json\n{\"id\": \"a\"}\n```\nOnly `[1]` more.\n\n## Other\n\nText.\n";
        let sections = sections(document);
        assert_eq!(sections.keys().collect::<Vec<_>>(), [&"POST /v1/things"]);
        let section = &sections["POST /v1/things"];
        assert_eq!(section.chapter, "Things");
        assert_eq!(
            section.description,
            "Makes one,\nas elsewhere or [there](https://there.example/).\n\nOnly `[1]` more."
        );
        let mut content = json!({});
        add_examples(&mut content, &section.requests);
        assert_eq!(
            content,
            json!({ "examples": {
                "a_small_one": { "summary": "a small one", "value": { "size": 1 } },
                "a_large_one": { "summary": "a large one", "value": { "size": 9 } },
            } })
        );
        let mut content = json!({});
        add_examples(&mut content, &section.responses);
        assert_eq!(content, json!({ "example": { "id": "a" } }));
    }
}
