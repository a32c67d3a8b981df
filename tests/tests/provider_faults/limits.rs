//! T17: the largest allowed list of ids, one id more, repeated ids, and unknown ids.

use anyhow::{Context, Result};
use http::Method;
use notify_core::{ListNotifications, NotificationId};
use notify_sandbox::ScriptedResponse;
use notify_tests::{ReceivedByToken, TestServer, android, ios, register};
use serde_json::{Value, json};

/// The most ids of a list.
const IDS_MAX: u64 = 1_000;

fn names(prefix: &str, from: u64, to: u64) -> Vec<String> {
    (from..to).map(|seed| format!("{prefix}{seed}")).collect()
}

/// Sends to these ids. Returns the record and the messages that arrived.
async fn send(
    server: &TestServer,
    ids: &[(&str, Vec<String>)],
) -> Result<(Value, ReceivedByToken)> {
    server.sandbox().clear();
    let mut body = json!({"text": "x"});
    for (field, list) in ids {
        body[field] = json!(list);
    }
    let accepted = server.caller().post("/v1/notifications", &body).await.ok();
    let id: NotificationId = serde_json::from_value(accepted["id"].clone())?;
    let record = server.completed(&id).await?;
    Ok((serde_json::to_value(record.counts)?, ReceivedByToken::of(server.sandbox().received())))
}

#[tokio::test]
async fn a_thousand_ids_are_accepted_once_each_and_one_more_is_rejected() -> Result<()> {
    let server = TestServer::start().await;
    let client = server.client();
    register(&client, (0..=IDS_MAX).map(|seed| android(seed, &ScriptedResponse::ok()))).await?;
    register(&client, (0..IDS_MAX).map(|seed| ios(seed, &ScriptedResponse::ok()))).await?;
    let (a, i) = ("android_device_ids", "ios_device_ids");
    let most = || names("a", 0, IDS_MAX);

    let twice: Vec<_> = (0..IDS_MAX).map(|seed| format!("a{}", seed / 2)).collect();
    let mostly_unknown = [names("missing", 0, IDS_MAX - 1), names("a", 7, 8)].concat();
    let cases = [
        (vec![(a, most())], IDS_MAX, 0),
        (vec![(a, most()), (i, names("i", 0, IDS_MAX))], 2 * IDS_MAX, 0),
        (vec![(a, twice)], IDS_MAX / 2, 0),
        (vec![(a, mostly_unknown)], 1, IDS_MAX - 1),
        // Ids of the other platform are unknown.
        (vec![(a, names("i", 0, IDS_MAX))], 0, IDS_MAX),
    ];
    for (ids, reached, unknown) in cases {
        let (counts, journal) = send(&server, &ids).await?;
        assert_eq!((&counts["sent"], &counts["unknown"]), (&json!(reached), &json!(unknown)));
        assert_eq!(journal.reached() as u64, reached, "{counts}");
        assert!(journal.accepted_and_sent_again().is_empty(), "each once");
    }

    let query = ListNotifications { limit: Some(1_000), ..Default::default() };
    let before = client.notifications().list(&query).await?.notifications.len();
    for (field, list) in [
        (a, names("a", 0, IDS_MAX + 1)),
        (i, names("i", 0, IDS_MAX + 1)),
        // The server checks the limit before it removes repeated ids.
        (a, vec!["a1".to_owned(); 1_001]),
    ] {
        let body = json!({"text": "x", field: list}).to_string();
        let reply = server.caller().send(&Method::POST, "/v1/notifications", body).await?;
        assert_eq!(reply.status, 400, "{}", reply.text);
        let errors = reply.errors().context("errors")?;
        assert!(errors.len() == 1 && errors[0].starts_with(field), "{errors:?}");
    }
    let after = client.notifications().list(&query).await?.notifications.len();
    assert_eq!(after, before, "nothing is stored");
    server.stop().await;
    Ok(())
}
