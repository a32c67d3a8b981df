//! A server process that is killed where it stands (B9, B36): nothing that was accepted is
//! lost, nobody is left out, and what a crash repeats is bounded and recognisable.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use notify_client::Client;
use notify_core::{CreateNotification, NotificationId, PageQuery, Platform};
use notify_server::sandbox::{Answer, Provider, Received, Rule, Sandbox};
use notify_tests::{
    Journal, Launch, ServerProcess, WAIT_MAX, completed, configure_providers, crowd, register,
    start_sandbox, tomorrow,
};

const DEVICES: u64 = 3_000;
/// Most messages that one crash may repeat, as the server is told (`--delivery-credit`).
const CREDIT: usize = 64;
/// How many messages the sandbox has received when the server is killed.
const KILL_AFTER: [usize; 8] = [0, 1, 50, 300, 700, 1_200, 1_900, 2_700];
const BOTH: [Platform; 2] = [Platform::Android, Platform::Ios];

fn launch(data_dir: &Path) -> Launch {
    Launch::on(data_dir).argument("--delivery-credit").argument(&CREDIT.to_string())
}

/// A server process that survives itself: the folder, the keys and the sandbox stay.
struct Survivor {
    launch: Launch,
    sandbox: Sandbox,
    api_key: String,
    admin_key: String,
    running: Option<ServerProcess>,
}

impl Survivor {
    /// Starts a server on an empty folder, with everybody registered.
    async fn start(data_dir: &Path) -> Result<Self> {
        let sandbox = start_sandbox().await?;
        let launch = launch(data_dir);
        let running = launch.start().await?;
        let api_key = running.api_key.clone().context("the first start shows a key")?;
        let admin_key = running.admin_key.clone().context("the first start shows a key")?;
        let survivor = Self { launch, sandbox, api_key, admin_key, running: Some(running) };
        let client = survivor.client()?;
        configure_providers(&client, &survivor.sandbox).await?;
        register(&client, crowd(DEVICES)).await?;
        Ok(survivor)
    }

    fn running(&self) -> Result<&ServerProcess> {
        self.running.as_ref().context("the server runs")
    }

    /// A client that tries once: what fails is not to be repeated behind the test's back.
    fn client(&self) -> Result<Client> {
        let builder = Client::builder(&self.running()?.origin).retries(0);
        Ok(builder.api_key(self.api_key.as_str()).admin_key(self.admin_key.as_str()).build()?)
    }

    async fn kill(&mut self) -> Result<()> {
        self.running.take().context("the server runs")?.kill().await
    }

    async fn start_again(&mut self) -> Result<()> {
        let running = self.launch.start().await?;
        assert_eq!(running.api_key, None, "the keys are made once");
        self.running = Some(running);
        Ok(())
    }
}

/// What a server was told to accept, and what it said: the key and id of every 200 that was seen.
type Accepted = Vec<(String, NotificationId)>;

/// Accepts notifications one after the other until the server is gone.
async fn accept_until_the_end(client: Client, later: CreateNotification, run: usize) -> Accepted {
    let mut accepted = Accepted::new();
    loop {
        let key = format!("run-{run}-{}", accepted.len());
        let notifications = client.notifications().idempotency_key(key.as_str());
        match notifications.create(&later).await {
            Ok(created) => accepted.push((key, created.id)),
            Err(_) => return accepted,
        }
    }
}

/// Checks that a replay of each acceptance answers the same id.
async fn replays_answer_the_same(
    client: &Client,
    later: &CreateNotification,
    accepted: &Accepted,
) -> Result<()> {
    for (key, id) in accepted {
        let replayed = client.notifications().idempotency_key(key.as_str()).create(later).await;
        assert_eq!(&replayed.with_context(|| key.clone())?.id, id, "{key}");
    }
    Ok(())
}

#[tokio::test]
async fn kills_lose_nothing_and_repeat_at_most_what_was_in_flight() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut server = Survivor::start(folder.path()).await?;
    let everybody = CreateNotification::to_platforms(BOTH, "x");
    // Beside it: what is accepted now and due long after the test.
    let later = CreateNotification::to_platforms([Platform::Android], "later").send_at(tomorrow());
    let mut accepted = Accepted::new();
    let mut sent: Option<NotificationId> = None;
    // The number of the last connection that each killed process opened.
    let mut last_connections = Vec::new();

    for (run, after) in KILL_AFTER.into_iter().enumerate() {
        let client = server.client()?;
        let again =
            client.notifications().idempotency_key("everybody").create(&everybody).await?.id;
        assert_eq!(sent.get_or_insert(again.clone()), &again, "the same call, the same id");
        let accepting = tokio::spawn(accept_until_the_end(client, later.clone(), run));
        let received = server.sandbox.wait_for(after, WAIT_MAX).await.len();
        ensure!(received >= after, "{received} of {after} came");
        server.kill().await?;
        last_connections.push(server.sandbox.counts().connections);
        let seen = accepting.await?;
        server.start_again().await?;
        replays_answer_the_same(&server.client()?, &later, &seen).await?;
        accepted.extend(seen);
    }

    let client = server.client()?;
    let id = sent.context("it was sent")?;
    let record = completed(&client, &id).await?;
    assert_eq!((record.counts.targeted, record.counts.sent), (DEVICES, DEVICES), "{record:?}");
    ensure!(accepted.len() > KILL_AFTER.len(), "the kills hit a server that accepts");
    everything_accepted_is_there(&client, &accepted, &id).await?;
    check_what_arrived(server.sandbox.journal(), &id, &last_connections);
    server.kill().await?;
    server.sandbox.stop().await;
    Ok(())
}

