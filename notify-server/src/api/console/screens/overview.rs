//! The overview, and the box that finds an id.

use askama::Template;
use http::Method;
use notify_core::{
    App, AppCreated, AppDiagnostics, AppId, AppStatus, CreateApp, Diagnostics, ProviderStatus,
};
use warp::reply::Response;

use crate::api::console::calls::encoded;
use crate::api::console::form::Form;
use crate::api::console::page::{Layout, Visit, redirect, show};
use crate::api::console::problems::Problems;
use crate::api::console::{action, screen};
use crate::api::error::ApiError;
use crate::api::router::Endpoint;

/// The most applications whose providers the overview shows.
const TILES_MAX: usize = 20;

pub(super) fn routes() -> Vec<Endpoint> {
    vec![
        screen("/console/", overview),
        screen("/console/new-app", new_app),
        action("/console/new-app", create_app),
        screen("/console/find", find),
    ]
}

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    layout: Layout,
    needs: Vec<Need>,
    tiles: Vec<Tile>,
    server: Diagnostics,
    has_playground: bool,
}

/// Something that an operator has to do.
struct Need {
    text: String,
    path: String,
}

/// An application on the overview.
struct Tile {
    app: App,
    lights: Vec<Light>,
}

impl Tile {
    fn is_suspended(&self) -> bool {
        self.app.status == AppStatus::Suspended
    }
}

/// The status of a provider.
struct Light {
    provider: &'static str,
    status: String,
    is_available: bool,
}

impl Light {
    fn tone(&self) -> &'static str {
        if self.is_available { "good" } else { "bad" }
    }
}

async fn overview(visit: Visit) -> Result<Response, ApiError> {
    let layout = visit.layout("Overview", "Overview").await?;
    let server: Diagnostics = visit.admin("/admin/v1/diagnostics").await?;
    let mut needs: Vec<Need> = server
        .obstacles
        .iter()
        .map(|obstacle| Need { text: format!("server: {obstacle}"), path: "./".to_owned() })
        .collect();
    let mut tiles = Vec::new();
    for app in layout.apps.iter().take(TILES_MAX) {
        let path = format!("/admin/v1/apps/{}/devices/diagnostics", app.id);
        let found: AppDiagnostics = visit.admin(&path).await?;
        let page = format!("apps/{}", app.id);
        let mut lights = Vec::new();
        for channel in found.channels {
            let provider = channel.provider.as_str();
            let is_available =
                channel.configured && channel.channel.status == ProviderStatus::Available;
            let status = if channel.configured {
                channel.channel.status.state().to_owned()
            } else {
                "not configured".to_owned()
            };
            if !is_available {
                let text = format!("{}: {provider} is {status}", app.name);
                needs.push(Need { text, path: page.clone() });
            }
            lights.push(Light { provider, status, is_available });
        }
        for webhook in found.webhooks {
            let text = format!("{}: a webhook fails or is disabled: {}", app.name, webhook.url);
            needs.push(Need { text, path: page.clone() });
        }
        for feed in found.feeds {
            let text = format!("{}: the feed {} cannot be fetched", app.name, feed.url);
            needs.push(Need { text, path: page.clone() });
        }
        tiles.push(Tile { app: app.clone(), lights });
    }
    let has_playground = super::playground::is_running(&visit).await?;
    show(&Overview { layout, needs, tiles, server, has_playground })
}

#[derive(Template)]
#[template(path = "new_app.html")]
struct NewAppPage {
    layout: Layout,
    problems: Problems,
    name: String,
    language: String,
}

async fn new_app(visit: Visit) -> Result<Response, ApiError> {
    let layout = visit.layout("Create an application", "Overview").await?;
    let (problems, name) = (Problems::default(), String::new());
    show(&NewAppPage { layout, problems, name, language: "en".to_owned() })
}

async fn create_app(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let (name, language) = (form.text("name").to_owned(), form.optional("language"));
    let request = CreateApp { name: name.clone(), language: language.clone() };
    let created = visit.change_admin(Method::POST, "/admin/v1/apps", &request).await;
    let problems = match created {
        Ok(AppCreated { id }) => return Ok(redirect(&format!("apps/{id}?done=created"))),
        Err(error) => Problems::of(error)?,
    };
    let layout = visit.layout("Create an application", "Overview").await?;
    show(&NewAppPage { layout, problems, name, language: language.unwrap_or_default() })
}

/// Finds what an id names: an application, or a notification or device of the current application.
async fn find(visit: Visit) -> Result<Response, ApiError> {
    let id = visit.query("id")?;
    let id = id.trim();
    if let Ok(app) = id.parse::<AppId>()
        && visit.admin::<App>(&format!("/admin/v1/apps/{app}")).await.is_ok()
    {
        return Ok(redirect(&format!("apps/{app}")));
    }
    let app: AppId = visit.query("app")?.parse().map_err(|_| ApiError::NotFound)?;
    let scope = visit.scope_of(app).await?;
    for resource in ["notifications", "devices"] {
        let path = format!("/v1/{resource}/{}", encoded(id));
        match visit.get::<serde_json::Value>(&scope, &path).await {
            Ok(_) => return Ok(redirect(&format!("apps/{app}/{resource}/{}", encoded(id)))),
            Err(ApiError::NotFound) => {}
            Err(error) => return Err(error),
        }
    }
    Err(ApiError::NotFound)
}
