//! The rules of each provider's configuration: every violation with its path.

use notify_core::ProviderKind;
use serde_json::{Value, json};

use super::{VAPID_PUBLIC, apns, errors, fcm, messenger, telegram, webpush, with};
use crate::provider_config::{ProviderConfig, test_keys as keys};

#[test]
fn apns_names_every_broken_rule_with_its_path() {
    let p384 =
        rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap().serialize_pem();
    let key_rule = "private_key: must be a private key of P-256 in PEM form, the text of Apple's .p8 \
                    file; this looks like ";
    let word = "must be 1 to 255 letters and digits of ASCII or any of";
    let rows: Vec<(&str, Option<Value>, String)> = vec![
        ("/team_id", None, "team_id: is required".into()),
        ("/team_id", Some(json!("")), "team_id: is required".into()),
        ("/team_id", Some(json!(null)), "team_id: is required".into()),
        ("/team_id", Some(json!(7)), "team_id: expected a string".into()),
        ("/team_id", Some(json!("a b")), format!("team_id: {word} `_-`")),
        ("/key_id", None, "key_id: is required".into()),
        ("/key_id", Some(json!("é")), format!("key_id: {word} `_-`")),
        ("/private_key", None, "private_key: is required".into()),
        ("/private_key", Some(json!("no key")), format!("{key_rule}plain text")),
        ("/private_key", Some(json!(p384)), format!("{key_rule}a key of P-384")),
        ("/private_key", Some(json!(keys::rsa_pem())), format!("{key_rule}an RSA key")),
        ("/topic", None, "topic: is required".into()),
        ("/topic", Some(json!("a/b")), format!("topic: {word} `.-_`")),
        (
            "/endpoint",
            Some(json!("ftp://x")),
            "endpoint: must be an http or https origin with an optional path".into(),
        ),
        (
            "/endpoint",
            Some(json!("https://x/?q")),
            "endpoint: must not have a query, a fragment or credentials".into(),
        ),
        (
            "/sandbox_endpoint",
            Some(json!("x")),
            "sandbox_endpoint: must be an http or https origin with an optional path".into(),
        ),
        (
            "/ca_certificate",
            Some(json!("x")),
            "ca_certificate: must be certificates in PEM form; this looks like plain text".into(),
        ),
        (
            "/ca_certificate",
            Some(json!("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")),
            "ca_certificate: must be certificates in PEM form".into(),
        ),
        (
            "/rate_per_second",
            Some(json!(0)),
            "rate_per_second: must be a whole number from 1 to 1000000".into(),
        ),
        (
            "/rate_per_second",
            Some(json!(1.5)),
            "rate_per_second: must be a whole number from 1 to 1000000".into(),
        ),
        ("/topics", Some(json!("x")), "topics: unknown field, did you mean `topic`?".into()),
        ("/whatever", Some(json!("x")), "whatever: unknown field".into()),
    ];
    for (pointer, value, expected) in rows {
        let body = with(apns(), pointer, value.clone());
        assert_eq!(errors(ProviderKind::Apns, &body), [expected], "{pointer} = {value:?}");
    }
}

#[test]
fn apns_names_all_broken_rules_at_once() {
    assert_eq!(errors(ProviderKind::Apns, &json!([])), ["body: expected an object"]);
    let all = errors(ProviderKind::Apns, &json!({}));
    assert_eq!(
        all,
        [
            "team_id: is required",
            "key_id: is required",
            "private_key: is required",
            "topic: is required"
        ]
    );
}

