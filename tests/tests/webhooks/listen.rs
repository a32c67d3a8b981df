//! `notify listen` forwards to a url on this machine what a webhook gets.

use anyhow::{Context, Result, ensure};
use notify_client::StreamItem;
use notify_core::{CreateNotification, StreamQuery};
use notify_tests::{Following, Notify, TestServer};
use serde_json::Value;

use crate::sink::{Got, Mode, Sink};
use crate::{came, verified};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Sends to an unknown device, which is an event.
async fn fail(server: &TestServer) -> Result<()> {
    let nobody = CreateNotification::to_any_devices(["nobody"], "Hi");
    server.client().notifications().create(&nobody.context("an id")?).await?;
    Ok(())
}

async fn json_line(following: &mut Following) -> Result<Value> {
    Ok(serde_json::from_str(&following.line().await?.context("it goes on")?)?)
}

/// The headers that the protocol of webhooks defines, and the form of the body.
fn kinds_of_headers(got: &Got) -> Vec<&str> {
    let names = got.headers.iter().map(|(name, _)| name.as_str());
    let mut names: Vec<_> =
        names.filter(|name| *name != "accept" && *name != "connection").collect();
    names.sort_unstable();
    names
}

#[tokio::test]
async fn listen_forwards_what_a_webhook_gets_and_repeats_it_under_the_same_id() -> Result<()> {
    let server = TestServer::start().await;
    let notify = Notify::new(server.origin(), server.api_key(), server.admin_key())?;
    let (hook, local) =
        (Sink::start(Mode::status(204)).await?, Sink::start(Mode::status(204)).await?);
    let made = notify.json(&["webhooks", "create", &hook.url]).await?;
    let hook_secret = made["secret"].as_str().context("a secret")?;

    // The stream gets every event after `connect`, without a device or a pause.
    let mut events = server.client().stream(StreamQuery::default());
    events.connect().await?;
    fail(&server).await?;
    let first = events.next().await.context("it goes on")??;
    let StreamItem::Event { cursor, .. } = first else { anyhow::bail!("{first:?}") };
    let first_body = events.body().context("a body")?.to_owned();
    fail(&server).await?;
    let messages = came(&hook, 2).await?;
    assert!(messages.iter().any(|got| got.body == first_body.as_bytes()), "{first_body}");

    let listen = ["listen", "--forward-to", &local.url, "--secret", SECRET, "-o", "json"];
    let listen = [&listen[..], &["--since", &cursor, "--events", "notification.failed"]].concat();
    let mut following = notify.follow(&listen)?;
    let line = json_line(&mut following).await?;
    ensure!(line["status"] == 204 && line["type"] == "notification.failed", "{line}");
    let forwarded = came(&local, 1).await?.remove(0);
    let same = messages.iter().find(|got| got.body == forwarded.body).context("the same body")?;
    assert_ne!(forwarded.body, first_body.as_bytes(), "events before the cursor are skipped");
    assert_eq!(verified(SECRET, &forwarded)?, verified(hook_secret, same)?);
    assert_eq!(kinds_of_headers(&forwarded), kinds_of_headers(same));
    for name in ["content-type", "user-agent"] {
        assert_eq!(forwarded.header(name), same.header(name));
    }
    fail(&server).await?;
    let next = json_line(&mut following).await?;
    assert_ne!(next["webhook_id"], line["webhook_id"]);
    assert_eq!(following.interrupt().await?, Some(0), "Ctrl-C is its regular end");

    // A receiver that never answers does not delay the end by more than seconds.
    local.answers(Mode::Hang);
    let again = notify.follow(&listen)?;
    let repeated = &came(&local, 4).await?[2..];
    let mut ids: Vec<_> = repeated.iter().map(|got| got.header("webhook-id")).collect();
    ids.sort_unstable();
    let mut earlier = [&line, &next].map(|line| line["webhook_id"].as_str().unwrap_or_default());
    earlier.sort_unstable();
    assert_eq!(ids, earlier, "a repetition can be recognised");
    assert_eq!(again.interrupt().await?, Some(0));
    server.stop().await;
    Ok(())
}
