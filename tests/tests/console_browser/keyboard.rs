//! Operating the console with the keyboard alone.

use anyhow::{Context, Result, ensure};
use notify_tests::{Browser, Key, Shop, TestServer, walk};

use crate::{add_audience, enter, in_both_browsers};

in_both_browsers!(
    the_skip_link_is_first_and_a_slash_finds,
    everything_on_each_page_has_a_visible_focus_by_tab,
);

/// The elements that an operator can use, without those that are not drawn and without the radio buttons that
/// the arrow keys reach.
const REACHABLE: &str = "[...document.querySelectorAll(
    'a[href], button, input, select, textarea, summary, [tabindex=\"0\"]')]
    .filter((element) => element.type !== 'hidden' && !element.disabled
        && element.type !== 'radio' && element.checkVisibility())";
/// The keys that a page needs at most.
const KEYS_MAX: usize = 600;

async fn the_skip_link_is_first_and_a_slash_finds(browser: &mut Browser) -> Result<()> {
    let server = TestServer::without_providers().await;
    enter(browser, &server).await?;
    browser.press(Key::Tab).await?;
    let focused = "document.activeElement.textContent || document.activeElement.id";
    assert_eq!(browser.text(focused).await?, "Skip to the content");
    let is_drawn = "document.activeElement.getBoundingClientRect().top >= 0";
    browser.shows(is_drawn).await?;
    browser.press(Key::Enter).await?;
    browser.shows("document.activeElement.id === 'main'").await?;
    browser.press(Key::Slash).await?;
    browser.shows("document.activeElement.id === 'find'").await?;
    assert_eq!(browser.run("document.activeElement.value").await?, "");
    browser.type_text(&server.app_id.to_string()).await?;
    browser.press_through(Key::Enter).await?;
    ensure!(browser.text("location.pathname").await?.ends_with(&server.app_id.to_string()));
    // In a field, a slash is text.
    browser.click("#key-name").await?;
    browser.press(Key::Slash).await?;
    assert_eq!(browser.run("document.activeElement.value").await?, "/");
    server.stop().await;
    Ok(())
}

async fn everything_on_each_page_has_a_visible_focus_by_tab(browser: &mut Browser) -> Result<()> {
    let shop = Shop::open(0).await?;
    add_audience(&shop.server, "pixel-9-000").await;
    enter(browser, &shop.server).await?;
    walk(browser, shop.server.origin(), 1, async |browser, _| {
        // A hidden page does not replace its live parts meanwhile.
        let hide = "Object.defineProperty(document, 'hidden', {get: () => true}) === document";
        browser.run(hide).await?;
        // A script may have put the focus somewhere.
        browser.run("document.activeElement.blur()").await?;
        browser.run("scrollTo(0, 0) ?? getSelection().removeAllRanges()").await?;
        let expected = browser.run(&format!("{REACHABLE}.length")).await?;
        let expected = expected.as_u64().context("a number")?;
        let state = "(() => {
            const reached = window.reached ??= new Set();
            const at = document.activeElement;
            // A field with parts, such as a date, keeps the focus for some keys.
            const isBack = reached.has(at) && at !== window.last;
            if (at === document.body || isBack) return null;
            reached.add(window.last = at);
            const { outlineStyle, outlineWidth } = getComputedStyle(at);
            const isVisible = outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2;
            return isVisible ? '' : at.outerHTML.slice(0, 200);
        })()";
        for _ in 0..KEYS_MAX {
            browser.press(Key::Tab).await?;
            let found = browser.run(state).await?;
            let Some(invisible) = found.as_str() else { break };
            ensure!(invisible.is_empty(), "the focus is not visible: {invisible}");
        }
        let missed = format!(
            "{REACHABLE}.filter((element) => !window.reached.has(element))
                .map((element) => element.outerHTML.slice(0, 200))"
        );
        let missed = browser.run(&missed).await?;
        ensure!(
            missed.as_array().is_some_and(Vec::is_empty),
            "of {expected} not reached: {missed:#}"
        );
        Ok(())
    })
    .await?;
    shop.close().await;
    Ok(())
}
