//! Crash points of API calls: the process ends before and after the commit of each call, and a
//! repeat of the call completes it.

use anyhow::{Context, Result, ensure};
use http::Method;
use notify_tests::{DatabaseInspector, Resources, Response, RestartableServer};
use serde_json::{Value, json};

use super::table::{Ask, Call, PAGE_ORIGIN, calls, get};
use super::{STAGES, dying, ensure_aborted};
use crate::{CREDIT, launch};

/// The operations that this file tests.
pub(super) fn operations() -> Vec<&'static str> {
    calls().iter().map(|call| call.operation).collect()
}

/// The resources that the calls use.
struct Around {
    resources: Resources,
    app: String,
    secret: String,
    /// A publishable key.
    publishable_key: String,
    /// The path of the poll's page.
    page: String,
}

impl Around {
    async fn make(server: &RestartableServer) -> Result<Self> {
        let resources = Resources::create(&server.caller(), "phone").await?;
        let admin = server.admin();
        let apps = admin.get("/admin/v1/apps").await.ok();
        let app = apps["apps"][0]["id"].as_str().context("an app")?.to_owned();
        let telegram = server.sandbox.telegram_config();
        let path = format!("/admin/v1/apps/{app}/providers/telegram");
        admin.send(&Method::PUT, &path, telegram.to_string()).await?.ok();
        let secret = telegram["webhook_secret"].as_str().context("a secret")?.to_owned();
        let poll = server.caller().get(&format!("/v1/polls/{}", resources.poll)).await.ok();
        let url = poll["url"].as_str().context("a url")?;
        let page = &url[url.find("/polls/").context("a page")?..];
        let keys = format!("/admin/v1/apps/{app}/keys");
        let key = json!({"kind": "publishable"}).to_string();
        let key = admin.send(&Method::POST, &keys, key).await?.ok();
        let publishable_key = key["api_key"].as_str().context("a key")?.to_owned();
        Ok(Self { resources, app, secret, publishable_key, page: page.to_owned() })
    }

    /// Sends a request with its placeholders filled in. Each request has a different `Idempotency-Key`.
    async fn ask(
        &self,
        server: &RestartableServer,
        ask: &Ask,
        n: usize,
        made: &str,
    ) -> Result<Response> {
        let fill = |text: &str| {
            text.replace("\"#{n}\"", &n.to_string())
                .replace("{n}", &n.to_string())
                .replace("{made}", made)
                .replace("{app}", &self.app)
                .replace("{page}", &self.page)
                .replace("{letter}", ["A", "B"][n % 2])
                .replace("{poll}", &self.resources.poll)
                .replace("{answer}", &self.resources.answer)
                .replace("{webhook}", &self.resources.webhook)
                .replace("{notification}", &self.resources.notification)
        };
        let (method, path, body) = ask;
        let path = fill(path);
        let body = match body {
            Value::Null => String::new(),
            Value::String(form) => fill(form),
            json => fill(&json.to_string()),
        };
        let caller = if path.starts_with("/admin") {
            server.admin()
        } else if path.starts_with("/device") {
            server.caller_with(&self.publishable_key)
        } else {
            server.caller()
        };
        let key = format!("{n}-{path}");
        let mut headers = vec![];
        if *method == Method::POST && path.starts_with("/v1") {
            headers.push(("idempotency-key", key.as_str()));
        }
        if path.starts_with("/hooks") {
            headers.push(("x-telegram-bot-api-secret-token", self.secret.as_str()));
        }
        if path.starts_with("/web") {
            headers.push(("origin", PAGE_ORIGIN));
        }
        caller.send_with(method, &path, body, &headers).await
    }

    /// Reads the effect of a call, without fields that change without a call.
    async fn look(
        &self,
        server: &RestartableServer,
        call: &Call,
        n: usize,
        made: &str,
    ) -> Result<String> {
        let Some(path) = call.seen_at else { return Ok(String::new()) };
        let reply = self.ask(server, &get(path), n, made).await?;
        let mut body = reply.json();
        for key in body.get_mut("keys").and_then(Value::as_array_mut).into_iter().flatten() {
            key["last_used_at"] = Value::Null;
        }
        // Feeds are fetched in the background.
        for feed in body.get_mut("feeds").and_then(Value::as_array_mut).into_iter().flatten() {
            for fetched in ["status", "items", "last_fetched_at", "last_error"] {
                feed[fetched] = Value::Null;
            }
        }
        // Messages of events are retried in the background. A test message ends with its response.
        if let Some(attempts) = body.get_mut("attempts").and_then(Value::as_array_mut) {
            attempts.retain(|attempt| attempt["event"] == "webhook.test");
        }
        // The URL of a poll's page has the address of the server.
        body.as_object_mut().context("an object")?.remove("url");
        Ok(format!("{} {body}", reply.status))
    }
}

#[tokio::test]
async fn every_call_is_atomic_when_the_process_ends() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut server = RestartableServer::start(launch(folder.path())).await?;
    let around = Around::make(&server).await?;
    let mut n = 0;
    for call in calls() {
        for (stage, is_done) in STAGES.into_iter().zip([false, true]) {
            n += 1;
            let point = format!("{} {stage}", call.operation);
            crash_at(&mut server, &around, &call, stage, is_done, n)
                .await
                .with_context(|| point)?;
        }
    }
    println!("T1b: {n} points of calls");
    server.stop().await?;
    server.sandbox.stop().await;
    DatabaseInspector::of(folder.path())?;
    Ok(())
}

/// Ends the process at `stage` of the call's operation, starts it again, and repeats the call. `is_done` is
/// whether the commit happened before the end. `n` makes the names of the call unique.
async fn crash_at(
    server: &mut RestartableServer,
    around: &Around,
    call: &Call,
    stage: &str,
    is_done: bool,
    n: usize,
) -> Result<()> {
    let mut made = String::new();
    for prerequisite in &call.before {
        let answer = around.ask(server, prerequisite, n, &made).await?.ok();
        answer["id"].as_str().unwrap_or_default().clone_into(&mut made);
    }
    let effect_before = around.look(server, call, n, &made).await?;

    server.kill(CREDIT).await?;
    let launch_to_crash = dying(server.launch.data_dir(), call.operation, stage, 1);
    server.start_again_as(&launch_to_crash).await?;
    let answered = around.ask(server, &call.ask, n, &made).await;
    ensure!(answered.is_err(), "it is answered though it ends there: {answered:?}");
    ensure_aborted(server.ended(CREDIT).await?)?;

    server.start_again().await?;
    let effect_after = around.look(server, call, n, &made).await?;
    if call.seen_at.is_some() {
        let has_effect = effect_after != effect_before;
        assert_eq!(
            has_effect, is_done,
            "{} {stage}: {effect_before}, {effect_after}",
            call.operation
        );
    }

    let again = around.ask(server, &call.ask, n, &made).await?;
    let expected = if is_done { call.again } else { call.first };
    assert_eq!(again.status, expected, "{} {stage}: {}", call.operation, again.text);
    let has_key = call.ask.0 == Method::POST && call.ask.1.starts_with("/v1") && !call.is_made_anew;
    let replayed = again.header("idempotency-replayed") == "true";
    assert_eq!(replayed, has_key && is_done, "{} {stage}", call.operation);
    Ok(())
}
