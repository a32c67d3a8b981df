//! The points of everything that a caller asks for: the process ends before and after the commit of
//! each call, and the same call again does what it says.

use anyhow::{Context, Result, ensure};
use http::Method;
use notify_tests::{Caller, Reply, Survivor, World, ensure_whole, template, tomorrow};
use serde_json::{Value, json};

use super::{STAGES, dying, ensure_aborted};
use crate::{CREDIT, launch};

/// A request. In its path and body stand `{n}` for a number of its own (`"#{n}"` where it is one in
/// JSON), `{made}` for the id that the
/// request before it was answered with, and the words of [`Around`].
type Ask = (Method, &'static str, Value);

/// A call that writes.
struct Call {
    operation: &'static str,
    /// What has to be there first.
    before: Vec<Ask>,
    ask: Ask,
    /// Where its effect is seen; `None` where nothing of it is.
    seen_at: Option<&'static str>,
    /// Status of the same call again after it was done.
    again: u16,
}

fn call(operation: &'static str, ask: Ask, seen_at: &'static str) -> Call {
    Call { operation, before: Vec::new(), ask, seen_at: Some(seen_at), again: 200 }
}

impl Call {
    fn after(mut self, before: Vec<Ask>) -> Self {
        self.before = before;
        self
    }

    fn again(mut self, status: u16) -> Self {
        self.again = status;
        self
    }

    fn unseen(operation: &'static str, ask: Ask) -> Self {
        Self { operation, before: Vec::new(), ask, seen_at: None, again: 200 }
    }
}

fn post(path: &'static str, body: Value) -> Ask {
    (Method::POST, path, body)
}

fn put(path: &'static str, body: Value) -> Ask {
    (Method::PUT, path, body)
}

fn get(path: &'static str) -> Ask {
    (Method::GET, path, Value::Null)
}

fn delete(path: &'static str) -> Ask {
    (Method::DELETE, path, Value::Null)
}

/// Every call that writes, but those of [`super::starts`].
fn calls() -> Vec<Call> {
    [administration(), templates(), audience(), sending()].into_iter().flatten().collect()
}

fn administration() -> Vec<Call> {
    let app = || vec![post("/admin/v1/apps", json!({"name": "victim-{n}"}))];
    let (one, providers) = ("/admin/v1/apps/{made}", "/admin/v1/apps/{app}/providers/webpush");
    let keys = "/admin/v1/apps/{app}/keys";
    let webpush = || put(providers, json!({"subject": "mailto:{n}@example.com"}));
    vec![
        call("create_app", post("/admin/v1/apps", json!({"name": "app-{n}"})), "/admin/v1/apps"),
        call("change_app", (Method::PATCH, one, json!({"name": "new-{n}"})), one).after(app()),
        call("delete_app", delete(one), one).after(app()).again(404),
        call("add_key", post(keys, json!({})), keys),
        call("revoke_key", delete("/admin/v1/apps/{app}/keys/{made}"), keys)
            .after(vec![post(keys, json!({}))])
            .again(404),
        call("put_provider", webpush(), providers),
        call("delete_provider", delete(providers), providers).after(vec![webpush()]).again(404),
        Call::unseen(
            "release_provider",
            post("/admin/v1/apps/{app}/providers/webpush/resume", json!({})),
        )
        .after(vec![webpush()]),
        Call::unseen("check", get("/readyz")),
        Call::unseen("storage", get("/admin/v1/diagnostics")),
    ]
}

fn templates() -> Vec<Call> {
    let made = || vec![post("/v1/campaigns", template("made-{n}"))];
    let (all, one) = ("/v1/campaigns?status=all", "/v1/campaigns/{made}");
    let feed = || post("/v1/feeds", json!({"url": "https://f-{n}.example/feed", "name": "f"}));
    let disabled = json!({"status": "disabled"});
    vec![
        call("create_campaign", post("/v1/campaigns", template("new-{n}")), all),
        call("replace_campaign", put(one, template("other-{n}")), one).after(made()),
        call("set_campaign_status", put("/v1/campaigns/{made}/status", disabled), one)
            .after(made()),
        call("delete_campaign", delete(one), one).after(made()).again(404),
        call("create_feed", feed(), "/v1/feeds"),
        call("delete_feed", delete("/v1/feeds/{made}"), "/v1/feeds").after(vec![feed()]).again(404),
    ]
}

fn audience() -> Vec<Call> {
    let phone = || {
        let body = json!({"device_id": "d-{n}", "platform": "ios", "sdk_type": "ios_push"});
        post("/v1/devices", body)
    };
    let tag = || {
        let tag = json!({"name": "t", "type": "bool", "value": true});
        post("/v1/devices/d-{n}/tags", json!({"tags": [tag]}))
    };
    let one = "/v1/devices/d-{n}";
    let person = json!({"platform": "fb-messenger", "recipient_id": "24{n}"});
    let chat = json!({"id": "#{n}", "type": "private"});
    let message = json!({"message_id": 1, "date": 1, "text": "/start", "chat": chat,
        "from": {"id": "#{n}", "is_bot": false, "first_name": "A"}});
    vec![
        call("register_device", phone(), one),
        call("subscribe_device", post("/v1/subscriptions", person), "/v1/devices?limit=1000"),
        call("delete_device", delete(one), one).after(vec![phone()]).again(404),
        call("set_tags", tag(), one).after(vec![phone()]),
        call("remove_tag", delete("/v1/devices/d-{n}/tags/t"), one)
            .after(vec![phone(), tag()])
            .again(404),
        call(
            "take_inbound",
            post("/hooks/telegram/{app}", json!({"update_id": 1, "message": message})),
            "/v1/devices?platform=chatapp",
        ),
    ]
}

fn sending() -> Vec<Call> {
    let later =
        || json!({"text": "t", "platforms": ["android"], "send_at": tomorrow(), "tags": ["no"]});
    let event = json!({"type": "opened", "notification_id": "{notification}",
        "device_id": "e-{n}"});
    let phone = json!({"device_id": "e-{n}", "platform": "ios", "sdk_type": "ios_push"});
    let report = json!({"id": "own-{n}", "text": "t", "platforms": ["ios"]});
    vec![
        call("accept_notification", post("/v1/notifications", later()), "/v1/notifications"),
        call("record_report", post("/v1/notifications/notify", report), "/v1/notifications"),
        Call::unseen("keep_preview", post("/v1/notifications/preview", later())),
        call("cancel_notification", delete("/v1/notifications/{made}"), "/v1/notifications/{made}")
            .after(vec![post("/v1/notifications", later())])
            .again(400),
        call(
            "answer_poll",
            post("/v1/polls/{poll}/answers/{answer}", json!({})),
            "/v1/polls/{poll}",
        ),
        call(
            "record_events",
            post("/v1/events", json!({"events": [event]})),
            "/v1/notifications/{notification}",
        )
        .after(vec![post("/v1/devices", phone)]),
    ]
}

/// What is ended here.
pub(super) fn operations() -> Vec<&'static str> {
    calls().iter().map(|call| call.operation).collect()
}

