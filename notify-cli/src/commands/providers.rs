//! `notify providers` (admin API).

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use notify_client::{
    Client, Error,
    notify_core::{AppId, ProviderKind, ProviderStatus, ProviderView},
};
use serde_json::{Map, Value};

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
Examples:
  notify providers put apns --key AuthKey_KEY1234567.p8 --team-id TEAM123456 \\
    --topic com.example.app
  notify providers put fcm service-account.json --enriched-as-data
  notify providers put webpush --subject mailto:you@your.domain
  notify providers put telegram --bot-token-file token.txt
  notify providers put messenger --page-access-token-file page.txt --app-secret-file app.txt

The topic of apns is the bundle id of the app. The service account of fcm is Google's JSON as
downloaded (Firebase console, Project settings, Service accounts, Generate new private key). The
token of telegram comes from @BotFather. Options replace the fields of FILE with the same name.";

/// `notify providers`.
#[derive(Debug, Subcommand)]
pub(crate) enum Providers {
    /// Configure a provider. Replaces its whole configuration.
    #[command(after_help = PUT_HELP)]
    Put {
        /// The provider.
        #[arg(value_parser = input::provider())]
        provider: ProviderKind,
        /// Its configuration as JSON; for fcm also Google's service account as downloaded, for apns also the
        /// .p8 file. `-` for standard input.
        file: Option<PathBuf>,
        #[command(flatten)]
        app: AppArgs,
        #[command(flatten)]
        fields: Box<FieldArgs>,
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
        Providers::Put { provider, file, fields, app } => {
            let given = fields.of(provider)?;
            let mut config = match file {
                Some(file) => configuration(provider, &file, &input::read(&file)?)?,
                None if given.is_empty() => return Err(no_configuration(provider)),
                None => Value::Object(Map::new()),
            };
            if let Some(object) = config.as_object_mut() {
                object.extend(given);
            }
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

/// The error of a command without a configuration.
fn no_configuration(provider: ProviderKind) -> Failure {
    let options = match provider {
        ProviderKind::Apns => "--key AuthKey_KEY1234567.p8 --team-id ID --topic BUNDLE_ID",
        ProviderKind::Fcm => "service-account.json",
        ProviderKind::WebPush => "--subject mailto:you@your.domain",
        ProviderKind::Messenger => "--page-access-token-file FILE",
        ProviderKind::Telegram => "--bot-token-file FILE",
    };
    Failure::Usage(format!("no configuration: `notify providers put {provider} {options}`"))
}

/// Apple's id of the key in a file with Apple's name for it: `AuthKey_KEY1234567.p8`.
fn key_id_of(file: &Path) -> Option<String> {
    let name = file.file_name()?.to_str()?;
    let id = name.strip_prefix("AuthKey_")?.strip_suffix(".p8")?;
    id.bytes().all(|byte| byte.is_ascii_alphanumeric()).then(|| id.to_owned())
}

/// Fields of a configuration as options. Secrets come from files, because other users can see a command line.
#[derive(Debug, Args)]
#[command(next_help_heading = "Configuration")]
pub(crate) struct FieldArgs {
    /// apns: the .p8 file with the key; `-` for standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    key: Option<PathBuf>,
    /// apns: Apple's id of the key; by default from the name of the .p8 file.
    #[arg(long, value_name = "ID")]
    key_id: Option<String>,
    /// apns: Apple's id of the team.
    #[arg(long, value_name = "ID")]
    team_id: Option<String>,
    /// apns: the bundle id of the app.
    #[arg(long, value_name = "BUNDLE_ID")]
    topic: Option<String>,
    /// fcm: send notifications with a campaign or a poll as data only.
    #[arg(long)]
    enriched_as_data: bool,
    /// webpush: the contact for push services, `mailto:` or `https:`.
    #[arg(long, value_name = "URL")]
    subject: Option<String>,
    /// webpush: a file with the VAPID key (default: the server keeps or creates one).
    #[arg(long, value_name = "FILE")]
    vapid_private_key_file: Option<PathBuf>,
    /// messenger: a file with the access token of the page.
    #[arg(long, value_name = "FILE")]
    page_access_token_file: Option<PathBuf>,
    /// messenger: a file with the app secret.
    #[arg(long, value_name = "FILE")]
    app_secret_file: Option<PathBuf>,
    /// messenger: a file with the verify token of the webhook.
    #[arg(long, value_name = "FILE")]
    verify_token_file: Option<PathBuf>,
    /// telegram: a file with the token of the bot.
    #[arg(long, value_name = "FILE")]
    bot_token_file: Option<PathBuf>,
    /// telegram: a file with the secret of the webhook.
    #[arg(long, value_name = "FILE")]
    webhook_secret_file: Option<PathBuf>,
}

impl FieldArgs {
    /// The fields that were given. It is an error if one belongs to another provider.
    fn of(&self, provider: ProviderKind) -> Result<Map<String, Value>, Failure> {
        use ProviderKind as Kind;
        let key_id = self.key_id.clone().or_else(|| self.key.as_deref().and_then(key_id_of));
        let texts = [
            (Kind::Apns, "--key-id", "key_id", key_id),
            (Kind::Apns, "--team-id", "team_id", self.team_id.clone()),
            (Kind::Apns, "--topic", "topic", self.topic.clone()),
            (Kind::WebPush, "--subject", "subject", self.subject.clone()),
        ];
        let files = [
            (Kind::Apns, "--key", "private_key", &self.key),
            (
                Kind::WebPush,
                "--vapid-private-key-file",
                "vapid_private_key",
                &self.vapid_private_key_file,
            ),
            (
                Kind::Messenger,
                "--page-access-token-file",
                "page_access_token",
                &self.page_access_token_file,
            ),
            (Kind::Messenger, "--app-secret-file", "app_secret", &self.app_secret_file),
            (Kind::Messenger, "--verify-token-file", "verify_token", &self.verify_token_file),
            (Kind::Telegram, "--bot-token-file", "bot_token", &self.bot_token_file),
            (Kind::Telegram, "--webhook-secret-file", "webhook_secret", &self.webhook_secret_file),
        ];
        let mut fields = Map::new();
        let mut add = |owner: Kind, option: &str, field: &str, value: Value| {
            if owner != provider {
                return Err(Failure::Usage(format!("{option} is an option of {owner}")));
            }
            fields.insert(field.to_owned(), value);
            Ok(())
        };
        for (owner, option, field, text) in texts {
            if let Some(text) = text {
                add(owner, option, field, text.into())?;
            }
        }
        if self.enriched_as_data {
            add(Kind::Fcm, "--enriched-as-data", "enriched_as_data", true.into())?;
        }
        for (owner, option, field, file) in files {
            if let Some(file) = file {
                add(owner, option, field, secret(file)?.into())?;
            }
        }
        Ok(fields)
    }
}

/// The text of a file with a secret, without white space around it.
fn secret(file: &Path) -> Result<String, Failure> {
    let text = String::from_utf8(input::read(file)?)
        .map_err(|_| Failure::Usage(format!("{}: is not UTF-8", file.display())))?;
    Ok(text.trim().to_owned())
}

/// Reads the request body from a file. For FCM, the file may be Google's service account, which the body
/// contains as a field. No error repeats parts of the file, because it contains secrets.
fn configuration(provider: ProviderKind, file: &Path, bytes: &[u8]) -> Result<Value, Failure> {
    let name =
        if file == Path::new("-") { "standard input".into() } else { file.display().to_string() };
    let invalid = |text: String| Err(Failure::Usage(format!("{name} {text}")));
    let is_pem = bytes.trim_ascii_start().starts_with(b"-----BEGIN");
    if is_pem && provider == ProviderKind::Apns {
        let Ok(key) = std::str::from_utf8(bytes) else { return invalid("is not UTF-8".to_owned()) };
        let key_id = key_id_of(file).map(|id| ("key_id".to_owned(), id.into()));
        let fields = [("private_key".to_owned(), key.into())].into_iter().chain(key_id);
        return Ok(Value::Object(fields.collect()));
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