#[test]
fn fcm_names_every_broken_rule_with_its_path() {
    let rows: Vec<(&str, Option<Value>, &str)> = vec![
        ("/service_account", None, "service_account: is required"),
        ("/service_account", Some(json!("  ")), "service_account: is required"),
        ("/service_account", Some(json!(7)), "service_account: expected an object"),
        (
            "/service_account",
            Some(json!("{")),
            "service_account: must be the JSON file of a service account; this looks like \
             JSON with a syntax error",
        ),
        (
            "/service_account",
            Some(json!({"project_info": {}, "client": []})),
            "service_account: must be the JSON file of a service account; this looks like \
             google-services.json, the configuration of the app",
        ),
        (
            "/service_account/type",
            Some(json!("authorized_user")),
            "service_account.type: must be `service_account`",
        ),
        ("/service_account/project_id", None, "service_account.project_id: is required"),
        (
            "/service_account/private_key",
            Some(json!("no key!")),
            "service_account.private_key: must be an RSA key in PEM form; this looks like plain \
             text",
        ),
        (
            "/service_account/private_key",
            Some(json!(keys::p256_pem())),
            "service_account.private_key: must be an RSA key in PEM form; this looks like a key of \
             P-256",
        ),
        ("/service_account/client_email", None, "service_account.client_email: is required"),
        (
            "/service_account/token_uri",
            Some(json!("file:///etc")),
            "service_account.token_uri: must be an absolute http or https URL",
        ),
        ("/enriched_as_data", Some(json!("yes")), "enriched_as_data: expected a boolean"),
    ];
    for (pointer, value, expected) in rows {
        let body = with(fcm(), pointer, value.clone());
        assert_eq!(errors(ProviderKind::Fcm, &body), [expected], "{pointer} = {value:?}");
    }
}

#[test]
fn messenger_names_every_broken_rule_with_its_path() {
    let visible = "must be 1 to 4096 visible characters of ASCII";
    let rows: Vec<(&str, Option<Value>, String)> = vec![
        ("/page_access_token", None, "page_access_token: is required".into()),
        ("/page_access_token", Some(json!("")), "page_access_token: is required".into()),
        ("/page_access_token", Some(json!(7)), "page_access_token: expected a string".into()),
        ("/page_access_token", Some(json!("a b")), format!("page_access_token: {visible}")),
        ("/page_access_token", Some(json!("ä")), format!("page_access_token: {visible}")),
        (
            "/page_access_token",
            Some(json!("x".repeat(4_097))),
            format!("page_access_token: {visible}"),
        ),
        ("/app_secret", Some(json!("a\nb")), format!("app_secret: {visible}")),
        ("/verify_token", Some(json!([])), "verify_token: expected a string".into()),
        (
            "/endpoint",
            Some(json!("graph.facebook.com")),
            "endpoint: must be an http or https origin with an optional path".into(),
        ),
        (
            "/rate_per_second",
            Some(json!(0)),
            "rate_per_second: must be a whole number from 1 to 1000000".into(),
        ),
        (
            "/app_secrets",
            Some(json!("x")),
            "app_secrets: unknown field, did you mean `app_secret`?".into(),
        ),
        ("/bot_token", Some(json!("x")), "bot_token: unknown field".into()),
    ];
    for (pointer, value, expected) in rows {
        let body = with(messenger(), pointer, value.clone());
        assert_eq!(errors(ProviderKind::Messenger, &body), [expected], "{pointer} = {value:?}");
    }
}

#[test]
fn telegram_names_every_broken_rule_with_its_path() {
    let word = "must be 1 to 255 letters and digits of ASCII or any of `:_-`";
    let secret = "must be 1 to 256 letters and digits of ASCII or any of `_-`";
    let rows: Vec<(&str, Option<Value>, String)> = vec![
        ("/bot_token", None, "bot_token: is required".into()),
        ("/bot_token", Some(json!(null)), "bot_token: is required".into()),
        ("/bot_token", Some(json!("1:a/../b")), format!("bot_token: {word}")),
        ("/bot_token", Some(json!("1:a?b")), format!("bot_token: {word}")),
        ("/webhook_secret", Some(json!("a b")), format!("webhook_secret: {secret}")),
        ("/webhook_secret", Some(json!("a:b")), format!("webhook_secret: {secret}")),
        ("/webhook_secret", Some(json!("x".repeat(257))), format!("webhook_secret: {secret}")),
        (
            "/endpoint",
            Some(json!("https://u:p@x")),
            "endpoint: must not have a query, a fragment or credentials".into(),
        ),
        ("/token", Some(json!("x")), "token: unknown field".into()),
    ];
    for (pointer, value, expected) in rows {
        let body = with(telegram(), pointer, value.clone());
        assert_eq!(errors(ProviderKind::Telegram, &body), [expected], "{pointer} = {value:?}");
    }
}

