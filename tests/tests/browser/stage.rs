//! A server, the example's site, and a browser on it.

use std::path::Path;

use anyhow::{Context, Result};
use notify_core::{ProviderKind, SetWebAccess};
use notify_sandbox::ScriptedResponse;
use notify_tests::{Attached, Chromium, Site, TestServer, until};
use serde_json::{Value, json};

/// The address at which the example expects the server.
const EXAMPLE_SERVER: &str = "http://127.0.0.1:8080";
/// A script that records violations of the page's policy and the options of the subscription.
const WATCH: &str = "
    globalThis.breaches = [];
    addEventListener('securitypolicyviolation', (event) => breaches.push(event.violatedDirective));";
/// Replaces the browser's own subscription, which needs a push service. The replacement is stored for the
/// origin, as a real subscription is.
const PUSH_MANAGER: &str = "
    const made = SUBSCRIPTION;
    const bytes = () => JSON.parse(localStorage.getItem('subscribed') || 'null');
    const subscription = () => bytes() && {
        options: { applicationServerKey: new Uint8Array(bytes()).buffer },
        toJSON: () => ({ endpoint: made.endpoint, expirationTime: null, keys: made.keys }),
        unsubscribe: async () => { localStorage.removeItem('subscribed'); return true; },
    };
    PushManager.prototype.getSubscription = async () => subscription();
    PushManager.prototype.subscribe = async ({ userVisibleOnly, applicationServerKey }) => {
        if (!userVisibleOnly) throw new Error('not userVisibleOnly');
        localStorage.setItem('subscribed', JSON.stringify([...applicationServerKey]));
        localStorage.setItem('times', 1 + Number(localStorage.getItem('times')));
        return subscription();
    };";

pub(crate) struct Stage {
    pub(crate) server: TestServer,
    pub(crate) site: Site,
    pub(crate) chromium: Chromium,
    pub(crate) page: Attached,
}

fn example(name: &str) -> Result<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/web").join(name);
    std::fs::read_to_string(&path).with_context(|| path.display().to_string())
}

impl Stage {
    /// Loads the example's page. `more` is added to its worker.
    pub(crate) async fn set(more: &str) -> Result<Self> {
        let server = TestServer::start().await;
        let site = site_for(&server, more).await?;
        let access = SetWebAccess {
            allowed_origins: vec![site.origin.clone()],
            allowed_tags: Some(vec!["news".into()]),
            push_services: Some(vec!["127.0.0.1".into()]),
        };
        server.client().admin().set_web_access(server.app_id, &access).await?;
        let mut chromium = Chromium::start().await?;
        // What is not named is refused; people are not asked for Background Sync.
        let permissions = ["notifications", "backgroundSync"];
        let granted = json!({"origin": site.origin, "permissions": permissions});
        chromium.call(None, "Browser.grantPermissions", granted).await?;
        let page = chromium.open(&page_of(&server, &site), &first(&server).await?).await?;
        Ok(Self { server, site, chromium, page })
    }

    /// Presses the example's button and waits until the page is subscribed. Returns the id of the device.
    pub(crate) async fn subscribe(&mut self) -> Result<String> {
        self.shows("Not subscribed.").await?;
        self.run("document.getElementById('subscribe').click()").await?;
        let state = self.shows("Subscribed as ").await?;
        let id = state.trim_start_matches("Subscribed as ").trim_end_matches('.');
        Ok(id.to_owned())
    }

    /// Waits until the page shows a text with this beginning.
    pub(crate) async fn shows(&mut self, beginning: &str) -> Result<String> {
        let (chromium, page) = (&mut self.chromium, &self.page);
        let text = "document.getElementById('state').textContent";
        until(beginning, async || {
            let state = chromium.run(page, text).await?;
            let state = state.as_str().unwrap_or_default().to_owned();
            Ok(state.starts_with(beginning).then_some(state))
        })
        .await
    }

    /// Evaluates an expression in the page.
    pub(crate) async fn run(&mut self, expression: &str) -> Result<Value> {
        self.chromium.run(&self.page, expression).await
    }

    /// Calls a method of a store in the SDK's database, such as `getAll()`, and returns the result.
    pub(crate) async fn stored(&mut self, store: &str, call: &str) -> Result<Value> {
        self.run(&stored(store, call)).await
    }

    /// Waits until the browser has no unsent report.
    pub(crate) async fn reports_sent(&mut self) -> Result<()> {
        let (chromium, page) = (&mut self.chromium, &self.page);
        until("no report is left", async || {
            Ok((chromium.run(page, &stored("reports", "count()")).await? == 0).then_some(()))
        })
        .await
    }

    /// Reloads the page.
    pub(crate) async fn reload(&mut self) -> Result<()> {
        self.chromium.load(&self.page, &page_of(&self.server, &self.site)).await
    }

    pub(crate) async fn stop(mut self) -> Result<()> {
        let breaches = self.run("breaches").await?;
        assert_eq!(breaches, json!([]), "breaches of the example's policy");
        self.chromium.stop().await?;
        self.server.stop().await;
        Ok(())
    }
}

fn stored(store: &str, call: &str) -> String {
    format!(
        "(async () => {{
            const opening = indexedDB.open('notify-sdk');
            await new Promise((resolve) => {{ opening.onsuccess = resolve; }});
            const found = opening.result.transaction('{store}').objectStore('{store}').{call};
            await new Promise((resolve) => {{ found.onsuccess = resolve; }});
            opening.result.close();
            return found.result;
        }})()"
    )
}

/// The example's files, changed to use this server.
pub(crate) async fn site_for(server: &TestServer, more: &str) -> Result<Site> {
    let ours = |text: String| text.replace(EXAMPLE_SERVER, server.origin());
    Site::start(&[
        ("/", ours(example("index.html")?)),
        ("/page.js", example("page.js")?),
        ("/notify-sw.js", ours(example("notify-sw.js")?) + more),
    ])
    .await
}

pub(crate) fn page_of(server: &TestServer, site: &Site) -> String {
    format!("{}/?app={}", site.origin, server.app_id)
}

/// The scripts that run before the page's own scripts.
pub(crate) async fn first(server: &TestServer) -> Result<String> {
    let client = server.client();
    let config = client.admin().get_provider(server.app_id, ProviderKind::WebPush).await?.config;
    let made =
        server.sandbox().subscribe(config["vapid_public_key"].as_str(), &ScriptedResponse::ok())?;
    let made = json!({"endpoint": made.endpoint, "keys": {"p256dh": made.p256dh,
        "auth": made.auth}});
    Ok(format!("{WATCH}{}", PUSH_MANAGER.replace("SUBSCRIPTION", &made.to_string())))
}
