//! A server process that gets bad input, and the data that it stores before and after.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use notify_tests::{Caller, Resources, Response, Route, ServerProcess, body, routes};
use serde_json::{Value, json};

/// The most memory that the server may add during bad input, in bytes. A body takes a few times its size on
/// each thread that reads one. Unlimited growth, or bodies of 10 MB, would far exceed this limit.
const MEMORY_GROWTH_MAX: u64 = 128 * 1_048_576;
const FEEDS: &str = "/v1/feeds?limit=1000";

/// A server process with an application, an administrator, and one of each resource.
pub(crate) struct Target {
    /// The server process.
    pub(crate) server: ServerProcess,
    /// Calls as the application.
    pub(crate) app: Caller,
    /// Calls as an administrator.
    pub(crate) admin: Caller,
    /// One of each resource.
    pub(crate) resources: Resources,
    /// The routes that read a body.
    pub(crate) routes: Vec<Route>,
    _folder: tempfile::TempDir,
}

impl Target {
    pub(crate) async fn start() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let server = ServerProcess::start(folder.path()).await?;
        let app = server.caller();
        let admin = server.admin();
        let mut resources = Resources::create(&app, "phone").await?;
        // A separate application is suspended, so that the caller's application stays usable.
        let apart = admin.post("/admin/v1/apps", &json!({"name": "apart"})).await.ok();
        resources.app = apart["id"].as_str().context("an id")?.to_owned();
        let routes = routes(&app).await?.into_iter().filter(|route| body(route).is_some());
        let routes = routes.collect();
        Ok(Self { server, app, admin, resources, routes, _folder: folder })
    }

    pub(crate) fn caller(&self, route: &Route) -> &Caller {
        if route.template.starts_with("/admin") { &self.admin } else { &self.app }
    }

    pub(crate) async fn send(
        &self,
        route: &Route,
        body: impl Into<reqwest::Body>,
    ) -> Result<Response> {
        let path = self.resources.path(&route.template);
        self.caller(route).send(&route.method, &path, body).await
    }

    /// The stored data as the listings show it, without the state of feeds: the server changes that itself
    /// when it fetches a feed.
    pub(crate) async fn stored(&self) -> Result<BTreeMap<String, Value>> {
        let mut stored = BTreeMap::new();
        for path in [
            "/v1/notifications?limit=1000",
            "/v1/devices?limit=1000",
            "/v1/tags?limit=1000",
            FEEDS,
            "/v1/campaigns?status=all&limit=1000",
            "/v1/statistics/devices",
            "/v1/statistics/notifications",
        ] {
            stored.insert(path.to_owned(), self.app.get(path).await.ok());
        }
        let feeds = stored.get_mut(FEEDS).context("the feeds")?;
        for feed in feeds["feeds"].as_array_mut().context("a list of feeds")? {
            for field in ["status", "last_error", "last_fetched_at"] {
                feed.as_object_mut().context("a feed")?.remove(field).context(field)?;
            }
        }
        let app = &self.resources.app;
        for path in [
            "/admin/v1/apps".to_owned(),
            format!("/admin/v1/apps/{app}/keys"),
            format!("/admin/v1/apps/{app}/providers"),
            format!("/admin/v1/apps/{app}"),
        ] {
            stored.insert(path.clone(), self.admin.get(&path).await.ok());
        }
        let poll = format!("/v1/polls/{}", self.resources.poll);
        stored.insert(poll.clone(), self.app.get(&poll).await.ok());
        Ok(stored)
    }

    /// Checks that the server runs and has not stored any of the bad input.
    pub(crate) async fn is_well(&self, memory_before: u64) -> Result<()> {
        self.app.get("/readyz").await.ok();
        let grown = self.server.memory_peak()?.saturating_sub(memory_before);
        assert!(grown < MEMORY_GROWTH_MAX, "grew by {} MiB", grown / 1_048_576);
        Ok(())
    }
}
