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
/// A script of the browser itself that collects the errors of pages and the failed requests. Requests that a
/// navigation or a redirect ended are no failures.
const WATCH: &str = r#"
    const problems = window.problems = [];
    const listener = {
        QueryInterface: ChromeUtils.generateQI(["nsIConsoleListener"]),
        observe(message) {
            if (!(message instanceof Ci.nsIScriptError)) return;
            if (!message.innerWindowID && !message.category.startsWith("CSP")) return;
            if (message.flags & Ci.nsIScriptError.warningFlag) return;
            problems.push(`${message.category}: ${message.errorMessage} (${message.sourceName})`);
        },
    };
    Services.console.registerListener(listener);
    const isEnded = (status) => [Cr.NS_BINDING_ABORTED, Cr.NS_BINDING_REDIRECTED].includes(status);
    const observer = {
        QueryInterface: ChromeUtils.generateQI(["nsIObserver"]),
        observe(subject) {
            const channel = subject.QueryInterface(Ci.nsIHttpChannel);
            if (!channel.URI.host.match(/^(127[.]0[.]0[.]1|localhost)$/)) return;
            if (!Components.isSuccessCode(channel.status)) {
                if (!isEnded(channel.status)) problems.push(`request: ${channel.status} (${channel.URI.spec})`);
            } else if (channel.responseStatus >= 400) {
                problems.push(`request: ${channel.responseStatus} (${channel.URI.spec})`);
            }
        },
    };
    Services.obs.addObserver(observer, "http-on-stop-request");
    window.watching = [listener, observer];"#;

/// A running browser with a new profile.
pub struct Firefox {
    child: Child,
    stream: BufReader<TcpStream>,
    profile: tempfile::TempDir,
    calls: u64,
    runs_scripts: bool,
}

