//! The page of a poll in Chromium: all layouts, a click with and without scripts, the results, and the error
//! pages.

use anyhow::{Context, Result, ensure};
use notify_tests::{Attached, Caller, Chromium, DiskFault, Launch, TestServer, until};
use serde_json::{Value, json};

/// A script that records violations of the page's content security policy.
const WATCH: &str = "
    globalThis.breaches = [];
    addEventListener('securitypolicyviolation', (event) => breaches.push(event.violatedDirective));";
/// A page that shows whether its scripts run.
const SHOWS_SCRIPTS: &str = "data:text/html,<title>off</title><script>document.title='on'</script>";
/// A script that returns the visible contents of the page and their styles.
const SEEN: &str = "(() => {
    const all = (selector) => [...document.querySelectorAll(selector)];
    const drawn = (element) => {
        const { width, height } = element.getBoundingClientRect();
        return width > 100 && height > 5;
    };
    const [visit] = performance.getEntriesByType('navigation');
    return {
        status: visit.responseStatus,
        path: location.pathname,
        heading: document.querySelector('h1')?.textContent,
        styled: getComputedStyle(document.querySelector('main')).maxWidth,
        buttons: all('form button').filter(drawn).map((button) => button.textContent),
        bars: all('progress').filter(drawn).map((bar) => bar.value),
        chosen: all('li.chosen span').map((chosen) => chosen.textContent),
    };
})()";
/// A script that tries what the policy must block and returns the violations.
const INTRUDE: &str = "(async () => {
    const script = document.createElement('script');
    script.textContent = 'document.title = \"owned\"';
    document.body.append(script);
    const image = new Image();
    image.src = 'http://127.0.0.1:9/a.png';
    document.body.append(image);
    await fetch('/healthz').catch(() => undefined);
    await new Promise((resolve) => setTimeout(resolve));
    return [document.title === 'owned', ...new Set(breaches)].map(String).sort();
})()";

/// Creates a poll and returns the URL of its page.
async fn poll(caller: &Caller) -> Result<(String, String)> {
    let answers = json!([{"text": "tea"}, {"text": "coffee"}]);
    poll_with(caller, "poll_text", &answers).await
}

async fn poll_with(caller: &Caller, layout: &str, answers: &Value) -> Result<(String, String)> {
    let poll = json!({"text": "Tea or coffee?", "layout_id": layout, "answers": answers});
    let body = json!({"platforms": ["android"], "poll": poll});
    let id = caller.post("/v1/notifications", &body).await.id();
    let read = caller.get(&format!("/v1/polls/{id}")).await.ok();
    Ok((id, read["url"].as_str().context("a url")?.to_owned()))
}

async fn clicks(caller: &Caller, poll: &str) -> Result<Vec<u64>> {
    let read = caller.get(&format!("/v1/polls/{poll}")).await.ok();
    let answers = read["answers"].as_array().context("answers")?;
    Ok(answers.iter().filter_map(|answer| answer["clicks"].as_u64()).collect())
}

/// Waits until a page shows a heading, because the response to a click may be on its way. Returns what it
/// shows.
async fn seen(chromium: &mut Chromium, page: &Attached) -> Result<Value> {
    until("a page with a heading", async || {
        let seen = chromium.run(page, SEEN).await?;
        Ok(seen["heading"].is_string().then_some(seen))
    })
    .await
}

