//! Web Push against the sandbox, which verifies and decrypts each message.

use std::time::Duration;

use futures_util::future::join_all;
use notify_core::{ProviderKind, WebSubscription};
use serde_json::json;

use super::{Fixture, ID, describe, fixture, prepare};
use crate::provider_config::{ProviderConfig, test_keys};
use crate::providers::{Address, SendResult, SharedProvider};
use notify_sandbox::{Fault, Provider, Rule, ScriptedResponse, WebPushError};

pub(super) fn browser(fixture: &Fixture, wanted: &ScriptedResponse) -> WebSubscription {
    fixture.sandbox.subscribe(None, wanted).unwrap()
}

pub(super) async fn send(provider: &SharedProvider, to: &WebSubscription) -> SendResult {
    provider.attempt(&prepare(provider), &Address::WebPush(Box::new(to.clone()))).await
}

/// Makes one attempt at a browser whose push service gives the answer `wanted`.
async fn attempt(
    fixture: &Fixture,
    provider: &SharedProvider,
    wanted: &ScriptedResponse,
) -> String {
    describe(&send(provider, &browser(fixture, wanted)).await)
}

#[tokio::test]
async fn web_push_requests_are_valid_and_browsers_decrypt_them() {
    let fixture = fixture().await;
    let web_push = fixture.web_push();
    let to = browser(&fixture, &ScriptedResponse::ok());
    let SendResult::Delivered { message_id: Some(place) } = send(&web_push, &to).await else {
        panic!("not delivered");
    };
    assert!(place.starts_with(&fixture.sandbox.origin()), "{place}");
    let journal = fixture.sandbox.received();
    assert_eq!(journal.len(), 1);
    assert_eq!(
        journal[0].payload,
        json!({
            "title": "Shop",
            "body": "Hello",
            "url": "shop://order/1",
            "tag": ID,
            "data": {"notification_id": ID, "url": "shop://order/1", "order": {"id": 7}},
        })
    );
    let headers = &journal[0].headers;
    assert_eq!(headers["content-encoding"], "aes128gcm");
    assert_eq!(headers["content-type"], "application/octet-stream");
    assert_eq!((&*headers["ttl"], &*headers["urgency"]), ("3600", "high"));
    assert_eq!(headers["topic"].len(), 32);
    assert_eq!(headers["authorization"], "vapid ***");
    assert_eq!(journal[0].status, 201);
    assert_eq!(journal[0].message_id.as_deref(), Some(&*place));
}

#[tokio::test]
async fn every_push_service_error_is_classified() {
    let fixture = fixture().await;
    let web_push = fixture.web_push();
    for refusal in WebPushError::ALL {
        let (status, name) = (refusal.status, refusal.reason);
        // Google's texts for people, and the sandbox's names for responses without a code, are not codes.
        let reason = match name {
            "mismatch" | "unsubscribed" | "windows_throttled" | "empty" | "timeout" => {
                format!("http_{status}")
            }
            known => format!("http_{status} {known}"),
        };
        let expected = match status {
            400 | 413 => format!("bad {reason}"),
            401 | 403 => format!("service refused {reason}"),
            404 => format!("dead {reason} ambiguous"),
            410 => format!("dead {reason}"),
            406 | 429 => format!("throttle {reason} Service"),
            _ => format!("retry {reason} Failed"),
        };
        let wanted = ScriptedResponse { status: Some(status), ..ScriptedResponse::reason(name) };
        fixture.sandbox.add_rule(Rule::on(Provider::WebPush, wanted.first(1))).unwrap();
        assert_eq!(attempt(&fixture, &web_push, &ScriptedResponse::ok()).await, expected);
        if refusal.keyword.is_some() {
            let by_endpoint = attempt(&fixture, &web_push, &ScriptedResponse::reason(name)).await;
            assert_eq!(by_endpoint, expected, "asked for by the endpoint");
        }
    }
    for status in [200, 201, 202, 204] {
        let outcome = attempt(&fixture, &web_push, &ScriptedResponse::status(status)).await;
        assert_eq!(outcome, "delivered", "{status}");
    }
    for status in [301, 302, 303, 307, 308, 418] {
        let outcome = attempt(&fixture, &web_push, &ScriptedResponse::status(status)).await;
        assert_eq!(outcome, format!("unknown http_{status}"));
    }
}

