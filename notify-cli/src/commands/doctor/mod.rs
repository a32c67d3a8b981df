//! `notify doctor`: finds problems that prevent delivery, with a remedy for each.

mod report;
mod server;

use clap::Args;
use notify_client::{
    Client, Error,
    notify_core::{
        App, AppId, PageQuery,
        doctor::{AppFacts, AppName, AppState, Finding, ProviderFacts, Unavailable, check_app},
    },
};

use self::report::Report;
use crate::{
    failure::Failure,
    output::view,
    session::{LARGE_PAGE, Session},
};

/// Arguments of `notify doctor`.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Check only this application (default: all applications).
    #[arg(long, value_name = "NAME|ID")]
    app: Option<String>,
    /// Also list the checks that passed, not only their number.
    #[arg(long)]
    all: bool,
}

/// Runs all checks and prints the findings. Fails if one of the checks failed.
pub(crate) async fn run(args: Doctor, session: &mut Session) -> Result<(), Failure> {
    let notify = session.client()?;
    let mut report = Report::default();
    let server = session.server_label();
    let is_reachable = server::check_reachable(&notify, &server, &mut report).await;
    if is_reachable && server::check_configuration(&notify, &mut report).await {
        match apps(&args, session).await {
            Ok(apps) => {
                for (app, name) in apps {
                    report.extend(check_app(&facts(&notify, app, name).await));
                }
            }
            // An unknown application is a mistake in the command line, and not a finding.
            Err(failure @ (Failure::NotFound(_) | Failure::NoMatch(_) | Failure::Usage(_))) => {
                return Err(failure);
            }
            Err(failure) => {
                let unavailable = Unavailable::new(failure);
                report.add(Finding::unavailable("applications", "", &unavailable));
            }
        }
    }
    if session.out.is_human_readable() {
        session.out.heading(&server)?;
        let columns = session.out.columns();
        session.out.lines(&report.lines(args.all, columns))?;
    } else {
        session.out.show(&report, &view::DOCTOR)?;
    }
    report.failure().map_or(Ok(()), |failure| Err(Failure::CheckFailed(failure)))
}

/// Reads the facts about an application.
async fn facts(notify: &Client, app: App, name: AppName) -> AppFacts {
    let state = state(notify, app.id).await.map_err(Unavailable::new);
    AppFacts { app, name, state }
}

async fn state(notify: &Client, app: AppId) -> Result<AppState, Error> {
    let admin = notify.admin();
    let views = admin.list_providers(app).await?.providers;
    let diagnostics = admin.app_diagnostics(app).await?;
    let mut providers = Vec::with_capacity(views.len());
    for view in views {
        let test = admin.test_provider(app, view.provider).await.map_err(Unavailable::new);
        providers.push(ProviderFacts { view, test });
    }
    Ok(AppState { diagnostics, providers })
}

/// The applications to check.
async fn apps(args: &Doctor, session: &mut Session) -> Result<Vec<(App, AppName)>, Failure> {
    let notify = session.client()?;
    if let Some(app) = &args.app {
        let id = session.named_app(app).await?;
        let app = notify.admin().get_app(id).await;
        let app = app.map_err(Failure::unknown_id("application", &id))?;
        let is_unique = session.apps_named(&app.name).await?.len() == 1;
        let name = AppName::new(&app, is_unique);
        return Ok(vec![(app, name)]);
    }
    let admin = notify.admin();
    let mut all = admin.all_apps(&PageQuery { limit: Some(LARGE_PAGE), cursor: None });
    let mut apps = Vec::new();
    while let Some(app) = all.next().await {
        apps.push(app?);
    }
    let names = AppName::of_all(&apps);
    Ok(apps.into_iter().zip(names).collect())
}
