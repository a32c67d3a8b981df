//! Failing calls: errors, retries, time limits.

use std::time::Duration;

use crate::common::{API_KEY, ID, Server, header, response};
use notify_client::{Client, Error, notify_core::*};
use serde_json::json;
use wiremock::ResponseTemplate;

fn hello() -> CreateNotification {
    CreateNotification {
        text: Some("Hello".into()),
        platforms: Some(vec!["ios".into()]),
        ..Default::default()
    }
}

fn errors(texts: &[&str]) -> serde_json::Value {
    json!({ "errors": texts })
}

async fn error_of(response: ResponseTemplate) -> Error {
    let server = Server::with_responses(vec![response]).await;
    let notify = server.configure(Client::builder(&server.0.uri())).retries(0).build().unwrap();
    notify.notifications().create(&hello()).await.unwrap_err()
}

#[tokio::test]
async fn each_status_has_its_error() {
    let error = error_of(response(401, errors(&["missing or invalid API key"]))).await;
    assert!(matches!(error, Error::Unauthorized { .. }));
    assert_eq!(error.to_string(), "not authorised: missing or invalid API key");
    assert_eq!((error.status(), error.is_retryable()), (Some(401), false));

    let error = error_of(response(404, errors(&["not found"]))).await;
    assert!(matches!(error, Error::NotFound { .. }));
    assert_eq!(error.to_string(), "POST /v1/notifications: not found");
    assert_eq!(error.request_id(), Some("req-1"));

    let error = error_of(response(400, errors(&["text: a", "url: b"]))).await;
    let Error::Rejected { status: 400, errors: texts, .. } = &error else { panic!("{error:?}") };
    assert_eq!(texts, &["text: a", "url: b"]);
    assert_eq!(error.to_string(), "text: a; url: b");
    assert!(!error.is_retryable());

    for (status, texts, retryable, suffix) in [
        (500, &["internal error (req-1)"][..], false, ": internal error (req-1)"),
        (502, &[], true, " (request req-1)"),
        (503, &["unavailable"], true, ": unavailable (request req-1)"),
        (504, &["a", "b"], true, ": a; b (request req-1)"),
    ] {
        let error = error_of(response(status, errors(texts))).await;
        let Error::Server { errors, .. } = &error else { panic!("{error:?}") };
        assert_eq!(errors, texts);
        assert_eq!((error.status(), error.is_retryable()), (Some(status), retryable));
        assert_eq!(error.to_string(), format!("the server failed with status {status}{suffix}"));
    }

    let error =
        error_of(response(429, errors(&["slow down"])).insert_header("retry-after", "7")).await;
    assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
    assert!(error.is_retryable());
}

#[tokio::test]
async fn a_foreign_response_is_an_error() {
    let page = ResponseTemplate::new(200).set_body_raw("<html>Welcome</html>", "text/html");
    let error = error_of(page).await;
    assert!(matches!(error, Error::Decode { status: 200, .. }), "{error:?}");
    let page = ResponseTemplate::new(413).set_body_raw("<html>Too large</html>", "text/html");
    assert_eq!(error_of(page).await.to_string(), "status 413");

    let redirect = ResponseTemplate::new(301).insert_header("location", "https://other.example/");
    let server = Server::with_responses(vec![redirect]).await;
    let error = server.client().notifications().create(&hello()).await.unwrap_err();
    assert_eq!(error.to_string(), "redirected to https://other.example/; use that as the base url");
    assert_eq!(server.requests().await.len(), 1, "the key does not follow a redirect");
}

#[tokio::test]
async fn an_invalid_request_is_not_sent() {
    let server = Server::with_body(json!({ "id": ID })).await;
    let notify = server.client();
    let no_devices = CreateNotification { ios_device_ids: Some(vec![]), ..hello() };
    let error = notify.notifications().create(&no_devices).await.unwrap_err();
    let Error::Invalid(violations) = &error else { panic!("{error:?}") };
    assert_eq!(violations.clone(), no_devices.validate(Timestamp(0)).unwrap_err());
    assert_eq!((error.status(), error.is_retryable()), (None, false));

    let all = PageQuery { limit: Some(1_001), ..Default::default() };
    let error = notify.tags().list(&all).await.unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error:?}");

    let keyed = notify.notifications().idempotency_key("two words");
    assert!(matches!(keyed.create(&hello()).await, Err(Error::Invalid(_))));
    assert!(server.requests().await.is_empty());
}

#[tokio::test]
async fn a_call_without_its_key_is_not_sent() {
    let server = Server::with_body(json!({ "id": ID })).await;
    let notify = Client::builder(&server.0.uri()).api_key(API_KEY).build().unwrap();
    let error = notify.admin().list_apps(&PageQuery::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "no admin key");
    assert!(server.requests().await.is_empty());
}

#[tokio::test]
async fn a_key_of_the_other_kind_is_not_sent() {
    let server = Server::with_body(json!({ "id": ID })).await;
    let swapped =
        Client::builder(&server.0.uri()).api_key("na_secret").admin_key("nk_secret").build();
    let swapped = swapped.unwrap();
    let error = swapped.tags().list(&PageQuery::default()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the API key begins with `na_`: that is an admin key; an API key begins with `nk_`"
    );
    let error = swapped.admin().list_apps(&PageQuery::default()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the admin key begins with `nk_`: that is an API key; an admin key begins with `na_`"
    );
    assert!(server.requests().await.is_empty());
}

