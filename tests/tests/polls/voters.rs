//! Many concurrent voters, with repeats, while the server is killed. Each voter counts once, for the first
//! answer, and the counts match the rows.
//!
//! `NOTIFY_POLL_VOTES=100000` sets the number of voters.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use notify_tests::{DatabaseInspector, Launch, RestartableServer};
use serde_json::json;
use tokio::sync::watch;

/// The default number of voters.
const VOTES: u64 = 3_000;
/// The number of concurrent voters.
const AT_ONCE: u64 = 64;
/// The number of kills.
const KILLS: u64 = 3;
/// One of this many voters votes twice at once, as with a double click.
const TWICE_ONE_IN: u64 = 5;
/// One of this many voters also sends an answer of another poll.
const FOREIGN_ONE_IN: u64 = 10;
const ANSWERS: usize = 3;

/// A poll as a voter knows it.
struct Page {
    path: String,
    answers: Vec<String>,
    foreign: String,
}

impl Page {
    async fn make(server: &RestartableServer) -> Result<(String, Self)> {
        let caller = server.caller();
        let answers = ["a", "b", "c"].map(|text| json!({"text": text}));
        let mut made = Vec::new();
        for text in ["which?", "another?"] {
            let poll = json!({"text": text, "layout_id": "poll_text", "answers": answers});
            let body = json!({"platforms": ["android"], "poll": poll});
            let answer = caller.post("/v1/notifications", &body).await.ok();
            let id = answer["id"].as_str().context("an id")?.to_owned();
            made.push((id.clone(), caller.get(&format!("/v1/polls/{id}")).await.ok()));
        }
        let (id, poll) = &made[0];
        let url = poll["url"].as_str().context("a url")?;
        let ids = |poll: &serde_json::Value| -> Vec<String> {
            let answers = poll["answers"].as_array().into_iter().flatten();
            answers.filter_map(|answer| answer["id"].as_str().map(str::to_owned)).collect()
        };
        let page = Self {
            path: format!("{}/votes", &url[url.find("/polls/").context("a page")?..]),
            answers: ids(poll),
            foreign: ids(&made[1].1).swap_remove(0),
        };
        Ok((id.clone(), page))
    }

    fn answer_of(&self, voter: u64) -> usize {
        usize::try_from(voter % 7).unwrap_or_default() % self.answers.len()
    }
}

/// The browser of a voter.
fn visitor(voter: u64) -> String {
    let mut id = [3; 16];
    id[..8].copy_from_slice(&voter.to_be_bytes());
    URL_SAFE_NO_PAD.encode(id)
}

