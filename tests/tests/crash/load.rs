//! Applications that send to all five platforms continuously while faults happen to the server.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use notify_client::Client;
use notify_core::{
    CreateNotification, ListNotifications, NotificationStatus, PER_MINUTE_MAX, Platform,
};
use notify_sandbox::{Fault, Provider, Rule, ScriptedResponse};
use notify_tests::{
    AudienceSize, DatabaseInspector, History, LoggedRequest, LoggedResponse, NotificationReport,
    RequestLog, RestartableServer, Tenant, Verdict, until,
};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::{ALL, CROWD};

/// The time between two notifications of one application.
const ASK_EVERY: Duration = Duration::from_millis(250);
/// One of this many notifications also goes to the chat app, where a chat accepts only one message a second.
const CHATS_ONE_IN: u32 = 6;
/// The suffix of the name of an audience that includes the chat app.
const AND_CHATS: &str = " and chats";
const BUT_CHATS: [Platform; 4] =
    [Platform::Android, Platform::Ios, Platform::Web, Platform::FbMessenger];
/// The number of messages of each provider that get an error.
const ERRORS: usize = 40;
/// The number of messages over which the errors are spread, for two errors in a hundred messages.
const ERRORS_AMONG: u32 = 2_000;
/// The prefix of the keys of notifications with a rate, and the operation that grants their attempts.
pub(crate) const GRANTS: &str = "grant_attempts";
/// The number of notifications that one request lists.
const LISTED: u32 = 100;

/// Applications with their people, and the log of their requests.
pub(crate) struct Load {
    pub(crate) tenants: Vec<Tenant>,
    pub(crate) request_log: Arc<RequestLog>,
    stop: watch::Sender<bool>,
    asking: JoinSet<Result<()>>,
}

impl Load {
    /// Creates `tenants` applications. No notification is sent yet.
    pub(crate) async fn prepare(
        server: &RestartableServer,
        tenants: u64,
        request_log: &Path,
    ) -> Result<Self> {
        Self::prepare_with(server, tenants, request_log, CROWD).await
    }

    /// Like [`Self::prepare`], with this number of people in each application.
    pub(crate) async fn prepare_with(
        server: &RestartableServer,
        tenants: u64,
        request_log: &Path,
        crowd: AudienceSize,
    ) -> Result<Self> {
        let mut made = Vec::new();
        for number in 1..=tenants {
            let client_of = |key: &str| server.preparing_client_of(key);
            made.push(Tenant::make(client_of, &server.sandbox, number, crowd).await?);
        }
        let request_log = Arc::new(RequestLog::open(request_log)?);
        let stop = watch::Sender::new(false);
        Ok(Self { tenants: made, request_log, stop, asking: JoinSet::new() })
    }

    /// Makes every application send until the load is stopped. Each has a different random seed.
    pub(crate) fn begin(&mut self, server: &RestartableServer, rng: &mut Rng) {
        for (number, tenant) in self.tenants.iter().enumerate() {
            let asking = Asking {
                name: format!("tenant-{number}"),
                api_key: tenant.api_key.clone(),
                origin: server.origin.subscribe(),
                stop: self.stop.subscribe(),
                request_log: Arc::clone(&self.request_log),
                rng: rng.fork(),
            };
            self.asking.spawn(asking.run());
        }
    }

    /// Makes the first application send one notification to all its devices, with any result.
    pub(crate) async fn ask_once(
        &self,
        server: &RestartableServer,
        key: &str,
    ) -> Result<LoggedResponse> {
        let client = server.client_of(&self.tenants[0].api_key)?;
        self.ask_of(&client, key, format!("tenant-0{AND_CHATS}"), &ALL).await
    }

    /// Sends over a client of the first application to all its devices, except those in the chat app, which
    /// would fall behind.
    pub(crate) async fn ask_over(&self, client: &Client, key: &str) -> Result<LoggedResponse> {
        self.ask_of(client, key, "tenant-0".to_owned(), &BUT_CHATS).await
    }

    async fn ask_of(
        &self,
        client: &Client,
        key: &str,
        audience: String,
        platforms: &[Platform],
    ) -> Result<LoggedResponse> {
        self.request_log.log_request(&LoggedRequest { key: key.to_owned(), audience })?;
        let mut notification = CreateNotification::to_platforms(platforms.iter().copied(), key);
        // Attempts are granted only to notifications with a rate.
        if key.starts_with(GRANTS) {
            notification = notification.per_minute(PER_MINUTE_MAX);
        }
        let answer = client.notifications().idempotency_key(key).create(&notification).await;
        let response = LoggedResponse::of(&answer);
        self.request_log.log_response(key, response.clone())?;
        Ok(response)
    }

    /// Lets the load continue for this time. Fails when a caller has ended.
    pub(crate) async fn go_on(&mut self, time: Duration) -> Result<()> {
        match tokio::time::timeout(time, self.asking.join_next()).await {
            Err(_) => Ok(()),
            Ok(None) => anyhow::bail!("no application sends"),
            Ok(Some(ended)) => ended?.context("an application stopped asking"),
        }
    }

    /// Ends the load. Returns when every caller has its last response.
    pub(crate) async fn end(&mut self) -> Result<()> {
        self.stop.send_replace(true);
        while let Some(ended) = self.asking.join_next().await {
            ended??;
        }
        Ok(())
    }

