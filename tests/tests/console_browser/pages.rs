//! What is true of every page.

use anyhow::{Result, ensure};
use notify_tests::{Browser, Key, Shop, TestServer, crowd, register, until, walk};
use serde_json::{Value, json};

use crate::{add_audience, enter, in_both_browsers, of_app};

in_both_browsers!(
    each_page_is_without_errors_with_no_device,
    each_page_is_without_errors_with_one_device,
    each_page_is_without_errors_with_10_000_devices,
    each_page_is_without_errors_and_scripts,
    no_page_scrolls_sideways_at_320_pixels,
    on_a_phone_the_navigation_is_a_menu,
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

/// The shown times that do not name their zone: UTC, or that of the browser.
const WITHOUT_ZONE: &str = "(() => {
    const zoneAt = (at) => new Intl.DateTimeFormat(undefined, { timeZoneName: 'short' })
        .formatToParts(at).find(({ type }) => type === 'timeZoneName').value;
    return [...document.querySelectorAll('time')].filter((time) =>
        !time.textContent.endsWith(' UTC')
            && !time.textContent.endsWith(` ${zoneAt(new Date(time.dateTime))}`))
        .map((time) => time.outerHTML);
})()";

/// Visits this many pages of each kind and checks that the browser reports no error.
async fn no_errors(browser: &mut Browser, server: &TestServer, of_a_kind: usize) -> Result<()> {
    enter(browser, server).await?;
    browser.problems().await?;
    let visited = walk(browser, server.origin(), of_a_kind, async |browser, _| {
        let problems = browser.problems().await?;
        ensure!(problems.is_empty(), "{problems:#?}");
        let times = browser.run(WITHOUT_ZONE).await?;
        ensure!(times == json!([]), "times without their zone: {times}");
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
        add_audience(&server, "a0").await;
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
    add_audience(&shop.server, "pixel-9-000").await;
    browser.set_scripts(false).await?;
    no_errors(browser, &shop.server, 1).await?;
    shop.close().await;
    Ok(())
}

async fn no_page_scrolls_sideways_at_320_pixels(browser: &mut Browser) -> Result<()> {
    let shop = Shop::open(1).await?;
    // Long names without a place to break.
    let server = &shop.server;
    let long = "W".repeat(120);
    let app = format!("/admin/v1/apps/{}", server.app_id);
    server.admin().post("/admin/v1/keys", &json!({"name": long})).await.ok();
    server.admin().post(&format!("{app}/keys"), &json!({"name": long})).await.ok();
    server.admin().patch(&app, &json!({"name": long})).await.ok();
    add_audience(server, "pixel-9-000").await;
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

async fn on_a_phone_the_navigation_is_a_menu(browser: &mut Browser) -> Result<()> {
    let server = TestServer::without_providers().await;
    enter(browser, &server).await?;
    let is_visible = |selector: &str| {
        format!(
            "document.querySelector('{selector}').checkVisibility({{visibilityProperty: true}})"
        )
    };
    let (menu, link) = (is_visible(".menu > summary"), is_visible(".side a[href$=\"/devices\"]"));
    for has_scripts in [true, false] {
        browser.set_scripts(has_scripts).await?;
        browser.resize(1_280, 800).await?;
        browser.open(&of_app(&server, "")).await?;
        assert_eq!(browser.run(&menu).await?, json!(false), "a wide page has no menu");
        assert_eq!(browser.run(&link).await?, json!(true));
        for width in [320, 390] {
            browser.resize(width, 640).await?;
            browser.open(&of_app(&server, "")).await?;
            assert_eq!(browser.run(&menu).await?, json!(true), "{width}");
            assert_eq!(browser.run(&link).await?, json!(false), "{width}");
            let section =
                browser.text("document.querySelector('.menu > summary').innerText").await?;
            ensure!(section.contains("Dashboard"), "{section}");
            until("the menu has the focus", async || {
                browser.press(Key::Tab).await?;
                let is_focused = "document.activeElement.matches('.menu > summary')";
                Ok((browser.run(is_focused).await? == true).then_some(()))
            })
            .await?;
            browser.press(Key::Enter).await?;
            browser.shows(&link).await?;
            assert_eq!(browser.run(CUT_OFF).await?, Value::Null, "{width}");
            browser.press(Key::Tab).await?;
            let focused = browser.text("document.activeElement.textContent").await?;
            assert_eq!(focused, "Dashboard", "the links follow the button");
            browser.follow(".side a[href$='/devices']").await?;
            assert_eq!(browser.run(&link).await?, json!(false), "the menu of a new page is closed");
        }
    }
    server.stop().await;
    Ok(())
}
