//! From the sign-in to a message that the playground received and draws, without a terminal: with the mouse,
//! with the keyboard alone, and without script.

use anyhow::Result;
use notify_tests::{Browser, Key, TestServer, until};
use serde_json::json;

use crate::{enter, in_both_browsers};

in_both_browsers!(
    a_first_message_is_drawn_by_mouse,
    a_first_message_is_drawn_by_keyboard_alone,
    a_first_message_is_drawn_without_script,
);

/// The messages that arrive: one for each of six devices, and two more for the one that fails twice.
const MESSAGES: usize = 8;
/// The keys that reach an element at most.
const KEYS_MAX: usize = 300;

/// How an operator uses a page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Mouse,
    Keyboard,
}

/// Follows a link or presses a button, and waits for the next page.
async fn follow(browser: &mut Browser, by: By, selector: &str) -> Result<()> {
    if by == By::Mouse {
        return browser.follow(selector).await;
    }
    let is_reached = format!("document.activeElement.matches({})", json!(selector));
    for _ in 0..KEYS_MAX {
        browser.press(Key::Tab).await?;
        if browser.run(&is_reached).await? == true {
            let is_button = browser.run("document.activeElement.matches('button')").await?;
            let key = if is_button == true { Key::Space } else { Key::Enter };
            return browser.press_through(key).await;
        }
    }
    anyhow::bail!("{selector} is not reached")
}

async fn first_run(browser: &mut Browser, by: By, has_scripts: bool) -> Result<()> {
    // As users start it: the server may not connect to private networks.
    let server = TestServer::start_with(|config| config.allow_private_networks = false).await;
    browser.set_scripts(has_scripts).await?;
    enter(browser, &server).await?;
    follow(browser, by, "main a[href$='playground']").await?;
    follow(browser, by, "form[action$='playground/start'] button").await?;
    follow(browser, by, "main a.button.primary").await?;
    // "Hello" is written and drawn before it is sent.
    assert_eq!(browser.run("document.getElementById('text').value").await?, "Hello");
    browser.shows("document.querySelector('#drawn .screen .body').textContent === 'Hello'").await?;
    follow(browser, by, "button[value=send]").await?;
    browser.shows("document.querySelector('h1').textContent === 'Hello'").await?;
    follow(browser, by, "nav a[href$='playground']").await?;
    let all_are_drawn = format!(
        "[...document.querySelectorAll('.received .body')]
            .filter((body) => body.textContent === 'Hello').length === {MESSAGES}"
    );
    if has_scripts {
        browser.shows(&all_are_drawn).await?;
    } else {
        until("all messages are drawn", async || {
            browser.follow("#play-messages .row a").await?;
            Ok((browser.run(&all_are_drawn).await? == true).then_some(()))
        })
        .await?;
    }
    follow(browser, by, ".received a[href*='explain?device=android-unregistered']").await?;
    browser.shows("document.querySelector('main strong').textContent === 'unregistered'").await?;
    assert_eq!(browser.problems().await?, [""; 0]);
    server.stop().await;
    Ok(())
}

async fn a_first_message_is_drawn_by_mouse(browser: &mut Browser) -> Result<()> {
    first_run(browser, By::Mouse, true).await
}

async fn a_first_message_is_drawn_by_keyboard_alone(browser: &mut Browser) -> Result<()> {
    first_run(browser, By::Keyboard, true).await
}

async fn a_first_message_is_drawn_without_script(browser: &mut Browser) -> Result<()> {
    first_run(browser, By::Mouse, false).await
}
