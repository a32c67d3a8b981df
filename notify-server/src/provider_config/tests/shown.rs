//! The redacted form of a configuration.

use notify_core::{IosEnv, ProviderKind};
use serde_json::{Value, json};

use super::{VAPID_PUBLIC, apns, fcm, messenger, telegram, webpush, with};
use crate::provider_config::{ProviderConfig, test_keys as keys};

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
fn single_apns_endpoint_replaces_both_hosts() {
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
