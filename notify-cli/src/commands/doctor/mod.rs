//! `notify doctor`: finds problems that prevent delivery, with a remedy for each.

mod app;
mod channel;
mod content;
mod hints;
mod report;
mod server;

use clap::Args;
use notify_client::notify_core::{App, PageQuery};

use self::report::{Finding, Report};
use super::LARGE_PAGE;
use crate::{failure::Failure, output::view, session::Session};

/// Arguments of `notify doctor`.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Check only this application; all applications unless given.
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
                for (app, name) in &apps {
                    app::check(&notify, app, name, &mut report).await;
                }
            }
            // An unknown application is a mistake in the command line, and not a finding.
            Err(failure @ (Failure::NotFound(_) | Failure::NoMatch(_) | Failure::Usage(_))) => {
                return Err(failure);
            }
            Err(failure) => report.add(
                Finding::failed("applications", "", failure.to_string())
                    .with_hint("read the server's log"),
            ),
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

/// The name of an application, in findings and in commands.
struct AppName {
    label: String,
    /// The argument of `--app`: the name, quoted for a shell. It is the id if the name is ambiguous or
    /// contains a quote.
    argument: String,
}

impl AppName {
    fn new(app: &App, is_unique: bool) -> Self {
        let App { id, name, .. } = app;
        if !is_unique {
            return Self { label: format!("{name} ({id})"), argument: id.to_string() };
        }
        let argument = if name.contains('\'') { id.to_string() } else { format!("'{name}'") };
        Self { label: name.clone(), argument }
    }
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
    let name = |app: &App| {
        let is_unique = apps.iter().filter(|other| other.name == app.name).count() == 1;
        AppName::new(app, is_unique)
    };
    let names: Vec<_> = apps.iter().map(name).collect();
    Ok(apps.into_iter().zip(names).collect())
}

#[cfg(test)]
mod tests {
    use notify_client::notify_core::{AppStatus, Timestamp};

    use super::*;

    #[test]
    fn an_ambiguous_name_is_replaced_by_the_id() {
        const ID: &str = "0190a3b2-7f00-7000-8000-000000000001";
        for (name, is_unique, label, argument) in [
            ("My shop", true, "My shop".to_owned(), "'My shop'"),
            ("Shop", false, format!("Shop ({ID})"), ID),
            ("Bob's", true, "Bob's".to_owned(), ID),
        ] {
            let app = App {
                id: ID.parse().unwrap(),
                name: name.to_owned(),
                language: "en".to_owned(),
                status: AppStatus::Active,
                created_at: Timestamp(1),
            };
            let named = AppName::new(&app, is_unique);
            assert_eq!((&*named.label, &*named.argument), (&*label, argument));
        }
    }
}
