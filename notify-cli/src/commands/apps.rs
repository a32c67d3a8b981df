//! `notify apps` (admin API).

use clap::Subcommand;
use notify_client::{
    Client, Error,
    notify_core::{AppCreated, AppId, CreateApp, SetWebAccess, UpdateApp, pluralize},
};

use super::paging::{self, PageArgs};
use crate::{
    confirm::{self, ConfirmArgs},
    failure::Failure,
    output::view,
    session::Session,
};

/// `notify apps`.
#[derive(Debug, Subcommand)]
pub(crate) enum Apps {
    /// Create an application. Commands accept names as ids, so the name must be a new one.
    Create {
        /// Its name, the default title of its notifications.
        name: String,
        /// Its language code (default: `en`).
        #[arg(long, value_name = "CODE")]
        language: Option<String>,
        /// If an application has this name, print its id and change nothing.
        #[arg(long)]
        if_missing: bool,
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
        /// Its new name, which no other application may have.
        #[arg(long, group = "change")]
        name: Option<String>,
        /// Its new language code.
        #[arg(long, value_name = "CODE", group = "change")]
        language: Option<String>,
        /// Its new status. The server refuses the keys of a suspended application.
        #[arg(long, value_parser = ["active", "suspended"], group = "change")]
        status: Option<String>,
        /// What happens after a crash to messages that were being sent to Messenger or Telegram, and to raw
        /// data messages: `repeat` sends them again, `skip` ends them as failed.
        #[arg(long, value_parser = ["repeat", "skip"], group = "change")]
        on_crash: Option<String>,
    },
    /// Set or show the pages that may subscribe browsers without an API key.
    Web {
        /// Its name or id.
        app: String,
        /// Origin of a page, such as `https://shop.example`; repeatable. Replaces the earlier origins,
        /// tags and push services.
        #[arg(long = "origin", value_name = "ORIGIN")]
        origins: Vec<String>,
        /// Tag that a browser may set on itself; repeatable.
        #[arg(long = "tag", value_name = "NAME", requires = "origins")]
        tags: Vec<String>,
        /// Host of a push service that browsers may use, such as `fcm.googleapis.com`, or
        /// `*.push.apple.com` for all names below a domain; repeatable (default: the push services of
        /// Chrome, Firefox, Safari and Edge).
        #[arg(long = "push-service", value_name = "HOST", requires = "origins")]
        push_services: Vec<String>,
        /// Revoke the access of all pages.
        #[arg(long, conflicts_with = "origins")]
        off: bool,
    },
    /// Delete an application with all its data.
    Delete {
        /// Its name or id.
        app: String,
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
}

/// Runs the command.
pub(crate) async fn run(command: Apps, session: &mut Session) -> Result<(), Failure> {
    let notify = session.client()?;
    let admin = notify.admin();
    match command {
        Apps::Create { name, language, if_missing } => {
            create(CreateApp { name, language }, if_missing, session).await
        }
        Apps::List(page) => {
            let query = page.query();
            let (first, all) = (admin.list_apps(&query), admin.all_apps(&query));
            paging::show(page.all, first, all, session, &view::APPS).await
        }
        Apps::Get { app } => {
            let record = admin
                .get_app(session.named_app(&app).await?)
                .await
                .map_err(Failure::unknown_id("application", &app))?;
            session.out.show(&record, &view::APP)
        }
        Apps::Update { app, name, language, status, on_crash } => {
            let id = session.named_app(&app).await?;
            if let Some(name) = &name {
                check_name_is_unused(name, id, session).await?;
            }
            let change = UpdateApp { name, language, status, on_crash };
            admin
                .update_app(id, &change)
                .await
                .map_err(Failure::unknown_id("application", &app))?;
            session.out.done()
        }
        Apps::Web { app, off: true, .. } => {
            let id = session.named_app(&app).await?;
            admin.clear_web_access(id).await.map_err(Failure::unknown_id("application", &app))?;
            session.out.done()
        }
        Apps::Web { app, origins, tags, push_services, off: false } => {
            let app = session.named_app(&app).await?;
            if !origins.is_empty() {
                let access = SetWebAccess {
                    allowed_origins: origins,
                    allowed_tags: Some(tags),
                    push_services: Some(push_services).filter(|hosts| !hosts.is_empty()),
                };
                admin
                    .set_web_access(app, &access)
                    .await
                    .map_err(Failure::unknown_id("application", &app))?;
            }
            show_web(app, session).await
        }
        Apps::Delete { app, confirm } => {
            let id = session.named_app(&app).await?;
            if confirm.is_required()? {
                confirm_delete(&notify, id).await?;
            }
            admin.delete_app(id).await.map_err(Failure::unknown_id("application", &app))?;
            session.out.done()
        }
    }
}

async fn create(app: CreateApp, if_missing: bool, session: &mut Session) -> Result<(), Failure> {
    let name = &app.name;
    let created = match session.apps_named(name).await?.as_slice() {
        [] => session.client()?.admin().create_app(&app).await?,
        [id] if if_missing => AppCreated { id: *id },
        [id] => {
            return Err(Failure::AlreadyExists(format!(
                "an application has the name `{name}`: {id}; --if-missing prints that id"
            )));
        }
        several => {
            let count = several.len();
            return Err(Failure::AlreadyExists(format!(
                "{count} applications have the name `{name}`"
            )));
        }
    };
    session.out.show(&created, &view::CREATED)
}

/// Fails if another application has the name. Commands accept names as ids, so names must be unique.
async fn check_name_is_unused(
    name: &str,
    own_id: AppId,
    session: &mut Session,
) -> Result<(), Failure> {
    let apps = session.apps_named(name).await?;
    match apps.iter().find(|id| **id != own_id) {
        Some(id) => {
            Err(Failure::AlreadyExists(format!("an application has the name `{name}`: {id}")))
        }
        None => Ok(()),
    }
}

async fn confirm_delete(notify: &Client, id: AppId) -> Result<(), Failure> {
    let app = notify.admin().get_app(id).await.map_err(Failure::unknown_id("application", &id))?;
    let keys = notify.admin().list_keys(id).await?.keys.len();
    let what = format!(
        "This deletes the application `{}` ({id}) with its devices, notifications, campaigns, feeds, \
         webhooks, providers and {}. It cannot be undone.",
        app.name,
        pluralize(keys, "API key")
    );
    confirm::ask_for_name(&what, &app.name)
}

/// Prints the web access. After a table, it also prints the code that a page needs to subscribe browsers.
async fn show_web(app: AppId, session: &mut Session) -> Result<(), Failure> {
    let notify = session.client()?;
    let access = match notify.admin().get_web_access(app).await {
        Err(Error::NotFound { .. }) => {
            let record = notify.admin().get_app(app).await;
            let name = record.map_err(Failure::unknown_id("application", &app))?.name;
            return Err(Failure::NoMatch(format!(
                "no page may subscribe browsers of `{name}`: --origin allows one"
            )));
        }
        access => access?,
    };
    session.out.show(&access, &view::WEB_ACCESS)?;
    if !session.out.is_human_readable() {
        return Ok(());
    }
    let server = session.server().unwrap_or_default().trim_end_matches('/').to_owned();
    let snippet = format!(
        "
In the page:
  <script src=\"{server}/sdk/notify.js\"></script>
  <script>
    Notify.init({{ app: '{app}' }});
    // From a click: Notify.subscribe();
  </script>
As /notify-sw.js of the site:
  importScripts('{server}/sdk/notify-sw.js');
"
    );
    session.out.text(snippet.as_bytes())
}
