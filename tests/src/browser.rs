//! A page in Chromium or Firefox, so that one test runs in both.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::{Attached, Chromium, Firefox, until};

/// The size of a page, unless a test changes it.
const WIDTH: u32 = 1_280;
const HEIGHT: u32 = 800;
/// The identity of a document, which each navigation changes.
const DOCUMENT: &str = "performance.timeOrigin";

/// A browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrowserKind {
    /// Chromium.
    Chromium,
    /// Firefox.
    Firefox,
}

/// A key of the keyboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// Moves the focus forwards.
    Tab,
    /// Moves the focus backwards.
    ShiftTab,
    /// Follows a link, presses a button, or submits a form.
    Enter,
    /// Presses a button, or ticks a box.
    Space,
    /// The next choice.
    Down,
    /// A slash.
    Slash,
}

/// A running browser with one page.
pub enum Browser {
    /// Chromium.
    Chromium {
        /// The browser.
        chromium: Box<Chromium>,
        /// Its page.
        page: Attached,
    },
    /// Firefox.
    Firefox(Box<Firefox>),
}

impl Browser {
    /// Starts a browser with an empty page of 1280 by 800 pixels and a light theme.
    ///
    /// # Errors
    /// When the browser is not installed, or does not respond.
    pub async fn start(kind: BrowserKind) -> Result<Self> {
        let mut started = match kind {
            BrowserKind::Chromium => {
                let mut chromium = Box::new(Chromium::start().await?);
                let page = chromium.open("about:blank", "").await?;
                chromium.watch(&page).await?;
                Self::Chromium { chromium, page }
            }
            BrowserKind::Firefox => {
                let mut firefox = Box::new(Firefox::start(&[]).await?);
                firefox.watch().await?;
                Self::Firefox(firefox)
            }
        };
        started.resize(WIDTH, HEIGHT).await?;
        started.set_dark(false).await?;
        Ok(started)
    }

    /// Opens a page and waits until it has loaded.
    ///
    /// # Errors
    /// When the page does not load.
    pub async fn open(&mut self, url: &str) -> Result<()> {
        match self {
            Self::Chromium { chromium, page } => chromium.load(page, url).await,
            Self::Firefox(firefox) => firefox.open(url).await,
        }
    }

    /// Runs an expression in the page, waits for its promise, and returns its value. It runs also if the
    /// page's own scripts do not.
    ///
    /// # Errors
    /// When the expression throws, or does not end in time.
    pub async fn run(&mut self, expression: &str) -> Result<Value> {
        match self {
            Self::Chromium { chromium, page } => chromium.run(page, expression).await,
            Self::Firefox(firefox) => firefox.run(expression).await,
        }
    }

    /// Runs an expression whose value is text.
    ///
    /// # Errors
    /// When the expression throws, or its value is no text.
    pub async fn text(&mut self, expression: &str) -> Result<String> {
        let value = self.run(expression).await?;
        Ok(value.as_str().with_context(|| format!("{expression}: {value}"))?.to_owned())
    }

    /// Waits until an expression is true. Until then it may throw.
    ///
    /// # Errors
    /// When it does not become true in time.
    pub async fn shows(&mut self, expression: &str) -> Result<()> {
        until(expression, async || {
            // The document may change meanwhile.
            Ok((self.run(expression).await.ok() == Some(json!(true))).then_some(()))
        })
        .await
    }

    /// Clicks the first element that matches a selector, if a mouse can reach it.
    ///
    /// # Errors
    /// When no element matches, or another element covers it.
    pub async fn click(&mut self, selector: &str) -> Result<()> {
        let clicked = match self {
            Self::Chromium { chromium, page } => chromium.click(page, selector).await,
            Self::Firefox(firefox) => firefox.click(selector).await,
        };
        clicked.with_context(|| selector.to_owned())
    }

    /// Clicks an element and waits until the browser shows another document.
    ///
    /// # Errors
    /// When no element matches, or no other document loads in time.
    pub async fn follow(&mut self, selector: &str) -> Result<()> {
        let before = self.run(DOCUMENT).await?;
        self.click(selector).await?;
        self.loaded(&before).await.with_context(|| selector.to_owned())
    }

    /// Presses a key and waits until the browser shows another document.
    ///
    /// # Errors
    /// When no other document loads in time.
    pub async fn press_through(&mut self, key: Key) -> Result<()> {
        let before = self.run(DOCUMENT).await?;
        self.press(key).await?;
        self.loaded(&before).await
    }

    async fn loaded(&mut self, before: &Value) -> Result<()> {
        // A browser may first show an empty document.
        let is_loaded = format!(
            "{DOCUMENT} !== {before} && document.readyState === 'complete'
                && location.href !== 'about:blank'"
        );
        self.shows(&is_loaded).await
    }

