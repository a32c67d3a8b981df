//! `notify doctor`: looks for what keeps notifications from arriving, and says how to mend it.

mod app;
mod channel;
mod content;
mod mend;
mod report;
mod server;

use clap::Args;
use notify_client::notify_core::{App, PageQuery};

use self::report::{Finding, Report};
use super::PAGE_OF_ALL;
use crate::{failure::Failure, output::view, session::Session};

/// Arguments of `notify doctor`.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Name or id of the one application to look at; all unless given.
    #[arg(long, value_name = "APP")]
    app: Option<String>,
    /// Show what is well too, not only how many checks that are.
    #[arg(long)]
    all: bool,
}

/// Looks at everything, shows it, and fails when something is wrong.
pub(crate) async fn run(args: Doctor, session: &mut Session) -> Result<(), Failure> {
    let notify = session.notify()?;
    let mut report = Report::default();
    let place = session.place();
    let reached = server::reach(&notify, &place, &mut report).await;
    if reached && server::look(&notify, &mut report).await {
        match apps(&args, session).await {
            Ok(apps) => {
                for each in &apps {
                    app::look(&notify, each, &mut report).await;
                }
            }
            // One that was named and is not there is wrong usage, not illness.
            Err(failure @ (Failure::NotFound(_) | Failure::Usage(_))) => return Err(failure),
            Err(failure) => report.add(
                Finding::bad("applications", "", failure.to_string())
                    .mend("look at the server's log"),
            ),
        }
    }
    if session.out.is_for_people() {
        session.out.heading(&place)?;
        let columns = session.out.columns();
        session.out.lines(&report.lines(args.all, columns))?;
    } else {
        session.out.show(&report, &view::DOCTOR)?;
    }
    report.failure().map_or(Ok(()), |failure| Err(Failure::Unwell(failure)))
}

async fn apps(args: &Doctor, session: &mut Session) -> Result<Vec<App>, Failure> {
    let notify = session.notify()?;
    if let Some(app) = &args.app {
        let id = session.named_app(app).await?;
        return Ok(vec![notify.admin().get_app(id).await?]);
    }
    let admin = notify.admin();
    let mut all = admin.all_apps(&PageQuery { limit: Some(PAGE_OF_ALL), cursor: None });
    let mut apps = Vec::new();
    while let Some(app) = all.next().await {
        apps.push(app?);
    }
    Ok(apps)
}
