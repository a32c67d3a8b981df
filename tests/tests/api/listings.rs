//! A listing takes the same number of statements for many rows as for one: on PostgreSQL, each
//! statement is a round trip. The listings are read from the OpenAPI document, so none is left out.

use notify_core::ProviderKind;
use notify_sandbox::{Sandbox, SandboxConfig};
use notify_server::store::WEBHOOKS_MAX;
use notify_tests::{Caller, Operator, TestServer, empty_database};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::PATIENCE;
use crate::fixtures::{android, on_database, template, to_android};

/// Rows of a page, where there can be as many.
const MANY: usize = 20;
/// How often a listing is requested: what the server reads in the background is not in each count.
const ASKED: usize = 10;

#[tokio::test]
async fn listings_take_a_constant_number_of_statements_on_sqlite() {
    check(TestServer::without_providers_on_sqlite().await).await;
}

#[tokio::test]
async fn listings_take_a_constant_number_of_statements_on_postgresql() {
    let database = empty_database();
    check(TestServer::without_providers_with(on_database(&database)).await).await;
}

async fn check(server: TestServer) {
    let document = server.anonymous().get("/openapi.json").await.ok();
    let listings = listings(&document);
    assert!(listings.len() >= 11, "{listings:?}");
    for listing in &listings {
        let mut owner = Owner::new(&server).await;
        let mut counts = Vec::new();
        for rows in [1, most(listing)] {
            let (caller, path) = owner.fill(listing, rows).await;
            let path = format!("{path}?limit={MANY}");
            let path = if is_paged(&document, listing) {
                path
            } else {
                path.split('?').next().unwrap().to_owned()
            };
            counts.push(statements(&server, &caller, &path).await);
        }
        assert_eq!(counts[0], counts[1], "{listing}");
    }
}

/// The templates of every route that answers a list.
fn listings(document: &Value) -> Vec<String> {
    let paths = document["paths"].as_object().unwrap();
    let is_listing = |path: &&String| {
        let schema = &paths[*path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
            ["$ref"];
        schema.as_str().is_some_and(|name| name.ends_with("List")) || is_paged(document, path)
    };
    paths.keys().filter(is_listing).cloned().collect()
}

fn is_paged(document: &Value, path: &str) -> bool {
    let parameters = document["paths"][path]["get"]["parameters"].as_array();
    parameters.into_iter().flatten().any(|parameter| parameter["name"] == "limit")
}

/// How many rows a listing can have, at most [`MANY`].
fn most(listing: &str) -> usize {
    match listing {
        "/v1/webhooks" => MANY.min(usize::try_from(WEBHOOKS_MAX).unwrap()),
        "/admin/v1/apps/{id}/providers" => ProviderKind::ALL.len(),
        _ => MANY,
    }
}

/// The statements that a listing takes.
async fn statements(server: &TestServer, caller: &Caller, path: &str) -> u64 {
    let mut least = u64::MAX;
    for _ in 0..ASKED {
        let before = server.store().statements_read();
        caller.get(path).await.ok();
        least = least.min(server.store().statements_read() - before);
    }
    least
}

/// An application whose listings are filled.
struct Owner<'s> {
    server: &'s TestServer,
    app: String,
    caller: Caller,
    /// Rows made so far.
    made: usize,
    /// What the rows hang on, where that is made with the first.
    of: Option<String>,
}

impl<'s> Owner<'s> {
    async fn new(server: &'s TestServer) -> Self {
        let (app, caller) = server.create_app("other").await;
        Self { server, app, caller, made: 0, of: None }
    }

