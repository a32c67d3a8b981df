//! The schema of audiences.

use serde_json::{Value, json};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;

use super::{
    ATTRIBUTE_OPERATORS, Audience, CONDITION_VALUES_MAX, CONDITIONS_MAX, Field,
    SEGMENT_NAME_CHARS_MAX, WITHIN_DAYS_MAX,
};
use crate::{
    ATTRIBUTE_VALUE_CHARS_MAX, Platform, TAG_NAME_CHARS_MAX, TIMESTAMP_MS_MAX,
    UTC_OFFSET_MINUTES_MAX,
};

impl utoipa::PartialSchema for Audience {
    fn schema() -> RefOr<Schema> {
        let forms: Vec<Value> =
            forms().into_iter().chain(attribute_forms()).chain(field_forms()).collect();
        let schema = json!({
            "description": "A condition that a device meets or not: an object of exactly one form, with exactly one operator if it tests an attribute or a field.",
            "oneOf": forms,
        });
        serde_json::from_value(schema).expect("the schema has only keywords of OpenAPI")
    }
}

impl utoipa::ToSchema for Audience {
    fn name() -> std::borrow::Cow<'static, str> {
        "Audience".into()
    }
}

/// An object with exactly these fields.
fn object(fields: &[(&str, Value)]) -> Value {
    let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    let described = |(name, schema): &(&str, Value)| {
        let mut schema = schema.clone();
        schema["description"] = json!(description(name));
        ((*name).to_owned(), schema)
    };
    let properties: serde_json::Map<String, Value> = fields.iter().map(described).collect();
    json!({
        "type": "object",
        "required": names,
        "properties": properties,
        "additionalProperties": false,
    })
}

/// What a field of a condition means.
fn description(field: &str) -> &'static str {
    match field {
        "all" => "Every one of these conditions is met.",
        "any" => "At least one of these conditions is met.",
        "not" => "This condition is not met.",
        "segment" => "The condition of the segment with this name is met.",
        "tag" => "The device has this tag set to true.",
        "attribute" => {
            "Name of an attribute of the device, or else of its user. Needs one operator."
        }
        "field" => "Name of a field of the device. Needs one operator.",
        "is" => "Operator: the value is this one.",
        "in" => "Operator: the value is one of these.",
        "exists" => "Operator: whether there is a value.",
        "at_least" => "Operator: the value is this one or a larger one.",
        "below" => "Operator: the value is smaller than this one.",
        "within_days" => "Operator: the instant lies at most this number of days back.",
        _ => unreachable!("the field `{field}` of a condition has no description"),
    }
}

fn forms() -> Vec<Value> {
    let condition = json!({ "$ref": "#/components/schemas/Audience" });
    let list = json!({
        "type": "array", "minItems": 1, "maxItems": CONDITIONS_MAX - 1, "items": condition,
    });
    let name =
        |chars_max: usize| json!({ "type": "string", "minLength": 1, "maxLength": chars_max });
    vec![
        object(&[("all", list.clone())]),
        object(&[("any", list)]),
        object(&[("not", condition)]),
        object(&[("segment", name(SEGMENT_NAME_CHARS_MAX))]),
        object(&[("tag", name(TAG_NAME_CHARS_MAX))]),
    ]
}

fn attribute_forms() -> Vec<Value> {
    let text = json!({ "type": "string", "maxLength": ATTRIBUTE_VALUE_CHARS_MAX });
    let value = json!({ "oneOf": [{ "type": "boolean" }, { "type": "number" }, text] });
    let version = json!({
        "type": "string", "maxLength": ATTRIBUTE_VALUE_CHARS_MAX, "pattern": BEGINS_WITH_DIGIT,
    });
    let bound = json!({ "oneOf": [{ "type": "number" }, version] });
    let name = json!({ "type": "string", "pattern": crate::schema::ATTRIBUTE_NAME });
    let form = |operator: &&str| {
        object(&[("attribute", name.clone()), (operator, operand(operator, &value, &bound))])
    };
    ATTRIBUTE_OPERATORS.iter().map(form).collect()
}

/// A text that is compared as a version.
const BEGINS_WITH_DIGIT: &str = "^[0-9]";

fn field_forms() -> Vec<Value> {
    Field::ALL.into_iter().flat_map(forms_of).collect()
}

fn forms_of(field: Field) -> Vec<Value> {
    let text =
        || json!({ "type": "string", "minLength": 1, "maxLength": ATTRIBUTE_VALUE_CHARS_MAX });
    let (value, bound) = match field {
        Field::Platform => {
            let platform = json!({ "type": "string", "enum": Platform::NAMES });
            (platform, Value::Null)
        }
        Field::Language | Field::Country => (text(), Value::Null),
        Field::AppVersion | Field::OsVersion => {
            let mut version = text();
            version["pattern"] = json!(BEGINS_WITH_DIGIT);
            (text(), version)
        }
        Field::Timezone => {
            let (min, max) = (-UTC_OFFSET_MINUTES_MAX, UTC_OFFSET_MINUTES_MAX);
            let minutes = json!({ "type": "integer", "minimum": min, "maximum": max });
            (minutes.clone(), minutes)
        }
        Field::CreatedAt | Field::LastActiveAt => {
            let instant = json!({ "type": "integer", "minimum": 0, "maximum": TIMESTAMP_MS_MAX });
            (Value::Null, instant)
        }
        Field::User => (Value::Null, Value::Null),
    };
    let name = json!({ "type": "string", "enum": [field.as_str()] });
    let form = |operator: &&str| {
        object(&[("field", name.clone()), (operator, operand(operator, &value, &bound))])
    };
    field.operators().iter().map(form).collect()
}

/// The schema of what follows an operator.
fn operand(operator: &str, value: &Value, bound: &Value) -> Value {
    match operator {
        "is" => value.clone(),
        "in" => json!({
            "type": "array", "minItems": 1, "maxItems": CONDITION_VALUES_MAX, "items": value,
        }),
        "exists" => json!({ "type": "boolean" }),
        "within_days" => json!({ "type": "integer", "minimum": 1, "maximum": WITHIN_DAYS_MAX }),
        _ => bound.clone(),
    }
}