/// What calls are about.
struct Around {
    world: World,
    app: String,
    secret: String,
}

impl Around {
    async fn make(server: &Survivor) -> Result<Self> {
        let world = World::make(&server.caller()?, "phone").await?;
        let admin = Caller::admin(&server.origin.borrow(), &server.admin_key)?;
        let apps = admin.get("/admin/v1/apps").await?;
        let app = apps["apps"][0]["id"].as_str().context("an app")?.to_owned();
        let telegram = server.sandbox.telegram_config();
        let path = format!("/admin/v1/apps/{app}/providers/telegram");
        admin.send(&Method::PUT, &path, telegram.to_string()).await?.ok()?;
        let secret = telegram["webhook_secret"].as_str().context("a secret")?.to_owned();
        Ok(Self { world, app, secret })
    }

    /// Sends a request with its words filled in, each under a key of its own.
    async fn ask(&self, server: &Survivor, ask: &Ask, n: usize, made: &str) -> Result<Reply> {
        let fill = |text: &str| {
            text.replace("\"#{n}\"", &n.to_string())
                .replace("{n}", &n.to_string())
                .replace("{made}", made)
                .replace("{app}", &self.app)
                .replace("{poll}", &self.world.poll)
                .replace("{answer}", &self.world.answer)
                .replace("{notification}", &self.world.notification)
        };
        let (method, path, body) = ask;
        let path = fill(path);
        let body = if body.is_null() { String::new() } else { fill(&body.to_string()) };
        let caller = if path.starts_with("/admin") {
            Caller::admin(&server.origin.borrow(), &server.admin_key)?
        } else {
            server.caller()?
        };
        let key = format!("{n}-{path}");
        let mut headers = vec![];
        if *method == Method::POST && path.starts_with("/v1") {
            headers.push(("idempotency-key", key.as_str()));
        }
        if path.starts_with("/hooks") {
            headers.push(("x-telegram-bot-api-secret-token", self.secret.as_str()));
        }
        caller.send_with(method, &path, body, &headers).await
    }

