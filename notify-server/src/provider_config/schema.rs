//! The schema of a provider's configuration: what the readers of this folder take. Which of its forms
//! holds is decided by the path.

use serde_json::{Map, Value, json};

use super::fields::{RATE_PER_SECOND_MAX, SECRET_CHARS_MAX, TEXT_BYTES_MAX, WORD_CHARS_MAX};

/// The configuration of any provider.
pub(crate) fn schema() -> Value {
    let server = ["endpoint"];
    json!({
        "description": "Configuration of the provider that the path names.",
        "anyOf": [
            form("APNs", &["endpoint", "sandbox_endpoint"], &[
                ("team_id", word("_-")),
                ("key_id", word("_-")),
                ("private_key", required_text()),
                ("topic", word("._-")),
            ], &[]),
            form("FCM", &server, &[("service_account", service_account())], &[
                ("enriched_as_data", or_unset(&json!({ "type": "boolean" }))),
            ]),
            form("Messenger", &server, &[("page_access_token", secret())], &[
                ("app_secret", or_unset(&secret())),
                ("verify_token", or_unset(&secret())),
            ]),
            form("Telegram", &server, &[("bot_token", word(":_-"))], &[
                ("webhook_secret", text()),
            ]),
            form("Web Push", &[], &[("subject", required_text())], &[
                ("vapid_private_key", text()),
                ("vapid_public_key", text()),
            ]),
        ],
    })
}

fn form(
    title: &str,
    addresses: &[&'static str],
    required: &[(&'static str, Value)],
    optional: &[(&'static str, Value)],
) -> Value {
    let mut properties: Map<String, Value> = required
        .iter()
        .chain(optional)
        .map(|(name, schema)| ((*name).to_owned(), schema.clone()))
        .collect();
    properties.extend(addresses.iter().map(|name| ((*name).to_owned(), text())));
    properties.insert("ca_certificate".to_owned(), text());
    let rate = json!({
        "type": "integer",
        "format": "int64",
        "minimum": 1,
        "maximum": RATE_PER_SECOND_MAX,
    });
    properties.insert("rate_per_second".to_owned(), or_unset(&rate));
    json!({
        "title": title,
        "type": "object",
        "required": required.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        "properties": properties,
        "additionalProperties": false,
    })
}

/// Google's file, whose other members are left alone.
fn service_account() -> Value {
    json!({
        "type": "object",
        "required": ["project_id", "private_key", "client_email", "token_uri"],
        "properties": {
            "type": { "enum": ["service_account", "", null] },
            "project_id": word(".:_-"),
            "private_key_id": text(),
            "private_key": required_text(),
            "client_email": required_text(),
            "token_uri": required_text(),
        },
        "additionalProperties": true,
    })
}

/// `null` and `""` equal leaving a field out (B1), whatever its type.
fn or_unset(schema: &Value) -> Value {
    json!({ "anyOf": [schema, { "enum": [null, ""] }] })
}

// A character has one byte at least.
fn text() -> Value {
    json!({ "type": ["string", "null"], "maxLength": TEXT_BYTES_MAX })
}

fn required_text() -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": TEXT_BYTES_MAX })
}

fn secret() -> Value {
    json!({
        "type": "string",
        "minLength": 1,
        "maxLength": SECRET_CHARS_MAX,
        "pattern": "^[!-~]+$",
    })
}

/// Letters, digits and these characters.
fn word(extra: &str) -> Value {
    json!({
        "type": "string",
        "minLength": 1,
        "maxLength": WORD_CHARS_MAX,
        "pattern": format!("^[A-Za-z0-9{extra}]+$"),
    })
}
