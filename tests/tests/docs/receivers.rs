//! The receivers of webhooks in the guide accept what the server signs, and nothing else.

use std::future::Future;

use notify_client::{
    notify_core::Timestamp,
    webhook::{Signer, Verifier, generate_secret},
};
use tokio::net::TcpListener;

use super::{axum_receiver, read, warp_receiver};

/// The listing of a file: everything below its comment.
fn listing(source: &str) -> &str {
    source.split_once("\n\n").expect("the file begins with a comment").1
}

#[test]
fn the_guide_has_the_tested_receivers() {
    let guide = read("docs/rust.md");
    assert!(guide.contains(listing(include_str!("axum_receiver.rs"))), "axum");
    assert!(guide.contains(listing(include_str!("warp_receiver.rs"))), "warp");
}

/// Posts a message that is signed with the secret of the receiver, and one that is signed with another.
async fn check<F: Future<Output = ()> + Send + 'static>(
    serve: impl FnOnce(TcpListener, Verifier) -> F,
) {
    let (secret, other) = (generate_secret(), generate_secret());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/hooks/notify", listener.local_addr().expect("an address"));
    let server = tokio::spawn(serve(listener, Verifier::new(&secret).expect("a secret")));
    let body = r#"{"type":"webhook.test","timestamp":"2026-01-02T03:04:05Z",
        "data":{"webhook_id":"01a1fcca-c215-7675-a2bd-33565b9cffe4"}}"#;
    let clock = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a time after 1970").as_millis();
    let now = Timestamp::from_ms(clock.try_into().expect("a time of today"));
    for (secret, status) in [(secret, 204), (other, 401)] {
        let mut request =
            notify_tests::http_client().build().expect("a client").post(&url).body(body);
        for (name, value) in
            Signer::new(&secret).expect("a secret").sign("m-1", now, body.as_bytes())
        {
            request = request.header(name, value);
        }
        assert_eq!(request.send().await.expect("a response").status().as_u16(), status);
    }
    server.abort();
}

#[tokio::test]
async fn the_receiver_with_axum_checks_signatures() {
    check(|listener, verifier| async move {
        axum::serve(listener, axum_receiver::app(verifier)).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn the_receiver_with_warp_checks_signatures() {
    check(|listener, verifier| warp::serve(warp_receiver::app(verifier)).incoming(listener).run())
        .await;
}
