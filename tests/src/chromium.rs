//! A headless Chromium, which is driven by its `DevTools` protocol over pipes, without a port.

use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::WAIT_MAX;

/// A script that starts Chromium with the pipes of the protocol as file descriptors 3 and 4.
const WITH_PIPES: &str = r#"exec "$0" "$@" 3<&0 4>&1 0</dev/null 1>/dev/null 2>/dev/null"#;
/// The arguments of Chromium, with which it shows no dialogs and makes no background requests. Tests run as
/// root in containers, where Chromium's process sandbox cannot be set up.
const ARGUMENTS: [&str; 9] = [
    "--headless",
    "--hide-scrollbars",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--remote-debugging-pipe",
    "about:blank",
];

/// A running browser with a new profile.
pub struct Chromium {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    profile: tempfile::TempDir,
    calls: u64,
    events: Vec<Value>,
    problems: Vec<String>,
}

/// The session of a page or a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attached(String);

impl Chromium {
    /// Starts the browser.
    ///
    /// # Errors
    /// When Chromium is not installed (Debian: `chromium`) or does not respond.
    pub async fn start() -> Result<Self> {
        let profile = tempfile::tempdir()?;
        let mut child = Command::new("sh")
            .args(["-c", WITH_PIPES, "chromium"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .args(ARGUMENTS)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let input = child.stdin.take().context("stdin is piped")?;
        let output = BufReader::new(child.stdout.take().context("stdout is piped")?);
        let mut started = Self {
            child,
            input,
            output,
            profile,
            calls: 0,
            events: Vec::new(),
            problems: Vec::new(),
        };
        let version = started.call(None, "Browser.getVersion", json!({})).await;
        version.context("chromium does not start; is the Debian package `chromium` there?")?;
        Ok(started)
    }

    /// Calls a method of the protocol: of a page or worker, or of the browser when `at` is `None`.
    ///
    /// # Errors
    /// When the method fails, or gets no response in time.
    pub async fn call(
        &mut self,
        at: Option<&Attached>,
        method: &str,
        params: Value,
    ) -> Result<Value> {
        self.calls += 1;
        let id = self.calls;
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(Attached(session)) = at {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.input.write_all(&bytes).await.context("chromium takes a call")?;
        loop {
            let answer = self.next().await.with_context(|| method.to_owned())?;
            if answer["id"] != id {
                self.events.push(answer);
                continue;
            }
            ensure!(answer["error"].is_null(), "{method}: {}", answer["error"]);
            return Ok(answer["result"].clone());
        }
    }

    /// Opens a page, runs the script `first` before the page's own scripts, and waits until the page has
    /// loaded.
    ///
    /// # Errors
    /// When the page does not load.
    pub async fn open(&mut self, url: &str, first: &str) -> Result<Attached> {
        let made = self.call(None, "Target.createTarget", json!({"url": "about:blank"})).await?;
        let page = self.attach(&made["targetId"]).await?;
        self.call(Some(&page), "Page.enable", json!({})).await?;
        let script = json!({"source": first});
        self.call(Some(&page), "Page.addScriptToEvaluateOnNewDocument", script).await?;
        self.load(&page, url).await?;
        Ok(page)
    }

    /// Loads a URL in a page and waits until it has loaded.
    ///
    /// # Errors
    /// When the URL does not load.
    pub async fn load(&mut self, page: &Attached, url: &str) -> Result<()> {
        self.events.clear();
        let response = self.call(Some(page), "Page.navigate", json!({"url": url})).await?;
        ensure!(response["errorText"].is_null(), "{url}: {response}");
        self.event("Page.loadEventFired").await?;
        Ok(())
    }

    /// Waits for the service worker of an origin and attaches to it.
    ///
    /// # Errors
    /// When the origin has no service worker in time.
    pub async fn worker(&mut self, origin: &str) -> Result<Attached> {
        let until = tokio::time::Instant::now() + WAIT_MAX;
        while tokio::time::Instant::now() < until {
            let targets = self.call(None, "Target.getTargets", json!({})).await?;
            let found = targets["targetInfos"].as_array().into_iter().flatten().find(|target| {
                target["type"] == "service_worker"
                    && target["url"].as_str().is_some_and(|url| url.starts_with(origin))
            });
            if let Some(target) = found {
                let id = target["targetId"].clone();
                return self.attach(&id).await;
            }
        }
        bail!("no service worker of {origin}");
    }

    async fn attach(&mut self, target: &Value) -> Result<Attached> {
        let how = json!({"targetId": target, "flatten": true});
        let attached = self.call(None, "Target.attachToTarget", how).await?;
        Ok(Attached(attached["sessionId"].as_str().context("a session")?.to_owned()))
    }

    /// Clicks the first element that matches a selector, if the middle of its first box is what a mouse would
    /// reach there. The script finds, checks and clicks in one task: between messages of the protocol, the page may
    /// move the element, for example when a preview arrives.
    ///
    /// # Errors
    /// When no element matches, or another element covers it.
    pub async fn click(&mut self, page: &Attached, selector: &str) -> Result<()> {
        self.events.clear();
        let script = format!(
            "(() => {{
                const element = document.querySelector({selector});
                element.scrollIntoView({{ block: 'nearest', behavior: 'instant' }});
                const [box] = element.getClientRects();
                const hit = document.elementFromPoint(
                    box.x + box.width / 2, box.y + box.height / 2);
                if (!element.contains(hit)) throw new Error(`covered by ${{hit?.outerHTML}}`);
                element.focus({{ preventScroll: true }});
                element.click();
            }})()",
            selector = json!(selector)
        );
        self.run(page, &script).await?;
        Ok(())
    }

