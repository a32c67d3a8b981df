//! What is true of every page.

use anyhow::{Result, ensure};
use notify_tests::{Browser, Shop, TestServer, crowd, register, walk};
use serde_json::{Value, json};

use crate::{enter, in_both_browsers};

in_both_browsers!(
    each_page_is_without_errors_with_no_device,
    each_page_is_without_errors_with_one_device,
    each_page_is_without_errors_with_10_000_devices,
    each_page_is_without_errors_and_scripts,
    no_page_scrolls_sideways,
);

/// The pages of an installation with one application without anything. Fewer mean that the walk stopped.
const PAGES_MIN: usize = 8;
/// The widths of the narrowest phone, of a tablet and of a small window.
const WIDTHS: [u32; 3] = [320, 768, 1_040];

/// The elements that are cut off at the right, if the page scrolls sideways.
const CUT_OFF: &str = "document.documentElement.scrollWidth <= document.documentElement.clientWidth
        ? null
        : [...document.querySelectorAll('body *')]
            .filter((element) => element.checkVisibility({ visibilityProperty: true })
                && element.getBoundingClientRect().right > innerWidth)
            .map((element) => element.outerHTML.slice(0, 100)).slice(0, 5)";

/// Visits this many pages of each kind and checks that the browser reports no error.
async fn no_errors(browser: &mut Browser, server: &TestServer, of_a_kind: usize) -> Result<()> {
    enter(browser, server).await?;
    browser.problems().await?;
    let visited = walk(browser, server.origin(), of_a_kind, async |browser, _| {
        let problems = browser.problems().await?;
        ensure!(problems.is_empty(), "{problems:#?}");
        Ok(())
    })
    .await?;
    ensure!(visited.len() >= PAGES_MIN, "{visited:?}");
    Ok(())
}

async fn devices(browser: &mut Browser, count: u64) -> Result<()> {
    let server = TestServer::start().await;
    register(&server.client(), crowd(count)).await?;
    if count > 0 {
        let sent = json!({"text": "Hello", "device_ids": ["a0", "i1", "unknown"]});
        server.caller().post("/v1/notifications", &sent).await.ok();
    }
    // Lists of many devices have further pages.
    no_errors(browser, &server, if count > 1 { 2 } else { 1 }).await?;
    server.stop().await;
    Ok(())
}

async fn each_page_is_without_errors_with_no_device(browser: &mut Browser) -> Result<()> {
    devices(browser, 0).await
}

async fn each_page_is_without_errors_with_one_device(browser: &mut Browser) -> Result<()> {
    devices(browser, 1).await
}

async fn each_page_is_without_errors_with_10_000_devices(browser: &mut Browser) -> Result<()> {
    devices(browser, 10_000).await
}

async fn each_page_is_without_errors_and_scripts(browser: &mut Browser) -> Result<()> {
    let shop = Shop::open(1).await?;
    browser.set_scripts(false).await?;
    no_errors(browser, &shop.server, 1).await?;
    shop.close().await;
    Ok(())
}

async fn no_page_scrolls_sideways(browser: &mut Browser) -> Result<()> {
    let shop = Shop::open(1).await?;
    // Long names without a place to break.
    let server = &shop.server;
    let long = "W".repeat(120);
    let app = format!("/admin/v1/apps/{}", server.app_id);
    server.admin().post("/admin/v1/keys", &json!({"name": long})).await.ok();
    server.admin().post(&format!("{app}/keys"), &json!({"name": long})).await.ok();
    server.admin().patch(&app, &json!({"name": long})).await.ok();
    enter(browser, server).await?;
    let mut wide = Vec::new();
    walk(browser, server.origin(), 1, async |browser, page| {
        for width in WIDTHS {
            browser.resize(width, 640).await?;
            let found = browser.run(CUT_OFF).await?;
            if found != Value::Null {
                wide.push(format!("{} ({width}): {found:#}", page.path));
            }
        }
        Ok(())
    })
    .await?;
    ensure!(wide.is_empty(), "{}", wide.join("\n"));
    shop.close().await;
    Ok(())
}
