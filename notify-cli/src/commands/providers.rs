//! `notify providers` (admin API).

use std::path::{Path, PathBuf};

use clap::Subcommand;
use notify_client::{
    Client, Error,
    notify_core::{AppId, ProviderKind, ProviderStatus, ProviderView},
};
use serde_json::Value;

use super::keys::AppArgs;
use crate::{
    confirm::{self, ConfirmArgs},
    failure::Failure,
    input,
    output::{self, view},
    session::Session,
};

const EXPECTED_BY_FCM: &str = "fcm expects Google's service account JSON as downloaded (Firebase \
    console, Project settings, Service accounts, Generate new private key)";

const PUT_HELP: &str = "\
For fcm: Google's service account JSON as downloaded (Firebase console, Project settings, Service
accounts, Generate new private key).

For apns the text of the .p8 file goes into `private_key`:
  jq -n --rawfile key AuthKey_KEY1234567.p8 '{team_id: \"TEAM123456\", key_id: \"KEY1234567\",
    private_key: $key, topic: \"com.example.app\"}' | notify providers put apns -

For webpush: {\"subject\": \"mailto:you@your.domain\"}, a contact for push services.
For messenger: {\"page_access_token\": \"...\", \"app_secret\": \"...\", \"verify_token\": \"...\"}.
For telegram: {\"bot_token\": \"...\"}, the token from @BotFather.";

/// `notify providers`.
#[derive(Debug, Subcommand)]
pub(crate) enum Providers {
    /// Configure a provider.
    #[command(after_help = PUT_HELP)]
    Put {
        /// The provider.
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
        /// The provider.
        #[arg(value_parser = input::provider())]
        provider: ProviderKind,
        #[command(flatten)]
        app: AppArgs,
    },
    /// List the configured providers.
    List(AppArgs),
    /// Check the credentials with the provider. No device receives anything.
    Test {
        /// The provider.
        #[arg(value_parser = input::provider())]
        provider: ProviderKind,
        #[command(flatten)]
        app: AppArgs,
    },
    /// Resume deliveries that are held.
    Resume {
        /// The provider.
        #[arg(value_parser = input::provider())]
        provider: ProviderKind,
        #[command(flatten)]
        app: AppArgs,
    },
    /// Remove a provider.
    Delete {
        /// The provider.
        #[arg(value_parser = input::provider())]
        provider: ProviderKind,
        #[command(flatten)]
        app: AppArgs,
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
}

/// Runs the command.
pub(crate) async fn run(command: Providers, session: &mut Session) -> Result<(), Failure> {
    let notify = session.client()?;
    match command {
        Providers::Put { provider, file, app } => {
            let config = configuration(provider, &file, &input::read(&file)?)?;
            let app = session.app(app.app.as_deref()).await?;
            let result = notify.admin().put_provider(app, provider, &config).await;
            result.map_err(Failure::unknown_id("application", &app))?;
            session.out.done()
        }
        Providers::Get { provider, app } => {
            let app = session.app(app.app.as_deref()).await?;
            let view = notify.admin().get_provider(app, provider).await;
            let view = view.map_err(not_configured(provider, app))?;
            session.out.show(&view, &view::PROVIDER)
        }
        Providers::List(app) => {
            let app = session.app(app.app.as_deref()).await?;
            let list = notify.admin().list_providers(app).await;
            let list = list.map_err(Failure::unknown_id("application", &app))?;
            session.out.show(&list, &view::PROVIDERS)
        }
        Providers::Test { provider, app } => {
            let app = session.app(app.app.as_deref()).await?;
            let checked = notify.admin().test_provider(app, provider).await;
            let checked = checked.map_err(not_configured(provider, app))?;
            session.out.show(&checked, &view::PROVIDER_CHECKED)?;
            if !checked.ok {
                // Scripts check only the exit status.
                return Err(Failure::CheckFailed(format!("{provider}: {}", checked.detail)));
            }
            Ok(())
        }
        Providers::Resume { provider, app } => {
            let app = session.app(app.app.as_deref()).await?;
            let before = notify.admin().get_provider(app, provider).await;
            let before = before.map_err(not_configured(provider, app))?;
            let resumed = notify.admin().resume_provider(app, provider).await;
            resumed.map_err(not_configured(provider, app))?;
            session.out.done()?;
            if was_available(&before) {
                session.out.flush()?;
                output::print_message("no deliveries were held");
            }
            Ok(())
        }
        Providers::Delete { provider, app, confirm } => {
            let app = session.app(app.app.as_deref()).await?;
            if confirm.is_required()? {
                confirm_delete(&notify, app, provider).await?;
            }
            let deleted = notify.admin().delete_provider(app, provider).await;
            deleted.map_err(not_configured(provider, app))?;
            session.out.done()
        }
    }
}

async fn confirm_delete(
    notify: &Client,
    app: AppId,
    provider: ProviderKind,
) -> Result<(), Failure> {
    let record = notify.admin().get_app(app).await;
    let name = record.map_err(Failure::unknown_id("application", &app))?.name;
    let vapid_warning = match provider {
        ProviderKind::WebPush => {
            " Its VAPID key is deleted too: every browser has to subscribe again."
        }
        _ => "",
    };
    confirm::ask(&format!(
        "Remove the provider {provider} of the application `{name}` with its \
         credentials? Pending deliveries through it fail.{vapid_warning} This cannot be undone."
    ))
}

/// Whether the provider and all of its push services were available when the view was read. `services` lists
/// only push services that are not available.
fn was_available(provider: &ProviderView) -> bool {
    let Some(channel) = &provider.channel else { return false };
    channel.status == ProviderStatus::Available && channel.services.is_empty()
}

/// Converts the error of a call. A 404 means that the application does not have the provider.
fn not_configured(provider: ProviderKind, app: AppId) -> impl FnOnce(Error) -> Failure {
    Failure::not_found(format!(
        "{provider} is not configured in an application with the id `{app}`"
    ))
}

/// Reads the request body from a file. For FCM, the file may be Google's service account, which the body
/// contains as a field. No error repeats parts of the file, because it contains secrets.
fn configuration(provider: ProviderKind, file: &Path, bytes: &[u8]) -> Result<Value, Failure> {
    let name =
        if file == Path::new("-") { "standard input".into() } else { file.display().to_string() };
    let invalid = |text: String| Err(Failure::Usage(format!("{name} {text}")));
    let is_pem = bytes.trim_ascii_start().starts_with(b"-----BEGIN");
    if is_pem && provider == ProviderKind::Apns {
        return invalid(format!(
            "is only the key: its text goes into `private_key`, next to `team_id`, `key_id` and \
             `topic`: jq -n --rawfile key {} '{{team_id: \"TEAM123456\", key_id: \"KEY1234567\", \
             private_key: $key, topic: \"com.example.app\"}}' | notify providers put apns -",
            if file == Path::new("-") { "key.p8".into() } else { file.display().to_string() }
        ));
    }
    if is_pem && provider == ProviderKind::Fcm {
        return invalid(format!("is only a key: {EXPECTED_BY_FCM}"));
    }
    let config: Value = match serde_json::from_slice(bytes) {
        Ok(config) => config,
        Err(error) => {
            let (line, column) = (error.line(), error.column());
            return invalid(format!("is not JSON (line {line}, column {column})"));
        }
    };
    if provider != ProviderKind::Fcm || config.get("service_account").is_some() {
        return Ok(config);
    }
    if config["type"] == "service_account" {
        return Ok(serde_json::json!({ "service_account": config }));
    }
    invalid(match config.get("project_info") {
        Some(_) => format!("is the configuration of the app: {EXPECTED_BY_FCM}"),
        None => format!("is not a service account: {EXPECTED_BY_FCM}"),
    })
}