#[tokio::test]
async fn a_retry_carries_the_same_idempotency_key() {
    let server = Server::with_responses(vec![
        response(503, errors(&["busy"])),
        response(409, errors(&["in flight"])).insert_header("retry-after", "0"),
        response(200, json!({ "id": ID })),
    ])
    .await;
    server.client().notifications().create(&hello()).await.unwrap();
    let requests = server.requests().await;
    assert_eq!(requests.len(), 3);
    let key = header(&requests[0], "idempotency-key").unwrap();
    assert_eq!(key.len(), 36);
    for request in &requests {
        assert_eq!(header(request, "idempotency-key"), Some(key));
        assert_eq!(request.body, requests[0].body);
    }
}

#[tokio::test]
async fn two_calls_carry_two_keys_unless_the_caller_gives_one() {
    let created = || response(200, json!({ "id": ID }));
    let server = Server::with_responses(vec![created(), created(), created(), created()]).await;
    let notify = server.client();
    let plain = notify.notifications();
    plain.create(&hello()).await.unwrap();
    plain.create(&hello()).await.unwrap();
    let keyed = notify.notifications().idempotency_key("order-17");
    keyed.create(&hello()).await.unwrap();
    keyed.create(&hello()).await.unwrap();
    let requests = server.requests().await;
    let keys: Vec<_> =
        requests.iter().map(|request| header(request, "idempotency-key").unwrap()).collect();
    assert_ne!(keys[0], keys[1]);
    assert_eq!(keys[2..], ["order-17", "order-17"]);
}

#[tokio::test]
async fn a_rejected_call_is_not_retried() {
    for status in [400, 401, 404, 409, 413, 500] {
        let server = Server::with_responses(vec![response(status, errors(&["no"]))]).await;
        let error = server.client().notifications().create(&hello()).await.unwrap_err();
        assert_eq!(error.status(), Some(status));
        assert_eq!(server.requests().await.len(), 1, "{status}");
    }
}

#[tokio::test]
async fn the_number_of_retries_is_limited() {
    let busy = || response(502, errors(&["busy"]));
    let server = Server::with_responses(vec![busy(), busy(), busy(), busy()]).await;
    let error = server.client().notifications().create(&hello()).await.unwrap_err();
    assert_eq!(error.status(), Some(502));
    assert_eq!(server.requests().await.len(), 3, "the first attempt and two retries");
}

#[tokio::test]
async fn an_application_is_not_created_twice() {
    let server = Server::with_responses(vec![
        response(502, errors(&["cut off"])),
        response(200, json!({ "id": ID })),
    ])
    .await;
    let shop = CreateApp { name: "Shop".into(), language: None };
    let error = server.client().admin().create_app(&shop).await.unwrap_err();
    assert_eq!(error.status(), Some(502));
    assert_eq!(server.requests().await.len(), 1);
}

#[tokio::test]
async fn a_deletion_whose_first_response_was_lost_succeeds() {
    let server = Server::with_responses(vec![
        response(504, errors(&["late"])),
        response(404, errors(&["not found"])),
    ])
    .await;
    server.client().devices().delete(&DeviceId::new("a").unwrap()).await.unwrap();
    assert_eq!(server.requests().await.len(), 2);
}

#[tokio::test]
async fn each_network_failure_has_its_error() {
    // Nothing listens on a port that has just been released.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let notify =
        Client::builder(&format!("http://{address}")).api_key(API_KEY).retries(0).build().unwrap();
    let error = notify.notifications().create(&hello()).await.unwrap_err();
    assert!(matches!(error, Error::Connect { .. }), "{error:?}");
    assert!(error.is_retryable());
    let start = format!("cannot connect to http://{address}: Connection refused");
    assert!(error.to_string().starts_with(&start), "{error}");

    let late = response(200, json!({ "id": ID })).set_delay(Duration::from_secs(600));
    let server = Server::with_responses(vec![late]).await;
    let notify = server
        .configure(Client::builder(&server.0.uri()))
        .timeout(Duration::from_millis(50))
        .retries(0)
        .build()
        .unwrap();
    let error = notify.notifications().create(&hello()).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
    assert_eq!(error.to_string(), format!("{} did not answer in time", server.0.uri()));

    // A listener that closes every connection.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let hang_up = tokio::spawn(async move {
        let mut count = 0;
        while count < 3 {
            drop(listener.accept().await.unwrap());
            count += 1;
        }
        count
    });
    let notify = server.configure(Client::builder(&format!("http://{address}"))).build().unwrap();
    let error = notify.notifications().create(&hello()).await.unwrap_err();
    assert!(matches!(error, Error::Transport { .. }), "{error:?}");
    let start = format!("the connection to http://{address} failed: ");
    assert!(error.to_string().starts_with(&start), "{error}");
    assert!(tokio::time::timeout(Duration::from_secs(60), hang_up).await.unwrap().unwrap() >= 3);
}

#[test]
fn an_invalid_setting_is_an_error() {
    let error = Client::builder("localhost:8080").api_key("k").build().unwrap_err();
    assert_eq!(error.to_string(), "base url `localhost:8080`: must begin with http:// or https://");
    let error = Client::builder("https://a.example").root_certificate("none").build().unwrap_err();
    assert_eq!(error.to_string(), "root certificate: the text contains no certificate");
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let error = Client::builder("https://a.example").root_certificate(broken).build().unwrap_err();
    assert!(matches!(error, Error::Config { .. }), "{error:?}");
}