    /// Makes rows until there are that many; who asks for them, and where.
    async fn fill(&mut self, listing: &str, rows: usize) -> (Caller, String) {
        let there = self.made;
        self.made = rows;
        match listing {
            "/v1/notifications" => {
                self.logged_in(0, "u").await;
                for _ in there..rows {
                    let body = json!({"text": "t", "user_ids": ["u"]});
                    self.caller.post("/v1/notifications", &body).await.ok();
                }
                let is_done = |row: &Value| row["status"] == "completed";
                self.wait_for(listing, "notifications", rows, &is_done).await;
            }
            "/v1/devices" => {
                for number in there..rows {
                    self.device(number).await;
                }
            }
            "/v1/notifications/{id}/deliveries" => {
                for number in there..rows {
                    self.device(number).await;
                }
                let id = self.caller.post("/v1/notifications", &to_android()).await.id();
                let path = format!("/v1/notifications/{id}/deliveries");
                let is_done = |row: &Value| row["outcome"] != "pending";
                self.wait_for(&path, "deliveries", rows, &is_done).await;
                return (self.caller.clone(), path);
            }
            "/v1/notifications/{id}/users" | "/v1/users" | "/v1/segments" => {
                return self.fill_for_audiences(listing, there, rows).await;
            }
            "/v1/tags" => {
                self.caller.post("/v1/devices", &android("d")).await.ok();
                let tag =
                    |number| json!({"name": format!("t{number}"), "type": "bool", "value": true});
                let tags = json!({"tags": (there..rows).map(tag).collect::<Vec<_>>()});
                self.caller.post("/v1/devices/d/tags", &tags).await.ok();
            }
            "/v1/campaigns" => {
                for number in there..rows {
                    let template = template(&format!("c{number}"));
                    self.caller.post("/v1/campaigns", &template).await.ok();
                }
            }
            "/v1/feeds" => {
                for number in there..rows {
                    let url = format!("https://feed-{number}.example/feed");
                    let feed = json!({"url": url, "name": "feed"});
                    self.caller.post("/v1/feeds", &feed).await.ok();
                }
            }
            "/v1/webhooks" => {
                for _ in there..rows {
                    self.webhook().await;
                }
            }
            "/v1/webhooks/{id}/attempts" => {
                let path = self.attempts(there, rows).await;
                self.wait_for(&path, "attempts", rows, &|_| true).await;
                return (self.caller.clone(), path);
            }
            _ => return self.fill_for_administrators(listing, there, rows).await,
        }
        (self.caller.clone(), listing.to_owned())
    }

    async fn fill_for_audiences(
        &self,
        listing: &str,
        there: usize,
        rows: usize,
    ) -> (Caller, String) {
        if listing == "/v1/segments" {
            for number in there..rows {
                let body = json!({"audience": {"tag": "vip"}});
                self.caller.put(&format!("/v1/segments/s{number}"), &body).await.ok();
            }
            return (self.caller.clone(), listing.to_owned());
        }
        for number in there..rows {
            self.logged_in(number, &format!("u{number}")).await;
        }
        if listing == "/v1/users" {
            return (self.caller.clone(), listing.to_owned());
        }
        let ids: Vec<_> = (0..rows).map(|number| format!("u{number}")).collect();
        let body = json!({"text": "t", "user_ids": ids});
        let id = self.caller.post("/v1/notifications", &body).await.id();
        let path = format!("/v1/notifications/{id}/users");
        let is_done = |row: &Value| row["state"] == "unreached";
        self.wait_for(&path, "users", rows, &is_done).await;
        (self.caller.clone(), path)
    }

