//! The playground in the console: from the sign-in to a message that a fake provider received, without a
//! terminal and without a script.

use anyhow::{Context, Result};
use notify_core::NotificationId;
use notify_tests::{Operator, TestServer, completed, until};

use crate::{MARKUP, links, operator};

/// A server as users start it, which may not connect to private networks.
async fn server() -> TestServer {
    TestServer::start_with(|config| config.allow_private_networks = false).await
}

/// How the form that starts the playground begins.
const START_FORM: &str = "action=\"./playground/start\"";

/// The address of the page's link that leads to `target`, relative to `/console/`.
fn link_to(page: &str, at: &str, target: &str) -> String {
    let found = links(page, at).into_iter().find(|link| link.contains(target));
    found.unwrap_or_else(|| panic!("no link to {target}: {page}"))
}

/// The values of the fields of a form that a browser would submit: hidden fields, texts and ticked boxes.
fn fields_of(page: &str) -> Vec<(String, String)> {
    let form = page.split_once("class=\"composer\"").unwrap().1;
    let mut fields = Vec::new();
    for input in form.split("<input ").skip(1) {
        let tag = input.split('>').next().unwrap();
        let attribute = |name: &str| {
            let value = tag.split_once(&format!("{name}=\""))?.1;
            Some(value.split('"').next()?.to_owned())
        };
        let is_box = tag.contains("type=\"checkbox\"") || tag.contains("type=\"radio\"");
        if let (Some(name), Some(value)) = (attribute("name"), attribute("value"))
            && (!is_box || tag.contains("checked"))
        {
            fields.push((name, value));
        }
    }
    for area in form.split("<textarea ").skip(1) {
        let name = area.split_once("name=\"").unwrap().1.split('"').next().unwrap();
        let value = area.split_once(">\n").unwrap().1.split("</textarea>").next().unwrap();
        fields.push((name.to_owned(), value.to_owned()));
    }
    fields
}

async fn start(operator: &Operator) -> Result<String> {
    let started = operator.submit("playground/start", &[]).await?;
    assert_eq!((started.status, started.header("location")), (303, "../playground?done=started"));
    Ok(operator.get("playground").await.text)
}

#[tokio::test]
async fn from_sign_in_to_a_message_in_the_playground_without_terminal_and_script() -> Result<()> {
    let server = server().await;
    let operator = operator(&server).await?;
    let overview = operator.get("").await.text;
    assert!(!overview.contains(START_FORM), "the application has providers: {overview}");
    let empty = operator.get(&link_to(&overview, "", "playground")).await.text;
    assert!(empty.contains(START_FORM), "{empty}");
    let page = start(&operator).await?;
    assert_eq!(page.matches("class=\"badge good\">enabled").count(), 6, "{page}");
    assert!(page.contains("have received nothing yet"), "{page}");
    assert!(!page.contains("nk_"), "the API key is not needed");

    // "Hello" is written already, and drawn.
    let path = link_to(&page, "playground", "/send?text=Hello");
    let composer = operator.get(&path).await.text;
    for drawn in ["class=\"screen ios\"", "class=\"screen android\"", "class=\"screen chat\""] {
        assert!(composer.contains(drawn), "{drawn}: {composer}");
    }
    assert!(composer.contains("Send to 6 devices"), "{composer}");
    let mut fields = fields_of(&composer);
    fields.push(("do".to_owned(), "send".to_owned()));
    let fields: Vec<(&str, String)> =
        fields.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    let send = path.split('?').next().context("a path")?;
    let sent = operator.submit_as_is(send, &fields).await?;
    assert_eq!(sent.status, 303, "{}", sent.text);
    let location = sent.header("location").to_owned();
    let id = location.trim_start_matches("notifications/").split('?').next().context("an id")?;

    let playground = server.client().admin().start_playground().await?;
    let key = playground.api_key.context("the key")?;
    let client = notify_client::Client::builder(server.origin()).api_key(key).build()?;
    completed(&client, &NotificationId::new(id).unwrap()).await?;
    let page = operator.get("playground").await.text;
    // One message for each device, and two more for the one that fails twice.
    assert_eq!(page.matches("<p class=\"body\" dir=\"auto\">Hello</p>").count(), 8, "{page}");
    assert_eq!(page.matches("class=\"badge bad\">503").count(), 2);
    assert!(page.contains("class=\"badge bad\">404 UNREGISTERED"), "{page}");
    assert_eq!(page.matches("not shown: refused").count(), 3, "two 503s and the dead device");
    let path = format!("{}/notifications/{id}", send.trim_end_matches("/send"));
    let record = operator.get(&path).await.text;
    assert!(record.contains("playground\">See the messages in the playground</a>"), "{record}");
    assert!(page.contains("gets no more messages"), "the dead device is disabled");
    let why = link_to(&page, "playground", "explain?device=android-unregistered");
    assert!(operator.get(&why).await.text.contains("<strong>unregistered</strong>"));
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_new_server_offers_the_playground_on_its_first_page() -> Result<()> {
    let server = TestServer::without_providers().await;
    let operator = operator(&server).await?;
    let overview = operator.get("").await.text;
    assert!(overview.contains(START_FORM), "{overview}");
    start(&operator).await?;
    let overview = operator.get("").await.text;
    assert!(!overview.contains(START_FORM), "it runs: {overview}");
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn an_answer_is_scripted_and_the_playground_is_stopped() -> Result<()> {
    let server = server().await;
    let operator = operator(&server).await?;
    start(&operator).await?;
    let path = "playground/devices/iphone-works/answer";
    let set = operator.submit(path, &[("answer", "unavailable")]).await?;
    assert_eq!((set.status, set.header("location")), (303, "../../../playground?done=scripted"));
    let unset = operator.submit(path, &[("answer", "")]).await?;
    assert_eq!((unset.status, unset.header("location")), (303, "../../../playground"));
    let page = operator.get("playground").await.text;
    assert!(page.contains("name=\"answer\"><option value=\"\">as described</option>"), "{page}");
    let refused = operator.submit(path, &[("answer", "maybe")]).await?;
    assert!(refused.text.contains("answer: must be one of"), "{}", refused.text);
    let unknown = operator.submit("playground/devices/nobody/answer", &[("answer", "ok")]).await?;
    assert_eq!(unknown.status, 404);
    let stopped = operator.submit("playground/stop", &[]).await?;
    assert_eq!((stopped.status, stopped.header("location")), (303, "../playground?done=stopped"));
    let page = operator.get("playground?done=stopped").await.text;
    assert!(page.contains("Stopped: the playground and its application are deleted."));
    assert!(page.contains(">Start the playground</button>"), "{page}");
    operator.submit("playground/stop", &[]).await?.is(303);
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn markup_in_received_messages_is_shown_as_text() -> Result<()> {
    let server = server().await;
    let operator = operator(&server).await?;
    let page = start(&operator).await?;
    let send = link_to(&page, "playground", "/send?text=Hello");
    let fields = [("text", MARKUP), ("platform", "ios"), ("platform", "chatapp"), ("do", "send")];
    operator.submit(send.split('?').next().context("a path")?, &fields).await?.is(303);
    let received = until("the messages arrive", async || {
        let page = operator.get("playground").await.text;
        Ok((page.matches("class=\"badge good\">200").count() == 3).then_some(page))
    });
    let page = received.await?;
    assert_eq!(page.matches("dir=\"auto\">&#60;script&#62;").count(), 3, "{page}");
    assert!(!page.contains("<script>alert"), "{page}");
    server.stop().await;
    Ok(())
}
