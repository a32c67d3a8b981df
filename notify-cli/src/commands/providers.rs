//! `notify providers` (admin API).

use std::path::PathBuf;

use clap::Subcommand;
use notify_client::notify_core::ProviderKind;
use serde_json::Value;

use super::keys::AppArgs;
use crate::{failure::Failure, input, output::view, session::Session};

/// `notify providers`.
#[derive(Debug, Subcommand)]
pub(crate) enum Providers {
    /// Configure a provider.
    Put {
        /// Which provider.
        #[arg(value_parser = input::provider())]
        provider: ProviderKind,
        /// Its configuration as JSON; for fcm also Google's service account as downloaded. `-` for
        /// standard input.
        file: PathBuf,
        #[command(flatten)]
        app: AppArgs,
    },
    /// Show a provider's configuration, without its secrets.
    Get {
        /// Which provider.
        #[arg(value_parser = input::provider())]
        provider: ProviderKind,
        #[command(flatten)]
        app: AppArgs,
    },
    /// List the configured providers.
    List(AppArgs),
    /// Check the credentials against the provider; nobody gets anything.
    Test {
        /// Which provider.
        #[arg(value_parser = input::provider())]
        provider: ProviderKind,
        #[command(flatten)]
        app: AppArgs,
    },
    /// Let deliveries go on that are held.
    Resume {
        /// Which provider.
        #[arg(value_parser = input::provider())]
        provider: ProviderKind,
        #[command(flatten)]
        app: AppArgs,
    },
    /// Remove a provider.
    Delete {
        /// Which provider.
        #[arg(value_parser = input::provider())]
        provider: ProviderKind,
        #[command(flatten)]
        app: AppArgs,
    },
}

/// Runs the command.
pub(crate) async fn run(command: Providers, session: &mut Session) -> Result<(), Failure> {
    let notify = session.notify()?;
    match command {
        Providers::Put { provider, file, app } => {
            let config = configuration(provider, &input::read(&file)?)?;
            let app = session.app(app.app.as_deref()).await?;
            notify.admin().put_provider(app, provider, &config).await?;
            session.out.done()
        }
        Providers::Get { provider, app } => {
            let app = session.app(app.app.as_deref()).await?;
            let view = notify.admin().get_provider(app, provider).await?;
            session.out.show(&view, &view::PROVIDER)
        }
        Providers::List(app) => {
            let app = session.app(app.app.as_deref()).await?;
            let list = notify.admin().list_providers(app).await?;
            session.out.show(&list, &view::PROVIDERS)
        }
        Providers::Test { provider, app } => {
            let app = session.app(app.app.as_deref()).await?;
            let checked = notify.admin().test_provider(app, provider).await?;
            session.out.show(&checked, &view::PROVIDER_CHECKED)?;
            // Scripts look at the status alone.
            if checked.ok { Ok(()) } else { Err(Failure::Unwell { failed: 1 }) }
        }
        Providers::Resume { provider, app } => {
            let app = session.app(app.app.as_deref()).await?;
            notify.admin().resume_provider(app, provider).await?;
            session.out.done()
        }
        Providers::Delete { provider, app } => {
            let app = session.app(app.app.as_deref()).await?;
            notify.admin().delete_provider(app, provider).await?;
            session.out.done()
        }
    }
}

/// The body of the call. A service account by itself is put where it belongs. The error does not
/// repeat the file, which holds secrets.
fn configuration(provider: ProviderKind, bytes: &[u8]) -> Result<Value, Failure> {
    let config: Value = serde_json::from_slice(bytes).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        Failure::Usage(format!("the configuration is not JSON (line {line}, column {column})"))
    })?;
    if provider == ProviderKind::Fcm && config["type"] == "service_account" {
        return Ok(serde_json::json!({ "service_account": config }));
    }
    Ok(config)
}
