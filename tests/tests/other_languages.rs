//! `notify-server sandbox --with-server`, used by the examples in Python and TypeScript, and its errors.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use notify_tests::{WAIT_MAX, binary};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name)
}

/// Runs a command in the folder of an example, and returns an error with its output if it fails.
async fn run(folder: &Path, command: &[&str]) -> Result<()> {
    let (program, arguments) = command.split_first().context("a command has a program")?;
    let running = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .env("NOTIFY_SERVER", binary("notify-server")?)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(WAIT_MAX, running).await?.context(program.to_string())?;
    let status = output.status;
    let output =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    ensure!(status.success(), "{command:?}: {status}\n{}", output.concat());
    Ok(())
}

#[tokio::test]
async fn the_tests_of_the_python_example_pass() {
    run(&example("python"), &["python3", "-m", "unittest"]).await.unwrap();
}

#[tokio::test]
async fn the_tests_of_the_typescript_example_pass() {
    let source = example("typescript");
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(&source).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            std::fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    let install = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"];
    run(folder.path(), &install).await.unwrap();
    run(folder.path(), &["npm", "test", "--silent"]).await.unwrap();
}

/// A running `notify-server sandbox --with-server`.
struct WithServer {
    process: Child,
    started: Value,
    http: reqwest::Client,
}

impl WithServer {
    async fn start() -> Self {
        let mut process = Command::new(binary("notify-server").expect("it is built"))
            .args(["sandbox", "--with-server", "--listen", "127.0.0.1:0", "--log", "error"])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("it starts");
        let mut lines = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        let line = tokio::time::timeout(WAIT_MAX, lines.next_line()).await;
        let line = line.expect("it prints in time").expect("the line is UTF-8");
        let started =
            serde_json::from_str(&line.expect("it prints where everything is")).expect("JSON");
        Self { process, started, http: notify_tests::http_client().build().expect("a client") }
    }

    async fn control(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let url = format!("{}{path}", self.started["control_url"].as_str().expect("a url"));
        let request =
            self.http.request(method.parse().expect("a method"), url).body(body.to_owned());
        let answer = request.send().await.expect("an answer");
        (answer.status().as_u16(), answer.json().await.expect("JSON"))
    }

    async fn api(&self, path: &str, body: &Value) -> Value {
        let url = format!("{}{path}", self.started["url"].as_str().expect("a url"));
        let key = self.started["api_key"].as_str().expect("a key");
        let request = self.http.post(url).header("x-api-key", key).json(body);
        let answer = request.send().await.and_then(reqwest::Response::error_for_status);
        answer.expect("it is accepted").json().await.expect("JSON")
    }
}

#[tokio::test]
async fn the_control_api_answers_what_was_delivered_and_explains_its_errors() {
    let mut server = WithServer::start().await;
    let phone = json!({
        "device_id": "phone-1", "platform": "android", "sdk_type": "android_push", "push_token": "t-1"
    });
    server.api("/v1/devices", &phone).await;
    for (method, path, body, status, error) in [
        ("GET", "/delivered?device_id=phone-2", "", 404, "there is no device `phone-2`"),
        ("GET", "/delivered", "", 400, "device_id: is required, and no other parameter"),
        ("GET", "/elsewhere", "", 404, "no such path"),
        ("PUT", "/advance", "{}", 405, "no such method on this path"),
        (
            "POST",
            "/advance",
            "{\"minutes\": 1}",
            400,
            "unknown field `minutes`, expected `seconds` at line 1 column 10",
        ),
        (
            "POST",
            "/failures",
            "{\"failure\": \"unavailable\"}",
            400,
            "device_id, platform: one of them is required; times needs device_id",
        ),
        (
            "POST",
            "/failures",
            "{\"failure\": \"unavailable\", \"platform\": \"symbian\"}",
            400,
            "platform: is not a platform",
        ),
        (
            "POST",
            "/failures",
            "{\"failure\": \"unavailable\", \"device_id\": \"phone-2\"}",
            404,
            "there is no device `phone-2`",
        ),
    ] {
        let answer = server.control(method, path, body).await;
        assert_eq!(answer, (status, json!({ "errors": [error] })), "{method} {path} {body}");
    }
    let ok = (200, json!({}));
    let failure = "{\"failure\": \"unavailable\", \"platform\": \"android\"}";
    assert_eq!(server.control("POST", "/failures", failure).await, ok);
    let hello = json!({ "text": "Hello", "title": "Shop", "device_ids": ["phone-1"] });
    let id = server.api("/v1/notifications", &hello).await["id"].clone();
    let nothing = (200, json!({ "messages": [] }));
    assert_eq!(server.control("GET", "/delivered?device_id=phone-1", "").await, nothing);
    assert_eq!(server.control("DELETE", "/failures", "").await, ok);
    let (status, advanced) = server.control("POST", "/advance", "{\"seconds\": 600}").await;
    assert!(status == 200 && advanced["now"].is_i64(), "{advanced}");
    let (_, mut delivered) = server.control("GET", "/delivered?device_id=phone-1", "").await;
    let message = delivered["messages"][0].as_object_mut().unwrap();
    assert!(message.remove("at").is_some_and(|at| at.is_i64()));
    let payload = message.remove("payload").unwrap();
    assert_eq!(payload["message"]["notification"], json!({ "title": "Shop", "body": "Hello" }));
    assert_eq!(
        delivered,
        json!({ "messages": [{
            "platform": "android", "notification_id": id, "title": "Shop", "text": "Hello", "url": null,
            "is_silent": false,
        }]})
    );
    assert_eq!(server.control("DELETE", "/delivered", "").await, ok);
    assert_eq!(server.control("GET", "/delivered?device_id=phone-1", "").await, nothing);
    server.process.kill().await.unwrap();
}
