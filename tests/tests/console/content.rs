//! The pages of campaigns, feeds, polls, webhooks and events.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::Method;
use notify_tests::{Caller, Operator, Site, TestServer, until};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::{MARKUP, first_app, operator};

/// The longest wait for a part of a stream.
const WAIT: Duration = Duration::from_secs(30);

/// A server, its signed-in operator, and the path of its application below `/console/`.
async fn server_and_operator() -> Result<(TestServer, Operator, String)> {
    let server = TestServer::start().await;
    let operator = operator(&server).await?;
    let app = format!("apps/{}", first_app(&server).await);
    Ok((server, operator, app))
}

/// The value of a field in the forms of a page.
fn field(page: &str, name: &str) -> String {
    let value = page.split(&format!("name=\"{name}\" value=\"")).nth(1);
    value.and_then(|rest| rest.split('"').next()).unwrap_or_default().to_owned()
}

/// A campaign with every kind of content.
fn campaign(name: &str) -> Value {
    let article = |title: &str| {
        json!({"url": "https://a.example/1", "title": title,
            "thumb_url": "https://a.example/1.png", "is_external": false})
    };
    json!({"name": name, "layout_id": "content_wide_image_with_two", "settings": {},
        "strings": [{"name": "recommendations_title", "translations": {"def": "More <b>for</b> you"}}],
        "features": [
            {"type": "custom_feed", "position": 1, "data": {"recommendations_title": true,
                "articles": [article("Coats <i>"), article("Plants")]}},
            {"type": "action_button", "position": 1, "data": {"type": "nav", "lat": 48.0, "lng": 16.37,
                "data": {"a": [1, null], "b": "x = \"y\"\n'''"}}},
            {"type": "action_button", "position": 2, "data": {"type": "custom", "title": "Shop <b>",
                "icon": "shop.png"}}]})
}

/// Shows the plan of files and applies it. Returns the page of the plan and the response to applying.
async fn apply(
    operator: &Operator,
    app: &str,
    files: &str,
    plan: &str,
) -> Result<notify_tests::Response> {
    let key = [("files", files), ("plan", plan), ("key", "a-form")];
    operator.submit(&format!("{app}/campaigns/apply"), &key).await
}

async fn plan(operator: &Operator, app: &str, files: &str) -> Result<String> {
    let page = operator.submit(&format!("{app}/campaigns/plan"), &[("files", files)]).await?;
    ensure!(page.status == 200, "{page:?}");
    Ok(page.text)
}