#[test]
fn default_endpoint_is_the_providers() {
    let base_url = |kind, body: &Value| {
        let config = ProviderConfig::parse(kind, body).unwrap();
        if let ProviderConfig::Messenger(config) = &config {
            return config.base_url().to_string();
        }
        let ProviderConfig::Telegram(config) = &config else { unreachable!("asked for these") };
        config.base_url().to_string()
    };
    for (kind, body, own) in [
        (ProviderKind::Messenger, messenger(), "https://graph.facebook.com"),
        (ProviderKind::Telegram, telegram(), "https://api.telegram.org"),
    ] {
        assert_eq!(base_url(kind, &body), own);
        let other = with(body, "/endpoint", Some(json!("http://127.0.0.1:8081/fake/")));
        assert_eq!(base_url(kind, &other), "http://127.0.0.1:8081/fake");
    }
}

#[test]
fn web_push_names_every_broken_rule_with_its_path() {
    let key_rule = "vapid_private_key: must be a private key of P-256, 32 bytes in base64url or PEM; \
                    this looks like";
    let base64 = format!("{key_rule} base64 without a header, of something else");
    let plain = format!("{key_rule} plain text");
    let damaged = format!("{key_rule} a damaged key");
    let rsa = format!("{key_rule} an RSA key");
    let rows: Vec<(&str, Option<Value>, &str)> = vec![
        ("/subject", None, "subject: is required"),
        ("/subject", Some(json!("")), "subject: is required"),
        ("/subject", Some(json!(7)), "subject: expected a string"),
        (
            "/subject",
            Some(json!("push@shop.com")),
            "subject: must be a mailto: address or an https: url, such as \
             mailto:push@your-domain.com",
        ),
        (
            "/subject",
            Some(json!("mailto:push@localhost")),
            "subject: must name a real domain: Apple refuses localhost, reserved names and \
             addresses",
        ),
        ("/vapid_private_key", Some(json!(7)), "vapid_private_key: expected a string"),
        ("/vapid_private_key", Some(json!("short")), &plain),
        ("/vapid_private_key", Some(json!("shorter8")), &base64),
        ("/vapid_private_key", Some(json!("A".repeat(43))), &damaged),
        ("/vapid_private_key", Some(json!("_".repeat(43))), &damaged),
        ("/vapid_private_key", Some(json!(keys::rsa_pem())), &rsa),
        (
            "/vapid_public_key",
            Some(json!(VAPID_PUBLIC.replace('z', "y"))),
            "vapid_public_key: is not that of the private key",
        ),
        ("/endpoint", Some(json!("https://x")), "endpoint: unknown field"),
    ];
    for (pointer, value, expected) in rows {
        let body = with(webpush(), pointer, value.clone());
        assert_eq!(errors(ProviderKind::WebPush, &body), [expected], "{pointer} = {value:?}");
    }
    let padded = format!("{}=", webpush()["vapid_private_key"].as_str().unwrap());
    let body = with(webpush(), "/vapid_private_key", Some(json!(padded)));
    let body = with(body, "/vapid_public_key", Some(json!(VAPID_PUBLIC)));
    assert_eq!(errors(ProviderKind::WebPush, &body), [""; 0]);
}

#[test]
fn vapid_key_is_generated_once_and_kept() {
    let fill_defaults = |mut body: Value, earlier: Option<&Value>| {
        ProviderConfig::fill_defaults(ProviderKind::WebPush, &mut body, earlier);
        body
    };
    let without = || json!({"subject": "mailto:push@shop.com"});
    let made = fill_defaults(without(), None);
    let config = ProviderConfig::parse(ProviderKind::WebPush, &made).unwrap();
    let public = config.redacted()["vapid_public_key"].as_str().unwrap().to_owned();
    assert_eq!((public.len(), &public[..1]), (87, "B"), "an uncompressed point in base64url");
    assert_ne!(fill_defaults(without(), None), made, "no two are alike");
    for unset in [without(), with(without(), "/vapid_private_key", Some(json!(null)))] {
        assert_eq!(fill_defaults(unset, Some(&made)), made);
    }
    assert_eq!(fill_defaults(webpush(), Some(&made)), webpush(), "a key that is given stands");
    assert_eq!(fill_defaults(json!([]), Some(&made)), json!([]));
}