    async fn fill_for_administrators(
        &self,
        listing: &str,
        there: usize,
        rows: usize,
    ) -> (Caller, String) {
        let (admin, path) = (self.server.admin(), listing.replace("{id}", &self.app));
        match listing {
            "/admin/v1/apps" => {
                for number in there..rows {
                    let name = json!({"name": format!("app {number}")});
                    admin.post("/admin/v1/apps", &name).await.ok();
                }
            }
            "/admin/v1/apps/{id}/keys" => {
                // One is there from the beginning.
                for _ in there.max(1)..rows {
                    admin.post(&path, &json!({})).await.ok();
                }
            }
            "/admin/v1/apps/{id}/providers" => {
                for kind in &ProviderKind::ALL[there..rows] {
                    let config = config_of(*kind).await;
                    admin.put(&format!("{path}/{kind}"), &config).await.ok();
                }
            }
            "/admin/v1/audit" => {
                for number in there..rows {
                    let name = json!({"name": format!("app {number}")});
                    admin.patch(&format!("/admin/v1/apps/{}", self.app), &name).await.ok();
                }
            }
            "/admin/v1/keys" => {
                for _ in there.max(1)..rows {
                    admin.post(&path, &json!({})).await.ok();
                }
            }
            "/admin/v1/sessions" => {
                let (origin, key) = (self.server.origin(), self.server.admin_key());
                for _ in there..rows {
                    Operator::sign_in(origin, key).await.unwrap();
                }
            }
            "/admin/v1/playground/messages" => {
                let app = admin.post_bytes("/admin/v1/playground", "").await.ok()["app_id"].clone();
                let app = app.as_str().unwrap();
                // Each check of the credentials is a message.
                for _ in there..rows {
                    let path = format!("/admin/v1/apps/{app}/providers/fcm/test");
                    assert_eq!(admin.post_bytes(&path, "").await.ok()["ok"], true);
                }
            }
            other => panic!("{other}: a listing that this test knows no rows of"),
        }
        (admin, path)
    }

    async fn device(&self, number: usize) {
        let id = format!("d{number}");
        self.caller.post("/v1/devices", &android(&id)).await.ok();
        let tags = json!({"tags": [{"name": "vip", "type": "bool", "value": true}]});
        self.caller.post(&format!("/v1/devices/{id}/tags"), &tags).await.ok();
    }

    async fn logged_in(&self, number: usize, user: &str) {
        self.device(number).await;
        let path = format!("/v1/devices/d{number}/user");
        self.caller.put(&path, &json!({"user_id": user})).await.ok();
    }

    async fn webhook(&self) -> String {
        let hook = json!({"url": "https://hook.example/x", "events": ["poll.answered"]});
        self.caller.post("/v1/webhooks", &hook).await.id()
    }

    /// A device's answer to a poll is an event, and an event a message to the webhook.
    async fn attempts(&mut self, there: usize, rows: usize) -> String {
        if self.of.is_none() {
            self.of = Some(self.webhook().await);
        }
        let poll = json!({"platforms": ["android"], "poll": {"text": "?", "layout_id": "poll_text",
            "answers": [{"text": "a"}, {"text": "b"}]}});
        let poll = self.caller.post("/v1/notifications", &poll).await.id();
        let read = self.caller.get(&format!("/v1/polls/{poll}")).await.ok();
        let answer = read["answers"][0]["id"].as_str().unwrap().to_owned();
        for number in there..rows {
            self.device(number).await;
            let who = json!({"device_id": format!("d{number}")});
            let path = format!("/v1/polls/{poll}/answers/{answer}");
            self.caller.post(&path, &who).await.ok();
        }
        format!("/v1/webhooks/{}/attempts", self.of.as_ref().unwrap())
    }

    /// Waits until a listing has that many rows, each as it is to be.
    async fn wait_for(
        &self,
        path: &str,
        list: &str,
        rows: usize,
        is_done: &(dyn Fn(&Value) -> bool + Sync),
    ) {
        let started = std::time::Instant::now();
        loop {
            let page = self.caller.get(&format!("{path}?limit=1000")).await.ok();
            let found = page[list].as_array().unwrap();
            if found.len() == rows && found.iter().all(is_done) {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "{path}: {page}");
        }
    }
}

/// A configuration that is accepted.
async fn config_of(kind: ProviderKind) -> Value {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let sandbox = Sandbox::start(listener, SandboxConfig::default()).await.unwrap();
    match kind {
        ProviderKind::Apns => sandbox.apns_config(),
        ProviderKind::Fcm => sandbox.fcm_config(),
        ProviderKind::WebPush => sandbox.webpush_config(),
        ProviderKind::Messenger => sandbox.messenger_config(),
        ProviderKind::Telegram => sandbox.telegram_config(),
    }
}
