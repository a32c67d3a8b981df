//! The commands of `notify webhooks`, with an endpoint that accepts every message.

use anyhow::{Context, Result, ensure};
use notify_tests::{Notify, TestServer, until};
use serde_json::{Value, json};

use crate::sink::{Mode, Sink};

/// A server, an endpoint, and the command.
async fn stage() -> Result<(TestServer, Sink, Notify)> {
    let server = TestServer::start().await;
    let notify = Notify::new(server.origin(), server.api_key(), server.admin_key())?;
    Ok((server, Sink::start(Mode::status(204)).await?, notify))
}

fn text<'a>(value: &'a Value, name: &str) -> Result<&'a str> {
    value[name].as_str().with_context(|| format!("{name} in {value}"))
}

#[tokio::test]
async fn a_webhook_can_be_managed_with_commands_alone() -> Result<()> {
    let (server, sink, notify) = stage().await?;
    let create = ["webhooks", "create", &*sink.url, "--event", "notification.completed"];
    let made = notify.json(&[&create[..], &["--description", "shop"]].concat()).await?;
    let (id, secret) = (text(&made, "id")?, text(&made, "secret")?);
    ensure!(secret.starts_with("whsec_"), "{made}");
    let only = async || {
        let listed = notify.json(&["webhooks", "list"]).await?;
        ensure!(!listed.to_string().contains("whsec_"), "{listed}");
        let [only] = &listed["webhooks"].as_array().context("a list")?[..] else {
            anyhow::bail!("{listed}")
        };
        Ok(only.clone())
    };
    let listed = only().await?;
    assert_eq!((&listed["url"], &listed["description"]), (&json!(sink.url), &json!("shop")));
    assert_eq!(listed["events"], json!(["notification.completed"]));

    let delivered = notify.json(&["webhooks", "test", id]).await?;
    assert_eq!((&delivered["outcome"], &delivered["status"]), (&json!("delivered"), &json!(204)));
    let rotated = notify.json(&["webhooks", "rotate", id]).await?;
    assert_ne!(text(&rotated, "secret")?, secret);
    assert!(only().await?["previous_secret_until"].is_i64(), "the one before signs too");

    // A failed message is listed with its error, and can be sent again by hand.
    sink.answers(Mode::status(410));
    let output = notify.run(&["webhooks", "test", id]).await?;
    assert_eq!(output.status, Some(1), "a check that failed: {output:?}");
    let failed: Value = serde_json::from_str(&output.stdout)?;
    assert_eq!((&failed["outcome"], &failed["reason"]), (&json!("failed"), &json!("gone")));
    let disabled = only().await?;
    assert_eq!(
        (&disabled["enabled"], &disabled["disabled_reason"]),
        (&json!(false), &json!("gone"))
    );
    let refused = notify.run(&["webhooks", "test", id]).await?;
    assert_eq!((refused.status, &*refused.stdout), (Some(3), ""), "{refused:?}");
    sink.answers(Mode::status(204));
    let success = json!({"success": true});
    assert_eq!(notify.json(&["webhooks", "update", id, "--enable"]).await?, success);
    let redeliver = ["webhooks", "redeliver", id, text(&failed, "id")?];
    assert_eq!(notify.json(&redeliver).await?, success);
    until("it is delivered at last", async || {
        let all = notify.json(&["webhooks", "attempts", id, "--all"]).await?;
        let all = all["attempts"].as_array().context("a list")?;
        let again =
            all.iter().find(|attempt| attempt["id"] == failed["id"]).context("it is listed")?;
        Ok((again["outcome"] == "delivered").then_some(()))
    })
    .await?;
    // `recover` sends the failed messages of events again. The only failed message is a test, which is not an
    // event, so `recover` sends nothing.
    let recover = ["webhooks", "recover", id, "--since", "1h"];
    assert_eq!(notify.json(&recover).await?, json!({"recovered": 0, "more": false}));
    let ids: Vec<_> = sink.got().iter().map(|got| got.header("webhook-id").to_owned()).collect();
    assert_eq!(ids, [text(&delivered, "id")?, text(&failed, "id")?, text(&failed, "id")?]);

    let change = ["webhooks", "update", id, "--every-event", "--description", "all"];
    notify.json(&change).await?;
    let changed = only().await?;
    assert_eq!((&changed["events"], &changed["description"]), (&json!([]), &json!("all")));
    notify.json(&["webhooks", "update", id, "--disable"]).await?;
    assert_eq!(only().await?["enabled"], false);
    assert_eq!(notify.json(&["webhooks", "delete", id, "--yes"]).await?, success);
    assert_eq!(notify.json(&["webhooks", "list"]).await?["webhooks"], json!([]));
    for command in [&["webhooks", "delete", id, "--yes"][..], &["webhooks", "attempts", id]] {
        assert_eq!(notify.run(command).await?.status, Some(5), "{command:?}");
    }
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn webhooks_and_their_attempts_are_printed_as_tables() -> Result<()> {
    let (server, sink, notify) = stage().await?;
    let table = async |arguments: &[&str]| {
        let output = notify.run(&[&["-o", "table", "webhooks"], arguments].concat()).await?;
        let status = i32::from(arguments[0] == "test");
        ensure!(output.status == Some(status), "{output:?}");
        Ok(output.stdout)
    };
    let made = table(&["create", &sink.url]).await?;
    ensure!(made.contains("whsec_"), "the secret is shown this once: {made}");
    let listed = notify.json(&["webhooks", "list"]).await?;
    let id = text(&listed["webhooks"][0], "id")?;
    sink.answers(Mode::status(503));
    for (arguments, shown) in [
        (&["list"][..], &["state", id, &sink.url, "enabled"][..]),
        (&["test", id], &["webhook.test", "failed", "it answered with status 503"]),
        (&["attempts", id], &["next_attempt_at", "webhook.test", "failed", "503"]),
        (&["rotate", id], &["whsec_", id]),
        (&["update", id, "--disable"], &["done"]),
        (&["list", "--all"], &["disabled"]),
        (&["delete", id, "--yes"], &["done"]),
    ] {
        let table = table(arguments).await?;
        for word in shown {
            ensure!(table.contains(word), "{arguments:?}: no {word} in\n{table}");
        }
    }
    let none = table(&["list"]).await?;
    ensure!(!none.contains(id), "{none}");
    server.stop().await;
    Ok(())
}
