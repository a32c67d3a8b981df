//! One row for each rule of each configuration, and a check that no secret is shown.

mod pasted;
mod rules;
mod shown;

use notify_core::ProviderKind;
use serde_json::{Value, json};

use super::{ProviderConfig, test_keys as keys};

fn apns() -> Value {
    json!({
        "team_id": "TEAM123456",
        "key_id": "KEY1234567",
        "private_key": keys::p256_pem(),
        "topic": "com.example.shop",
    })
}

fn fcm() -> Value {
    json!({
        "service_account": {
            "type": "service_account",
            "project_id": "shop-1",
            "private_key_id": "kid",
            "private_key": keys::rsa_pem(),
            "client_email": "push@shop-1.iam.gserviceaccount.com",
            "token_uri": "https://oauth2.googleapis.com/token",
            "auth_uri": "https://accounts.google.com/o/oauth2/auth",
        },
    })
}

fn messenger() -> Value {
    json!({"page_access_token": "EAAG0page0token", "app_secret": "5ec2e7", "verify_token": "v3rify"})
}

fn telegram() -> Value {
    json!({"bot_token": "110201543:AAHdqTcvCH1vGWJxf", "webhook_secret": "hook-5ecret"})
}
fn webpush() -> Value {
    // The private key of RFC 8291, appendix A.
    json!({
        "subject": "mailto:push@shop.com",
        "vapid_private_key": "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw",
    })
}

/// The public key of that private key.
const VAPID_PUBLIC: &str =
    "BP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A8";

fn errors(kind: ProviderKind, body: &Value) -> Vec<String> {
    match ProviderConfig::parse(kind, body) {
        Ok(_) => Vec::new(),
        Err(error) => error.into_lines(),
    }
}

/// The body with the value at a pointer replaced, or removed for `None`.
fn with(mut body: Value, pointer: &str, value: Option<Value>) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let members = body.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    match value {
        Some(value) => members.insert(name.to_owned(), value),
        None => members.remove(name),
    };
    body
}