/// Every 200 that was seen stands in the listing, once; beside it at most one a run whose answer
/// the kill swallowed.
async fn everything_accepted_is_there(
    client: &Client,
    accepted: &Accepted,
    everybody: &NotificationId,
) -> Result<()> {
    let mut pages = client.notifications().all(&PageQuery { limit: Some(1_000), cursor: None });
    let mut listed = HashSet::new();
    let mut count = 0;
    while let Some(notification) = pages.next().await {
        count += 1;
        listed.insert(notification?.id);
    }
    assert_eq!(listed.len(), count, "no notification is listed twice");
    let lost: Vec<_> = accepted.iter().filter(|(_, id)| !listed.contains(id)).collect();
    assert_eq!(lost, Vec::<&(String, NotificationId)>::new());
    assert!(listed.contains(everybody));
    assert!(count <= accepted.len() + 1 + KILL_AFTER.len(), "{count} of {}", accepted.len());
    Ok(())
}

fn check_what_arrived(journal: Vec<Received>, id: &NotificationId, last_connections: &[u64]) {
    assert!(journal.len() < 10_000, "the journal holds everything");
    let journal = Journal::of(journal);
    assert_eq!(journal.reached() as u64, DEVICES, "0 lost");
    assert_eq!(journal.identities(), HashSet::from([id.to_string()]), "repeats are recognisable");
    // Each repeat is owed to the process whose outcome was not on disk yet: the one that sent the
    // message before it. Of each process at most as many as its credit allows.
    let mut by_process: BTreeMap<usize, usize> = BTreeMap::new();
    for message in journal.repeated() {
        let process = last_connections.partition_point(|last| *last < message.connection);
        *by_process.entry(process).or_default() += 1;
    }
    for (process, repeated) in &by_process {
        assert!(*process < last_connections.len(), "the last process was not killed");
        assert!(*repeated <= CREDIT, "{by_process:?}");
    }
}

#[tokio::test]
async fn a_stop_in_the_middle_of_sending_repeats_nothing() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut server = Survivor::start(folder.path()).await?;
    // Answers take a moment, so that many are in flight whenever it stops.
    for provider in [Provider::Apns, Provider::Fcm] {
        server.sandbox.script(Rule::on(provider, Answer::ok()).delay_ms(30))?;
    }
    let everybody = CreateNotification::to_platforms(BOTH, "x");
    let id = server.client()?.notifications().create(&everybody).await?.id;
    for after in [1, 400, 900] {
        server.sandbox.wait_for(after, WAIT_MAX).await;
        let running = server.running.take().context("the server runs")?;
        let asked = std::time::Instant::now();
        let status = running.terminate().await?;
        assert_eq!(status.code(), Some(0));
        assert!(asked.elapsed() < Duration::from_secs(30), "within the grace");
        server.start_again().await?;
    }
    let record = completed(&server.client()?, &id).await?;
    assert_eq!((record.counts.targeted, record.counts.sent), (DEVICES, DEVICES), "{record:?}");
    let counts = server.sandbox.counts();
    let once = (DEVICES, DEVICES, DEVICES);
    assert_eq!((counts.received, counts.accepted, counts.accepted_tokens), once);
    server.kill().await?;
    server.sandbox.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_second_server_on_the_same_file_is_refused() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let first = ServerProcess::start(folder.path()).await?;
    let (status, said) = launch(folder.path()).ended().await?;
    assert!(!status.success(), "{status}");
    assert_eq!(said.lines().count(), 1, "one line for people: {said}");
    assert!(
        said.contains("in use by another notify-server") && said.contains("notify.db"),
        "{said}"
    );
    let key = first.api_key.clone().context("a key")?;
    let client = Client::builder(&first.origin).api_key(key).build()?;
    client.notifications().list(&PageQuery::default()).await?;
    // With the first one gone the file is free again, also when it was killed.
    first.kill().await?;
    ServerProcess::start(folder.path()).await?.kill().await
}