impl Firefox {
    /// Starts a browser that makes no background requests, with these preferences.
    ///
    /// # Errors
    /// When Firefox is not installed (Debian: `firefox-esr`) or does not respond.
    pub async fn start(preferences: &[(&str, Value)]) -> Result<Self> {
        let profile = tempfile::tempdir()?;
        let defaults = [
            ("marionette.port", json!(0)),
            ("app.normandy.enabled", json!(false)),
            ("app.update.disabledForTesting", json!(true)),
            ("browser.safebrowsing.update.enabled", json!(false)),
            ("browser.shell.checkDefaultBrowser", json!(false)),
            ("datareporting.policy.dataSubmissionEnabled", json!(false)),
            ("extensions.update.enabled", json!(false)),
            ("network.captive-portal-service.enabled", json!(false)),
            ("network.connectivity-service.enabled", json!(false)),
            ("services.settings.server", json!("http://127.0.0.1:9/")),
        ];
        let mut file = String::new();
        for (name, value) in defaults.iter().chain(preferences) {
            writeln!(file, "user_pref({}, {value});", json!(name))?;
        }
        std::fs::write(profile.path().join("user.js"), file)?;
        let child = Command::new("firefox")
            .args(["--headless", "--marionette", "--remote-allow-system-access", "--no-remote"])
            .arg("--profile")
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
        let mut started = Self { child, stream, profile, calls: 0, runs_scripts: true };
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

    /// Clicks an element as a mouse does. A page may replace the element after it was found; then its
    /// successor is clicked.
    ///
    /// # Errors
    /// When no element matches, or the element is not visible.
    pub async fn click(&mut self, selector: &str) -> Result<()> {
        let by = json!({"using": "css selector", "value": selector});
        until("the element stays in the page", async || {
            let found = self.call("WebDriver:FindElement", by.clone()).await?;
            let element = json!({"id": found["value"][ELEMENT]});
            match self.call("WebDriver:ElementClick", element).await {
                Err(error) if error.to_string().contains("stale element reference") => Ok(None),
                clicked => clicked.map(Some),
            }
        })
        .await?;
        Ok(())
    }

    /// Presses and releases keys, one after another. Each is a character, or a code point of a key that
    /// prints none (`WebDriver`, section 17.4.2). `held` is held during all of them.
    ///
    /// # Errors
    /// When the browser does not respond.
    pub async fn press(&mut self, held: Option<char>, keys: &str) -> Result<()> {
        let event = |kind: &str, key: char| json!({"type": kind, "value": key.to_string()});
        let mut events: Vec<Value> = held.map(|key| event("keyDown", key)).into_iter().collect();
        events.extend(keys.chars().flat_map(|key| [event("keyDown", key), event("keyUp", key)]));
        events.extend(held.map(|key| event("keyUp", key)));
        let keyboard = json!({"type": "key", "id": "keyboard", "actions": events});
        self.call("WebDriver:PerformActions", json!({"actions": [keyboard]})).await?;
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
        // In a page without scripts, only the browser's own scripts run.
        let sandbox = if self.runs_scripts { Value::Null } else { json!("system") };
        let how = json!({"script": script, "args": [], "sandbox": sandbox});
        let answer = self.call("WebDriver:ExecuteAsyncScript", how).await?;
        let thrown = answer["value"].as_str().is_some_and(|value| value.starts_with("thrown: "));
        ensure!(!thrown, "{expression}: {answer}");
        Ok(answer["value"].clone())
    }

    /// Collects the errors of pages and the failed requests from now on, for [`Self::problems`].
    ///
    /// # Errors
    /// When the browser does not respond.
    pub async fn watch(&mut self) -> Result<()> {
        self.run_in_browser(WATCH).await?;
        Ok(())
    }

    /// Returns and forgets the collected errors.
    ///
    /// # Errors
    /// When the browser does not respond.
    pub async fn problems(&mut self) -> Result<Vec<String>> {
        let all = self.run_in_browser("return window.problems.splice(0);").await?;
        Ok(serde_json::from_value(all)?)
    }

    /// Gives the page this size, which may be narrower than a window.
    ///
    /// # Errors
    /// When the browser does not respond.
    pub async fn resize(&mut self, width: u32, height: u32) -> Result<()> {
        let (outer_width, outer_height) = (width.max(500) + 20, height + 200);
        let outer = json!({"width": outer_width, "height": outer_height});
        self.call("WebDriver:SetWindowRect", outer).await?;
        let script = format!(
            "const style = gBrowser.selectedBrowser.style;
             for (const [name, size] of [['width', {width}], ['height', {height}]])
                 for (const limit of ['', 'min-', 'max-'])
                     style.setProperty(limit + name, `${{size}}px`, 'important');"
        );
        self.run_in_browser(&script).await?;
        let size = format!("innerWidth === {width} && innerHeight === {height}");
        until("the page has its size", async || Ok((self.run(&size).await? == true).then_some(())))
            .await
    }

    /// Tells pages that the user prefers a dark or a light theme.
    ///
    /// # Errors
    /// When the browser does not respond.
    pub async fn set_dark(&mut self, is_dark: bool) -> Result<()> {
        let theme = u32::from(!is_dark);
        let name = "layout.css.prefers-color-scheme.content-override";
        self.run_in_browser(&format!("Services.prefs.setIntPref('{name}', {theme});")).await?;
        Ok(())
    }

    /// Lets the pages that are loaded from now on run scripts, or not.
    ///
    /// # Errors
    /// When the browser does not respond.
    pub async fn set_scripts(&mut self, runs_scripts: bool) -> Result<()> {
        let script = format!("Services.prefs.setBoolPref('javascript.enabled', {runs_scripts});");
        self.run_in_browser(&script).await?;
        self.runs_scripts = runs_scripts;
        Ok(())
    }

    /// A picture of the whole page as PNG in base64.
    ///
    /// # Errors
    /// When the browser does not respond.
    pub async fn screenshot(&mut self) -> Result<String> {
        let taken = self.call("WebDriver:TakeScreenshot", json!({"full": true})).await?;
        Ok(taken["value"].as_str().context("a picture")?.to_owned())
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

    /// Runs statements with the rights of the browser itself.
    async fn run_in_browser(&mut self, script: &str) -> Result<Value> {
        self.call("Marionette:SetContext", json!({"value": "chrome"})).await?;
        let how = json!({"script": script, "args": []});
        let answer = self.call("WebDriver:ExecuteScript", how).await;
        self.call("Marionette:SetContext", json!({"value": "content"})).await?;
        Ok(answer?["value"].take())
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