    /// Presses and releases a key. `text` is what it types; `modifiers` is 8 for Shift.
    ///
    /// # Errors
    /// When the browser does not respond.
    pub async fn press(
        &mut self,
        page: &Attached,
        key: &str,
        code: u32,
        text: &str,
        modifiers: u32,
    ) -> Result<()> {
        let mut event = json!({"type": "rawKeyDown", "key": key, "code": key,
            "windowsVirtualKeyCode": code, "modifiers": modifiers});
        if !text.is_empty() {
            event["type"] = json!("keyDown");
            event["text"] = json!(text);
        }
        self.call(Some(page), "Input.dispatchKeyEvent", event.clone()).await?;
        event["type"] = json!("keyUp");
        if let Some(fields) = event.as_object_mut() {
            fields.remove("text");
        }
        self.call(Some(page), "Input.dispatchKeyEvent", event).await?;
        Ok(())
    }

    /// Collects the errors of a page and the failed requests from now on, for [`Self::problems`]. The page
    /// behaves as in a window that has the focus.
    ///
    /// # Errors
    /// When the browser does not respond.
    pub async fn watch(&mut self, page: &Attached) -> Result<()> {
        for domain in ["Log.enable", "Network.enable", "Runtime.enable"] {
            self.call(Some(page), domain, json!({})).await?;
        }
        let focused = json!({"enabled": true});
        self.call(Some(page), "Emulation.setFocusEmulationEnabled", focused).await?;
        Ok(())
    }

    /// Returns and forgets the collected errors.
    ///
    /// # Errors
    /// When the browser does not respond.
    pub async fn problems(&mut self) -> Result<Vec<String>> {
        // The events that precede the response to this call are read before it.
        self.call(None, "Browser.getVersion", json!({})).await?;
        Ok(std::mem::take(&mut self.problems))
    }

