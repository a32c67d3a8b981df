//! The sandbox's page shows new messages without scrolling.

use std::ops::RangeInclusive;

use anyhow::Result;
use notify_sandbox::{Sandbox, SandboxConfig};
use notify_tests::{Attached, Chromium, until};
use serde_json::json;

/// A script that makes the page update after 10 ms and keeps its errors.
const FIRST: &str = "
    const later = setTimeout;
    globalThis.setTimeout = (run) => later(run, 10);
    globalThis.breaches = [];
    addEventListener('securitypolicyviolation', (event) => breaches.push(event.violatedDirective));";

/// Sends messages to the bot's chat and waits until the page lists this many.
async fn send(
    chromium: &mut Chromium,
    page: &Attached,
    sandbox: &Sandbox,
    numbers: RangeInclusive<u64>,
) -> Result<()> {
    let (from, to) = numbers.into_inner();
    let path = format!(
        "/telegram/bot{}/sendMessage",
        sandbox.telegram_config()["bot_token"].as_str().unwrap_or_default()
    );
    let send = format!(
        "(async () => {{ for (let at = {from}; at <= {to}; at += 1) {{
            const body = JSON.stringify({{ chat_id: 4711 + at, text: 'message ' + at }});
            const headers = {{ 'content-type': 'application/json' }};
            await fetch('{path}', {{ method: 'POST', headers, body }});
        }} }})()"
    );
    chromium.run(page, &send).await?;
    until("the page lists every message", async || {
        let rows = chromium.run(page, "document.querySelectorAll('tbody tr').length").await?;
        Ok((rows == to).then_some(()))
    })
    .await
}

#[tokio::test]
async fn new_messages_do_not_scroll_the_page() -> Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let sandbox = Sandbox::start(listener, SandboxConfig::default()).await?;
    let mut chromium = Chromium::start().await?;
    let page = chromium.open(&format!("http://{}/", sandbox.addr()), FIRST).await?;
    let title = "globalThis.isSame = true, document.querySelector('pre').textContent.slice(0, 17)";
    assert_eq!(chromium.run(&page, title).await?, "sandbox listening");

    send(&mut chromium, &page, &sandbox, 1..=40).await?;
    // At each update, browsers round the scroll distance to whole pixels, which is far less than a row.
    let is_above = "Math.abs(document.querySelector('[data-number=\"20\"]')
        .getBoundingClientRect().top) < 20";
    let scroll = "document.querySelector('[data-number=\"20\"]').scrollIntoView(), scrollY > 0";
    assert_eq!(chromium.run(&page, scroll).await?, true);
    assert_eq!(chromium.run(&page, is_above).await?, true);
    send(&mut chromium, &page, &sandbox, 41..=60).await?;
    assert_eq!(chromium.run(&page, is_above).await?, true);

    let state = "[isSame, breaches, document.getElementById('counts').textContent.startsWith('Received: 60,'),
        document.querySelector('tbody tr').textContent.includes('message 60')]";
    assert_eq!(chromium.run(&page, state).await?, json!([true, [], true, true]));
    chromium.stop().await?;
    sandbox.stop().await;
    Ok(())
}
