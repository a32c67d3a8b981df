//! Internal errors are logged, and never shown to a caller.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use notify_core::Timestamp;
use notify_server::app::{App, open_store};
use notify_server::clock::Clock;
use notify_server::config::Config;
use notify_server::store::sqlite::Fault;
use notify_tests::{NOW, TestServer, capture_log, logged};
use secrecy::ExposeSecret;
use tokio::net::TcpListener;

use crate::fixtures::to_android;

/// A clock that panics once its flag is set.
struct Brittle(AtomicBool);

#[async_trait::async_trait]
impl Clock for Brittle {
    fn now(&self) -> Timestamp {
        assert!(!self.0.load(Ordering::SeqCst), "the clock broke");
        NOW
    }

    async fn sleep_until(&self, _: Timestamp) {
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_panic_is_a_500_without_details_and_the_server_keeps_running() {
    capture_log();
    let folder = tempfile::tempdir().unwrap();
    let config = Config { data_dir: folder.path().to_owned(), ..Config::default() };
    let store = open_store(&config, true).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let clock = Arc::new(Brittle(AtomicBool::new(false)));
    let app = App::start_on(config, listener, store, clock.clone()).await.unwrap();
    let key = app.first_keys.as_ref().unwrap().api_key.expose_secret().to_owned();
    let url = format!("{}/v1/tags", app.origin);
    let ask = async || {
        let request =
            notify_tests::http_client().build().unwrap().get(&url).header("x-api-key", &key);
        let response = request.header("x-request-id", "when-it-broke").send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    assert_eq!(ask().await.0, 200);
    clock.0.store(true, Ordering::SeqCst);
    assert_eq!(ask().await, (500, r#"{"errors":["internal error"]}"#.to_owned()));
    let log = logged();
    let mut lines = log.lines().filter(|line| line.contains("when-it-broke"));
    let line = lines.find(|line| line.contains("ERROR")).expect("it is logged with its id");
    assert!(line.contains("the clock broke"), "{line}");
    clock.0.store(false, Ordering::SeqCst);
    assert_eq!(ask().await.0, 200);
}

#[tokio::test]
async fn a_full_disk_is_503_and_nothing_is_stored() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    caller.get("/v1/notifications").await.ok();
    server.store().fail(Fault::FailEveryCommit);
    let answer = caller.post("/v1/notifications", &to_android()).await;
    answer.rejected(503, &["unavailable"]);
    server.store().remove_fault();
    assert!(!answer.header("retry-after").is_empty());
    assert!(logged().contains(answer.header("x-request-id")), "the cause is logged");
    let listed = caller.get("/v1/notifications").await.ok();
    assert_eq!(listed["notifications"], serde_json::json!([]));
    caller.post("/v1/notifications", &to_android()).await.id();
}
