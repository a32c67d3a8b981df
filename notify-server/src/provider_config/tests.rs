//! One row for each rule of each configuration, and that no secret is shown.

use notify_core::{IosEnv, ProviderKind};
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

/// Its public half.
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

#[test]
fn apns_names_every_broken_rule_with_its_path() {
    let p384 =
        rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap().serialize_pem();
    let key_rule = "private_key: must be a P-256 key in PKCS#8 PEM form";
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
        ("/private_key", Some(json!("no key")), key_rule.into()),
        ("/private_key", Some(json!(p384)), key_rule.into()),
        ("/private_key", Some(json!(keys::rsa_pem())), key_rule.into()),
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
            "ca_certificate: must hold at least one certificate in PEM form".into(),
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
        ("/service_account", Some(json!("{}")), "service_account: expected an object"),
        (
            "/service_account/type",
            Some(json!("authorized_user")),
            "service_account.type: must be `service_account`",
        ),
        ("/service_account/project_id", None, "service_account.project_id: is required"),
        (
            "/service_account/private_key",
            Some(json!("x")),
            "service_account.private_key: must be an RSA key in PEM form",
        ),
        (
            "/service_account/private_key",
            Some(json!(keys::p256_pem())),
            "service_account.private_key: must be an RSA key in PEM form",
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
fn without_an_endpoint_it_is_the_provider_s_own() {
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
    let key_rule = "vapid_private_key: must be a private key of P-256, 32 bytes in base64url";
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
        ("/vapid_private_key", Some(json!("short")), key_rule),
        ("/vapid_private_key", Some(json!("A".repeat(43))), key_rule),
        ("/vapid_private_key", Some(json!("_".repeat(43))), key_rule),
        ("/vapid_private_key", Some(json!(keys::p256_pem())), key_rule),
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
fn a_vapid_key_is_made_once_and_kept_until_another_is_given() {
    let complete = |mut body: Value, earlier: Option<&Value>| {
        ProviderConfig::complete(ProviderKind::WebPush, &mut body, earlier);
        body
    };
    let without = || json!({"subject": "mailto:push@shop.com"});
    let made = complete(without(), None);
    let config = ProviderConfig::parse(ProviderKind::WebPush, &made).unwrap();
    let public = config.redacted()["vapid_public_key"].as_str().unwrap().to_owned();
    assert_eq!((public.len(), &public[..1]), (87, "B"), "an uncompressed point in base64url");
    assert_ne!(complete(without(), None), made, "no two are alike");
    for unset in [without(), with(without(), "/vapid_private_key", Some(json!(null)))] {
        assert_eq!(complete(unset, Some(&made)), made);
    }
    assert_eq!(complete(webpush(), Some(&made)), webpush(), "a key that is given stands");
    assert_eq!(complete(json!([]), Some(&made)), json!([]));
}

#[test]
fn a_configuration_reads_back_without_its_secrets() {
    let certificate = keys::certificate_pem();
    let optional = [
        ("/endpoint", json!("https://127.0.0.1:8443/apns/")),
        ("/ca_certificate", json!(certificate)),
        ("/rate_per_second", json!(50)),
    ];
    let fill = |body: Value| {
        optional
            .iter()
            .fold(body, |body, (pointer, value)| with(body, pointer, Some(value.clone())))
    };
    let body = with(fill(apns()), "/sandbox_endpoint", Some(json!("http://[::1]:9000")));
    let config = ProviderConfig::parse(ProviderKind::Apns, &body).unwrap();
    assert_eq!(
        config.redacted(),
        json!({
            "team_id": "TEAM123456",
            "key_id": "KEY1234567",
            "topic": "com.example.shop",
            "endpoint": "https://127.0.0.1:8443/apns",
            "sandbox_endpoint": "http://[::1]:9000",
            "ca_certificate": certificate,
            "rate_per_second": 50,
        })
    );
    let config = ProviderConfig::parse(ProviderKind::Fcm, &fill(fcm())).unwrap();
    assert_eq!(
        config.redacted(),
        json!({
            "service_account": {
                "type": "service_account",
                "project_id": "shop-1",
                "private_key_id": "kid",
                "client_email": "push@shop-1.iam.gserviceaccount.com",
                "token_uri": "https://oauth2.googleapis.com/token",
            },
            "endpoint": "https://127.0.0.1:8443/apns",
            "enriched_as_data": false,
            "ca_certificate": certificate,
            "rate_per_second": 50,
        })
    );
    for (kind, body) in
        [(ProviderKind::Messenger, messenger()), (ProviderKind::Telegram, telegram())]
    {
        let config = ProviderConfig::parse(kind, &fill(body)).unwrap();
        assert_eq!(config.rate_per_second(), Some(50));
        assert_eq!(
            config.redacted(),
            json!({
                "endpoint": "https://127.0.0.1:8443/apns",
                "ca_certificate": certificate,
                "rate_per_second": 50,
            })
        );
    }
    let body = with(fill(webpush()), "/endpoint", None);
    let config = ProviderConfig::parse(ProviderKind::WebPush, &body).unwrap();
    assert_eq!(
        config.redacted(),
        json!({
            "subject": "mailto:push@shop.com",
            "vapid_public_key": VAPID_PUBLIC,
            "ca_certificate": certificate,
            "rate_per_second": 50,
        })
    );
}

#[test]
fn debug_output_shows_no_key() {
    for (kind, body, pointer) in [
        (ProviderKind::Apns, apns(), "/private_key"),
        (ProviderKind::Fcm, fcm(), "/service_account/private_key"),
    ] {
        let key = body.pointer(pointer).unwrap().as_str().unwrap().to_owned();
        let shown = format!("{:?}", ProviderConfig::parse(kind, &body).unwrap());
        let secret_line = key.lines().nth(1).unwrap();
        assert!(!shown.contains(&secret_line[..32]), "{kind}");
    }
    for (kind, body) in
        [(ProviderKind::Messenger, messenger()), (ProviderKind::Telegram, telegram())]
    {
        let shown = format!("{:?}", ProviderConfig::parse(kind, &body).unwrap());
        for (name, secret) in body.as_object().unwrap() {
            assert!(!shown.contains(secret.as_str().unwrap()), "{kind} {name}");
        }
    }
    let shown = format!("{:?}", ProviderConfig::parse(ProviderKind::WebPush, &webpush()).unwrap());
    assert!(!shown.contains(webpush()["vapid_private_key"].as_str().unwrap()), "{shown}");
}

#[test]
fn one_apns_endpoint_stands_for_both_hosts_and_none_for_apples() {
    let parse = |body: &Value| {
        let config = ProviderConfig::parse(ProviderKind::Apns, body).unwrap();
        let ProviderConfig::Apns(config) = config else { unreachable!("asked for APNs") };
        config
    };
    let hosts = |body: &Value| {
        let config = parse(body);
        [IosEnv::Production, IosEnv::Sandbox].map(|env| config.base_url_for(env).to_string())
    };
    assert_eq!(
        hosts(&apns()),
        ["https://api.push.apple.com", "https://api.sandbox.push.apple.com"]
    );
    let one = with(apns(), "/endpoint", Some(json!("https://a.example")));
    assert_eq!(hosts(&one), ["https://a.example", "https://a.example"]);
    let two = with(one, "/sandbox_endpoint", Some(json!("https://b.example")));
    assert_eq!(hosts(&two), ["https://a.example", "https://b.example"]);
}
