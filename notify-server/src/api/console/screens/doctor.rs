//! The findings of `notify doctor`, and the state of the server.

use askama::Template;
use futures_util::{StreamExt, stream};
use http::Method;
use notify_core::doctor::{
    AppFacts, AppName, AppState, Finding, ProviderFacts, ServerFacts, Status, Unavailable,
    check_app, check_server,
};
use notify_core::{
    App, AppDiagnostics, AppId, Diagnostics, ProviderKind, ProviderList, ProviderTestResult,
    ProviderView, Timestamp,
};
use tokio::time::{Instant, timeout_at};
use warp::reply::Response;

use crate::api::console::format;
use crate::api::console::format::title_of;
use crate::api::console::page::{Layout, show};
use crate::api::console::screen::screen;
use crate::api::console::visit::Visit;
use crate::api::error::ApiError;
use crate::api::router::Endpoint;

/// The most applications that the page checks at once.
const APPS_MAX: usize = 20;
/// How many providers are tested at the same time.
const CONCURRENT_TESTS: usize = 16;
/// The longest wait for all tests of the page. One test takes at most half a minute.
const TESTS_WAIT: std::time::Duration = std::time::Duration::from_secs(28);

pub(super) fn routes() -> Vec<Endpoint> {
    vec![screen("/console/doctor", doctor), screen("/console/server", server)]
}

/// A finding, as pages show it.
pub(super) struct FindingRow {
    pub(super) status: Status,
    pub(super) check: &'static str,
    pub(super) about: String,
    pub(super) detail: String,
    /// The remedy.
    pub(super) hint: Vec<Part>,
    /// The page on which the remedy is applied.
    pub(super) page: Option<Link>,
}

/// A part of a text in which commands are between backticks.
pub(super) struct Part {
    pub(super) is_code: bool,
    pub(super) text: String,
}

/// A page of the console.
pub(super) struct Link {
    pub(super) name: String,
    /// Relative to `/console/`.
    pub(super) path: String,
}

impl FindingRow {
    /// A finding. `app` is the application if it has pages on which the remedy is applied.
    pub(super) fn of(finding: &Finding, app: Option<AppId>) -> Self {
        let parts = finding.hint().unwrap_or_default().split('`').enumerate();
        let parts = parts.map(|(nth, text)| Part { is_code: nth % 2 == 1, text: text.to_owned() });
        Self {
            status: finding.status(),
            check: finding.check(),
            about: finding.about().to_owned(),
            detail: finding.detail().to_owned(),
            hint: parts.filter(|part| !part.text.is_empty()).collect(),
            page: app
                .filter(|_| finding.status() != Status::Ok)
                .and_then(|app| page_of(finding, app)),
        }
    }

    pub(super) fn tone(&self) -> &'static str {
        match self.status {
            Status::Failed => "bad",
            Status::Warning => "warn",
            Status::Ok => "good",
        }
    }

    pub(super) fn word(&self) -> &'static str {
        match self.status {
            Status::Failed => "problem",
            Status::Warning => "warning",
            Status::Ok => "ok",
        }
    }
}

/// The page on which an operator removes the cause of a finding about an application.
pub(super) fn page_of(finding: &Finding, app: AppId) -> Option<Link> {
    // The checks of a provider name it last.
    let provider = finding.about().rsplit(' ').next().and_then(|name| name.parse().ok());
    match (finding.check(), provider) {
        ("status", _) => {
            Some(Link { name: "Settings".to_owned(), path: format!("apps/{app}/settings") })
        }
        ("providers", _) => Some(Link {
            name: "Configure a provider".to_owned(),
            path: format!("apps/{app}/providers"),
        }),
        ("channel" | "service" | "credentials" | "topic" | "ios_env" | "vapid", Some(kind)) => {
            let kind: ProviderKind = kind;
            Some(Link {
                name: format!("{} of the application", title_of(kind)),
                path: format!("apps/{app}/providers/{kind}"),
            })
        }
        ("webhook", _) => {
            Some(Link { name: "Webhooks".to_owned(), path: format!("apps/{app}/webhooks") })
        }
        ("feed", _) => Some(Link { name: "Feeds".to_owned(), path: format!("apps/{app}/feeds") }),
        ("key", _) => Some(Link { name: "API keys".to_owned(), path: format!("apps/{app}#keys") }),
        _ => None,
    }
}

/// The name of an application in findings and commands.
pub(super) fn name_of(layout: &Layout, app: &App) -> AppName {
    let same_name = layout.apps.iter().filter(|other| other.name == app.name).count();
    AppName::new(app, same_name <= 1)
}

#[derive(Template)]
#[template(path = "doctor.html")]
struct Doctor {
    layout: Layout,
    /// The id of the only application that was checked; empty for all.
    chosen: String,
    is_cut: bool,
    failed: usize,
    warnings: usize,
    findings: Vec<FindingRow>,
    passed: Vec<FindingRow>,
    at: Timestamp,
    command: String,
}

