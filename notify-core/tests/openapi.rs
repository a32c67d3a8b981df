//! The schemas list the values of enum fields, although the models accept any string.
#![cfg(feature = "openapi")]
#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use notify_core::{CreateNotification, RegisterDevice, Template, TemplateButton};
use serde_json::{Value, json};
use utoipa::PartialSchema;

fn schema<T: PartialSchema>() -> Value {
    serde_json::to_value(T::schema()).unwrap()
}

#[test]
fn enum_fields_refer_to_the_schema_of_the_enum() {
    let device = schema::<RegisterDevice>();
    assert_eq!(device["required"], json!(["device_id", "platform", "sdk_type"]));
    let platform = &device["properties"]["platform"]["$ref"];
    assert_eq!(platform, "#/components/schemas/DevicePlatform");

    let template = schema::<Template>();
    assert_eq!(template["required"], json!(["name", "layout_id", "settings", "features"]));
    assert_eq!(template["properties"]["layout_id"]["$ref"], "#/components/schemas/CampaignLayout");
    assert_eq!(
        schema::<TemplateButton>()["properties"]["type"]["$ref"],
        "#/components/schemas/ButtonKind"
    );
}

#[test]
fn created_notifications_include_the_shared_fields() {
    let notification = schema::<CreateNotification>();
    let parts = notification["allOf"].as_array().unwrap();
    let shared = parts.iter().filter_map(|part| part["$ref"].as_str());
    assert_eq!(shared.collect::<Vec<_>>(), ["#/components/schemas/NotificationContent"]);
    let own = parts.iter().find(|part| part.get("properties").is_some()).unwrap();
    let platforms = &own["properties"]["platforms"]["items"]["$ref"];
    assert_eq!(platforms, "#/components/schemas/Platform");
}
