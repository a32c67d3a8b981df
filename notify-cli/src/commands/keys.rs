//! `notify keys` (admin API).

use clap::{Args, Subcommand};
use notify_client::notify_core::CreateKey;

use crate::{
    failure::Failure,
    output::view,
    session::{Session, known},
};

/// Which application.
#[derive(Debug, Args)]
pub(crate) struct AppArgs {
    /// Name or id of the application; may be left out when there is exactly one.
    #[arg(long, value_name = "NAME|ID")]
    pub(crate) app: Option<String>,
}

/// `notify keys`.
#[derive(Debug, Subcommand)]
pub(crate) enum Keys {
    /// Create an API key. It is shown this once.
    Create {
        /// What it is for.
        #[arg(long)]
        name: Option<String>,
        #[command(flatten)]
        app: AppArgs,
    },
    /// List the API keys, without their secrets.
    List(AppArgs),
    /// Revoke an API key at once.
    Revoke {
        /// Id of the key.
        id: String,
        #[command(flatten)]
        app: AppArgs,
    },
}

/// Runs the command.
pub(crate) async fn run(command: Keys, session: &mut Session) -> Result<(), Failure> {
    let notify = session.notify()?;
    match command {
        Keys::Create { name, app } => {
            let app = session.app(app.app.as_deref()).await?;
            let created = notify.admin().create_key(app, &CreateKey { name }).await?;
            session.out.show(&created, &view::KEY_CREATED)
        }
        Keys::List(app) => {
            let app = session.app(app.app.as_deref()).await?;
            let keys = notify.admin().list_keys(app).await?;
            session.out.show(&keys, &view::KEYS)
        }
        Keys::Revoke { id, app } => {
            let id = known("key", &id)?;
            let app = session.app(app.app.as_deref()).await?;
            notify.admin().revoke_key(app, id).await?;
            session.out.done()
        }
    }
}
