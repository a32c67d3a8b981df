//! Sends a poll, answers it from three devices, and reads the results.

use anyhow::ensure;
use notify_client::Client;
use notify_client::notify_core::{
    AnswerPoll, CreateNotification, CreatePoll, Platform, RegisterDevice,
};
use notify_tests::{TestServer, WAIT_MAX};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let server = TestServer::start().await;
    let notify = Client::builder(server.origin()).api_key(server.api_key()).build()?;
    for name in ["ada", "bob", "cyd"] {
        let device = RegisterDevice::android(name, format!("fcm-token-of-{name}"));
        notify.devices().register(&device).await?;
    }

    let poll = CreatePoll::text("Where do we meet?", ["at the harbour", "in the park"]);
    let notification = CreateNotification::poll([Platform::Android], poll);
    // A poll has the id of its notification.
    let id = notify.notifications().create(&notification).await?.id;
    let arrived = server.sandbox().wait_for(3, WAIT_MAX).await;
    println!("the poll went to {} phones", arrived.len());
    ensure!(arrived.len() == 3);

    let poll = notify.polls().get(&id).await?;
    let (harbour, park) = (poll.answers[0].id, poll.answers[1].id);
    // Bob taps twice, but a device has only one vote.
    for (name, answer) in [("ada", park), ("bob", harbour), ("bob", park), ("cyd", park)] {
        let by = AnswerPoll { device_id: Some(name.into()) };
        notify.polls().answer(&id, answer, &by).await?;
    }

    let results = notify.polls().get(&id).await?;
    println!("{} ({})", results.text, results.url);
    for answer in &results.answers {
        println!("  {:14} {} clicks, {} %", answer.text, answer.clicks, answer.percentage);
    }
    let clicks: Vec<u64> = results.answers.iter().map(|answer| answer.clicks).collect();
    ensure!(clicks == [1, 2]);
    ensure!(results.answers[1].percentage == 66.67);
    server.stop().await;
    Ok(())
}
