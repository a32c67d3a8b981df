//! Stopping: what is in flight ends, new requests get 503, nothing is lost.

use reqwest::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::kit::{Answer, PATIENCE, TestServer, read_to_end, to_android};

#[tokio::test]
async fn a_request_in_flight_ends_while_new_ones_are_told_to_come_back() {
    let server = TestServer::start().await;
    let body = to_android().to_string();
    let (first_part, second_part) = body.split_at(10);
    let mut in_flight = server.connect().await;
    let head = format!(
        "POST /v1/notifications HTTP/1.1\r\nhost: a\r\nx-api-key: {}\r\ncontent-length: {}\r\n\
         expect: 100-continue\r\n\r\n",
        server.api_key,
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

    let (address, folder) = (server.app.address, server.folder);
    let stopping = tokio::spawn(server.app.stop());
    // Turned away is who comes after the stop began; until then the answer is 200.
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
    assert!(stopping.await.unwrap(), "everything ended in time");
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "nobody listens");
    drop(folder);
}

#[tokio::test]
async fn what_was_accepted_is_there_after_a_restart() {
    let server = TestServer::start().await;
    let id = server.caller().post("/v1/notifications", &to_android()).await.id();
    let server = server.restarted().await;
    server.caller().get(&format!("/v1/notifications/{id}")).await.ok();
}

#[tokio::test]
async fn a_second_server_on_the_same_file_is_refused_with_clear_words() {
    let server = TestServer::start_on_file().await;
    let config = notify_server::config::Config {
        data_dir: server.folder.path().to_owned(),
        listen: "127.0.0.1:0".to_owned(),
        ..notify_server::config::Config::default()
    };
    let error = notify_server::app::App::start(config).await.unwrap_err();
    let error = format!("{:#}", anyhow::Error::new(error));
    assert!(error.contains("in use by another notify-server"), "{error}");
}

#[tokio::test]
async fn http_2_is_served_on_the_same_port() {
    let server = TestServer::start().await;
    let http = reqwest::Client::builder().http2_prior_knowledge().build().unwrap();
    let url = format!("{}/v1/devices", server.app.origin);
    let request = http.request(Method::GET, &url).header("x-api-key", &server.api_key);
    let response = request.send().await.unwrap();
    assert_eq!((response.status().as_u16(), response.version()), (200, http::Version::HTTP_2));
    Answer::of(http.request(Method::HEAD, url)).await.is(401);
}

#[tokio::test]
async fn tls_is_served_when_it_is_configured() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (cert, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let server = TestServer::start_with(|config| {
        config.tls_cert = Some(cert);
        config.tls_key = Some(key);
    })
    .await;
    assert!(server.app.origin.starts_with("https://127.0.0.1:"));
    let root = reqwest::Certificate::from_pem(made.cert.pem().as_bytes()).unwrap();
    let http = reqwest::Client::builder()
        .tls_certs_only([root])
        .resolve("localhost", server.app.address)
        .build()
        .unwrap();
    let url = format!("https://localhost:{}/healthz", server.app.address.port());
    let response = http.get(url).send().await.unwrap();
    assert_eq!((response.status().as_u16(), response.version()), (200, http::Version::HTTP_2));
}
