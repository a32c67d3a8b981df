//! A headless Firefox, driven by Marionette: JSON with a length prefix over TCP.

use std::fmt::Write as _;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::{WAIT_MAX, until};

/// The file in the profile that has the port.
const PORT_FILE: &str = "MarionetteActivePort";
/// The member of a response that has the id of an element (`WebDriver`, section 12.1).
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A running browser with a new profile.
pub struct Firefox {
    child: Child,
    stream: BufReader<TcpStream>,
    profile: tempfile::TempDir,
    calls: u64,
}

impl Firefox {
    /// Starts a browser that uses a push service, allows pages to show notifications, and makes no background
    /// requests.
    ///
    /// # Errors
    /// When Firefox is not installed (Debian: `firefox-esr`) or does not respond.
    pub async fn start(push_service: &str) -> Result<Self> {
        let profile = tempfile::tempdir()?;
        let mut preferences = String::new();
        for (name, value) in [
            ("marionette.port", json!(0)),
            ("dom.push.serverURL", json!(push_service)),
            ("dom.push.testing.allowInsecureServerURL", json!(true)),
            // Marionette disables this setting by default.
            ("dom.push.connection.enabled", json!(true)),
            ("permissions.default.desktop-notification", json!(1)),
            ("alerts.useSystemBackend", json!(false)),
            ("app.normandy.enabled", json!(false)),
            ("app.update.disabledForTesting", json!(true)),
            ("browser.safebrowsing.update.enabled", json!(false)),
            ("browser.shell.checkDefaultBrowser", json!(false)),
            ("datareporting.policy.dataSubmissionEnabled", json!(false)),
            ("extensions.update.enabled", json!(false)),
            ("network.captive-portal-service.enabled", json!(false)),
            ("network.connectivity-service.enabled", json!(false)),
            ("services.settings.server", json!("http://127.0.0.1:9/")),
        ] {
            writeln!(preferences, "user_pref({}, {value});", json!(name))?;
        }
        std::fs::write(profile.path().join("user.js"), preferences)?;
        let child = Command::new("firefox")
            .args(["--headless", "--marionette", "--no-remote", "--profile"])
            .arg(profile.path())
            .arg("about:blank")
            .env("HOME", profile.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .context("firefox does not start; is the Debian package `firefox-esr` there?")?;
        let file = profile.path().join(PORT_FILE);
        let port: u16 = until("firefox listens", async || {
            Ok(std::fs::read_to_string(&file).ok().and_then(|port| port.trim().parse().ok()))
        })
        .await?;
        let stream = BufReader::new(TcpStream::connect(("127.0.0.1", port)).await?);
        let mut started = Self { child, stream, profile, calls: 0 };
        started.read().await.context("it says what it speaks")?;
        started.call("WebDriver:NewSession", json!({})).await?;
        let limit = u64::try_from(WAIT_MAX.as_millis())?;
        let limits = json!({"script": limit, "pageLoad": limit});
        started.call("WebDriver:SetTimeouts", limits).await?;
        Ok(started)
    }

    /// Opens a page and waits until it has loaded.
    ///
    /// # Errors
    /// When the page does not load.
    pub async fn open(&mut self, url: &str) -> Result<()> {
        self.call("WebDriver:Navigate", json!({"url": url})).await?;
        Ok(())
    }

    /// Clicks an element as a mouse does.
    ///
    /// # Errors
    /// When no element matches, or the element is not visible.
    pub async fn click(&mut self, selector: &str) -> Result<()> {
        let by = json!({"using": "css selector", "value": selector});
        let found = self.call("WebDriver:FindElement", by).await?;
        let element = json!({"id": found["value"][ELEMENT]});
        self.call("WebDriver:ElementClick", element).await?;
        Ok(())
    }

    /// Runs an expression in the page, waits for its promise, and returns its value.
    ///
    /// # Errors
    /// When the expression throws, or does not end in time.
    pub async fn run(&mut self, expression: &str) -> Result<Value> {
        let script = format!(
            "const done = arguments[arguments.length - 1];
             Promise.resolve({expression}).then(done, (error) => done(`thrown: ${{error}}`));"
        );
        let how = json!({"script": script, "args": []});
        let answer = self.call("WebDriver:ExecuteAsyncScript", how).await?;
        let thrown = answer["value"].as_str().is_some_and(|value| value.starts_with("thrown: "));
        ensure!(!thrown, "{expression}: {answer}");
        Ok(answer["value"].clone())
    }

    /// Closes the browser.
    ///
    /// # Errors
    /// When the browser does not end in time.
    pub async fn stop(mut self) -> Result<()> {
        self.call("Marionette:Quit", json!({"flags": ["eForceQuit"]})).await?;
        tokio::time::timeout(WAIT_MAX, self.child.wait()).await.context("it ends")??;
        self.profile.close()?;
        Ok(())
    }

    async fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        self.calls += 1;
        let message = json!([0, self.calls, method, params]).to_string();
        let message = format!("{}:{message}", message.len());
        self.stream.write_all(message.as_bytes()).await?;
        let mut answer = self.read().await.with_context(|| method.to_owned())?;
        ensure!(answer[1] == self.calls, "{method}: the answer to another call: {answer}");
        ensure!(answer[2].is_null(), "{method}: {}", answer[2]);
        Ok(answer[3].take())
    }

    async fn read(&mut self) -> Result<Value> {
        let reading = async {
            let mut length = Vec::new();
            self.stream.read_until(b':', &mut length).await?;
            let length = String::from_utf8(length)?;
            let length: usize = length.trim_end_matches(':').parse().context("a length")?;
            let mut bytes = vec![0; length];
            self.stream.read_exact(&mut bytes).await?;
            anyhow::Ok(serde_json::from_slice(&bytes)?)
        };
        tokio::time::timeout(WAIT_MAX, reading).await.context("firefox says nothing")?
    }
}