    /// Gives a page this size.
    ///
    /// # Errors
    /// When the browser does not respond.
    pub async fn resize(&mut self, page: &Attached, width: u32, height: u32) -> Result<()> {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1,
            "mobile": false});
        self.call(Some(page), "Emulation.setDeviceMetricsOverride", size).await?;
        Ok(())
    }

    /// Tells a page that the user prefers a dark or a light theme.
    ///
    /// # Errors
    /// When the browser does not respond.
    pub async fn set_dark(&mut self, page: &Attached, is_dark: bool) -> Result<()> {
        let theme = if is_dark { "dark" } else { "light" };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": theme}]});
        self.call(Some(page), "Emulation.setEmulatedMedia", features).await?;
        Ok(())
    }

    /// Lets a page run scripts from its next load on, or not.
    ///
    /// # Errors
    /// When the browser does not respond.
    pub async fn set_scripts(&mut self, page: &Attached, runs_scripts: bool) -> Result<()> {
        let value = json!({"value": !runs_scripts});
        self.call(Some(page), "Emulation.setScriptExecutionDisabled", value).await?;
        Ok(())
    }

    /// A picture of a page, at most `height_max` pixels high, as PNG in base64.
    ///
    /// # Errors
    /// When the browser does not respond.
    pub async fn screenshot(&mut self, page: &Attached, height_max: u32) -> Result<String> {
        let metrics = self.call(Some(page), "Page.getLayoutMetrics", json!({})).await?;
        let size = &metrics["cssContentSize"];
        let height = size["height"].as_f64().context("a height")?.min(f64::from(height_max));
        let clip = json!({"x": 0, "y": 0, "width": size["width"], "height": height, "scale": 1});
        let how = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
        let taken = self.call(Some(page), "Page.captureScreenshot", how).await?;
        Ok(taken["data"].as_str().context("a picture")?.to_owned())
    }

    /// Evaluates an expression as if the user had clicked, waits for its promise, and returns its value.
    ///
    /// # Errors
    /// When the expression throws, or does not end in time.
    pub async fn run(&mut self, at: &Attached, expression: &str) -> Result<Value> {
        let how = json!({"expression": expression, "awaitPromise": true, "returnByValue": true,
            "userGesture": true});
        let answer = self.call(Some(at), "Runtime.evaluate", how).await?;
        let thrown = &answer["exceptionDetails"];
        ensure!(thrown.is_null(), "{expression}: {thrown}");
        Ok(answer["result"]["value"].clone())
    }

    /// Returns the next event of this method and skips all events before it.
    ///
    /// # Errors
    /// When no such event arrives in time.
    pub async fn event(&mut self, method: &str) -> Result<Value> {
        if let Some(place) = self.events.iter().position(|event| event["method"] == method) {
            return self.events.drain(..=place).next_back().context("it is there");
        }
        self.events.clear();
        loop {
            let event = self.next().await.with_context(|| method.to_owned())?;
            if event["method"] == method {
                return Ok(event);
            }
        }
    }

    /// The registration id of an origin's service worker, for [`Chromium::push`].
    ///
    /// # Errors
    /// When the browser reports no registration in time.
    pub async fn registration(&mut self, page: &Attached, origin: &str) -> Result<String> {
        // The browser reports existing registrations only when the domain is enabled.
        self.call(Some(page), "ServiceWorker.disable", json!({})).await?;
        self.events.clear();
        self.call(Some(page), "ServiceWorker.enable", json!({})).await?;
        loop {
            let event = self.event("ServiceWorker.workerRegistrationUpdated").await?;
            let all = event["params"]["registrations"].as_array().into_iter().flatten();
            let mut of_origin = all.filter(|one| {
                one["scopeURL"].as_str().is_some_and(|scope| scope.starts_with(origin))
            });
            if let Some(id) = of_origin.find_map(|one| one["registrationId"].as_str()) {
                return Ok(id.to_owned());
            }
        }
    }

    /// Delivers a push message to a registration, as a push service does.
    ///
    /// # Errors
    /// When the browser rejects it.
    pub async fn push(
        &mut self,
        page: &Attached,
        origin: &str,
        registration: &str,
        message: &str,
    ) -> Result<()> {
        let what = json!({"origin": format!("{origin}/"), "registrationId": registration,
            "data": message});
        self.call(Some(page), "ServiceWorker.deliverPushMessage", what).await?;
        Ok(())
    }

    /// Closes the browser.
    ///
    /// # Errors
    /// When the browser does not end in time.
    pub async fn stop(mut self) -> Result<()> {
        self.call(None, "Browser.close", json!({})).await?;
        tokio::time::timeout(WAIT_MAX, self.child.wait())
            .await
            .context("chromium did not end in time")??;
        self.profile.close()?;
        Ok(())
    }

    async fn next(&mut self) -> Result<Value> {
        let mut bytes = Vec::new();
        let reading = self.output.read_until(0, &mut bytes);
        tokio::time::timeout(WAIT_MAX, reading)
            .await
            .context("chromium did not respond in time")??;
        ensure!(bytes.pop() == Some(0), "chromium ended");
        let message = serde_json::from_slice(&bytes)?;
        self.problems.extend(problem_of(&message));
        Ok(message)
    }
}

/// The error of a page, or the failed request, that an event reports. Requests that a navigation ended are no
/// failures.
fn problem_of(event: &Value) -> Option<String> {
    let params = &event["params"];
    match event["method"].as_str()? {
        "Log.entryAdded" if params["entry"]["level"] == "error" => {
            let entry = &params["entry"];
            Some(format!("{}: {} ({})", entry["source"], entry["text"], entry["url"]))
        }
        "Runtime.exceptionThrown" => Some(params["exceptionDetails"].to_string()),
        "Runtime.consoleAPICalled" if params["type"] == "error" => Some(params["args"].to_string()),
        "Network.loadingFailed" if params["canceled"] != true => {
            Some(format!("request: {}", params["errorText"]))
        }
        _ => None,
    }
}
