//! The overview: what needs an operator, the applications, and the server.

use askama::Template;
use http::Method;
use notify_core::doctor::{
    AppFacts, AppState, Finding, ServerFacts, Status, check_app, check_server,
};
use notify_core::{
    App, AppCreated, AppDiagnostics, AppId, AppList, AppStatus, CreateApp, Diagnostics,
    ProviderKind,
};
use warp::reply::Response;

use super::doctor::{name_of, page_of};
use super::providers::State;
use crate::api::console::calls::encoded;
use crate::api::console::form::Form;
use crate::api::console::format::title_of;
use crate::api::console::page::{Layout, redirect, show};
use crate::api::console::problems::Problems;
use crate::api::console::screen::{action, screen};
use crate::api::console::visit::Visit;
use crate::api::error::ApiError;
use crate::api::router::Endpoint;
use crate::playground;

/// The applications on a page of the overview.
const TILES_MAX: usize = 20;
/// The most needs on the overview.
const NEEDS_MAX: usize = 20;

pub(super) fn routes() -> Vec<Endpoint> {
    vec![
        screen("/console/", overview),
        screen("/console/new-app", new_app),
        action("/console/new-app", create_app),
    ]
}

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    layout: Layout,
    needs: Vec<Need>,
    /// The number of further needs, which the doctor shows.
    more_needs: usize,
    tiles: Vec<Tile>,
    is_first: bool,
    next: Option<String>,
    server: Diagnostics,
    /// Whether nothing can be sent yet except in the playground, which is not running.
    offers_playground: bool,
}

/// Something that an operator has to do.
struct Need {
    is_urgent: bool,
    text: String,
    /// Relative to `/console/`.
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

/// The state of a provider.
struct Light {
    provider: ProviderKind,
    title: &'static str,
    state: State,
}

async fn overview(visit: Visit) -> Result<Response, ApiError> {
    let layout = visit.layout("Overview", "Overview").await?;
    let cursor = visit.query("cursor")?;
    let server: Diagnostics = visit.admin("/admin/v1/diagnostics").await?;
    let facts = ServerFacts { diagnostics: Ok(server.clone()) };
    let mut needs: Vec<Need> = check_server(&facts)
        .iter()
        // A server on one machine for a first try has no public address yet.
        .filter(|finding| finding.status() != Status::Ok && finding.check() != "public url")
        .map(|finding| need_of(finding, "server".to_owned(), None))
        .collect();
    let path = format!("/admin/v1/apps?limit={TILES_MAX}&cursor={}", encoded(&cursor));
    let page: AppList = visit.admin(&path).await?;
    let mut tiles = Vec::with_capacity(page.apps.len());
    for app in page.apps {
        let path = format!("/admin/v1/apps/{}/devices/diagnostics", app.id);
        let diagnostics: AppDiagnostics = match visit.admin(&path).await {
            // It was deleted since the list was read.
            Err(ApiError::NotFound) => continue,
            diagnostics => diagnostics?,
        };
        let lights = diagnostics.channels.iter().map(|channel| Light {
            provider: channel.provider,
            title: title_of(channel.provider),
            state: State::of(channel),
        });
        tiles.push(Tile { lights: lights.collect(), app: app.clone() });
        needs.extend(needs_of(&layout, app, diagnostics));
    }
    // The urgent ones first, otherwise in the order of the applications.
    needs.sort_by_key(|need| !need.is_urgent);
    let more_needs = needs.len().saturating_sub(NEEDS_MAX);
    needs.truncate(NEEDS_MAX);
    let (is_first, next) = (cursor.is_empty(), page.next_cursor);
    let offers_playground = cfg!(feature = "sandbox")
        && is_first
        && next.is_none()
        && tiles.iter().all(|tile| tile.lights.is_empty())
        && !layout.apps.iter().any(|app| playground::owns(app.id));
    show(&Overview { layout, needs, more_needs, tiles, is_first, next, offers_playground, server })
}

/// What an operator has to do for an application. Its credentials are not tested here.
fn needs_of(layout: &Layout, app: App, diagnostics: AppDiagnostics) -> Vec<Need> {
    let id = app.id;
    let state = Ok(AppState { diagnostics, providers: Vec::new() });
    let findings = check_app(&AppFacts { name: name_of(layout, &app), app, state }).into_iter();
    let needs = findings.filter(|finding| match finding.check() {
        // A new application has no provider, and an operator suspended the others.
        "providers" | "status" => false,
        // A wait ends on its own.
        "channel" | "service" => finding.status() == Status::Failed,
        _ => finding.status() != Status::Ok,
    });
    needs.map(|finding| need_of(&finding, format!("doctor?app={id}"), Some(id))).collect()
}

/// A finding as a need. `path` is where it is shown if no page removes its cause.
fn need_of(finding: &Finding, path: String, app: Option<AppId>) -> Need {
    let about = finding.about();
    let about = if about.is_empty() { finding.check() } else { about };
    Need {
        is_urgent: finding.status() == Status::Failed,
        text: format!("{about}: {}", finding.detail()),
        path: app.and_then(|app| page_of(finding, app)).map_or(path, |page| page.path),
    }
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