#[tokio::test]
async fn an_export_applied_again_changes_nothing() -> Result<()> {
    let (server, operator, app) = server_and_operator().await?;
    let caller = server.caller();
    let id = caller.post("/v1/campaigns", &campaign("Spring")).await.id();
    caller.post("/v1/campaigns", &campaign("Old/../one")).await.id();
    // A text with a line that would begin another file.
    let mut marked = campaign("Marked");
    marked["strings"][0]["translations"]["def"] = json!("More\n# file: x.toml\nfor you");
    caller.post("/v1/campaigns", &marked).await.id();
    let one = operator.get(&format!("{app}/campaigns/{id}/export")).await;
    assert_eq!(one.header("content-disposition"), "attachment; filename=\"spring.toml\"");
    let all = operator.get(&format!("{app}/campaigns/export")).await;
    assert!(all.text.contains("# file: old-one.toml\n"), "{}", all.text);
    assert!(all.text.contains(&one.text), "the same file as that of one campaign");
    for files in [&one.text, &all.text, &all.text.replace('\n', "\r\n")] {
        let page = plan(&operator, &app, files).await?;
        assert!(page.contains("Nothing to change"), "{page}");
        assert!(!page.contains("Apply this plan"), "{page}");
    }
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_plan_precedes_each_change_and_only_this_plan_is_applied() -> Result<()> {
    let (server, operator, app) = server_and_operator().await?;
    let caller = server.caller();
    let listed = async || caller.get("/v1/campaigns?status=all").await.ok()["campaigns"].clone();
    let old = caller.post("/v1/campaigns", &campaign("Old")).await.id();
    // The example of the empty page, which is a campaign of another name, and a change of the old one.
    let example = operator.get(&format!("{app}/campaigns/apply?example=1")).await.text;
    let example = example.split("spellcheck=\"false\"").nth(1).context("a text")?;
    let example = example.split_once('>').context("a text")?.1;
    let example = example.split("</textarea>").next().context("a text")?;
    let example = example.replace("&#34;", "\"").replace("&#38;", "&").replace("&#39;", "'");
    let export = operator.get(&format!("{app}/campaigns/{old}/export")).await.text;
    let changed = export.replace("content_wide_image_with_two", "content_with_two");
    let files = format!("# file: new.toml\n{example}\n# file: old.toml\n{changed}");
    let page = plan(&operator, &app, &files).await?;
    for text in ["2 campaigns change", ">create<", ">update<", "<code>layout_id</code>"] {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert_eq!(listed().await.as_array().map(Vec::len), Some(1), "a plan changes nothing");
    let fingerprint = field(&page, "plan");
    assert!(!field(&page, "key").is_empty());
    // The campaigns change after the plan, so the plan is shown again.
    caller.put(&format!("/v1/campaigns/{old}/status"), &json!({"status": "disabled"})).await.ok();
    let again = apply(&operator, &app, &files, &fingerprint).await?;
    assert_eq!(again.status, 200);
    assert!(again.text.contains("have changed since the plan was made"), "{}", again.text);
    assert_eq!(listed().await.as_array().map(Vec::len), Some(1), "nothing was applied");
    let fingerprint = field(&again.text, "plan");
    let applied = apply(&operator, &app, &files, &fingerprint).await?;
    assert_eq!((applied.status, applied.header("location")), (303, "../campaigns?done=applied"));
    let campaigns = listed().await;
    let mut shown: Vec<_> = campaigns
        .as_array()
        .context("campaigns")?
        .iter()
        .map(|campaign| (campaign["name"].as_str(), campaign["is_default"] == true))
        .collect();
    shown.sort_unstable();
    assert_eq!(shown, [(Some("Old"), false), (Some("Spring Sale"), true)]);
    let page = plan(&operator, &app, &files).await?;
    assert!(page.contains("Nothing to change"), "{page}");
    let trail = server.admin().get("/admin/v1/audit").await.text;
    assert!(trail.contains("create_campaign") && trail.contains("replace_campaign"), "{trail}");
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn mistakes_in_files_are_shown_all_at_once_and_the_text_stays() -> Result<()> {
    let (server, operator, app) = server_and_operator().await?;
    let files =
        "# file: a.toml\nname = \"<a>\"\n# file: b.json\n{\"name\": 1}\n# file: c.toml\nx =\n";
    let page = plan(&operator, &app, files).await?;
    for text in [
        "<li>a.toml: layout_id: is required</li>",
        "<li>b.json: name: expected",
        "<li>c.toml: line 1",
        "name = &#34;&#60;a&#62;&#34;",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    let page = plan(&operator, &app, " ").await?;
    assert!(page.contains("paste a campaign, or choose its file"), "{page}");
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_campaign_is_drawn_and_changed() -> Result<()> {
    let (server, operator, app) = server_and_operator().await?;
    let caller = server.caller();
    let id = caller.post("/v1/campaigns", &campaign("Spring")).await.id();
    let page = operator.get(&format!("{app}/campaigns/{id}")).await.text;
    for text in [
        "handset-wide",
        "More &#60;b&#62;for&#60;/b&#62; you",
        "Coats &#60;i&#62;",
        "<li dir=\"auto\">Directions</li>",
        "<li dir=\"auto\">Shop &#60;b&#62;</li>",
        "<li>Share</li>",
        "<img src=\"https://a.example/1.png\"",
    ] {
        assert!(page.contains(text), "{text}: {page}");
    }
    let state = async || {
        let record = caller.get(&format!("/v1/campaigns/{id}")).await.ok();
        (record["status"].clone(), record["is_default"].clone())
    };
    let path = format!("{app}/campaigns/{id}");
    operator.submit(&format!("{path}/default"), &[]).await?.is(303);
    assert_eq!(state().await, (json!("active"), json!(true)));
    let disable = [("status", "disabled")];
    let refused = operator.submit(&format!("{path}/status"), &disable).await?;
    assert_eq!(refused.status, 200);
    assert!(refused.text.contains("the default campaign cannot be disabled"), "{}", refused.text);
    let other = caller.post("/v1/campaigns", &campaign("Other")).await.id();
    operator.submit(&format!("{app}/campaigns/{other}/default"), &[]).await?.is(303);
    operator.submit(&format!("{path}/status"), &disable).await?.is(303);
    assert_eq!(state().await, (json!("disabled"), json!(false)));
    assert!(operator.get(&path).await.text.contains("Devices get nothing"));
    operator.submit(&format!("{path}/delete"), &[]).await?.is(303);
    caller.get(&format!("/v1/campaigns/{id}")).await.is(404);
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn the_check_of_a_feed_shows_items_and_problems_and_keeps_nothing() -> Result<()> {
    let (server, operator, app) = server_and_operator().await?;
    let rss = "<rss version=\"2.0\"><channel><item><title>One &amp;lt;b&amp;gt; two</title>\
        <link>https://a.example/1</link><pubDate>Tue, 02 Jun 2026 08:00:00 GMT</pubDate></item>\
        </channel></rss>";
    let site = Site::start(&[("/feed", rss.to_owned()), ("/page", "<html>".to_owned())]).await?;
    let check = format!("{app}/feeds/check");
    let (feed, page) = (format!("{}/feed", site.origin), format!("{}/page", site.origin));
    let shown = operator.submit(&check, &[("url", &feed), ("name", "News")]).await?.text;
    for text in ["1 item", "One &#60;b&#62; two", "https://a.example/1", "value=\"News\""] {
        assert!(shown.contains(text), "{text}: {shown}");
    }
    let shown = operator.submit(&check, &[("url", &page)]).await?.text;
    assert!(shown.contains("is not an RSS, Atom or JSON feed"), "{shown}");
    let shown = operator.submit(&check, &[("url", "nonsense")]).await?.text;
    assert!(shown.contains("id=\"url-problem\""), "{shown}");
    assert_eq!(server.caller().get("/v1/feeds").await.ok()["feeds"], json!([]), "nothing is kept");
    let trail = server.admin().get("/admin/v1/audit").await.text;
    assert!(!trail.contains("check_feed"), "{trail}");
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_feed_is_created_read_and_deleted() -> Result<()> {
    let (server, operator, app) = server_and_operator().await?;
    let site = Site::start(&[("/page", "<html>".to_owned())]).await?;
    let url = format!("{}/page", site.origin);
    let form = [("url", url.as_str()), ("name", MARKUP), ("key", "a-form")];
    let created = operator.submit(&format!("{app}/feeds"), &form).await?;
    let again = operator.submit(&format!("{app}/feeds"), &form).await?;
    assert_eq!(created.header("location"), again.header("location"), "sent twice, created once");
    let path = created.header("location").split('?').next().context("a path")?.to_owned();
    let path = format!("{app}/{path}");
    let page = until("the feed is read", async || {
        let page = operator.get(&path).await.text;
        Ok(page.contains("The last read failed").then_some(page))
    })
    .await?;
    assert!(page.contains("is not an RSS, Atom or JSON feed"), "{page}");
    let checked = operator.submit(&format!("{path}/check"), &[]).await?.text;
    assert!(checked.contains("cannot be read as a feed"), "{checked}");
    operator.submit(&format!("{path}/delete"), &[]).await?.is(303);
    assert_eq!(operator.get(&path).await.status, 404);
    server.stop().await;
    Ok(())
}

/// Creates a poll. Returns its id and the ids of its answers.
async fn poll(caller: &Caller, text: &str) -> Result<(String, Vec<String>)> {
    let body = json!({"platforms": ["ios"], "poll": {"text": text, "layout_id": "poll_text",
        "answers": [{"text": "tea"}, {"text": MARKUP}, {"text": "none"}]}});
    let id = caller.post("/v1/notifications", &body).await.id();
    let read = caller.get(&format!("/v1/polls/{id}")).await.ok();
    let answers = read["answers"].as_array().context("answers")?.iter();
    Ok((id, answers.filter_map(|answer| answer["id"].as_str()).map(str::to_owned).collect()))
}

async fn vote(caller: &Caller, id: &str, answer: &str) {
    caller.post(&format!("/v1/polls/{id}/answers/{answer}"), &json!({})).await.ok();
}

#[tokio::test]
async fn the_bars_of_a_poll_equal_the_numbers_of_the_api() -> Result<()> {
    let (server, operator, app) = server_and_operator().await?;
    let caller = server.caller();
    let (id, answers) = poll(&caller, "Tea or coffee?").await?;
    let path = format!("{app}/polls/{id}");
    assert!(operator.get(&path).await.text.contains("No votes yet"));
    for answer in [0, 1, 1] {
        vote(&caller, &id, &answers[answer]).await;
    }
    let page = operator.get(&path).await.text;
    assert!(page.contains("3 votes"), "{page}");
    let read = caller.get(&format!("/v1/polls/{id}")).await.ok();
    let rows: Vec<&str> = page.split("<tr").filter(|row| row.contains("scope=\"row\"")).collect();
    assert_eq!(rows.len(), 3);
    for (row, answer) in rows.iter().zip(read["answers"].as_array().context("answers")?) {
        let (clicks, percentage) = (answer["clicks"].as_u64(), answer["percentage"].as_f64());
        let (clicks, percentage) = (clicks.context("clicks")?, percentage.context("a share")?);
        for text in [
            format!("<td class=\"number\">{clicks}</td>"),
            format!("<td class=\"number\">{percentage} %</td>"),
            format!("<rect width=\"{percentage}\""),
        ] {
            assert!(row.contains(&text), "{text}: {row}");
        }
    }
    let list = operator.get(&format!("{app}/polls")).await.text;
    assert!(list.contains("Tea or coffee?") && list.contains(&format!("polls/{id}")), "{list}");
    let notification = operator.get(&format!("{app}/notifications/{id}")).await.text;
    assert!(notification.contains(&format!("polls/{id}")), "the notification leads to its poll");
    let found = operator.get(&format!("{app}/polls?id={id}")).await;
    assert_eq!((found.status, found.header("location")), (303, format!("polls/{id}").as_str()));
    server.stop().await;
    Ok(())
}

/// Responds to webhooks with a status that the test changes.
async fn receiver(status: Arc<AtomicU16>) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/hook", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // An error means that the server has closed the connection.
            tokio::spawn(respond(stream, status.load(Ordering::SeqCst)));
        }
    });
    Ok(url)
}

async fn respond(mut stream: TcpStream, status: u16) -> Result<()> {
    let mut bytes = Vec::new();
    // A message ends with the end of its JSON.
    while !bytes.ends_with(b"}}") {
        ensure!(stream.read_buf(&mut bytes).await? > 0);
    }
    let head = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    stream.shutdown().await?;
    Ok(())
}

/// The secret on a page; empty if the page shows none.
fn secret(page: &str) -> &str {
    let secret = page.split("<code id=\"secret\">").nth(1);
    secret.and_then(|rest| rest.split('<').next()).unwrap_or_default()
}

#[tokio::test]
async fn a_webhook_shows_its_secret_once_and_is_tested_watched_and_redelivered() -> Result<()> {
    let (server, operator, app) = server_and_operator().await?;
    let status = Arc::new(AtomicU16::new(204));
    let url = receiver(status.clone()).await?;
    let form = [("url", url.as_str()), ("events", "poll.answered"), ("description", MARKUP)];
    let created = operator.submit(&format!("{app}/webhooks"), &form).await?;
    assert_eq!(created.status, 200);
    let first = secret(&created.text).to_owned();
    assert!(first.starts_with("whsec_"), "{}", created.text);
    let listed = server.caller().get("/v1/webhooks").await.ok();
    let hook = &listed["webhooks"][0];
    assert_eq!(
        (&hook["events"], &hook["description"]),
        (&json!(["poll.answered"]), &json!(MARKUP))
    );
    let path = format!("{app}/webhooks/{}", hook["id"].as_str().context("an id")?);
    let page = operator.get(&path).await.text;
    assert!(!page.contains(&first) && page.contains("No event was sent to it yet"), "{page}");
    // A test shows what the receiver answered, and stays in the list.
    let tested = operator.submit(&format!("{path}/test"), &[("key", "one")]).await?.text;
    assert!(tested.contains("Test: delivered") && tested.contains("204 in "), "{tested}");
    status.store(500, Ordering::SeqCst);
    let tested = operator.submit(&format!("{path}/test"), &[("key", "two")]).await?.text;
    assert!(tested.contains("500 in "), "{tested}");
    let page = operator.get(&path).await.text;
    assert!(page.contains("webhook.test") && page.contains("/redeliver\""), "{page}");
    // An event that fails has a time of its next try, and is sent again on request.
    let (id, answers) = poll(&server.caller(), "?").await?;
    vote(&server.caller(), &id, &answers[0]).await;
    let attempts = format!("/v1{}/attempts", path.strip_prefix(&app).context("a path")?);
    let message = until("the event failed once", async || {
        let attempts = server.caller().get(&attempts).await.ok();
        let message = attempts["attempts"][0].clone();
        let is_tried = message["event"] == "poll.answered" && message["attempts"] != 0;
        Ok(is_tried.then_some(message))
    })
    .await?;
    assert!(message["next_attempt_at"].is_i64(), "{message}");
    let page = operator.get(&path).await.text;
    assert!(page.contains("data-live") && page.contains("pending"), "{page}");
    status.store(200, Ordering::SeqCst);
    let again = format!("{path}/messages/{}/redeliver", message["id"].as_str().context("an id")?);
    let sent = operator.submit(&again, &[]).await?;
    assert_eq!(sent.status, 303, "{}", sent.text);
    until("the message is delivered", async || {
        let page = operator.get(&path).await.text;
        Ok((page.contains("200 in ") && !page.contains("pending")).then_some(()))
    })
    .await?;
    let recovered = operator.submit(&format!("{path}/recover"), &[("hours", "24")]).await?;
    assert_eq!(recovered.status, 303, "{}", recovered.text);
    // Rotating shows another secret, once.
    let rotated = operator.submit(&format!("{path}/rotate"), &[]).await?.text;
    assert!(secret(&rotated).starts_with("whsec_") && secret(&rotated) != first, "{rotated}");
    assert!(!operator.get(&path).await.text.contains("whsec_"));
    // Loading the page with the secret again leads to the webhook.
    let again = operator.get(&format!("{path}/rotate")).await;
    assert_eq!(
        (again.status, path.split('/').next_back()),
        (303, again.header("location").strip_prefix("../"))
    );
    let trail = server.admin().get("/admin/v1/audit").await.text;
    assert!(trail.contains("rotate_webhook_secret") && !trail.contains("whsec_"), "{trail}");
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_webhook_is_changed_disabled_and_deleted() -> Result<()> {
    let (server, operator, app) = server_and_operator().await?;
    let wrong = [("url", "nonsense"), ("description", MARKUP), ("events", "poll.answered")];
    let refused = operator.submit(&format!("{app}/webhooks"), &wrong).await?.text;
    for text in ["id=\"url-problem\"", "value=\"nonsense\"", "value=\"poll.answered\" checked"] {
        assert!(refused.contains(text), "{text}: {refused}");
    }
    let hook = json!({"url": "https://a.example/hook", "events": ["poll.answered"]});
    let id = server.caller().post("/v1/webhooks", &hook).await.id();
    let path = format!("{app}/webhooks/{id}");
    let change = [("url", "https://b.example/hook"), ("description", "")];
    operator.submit(&path, &change).await?.is(303);
    operator.submit(&format!("{path}/enabled"), &[("enabled", "false")]).await?.is(303);
    let read = server.caller().get(&format!("/v1/webhooks/{id}")).await.ok();
    assert_eq!(
        (&read["url"], &read["events"], &read["enabled"]),
        (&json!("https://b.example/hook"), &json!([]), &json!(false))
    );
    operator.submit(&format!("{path}/enabled"), &[("enabled", "true")]).await?.is(303);
    operator.submit(&format!("{path}/delete"), &[]).await?.is(303);
    assert_eq!(operator.get(&path).await.status, 404);
    server.stop().await;
    Ok(())
}

/// An open stream of a page.
struct Stream {
    response: reqwest::Response,
    text: String,
}

/// An event of a stream.
#[derive(Debug, PartialEq)]
struct Event {
    id: String,
    kind: String,
    data: Value,
}

impl Stream {
    /// Opens a stream as the page does.
    async fn open(operator: &Operator, origin: &str, path: &str, last: &str) -> Result<Self> {
        let response = request(operator, origin, path, last).await?;
        ensure!(response.status() == 200, "{}", response.status());
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Ok(Self { response, text: String::new() })
    }

    /// The next event; `None` when the stream ended.
    async fn next(&mut self) -> Result<Option<Event>> {
        loop {
            if let Some(end) = self.text.find("\n\n") {
                let block: String = self.text.drain(..end + 2).collect();
                let field = |name: &str| {
                    let line = block.lines().find_map(|line| line.strip_prefix(name));
                    line.unwrap_or_default().to_owned()
                };
                let data = serde_json::from_str(&field("data: "))?;
                return Ok(Some(Event { id: field("id: "), kind: field("event: "), data }));
            }
            match timeout(WAIT, self.response.chunk()).await.context("nothing comes")? {
                Ok(Some(chunk)) => self.text.push_str(std::str::from_utf8(&chunk)?),
                Ok(None) | Err(_) => return Ok(None),
            }
        }
    }

    /// The next event that is not a position.
    async fn event(&mut self) -> Result<Event> {
        loop {
            let event = self.next().await?.context("the stream ended")?;
            if event.kind != "position" {
                return Ok(event);
            }
        }
    }

    /// Reads until the stream ends.
    async fn end(&mut self) -> Result<()> {
        while self.next().await?.is_some() {}
        Ok(())
    }
}

async fn request(
    operator: &Operator,
    origin: &str,
    path: &str,
    last: &str,
) -> Result<reqwest::Response> {
    let url = format!("{origin}/console/{path}");
    let client = notify_tests::http_client().redirect(reqwest::redirect::Policy::none()).build()?;
    let request = client.get(url).header("cookie", operator.cookie.as_str());
    let request = request.header("last-event-id", last).header("sec-fetch-dest", "empty");
    Ok(request.send().await?)
}

#[tokio::test]
async fn the_stream_shows_each_event_and_misses_none_after_a_restart() -> Result<()> {
    let (mut server, operator, app) = server_and_operator().await?;
    let (id, answers) = poll(&server.caller(), "?").await?;
    let page = operator.get(&format!("{app}/events?types=poll.answered")).await.text;
    let path = format!("{app}/events/stream?types=poll.answered");
    assert!(page.contains("/events/stream?types=poll.answered\""), "{page}");
    let mut stream = Stream::open(&operator, server.origin(), &path, "").await?;
    let position = stream.next().await?.context("a position")?;
    assert_eq!((position.kind.as_str(), position.data), ("position", json!({})));
    vote(&server.caller(), &id, &answers[0]).await;
    let event = stream.event().await?;
    assert_eq!(
        (event.kind.as_str(), &event.data["type"]),
        ("poll.answered", &json!("poll.answered"))
    );
    assert_eq!(event.data["data"]["poll_id"], json!(id));
    drop(stream);
    // One event before the restart, one after it, while the page is not connected.
    vote(&server.caller(), &id, &answers[1]).await;
    server.restart().await;
    vote(&server.caller(), &id, &answers[2]).await;
    for last in [&position.id, &event.id] {
        let mut stream = Stream::open(&operator, server.origin(), &path, last).await?;
        if last == &position.id {
            assert_eq!(stream.event().await?, event);
        }
        for answer in &answers[1..] {
            assert_eq!(stream.event().await?.data["data"]["answer_id"], json!(answer));
        }
    }
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_stream_ends_with_its_session_and_counts_as_one_of_the_application() -> Result<()> {
    let (server, operator, app) = server_and_operator().await?;
    let path = format!("{app}/events/stream");
    let mut streams = Vec::new();
    for _ in 0..10 {
        streams.push(Stream::open(&operator, server.origin(), &path, "").await?);
    }
    let refused = request(&operator, server.origin(), &path, "").await?;
    assert_eq!(refused.status(), 429);
    let invalid = request(&operator, server.origin(), &format!("{path}?types=x"), "").await?;
    assert_eq!(invalid.status(), 400);
    operator.submit("sign-out", &[]).await?.is(303);
    for stream in &mut streams {
        stream.end().await?;
    }
    let unauthorized = request(&operator, server.origin(), &path, "").await?;
    assert_eq!(unauthorized.status(), 303, "to the sign-in page");
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn the_idle_limit_ends_an_open_stream() -> Result<()> {
    let server = TestServer::without_providers().await;
    let operator = operator(&server).await?;
    let path = format!("apps/{}/events/stream", first_app(&server).await);
    let mut stream = Stream::open(&operator, server.origin(), &path, "").await?;
    assert!(stream.next().await?.is_some());
    server.clock().advance(Duration::from_secs(2 * 3_600) + Duration::from_millis(1));
    stream.end().await?;
    assert_eq!(request(&operator, server.origin(), &path, "").await?.status(), 303);
    Ok(())
}

#[tokio::test]
async fn each_empty_page_names_its_next_step() -> Result<()> {
    let server = TestServer::without_providers().await;
    let operator = operator(&server).await?;
    let app = format!("apps/{}", first_app(&server).await);
    let playground = operator.get("playground").await.text;
    assert!(playground.contains("playground/start\""), "{playground}");
    let overview = operator.get("").await.text;
    assert!(overview.contains("/providers\">configure one"), "{overview}");
    for (page, text) in [
        ("campaigns", "campaigns/apply?example=1"),
        ("feeds", "Enter the address of one below"),
        ("polls", "No notification has a poll yet"),
        ("webhooks", "let this receiver print them"),
        ("polls", "/send\">Send one</a>"),
        ("webhooks", "start it again with <code>--allow-private-networks</code>"),
        ("devices", "sdk_type&#34;:&#34;android_push"),
        ("events", "/send\">Send a notification"),
        ("", "/providers\">"),
        ("notifications", "/send\">Send a first notification"),
        ("tags", "/devices\">device"),
        ("users", "/devices\">device"),
        ("segments", "/segments/edit\">Write a first condition"),
        ("providers", "providers/fcm"),
        ("send", "/providers"),
        ("web", "/providers"),
    ] {
        let shown = operator.get(format!("{app}/{page}").trim_end_matches('/')).await;
        assert_eq!(shown.status, 200, "{page}");
        assert!(shown.text.contains(text), "{page}: {}", shown.text);
    }
    let to_none = json!({"text": "Hello", "platforms": ["android"]});
    let id = server.caller().post("/v1/notifications", &to_none).await.id();
    let deliveries = operator.get(&format!("{app}/notifications/{id}/deliveries")).await.text;
    assert!(deliveries.contains("There are no deliveries: "), "{deliveries}");
    assert!(deliveries.contains("/devices\">the devices"), "{deliveries}");
    Ok(())
}

#[tokio::test]
async fn the_audit_trail_names_what_was_created() -> Result<()> {
    let (server, operator, app) = server_and_operator().await?;
    let feed = [("url", "https://a.example/feed"), ("name", "News")];
    operator.submit(&format!("{app}/feeds"), &feed).await?.is(303);
    let hook = [("url", "https://a.example/hook")];
    operator.submit(&format!("{app}/webhooks"), &hook).await?.is(200);
    let files = campaign("Spring").to_string();
    let page = plan(&operator, &app, &files).await?;
    assert!(page.contains("1 campaign will be created"), "{page}");
    let applied = apply(&operator, &app, &files, &field(&page, "plan")).await?;
    assert_eq!(applied.status, 303, "{}", applied.text);
    let segment = [("new", "1"), ("name", "my fans"), ("audience", "tag = vip"), ("do", "save")];
    operator.submit(&format!("{app}/segments/edit"), &segment).await?.is(303);
    let trail = operator.get("audit").await.text;
    for list in ["feeds", "webhooks", "campaigns"] {
        let objects = server.caller().get(&format!("/v1/{list}")).await.ok()[list].clone();
        let id = objects[0]["id"].as_str().context("an id")?;
        assert!(trail.contains(&format!("href=\"./{app}/{list}/{id}\"")), "{list}: {trail}");
    }
    let link = format!("href=\"./{app}/segments/edit?name=my%20fans\"");
    assert!(trail.contains(&link), "{trail}");
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_wrong_cursor_of_events_is_an_error_at_its_field() -> Result<()> {
    let (server, operator, app) = server_and_operator().await?;
    let page = operator.get(&format!("{app}/events?cursor=it%27s")).await;
    assert_eq!(page.status, 200);
    assert!(page.text.contains("id=\"cursor-problem\""), "{}", page.text);
    assert!(!page.text.contains("data-events="), "{}", page.text);
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn content_of_another_application_is_404() -> Result<()> {
    let (server, operator, own) = server_and_operator().await?;
    let caller = server.caller();
    let feed = json!({"url": "https://a.example/feed", "name": "News"});
    let hook = json!({"url": "https://a.example/hook"});
    let paths = [
        format!("campaigns/{}", caller.post("/v1/campaigns", &campaign("Spring")).await.id()),
        format!("feeds/{}", caller.post("/v1/feeds", &feed).await.id()),
        format!("polls/{}", poll(&caller, "?").await?.0),
        format!("webhooks/{}", caller.post("/v1/webhooks", &hook).await.id()),
    ];
    let other = server.admin().post("/admin/v1/apps", &json!({"name": "Other"})).await.id();
    for path in paths {
        assert_eq!(operator.get(&format!("{own}/{path}")).await.status, 200, "{path}");
        assert_eq!(operator.get(&format!("apps/{other}/{path}")).await.status, 404, "{path}");
        let delete = format!("apps/{other}/{path}/delete");
        let refused = operator.submit(&delete, &[]).await?;
        assert_eq!(refused.status, 404, "{delete}");
        let check = format!("apps/{other}/{path}/check");
        assert_eq!(operator.submit(&check, &[]).await?.status, 404, "{check}");
    }
    let caller = Caller::with_header(server.origin(), "accept", "text/html");
    let path = format!("/console/{own}/events/stream");
    assert_eq!(caller.send(&Method::GET, &path, "").await?.status, 303, "not signed in");
    server.stop().await;
    Ok(())
}