    /// Waits until all accepted notifications have completed. The limit of a minute is the figure of T1.
    pub(crate) async fn drain(&self, server: &RestartableServer) -> Result<()> {
        for tenant in &self.tenants {
            drained(&server.client_of(&tenant.api_key)?).await?;
        }
        Ok(())
    }

    /// Checks the completed notifications while the server runs.
    pub(crate) async fn judge(&self, server: &RestartableServer) -> Result<Verdict> {
        let mut history = History {
            requests: self.request_log.entries()?,
            audiences: BTreeMap::new(),
            arrivals: Vec::new(),
            reports: Vec::new(),
            ended: server.ended.clone(),
        };
        for (number, tenant) in self.tenants.iter().enumerate() {
            let client = server.client_of(&tenant.api_key)?;
            history.reports.append(&mut NotificationReport::of(&client).await?);
            let everybody = [tenant.members.clone(), tenant.chats.clone()].concat();
            history.audiences.insert(format!("tenant-{number}"), tenant.members.clone());
            history.audiences.insert(format!("tenant-{number}{AND_CHATS}"), everybody);
        }
        history.arrivals = server.arrivals()?;
        ensure!(!history.reports.is_empty(), "something was accepted");
        Ok(history.check())
    }
}

/// Waits until every notification of an application has completed.
async fn drained(client: &Client) -> Result<()> {
    let query = ListNotifications { limit: Some(LISTED), ..Default::default() };
    until("everything has completed", async || {
        let mut all = client.notifications().all(&query);
        while let Some(one) = all.next().await {
            if one?.status != NotificationStatus::Completed {
                return Ok(None);
            }
        }
        Ok(Some(()))
    })
    .await
}

/// Stops the server cleanly, and checks that its database is intact and has no unfinished work.
pub(crate) async fn settle(mut server: RestartableServer, data_dir: &Path) -> Result<()> {
    server.stop().await?;
    server.sandbox.stop().await;
    DatabaseInspector::of(data_dir)?.ensure_settled()
}

/// The caller of one application.
struct Asking {
    name: String,
    api_key: String,
    origin: watch::Receiver<String>,
    stop: watch::Receiver<bool>,
    request_log: Arc<RequestLog>,
    rng: Rng,
}

impl Asking {
    async fn run(mut self) -> Result<()> {
        let mut ticks = tokio::time::interval(ASK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut client = self.client()?;
        for number in 0_u32.. {
            tokio::select! {
                _ = ticks.tick() => {}
                _ = self.stop.wait_for(|stop| *stop) => return Ok(()),
            }
            let with_chats = number % CHATS_ONE_IN == 0;
            let asked = LoggedRequest {
                key: format!("{}-{number}", self.name),
                audience: format!("{}{}", self.name, if with_chats { AND_CHATS } else { "" }),
            };
            let platforms = if with_chats { &ALL[..] } else { &BUT_CHATS[..] };
            self.request_log.log_request(&asked)?;
            // Half of the callers repeat the request, as a client with retries does. The others give up.
            let asks_on = self.rng.bool();
            loop {
                if self.origin.has_changed()? {
                    client = self.client()?;
                }
                let response = self.ask(&client, &asked.key, platforms).await?;
                if !matches!(response, LoggedResponse::Unknown(_)) || !asks_on {
                    break;
                }
                tokio::select! {
                    changed = self.origin.changed() => changed?,
                    _ = self.stop.wait_for(|stop| *stop) => return Ok(()),
                }
                client = self.client()?;
            }
        }
        Ok(())
    }

    async fn ask(
        &self,
        client: &Client,
        key: &str,
        platforms: &[Platform],
    ) -> Result<LoggedResponse> {
        let notification = CreateNotification::to_platforms(platforms.iter().copied(), key);
        let answer = client.notifications().idempotency_key(key).create(&notification).await;
        let response = LoggedResponse::of(&answer);
        self.request_log.log_response(key, response.clone())?;
        Ok(response)
    }

    fn client(&mut self) -> Result<Client> {
        let origin = self.origin.borrow_and_update();
        Ok(Client::builder(&origin).api_key(self.api_key.as_str()).retries(0).build()?)
    }
}

/// Makes every provider respond with an error to two in a hundred messages. All errors are transient, so in
/// the end every reachable device gets its messages.
pub(crate) fn script_errors(server: &RestartableServer, rng: &mut Rng) -> Result<()> {
    let passing = [
        ScriptedResponse::status(500),
        ScriptedResponse::status(503),
        ScriptedResponse::status(429).retry_after(1),
        ScriptedResponse::fault(Fault::Reset),
        ScriptedResponse::fault(Fault::Refuse),
    ];
    for provider in
        [Provider::Apns, Provider::Fcm, Provider::WebPush, Provider::Messenger, Provider::Telegram]
    {
        // A chat cannot recognise a repeat, so a message that may have been accepted is tried only once more.
        // Another row of the table covers this case.
        let is_chat = matches!(provider, Provider::Messenger | Provider::Telegram);
        let kinds = if is_chat { 3 } else { passing.len() };
        for _ in 0..ERRORS {
            let answer = passing[rng.usize(..kinds)].clone().first(1);
            let rule = Rule::on(provider, answer).after(rng.u32(..ERRORS_AMONG));
            server.sandbox.add_rule(rule)?;
        }
    }
    Ok(())
}
