//! `notify admin-keys`, `notify sessions` and `notify audit` (admin API).

use clap::{Args, Subcommand};
use notify_client::notify_core::{CreateAdminKey, KeyId, ListAudit, RenameKey, SessionId};

use super::paging::{self, PageArgs};
use crate::{
    confirm::{self, ConfirmArgs},
    failure::Failure,
    output::{self, view},
    session::{Session, parse_id},
};

/// `notify admin-keys`.
#[derive(Debug, Subcommand)]
pub(crate) enum AdminKeys {
    /// Create an admin key and print it. It is shown only once.
    Create {
        /// Who uses it, or what for.
        #[arg(long)]
        name: Option<String>,
    },
    /// List the admin keys, without their secrets.
    List,
    /// Rename an admin key.
    Rename {
        /// Name or id of the key.
        #[arg(value_name = "NAME|ID")]
        id: String,
        /// Its new name.
        name: String,
    },
    /// Revoke an admin key at once, and end the console sessions that it signed in.
    Revoke {
        /// Name or id of the key.
        #[arg(value_name = "NAME|ID")]
        id: String,
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
}

/// `notify sessions`.
#[derive(Debug, Subcommand)]
pub(crate) enum Sessions {
    /// List the sessions of the console, newest first.
    List(PageArgs),
    /// End a session of the console.
    End {
        /// Id of the session.
        id: String,
    },
}

/// Arguments of `notify audit`.
#[derive(Debug, Args)]
pub(crate) struct Audit {
    /// Only changes of this application.
    #[arg(long, value_name = "NAME|ID")]
    app: Option<String>,
    #[command(flatten)]
    page: PageArgs,
}

/// Runs `notify admin-keys`.
pub(crate) async fn run_admin_keys(
    command: AdminKeys,
    session: &mut Session,
) -> Result<(), Failure> {
    let notify = session.client()?;
    let admin = notify.admin();
    let unknown = |id: &KeyId| Failure::not_found(format!("no admin key has the id `{id}`"));
    match command {
        AdminKeys::Create { name } => {
            let created = admin.create_admin_key(&CreateAdminKey { name }).await?;
            session.out.show(&created, &view::ADMIN_KEY_CREATED)
        }
        AdminKeys::List => {
            let keys = admin.list_admin_keys().await?;
            session.out.show(&keys, &view::ADMIN_KEYS)
        }
        AdminKeys::Rename { id, name } => {
            let id = session.named_admin_key(&id).await?;
            admin.rename_admin_key(id, &RenameKey { name }).await.map_err(unknown(&id))?;
            session.out.done()
        }
        AdminKeys::Revoke { id, confirm } => {
            let id = session.named_admin_key(&id).await?;
            if confirm.is_required()? {
                let keys = admin.list_admin_keys().await?.keys;
                let Some(key) = keys.into_iter().find(|key| key.id == id) else {
                    return Err(Failure::NoMatch(format!("no admin key has the id `{id}`")));
                };
                let name = key.name.map_or_else(String::new, |name| format!(" `{name}`"));
                let used = key.last_used_at.map_or_else(
                    || "never used".to_owned(),
                    |at| format!("last used on {}", output::day(at.as_ms())),
                );
                confirm::ask(&format!(
                    "Revoke the admin key{name} ({}, {used})? The server refuses it at once and ends \
                     its console sessions. This cannot be undone.",
                    key.hint
                ))?;
            }
            admin.revoke_admin_key(id).await.map_err(unknown(&id))?;
            session.out.done()
        }
    }
}

/// Runs `notify sessions`.
pub(crate) async fn run_sessions(command: Sessions, session: &mut Session) -> Result<(), Failure> {
    let notify = session.client()?;
    let admin = notify.admin();
    match command {
        Sessions::List(page) => {
            let query = page.query();
            let (first, all) = (admin.list_sessions(&query), admin.all_sessions(&query));
            paging::show(page.all, first, all, session, &view::SESSIONS).await
        }
        Sessions::End { id } => {
            let id: SessionId = parse_id("session", &id)?;
            let ended = admin.end_session(id).await;
            ended.map_err(Failure::not_found(format!("no session has the id `{id}`")))?;
            session.out.done()
        }
    }
}

/// Runs `notify audit`.
pub(crate) async fn run_audit(args: Audit, session: &mut Session) -> Result<(), Failure> {
    let notify = session.client()?;
    let app_id = match &args.app {
        Some(app) => Some(session.named_app(app).await?),
        None => None,
    };
    let page = args.page.query();
    let query = ListAudit { limit: page.limit, cursor: page.cursor, app_id };
    let admin = notify.admin();
    let (first, all) = (admin.list_audit(&query), admin.all_audit(&query));
    paging::show(args.page.all, first, all, session, &view::AUDIT).await
}