async fn doctor(visit: Visit) -> Result<Response, ApiError> {
    let layout = visit.layout("Doctor", "Doctor").await?;
    let chosen = visit.query("app")?;
    let apps = match chosen.parse::<AppId>() {
        Ok(id) => vec![visit.scope_of(id).await?.app],
        Err(_) if chosen.is_empty() => layout.apps.iter().take(APPS_MAX).cloned().collect(),
        Err(_) => return Err(ApiError::NotFound),
    };
    let diagnostics: Diagnostics = visit.admin("/admin/v1/diagnostics").await?;
    let at = diagnostics.at;
    let server = check_server(&ServerFacts { diagnostics: Ok(diagnostics) });
    let mut all: Vec<FindingRow> =
        server.iter().map(|finding| FindingRow::of(finding, None)).collect();
    let command = match &*apps {
        [app] if !chosen.is_empty() => {
            format!("notify doctor --app {}", name_of(&layout, app).argument)
        }
        _ => "notify doctor".to_owned(),
    };
    for facts in facts_of(&visit, &layout, apps).await {
        let findings = check_app(&facts);
        all.extend(findings.iter().map(|finding| FindingRow::of(finding, Some(facts.app.id))));
    }
    let (passed, mut findings): (Vec<FindingRow>, Vec<FindingRow>) =
        all.into_iter().partition(|finding| finding.status == Status::Ok);
    findings.sort_by_key(|finding| finding.status);
    let count = |status: Status| findings.iter().filter(|finding| finding.status == status).count();
    let page = Doctor {
        is_cut: chosen.is_empty() && layout.apps.len() > APPS_MAX,
        failed: count(Status::Failed),
        warnings: count(Status::Warning),
        layout,
        chosen,
        findings,
        passed,
        at,
        command,
    };
    show(&page)
}

/// Reads what the checks of applications need, and tests all their providers at the same time.
async fn facts_of(visit: &Visit, layout: &Layout, apps: Vec<App>) -> Vec<AppFacts> {
    let mut states = Vec::new();
    for app in &apps {
        states.push(state_of(visit, app.id).await.map_err(|error| unavailable(&error)));
    }
    let mut providers = Vec::new();
    for (index, (app, state)) in apps.iter().zip(&states).enumerate() {
        if let Ok((_, views)) = state {
            providers.extend(views.iter().map(|view| (index, app.id, view.clone())));
        }
    }
    let deadline = Instant::now() + TESTS_WAIT;
    let tests = stream::iter(providers).map(|(index, app, view)| async move {
        let test = test_of(visit, app, &view, deadline).await;
        (index, ProviderFacts { view, test })
    });
    let tested: Vec<(usize, ProviderFacts)> = tests.buffered(CONCURRENT_TESTS).collect().await;
    let mut facts: Vec<AppFacts> = apps
        .into_iter()
        .zip(states)
        .map(|(app, state)| AppFacts {
            name: name_of(layout, &app),
            app,
            state: state.map(|(diagnostics, _)| AppState { diagnostics, providers: Vec::new() }),
        })
        .collect();
    for (index, provider) in tested {
        if let Ok(state) = &mut facts[index].state {
            state.providers.push(provider);
        }
    }
    facts
}

async fn state_of(
    visit: &Visit,
    app: AppId,
) -> Result<(AppDiagnostics, Vec<ProviderView>), ApiError> {
    let ProviderList { providers } =
        visit.admin(&format!("/admin/v1/apps/{app}/providers")).await?;
    let diagnostics = visit.admin(&format!("/admin/v1/apps/{app}/devices/diagnostics")).await?;
    Ok((diagnostics, providers))
}

async fn test_of(
    visit: &Visit,
    app: AppId,
    view: &ProviderView,
    deadline: Instant,
) -> Result<ProviderTestResult, Unavailable> {
    let path = format!("/admin/v1/apps/{app}/providers/{}/test", view.provider);
    let test = visit.change_admin(Method::POST, &path, &());
    match timeout_at(deadline, test).await {
        Ok(tested) => tested.map_err(|error| unavailable(&error)),
        Err(_) => Err(Unavailable::new("it was not tested in time: check this application alone")),
    }
}

fn unavailable(error: &ApiError) -> Unavailable {
    Unavailable(error.errors().join("; "))
}

#[derive(Template)]
#[template(path = "server.html")]
struct Server {
    layout: Layout,
    diagnostics: Diagnostics,
    /// How far the clock is ahead of the time that the server trusts.
    ahead: Option<String>,
    findings: Vec<FindingRow>,
}

async fn server(visit: Visit) -> Result<Response, ApiError> {
    let layout = visit.layout("Server", "Server").await?;
    let diagnostics: Diagnostics = visit.admin("/admin/v1/diagnostics").await?;
    let findings = check_server(&ServerFacts { diagnostics: Ok(diagnostics.clone()) });
    let findings = findings.iter().filter(|finding| finding.status() != Status::Ok);
    let findings = findings.map(|finding| FindingRow::of(finding, None)).collect();
    let ahead = Some(diagnostics.clock_leap_ms).filter(|ahead| *ahead > 0);
    let ahead = ahead.map(|ahead| format::span(ahead.cast_signed()));
    show(&Server { layout, diagnostics, ahead, findings })
}
