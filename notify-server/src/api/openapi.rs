//! OpenAPI 3.1 out of the table of routes, so that the two cannot disagree.

use std::collections::BTreeMap;

use http::Method;
use notify_core::ErrorBody;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::path::{HttpMethod, OperationBuilder, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{ComponentsBuilder, Object, Schema, Type};
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{
    ContentBuilder, InfoBuilder, OpenApiBuilder, PathItem, PathsBuilder, Ref, RefOr, Required,
    ResponseBuilder,
};

use super::route::{Route, placeholder, segments};

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

    fn reference(self) -> Ref {
        Ref::from_schema_name((self.name)())
    }
}

/// The document, as indented JSON.
pub(crate) fn document(routes: &[Route]) -> String {
    let mut schemas = Named::new();
    Shape::of::<ErrorBody>().add_to(&mut schemas);
    let mut items: BTreeMap<&str, PathItem> = BTreeMap::new();
    for route in routes {
        for shape in [route.request, route.response].into_iter().flatten() {
            shape.add_to(&mut schemas);
        }
        let item = PathItem::new(http_method(&route.method), operation(route));
        match items.get_mut(route.template) {
            Some(known) => known.merge_operations(item),
            None => drop(items.insert(route.template, item)),
        }
    }
    let paths = items
        .into_iter()
        .fold(PathsBuilder::new(), |paths, (template, item)| paths.path(template, item));
    let mut components = ComponentsBuilder::new().schemas_from_iter(schemas).build();
    let api_key = ApiKey::Header(ApiKeyValue::new("X-API-Key"));
    components.add_security_scheme(API_KEY, SecurityScheme::ApiKey(api_key));
    let bearer = Http::new(HttpAuthScheme::Bearer);
    components.add_security_scheme(ADMIN_KEY, SecurityScheme::Http(bearer));
    let secret = ApiKey::Header(ApiKeyValue::new("X-Device-Secret"));
    components.add_security_scheme(DEVICE_SECRET, SecurityScheme::ApiKey(secret));
    let info = InfoBuilder::new()
        .title("Notify")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some("Push notifications and their enrichment. Every answer that is not 200 is `{\"errors\": [string]}`."))
        .build();
    let document =
        OpenApiBuilder::new().info(info).paths(paths).components(Some(components)).build();
    let mut document = serde_json::to_value(document).expect("it has string keys");
    tell_users(&mut document);
    serde_json::to_string_pretty(&document).expect("it has string keys")
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

fn operation(route: &Route) -> OperationBuilder {
    let mut operation = OperationBuilder::new()
        .summary(Some(route.summary))
        .extensions(
            (!route.rows.is_empty())
                .then(|| ExtensionsBuilder::new().add("x-rows", route.rows).build()),
        )
        .tag(tag(route.template))
        .operation_id(Some(operation_id(route)));
    for name in segments(route.template).filter_map(placeholder) {
        operation = operation.parameter(parameter(name, ParameterIn::Path, None));
    }
    if route.method == Method::POST && route.template.starts_with("/v1/") {
        let description = "Makes a repeat answer what the first one did";
        let key = parameter("Idempotency-Key", ParameterIn::Header, Some(&description));
        operation = operation.parameter(key);
    }
    for (name, description) in route.query {
        operation = operation.parameter(parameter(name, ParameterIn::Query, Some(description)));
    }
    if let Some(shape) = route.request {
        let content = ContentBuilder::new().schema(Some(shape.reference())).build();
        operation =
            operation.request_body(Some(RequestBodyBuilder::new().content(JSON, content).build()));
    }
    let mut answer = ResponseBuilder::new().description("Success");
    if let Some(shape) = route.response {
        let content = ContentBuilder::new().schema(Some(shape.reference())).build();
        answer = answer.content(JSON, content);
    }
    operation = operation.response("200", answer.build());
    let scheme = security(route.template);
    if scheme.is_none() && !route.template.starts_with("/web/") {
        return operation;
    }
    let error = Ref::from_schema_name(ErrorBody::name());
    let content = ContentBuilder::new().schema(Some(error)).build();
    let error = ResponseBuilder::new().description("What is wrong").content(JSON, content);
    operation = operation.response("default", error.build());
    match scheme {
        Some(scheme) => operation.security(SecurityRequirement::new(scheme, Vec::<String>::new())),
        None => operation,
    }
}

fn parameter(
    name: &str,
    place: ParameterIn,
    description: Option<&&'static str>,
) -> utoipa::openapi::path::Parameter {
    let required = if place == ParameterIn::Path { Required::True } else { Required::False };
    ParameterBuilder::new()
        .name(name)
        .parameter_in(place)
        .required(required)
        .description(description.copied())
        .schema(Some(Object::with_type(Type::String)))
        .build()
}

fn security(template: &str) -> Option<&'static str> {
    let mut segments = segments(template);
    match segments.next() {
        Some("v1") => Some(API_KEY),
        Some("admin") => Some(ADMIN_KEY),
        Some("web") if template.contains("{device_id}") => Some(DEVICE_SECRET),
        _ => None,
    }
}

/// The resource: the first segment that is neither version nor area.
fn tag(template: &'static str) -> &'static str {
    let area =
        if template.starts_with("/admin") { 2 } else { usize::from(template.starts_with("/v1/")) };
    segments(template).nth(area).unwrap_or("server")
}

/// `post_v1_devices_by_device_id_tags`: unique, since method and template are.
fn operation_id(route: &Route) -> String {
    let words = segments(route.template).map(|segment| match placeholder(segment) {
        Some(name) => format!("by_{name}"),
        None => segment.replace(['.', '-'], "_"),
    });
    let words: Vec<String> = words.collect();
    format!("{}_{}", route.method.as_str().to_lowercase(), words.join("_"))
}

fn http_method(method: &Method) -> HttpMethod {
    match *method {
        Method::POST => HttpMethod::Post,
        Method::PUT => HttpMethod::Put,
        Method::PATCH => HttpMethod::Patch,
        Method::DELETE => HttpMethod::Delete,
        _ => HttpMethod::Get,
    }
}

/// What takes any JSON object, such as a provider's configuration.
pub(crate) fn any_object() -> RefOr<Schema> {
    Object::with_type(Type::Object).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_not_sent_to_rows_that_they_cannot_read() {
        for (text, told) in [
            ("Where a notification stands (B20).", "Where a notification stands."),
            ("`Feed` (spec 2.5): an `id`, or a `url` (B29).", "`Feed`: an `id`, or a `url`."),
            ("What it may (spec 2.5, B29)", "What it may"),
            ("Unix ms (UTC)", "Unix ms (UTC)"),
            ("Bold (B) and (spec)", "Bold (B) and (spec)"),
            ("open (B20", "open (B20"),
        ] {
            assert_eq!(without_rows(text), told);
        }
        let document = document(&crate::api::routes::routes());
        let document: Value = serde_json::from_str(&document).unwrap();
        let text = document["components"].to_string();
        assert!(text.contains("description") && !text.contains("(B") && !text.contains("(spec"));
    }
}
