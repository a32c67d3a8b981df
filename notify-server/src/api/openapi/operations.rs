//! One operation of the document: what a route reads.

use http::Method;
use notify_core::{
    CALLER_ID_CHARS_MAX, IDEMPOTENCY_KEY_CHARS_MAX, Parameter, ParameterForm, ProviderKind,
    schema::{CALLER_ID, CAMPAIGN_REF, IDEMPOTENCY_KEY, SERVER_ID},
};
use serde_json::{Value, json};

use super::reference::{Section, add_examples, section};
use super::{ADMIN_KEY, API_KEY, DEVICE_SECRET, JSON, answers};
use crate::api::docs_page;
use crate::api::route::{Route, placeholder, segments};

pub(super) fn operation(route: &Route) -> Value {
    let section = section_of(route);
    let mut operation = json!({
        "summary": route.summary,
        "description": section.map_or("", |section| &section.description),
        "tags": [tag(route)],
        "operationId": route.id,
        "parameters": parameters(route),
        "responses": answers::of(route, section.map_or(&[], |section| &section.answers)),
    });
    if !route.rows.is_empty() {
        operation["x-rows"] = json!(route.rows);
    }
    let body = match (route.request, route.reads) {
        (Some(shape), _) => Some((JSON, shape.reference(), route.needs_body)),
        (None, Some(body)) => Some((body.media_type, (body.schema)(), true)),
        (None, None) => None,
    };
    if let Some((media_type, schema, required)) = body {
        let mut content = json!({ "schema": schema });
        add_examples(&mut content, section.map_or(&[], |section| &section.requests));
        operation["requestBody"] =
            json!({ "required": required, "content": { media_type: content } });
    }
    if let Some(scheme) = security(route.template) {
        operation["security"] = json!([{ scheme: [] }]);
    }
    operation
}

fn section_of(route: &Route) -> Option<&'static Section> {
    section(&format!("{} {}", route.method, route.template))
}

fn parameters(route: &Route) -> Vec<Value> {
    let mut parameters: Vec<Value> = segments(route.template)
        .filter_map(placeholder)
        .map(|name| {
            json!({
                "name": name,
                "in": "path",
                "required": true,
                "schema": placeholder_schema(route.template, name),
            })
        })
        .collect();
    if takes_idempotency_key(route) {
        parameters.push(json!({
            "name": "Idempotency-Key",
            "in": "header",
            "required": false,
            "description": "Makes a repeat answer what the first one did",
            "schema": {
                "type": "string",
                "minLength": 1,
                "maxLength": IDEMPOTENCY_KEY_CHARS_MAX,
                "pattern": IDEMPOTENCY_KEY,
            },
        }));
    }
    parameters.extend(route.query.iter().map(query_parameter));
    parameters
}

/// Whether repeats of the request are known (B8).
pub(super) fn takes_idempotency_key(route: &Route) -> bool {
    route.method == Method::POST && security(route.template) == Some(API_KEY)
}

fn query_parameter(parameter: &Parameter) -> Value {
    let is_id = matches!(parameter.form, ParameterForm::Id);
    json!({
        "name": parameter.name,
        "in": "query",
        "required": false,
        "description": parameter.about,
        "allowEmptyValue": !is_id,
        "schema": query_schema(parameter.form),
    })
}

/// The schema of a query parameter. An empty one equals an absent one, which `allowEmptyValue` says.
fn query_schema(form: ParameterForm) -> Value {
    match form {
        ParameterForm::Text => json!({ "type": "string" }),
        ParameterForm::Id => json!({ "type": "string", "minLength": 1 }),
        ParameterForm::Whole { min, max, or: None } => {
            json!({ "type": "integer", "format": "int64", "minimum": min, "maximum": max })
        }
        ParameterForm::Whole { min, max, or: Some(word) } => json!({ "oneOf": [
            { "type": "integer", "format": "int64", "minimum": min, "maximum": max },
            { "const": word },
        ] }),
        ParameterForm::Word(words) => json!({ "type": "string", "enum": words() }),
        ParameterForm::Words { of, max } => {
            let word = of().iter().map(|word| word.replace('.', r"\.")).collect::<Vec<_>>();
            let word = word.join("|");
            let more = max - 1;
            json!({
                "type": "string",
                "pattern": format!("^(?:(?:{word})(?:,(?:{word})){{0,{more}}})?$"),
            })
        }
    }
}

/// What stands for a placeholder; anything else names nothing.
fn placeholder_schema(template: &str, name: &str) -> Value {
    let is_notification =
        template.starts_with("/v1/notifications/") || template.starts_with("/v1/polls/");
    match name {
        "device_id" => caller_id(),
        "id" if is_notification => caller_id(),
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

pub(super) fn security(template: &str) -> Option<&'static str> {
    let mut segments = segments(template);
    match segments.next() {
        Some("v1") => Some(API_KEY),
        Some("admin") => Some(ADMIN_KEY),
        Some("web") if template.contains("{device_id}") => Some(DEVICE_SECRET),
        _ => None,
    }
}

/// The chapter of the reference.
pub(super) fn tag(route: &Route) -> &'static str {
    section_of(route).map_or("", |section| section.chapter)
}