    /// Presses a key.
    ///
    /// # Errors
    /// When the browser does not respond.
    pub async fn press(&mut self, key: Key) -> Result<()> {
        match self {
            Self::Chromium { chromium, page } => {
                let (name, code, text, modifiers) = match key {
                    Key::Tab => ("Tab", 9, "", 0),
                    Key::ShiftTab => ("Tab", 9, "", 8),
                    Key::Enter => ("Enter", 13, "\r", 0),
                    Key::Space => (" ", 32, " ", 0),
                    Key::Down => ("ArrowDown", 40, "", 0),
                    Key::Slash => ("/", 191, "/", 0),
                };
                chromium.press(page, name, code, text, modifiers).await
            }
            Self::Firefox(firefox) => match key {
                Key::Tab => firefox.press(None, "\u{e004}").await,
                Key::ShiftTab => firefox.press(Some('\u{e008}'), "\u{e004}").await,
                Key::Enter => firefox.press(None, "\u{e007}").await,
                Key::Space => firefox.press(None, " ").await,
                Key::Down => firefox.press(None, "\u{e015}").await,
                Key::Slash => firefox.press(None, "/").await,
            },
        }
    }

    /// Types a text into the element that has the focus.
    ///
    /// # Errors
    /// When the browser does not respond.
    pub async fn type_text(&mut self, text: &str) -> Result<()> {
        match self {
            Self::Chromium { chromium, page } => {
                chromium.call(Some(page), "Input.insertText", json!({"text": text})).await?;
                Ok(())
            }
            Self::Firefox(firefox) => firefox.press(None, text).await,
        }
    }

    /// Returns and forgets the errors since the last call: console errors, violations of a page's policy and
    /// failed requests.
    ///
    /// # Errors
    /// When the browser does not respond.
    pub async fn problems(&mut self) -> Result<Vec<String>> {
        match self {
            Self::Chromium { chromium, .. } => chromium.problems().await,
            Self::Firefox(firefox) => firefox.problems().await,
        }
    }

    /// Gives the page this size.
    ///
    /// # Errors
    /// When the browser does not respond.
    pub async fn resize(&mut self, width: u32, height: u32) -> Result<()> {
        match self {
            Self::Chromium { chromium, page } => chromium.resize(page, width, height).await,
            Self::Firefox(firefox) => firefox.resize(width, height).await,
        }
    }

    /// Tells the page that the user prefers a dark or a light theme.
    ///
    /// # Errors
    /// When the browser does not respond.
    pub async fn set_dark(&mut self, is_dark: bool) -> Result<()> {
        match self {
            Self::Chromium { chromium, page } => chromium.set_dark(page, is_dark).await,
            Self::Firefox(firefox) => firefox.set_dark(is_dark).await,
        }
    }

    /// Lets the pages that are loaded from now on run scripts, or not.
    ///
    /// # Errors
    /// When the browser does not respond.
    pub async fn set_scripts(&mut self, runs_scripts: bool) -> Result<()> {
        match self {
            Self::Chromium { chromium, page } => chromium.set_scripts(page, runs_scripts).await,
            Self::Firefox(firefox) => firefox.set_scripts(runs_scripts).await,
        }
    }

    /// A picture of the page as PNG. Chromium's is at most `height_max` pixels high.
    ///
    /// # Errors
    /// When the browser does not respond.
    pub async fn screenshot(&mut self, height_max: u32) -> Result<Vec<u8>> {
        let taken = match self {
            Self::Chromium { chromium, page } => chromium.screenshot(page, height_max).await?,
            Self::Firefox(firefox) => firefox.screenshot().await?,
        };
        let png = STANDARD.decode(taken)?;
        ensure!(png.starts_with(b"\x89PNG"), "a picture");
        Ok(png)
    }

    /// Writes a picture of the page, its HTML and its errors to files with this beginning.
    ///
    /// # Errors
    /// When the browser does not respond, or a file cannot be written.
    pub async fn save(&mut self, folder: &Path, name: &str) -> Result<()> {
        std::fs::create_dir_all(folder)?;
        let problems = self.problems().await?.join("\n");
        let address = self.text("location.href").await?;
        std::fs::write(folder.join(format!("{name}.log")), format!("{address}\n{problems}\n"))?;
        let html = self.text("document.documentElement.outerHTML").await?;
        std::fs::write(folder.join(format!("{name}.html")), html)?;
        std::fs::write(folder.join(format!("{name}.png")), self.screenshot(5_000).await?)?;
        Ok(())
    }

    /// Closes the browser.
    ///
    /// # Errors
    /// When the browser does not end in time.
    pub async fn stop(self) -> Result<()> {
        match self {
            Self::Chromium { chromium, .. } => chromium.stop().await,
            Self::Firefox(firefox) => firefox.stop().await,
        }
    }
}
