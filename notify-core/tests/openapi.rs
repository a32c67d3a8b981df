//! The schemas list the values of enum fields, although the models accept any string.
#![cfg(feature = "openapi")]

use notify_core::schema::Schemas;
use notify_core::{CreateNotification, RegisterDevice, Request, Template};
use serde_json::{Value, json};

/// The schema of a model that a request refers to.
fn schema<R: Request>(name: &str) -> Value {
    let mut schemas = Schemas::default();
    R::add_schema(&mut schemas);
    schemas.into_map()[name].schema.clone()
}

#[test]
fn enum_fields_refer_to_the_schema_of_the_enum() {
    let device = schema::<RegisterDevice>("RegisterDevice");
    assert_eq!(device["required"], json!(["device_id", "platform", "sdk_type"]));
    let platform = &device["properties"]["platform"]["$ref"];
    assert_eq!(platform, "#/components/schemas/DevicePlatform");

    let template = schema::<Template>("Template");
    assert_eq!(template["required"], json!(["name", "layout_id", "settings", "features"]));
    assert_eq!(template["properties"]["layout_id"]["$ref"], "#/components/schemas/CampaignLayout");
    let button = schema::<Template>("TemplateButton");
    assert_eq!(button["properties"]["type"]["$ref"], "#/components/schemas/ButtonKind");
}

#[test]
fn created_notifications_include_the_shared_fields() {
    let notification = schema::<CreateNotification>("CreateNotification");
    let properties = &notification["properties"];
    assert_eq!(properties["platforms"]["items"]["$ref"], "#/components/schemas/Platform");
    assert_eq!(properties["title"]["type"], json!(["string", "null"]));
    assert_eq!(notification.get("required"), None);
}