    /// What is seen of a call, without what changes by itself.
    async fn look(&self, server: &Survivor, call: &Call, n: usize, made: &str) -> Result<String> {
        let Some(path) = call.seen_at else { return Ok(String::new()) };
        let reply = self.ask(server, &get(path), n, made).await?;
        let mut body = reply.json()?;
        for key in body.get_mut("keys").and_then(Value::as_array_mut).into_iter().flatten() {
            key["last_used_at"] = Value::Null;
        }
        // The page of a poll is where the server listens.
        body.as_object_mut().context("an object")?.remove("url");
        Ok(format!("{} {body}", reply.status))
    }
}

#[tokio::test]
async fn a_process_that_ends_in_any_call_has_done_it_whole_or_not_at_all() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut server = Survivor::start(launch(folder.path())).await?;
    let around = Around::make(&server).await?;
    let mut n = 0;
    for call in calls() {
        for (stage, is_done) in STAGES.into_iter().zip([false, true]) {
            n += 1;
            let point = format!("{} {stage}", call.operation);
            end_in(&mut server, &around, (&call, stage, is_done), n)
                .await
                .with_context(|| point)?;
        }
    }
    println!("T1b: {n} points of calls");
    server.stop().await?;
    server.sandbox.stop().await;
    ensure_whole(&folder.path().join("notify.db"))?;
    Ok(())
}

async fn end_in(
    server: &mut Survivor,
    around: &Around,
    (call, stage, is_done): (&Call, &str, bool),
    n: usize,
) -> Result<()> {
    let mut made = String::new();
    for before in &call.before {
        let answer = around.ask(server, before, n, &made).await?.ok()?;
        answer["id"].as_str().unwrap_or_default().clone_into(&mut made);
    }
    let before = around.look(server, call, n, &made).await?;
    server.kill(CREDIT).await?;
    let dying = dying(server.launch.data_dir(), call.operation, stage, 1);
    server.start_again_as(&dying).await?;
    let answered = around.ask(server, &call.ask, n, &made).await;
    ensure!(answered.is_err(), "it is answered though it ends there: {answered:?}");
    ensure_aborted(server.ended(CREDIT).await?)?;
    server.start_again().await?;
    let after = around.look(server, call, n, &made).await?;
    if call.seen_at.is_some() {
        assert_eq!(after != before, is_done, "{} {stage}: {before}, {after}", call.operation);
    }
    let again = around.ask(server, &call.ask, n, &made).await?;
    let expected = if is_done { call.again } else { 200 };
    assert_eq!(again.status, expected, "{} {stage}: {}", call.operation, again.text());
    let has_key = call.ask.0 == Method::POST && call.ask.1.starts_with("/v1");
    let replayed = again.header("idempotency-replayed") == "true";
    assert_eq!(replayed, has_key && is_done, "{} {stage}", call.operation);
    Ok(())
}
