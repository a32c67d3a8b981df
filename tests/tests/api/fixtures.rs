//! A server, callers, and the checks that every answer must pass.

use std::io::Write;
use std::sync::{Arc, LazyLock, Mutex, Once};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use notify_core::Timestamp;
use notify_server::app::{App, open_store};
use notify_server::clock::ManualClock;
use notify_server::config::{Config, Span};
use notify_server::store::Store;
use notify_server::store::postgres::testing::{TestCluster, TestDatabase};
use reqwest::{Method, RequestBuilder};
use secrecy::ExposeSecret;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Names the database of every server: `sqlite` (the default) or `postgres`.
const BACKEND_VARIABLE: &str = "NOTIFY_TEST_BACKEND";
/// Longest time that a test waits for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// Where every test's clock begins: 2026-11-21.
pub(crate) const NOW: Timestamp = Timestamp(1_795_219_200_000);

static LOG: LazyLock<Mutex<Vec<u8>>> = LazyLock::new(Mutex::default);

/// Everything that was logged so far by any test of this process.
pub(crate) fn logged() -> String {
    String::from_utf8_lossy(&LOG.lock().unwrap()).into_owned()
}

struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOG.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Keeps what is logged from now on.
pub(crate) fn keep_log() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let filter = "notify_server=trace,hyper=debug,warp=debug";
        tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::new(filter))
            .with_ansi(false)
            .with_writer(|| Log)
            .init();
    });
}

/// A running server.
pub(crate) struct TestServer {
    pub(crate) app: App,
    /// The store by its own type, for faults.
    pub(crate) disk: Arc<Store>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) api_key: String,
    pub(crate) admin_key: String,
    config: Config,
    /// Goes with the last server on it.
    database: Option<Arc<TestDatabase>>,
}

/// A database of its own where the environment asks for PostgreSQL: the whole suite runs on either.
fn chosen(config: &mut Config) -> Option<Arc<TestDatabase>> {
    match std::env::var(BACKEND_VARIABLE).as_deref() {
        Err(_) | Ok("" | "sqlite") => None,
        Ok("postgres") => {
            let database = TestCluster::shared().database();
            on(&database)(config);
            Some(Arc::new(database))
        }
        Ok(other) => panic!("{BACKEND_VARIABLE}={other}: neither sqlite nor postgres"),
    }
}

/// Has a server work on a database.
pub(crate) fn on(database: &TestDatabase) -> impl FnOnce(&mut Config) + use<> {
    let url = database.url().parse().unwrap();
    |config: &mut Config| {
        config.database_url = Some(url);
        config.master_key = Some(STANDARD.encode([7; 32]).into());
        config.reader_threads = 2;
    }
}

impl TestServer {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// On a file, whatever the environment asks for.
    pub(crate) async fn start_on_file() -> Self {
        Self::start_with(|config| config.database_url = None).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        keep_log();
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config {
            data_dir: folder.path().to_owned(),
            shutdown_grace: Span::from_secs(5),
            ..Config::default()
        };
        let database = chosen(&mut config);
        change(&mut config);
        let clock = ManualClock::at(NOW);
        let (app, disk) = run(&config, &clock).await;
        let keys = app.first_keys.as_ref().unwrap();
        let api_key = keys.api_key.expose_secret().to_owned();
        let admin_key = keys.admin_key.expose_secret().to_owned();
        app.keys_shown().await.unwrap();
        Self { app, disk, clock, folder, api_key, admin_key, config, database }
    }

    /// Starts another server on the same database.
    pub(crate) async fn beside(&self) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = Config { data_dir: folder.path().to_owned(), ..self.config.clone() };
        let clock = self.clock.clone();
        let (app, disk) = run(&config, &clock).await;
        assert!(app.first_keys.is_none(), "keys are made once");
        let (api_key, admin_key) = (self.api_key.clone(), self.admin_key.clone());
        let database = self.database.clone();
        Self { app, disk, clock, folder, api_key, admin_key, config, database }
    }

    /// Stops the server and starts it on the same data.
    pub(crate) async fn restarted(self) -> Self {
        let Self { app, disk, clock, folder, api_key, admin_key, config, database } = self;
        assert!(app.stop().await);
        drop(disk);
        let (app, disk) = run(&config, &clock).await;
        assert!(app.first_keys.is_none(), "keys are made once");
        Self { app, disk, clock, folder, api_key, admin_key, config, database }
    }

    /// Calls as the first application.
    pub(crate) fn caller(&self) -> Caller {
        self.calling("x-api-key", self.api_key.clone())
    }

    /// Calls as an administrator.
    pub(crate) fn admin(&self) -> Caller {
        self.calling("authorization", format!("Bearer {}", self.admin_key))
    }

    /// Calls without a key.
    pub(crate) fn anyone(&self) -> Caller {
        self.calling("x-nothing", "at all".to_owned())
    }

    pub(crate) fn calling(&self, header: &'static str, value: String) -> Caller {
        let http = reqwest::Client::builder().timeout(PATIENCE).build().unwrap();
        Caller { http, origin: self.app.origin.clone(), header, value }
    }

    /// Another application.
    pub(crate) async fn another_app(&self) -> (String, Caller) {
        let admin = self.admin();
        let app = admin.post("/admin/v1/apps", &json!({"name": "other"})).await.ok();
        let id = app["id"].as_str().unwrap().to_owned();
        let key = admin.post(&format!("/admin/v1/apps/{id}/keys"), &json!({})).await.ok();
        let caller = self.calling("x-api-key", key["api_key"].as_str().unwrap().to_owned());
        (id, caller)
    }

    /// A bare connection.
    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.app.address).await.unwrap()
    }

    /// Sends bytes on a connection of their own and reads until it is closed.
    pub(crate) async fn exchange(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect().await;
        // The server may close before it has taken everything.
        let _ = stream.write_all(bytes).await;
        read_to_end(&mut stream).await
    }
}

