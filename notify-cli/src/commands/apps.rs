//! `notify apps` (admin API).

use clap::Subcommand;
use notify_client::notify_core::{CreateApp, UpdateApp};

use super::paging::{PageArgs, show_all};
use crate::{failure::Failure, output::view, session::Session};

/// `notify apps`.
#[derive(Debug, Subcommand)]
pub(crate) enum Apps {
    /// Create an application.
    Create {
        /// Its name, the title of its notifications.
        name: String,
        /// Its language code; `en` unless given.
        #[arg(long, value_name = "CODE")]
        language: Option<String>,
    },
    /// List applications, oldest first.
    List(PageArgs),
    /// Show an application.
    Get {
        /// Its name or id.
        app: String,
    },
    /// Change an application.
    #[command(group = clap::ArgGroup::new("change").required(true).multiple(true))]
    Update {
        /// Its name or id.
        app: String,
        /// Its new name.
        #[arg(long, group = "change")]
        name: Option<String>,
        /// Its new language code.
        #[arg(long, value_name = "CODE", group = "change")]
        language: Option<String>,
        /// Its new state; the keys of a suspended one are refused.
        #[arg(long, value_parser = ["active", "suspended"], group = "change")]
        status: Option<String>,
    },
    /// Delete an application with all it has.
    Delete {
        /// Its name or id.
        app: String,
    },
}

/// Runs the command.
pub(crate) async fn run(command: Apps, session: &mut Session) -> Result<(), Failure> {
    let notify = session.notify()?;
    let admin = notify.admin();
    match command {
        Apps::Create { name, language } => {
            let created = admin.create_app(&CreateApp { name, language }).await?;
            session.out.show(&created, &view::CREATED)
        }
        Apps::List(page) if page.all => {
            show_all(admin.all_apps(&page.query()), session, &view::APPS).await
        }
        Apps::List(page) => {
            let page = admin.list_apps(&page.query()).await?;
            session.out.show(&page, &view::APPS)
        }
        Apps::Get { app } => {
            let app = admin.get_app(session.named_app(&app).await?).await?;
            session.out.show(&app, &view::APP)
        }
        Apps::Update { app, name, language, status } => {
            let change = UpdateApp { name, language, status };
            admin.update_app(session.named_app(&app).await?, &change).await?;
            session.out.done()
        }
        Apps::Delete { app } => {
            admin.delete_app(session.named_app(&app).await?).await?;
            session.out.done()
        }
    }
}