/// Clicks the second answer and returns what the page then shows.
async fn choose(chromium: &mut Chromium, page: &Attached) -> Result<Value> {
    chromium.click(page, "li:nth-child(2) button").await?;
    chromium.event("Page.loadEventFired").await?;
    seen(chromium, page).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_is_clicked_with_scripts_and_without() -> Result<()> {
    let server = TestServer::start().await;
    let caller = server.caller();
    for (scripts, expected) in [(true, "on"), (false, "off")] {
        let (id, url) = poll(&caller).await?;
        let mut chromium = Chromium::start().await?;
        let page = chromium.open("data:text/html,", WATCH).await?;
        let switch = json!({"value": !scripts});
        chromium.call(Some(&page), "Emulation.setScriptExecutionDisabled", switch).await?;
        chromium.load(&page, SHOWS_SCRIPTS).await?;
        assert_eq!(chromium.run(&page, "document.title").await?, expected, "the switch is one");

        chromium.load(&page, &url).await?;
        let form = seen(&mut chromium, &page).await?;
        assert_eq!(form["buttons"], json!(["tea", "coffee"]), "{form}");
        assert_eq!((&form["status"], &form["bars"]), (&json!(200), &json!([])), "{form}");
        assert_eq!(form["styled"], "608px", "the style is let through: {form}");

        let results = choose(&mut chromium, &page).await?;
        assert_eq!((&results["bars"], &results["chosen"]), (&json!([0, 100]), &json!(["coffee"])));
        assert_eq!((&results["path"], &results["buttons"]), (&form["path"], &json!([])));
        assert_eq!(clicks(&caller, &id).await?, [0, 1]);

        // A second visit shows the result at once. Another page of the same browser does too.
        chromium.load(&page, &url).await?;
        assert_eq!(seen(&mut chromium, &page).await?["bars"], json!([0, 100]));
        let other = chromium.open(&url, WATCH).await?;
        assert_eq!(seen(&mut chromium, &other).await?["bars"], json!([0, 100]));
        if scripts {
            assert_eq!(chromium.run(&page, "breaches").await?, json!([]));
        }
        assert_eq!(clicks(&caller, &id).await?, [0, 1]);
        chromium.stop().await?;
    }
    server.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_layout_is_shown_and_markup_in_an_answer_has_no_effect() -> Result<()> {
    let server = TestServer::start().await;
    let caller = server.caller();
    let both = |text: &str| json!({"text": text, "image_url": "https://img.invalid/a.png"});
    let markup = "<img src=x onerror=document.title='owned'>";
    let mut chromium = Chromium::start().await?;
    for (layout, answers) in [
        ("poll_text", json!([{"text": markup}, {"text": "no"}])),
        ("poll_images", json!([{"image_url": "https://img.invalid/a.png"}, both("b")])),
        ("poll_text_wide_image", json!([both(markup), both("b")])),
    ] {
        let (id, url) = poll_with(&caller, layout, &answers).await?;
        let page = chromium.open(&url, WATCH).await?;
        seen(&mut chromium, &page).await?;
        let form = "[document.title, document.querySelectorAll('form button').length,
            document.querySelectorAll('[onerror], img[src=x]').length]";
        let expected = json!(["Tea or coffee?", 2, 0]);
        assert_eq!(chromium.run(&page, form).await?, expected, "{layout}");
        assert_eq!(chromium.run(&page, "breaches").await?, json!([]), "{layout}");

        let results = choose(&mut chromium, &page).await?;
        assert_eq!((&results["bars"], &results["buttons"]), (&json!([0, 100]), &json!([])));
        let counted = "document.body.textContent.includes('Votes: 1')";
        assert_eq!(chromium.run(&page, counted).await?, true, "{layout}");
        assert_eq!(chromium.run(&page, "breaches").await?, json!([]), "{layout}");
        assert_eq!(clicks(&caller, &id).await?, [0, 1]);
    }
    chromium.stop().await?;
    server.stop().await;
    Ok(())
}

/// Checks a page that has only text. It has the same policy as all other pages.
async fn is_readable(
    chromium: &mut Chromium,
    page: &Attached,
    status: u16,
    heading: &str,
) -> Result<()> {
    let shown = seen(chromium, page).await?;
    assert_eq!((&shown["status"], &shown["heading"]), (&json!(status), &json!(heading)), "{shown}");
    assert_eq!(shown["styled"], "608px", "{shown}");
    assert_eq!(chromium.run(page, "breaches").await?, json!([]));
    let stopped = chromium.run(page, INTRUDE).await?;
    assert_eq!(stopped, json!(["connect-src", "false", "img-src", "script-src-elem"]));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_poll_and_a_failing_disk_show_an_error_page() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let server = Launch::on(folder.path()).on_file().start().await?;
    let caller = server.caller();
    let (id, url) = poll(&caller).await?;
    let mut chromium = Chromium::start().await?;
    let (base, _) = url.rsplit_once('/').context("a page")?;
    let page =
        chromium.open(&format!("{base}/0190d5a3-7b4c-4d2e-9f10-0a1b2c3d4e5f"), WATCH).await?;
    is_readable(&mut chromium, &page, 404, "There is no such poll.").await?;

    chromium.load(&page, &url).await?;
    let fault = DiskFault::begin(server.id()?, "fdatasync,fsync", "error=EIO:when=1+1").await?;
    choose(&mut chromium, &page).await?;
    let failed = "That did not work. Please try again later.";
    is_readable(&mut chromium, &page, 503, failed).await?;
    fault.end().await?;
    let results_after = until("the disk is there again", async || {
        chromium.load(&page, &url).await?;
        let results = choose(&mut chromium, &page).await?;
        Ok((results["bars"] == json!([0, 100])).then_some(results))
    })
    .await?;
    ensure!(results_after["chosen"] == json!(["coffee"]), "{results_after}");
    assert_eq!(clicks(&caller, &id).await?, [0, 1]);
    chromium.stop().await?;
    server.kill().await
}
