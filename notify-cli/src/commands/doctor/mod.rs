//! `notify doctor`: looks for what keeps notifications from arriving, and says how to mend it.

mod app;
mod channel;
mod mend;
mod report;
mod server;

use clap::Args;
use notify_client::{
    Error,
    notify_core::{App, PageQuery},
};

use self::report::{Finding, Report};
use super::PAGE_OF_ALL;
use crate::{failure::Failure, output::view, session::Session};

/// Arguments of `notify doctor`.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Name or id of the one application to look at; all unless given.
    #[arg(long, value_name = "APP")]
    app: Option<String>,
}

/// Looks at everything, shows it, and fails when something is wrong.
pub(crate) async fn run(args: Doctor, session: &mut Session) -> Result<(), Failure> {
    let notify = session.notify()?;
    let mut report = Report::default();
    let reached = server::reach(&notify, &mut report).await;
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
    session.out.show(&report, &view::DOCTOR)?;
    match report.failed() {
        0 => Ok(()),
        failed => Err(Failure::Unwell { failed }),
    }
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

/// What a call that failed is told as.
fn said(error: &Error) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    match causes.last() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
