//! `notify tail` prints events as lines. It survives a kill of the server, starts from a cursor, and ends on
//! Ctrl-C.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use notify_tests::{Caller, Following, Launch, Notify, RestartableServer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// An address that stays the same while the server behind it changes.
async fn door(origin: watch::Receiver<String>) -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut outside, _)) = listener.accept().await {
            let server = origin.borrow().trim_start_matches("http://").to_owned();
            tokio::spawn(async move {
                let mut inside = TcpStream::connect(server).await?;
                tokio::io::copy_bidirectional(&mut outside, &mut inside).await
            });
        }
    });
    Ok(format!("http://{address}"))
}

/// Creates a poll. Returns the calls that answer it, one for each answer.
async fn poll(caller: &Caller) -> Result<[String; 2]> {
    let body = json!({"platforms": ["ios"], "poll": {"text": "?", "layout_id": "poll_text",
        "answers": [{"text": "a"}, {"text": "b"}]}});
    let id = caller.post("/v1/notifications", &body).await.ok()["id"].clone();
    let id = id.as_str().context("an id")?;
    let read = caller.get(&format!("/v1/polls/{id}")).await.ok();
    let call = |place: usize| {
        let answer = read["answers"][place]["id"].as_str().context("an id")?;
        anyhow::Ok(format!("/v1/polls/{id}/answers/{answer}"))
    };
    Ok([call(0)?, call(1)?])
}

/// Posts `call` again and again until `notify tail` prints a line, and returns the line. Without `--since`,
/// `tail` prints only events after it has connected, so a single earlier event could be missed.
async fn first_line_while_posting(
    tail: &mut Following,
    caller: &Caller,
    call: &str,
) -> Result<String> {
    let mut line = std::pin::pin!(tail.line());
    let mut ticks = tokio::time::interval(Duration::from_millis(200));
    loop {
        tokio::select! {
            line = &mut line => return line?.context("it goes on"),
            _ = ticks.tick() => {
                caller.post(call, &json!({})).await.ok();
            }
        }
    }
}

/// Returns the cursor of the next line about an answer and skips all other lines.
async fn next_about(tail: &mut Following, call: &str) -> Result<String> {
    loop {
        let line = tail.line().await?.context("it goes on")?;
        let shown: Value = serde_json::from_str(&line)?;
        ensure!(shown["type"] == "poll.answered" && shown["timestamp"].is_string(), "{line}");
        ensure!(shown["data"]["device_id"].is_null(), "{line}");
        if call.ends_with(shown["data"]["answer_id"].as_str().context("an id")?) {
            return Ok(shown["cursor"].as_str().context("a cursor")?.to_owned());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tail_prints_events_and_resumes_where_it_ended() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut server = RestartableServer::start(Launch::on(folder.path())).await?;
    let origin = door(server.origin.subscribe()).await?;
    let notify = Notify::new(&origin, &server.api_key, &server.admin_key)?;
    let caller = server.caller();
    let [first, second] = poll(&caller).await?;
    let tail = ["tail", "--json", "--type", "poll.answered"];
    let mut following = notify.follow(&tail)?;
    first_line_while_posting(&mut following, &caller, &first).await?;
    let mut cursors = Vec::new();
    for _ in 0..3 {
        caller.post(&second, &json!({})).await.ok();
        cursors.push(next_about(&mut following, &second).await?);
    }

    // The command reconnects without help. Events during the disconnection are not lost, and no event is
    // printed twice.
    server.kill(0).await?;
    server.start_again().await?;
    let caller = server.caller();
    for _ in 0..2 {
        caller.post(&second, &json!({})).await.ok();
    }
    for _ in 0..2 {
        cursors.push(next_about(&mut following, &second).await?);
    }
    assert_eq!(cursors.iter().collect::<BTreeSet<_>>().len(), 5, "{cursors:?}");
    assert_eq!(following.interrupt().await?, Some(0), "Ctrl-C is its regular end");

    // Another command continues after a cursor of the earlier server.
    let mut again = notify.follow(&[&tail[..], &["--since", &cursors[0]]].concat())?;
    for cursor in &cursors[1..] {
        assert_eq!(next_about(&mut again, &second).await?, *cursor);
    }
    assert_eq!(again.interrupt().await?, Some(0));

    // In the text format, each event is one line with the cursor at the end.
    let mut plain = notify.follow(&["tail", "--since", &cursors[3]])?;
    let line = plain.line().await?.context("a line")?;
    let words: Vec<_> = line.split("  ").collect();
    ensure!(words[1] == "poll.answered" && words.last() == Some(&&*cursors[4]), "{line}");
    assert_eq!(plain.interrupt().await?, Some(0));
    server.stop().await?;
    server.sandbox.stop().await;
    Ok(())
}

#[tokio::test]
async fn tail_exits_with_the_status_of_its_error() -> Result<()> {
    let server = notify_tests::TestServer::start().await;
    let notify = Notify::new(server.origin(), server.api_key(), server.admin_key())?;
    let unauthorized = notify.clone().with("NOTIFY_API_KEY", "nk_unknown");
    for (notify, arguments, status) in
        [(&notify, &["tail", "--type", "nonsense"][..], 2), (&unauthorized, &["tail"], 4)]
    {
        let output = notify.run(arguments).await?;
        assert_eq!(output.status, Some(status), "{arguments:?}: {output:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{output:?}");
    }
    server.stop().await;
    Ok(())
}
