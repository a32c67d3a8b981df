//! The page in a real browser (headless Chromium): it is drawn, and its own policy blocks nothing.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use notify_tests::{TestServer, WAIT_MAX};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::process::Command;

/// Names under which the browser is installed.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// What the console says where a policy stops something.
const BLOCKED: [&str; 3] = ["Content Security Policy", "Refused to", "violates"];

/// What the browser made of an address: the document, and what its console said.
struct Drawn {
    document: String,
    console: String,
}

/// Opens an address in a browser with a folder of its own.
async fn open(url: &str) -> Result<Drawn> {
    let folder = tempfile::tempdir()?;
    for browser in BROWSERS {
        let mut command = Command::new(browser);
        command
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--no-first-run", "--disable-background-networking", "--disable-extensions"])
            .args(["--enable-logging=stderr", "--v=0", "--window-size=390,844", "--dump-dom"])
            .arg(format!("--user-data-dir={}", folder.path().display()))
            .arg(url)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let running = match command.output().await {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            output => output.with_context(|| browser)?,
        };
        let document = String::from_utf8(running.stdout)?;
        let console = String::from_utf8_lossy(&running.stderr).into_owned();
        ensure!(running.status.success(), "{browser}: {}: {console}", running.status);
        return Ok(Drawn { document, console });
    }
    anyhow::bail!("no Chromium: scripts/test.sh installs it")
}

async fn drawn(url: &str) -> Result<Drawn> {
    let drawn = tokio::time::timeout(WAIT_MAX, open(url)).await.context("the browser ends")??;
    let lines = drawn.console.lines().filter(|line| line.contains("CONSOLE"));
    let blocked: Vec<_> =
        lines.filter(|line| BLOCKED.iter().any(|word| line.contains(word))).collect();
    ensure!(blocked.is_empty(), "blocked: {blocked:?}");
    Ok(drawn)
}

/// A site in front of the server that passes everything on with a cookie, as the browser of somebody
/// who has voted would. Answers where it is.
async fn with_cookie(origin: String, cookie: String) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let http = reqwest::Client::new();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (http, origin, cookie) = (http.clone(), origin.clone(), cookie.clone());
            let pass_on = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                let asked =
                    http.get(format!("{origin}{}", request.uri())).header("cookie", &cookie);
                async move {
                    let answer = asked.send().await?;
                    let mut response = http::Response::builder().status(answer.status());
                    for (name, value) in answer.headers() {
                        response = response.header(name, value);
                    }
                    let body = answer.bytes().await?;
                    anyhow::Ok(response.body(Full::<Bytes>::from(body))?)
                }
            });
            let connection = hyper::server::conn::http1::Builder::new();
            tokio::spawn(connection.serve_connection(TokioIo::new(stream), pass_on));
        }
    });
    Ok(format!("http://{address}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_draws_the_page_and_nothing_is_blocked() -> Result<()> {
    let server = TestServer::start().await?;
    let caller = server.caller()?;
    let both = |text: &str| json!({"text": text, "image_url": "https://img.invalid/a.png"});
    let evil = "<img src=x onerror=document.title='owned'>";
    for (layout, answers) in [
        ("poll_text", json!([{"text": evil}, {"text": "no"}])),
        ("poll_images", json!([{"image_url": "https://img.invalid/a.png"}, both("b")])),
        ("poll_text_wide_image", json!([both(evil), both("b")])),
    ] {
        let poll = json!({"text": "Tea?", "layout_id": layout, "answers": answers});
        let body = json!({"platforms": ["android"], "poll": poll});
        let made = caller.post("/v1/notifications", &body).await?;
        let id = made["id"].as_str().context("an id")?;
        let poll = caller.get(&format!("/v1/polls/{id}")).await?;
        let url = poll["url"].as_str().context("a url")?;

        let page = drawn(url).await.context(layout)?.document;
        ensure!(page.contains("<title>Tea?</title>"), "{page}");
        ensure!(
            page.matches("<button").count() == 2
                && !page.contains("onerror=\"")
                && !page.contains("<img src=\"x\""),
            "{page}"
        );

        let answer = poll["answers"][0]["id"].as_str().context("an id")?;
        let path = &url[url.find("/polls/").context("a page")?..];
        let form = format!("answer={answer}");
        let voted = caller.send(&http::Method::POST, &format!("{path}/votes"), form).await?;
        ensure!(voted.status == 303, "{voted:?}");
        let cookie = voted.header("set-cookie").split(';').next().unwrap_or_default().to_owned();
        let front = with_cookie(server.origin().to_owned(), cookie).await?;
        let results = drawn(&format!("{front}{path}")).await.context(layout)?.document;
        ensure!(results.contains("<progress max=\"100\" value=\"100\">"), "{results}");
        ensure!(results.contains("Votes: 1") && !results.contains("<form"), "{results}");
    }
    server.stop().await
}

/// The check above would see it if something were blocked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_policy_blocks_is_seen() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = service_fn(async |request: hyper::Request<hyper::body::Incoming>| {
                drop(request.into_body().collect().await);
                http::Response::builder()
                    .header("content-type", "text/html")
                    .header("content-security-policy", "default-src 'none'")
                    .body(Full::<Bytes>::from("<p style=\"color:red\">red</p>"))
            });
            let connection = hyper::server::conn::http1::Builder::new();
            tokio::spawn(connection.serve_connection(TokioIo::new(stream), answer));
        }
    });
    let seen = drawn(&format!("http://{address}/")).await;
    ensure!(seen.is_err_and(|error| error.to_string().starts_with("blocked: ")));
    Ok(())
}