async fn run(config: &Config, clock: &Arc<ManualClock>) -> (App, Arc<Store>) {
    let store = open_store(config, true).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let app = App::start_on(config.clone(), listener, store.clone(), clock.clone()).await.unwrap();
    (app, store)
}

/// What comes until the other side closes; fails when it does not.
pub(crate) async fn read_to_end(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await;
    // A reset after the answer is an end, too.
    let _ = read.expect("the server closes the connection");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Someone with a key, or without.
#[derive(Clone)]
pub(crate) struct Caller {
    http: reqwest::Client,
    origin: String,
    header: &'static str,
    value: String,
}

impl Caller {
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.origin)).header(self.header, &self.value)
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        Answer::of(self.request(Method::GET, path)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        Answer::of(self.request(Method::DELETE, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_bytes(path, body.to_string()).await
    }

    pub(crate) async fn post_bytes(&self, path: &str, body: impl Into<reqwest::Body>) -> Answer {
        Answer::of(self.request(Method::POST, path).body(body)).await
    }

    pub(crate) async fn post_once(&self, path: &str, key: &str, body: &Value) -> Answer {
        let request = self.request(Method::POST, path).header("idempotency-key", key);
        Answer::of(request.body(body.to_string())).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        Answer::of(self.request(Method::PUT, path).body(body.to_string())).await
    }

    pub(crate) async fn patch(&self, path: &str, body: &Value) -> Answer {
        Answer::of(self.request(Method::PATCH, path).body(body.to_string())).await
    }
}

/// An answer that passed the checks that all must pass.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) async fn of(request: RequestBuilder) -> Self {
        let response = request.send().await.expect("the server answers");
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let is_page = response.url().path().starts_with("/polls");
        let text = response.text().await.expect("the answer is whole");
        let answer = Self { status, headers, text };
        answer.check(is_page);
        answer
    }

    fn check(&self, is_page: bool) {
        assert!(!self.header("x-request-id").is_empty(), "every answer has its id: {self:?}");
        assert_eq!(self.header("x-content-type-options"), "nosniff");
        assert!(!self.header("cache-control").is_empty(), "no cache decides by itself: {self:?}");
        if self.status >= 400 && is_page {
            assert_eq!(self.header("content-type"), "text/html; charset=utf-8");
        } else if self.status >= 400 && !self.text.is_empty() {
            assert_eq!(self.header("content-type"), "application/json; charset=utf-8");
            let errors = self.json()["errors"].as_array().cloned().unwrap_or_default();
            assert!(!errors.is_empty() && errors.iter().all(Value::is_string), "{self:?}");
        }
        assert!(self.status < 500 || self.status == 503, "{self:?}");
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The body of a success.
    #[track_caller]
    pub(crate) fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        assert_eq!(self.header("content-type"), "application/json; charset=utf-8");
        self.json()
    }

    /// The id of a success.
    #[track_caller]
    pub(crate) fn id(&self) -> String {
        self.ok()["id"].as_str().expect("the answer has an id").to_owned()
    }

    /// Checks status and errors of a failure.
    #[track_caller]
    pub(crate) fn rejected(&self, status: u16, errors: &[&str]) {
        assert_eq!((self.status, self.json()), (status, json!({"errors": errors})), "{self:?}");
    }

    /// Checks the status alone, of a failure whose words are tested elsewhere.
    #[track_caller]
    pub(crate) fn is(&self, status: u16) {
        assert_eq!(self.status, status, "{self:?}");
    }
}

/// A registration that is accepted.
pub(crate) fn android(id: &str) -> Value {
    json!({"device_id": id, "platform": "android", "sdk_type": "android_push",
        "push_token": format!("token-{id}")})
}

/// A notification that is accepted.
pub(crate) fn to_android() -> Value {
    json!({"text": "hello", "platforms": ["android"]})
}

/// A template that is accepted.
pub(crate) fn template(name: &str) -> Value {
    json!({"name": name, "layout_id": "content_with_two", "settings": {}, "features": [
        {"type": "action_button", "position": 1, "data": {"type": "url", "url": "https://a.example"}}
    ]})
}
