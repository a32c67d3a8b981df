//! A mock server, and the command run against it with an empty home directory.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;
use wiremock::{Mock, MockServer, Request, ResponseTemplate, matchers::any};

pub(crate) const ID: &str = "0190a3b2-7f00-7000-8000-000000000001";

/// A response in the form of the API.
pub(crate) fn response(status: u16, body: &Value) -> ResponseTemplate {
    ResponseTemplate::new(status)
        .insert_header("x-request-id", "req-1")
        .set_body_raw(body.to_string(), "application/json; charset=utf-8")
}

/// The exit status and the output of a run of the command.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Asserts status 0 and an empty stderr.
    pub(crate) fn assert_success(self) -> Self {
        assert_eq!((self.status, self.stderr.as_str()), (0, ""), "{self:?}");
        self
    }
}

pub(crate) struct Fixture {
    pub(crate) server: MockServer,
    pub(crate) home: TempDir,
}

impl Fixture {
    /// Responds to every request with this body.
    pub(crate) async fn with_body(body: Value) -> Self {
        let fixture = Self::new().await;
        Mock::given(any()).respond_with(response(200, &body)).mount(&fixture.server).await;
        fixture
    }

    /// Sends these responses in turn.
    pub(crate) async fn with_responses(responses: Vec<ResponseTemplate>) -> Self {
        let fixture = Self::new().await;
        for response in responses {
            Mock::given(any()).respond_with(response).up_to_n_times(1).mount(&fixture.server).await;
        }
        fixture
    }

    pub(crate) async fn new() -> Self {
        // A mock server that is dropped takes locks of tokio without awaiting them. If the task has used up
        // its budget, they wait for ever. A test with a long table uses up the budget unless it yields.
        tokio::task::yield_now().await;
        Self { server: MockServer::start().await, home: TempDir::new().unwrap() }
    }

    /// The command with the server and keys in its environment, and nothing else.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.offline(args);
        command
            .env("NOTIFY_URL", self.server.uri())
            .env("NOTIFY_API_KEY", "nk_test")
            .env("NOTIFY_ADMIN_KEY", "na_test");
        command
    }

    /// The command with only a home directory in its environment.
    pub(crate) fn offline(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_notify"));
        command
            .env_clear()
            .env("HOME", self.home.path())
            .env("RUST_BACKTRACE", "1")
            .current_dir(self.home.path())
            .args(args);
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Run {
        finish(self.command(args))
    }

    /// Writes a file in the home directory.
    pub(crate) fn file(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.home.path().join(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.home.path().join(name)).unwrap()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        Path::exists(&self.home.path().join(name))
    }

    pub(crate) async fn requests(&self) -> Vec<Request> {
        self.server.received_requests().await.unwrap()
    }

    /// The requests: `METHOD path?query`, and the body.
    pub(crate) async fn received(&self) -> Vec<(String, Option<Value>)> {
        self.requests().await.iter().map(line_and_body).collect()
    }
}

pub(crate) fn line_and_body(request: &Request) -> (String, Option<Value>) {
    let query = request.url.query().map(|query| format!("?{query}")).unwrap_or_default();
    let body = (!request.body.is_empty()).then(|| request.body_json().unwrap());
    (format!("{} {}{query}", request.method, request.url.path()), body)
}

pub(crate) fn finish(mut command: Command) -> Run {
    let output = command.timeout(std::time::Duration::from_secs(30)).output().unwrap();
    Run {
        status: output.status.code().expect("the command was not killed"),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}
