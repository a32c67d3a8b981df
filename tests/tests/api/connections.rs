//! Connections: how they end when the server stops, HTTP/2 and TLS.

use std::io::{Read, Write};

use notify_tests::{Response, ServerCertificate, TestServer, read_to_end};
use reqwest::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::PATIENCE;
use crate::fixtures::to_android;

#[tokio::test]
async fn a_stop_completes_requests_in_flight_and_rejects_new_ones_with_503() {
    let server = TestServer::without_providers().await;
    let body = to_android().to_string();
    let (first_part, second_part) = body.split_at(10);
    let mut in_flight = server.connect().await;
    let head = format!(
        "POST /v1/notifications HTTP/1.1\r\nhost: a\r\nx-api-key: {}\r\ncontent-length: {}\r\n\
         expect: 100-continue\r\n\r\n",
        server.api_key(),
        body.len()
    );
    in_flight.write_all(head.as_bytes()).await.unwrap();
    // The server asks for the body: from here on the request is in flight.
    let mut asked = [0; 25];
    in_flight.read_exact(&mut asked).await.unwrap();
    assert!(asked.starts_with(b"HTTP/1.1 100 "));
    in_flight.write_all(first_part.as_bytes()).await.unwrap();
    let mut kept = server.connect().await;
    let request = b"GET /readyz HTTP/1.1\r\nhost: a\r\n\r\n";
    kept.write_all(request).await.unwrap();
    let mut answer = vec![0; 4_096];
    let read = kept.read(&mut answer).await.unwrap();
    assert!(answer[..read].starts_with(b"HTTP/1.1 200 "));

    let address = server.address();
    let stopping = tokio::spawn(server.stop());
    // Until the stop begins, the response is 200.
    let refused = tokio::time::timeout(PATIENCE, async {
        loop {
            kept.write_all(request).await.unwrap();
            let read = kept.read(&mut answer).await.unwrap();
            let text = String::from_utf8_lossy(&answer[..read]).into_owned();
            if !text.starts_with("HTTP/1.1 200 ") {
                return text;
            }
        }
    });
    let refused = refused.await.unwrap();
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    assert!(refused.contains("retry-after: 5") && refused.contains("the server is stopping"));

    in_flight.write_all(second_part.as_bytes()).await.unwrap();
    let answer = read_to_end(&mut in_flight).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    stopping.await.unwrap();
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "the port is closed");
}

/// A client whose connection was reset does not know whether its request had an effect.
#[tokio::test]
async fn a_stop_answers_connections_that_are_not_accepted_yet_with_503() {
    let server = TestServer::without_providers().await;
    // Nothing is awaited between here and the stop, so the server's task does not accept the connections.
    let clients: Vec<_> = (0..20)
        .map(|_| {
            let mut client = std::net::TcpStream::connect(server.address()).unwrap();
            client.set_read_timeout(Some(PATIENCE)).unwrap();
            client.write_all(b"GET /readyz HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
            client
        })
        .collect();
    server.stop().await;
    for mut client in clients {
        let mut response = String::new();
        client.read_to_string(&mut response).unwrap();
        assert!(response.starts_with("HTTP/1.1 503 "), "{response}");
    }
}

#[tokio::test]
async fn http2_is_served_on_the_same_port() {
    let server = TestServer::without_providers().await;
    let http = notify_tests::http_client().http2_prior_knowledge().build().unwrap();
    let url = format!("{}/v1/devices", server.origin());
    let request = http.request(Method::GET, &url).header("x-api-key", server.api_key());
    let response = request.send().await.unwrap();
    assert_eq!((response.status().as_u16(), response.version()), (200, http::Version::HTTP_2));
    Response::of(http.request(Method::HEAD, url)).await.is(401);
}

#[tokio::test]
async fn tls_is_served_when_it_is_configured() {
    let certificate = ServerCertificate::of("localhost").unwrap();
    let server = TestServer::without_providers_with(|config| certificate.configure(config)).await;
    assert!(server.origin().starts_with("https://127.0.0.1:"));
    let http = certificate.client().resolve("localhost", server.address()).build().unwrap();
    let url = format!("https://localhost:{}/healthz", server.address().port());
    let response = http.get(url).send().await.unwrap();
    assert_eq!((response.status().as_u16(), response.version()), (200, http::Version::HTTP_2));
}