#[tokio::test]
async fn retry_after_of_push_services_is_honoured() {
    let fixture = fixture().await;
    let web_push = fixture.web_push();
    for status in [429, 406, 503] {
        let to = browser(&fixture, &ScriptedResponse::status(status).retry_after(120));
        let (SendResult::Throttle { after, .. } | SendResult::Retry { after, .. }) =
            send(&web_push, &to).await
        else {
            panic!("{status}");
        };
        assert_eq!(after, Some(Duration::from_secs(120)), "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn connection_faults_report_what_may_have_been_processed() {
    let fixture = fixture().await;
    let web_push = fixture.web_push();
    let rows = [
        (ScriptedResponse::fault(Fault::Reset), "retry reset Unknown"),
        (ScriptedResponse::fault(Fault::Cut), "retry connection_cut Unknown"),
        (ScriptedResponse::fault(Fault::Refuse), "retry refused_stream NotProcessed"),
        (ScriptedResponse::fault(Fault::Goaway), "retry goaway NotProcessed"),
        (ScriptedResponse::fault(Fault::Refuse).first(1), "delivered"),
        (ScriptedResponse::fault(Fault::Goaway).first(1), "delivered"),
    ];
    for (wanted, expected) in rows {
        assert_eq!(attempt(&fixture, &web_push, &wanted).await, expected, "{wanted:?}");
    }
}

#[tokio::test]
async fn subscription_of_another_key_affects_only_its_push_service() {
    let fixture = fixture().await;
    let other = other_key();
    let to = fixture.sandbox.subscribe(Some(&other), &ScriptedResponse::ok()).unwrap();
    let web_push = fixture.web_push();
    assert_eq!(describe(&send(&web_push, &to).await), "service refused http_403");
    assert_eq!(attempt(&fixture, &web_push, &ScriptedResponse::ok()).await, "delivered");
}

/// The public key of a VAPID key that the sandbox does not use.
fn other_key() -> String {
    let mut body = json!({"subject": "mailto:push@shop.com"});
    ProviderConfig::fill_defaults(ProviderKind::WebPush, &mut body, None);
    let config = ProviderConfig::parse(ProviderKind::WebPush, &body).unwrap();
    config.redacted()["vapid_public_key"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn early_expired_vapid_token_is_renewed_within_the_attempt() {
    let fixture = fixture().await;
    let web_push = fixture.web_push();
    let to = browser(&fixture, &ScriptedResponse::ok());
    let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
    assert_eq!(describe(&send(&web_push, &to).await), "delivered");
    // The clock of the push service is ahead. A new token does not help while the current one is young.
    fixture.sandbox_clock.advance(minutes(12 * 60));
    assert_eq!(describe(&send(&web_push, &to).await), "service refused http_401 errno_109");
    assert_eq!(fixture.sandbox.received().len(), 2);
    // Once the token is old enough, a new one is signed, and the push service accepts it.
    fixture.clock.advance(minutes(5));
    assert_eq!(describe(&send(&web_push, &to).await), "delivered");
    assert_eq!(fixture.sandbox.received().len(), 4, "refused once, then taken");
    assert_eq!(describe(&send(&web_push, &to).await), "delivered");
    assert_eq!(fixture.sandbox.received().len(), 5, "and kept");
}

#[tokio::test]
async fn a_thousand_messages_share_few_connections() {
    let fixture = fixture().await;
    let web_push = fixture.web_push();
    let prepared = prepare(&web_push);
    let browsers: Vec<_> = (0..1_000).map(|_| browser(&fixture, &ScriptedResponse::ok())).collect();
    let endpoint = browsers[0].endpoint.clone();
    let browsers: Vec<_> =
        browsers.into_iter().map(|browser| Address::WebPush(Box::new(browser))).collect();
    assert_eq!(web_push.max_concurrency(), 100, "assumed for the first push service");
    assert_eq!(web_push.service_concurrency(&endpoint), Some(100));
    let sends = browsers.iter().map(|browser| web_push.attempt(&prepared, browser));
    for answer in join_all(sends).await {
        assert!(matches!(answer, SendResult::Delivered { .. }), "{answer:?}");
    }
    let counts = fixture.sandbox.counts();
    assert_eq!((counts.accepted, counts.accepted_tokens), (1_000, 1_000));
    assert!(counts.connections <= 2, "{} connections", counts.connections);
    assert_eq!(web_push.service_concurrency(&endpoint), Some(1_000));
    assert_eq!(web_push.max_concurrency(), 1_100, "those, and one more push service");
}

#[tokio::test]
async fn private_endpoints_need_permission() {
    let fixture = fixture().await;
    let strict = super::Providers::new(fixture.clock.clone(), super::Outbound::new(false));
    let config = &fixture.sandbox.webpush_config();
    let web_push = strict.build(&ProviderConfig::parse(ProviderKind::WebPush, config).unwrap());
    let to = browser(&fixture, &ScriptedResponse::ok());
    assert_eq!(describe(&send(&web_push, &to).await), "bad address_not_allowed");
    assert_eq!(fixture.sandbox.counts().connections, 0);
}

#[tokio::test]
async fn peer_certificate_is_not_quoted_in_errors() {
    let fixture = fixture().await;
    let mut config = fixture.sandbox.webpush_config();
    config["ca_certificate"] = json!(test_keys::certificate_pem());
    let web_push = fixture.build(ProviderKind::WebPush, &config);
    let to = browser(&fixture, &ScriptedResponse::ok());
    let reason = "retry tls_failed: the issuer of the certificate is not trusted NotProcessed";
    assert_eq!(describe(&send(&web_push, &to).await), reason);
}

#[tokio::test]
async fn unsendable_messages_fail_without_a_request() {
    let fixture = fixture().await;
    let web_push = fixture.web_push();
    let apns = web_push.attempt(&prepare(&web_push), &super::to_apns("aa")).await;
    assert_eq!(describe(&apns), "bad address_of_another_provider");
    let good = browser(&fixture, &ScriptedResponse::ok());
    let broken = WebSubscription { p256dh: "AAAA".to_owned(), ..good.clone() };
    assert_eq!(describe(&send(&web_push, &broken).await), "bad subscription_keys_invalid");
    let broken = WebSubscription { endpoint: "nonsense".to_owned(), ..good };
    assert_eq!(describe(&send(&web_push, &broken).await), "bad address_not_allowed");
    assert_eq!(fixture.sandbox.counts().connections, 0);
}

/// An endpoint can be written in several ways that name the same push service.
#[test]
fn push_service_origins_are_normalized() {
    for (endpoint, service) in [
        ("https://push.example/message/1?x", "https://push.example"),
        ("HTTPS://Push.Example:443/message/1", "https://push.example"),
        ("https://push.example:8443#y", "https://push.example:8443"),
        ("https://push.example", "https://push.example"),
        ("no address", "no address"),
    ] {
        assert_eq!(crate::push_service::service_of(endpoint), service, "{endpoint}");
    }
}