/// Sends a form until it gets a response, as a person does who sees an error.
async fn send(
    http: &reqwest::Client,
    origin: &mut watch::Receiver<String>,
    path: &str,
    form: &str,
) -> Result<u16> {
    loop {
        let to = format!("{}{path}", *origin.borrow_and_update());
        match http.post(to).body(form.to_owned()).send().await {
            Ok(answer) if answer.status() != 503 => return Ok(answer.status().as_u16()),
            // The server was killed or is starting. The next server publishes its address.
            Ok(_) | Err(_) => {
                let moved = tokio::time::timeout(notify_tests::WAIT_MAX, origin.changed());
                moved.await.context("the server comes back")??;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_voter_is_counted_once_despite_repeats_and_kills() -> Result<()> {
    let votes = std::env::var("NOTIFY_POLL_VOTES").ok().and_then(|votes| votes.parse().ok());
    let votes: u64 = votes.unwrap_or(VOTES);
    let folder = tempfile::tempdir()?;
    let launch = Launch::on(folder.path()).argument("--poll-votes-per-minute").argument("0");
    let mut server = RestartableServer::start(launch).await?;
    let (poll, page) = Page::make(&server).await?;
    let page = Arc::new(page);
    let next = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let mut voters = Vec::new();
    for _ in 0..AT_ONCE {
        let (page, next, mut origin) = (page.clone(), next.clone(), server.origin.subscribe());
        voters.push(tokio::spawn(async move {
            let http = notify_tests::http_client()
                .timeout(notify_tests::WAIT_MAX)
                .redirect(reqwest::redirect::Policy::none())
                .build()?;
            loop {
                let voter = next.fetch_add(1, Ordering::Relaxed);
                if voter >= votes {
                    return anyhow::Ok(());
                }
                vote(&http, &mut origin, &page, voter).await?;
            }
        }));
    }
    for kill in 1..=KILLS {
        let at = votes * kill / (KILLS + 1);
        // The wait ends when no further votes arrive, whatever their number.
        loop {
            let seen = next.load(Ordering::Relaxed);
            if seen >= at {
                break;
            }
            notify_tests::until("votes come in", async || {
                Ok((next.load(Ordering::Relaxed) > seen).then_some(()))
            })
            .await?;
        }
        server.kill(0).await?;
        server.start_again().await?;
    }
    for voter in voters {
        voter.await??;
    }
    let took = started.elapsed();
    judge(&server, &poll, &page, votes).await?;
    server.stop().await?;
    server.sandbox.stop().await;
    rows_are_the_counts(folder.path())?;
    let per_second = votes as f64 / took.as_secs_f64();
    println!("S15: {votes} voters, {KILLS} kills, {per_second:.0} votes/s, counts exact");
    Ok(())
}

/// Does everything that a voter does. Some voters send a form twice at once, some send an answer of another
/// poll, and one in three votes again later for another answer.
async fn vote(
    http: &reqwest::Client,
    origin: &mut watch::Receiver<String>,
    page: &Page,
    voter: u64,
) -> Result<()> {
    let visitor = visitor(voter);
    let form_of = |answer: &str| format!("visitor={visitor}&answer={answer}");
    if voter.is_multiple_of(FOREIGN_ONE_IN) {
        let status = send(http, origin, &page.path, &form_of(&page.foreign)).await?;
        ensure!(status == 400, "another poll's answer: {status}");
    }
    let own = form_of(&page.answers[page.answer_of(voter)]);
    let statuses = if voter.is_multiple_of(TWICE_ONE_IN) {
        let mut second_origin = origin.clone();
        let (first, second) = tokio::join!(
            send(http, origin, &page.path, &own),
            send(http, &mut second_origin, &page.path, &own),
        );
        vec![first?, second?]
    } else {
        vec![send(http, origin, &page.path, &own).await?]
    };
    ensure!(statuses.iter().all(|status| *status == 303), "{statuses:?}");
    if voter.is_multiple_of(3) {
        let other = &page.answers[(page.answer_of(voter) + 1) % page.answers.len()];
        let status = send(http, origin, &page.path, &form_of(other)).await?;
        ensure!(status == 303, "{status}");
    }
    Ok(())
}

async fn judge(server: &RestartableServer, poll: &str, page: &Page, votes: u64) -> Result<()> {
    let mut expected = [0_u64; ANSWERS];
    for voter in 0..votes {
        expected[page.answer_of(voter)] += 1;
    }
    let read = server.caller().get(&format!("/v1/polls/{poll}")).await.ok();
    let answers = read["answers"].as_array().context("answers")?;
    let clicks: Vec<_> = answers.iter().filter_map(|answer| answer["clicks"].as_u64()).collect();
    ensure!(clicks == expected, "{clicks:?}, expected {expected:?}");
    Ok(())
}

/// Checks in all polls that the count of each answer equals the number of stored votes.
fn rows_are_the_counts(data_dir: &std::path::Path) -> Result<()> {
    let differing = DatabaseInspector::of(data_dir)?.number(
        "select count(*) from poll_answers a where a.clicks <> (select count(*) from poll_visitors v
         where v.notification_no = a.notification_no and v.place = a.place)",
    )?;
    ensure!(differing == 0, "{differing} answers count something else than their rows");
    Ok(())
}
