//! `notify keys` (admin API).

use clap::{Args, Subcommand};
use notify_client::{
    Client, Error,
    notify_core::{AppId, CreateKey, KeyId, KeyScope, RotateKey, Timestamp},
};

use crate::{
    confirm::{self, ConfirmArgs},
    failure::Failure,
    input,
    output::{self, view},
    session::Session,
};

/// The application of a command.
#[derive(Debug, Args)]
pub(crate) struct AppArgs {
    /// Name or id of the application; optional if there is only one.
    #[arg(long, value_name = "NAME|ID")]
    pub(crate) app: Option<String>,
}

/// `notify keys`.
#[derive(Debug, Subcommand)]
pub(crate) enum Keys {
    /// Create an API key and print it. It is shown only once.
    Create {
        /// Its purpose.
        #[arg(long)]
        name: Option<String>,
        /// What it may do; repeatable (default: everything).
        #[arg(long, value_name = "SCOPE", value_parser = KeyScope::NAMES, value_delimiter = ',')]
        scope: Vec<String>,
        /// When it expires: a span from now like `90d`, or a time; at most ten years ahead. It
        /// does not expire by default.
        #[arg(long, value_name = "TIME", value_parser = input::future_instant)]
        expires_in: Option<Timestamp>,
        /// Create a publishable key, with which apps register their own devices under /device/v1.
        #[arg(long, conflicts_with = "scope")]
        publishable: bool,
        /// Tag that apps may set with the publishable key; repeatable (default: none).
        #[arg(long = "allow-tag", value_name = "NAME", requires = "publishable")]
        allowed_tags: Vec<String>,
        /// Attribute that apps may set with the publishable key; repeatable (default: none).
        #[arg(long = "allow-attribute", value_name = "NAME", requires = "publishable")]
        allowed_attributes: Vec<String>,
        #[command(flatten)]
        app: AppArgs,
    },
    /// List the API keys, without their secrets.
    List(AppArgs),
    /// Create the successor of an API key, with the same name, scopes and lifetime, and print it. It is shown
    /// only once. The rotated key expires after the overlap.
    Rotate {
        /// Name or id of the key.
        #[arg(value_name = "NAME|ID")]
        id: String,
        /// How long the rotated key stays valid, such as `12h`; at most `30d` (default: one day).
        #[arg(long, value_name = "SPAN", value_parser = input::span_seconds)]
        overlap: Option<u32>,
        #[command(flatten)]
        app: AppArgs,
    },
    /// Revoke an API key at once.
    Revoke {
        /// Name or id of the key.
        #[arg(value_name = "NAME|ID")]
        id: String,
        #[command(flatten)]
        app: AppArgs,
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
}

/// Runs the command.
pub(crate) async fn run(command: Keys, session: &mut Session) -> Result<(), Failure> {
    let notify = session.client()?;
    match command {
        Keys::Create {
            name,
            scope,
            expires_in: expires_at,
            publishable,
            allowed_tags,
            allowed_attributes,
            app,
        } => {
            let app = session.app(app.app.as_deref()).await?;
            let key = if publishable {
                CreateKey::publishable(allowed_tags, allowed_attributes)
            } else {
                let scopes = Some(scope).filter(|scopes| !scopes.is_empty());
                CreateKey { scopes, ..CreateKey::default() }
            };
            let key = CreateKey { name, expires_at, ..key };
            let created = notify.admin().create_key(app, &key).await;
            let created = created.map_err(Failure::unknown_id("application", &app))?;
            session.out.show(&created, &view::KEY_CREATED)
        }
        Keys::List(app) => {
            let app = session.app(app.app.as_deref()).await?;
            let keys = notify.admin().list_keys(app).await;
            let keys = keys.map_err(Failure::unknown_id("application", &app))?;
            session.out.show(&keys, &view::KEYS)
        }
        Keys::Rotate { id, overlap: overlap_seconds, app } => {
            let app = session.app(app.app.as_deref()).await?;
            let id = session.named_key(app, &id).await?;
            let rotated = notify.admin().rotate_key(app, id, &RotateKey { overlap_seconds }).await;
            let created = rotated.map_err(unknown_key(app, id))?;
            session.out.show(&created, &view::KEY_CREATED)
        }
        Keys::Revoke { id, app, confirm } => {
            let app = session.app(app.app.as_deref()).await?;
            let id = session.named_key(app, &id).await?;
            if confirm.is_required()? {
                confirm_revoke(&notify, app, id).await?;
            }
            let revoked = notify.admin().revoke_key(app, id).await;
            revoked.map_err(unknown_key(app, id))?;
            session.out.done()
        }
    }
}

fn unknown_key(app: AppId, id: KeyId) -> impl FnOnce(Error) -> Failure {
    Failure::not_found(format!("no key of the application {app} has the id `{id}`"))
}

async fn confirm_revoke(notify: &Client, app: AppId, id: KeyId) -> Result<(), Failure> {
    let keys = notify.admin().list_keys(app).await;
    let keys = keys.map_err(Failure::unknown_id("application", &app))?.keys;
    let Some(key) = keys.into_iter().find(|key| key.id == id) else {
        return Err(Failure::NoMatch(format!("no key has the id `{id}`")));
    };
    let app = notify.admin().get_app(app).await?.name;
    let name = key.name.map_or_else(String::new, |name| format!(" `{name}`"));
    let last_use = key.last_used_at.map_or_else(
        || "never used".to_owned(),
        |at| format!("last used on {}", output::day(at.as_ms())),
    );
    confirm::ask(&format!(
        "Revoke the API key{name} ({}, {last_use}) of the application `{app}`? The server refuses it at \
         once. This cannot be undone.",
        key.hint
    ))
}
