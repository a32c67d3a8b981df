//! The administration console in Chromium and Firefox: what an operator sees and does, accessibility, and what
//! the browsers themselves enforce. After a failure, `target/console/` has a picture of the page, its HTML and
//! the errors of the browser.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod accessibility;
mod first_run;
mod keyboard;
mod operator;
mod pages;

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::path::Path;

use anyhow::Result;
use futures_util::FutureExt;
use notify_tests::{Browser, BrowserKind, TestServer, sign_in};
use serde_json::json;

/// Declares tests, which run in both browsers.
macro_rules! in_both_browsers {
    ($($name:ident),* $(,)?) => {
        crate::in_both_browsers!(@in chromium, Chromium, $($name),*);
        crate::in_both_browsers!(@in firefox, Firefox, $($name),*);
    };
    (@in $module:ident, $kind:ident, $($name:ident),*) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() -> anyhow::Result<()> {
                    let name = concat!(stringify!($module), "-", stringify!($name));
                    let kind = notify_tests::BrowserKind::$kind;
                    crate::in_browser(kind, name, super::$name).await
                }
            )*
        }
    };
}
use in_both_browsers;

/// Runs a test in a new browser. When it fails, the page is saved.
#[expect(clippy::print_stdout, reason = "the output of a failed test")]
async fn in_browser(
    kind: BrowserKind,
    name: &str,
    test: impl AsyncFnOnce(&mut Browser) -> Result<()>,
) -> Result<()> {
    let mut browser = Browser::start(kind).await?;
    let outcome = AssertUnwindSafe(test(&mut browser)).catch_unwind().await;
    if let Ok(Ok(())) = outcome {
        return browser.stop().await;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/console");
    if let Err(error) = browser.save(&folder, name).await {
        println!("the page cannot be saved: {error:#}");
    }
    match outcome {
        Ok(result) => result,
        Err(panic) => resume_unwind(panic),
    }
}

/// Signs in to a server.
async fn enter(browser: &mut Browser, server: &TestServer) -> Result<()> {
    sign_in(browser, server.origin(), server.admin_key()).await
}

/// The address of a page of the first application.
fn of_app(server: &TestServer, path: &str) -> String {
    format!("{}/console/apps/{}{path}", server.origin(), server.app_id)
}

/// Logs a device in as a user with attributes, creates a segment, and sends to them. All names are long and cannot
/// be broken into lines.
async fn add_audience(server: &TestServer, device: &str) {
    let caller = server.caller();
    let (user, segment) = ("customer-0123456789".repeat(8), "W".repeat(120));
    let attributes = json!({"attributes": {"plan": "pro", "seats": 3, "note": "W".repeat(200)}});
    caller.patch(&format!("/v1/users/{user}"), &attributes).await.ok();
    let path = format!("/v1/devices/{device}");
    caller.put(&format!("{path}/user"), &json!({"user_id": user})).await.ok();
    caller.patch(&format!("{path}/attributes"), &json!({"beta": true})).await.ok();
    let condition = json!({"any": [{"attribute": "note", "is": "W".repeat(200)},
        {"attribute": "plan", "in": ["pro", "team"]}]});
    caller.put(&format!("/v1/segments/{segment}"), &json!({"audience": condition})).await.ok();
    let to_user = json!({"text": "Hello", "user_ids": [user, "nobody"],
        "audience": {"segment": segment}});
    caller.post("/v1/notifications", &to_user).await.id();
}
